package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// pendingOf prints changes with what was decided about them.
func pendingOf(t *testing.T, list []v1alpha1.Drift, rulings map[string]channel.Ruling, s scope) string {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	of := func(d *v1alpha1.Drift) channel.Ruling { return rulings[d.Namespace+"/"+d.Name] }
	c := pendingCommand{session: &session{IOStreams: streams}, limit: defaultListed, rulings: of}
	c.view.now = func() time.Time { return day.Add(time.Hour) }
	require.NoError(t, c.print(list, s))
	return out.String() + errOut.String()
}

// TestPendingRuling covers KR-12-30: a rejected change is not offered for approval, and what is frozen, snoozed or voted for is a state of its own.
func TestPendingRuling(t *testing.T) {
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3"}
	rejected, frozen, voted := changed(1, "a", revision), changed(2, "a", revision), changed(3, "a", revision)
	voted.Status.Votes, voted.Status.Lacks = []v1alpha1.Vote{{User: "anna"}}, "1 of 2 approvals (anna); needs 1 more"
	rulings := map[string]channel.Ruling{
		"a/" + rejected.Name: {Rejected: &v1alpha1.Rejection{Reason: "not before the audit"}},
		"a/" + frozen.Name: {Frozen: &identity.Freeze{Freeze: v1alpha1.Freeze{User: "alice", Message: "audit"}, Namespace: "a"},
			Snoozed: &v1alpha1.Snooze{Expiry: metav1.NewTime(day), User: "hans"}},
	}
	out := pendingOf(t, []v1alpha1.Drift{rejected, frozen, voted}, rulings, scope{args: " -n a"})
	for _, want := range []string{
		"STATE", "rejected", "frozen, snoozed", "1 vote",
		"  Lacks: 1 of 2 approvals (anna); needs 1 more, for " + voted.Name + "\n",
		"  Rejected: rejected on XDatabase a/db-1: not before the audit; to withdraw: kubectl kausality reject -n a " + rejected.Name + " --withdraw, for " +
			rejected.Name + "\n",
		"with Namespace a by alice (audit); approvals count once that ends: kubectl annotate namespace a kausality.io/freeze-, for " + frozen.Name + "\n",
		"  Snoozed: snoozed until 2026-01-05T09:00:00Z by hans, for " + frozen.Name + "\n",
		"  To approve: kubectl kausality approve -n a " + frozen.Name + " " + voted.Name + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if out := pendingOf(t, []v1alpha1.Drift{rejected}, rulings, scope{}); strings.Contains(out, "To approve") {
		t.Errorf("a rejected change is offered:\n%s", out)
	}
	if out := pendingOf(t, []v1alpha1.Drift{rejected}, nil, scope{}); strings.Contains(out, "STATE") {
		t.Errorf("an empty column:\n%s", out)
	}
}

// TestPendingFrozen covers KR-12-30: of a frozen object the freeze and what waits behind it are printed, and never that nothing waits.
func TestPendingFrozen(t *testing.T) {
	f := &identity.Freeze{Freeze: v1alpha1.Freeze{User: "alice", Message: "audit"}, Policy: "p"}
	change := inspect.Behind{DriftSpec: changed(1, "a").Spec, Reason: "Frozen"}
	out := pendingOf(t, nil, nil, scope{where: "about XDatabase a/db", freeze: f, behind: []inspect.Behind{change}})
	for _, want := range []string{"with Kausality policy p by alice (audit). To end it: kubectl patch kausality p", "1 change held behind a freeze or a rejection",
		"  frozen: change Database a/db-1-abc: spec.forProvider.tier: \"silver\" → \"gold\", below XDatabase a/db-1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for _, s := range []scope{{freeze: f}, {behind: []inspect.Behind{change}}} {
		if out := pendingOf(t, nil, nil, s); strings.Contains(out, "Nothing waits") || out == "" {
			t.Errorf("it prints:\n%s", out)
		}
	}
}

// TestPendingEdit covers KR-07-14: what reverts an edit is listed apart from the revision's changes, under the name of who edited.
func TestPendingEdit(t *testing.T) {
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3"}
	edit := v1alpha1.HopCause{Kind: v1alpha1.CauseEdit, Name: "hans@example.com"}
	list := []v1alpha1.Drift{changed(1, "a", revision), changed(2, "a", edit), changed(3, "a", edit, revision)}
	out := pendingOf(t, list, nil, scope{})
	for _, want := range []string{"Composition revision xdatabases-7f3: 1 change ", "Edit by hans@example.com: 1 change ", "  An approval reverts that edit.\n",
		"Edit by hans@example.com or composition revision xdatabases-7f3: 1 change "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	found, err := withCause(list, "xdatabases-7f3")
	if err != nil || len(found) != 1 || found[0].Name != list[0].Name {
		t.Errorf("of the revision: %v, %v", found, err)
	}
	if found, err = withCause(list, "edit/hans@example.com"); err != nil || len(found) != 1 {
		t.Errorf("of the edit: %v, %v", found, err)
	}
}

// TestExplainRuling covers KR-12-30.
func TestExplainRuling(t *testing.T) {
	d := changed(1, "a")
	d.Status.Phase, d.Status.Votes = v1alpha1.DriftDetected, []v1alpha1.Vote{{User: "anna"}}
	e := &inspect.Explanation{Undecided: "x", Drifts: []v1alpha1.Drift{d}, Absent: "It is out of date",
		Rulings: map[string]channel.Ruling{d.Name: {Rejected: &v1alpha1.Rejection{Reason: "no"}}},
		Behind:  []inspect.Behind{{DriftSpec: changed(2, "a").Spec, Reason: "Frozen"}}}
	var out bytes.Buffer
	v := view{now: func() time.Time { return day }}
	v.explanation(e).draw(&out)
	for _, want := range []string{"rejected on XDatabase a/db-1: no; to withdraw: ", "voted for, by anna", "It is out of date",
		"frozen: change Database a/db-2-abc"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "kausality approve") {
		t.Errorf("it is offered for approval:\n%s", out.String())
	}
}

// TestComposedOf covers KR-12-31.
func TestComposedOf(t *testing.T) {
	object := func(name, owner, label string) unstructured.Unstructured {
		o := unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(name)
		if owner != "" {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "XDatabase", Name: owner, Controller: new(true)}})
		}
		if label != "" {
			o.SetLabels(map[string]string{"crossplane.io/composite": label})
		}
		return o
	}
	objects := []unstructured.Unstructured{object("b", "orders", ""), object("a", "", "orders"), object("orders-1", "other", ""), object("carts-1", "", "")}
	for name, want := range map[string]string{"orders": "a,b", "carts": "carts-1", "nothing": ""} {
		if have := strings.Join(composedOf(name, objects), ","); have != want {
			t.Errorf("%s: %q, want %q", name, have, want)
		}
	}
	if have := alternatives("database", []string{"1", "2", "3", "4", "5", "6"}); !strings.HasSuffix(have, `"database/5" or one of 1 more`) {
		t.Errorf("it is %s", have)
	}
}

// TestMixedArguments: an argument that is no object is reported, with the form that is expected.
func TestMixedArguments(t *testing.T) {
	for _, args := range [][]string{{"xdatabase/orders", "extra"}, {"xdatabase", "a/b"}} {
		_, err := (&session{}).objects(&cobra.Command{Use: "explain"}, args)
		if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "name objects as TYPE/NAME each") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestUnknownKinds covers KR-12-19: kinds that could not be read are part of the sum, and no command succeeds without them.
func TestUnknownKinds(t *testing.T) {
	found := &inspect.Coverage{Installed: true, Kinds: 7, Objects: 6, Protected: 6,
		Gaps: []inspect.KindGap{{Gap: inspect.GapUnread, Resource: "topics.example.org"}}}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := &coverageCommand{session: &session{IOStreams: streams}}
	require.NoError(t, c.print(found))
	want := "6 of 6 objects of 6 kinds are protected. The objects of 1 further kind could not be read: whether they are protected is unknown.\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("it prints:\n%s", out)
	}
	if err := c.verdict(found); !errors.Is(err, errUnread) {
		t.Errorf("its exit code is of %v", err)
	}
}
