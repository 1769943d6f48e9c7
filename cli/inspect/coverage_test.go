package inspect

import (
	"testing"

	"github.com/kausality-io/function-kausality/admission/gating"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// TestManagedGaps covers KR-10-08, KR-08-22.
func TestManagedGaps(t *testing.T) {
	masked := func(gate string) map[string]string {
		return map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`, v1alpha1.AnnotationKeyGate: gate}
	}
	mr := func(policies []string, annotations map[string]string) *cluster.Object {
		return &cluster.Object{State: &parent.State{Role: parent.RoleManaged, ManagementPolicies: policies, Annotations: annotations}, Comparable: true}
	}
	blind, gone, paused := mr([]string{"Observe"}, masked(`{"state":"closed"}`)), mr([]string{"Observe"}, masked(`{"state":"closed"}`)), mr([]string{"*"}, nil)
	blind.Comparable = false
	gone.Comparable, gone.Gone = false, true
	paused.Paused = true
	cases := map[string]struct {
		reason string
		object *cluster.Object
		want   map[Gap]string
	}{
		"Closed":      {"as it should be", mr([]string{"Observe"}, masked(`{"state":"closed"}`)), map[Gap]string{}},
		"Open":        {"for what, for people", mr([]string{"Observe", "Update"}, masked(`{"state":"open","verbs":["Update"]}`)), map[Gap]string{GapOpen: "for [Update]"}},
		"Unmasked":    {"not idle yet", mr([]string{"*"}, nil), map[Gap]string{GapUngated: "the gate is installed once it is Ready, Synced and idle"}},
		"NoObserve":   {"a mask would add a verb", mr([]string{"Create", "Update"}, nil), map[Gap]string{GapUngated: "its author did not give Observe"}},
		"ObserveOnly": {"its author lets the provider do nothing", mr([]string{"Observe"}, nil), nil},
		"Nothing":     {"paused by its author", mr([]string{}, nil), nil},
		"Blind":       {"nothing to compare", blind, map[Gap]string{GapBlind: "the provider reports nothing that can be compared"}},
		"BlindGone":   {"that it is gone would not be seen", mr([]string{"Observe", "LateInitialize"}, masked(`{"state":"closed"}`)), map[Gap]string{GapBlind: gating.UnknownGoneUnseen.Why()}},
		"Gone":        {"that it is gone can be seen", gone, map[Gap]string{}},
		"Paused":      {"both", paused, map[Gap]string{GapPaused: "", GapUngated: "the gate is installed once it is Ready, Synced and idle"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, managedGaps(tc.object)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// Each gap has its place and its sentence.
func TestGapsExplained(t *testing.T) {
	if len(gapOrder) != len(Explained) {
		t.Errorf("%d gaps have an order, %d a sentence", len(gapOrder), len(Explained))
	}
	for _, g := range gapOrder {
		if Explained[g] == "" {
			t.Errorf("%s has no sentence", g)
		}
	}
}
