package admission

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A message states what was changed, by whom, why it is refused and how to
// approve it (KR-05-23).
func TestMessages(t *testing.T) {
	const approve = "kubectl annotate xdatabases.example.org db kausality.io/approve-"
	namespaced := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		return fx.With(o, fx.Set("team", "metadata", "namespace"))
	}
	d, rs := fx.DeploymentAndReplicaSet()
	cases := map[string]struct {
		reason string
		xr     []fx.Mod
		req    *Request
		prep   func(*memoryWorld)
		want   []string
	}{
		"Drift": {reason: "everything", req: byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			want: []string{"Drift: changing spec.forProvider.size of Instance inst by system:serviceaccount:crossplane-system:crossplane is not " +
				"allowed: it is an unrequested change",
				"XDatabase db has not changed since it settled at generation 5", "composition revision db-rev-2", approve, "=once"}},
		"Create": {reason: "what", req: byCrossplane(Create, fx.Unmasked()), want: []string{"creating Instance inst", approve}},
		"Delete": {reason: "what", req: byCrossplane(Delete, fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan"))),
			want: []string{"deleting Instance inst", approve}},
		"Nameless": {reason: "a name that is not known", req: byCrossplane(Create, fx.With(fx.Unmasked(), generated)),
			want: []string{"creating Instance (name to be generated)"}},
		"ManyFields": {reason: "no more than fit",
			req:  byCrossplane(Update, fx.Instance(), fx.Set(map[string]any{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}, "spec", "forProvider")),
			want: []string{"and 2 more"}},
		"Namespaced": {reason: "the command names the namespace; a kind without a known plural goes by kind and group",
			req: by(byCrossplane(Update, rs, fx.Set(int64(9), "spec", "replicas")), fx.Deployer, ""), prep: func(w *memoryWorld) { w.add(d) },
			want: []string{"changing spec.replicas of ReplicaSet team/web-1", "kubectl annotate -n team deployment.apps web kausality.io/approve-"}},
		"Frozen": {reason: "by whom, when, why, and how to unfreeze", xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, freezeValue)},
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			want: []string{"Frozen: ", "XDatabase db was frozen by bob at 2026-01-02T00:00:00Z (audit)",
				"kubectl annotate xdatabases.example.org db kausality.io/freeze-"}},
		"Rejected": {reason: "its reason", xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)},
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), want: []string{"Rejected: ", "not today"}},
		"UsedUp": {reason: "an approval that no longer holds is named",
			xr:   []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","generation":1}]`)},
			req:  byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			want: []string{"the approval in annotation kausality.io/approvals is used up or out of date", approve}},
		"NotFound": {reason: "which parent", req: byCrossplane(Update, namespaced(fx.Instance()), fx.Resize("l")), prep: gone,
			want: []string{"ParentNotFound: ", "its parent XDatabase team/db does not exist"}},
		"Unreadable": {reason: "a user must try again", req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Alice, ""),
			prep: func(w *memoryWorld) { w.err = errors.New("forbidden") },
			want: []string{"ParentUnreadable: ", "forbidden", "Try again. If it persists, the resource of XDatabase must be in a Kausality policy"}},
		"UnreadableForAController": {reason: "a controller does", req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Crossplane, ""),
			prep: func(w *memoryWorld) { w.err = errors.New("forbidden") }, want: []string{"The controller retries by itself."}},
		"Deletion": {reason: "both ways out", req: by(byCrossplane(Delete, fx.Instance()), fx.Alice, ""),
			want: []string{"ExternalDeletionNotAllowed: deleting Instance inst by alice", "its gate is closed", approve,
				"kubectl annotate instances.aws.example.org inst kausality.io/deletion=orphan"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{xr: tc.xr, prep: tc.prep}.world(), enforced(), tc.req)
			for _, want := range tc.want {
				if !strings.Contains(d.Message, want) {
					t.Errorf("%s: %q is missing from: %s", tc.reason, want, d.Message)
				}
			}
			if strings.Contains(d.Message, approve) && (d.Digest == "" || d.Suggestion != approve+d.Digest.ID()+"=once" ||
				!strings.Contains(d.Message, d.Suggestion)) {
				t.Errorf("%s: id %q, suggestion %q", tc.reason, d.Digest.ID(), d.Suggestion)
			}
		})
	}
}

