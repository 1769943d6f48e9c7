package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	eventually "github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var approvalRules = schema.GroupVersionResource{Group: v1alpha1.Group, Version: "v1alpha1", Resource: v1alpha1.ResourceApprovalRules}

// voters who approve at the same time.
const voters = 6

// TestVotersRace: users who vote for one difference at once, on two replicas of which one is killed meanwhile, have
// one vote each, and the change passes with the last of them (KR-14-02, KR-14-03).
func TestVotersRace(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "voters", options{replicas: 2})
	s := newFixture(t, f, "voters")
	s.settled("part")
	write(t, approvalRules, policy(t, "ApprovalRule", "voters", fmt.Sprintf("match: {namespaces: [voters]}\nrequire: [{count: %d}]\n", voters)))
	inForce(t, approvalRules, "voters")
	id := ""
	eventually.Often(t, "the rule to be in force in the replica that answers", 30*time.Second, func() error {
		err := s.count(s.ctrl, "part", 1)
		if id = mustRefuse(t, err, "Drift"); !strings.Contains(err.Error(), fmt.Sprintf("0 of %d approvals", voters)) {
			return err
		}
		return nil
	})
	var all sync.WaitGroup
	for i := range voters {
		all.Go(func() { s.vote(fmt.Sprintf("voter-%d@example.com", i), id) })
	}
	f.reborn(1)
	all.Wait()
	if got := s.votersOf(id); len(got) != voters {
		t.Errorf("the voters are %v", got)
	}
	eventually.Often(t, "the change to pass", 30*time.Second, func() error { return s.count(s.ctrl, "part", 1) })
	part, err := s.of(s.hans).Get(t.Context(), "part", metav1.GetOptions{})
	require.NoError(t, err)
	hop, err := hopOf(part)
	require.NoError(t, err)
	if hop.Approval == nil || len(hop.Approval.By) != voters {
		t.Errorf("the trace names the approvers %+v", hop.Approval)
	}
}

// vote until the vote is stored: while the annotation of another user is not removed yet, the same one changes nothing.
func (s *fixture) vote(user, id string) {
	c := the.as(s.t, user)
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"once"}}}`, v1alpha1.AnnotationKeyApprovePrefix+id)
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if slices.Contains(s.votersOf(id), user) {
			return true, nil
		}
		_, _ = s.apps(c).Patch(ctx, "app", types.MergePatchType, body, metav1.PatchOptions{}) // again, also where a replica is killed
		return false, nil
	})
	if err != nil {
		s.t.Error(errors.Join(fmt.Errorf("the vote of %s is not stored", user), err))
	}
}

// votersOf a difference, as the App stores them.
func (s *fixture) votersOf(id string) (out []string) {
	o, err := s.apps(s.hans).Get(s.t.Context(), "app", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	var claims []v1alpha1.Claim
	if value := o.GetAnnotations()[v1alpha1.AnnotationKeyClaims]; value != "" && json.Unmarshal([]byte(value), &claims) != nil {
		return nil
	}
	for _, c := range claims {
		if c.Digest != id {
			continue
		}
		for _, v := range c.By {
			out = append(out, v.User)
		}
	}
	return out
}
