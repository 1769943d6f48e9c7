package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestManagedGaps of managed resources in mode enforce (KR-10-08, KR-08-22).
func TestManagedGaps(t *testing.T) {
	masked := func(gate string) map[string]string {
		return map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`, v1alpha1.AnnotationKeyGate: gate}
	}
	mr := func(policies []string, annotations map[string]string) *states.Object {
		return &states.Object{State: &parent.State{Role: parent.RoleManaged, ManagementPolicies: policies, Annotations: annotations},
			External: gating.Observed{Comparable: true}}
	}
	blind, gone, paused := mr([]string{"Observe"}, masked(`{"state":"closed"}`)), mr([]string{"Observe"}, masked(`{"state":"closed"}`)), mr([]string{"*"}, nil)
	blind.External.Comparable = false
	gone.External.Comparable, gone.External.Gone = false, true
	paused.Paused = true
	cases := map[string]struct {
		reason string
		object *states.Object
		want   map[Gap]string
	}{
		"Closed": {reason: "as it should be", object: mr([]string{"Observe"}, masked(`{"state":"closed"}`)),
			want: map[Gap]string{}},
		"Open": {reason: "for what, as a clause", object: mr([]string{"Observe", "Update"}, masked(`{"state":"open","verbs":["Update"]}`)),
			want: map[Gap]string{GapOpen: "for [Update]"}},
		"Unmasked": {reason: "not idle yet", object: mr([]string{"*"}, nil),
			want: map[Gap]string{GapUngated: "the gate is installed once it is Ready, Synced and idle"}},
		"NoObserve": {reason: "a mask would add a verb", object: mr([]string{"Create", "Update"}, nil),
			want: map[Gap]string{GapUngated: "its author did not include Observe"}},
		"ObserveOnly": {reason: "its author lets the provider do nothing", object: mr([]string{"Observe"}, nil),
			want: nil},
		"Nothing": {reason: "paused by its author", object: mr([]string{}, nil),
			want: nil},
		"Blind": {reason: "nothing to compare", object: blind,
			want: map[Gap]string{GapBlind: "the provider reports nothing that can be compared"}},
		"BlindGone": {reason: "that it is gone would not be seen", object: mr([]string{"Observe", "LateInitialize"}, masked(`{"state":"closed"}`)),
			want: map[Gap]string{GapBlind: gating.UnknownGoneUnseen.Why()}},
		"Gone": {reason: "that it is gone can be seen", object: gone,
			want: map[Gap]string{}},
		"Paused": {reason: "both", object: paused,
			want: map[Gap]string{GapPaused: "", GapUngated: "the gate is installed once it is Ready, Synced and idle"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, managedGaps(tc.object)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestGapsExplained: each gap has an order and a sentence.
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
