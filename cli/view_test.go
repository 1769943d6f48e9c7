package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func at(ago time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-ago)) }

// testSession has a fixed clock and no colours.
func testSession() (*session, *bytes.Buffer) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	return &session{IOStreams: streams, view: view{now: func() time.Time { return noon }}}, out
}

// chain is a trace with everything that a hop can hold.
var chain = &inspect.Chain{
	Object: v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "team", Name: "settings"},
	Hops: []v1alpha1.Hop{
		{APIVersion: "example.org/v1", Kind: "Database", Namespace: "team", Name: "orders", Generation: 4, User: "hans@example.com", Timestamp: at(time.Hour),
			Labels: map[string]string{"ticket": "SHOP-1", "app": `the "shop" <x>`}},
		{APIVersion: "example.org/v1", Kind: "XDatabase", Name: "orders-x", ClusterScoped: true, Generation: 7, Unattributed: true, Timestamp: at(50 * time.Minute)},
		{APIVersion: "example.org/v1", Kind: "XStore", Namespace: "team", Generation: 1, Timestamp: at(3 * time.Minute)},
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "team", Name: "settings", User: "system:serviceaccount:a:b",
			Approval: &v1alpha1.HopApproval{Mode: "once", Digest: "1f2e3d4c5b6a7980"}},
	},
	Recorded: true, Notes: []string{"A note."},
}

// TestChain covers each output format of a trace (KR-10-08).
func TestChain(t *testing.T) {
	cases := map[string]struct{ reason, format, want string }{
		"Table": {reason: "user, generation and age; below each hop its labels and approval", format: "", want: `
Database team/orders, generation 4, by hans@example.com, 60m ago
│  app: the "shop" <x>
│  ticket: SHOP-1
└─ XDatabase orders-x (cluster-scoped), generation 7, by an unknown user (unobserved), 50m ago
   └─ XStore team/(name generated), generation 1, by an unknown user, 3m ago
      └─ ConfigMap team/settings, by system:serviceaccount:a:b
            approved (once): difference 1f2e3d4c5b6a7980
A note.
`},
		"Wide": {reason: "times instead of ages", format: "wide", want: `
Database team/orders, generation 4, by hans@example.com, at 2026-01-05T11:00:00Z
│  app: the "shop" <x>
│  ticket: SHOP-1
└─ XDatabase orders-x (cluster-scoped), generation 7, by an unknown user (unobserved), at 2026-01-05T11:10:00Z
   └─ XStore team/(name generated), generation 1, by an unknown user, at 2026-01-05T11:57:00Z
      └─ ConfigMap team/settings, by system:serviceaccount:a:b
            approved (once): difference 1f2e3d4c5b6a7980
A note.
`},
		"Name": {reason: "as kubectl prints names", format: "name", want: `
database.example.org/orders
xdatabase.example.org/orders-x
xstore.example.org/
configmap/settings
`},
		"Mermaid": {reason: "a flowchart; quotes do not end a label", format: "mermaid", want: `
flowchart TD
    h0["Database team/orders, generation 4<br/>by hans@example.com, at 2026-01-05T11:00:00Z<br/>app: the #quot;shop#quot; #lt;x#gt;<br/>ticket: SHOP-1"]
    h1["XDatabase orders-x, generation 7<br/>by an unknown user (unobserved), at 2026-01-05T11:10:00Z"]
    h0 --> h1
    h2["XStore team/(name generated), generation 1<br/>by an unknown user, at 2026-01-05T11:57:00Z"]
    h1 --> h2
    h3["ConfigMap team/settings<br/>by system:serviceaccount:a:b<br/>approved (once): difference 1f2e3d4c5b6a7980"]
    h2 --> h3
`},
		"Dot": {reason: "the language of Graphviz", format: "dot", want: `
digraph trace {
    node [shape=box];
    h0 [label="Database team/orders, generation 4\nby hans@example.com, at 2026-01-05T11:00:00Z\napp: the \"shop\" <x>\nticket: SHOP-1"];
    h1 [label="XDatabase orders-x, generation 7\nby an unknown user (unobserved), at 2026-01-05T11:10:00Z"];
    h0 -> h1;
    h2 [label="XStore team/(name generated), generation 1\nby an unknown user, at 2026-01-05T11:57:00Z"];
    h1 -> h2;
    h3 [label="ConfigMap team/settings\nby system:serviceaccount:a:b\napproved (once): difference 1f2e3d4c5b6a7980"];
    h2 -> h3;
}
`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, out := testSession()
			if err := (&traceCommand{session: s, format: format{value: tc.format}}).print(chain); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), out.String()); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func drift(id, cause string, since time.Duration, d ...v1alpha1.FieldDifference) v1alpha1.Drift {
	s := at(since)
	out := v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Name: id, Namespace: "team", UID: "u"}}
	out.Spec = v1alpha1.DriftSpec{ID: id, Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE", Cause: cause, Difference: d,
		Parent: v1alpha1.ObjectReference{Kind: "XDatabase", Namespace: "team", Name: "orders"},
		Child:  v1alpha1.ObjectReference{Kind: "Database", Namespace: "team", Name: "orders-" + id[:2]}}
	out.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &s, Count: 3}
	return out
}

