package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// unguarded are enforcing Options where requests about composites are not reviewed.
func unguarded() stubs {
	o := stubs{Options: enforced()}
	o.guarded = func(s *parent.State) bool { return s.Role != parent.RoleComposite }
	return o
}

// On a parent that is not guarded no approval counts, and none is suggested; what only
// forbids does (KR-13-15).
func TestApprovalsOfUnguardedParents(t *testing.T) {
	always := fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)
	for name, tc := range map[string]struct {
		xr   []fx.Mod
		opts evaluating
		want outcome.Reason
	}{
		"Guarded":   {xr: []fx.Mod{always}, opts: enforced(), want: outcome.ReasonApproved},
		"Unguarded": {xr: []fx.Mod{always}, opts: unguarded(), want: outcome.ReasonDrift},
		"None":      {opts: unguarded(), want: outcome.ReasonDrift},
		"Frozen":    {xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, freezeValue)}, opts: unguarded(), want: outcome.ReasonFrozen},
		"Rejected":  {xr: []fx.Mod{always, fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)}, opts: unguarded(), want: outcome.ReasonRejected},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{xr: tc.xr}.world(), tc.opts, byCrossplane(Update, fx.Instance(), fx.Resize("l")))
			if d.Reason != tc.want {
				t.Fatalf("want %s, got %s: %s", tc.want, d.Reason, d.Message)
			}
			if tc.want != outcome.ReasonDrift {
				return
			}
			if d.Suggestion != "" || d.Report.Drift.SuggestedApproval != "" || strings.Contains(d.Message, "kubectl annotate") {
				t.Errorf("it suggests an approval that does not count: %s", d.Message)
			}
			if !strings.Contains(d.Message, "Approvals on XDatabase db do not count") {
				t.Errorf("it does not name what to do instead: %s", d.Message)
			}
		})
	}
}

// TestUnseenIntentOfUnguardedParents: where the generation of a parent that is not guarded is later than its last recorded intent, and
// nothing shows why, the refusal names the command that makes an intent known, and the change passes after it (KR-13-75).
func TestUnseenIntentOfUnguardedParents(t *testing.T) {
	hop := fx.Hop(fx.Composite(), 5, "")
	hop.Unattributed = true
	seen := fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())
	for name, tc := range map[string]struct {
		generation int64
		named      bool
	}{"Later": {generation: 6, named: true}, "Same": {generation: 5}} {
		t.Run(name, func(t *testing.T) {
			later := func(o *unstructured.Unstructured) { o.SetGeneration(tc.generation) }
			d := decide(t, setting{xr: []fx.Mod{seen, later}}.world(), unguarded(), byCrossplane(Update, fx.Instance(), fx.Resize("l")))
			if d.Reason != outcome.ReasonDrift {
				t.Fatalf("want a refusal, got %s: %s", d.Reason, d.Message)
			}
			if got := strings.Contains(d.Message, "kubectl annotate xdatabases.example.org db kausality.io/trace-"); got != tc.named {
				t.Errorf("named is %t: %s", got, d.Message)
			}
			made := fx.Annotate(v1alpha1.AnnotationKeyTrace, "")
			d = decide(t, setting{xr: []fx.Mod{seen, later, made}}.world(), unguarded(), byCrossplane(Update, fx.Instance(), fx.Resize("l")))
			if tc.named && !d.Allowed {
				t.Errorf("it is refused after it was made known: %s", d.Message)
			}
		})
	}
}

// The approval of a deletion is suggested where it counts: on the managed resource below a
// parent that is not guarded, and the gate opens by it (KR-13-15).
func TestDeletionBelowUnguardedParent(t *testing.T) {
	always := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","mode":"always","relation":"External","verbs":["Delete"]}]`)
	d := decide(t, setting{xr: []fx.Mod{always}}.world(), unguarded(), by(byCrossplane(Delete, fx.Instance()), fx.Alice, ""))
	if d.Reason != outcome.ReasonExternalDeletion || !strings.HasPrefix(d.Suggestion, "kubectl annotate instances.aws.example.org inst ") {
		t.Fatalf("got %s: %s", d.Reason, d.Message)
	}
	if p := d.Report.Drift.Parent; p.Kind != "Instance" || d.Report.Drift.SuggestedApproval != d.Suggestion {
		t.Errorf("reported on %s %s, suggesting %s", p.Kind, p.Name, d.Report.Drift.SuggestedApproval)
	}
	gate := func(mods ...fx.Mod) gating.Decision {
		mr, xr := parent.Sum(fx.With(fx.Instance(), mods...), parent.RoleManaged), parent.Sum(fx.With(fx.Composite(), always), parent.RoleComposite)
		kind := fx.KindOf(mr.GroupKind())
		return gating.Managed{MR: mr, Kind: kind, Mode: v1alpha1.ModeEnforce, Now: fx.Noon, Live: true, Deadline: gating.DefaultDeadline,
			Holders: []identity.Holder{{State: mr, Kind: kind}, {State: xr, Kind: fx.KindOf(xr.GroupKind()), Unguarded: true}}}.Decide()
	}
	if d := gate(); d.Action != gating.ActionNone {
		t.Errorf("the gate opens by an approval on a parent that is not guarded: %+v", d)
	}
	key, value, _ := strings.Cut(d.Suggestion[strings.LastIndex(d.Suggestion, " ")+1:], "=")
	if d := gate(fx.Annotate(key, value)); d.Action != gating.ActionOpen {
		t.Errorf("the gate does not open by what is suggested: %s", d.Why)
	}
}

// So is that of an object of an external system (KR-13-15).
func TestForeignDeletionBelowUnguardedParent(t *testing.T) {
	below := fx.With(destroying(), owners(owner("db", "xr-uid", true)))
	approve := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","mode":"always","verbs":["destroy"]}]`)
	d := decide(t, setting{xr: []fx.Mod{approve}}.world(), unguarded(), by(byCrossplane(Delete, below), fx.Alice, ""))
	if d.Reason != outcome.ReasonExternalDeletion || !strings.Contains(d.Suggestion, "terraform") {
		t.Fatalf("got %s: %s", d.Reason, d.Message)
	}
	key, value, _ := strings.Cut(d.Suggestion[strings.LastIndex(d.Suggestion, " ")+1:], "=")
	if d := decide(t, setting{}.world(), unguarded(), by(byCrossplane(Delete, fx.With(below, fx.Annotate(key, value))), fx.Alice, "")); !d.Allowed {
		t.Errorf("it is refused as suggested: %s", d.Message)
	}
}
