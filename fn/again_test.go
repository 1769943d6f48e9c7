package fn

import (
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestRunAgain: Crossplane runs a step again with the context that it returned, until its requirements are met. What it held before it knew
// the policies, it does not hold for an earlier step then; what one does hold, it still does (KR-09-28).
func TestRunAgain(t *testing.T) {
	s := newStage(t, following)
	s.installed(clusterApproval(map[string]any{"kind": "Thing", "mode": "always"}))
	want := desire{"b": plain("x"), "c": plain("x")}
	s.reconcile(want)
	s.settle(want)
	want["b"], want["d"] = plain("y"), plain("z")
	for name, earlier := range map[string]bool{"the only step": false, "after one that holds": true} {
		t.Run(name, func(t *testing.T) {
			req := s.request(want)
			req.Context = &structpb.Struct{}
			if earlier {
				before := proto.Clone(req).(*fnv1.RunFunctionRequest)
				before.RequiredResources, before.Meta.Tag = nil, "before"
				req.Context = s.run(before).GetContext()
			}
			first := proto.Clone(req).(*fnv1.RunFunctionRequest)
			first.RequiredResources = nil
			held := s.run(first)
			require.Equal(t, v1alpha1.ConditionReasonHeld, held.GetConditions()[0].GetReason())
			require.NotEmpty(t, held.GetContext().GetFields()[contextKey])

			again := proto.Clone(req).(*fnv1.RunFunctionRequest)
			again.Context = held.GetContext()
			got, fresh := s.run(again), s.run(req)
			if d := cmp.Diff(fresh, got, protocmp.Transform()); d != "" {
				t.Errorf("-at once +after a run without the policies\n%s", d)
			}
			reason := v1alpha1.ConditionReasonAllowed
			if earlier {
				reason = v1alpha1.ConditionReasonHeld
			}
			require.Equal(t, reason, got.GetConditions()[0].GetReason())
		})
	}
}
