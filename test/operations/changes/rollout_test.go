package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
	"github.com/kausality-io/function-kausality/test/rights"
)

var (
	rollouts       = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)
	rolloutBatches = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRolloutBatches)
)

// crew is a controller that reconciles Apps into other Apps, one each, and wants them larger.
const crew = "system:serviceaccount:apps:app-controller"

// stock of a rollout: Apps that settled, each with a child that its controller wants to change.
type stock struct {
	t  *testing.T
	ns string
	// names of the parents; the child of each has the same name with "-child".
	names []string
	crew  dynamic.Interface
}

func newStock(t *testing.T, ns string, n int) *stock {
	t.Helper()
	s := &stock{t: t, ns: ns, crew: the.As(t, crew)}
	yes := true
	for i := range n {
		name := fmt.Sprintf("app-%02d", i)
		p, err := the.App(t, ns, name)
		require.NoError(t, err)
		child := site.Object("shop.example.org/v1", "App", ns, name+"-child", map[string]any{"size": int64(1)})
		child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: p.GetAPIVersion(), Kind: p.GetKind(), Name: name, UID: p.GetUID(), Controller: &yes}})
		_, err = s.of(s.crew).Create(t.Context(), child, metav1.CreateOptions{})
		require.NoError(t, err)
		s.names = append(s.names, name)
		s.ready(name, "True")
	}
	for _, name := range s.names {
		wait.Often(t, name+" to settle", wait.Patience, func() error {
			o, err := s.of(s.crew).Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] != strconv.FormatInt(o.GetGeneration(), 10) {
				err = errors.New("it has not settled")
			}
			return err
		})
	}
	return s
}

func (s *stock) of(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(site.Apps).Namespace(s.ns)
}