func generated(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "name")
	_ = unstructured.SetNestedField(o.Object, "inst-", "metadata", "generateName")
}

// Exactly what the message suggests makes the same request pass: with a claim,
// once; again while that use is under way; and no other use (KR-02-07, KR-07-05, KR-05-33).
func TestSuggestionApproves(t *testing.T) {
	orphan := fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")
	for name, fresh := range map[string]func() *Request{
		"Update": func() *Request { return byCrossplane(Update, fx.Instance(), fx.Resize("l")) },
		"Create": func() *Request { return byCrossplane(Create, fx.Unmasked()) },
		"Delete": func() *Request { return byCrossplane(Delete, fx.Instance(), orphan) },
	} {
		t.Run(name, func(t *testing.T) {
			refusal := decide(t, setting{}.world(), enforced(), fresh())
			xr := annotatedBy(t, fx.Composite(), refusal.Suggestion)
			// The annotation itself is admitted by us, on the XR.
			w := newWorld()
			admitted := decide(t, w, enforced(), by(byCrossplane(Update, fx.Composite(),
				func(o *unstructured.Unstructured) { o.SetAnnotations(xr.GetAnnotations()) }), fx.Alice, "kubectl"))
			xr = apply(xr, admitted)
			w.add(xr)

			first := decide(t, w, enforced(), fresh())
			if !first.Allowed || first.Reason != outcome.ReasonApproved || first.Claim == nil {
				t.Fatalf("want it approved with a claim, got %+v: %s", outcomeOf(first), first.Message)
			}
			if c := first.Claim; c.Stored != xr.GetAnnotations()[v1alpha1.AnnotationKeyClaims] || !c.HasStored || c.Holder.Name != "db" || c.ID == "" {
				t.Errorf("the claim rests on %+v", c)
			}
			if w.liveReads != 1 {
				t.Errorf("%d live reads before a claim", w.liveReads)
			}
			if name != "Delete" {
				hop := first.Trace.Own().Approval
				if hop == nil || hop.Claim != first.Claim.ID || hop.Digest != refusal.Digest.ID() || hop.Mode != v1alpha1.ApprovalOnce {
					t.Errorf("the hop must name the approval, got %+v", hop)
				}
			}
			w.add(fx.With(xr, fx.Annotate(v1alpha1.AnnotationKeyClaims, first.Claim.Value)))
			if again := decide(t, w, enforced(), fresh()); !again.Allowed || again.Claim != nil {
				t.Errorf("a retry of the same use: %+v, claim %v", outcomeOf(again), again.Claim)
			}
			other := fresh()
			other.User.Name = fx.Deployer.Name
			w.live["XDatabase/db"].Annotations[v1alpha1.AnnotationKeyControllers] = fx.Crossplane.Hash() + "," + fx.Deployer.Hash()
			w.live["XDatabase/db"].Annotations[v1alpha1.AnnotationKeyControllerIDs] = fx.Crossplane.ID() + "," + fx.Deployer.ID()
			if d := decide(t, w, enforced(), other); d.Allowed && d.Class == outcome.ClassDrift {
				t.Errorf("another use passed by the same approval: %+v", outcomeOf(d))
			}
			used := approval.ParseClaims(first.Claim.Value).Set(first.Claim.ID, v1alpha1.ClaimUsed, fx.Noon)
			w.add(fx.With(xr, fx.Annotate(v1alpha1.AnnotationKeyClaims, used.String())))
			if d := decide(t, w, enforced(), fresh()); d.Allowed {
				t.Error("used up, and passed all the same")
			}
		})
	}
}

// annotatedBy runs the kubectl annotate that a message suggests.
func annotatedBy(t *testing.T, o *unstructured.Unstructured, command string) *unstructured.Unstructured {
	t.Helper()
	words := strings.Fields(command)
	k, v, ok := strings.Cut(words[len(words)-1], "=")
	if !ok || words[0] != "kubectl" {
		t.Fatalf("no command: %q", command)
	}
	return fx.With(o, fx.Annotate(k, v))
}

