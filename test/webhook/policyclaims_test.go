package webhook

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// exceptions is a ClusterApprovalPolicy with a once rule for each of some names
// of Parts, and the fixture it is about.
type exceptions struct {
	*fixture
	name string
}

func (s *fixture) exceptions(names ...string) exceptions {
	s.t.Helper()
	e := exceptions{fixture: s, name: "excepted-" + s.ns}
	rules := ""
	for _, n := range names {
		rules += fmt.Sprintf("- {apiVersion: %s/*, kind: Part, namespace: %s, name: %q, mode: once}\n", s.fleet.name+groupSuffix, s.ns, n+"-?")
	}
	write(s.t, clusterApprovals, policy(s.t, "ClusterApprovalPolicy", e.name, "subjects: [{kind: User, name: "+controller+"}]\nrules:\n"+rules))
	inForce(s.t, clusterApprovals, e.name)
	return e
}

func (e exceptions) status() (out v1alpha1.ApprovalPolicyStatus) {
	e.t.Helper()
	o, err := e.hans.Resource(clusterApprovals).Get(e.t.Context(), e.name, metav1.GetOptions{})
	require.NoError(e.t, err)
	status, _ := o.Object["status"].(map[string]any)
	require.NoError(e.t, runtime.DefaultUnstructuredConverter.FromUnstructured(status, &out))
	return out
}

// claimed are the recorded claims, as in "pending one-1", sorted.
func (e exceptions) claimed() []string {
	e.t.Helper()
	out := []string{}
	for _, c := range e.status().Claims {
		out = append(out, string(c.State)+" "+c.Child.Name)
	}
	slices.Sort(out)
	return out
}

func (e exceptions) mustClaim(want ...string) {
	e.t.Helper()
	if got := e.claimed(); !slices.Equal(got, want) {
		e.t.Fatalf("claims %q, want %q", got, want)
	}
}

// mustLose: the change of a part is allowed, and the answer is lost.
func (e exceptions) mustLose(part string, n int, then func()) {
	e.t.Helper()
	before := e.generation(part)
	e.proxy.lose(then)
	if err := e.count(e.ctrl, part, n); !kerrors.IsInternalError(err) {
		e.t.Fatalf("want the API server not to reach the webhook, got %v", err)
	}
	if after := e.generation(part); after != before {
		e.t.Fatalf("%s was changed, although the answer was lost", part)
	}
}

// TestPolicyClaimIsReleased: a use of a once rule whose change was not stored is
// released after 30 seconds, and not before: where the schema refused the change
// after the webhook, and where the replica was killed when it had claimed the rule
// and had not answered. Until then it belongs to its use, which passes by it when
// it is tried again; and each rule allows one change in total.
func TestPolicyClaimIsReleased(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "excepted", options{replicas: 1, proxied: true})
	s := newFixture(t, f, "excepted")
	s.settled("killed-1", "killed-2", "poisoned-1", "poisoned-2", "retried-1", "retried-2")
	e := s.exceptions("killed", "poisoned", "retried")
	var poisoned time.Time
	wait.For(t, "the rules to be in force", wait.Patience, func(context.Context) error {
		poisoned = time.Now()
		if err := s.poison("poisoned-1", 1); !kerrors.IsInvalid(err) || refused(err, "Drift") {
			return fmt.Errorf("want the schema's refusal, got %w", err)
		}
		return nil
	})
	e.mustClaim("pending poisoned-1")
	mustRefuse(t, s.count(s.ctrl, "poisoned-2", 1), "Drift")

	e.mustLose("retried-1", 1, func() {})
	e.mustClaim("pending poisoned-1", "pending retried-1")
	mustRefuse(t, s.count(s.ctrl, "retried-2", 1), "Drift")
	require.NoError(t, s.count(s.ctrl, "retried-1", 1)) // by the same claim
	mustRefuse(t, s.count(s.ctrl, "retried-1", 2), "Drift")

	killed := time.Now()
	e.mustLose("killed-1", 1, func() { f.crash(0) })
	f.restart(0)
	mustRefuse(t, s.count(s.ctrl, "killed-2", 1), "Drift")
	wait.For(t, "the landed use to be known", wait.Patience, func(context.Context) error {
		if got := e.claimed(); !slices.Contains(got, "used retried-1") || !slices.Contains(got, "pending killed-1") {
			return fmt.Errorf("claims %q", got)
		}
		return nil
	})

	e.passesLater("poisoned-2", poisoned)
	e.passesLater("killed-2", killed)
	for _, part := range []string{"killed-1", "poisoned-1", "retried-2"} {
		mustRefuse(t, s.count(s.ctrl, part, 9), "Drift")
	}
	e.finished()
}

// passesLater: a change is allowed 30 seconds after another one was, and not before.
func (e exceptions) passesLater(part string, since time.Time) {
	e.t.Helper()
	wait.For(e.t, "the claim of "+part+" to be released", 50*time.Second, func(context.Context) error { return e.count(e.ctrl, part, 1) })
	if took := time.Since(since); took < 29*time.Second {
		e.t.Errorf("the claim of %s was released after %s: a write may still have been on its way", part, took)
	}
}

// finished: each rule was used once, and the status reports it.
func (e exceptions) finished() {
	e.t.Helper()
	wait.For(e.t, "all uses to be known and counted", 50*time.Second, func(context.Context) error {
		if got, want := e.claimed(), []string{"used killed-2", "used poisoned-2", "used retried-1"}; !slices.Equal(got, want) {
			return fmt.Errorf("claims %q, want %q", got, want)
		}
		for _, r := range e.status().Rules[:2] { // that of the third was in the memory of the one that was killed
			if r.Uses == 0 || r.LastUsed == nil {
				return fmt.Errorf("rule %s was used %d times, last %v", r.Path, r.Uses, r.LastUsed)
			}
		}
		return nil
	})
}