// ready is what the controller reports of a parent.
func (s *stock) ready(name, status string) {
	s.t.Helper()
	wait.For(s.t, "the status of "+name, wait.Patience, func(ctx context.Context) error {
		o, err := s.of(s.crew).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		body := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"conditions":[{"type":"Ready","status":%q,"reason":"Any","lastTransitionTime":%q}]}}`,
			o.GetGeneration(), status, time.Now().UTC().Format(time.RFC3339))
		_, err = s.of(s.crew).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	})
}

// want a larger child, as the controller tries repeatedly.
func (s *stock) want(ctx context.Context, name string) error {
	_, err := s.of(s.crew).Patch(ctx, name+"-child", types.MergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{})
	return err
}

// changed children, by the names of their parents.
func (s *stock) changed() (out []string) {
	s.t.Helper()
	for _, name := range s.names {
		o, err := s.of(s.crew).Get(s.t.Context(), name+"-child", metav1.GetOptions{})
		require.NoError(s.t, err)
		if size, _, _ := unstructured.NestedInt64(o.Object, "spec", "size"); size == 2 {
			out = append(out, name)
		}
	}
	return out
}

// run the controller until the test ends.
func (s *stock) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, name := range s.names {
				_ = s.want(ctx, name) // refused, or away: it tries again
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	s.t.Cleanup(func() { cancel(); wg.Wait() })
}

// rollout as it is.
func (s *stock) rollout(name string) (*v1alpha1.Rollout, error) {
	u, err := the.Admin.Resource(rollouts).Namespace(s.ns).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &v1alpha1.Rollout{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

// until a Rollout is as is wants.
func (s *stock) until(name, what string, is func(*v1alpha1.Rollout) bool) (out *v1alpha1.Rollout) {
	s.t.Helper()
	wait.Often(s.t, "the rollout to be "+what, wait.Patience, func() (err error) {
		if out, err = s.rollout(name); err == nil && !is(out) {
			err = fmt.Errorf("it is %+v", out.Status)
		}
		return err
	})
	return out
}

// causes of the changes that wait.
func (s *stock) causes() (out []v1alpha1.HopCause) {
	s.t.Helper()
	wait.For(s.t, "all changes to wait", wait.Patience, func(ctx context.Context) error {
		list, err := the.Admin.Resource(site.Drifts).Namespace(s.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) < len(s.names) {
			return fmt.Errorf("there are %d Drifts", len(list.Items))
		}
		d := &v1alpha1.Drift{}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[0].Object, d)
		out = d.Spec.Causes
		return err
	})
	return out
}

// TestRollout: what waits for one cause passes in waves, each after the one before is healthy; it stops by itself, and a
// leader that is killed meanwhile loses and doubles nothing (KR-14-50 to KR-14-57): what of a spec means nothing is refused (KR-14-50), a
// Rollout is of one cause (KR-14-51), its plan is approved (KR-14-52) by the votes that a rule requires (KR-14-55), and passes in waves (KR-14-53)
// while they are healthy (KR-14-54), each difference once (KR-14-56). No other user writes how far it is (KR-14-57).
func TestRollout(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "waves")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	s := newStock(t, ns, 8)
	for _, name := range s.names {
		if err := s.want(t.Context(), name); err == nil {
			t.Fatalf("an unrequested change of %s passed", name)
		}
	}
	rules := v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceApprovalRules)
	_, err := the.Admin.Resource(rules).Create(t.Context(), site.Object("kausality.io/v1alpha1", "ApprovalRule", "", "waves",
		map[string]any{"match": map[string]any{"namespaces": []any{"waves"}}, "require": []any{map[string]any{"count": int64(2)}}}), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = the.Admin.Resource(rules).Delete(context.Background(), "waves", site.Forget) })
	cause := s.cause()
	spec := map[string]any{"cause": cause, "advance": map[string]any{"after": "15s"},
		"waves": []any{map[string]any{"count": int64(1)}, map[string]any{"percent": int64(50)}, map[string]any{"percent": int64(100)}}}
	wait.For(t, "the webhook of Rollouts to be called", wait.Patience, func(ctx context.Context) error {
		bad := site.Object("kausality.io/v1alpha1", "Rollout", ns, "bad", map[string]any{"cause": cause,
			"waves": []any{map[string]any{"percent": int64(50)}, map[string]any{"percent": int64(10)}}})
		_, err = the.As(t, site.Hans).Resource(rollouts).Namespace(ns).Create(ctx, bad, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !kerrors.IsInvalid(err) {
			return fmt.Errorf("want a refusal, got %w", err)
		}
		return nil
	})
	s.empty(cause)
	_, err = the.As(t, site.Hans).Resource(rollouts).Namespace(ns).Create(t.Context(), site.Object("kausality.io/v1alpha1", "Rollout", ns, "larger", spec),
		metav1.CreateOptions{})
	require.NoError(t, err)
	o := s.until("larger", "planned", func(o *v1alpha1.Rollout) bool {
		return o.Status.Phase == v1alpha1.RolloutPending && o.Status.Plan.Objects == 8 &&
			o.Status.Lacks == "0 of 2 approvals; needs 2 more (ApprovalRule waves)"
	})

	s.forge(o)
	s.run()
	vote := site.Annotate(v1alpha1.AnnotationKeyApprovePrefix+o.Status.Plan.ID, "once")
	require.NoError(t, site.Merge(t, the.As(t, "anna@example.com"), rollouts, ns, "larger", vote))
	s.until("larger", "approved by anna", func(o *v1alpha1.Rollout) bool { return len(o.Status.Votes) == 1 })
	require.Empty(t, s.changed(), "one vote of two is enough")
	wait.Often(t, "the vote of bob", wait.Patience, func() error {
		if err := site.Merge(t, the.As(t, "bob@example.com"), rollouts, ns, "larger", vote); err != nil {
			return err
		}
		if o, err := s.rollout("larger"); err != nil || o.Status.Lacks != "" {
			return fmt.Errorf("it lacks approvals: %w", err)
		}
		return nil
	})

	s.until("larger", "in its first wave", func(o *v1alpha1.Rollout) bool { return o.Status.Wave == 1 && o.Status.Waves[0].Done == 1 })
	require.Equal(t, []string{"app-00"}, s.changed())
	// The second wave begins, and the processes die as it does.
	s.until("larger", "in its second wave", func(o *v1alpha1.Rollout) bool { return o.Status.Wave == 2 })
	for _, p := range the.Webhooks {
		p.Kill()
		require.NoError(t, p.Restart())
		require.NoError(t, p.Await(t.Context()))
	}
	s.ready("app-02", "False")
	o = s.until("larger", "stopped", func(o *v1alpha1.Rollout) bool { return o.Status.Phase == v1alpha1.RolloutStopped })
	require.Contains(t, o.Status.Message, "1 of 3 objects of wave 2 were not healthy")
	require.Equal(t, []v1alpha1.RolloutObjectReason{{Object: "App waves/app-02", Reason: o.Status.Unhealthy[0].Reason}}, o.Status.Unhealthy)
	require.Equal(t, s.names[:4], s.changed())

	require.NoError(t, site.Merge(t, the.As(t, site.Hans), rollouts, ns, "larger", map[string]any{"spec": map[string]any{"proceed": int64(3)}}))
	s.until("larger", "completed", func(o *v1alpha1.Rollout) bool { return o.Status.Phase == v1alpha1.RolloutCompleted })
	require.Equal(t, s.names, s.changed())
	for _, name := range s.names {
		s.approvedOnce(name, o.Status.Plan.ID)
	}
	s.announced("larger", "WaveBegan", "RolloutStopped", "RolloutCompleted")
	rights.Show(t, the.AuditLog())
}

// announced as events of a Rollout (KR-14-58).
func (s *stock) announced(name string, reasons ...string) {
	s.t.Helper()
	wait.For(s.t, "the events of the Rollout", wait.Patience, func(ctx context.Context) error {
		list, err := the.Admin.Resource(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}).Namespace(s.ns).
			List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for _, e := range list.Items {
			if regarding, _, _ := unstructured.NestedString(e.Object, "regarding", "name"); regarding == name {
				have[fmt.Sprint(e.Object["reason"])] = true
			}
		}
		for _, r := range reasons {
			if !have[r] {
				return fmt.Errorf("no event %s, but %v", r, have)
			}
		}
		return nil
	})
}

// empty plans are made again as soon as a change waits that they are of, not only when they have become old.
func (s *stock) empty(cause map[string]any) {
	s.t.Helper()
	of := the.As(s.t, site.Hans).Resource(rollouts).Namespace(s.ns)
	_, err := of.Create(s.t.Context(), site.Object("kausality.io/v1alpha1", "Rollout", s.ns, "late", map[string]any{"cause": cause,
		"selector": map[string]any{"labels": map[string]any{"matchLabels": map[string]any{"late": "true"}}},
		"waves":    []any{map[string]any{"percent": int64(100)}}}), metav1.CreateOptions{})
	require.NoError(s.t, err)
	none := s.until("late", "without changes", func(o *v1alpha1.Rollout) bool { return o.Status.Plan != nil && o.Status.Plan.Objects == 0 })
	require.Equal(s.t, "nothing waits for this cause", none.Status.Message)
	require.NoError(s.t, site.Merge(s.t, the.As(s.t, site.Hans), site.Apps, s.ns, s.names[0],
		map[string]any{"metadata": map[string]any{"labels": map[string]any{"late": "true"}}}))
	labelled := time.Now()
	planned := s.until("late", "planned", func(o *v1alpha1.Rollout) bool { return o.Status.Plan.Objects == 1 })
	require.Less(s.t, planned.Status.Plan.MadeAt.Sub(labelled), 20*time.Second)
	require.NoError(s.t, of.Delete(s.t.Context(), "late", metav1.DeleteOptions{}))
	wait.For(s.t, "its batches to go", wait.Patience, func(ctx context.Context) error {
		list, err := the.Admin.Resource(rolloutBatches).Namespace(s.ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 0 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}

// TestClusterRollout: it is of all Namespaces, and another spec needs votes again (KR-14-51, KR-14-52).
func TestClusterRollout(t *testing.T) {
	the.Own(t)
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	var all []*stock
	for _, ns := range []string{"here", "there"} {
		the.Guarded(t, the.Namespace(t, ns))
		s := newStock(t, ns, 2)
		for _, name := range s.names {
			if err := s.want(t.Context(), name); err == nil {
				t.Fatalf("an unrequested change of %s passed", name)
			}
		}
		all = append(all, s)
	}
	spec := map[string]any{"cause": all[0].cause(), "waves": []any{map[string]any{"percent": int64(100)}}}
	all[1].cause()
	of := v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceClusterRollouts)
	wait.For(t, "the webhook of Rollouts to be called", wait.Patience, func(ctx context.Context) error {
		_, err := the.As(t, site.Hans).Resource(of).Create(ctx, site.Object("kausality.io/v1alpha1", "ClusterRollout", "", "everywhere", spec),
			metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() { _ = the.Admin.Resource(of).Delete(context.Background(), "everywhere", site.Forget) })
	until := func(what string, is func(*v1alpha1.ClusterRollout) bool) *v1alpha1.ClusterRollout {
		t.Helper()
		o := &v1alpha1.ClusterRollout{}
		wait.Often(t, "the ClusterRollout to be "+what, wait.Patience, func() error {
			u, err := the.Admin.Resource(of).Get(t.Context(), "everywhere", metav1.GetOptions{})
			if err != nil {
				return err
			}
			o = &v1alpha1.ClusterRollout{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil || !is(o) {
				return fmt.Errorf("it is %+v: %w", o.Status, err)
			}
			return nil
		})
		return o
	}
	first := until("planned", func(o *v1alpha1.ClusterRollout) bool { return o.Status.Plan != nil && o.Status.Plan.Objects == 4 })
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), of, "", "everywhere",
		map[string]any{"spec": map[string]any{"advance": map[string]any{"after": "20s"}}}))
	second := until("planned again", func(o *v1alpha1.ClusterRollout) bool { return o.Status.Plan.ID != first.Status.Plan.ID })
	require.NoError(t, site.Merge(t, the.As(t, "anna@example.com"), of, "", "everywhere", site.Annotate(v1alpha1.AnnotationKeyApprovePrefix+first.Status.Plan.ID,
		"once")))
	for _, s := range all {
		require.Empty(t, s.changed(), "a vote for an earlier plan lets changes pass")
		s.run()
	}
	require.NoError(t, site.Merge(t, the.As(t, "anna@example.com"), of, "", "everywhere",
		site.Annotate(v1alpha1.AnnotationKeyApprovePrefix+second.Status.Plan.ID, "once")))
	until("completed", func(o *v1alpha1.ClusterRollout) bool { return o.Status.Phase == v1alpha1.RolloutCompleted })
	for _, s := range all {
		require.Equal(t, s.names, s.changed())
	}
	wait.For(t, "the batches of the earlier plan to go", wait.Patience, func(ctx context.Context) error {
		list, err := the.Admin.Resource(rolloutBatches).Namespace(site.Home).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
	rights.Show(t, the.AuditLog())
}

// cause of the changes that wait, as a Rollout has it.
func (s *stock) cause() map[string]any {
	s.t.Helper()
	out := map[string]any{}
	for _, c := range s.causes() {
		fields := map[v1alpha1.CauseKind]string{v1alpha1.CauseController: "controller", v1alpha1.CauseImage: "image", v1alpha1.CauseUser: "user"}
		out[fields[c.Kind]] = c.Name
	}
	return out
}

// forge what only Kausality writes.
func (s *stock) forge(o *v1alpha1.Rollout) {
	s.t.Helper()
	mallory := the.As(s.t, "mallory@example.com")
	of := mallory.Resource(rollouts).Namespace(s.ns)
	_, err := of.Patch(s.t.Context(), o.Name, types.MergePatchType, []byte(`{"status":{"lacks":"","wave":3}}`), metav1.PatchOptions{}, "status")
	require.True(s.t, kerrors.IsForbidden(err), "a forged status: %v", err)
	claims := v1alpha1.Claim{Content: "0000000000000000", State: v1alpha1.ClaimOpen, Digest: o.Status.Plan.ID, Votes: true, Mode: v1alpha1.ApprovalOnce,
		Generation: 1, By: []v1alpha1.Vote{{User: "anna@example.com"}}}
	raw, err := json.Marshal([]v1alpha1.Claim{claims})
	require.NoError(s.t, err)
	require.NoError(s.t, site.Merge(s.t, mallory, rollouts, s.ns, o.Name, site.Annotate(v1alpha1.AnnotationKeyClaims, string(raw))))
	now, err := s.rollout(o.Name)
	require.NoError(s.t, err)
	require.Empty(s.t, now.Annotations[v1alpha1.AnnotationKeyClaims], "forged claims are stored")
	list, err := mallory.Resource(rolloutBatches).Namespace(s.ns).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	require.Len(s.t, list.Items, 1)
	_, err = mallory.Resource(rolloutBatches).Namespace(s.ns).Patch(s.t.Context(), list.Items[0].GetName(), types.MergePatchType,
		[]byte(`{"spec":{"objects":[]}}`), metav1.PatchOptions{})
	require.True(s.t, kerrors.IsForbidden(err), "a forged batch: %v", err)
}

// approvedOnce: one approval of the plan was used for a child, by those who voted.
func (s *stock) approvedOnce(name, plan string) {
	s.t.Helper()
	wait.Often(s.t, "the approval on "+name+" to be used", wait.Patience, func() error {
		o, err := s.of(s.crew).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var claims []v1alpha1.Claim
		if err := json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyClaims]), &claims); err != nil {
			return err
		}
		claims = slices.DeleteFunc(claims, func(c v1alpha1.Claim) bool { return c.State == v1alpha1.ClaimSeal })
		if len(claims) != 1 || claims[0].State != v1alpha1.ClaimUsed || claims[0].Reason != "Rollout "+s.ns+"/larger, plan "+plan {
			return fmt.Errorf("its claims are %+v", claims)
		}
		if !slices.ContainsFunc(claims[0].By, func(v v1alpha1.Vote) bool { return v.User == "anna@example.com" && v.Via == "rollout" }) {
			return fmt.Errorf("approved by %+v", claims[0].By)
		}
		return nil
	})
}
