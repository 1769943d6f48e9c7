package gating

import (
	"slices"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const forProvider = "spec.forProvider."

// differs in fields of spec.forProvider.
func differs(fields ...string) (out []change.Change) {
	for _, f := range fields {
		out = append(out, change.Change{Path: forProvider + f, Verb: change.Mutate, Old: "is", New: "should be"})
	}
	return out
}

// TestResume covers KR-08-61: an accepted change that waits for a difference elsewhere is carried out once that is gone.
func TestResume(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	accept := func(gate v1alpha1.Gate, field string, differences ...string) v1alpha1.Gate {
		next, _ := Acceptance{Gate: gate, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Paths: []string{forProvider + field}, Generation: 4, Time: now,
			Difference: differs(differences...)}.Transition()
		return next
	}
	closed := v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonConfirmed, Paths: []string{forProvider + "earlier"},
		External: RecordExternal(parent.NewExternal("bucket", "default"))}
	held := accept(closed, "size", "region")
	held.External = closed.External
	external := func(name string) *parent.External {
		e := parent.NewExternal(name, "default")
		return &e
	}
	managed := func(gate v1alpha1.Gate, fields ...string) Managed {
		s := &parent.State{Role: parent.RoleManaged, Generation: 4, ManagementPolicies: []string{"Observe"}, External: external("bucket"),
			Annotations: map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`, v1alpha1.AnnotationKeyGate: mask.FormatGate(gate)}}
		return Managed{MR: s, Mode: v1alpha1.ModeEnforce, Deadline: time.Hour, Now: now, Live: true,
			Observed: Observed{Comparable: true, Difference: differs(fields...)}, Holders: []identity.Holder{{State: s}}}
	}
	opens := func(g Managed, want ...string) {
		t.Helper()
		d := g.Decide()
		for i, f := range want {
			want[i] = forProvider + f
		}
		switch {
		case d.Action != ActionOpen && len(want) > 0:
			t.Errorf("it stays closed: %s %s", d.Action, d.Why)
		case d.Action == ActionOpen && (!slices.Equal(d.Gate.Paths, want) || !slices.Equal(d.Policies, []string{"Observe", "Update"})):
			t.Errorf("it opens for %v with %v, want %v", d.Gate.Paths, d.Policies, want)
		}
	}
	opens(managed(held, "region", "size"))
	opens(managed(held, "size"), "size")
	opens(managed(held), "size") // what the provider does not report, or cannot be compared
	opens(managed(held, "zone", "size"))
	opens(managed(closed, "earlier")) // nothing was withheld

	t.Run("AnotherChange", func(t *testing.T) {
		both := accept(held, "zone", "region", "size")
		both.External = closed.External
		opens(managed(both, "size", "zone"), "size", "zone")
		if next := accept(held, "zone", "size"); next.State != v1alpha1.GateOpen || len(next.Paths) != 2 {
			t.Errorf("nothing but accepted changes is left: %+v", next)
		}
	})
	t.Run("Stopped", func(*testing.T) {
		g := managed(held, "size")
		g.MR.Annotations[v1alpha1.AnnotationKeyFreeze] = "true"
		opens(g)
		g = managed(held, "size")
		g.Suspended = true
		opens(g)
	})
	t.Run("AnotherExternalResource", func(*testing.T) {
		g := managed(Retarget(held, parent.NewExternal("bucket", "default"), 5, now), "size")
		g.MR.External = external("other")
		opens(g)
		g.MR.External = external("bucket") // and back
		opens(g)
	})
	t.Run("NotGiven", func(*testing.T) {
		g := managed(held, "size")
		g.MR.Annotations[v1alpha1.AnnotationKeyManagementPolicies] = `["Observe","Create","Delete"]`
		opens(g)
	})
}
