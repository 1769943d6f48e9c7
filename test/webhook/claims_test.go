package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// poison changes a part so that the API server refuses it after the webhook
// allowed it.
func (s *fixture) poison(part string, n int) error {
	_, err := s.of(s.ctrl).Patch(s.t.Context(), part, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"count":%d,"poison":true}}`, n), metav1.PatchOptions{})
	return err
}

// mustPoison: the webhook allows the change, and the schema refuses it.
func (s *fixture) mustPoison(part string, n int) {
	s.t.Helper()
	if err := s.poison(part, n); !kerrors.IsInvalid(err) || refused(err, "Drift") {
		s.t.Fatalf("want the schema's refusal, got %v", err)
	}
}

// TestClaimIsReleased: a claim whose write was not stored is released after 30
// seconds, and not before; then another change may use the approval (KR-05-36).
func TestClaimIsReleased(t *testing.T) {
	t.Parallel()
	s := newFixture(t, startFleet(t, "given", options{replicas: 1}), "given")
	s.settled("one", "two")
	s.wildcard(100)
	began := time.Now()
	s.mustPoison("one", 1)
	mustRefuse(t, s.count(s.ctrl, "two", 1), "Drift")
	wait.For(t, "the claim to be released", 50*time.Second, func(context.Context) error { return s.count(s.ctrl, "two", 2) })
	if took := time.Since(began); took < 29*time.Second {
		t.Errorf("the claim was released after %s: a write may still have been on its way", took)
	}
	mustRefuse(t, s.count(s.ctrl, "one", 3), "Drift")
	s.finished(1)
}

// TestPendingClaimSurvivesRestart: after kill -9 the claim still belongs to its
// use, and to no other.
func TestPendingClaimSurvivesRestart(t *testing.T) {
	t.Parallel()
	s := newFixture(t, startFleet(t, "pending", options{replicas: 1}), "pending")
	s.settled("one", "two")
	s.wildcard(100)
	s.mustPoison("one", 1)
	if n := s.claims(v1alpha1.ClaimPending); n != 1 {
		t.Fatalf("%d claims are pending, want 1", n)
	}
	s.reborn(0)
	mustRefuse(t, s.count(s.ctrl, "two", 1), "Drift")
	mustRefuse(t, s.count(s.ctrl, "one", 2), "Drift") // another difference
	s.mustPoison("one", 1)                            // the same use again
	if n := s.claims(v1alpha1.ClaimPending); n != 1 {
		t.Fatalf("%d claims are pending, want 1", n)
	}
}

// TestApprovalAfterRestart: the first that a replica hears of an App is its approval,
// so that it reads the App live when the change comes, which is its last review of
// it. Still the approval is used up.
func TestApprovalAfterRestart(t *testing.T) {
	t.Parallel()
	s := newFixture(t, startFleet(t, "after", options{replicas: 1}), "after")
	s.settled("part")
	s.reborn(0)
	s.wildcard(100)
	require.NoError(t, s.count(s.ctrl, "part", 1))
	s.finished(1)
}

// TestClaimsAnnotationIsTakenOnce: the JSON patch by which we claim, in both its
// forms, lets one of two takers win on the real API server.
func TestClaimsAnnotationIsTakenOnce(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, name: "given"}
	ns := f.namespace("taken", false)
	client := the.as(t, hans).Resource(f.resource("apps")).Namespace(ns)
	path := "/metadata/annotations/kausality.io~1claims"
	forms := map[string]struct {
		annotations map[string]string
		patch       string
	}{
		"Absent": {annotations: map[string]string{"a": "b"},
			patch: `[{"op":"test","path":%q,"value":null},{"op":"add","path":%q,"value":"[%d]"}]`},
		"Present": {annotations: map[string]string{v1alpha1.AnnotationKeyClaims: "[]"},
			patch: `[{"op":"test","path":%q,"value":"[]"},{"op":"replace","path":%q,"value":"[%d]"}]`},
	}
	for form, tc := range forms {
		for round := range rounds {
			name := fmt.Sprintf("%c-%d", form[0]|0x20, round)
			o := object(f.name, "App", ns, name, map[string]any{})
			o.SetAnnotations(tc.annotations)
			_, err := client.Create(t.Context(), o, metav1.CreateOptions{})
			require.NoError(t, err)
			won := together(parallel, func(i int) error {
				_, err := client.Patch(t.Context(), name, types.JSONPatchType, fmt.Appendf(nil, tc.patch, path, path, i), metav1.PatchOptions{})
				return err
			})
			if won.n != 1 {
				t.Fatalf("%s: %d takers won", form, won.n)
			}
			for _, err := range won.refusals {
				if !kerrors.IsInvalid(err) && !kerrors.IsConflict(err) {
					t.Errorf("%s: a loser must get Invalid or Conflict, got %v", form, err)
				}
			}
		}
	}
}

// TestApprovalStoredWithoutReview: where the approval was written without a
// review, there is no claims annotation to test; still one use wins.
func TestApprovalStoredWithoutReview(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "spread", options{replicas: 3})
	s := newFixture(t, f, "spread")
	s.settled("one", "two", "three", "four")
	parts := []string{"one", "two", "three", "four"}
	for round := 1; round <= 5; round++ {
		s.unguarded(func() error {
			_, err := s.apps(s.hans).Patch(t.Context(), "app", types.MergePatchType, fmt.Appendf(nil,
				`{"metadata":{"annotations":{%q:null,%q:"[{\"kind\":\"*\",\"name\":\"*\",\"mode\":\"once\",\"generation\":%d}]"}}}`,
				v1alpha1.AnnotationKeyClaims, v1alpha1.AnnotationKeyApprovals, 100+round), metav1.PatchOptions{})
			if _, has := s.get().GetAnnotations()[v1alpha1.AnnotationKeyClaims]; err == nil && has {
				err = fmt.Errorf("the webhook still looks")
			}
			return err
		})
		won := together(len(parts), func(i int) error { return s.count(s.ctrl, parts[i], round) })
		if won.n != 1 {
			t.Fatalf("round %d: %d changes passed by one once approval: %v", round, won.n, won.refusals)
		}
	}
	f.proxy.spread(t)
}

// unguarded removes the namespace from the fleet, repeats do until it succeeds
// without the webhook, calls then, and adds the namespace to the fleet again.
func (s *fixture) unguarded(do func() error, then ...func()) {
	s.t.Helper()
	label := func(value string) {
		_, err := s.hans.Resource(namespaces).Patch(s.t.Context(), s.ns, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, fleetLabel, value), metav1.PatchOptions{})
		require.NoError(s.t, err)
	}
	label("null")
	wait.For(s.t, "the namespace to be unguarded", wait.Patience, func(context.Context) error { return do() })
	for _, f := range then {
		f()
	}
	label(fmt.Sprintf("%q", s.name))
	wait.For(s.t, "the namespace to be guarded", wait.Patience, func(context.Context) error {
		o := object(s.name, "Part", s.ns, "", map[string]any{"count": int64(0)})
		o.SetGenerateName("probe-")
		got, err := s.of(s.hans).Create(s.t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
		if err == nil && got.GetAnnotations()[v1alpha1.AnnotationKeyTrace] == "" {
			err = fmt.Errorf("it is not traced")
		}
		return err
	})
}