// A difference approved is that difference and no other (KR-05-31).
func TestSuggestionApprovesNothingElse(t *testing.T) {
	refusal := decide(t, setting{}.world(), enforced(), byCrossplane(Update, fx.Instance(), fx.Resize("l")))
	w := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+refusal.Digest.ID(), "always")}}.world()
	if d := decide(t, w, enforced(), byCrossplane(Update, fx.Instance(), fx.Resize("l"))); !d.Allowed || d.Claim != nil {
		t.Errorf("always needs no claim: %+v", outcomeOf(d))
	}
	for name, req := range map[string]*Request{
		"value":     byCrossplane(Update, fx.Instance(), fx.Resize("xl")),
		"field":     byCrossplane(Update, fx.Instance(), fx.Set("us", "spec", "forProvider", "region")),
		"both":      byCrossplane(Update, fx.Instance(), fx.Resize("l"), fx.Set("us", "spec", "forProvider", "region")),
		"operation": byCrossplane(Create, fx.Unmasked(), fx.Resize("l")),
	} {
		if d := decide(t, w, enforced(), req); d.Allowed {
			t.Errorf("another %s passed", name)
		}
	}
}

// An approval that our webhook never admitted (it was down) is usable, and its
// retry finds the claim.
func TestApprovalNeverAdmitted(t *testing.T) {
	once := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","name":"inst"}]`)
	w := setting{xr: []fx.Mod{once}}.world()
	first := decide(t, w, enforced(), byCrossplane(Update, fx.Instance(), fx.Resize("l")))
	if first.Claim == nil || first.Claim.HasStored {
		t.Fatalf("want a first claim, got %+v", first.Claim)
	}
	if c := approval.ParseClaims(first.Claim.Value)[0]; c.Generation < 5 {
		t.Errorf("released, a claim of generation %d is stale at once", c.Generation)
	}
	w.add(fx.With(fx.Composite(), once, fx.Annotate(v1alpha1.AnnotationKeyClaims, first.Claim.Value)))
	if again := decide(t, w, enforced(), byCrossplane(Update, fx.Instance(), fx.Resize("l"))); !again.Allowed || again.Claim != nil {
		t.Errorf("its retry: %+v", outcomeOf(again))
	}
}

// A reinvocation is recognised by the claim in the hop, even without a name; a
// retry of a nameless CREATE is a new use (KR-05-34, KR-05-25).
func TestNamelessReinvocation(t *testing.T) {
	once := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","resource":"instance"}]`)
	w := setting{xr: []fx.Mod{once}}.world()
	req := byCrossplane(Create, fx.With(fx.Unmasked(), generated))
	first := decide(t, w, enforced(), req)
	if first.Claim == nil {
		t.Fatalf("got %+v: %s", outcomeOf(first), first.Message)
	}
	w.add(fx.With(fx.Composite(), once, fx.Annotate(v1alpha1.AnnotationKeyClaims, first.Claim.Value)))
	reinvoked := copyRequest(req)
	reinvoked.Object, reinvoked.Time = apply(req.Object, first), req.Time.Add(2*time.Second)
	if d := decide(t, w, enforced(), reinvoked); !d.Allowed || d.Claim != nil || d.Trace.Own().Approval.Claim != first.Claim.ID {
		t.Errorf("the reinvocation: %+v, claim %v", outcomeOf(d), d.Claim)
	}
	if d := decide(t, w, enforced(), req); d.Allowed {
		t.Error("a retry of a nameless CREATE is a new use, and the approval is spent")
	}
	late := copyRequest(reinvoked)
	late.Time = req.Time.Add(time.Hour)
	if d := decide(t, w, enforced(), late); d.Allowed {
		t.Error("a hop copied from another object is no reinvocation")
	}
}

// A lost race is decided again on the parent as it is.
func TestLive(t *testing.T) {
	w := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)}}.world()
	e := &Evaluator{World: w, Options: enforced()}
	if d, err := e.Live(t.Context(), byCrossplane(Update, fx.Instance(), fx.Resize("l"))); err != nil || !d.Allowed || w.liveReads != 1 || w.cachedReads != 0 {
		t.Errorf("%v, %+v, %d live and %d cached reads", err, outcomeOf(d), w.liveReads, w.cachedReads)
	}
}