// TestFrozen covers freezes written by hand, as true or without a time (KR-02-08), and that of a Namespace (KR-14-35).
func TestFrozen(t *testing.T) {
	when := at(time.Hour)
	for name, tc := range map[string]struct {
		freeze v1alpha1.Freeze
		with   string
		want   string
	}{
		"OfTheNamespace": {freeze: v1alpha1.Freeze{User: "hans"}, with: "Namespace shop", want: "frozen with Namespace shop by hans\n"},
		"True":           {freeze: v1alpha1.Freeze{}, want: "frozen\n"},
		"ByHand":         {freeze: v1alpha1.Freeze{User: "hans", Message: "incident"}, want: "frozen by hans: incident\n"},
		"Full":           {freeze: v1alpha1.Freeze{User: "hans", At: &when}, want: "frozen by hans at 2026-01-05T11:00:00Z\n"},
	} {
		s, out := testSession()
		s.view.explanation(&inspect.Explanation{Own: &inspect.Parent{Frozen: &tc.freeze, FrozenWith: tc.with}}).draw(out)
		if !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: want %q in:\n%s", name, tc.want, out)
		}
	}
}

// TestPending groups Drifts by their cause (KR-10-08).
func TestPending(t *testing.T) {
	version := v1alpha1.FieldDifference{Path: "spec.engineVersion", Old: `"15"`, New: `"16"`}
	many := []v1alpha1.FieldDifference{version, {Path: "spec.a", New: "1"}, {Path: "spec.b", Old: "2"}, version, version}
	created, deleted := drift("cc00000000000000", "", time.Minute), drift("dd00000000000000", "", time.Minute)
	external := drift("ee00000000000000", "an actor other than Crossplane changed the external resource", time.Hour, version)
	created.Spec.Operation, created.Spec.Child.Name = "CREATE", ""
	deleted.Spec.Operation, deleted.Spec.Relation = "DELETE", v1alpha1.RelationExternal
	external.Spec.Operation, external.Spec.Relation = "", v1alpha1.RelationExternal
	list := []v1alpha1.Drift{
		drift("aa00000000000000", "composition revision x-2", time.Minute, version), created, deleted,
		drift("bb00000000000000", "composition revision x-2", 12*time.Minute, many...), external,
	}
	s, out := testSession()
	if err := (&pendingCommand{session: s}).print(list, scope{}); err != nil {
		t.Fatal(err)
	}
	want := `Composition revision x-2: 2 changes of 2 objects, since 12m
  ID                 AGE   PARENT                  CHANGE
  aa00000000000000   60s   XDatabase team/orders   change Database team/orders-aa: spec.engineVersion: "15" → "16"
  bb00000000000000   12m   XDatabase team/orders   change Database team/orders-bb: spec.engineVersion: "15" → "16"; spec.a: set to 1; spec.b: 2 removed; 2 more
  To approve: kubectl kausality approve -n team aa00000000000000 bb00000000000000

Unknown cause: 2 changes of 2 objects, since 60s
  ID                 AGE   PARENT                  CHANGE
  cc00000000000000   60s   XDatabase team/orders   create Database team/(name to be generated)
  dd00000000000000   60s   XDatabase team/orders   delete Database team/orders-dd and its external resource
  To approve: kubectl kausality approve -n team cc00000000000000 dd00000000000000

External drift: external resources differ from what Crossplane wants: 1 change of 1 object, since 60m
  an actor other than Crossplane changed the external resource
  ID                 AGE   PARENT                  CHANGE
  ee00000000000000   60m   XDatabase team/orders   change the external resource of Database team/orders-ee: spec.engineVersion: "15" → "16"
  To approve: kubectl kausality approve -n team ee00000000000000
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestFinish covers the exit codes of docs/kubectl.md, and errors on one line.
func TestFinish(t *testing.T) {
	cases := map[string]struct {
		err  error
		code int
		out  string
	}{
		"Success": {code: 0},
		"Failure": {err: errors.New("a\n  b"), code: 1, out: "error: a b\n"},
		"Escapes": {err: errors.New("no \x1b]0;owned\x07context"), code: 1, out: "error: no  ]0;owned context\n"},
		"Usage":   {err: usageError{errors.New("u")}, code: 2, out: "error: u\n"},
		"Timeout": {err: errors.Join(timeoutError{errors.New("t")}), code: 3, out: "error: t\n"},
		"Found":   {err: errFound, code: 4},
		"Unread":  {err: errUnread, code: 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			streams, _, _, errOut := genericiooptions.NewTestIOStreams()
			if code := Finish(streams.ErrOut, tc.err); code != tc.code || errOut.String() != tc.out {
				t.Errorf("want %d %q, got %d %q", tc.code, tc.out, code, errOut.String())
			}
		})
	}
}

// TestPaint: only a terminal gets colours.
func TestPaint(t *testing.T) {
	if painted(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
	if got := paint(true).red("x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("got %q", got)
	}
	if got := paint(false).red("x"); got != "x" {
		t.Errorf("got %q", got)
	}
}

// TestUnrequestedLines covers KR-07-09 and KR-07-10: how a change passed that no intent explains, and its causes.
func TestUnrequestedLines(t *testing.T) {
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdb-2", Author: "alice"}
	for name, tc := range map[string]struct {
		hop  v1alpha1.Hop
		want []string
	}{
		"Requested": {},
		"One": {
			hop:  v1alpha1.Hop{Unrequested: true, Passed: v1alpha1.PassedLog, Causes: []v1alpha1.HopCause{revision}},
			want: []string{"unrequested, passed in mode log", "cause: composition revision xdb-2, by alice"},
		},
		"Several": {
			hop: v1alpha1.Hop{Unrequested: true, Passed: v1alpha1.PassedApproval, Causes: []v1alpha1.HopCause{
				{Kind: v1alpha1.CauseComposition, Name: "xdb-2", Author: "alice", Claimed: true},
				{Kind: v1alpha1.CauseFunction, Name: "fn-1", Manager: "kubectl (Apply)"}, {Kind: v1alpha1.CauseFunction, Name: "fn-2"}}},
			want: []string{"unrequested, passed by an approval", "possible cause: composition revision xdb-2, by alice (a claim)",
				"possible cause: function revision fn-1, by field manager kubectl (Apply), a claim", "possible cause: function revision fn-2"},
		},
		"Narrowed": {hop: v1alpha1.Hop{Passed: v1alpha1.PassedPolicy}, want: []string{"not covered by an allowance, passed by an ApprovalPolicy"}},
		"Unknown":  {hop: v1alpha1.Hop{Unrequested: true, Passed: "Other"}, want: []string{"unrequested, passed Other"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, view{}.hopLines(tc.hop)); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}