// No request is refused on the cache alone, and the allowed path reads nothing live (KR-05-20).
func TestLiveReads(t *testing.T) {
	frozen := fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")
	cases := map[string]struct {
		reason      string
		live, cache []fx.Mod
		opts        Options
		req         *Request
		allowed     bool
		reads       int
	}{
		"Expected": {reason: "allowed on the cache", live: []fx.Mod{fx.Unsettled}, opts: enforced(),
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), allowed: true},
		"NewOrigin": {reason: "allowed on the cache", opts: enforced(),
			req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Alice, "kubectl"), allowed: true},
		"NoChange": {reason: "nothing to decide", opts: enforced(), req: byCrossplane(Update, fx.Instance()), allowed: true},
		"Self": {reason: "nothing to decide", opts: enforced(),
			req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Provider, "p"), allowed: true},
		"Drift": {reason: "once before a refusal", opts: enforced(), req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), reads: 1},
		"Frozen": {reason: "once before a refusal", live: []fx.Mod{frozen}, opts: enforced(),
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), reads: 1},
		"Rejected": {reason: "once before a refusal", live: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)},
			opts: enforced(), req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), reads: 1},
		"Deletion": {reason: "once before a refusal", opts: enforced(), req: byCrossplane(Delete, fx.Instance()), reads: 1},
		"LoggedDrift": {reason: "once before a report", opts: Options{}, req: byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			allowed: true, reads: 1},
		"StaleSettled": {reason: "by the cache it settled, the parent has a new intent", live: []fx.Mod{fx.Unsettled}, cache: []fx.Mod{},
			opts: enforced(), req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), allowed: true, reads: 1},
		"StaleFrozen": {reason: "unfrozen a moment ago", live: []fx.Mod{fx.Unsettled}, cache: []fx.Mod{fx.Unsettled, frozen}, opts: enforced(),
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), allowed: true, reads: 1},
		"StaleApproval": {reason: "approved a moment ago", live: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)},
			cache: []fx.Mod{}, opts: enforced(), req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), allowed: true, reads: 1},
		"StaleParent": {reason: "created a moment ago", live: []fx.Mod{fx.Unsettled}, cache: []fx.Mod{fx.Set("old-uid", "metadata", "uid")},
			opts: enforced(), req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), allowed: true, reads: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: tc.live}.world()
			if tc.cache != nil {
				c := newWorld()
				w.cache["XDatabase/db"] = c.add(fx.With(fx.Composite(), tc.cache...))
			}
			d := decide(t, w, tc.opts, tc.req)
			if d.Allowed != tc.allowed || w.liveReads != tc.reads {
				t.Errorf("%s: allowed %t (%s), %d live reads", tc.reason, d.Allowed, d.Reason, w.liveReads)
			}
		})
	}
}

// The report of a drift has the content of the message (KR-10-01, KR-10-03).
func TestReport(t *testing.T) {
	d := decide(t, setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeySnooze, "2026-01-02T12:00:01Z")}}.world(), enforced(),
		byCrossplane(Update, fx.Instance(), fx.Resize("l")))
	r := d.Report
	if r == nil || !r.Snoozed || d.Resolution != outcome.ResolutionSnoozed {
		t.Fatalf("got %+v, %s", r, d.Resolution)
	}
	s := r.Drift
	if s.ID != d.Digest.ID() || s.SuggestedApproval != d.Suggestion || s.Relation != v1alpha1.RelationControllerChild || s.Parent.Name != "db" ||
		s.Child.Name != "inst" ||
		s.Child.Resource != "instance" || s.Operation != "UPDATE" || s.User != fx.Crossplane.Name || s.Cause != "composition revision db-rev-2" {
		t.Errorf("got %+v", s)
	}
	if len(s.Difference) != 1 || s.Difference[0] != (v1alpha1.FieldDifference{Path: "spec.forProvider.size", Verb: "Mutate", Old: `"s"`, New: `"l"`}) {
		t.Errorf("got %+v", s.Difference)
	}
}

// Values of a Secret never leave the cluster (KR-13-01).
func TestReportRedacts(t *testing.T) {
	secret := fx.With(fx.Instance(), fx.Set("v1", "apiVersion"), fx.Set("Secret", "kind"), func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "spec")
		fx.Set("c2VjcmV0", "data", "password")(o)
	})
	d := decide(t, setting{}.world(), enforced(), byCrossplane(Update, secret, fx.Set("aHVudGVyMg==", "data", "password")))
	if d.Report == nil || d.Report.Drift.Difference[0].Old != "<redacted>" || strings.Contains(d.Message, "aHVudGVyMg") {
		t.Errorf("got %+v, %s", d.Report, d.Message)
	}
}
