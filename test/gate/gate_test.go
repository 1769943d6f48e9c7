package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// TestReapply: GitOps and Crossplane write the author's value repeatedly.
// The webhook masks in the same write: neither generation nor resourceVersion
// moves, and nothing is done outside (KR-08-23, KR-08-16).
func TestReapply(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "reapply")
	s.xr("store", 10)
	as := composeAs{tier: "bronze", author: []any{"*"}}
	s.settles("store", as)
	before, seq := s.mr(s.mrName("store")), s.seq()
	for range 5 {
		require.NoError(t, s.compose(t.Context(), "store", as))
		_, err := s.patch(s.hans, databases, before.GetName(), `{"spec":{"managementPolicies":["*"]}}`)
		require.NoError(t, err)
	}
	after := s.mr(before.GetName())
	if before.GetGeneration() != after.GetGeneration() || !slices.Equal(policiesOf(after), []string{"Observe"}) {
		t.Errorf("generation %d → %d, policies %v", before.GetGeneration(), after.GetGeneration(), policiesOf(after))
	}
	if w := s.writes(seq, before.GetName()); len(w) > 0 {
		t.Errorf("written outside: %v", w)
	}
}

func (s *fixture) seq() int64 {
	s.t.Helper()
	n, err := the.cloud.LastSeq(s.t.Context())
	require.NoError(s.t, err)
	return n
}

// writes to a database since a point of the log, each as method and body.
func (s *fixture) writes(since int64, name string) []string {
	s.t.Helper()
	log, err := the.cloud.Writes(s.t.Context(), since)
	require.NoError(s.t, err)
	var out []string
	for _, e := range log {
		if strings.HasSuffix(e.Path, "/"+name) {
			out = append(out, e.Method+" "+string(e.Body))
		}
	}
	return out
}

// TestDriftStopped: an approval of external drift does not open the gate while
// the XR is frozen, or a rejection fits; it does as soon as these are gone.
func TestDriftStopped(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "stopped")
	mr, seq := s.settled("store", 10).GetName(), s.seq()
	s.annotate(xstores, "store", v1alpha1.AnnotationKeyFreeze, `{"user":"hans","message":"incident"}`)
	s.changeOutside(mr, client.Fields{"size": 3})
	s.follow(s.awaitDrift(mr))
	s.annotate(xstores, "store", v1alpha1.AnnotationKeyRejections, `[{"kind":"Database","name":"*","reason":"audit"}]`)
	s.annotate(xstores, "store", v1alpha1.AnnotationKeyFreeze, nil)
	s.polls(mr, 3)
	if w := s.writes(seq, mr); len(w) > 0 {
		t.Fatalf("frozen and rejected, and written outside: %v", w)
	}
	require.NoError(t, s.closed(t.Context(), mr))
	s.annotate(xstores, "store", v1alpha1.AnnotationKeyRejections, nil)
	wait.For(t, "the approved drift to be reverted", 60*time.Second, func(context.Context) error {
		if w := s.writes(seq, mr); len(w) != 1 {
			return fmt.Errorf("writes: %v", w)
		}
		return nil
	})
	s.awaitClosed(mr)
}

// TestFrozenNamespace: while the Namespace is frozen, an approval opens no gate in it; the gate opens when the freeze is removed, and
// when it ends by itself, without any other write (KR-14-31, KR-14-33, KR-14-37).
func TestFrozenNamespace(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "frozen")
	mr := s.settled("store", 10).GetName()
	freeze := func(value string) {
		t.Helper()
		raw := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationKeyFreeze, value)
		_, err := s.hans.Resource(namespaces).Patch(t.Context(), s.ns, types.MergePatchType, []byte(raw), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	// held while frozen by a value, and carried out once that ended.
	held := func(size int, value string, end func()) {
		t.Helper()
		seq := s.seq()
		freeze(value)
		s.changeOutside(mr, client.Fields{"size": size})
		s.follow(s.awaitDrift(mr))
		s.polls(mr, 3)
		if w := s.writes(seq, mr); len(w) > 0 {
			t.Fatalf("frozen, and written outside: %v", w)
		}
		end()
		wait.For(t, "the approved drift to be reverted", 90*time.Second, func(context.Context) error {
			if w := s.writes(seq, mr); len(w) != 1 {
				return fmt.Errorf("writes: %v", w)
			}
			return nil
		})
		s.awaitClosed(mr)
	}
	held(3, `"{\"user\":\"hans\",\"message\":\"incident\"}"`, func() { freeze("null") })
	ends := time.Now().Add(30 * time.Second).UTC().Format(time.RFC3339)
	held(4, `"{\"expiry\":\"`+ends+`\"}"`, func() {})
}

// changeOutside changes a database in the cloud, once its provider has reported on its spec as it is: before, a reconcile
// may be under way that began while the gate was open, and would revert the change before the gate can know of it.
func (s *fixture) changeOutside(mr string, fields client.Fields) {
	s.t.Helper()
	wait.For(s.t, "the provider of "+mr+" to know the mask", 60*time.Second, func(context.Context) error {
		o := s.mr(mr)
		if g := syncedGeneration(o); g < o.GetGeneration() {
			return fmt.Errorf("generation %d is observed of %d, gate %+v", g, o.GetGeneration(), gateOf(o))
		}
		return s.closed(s.t.Context(), mr)
	})
	s.changedAt = s.seq()
	require.NoError(s.t, the.cloud.Change(s.t.Context(), mr, fields))
}

// syncedGeneration is the one that the provider's last reconcile was about; 0 before the first.
func syncedGeneration(o *unstructured.Unstructured) int64 {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == "Synced" {
			g, _ := c["observedGeneration"].(int64)
			return g
		}
	}
	return 0
}

// awaitDrift of an MR, and return the command that approves it.
func (s *fixture) awaitDrift(mr string) (suggested string) {
	s.t.Helper()
	wait.For(s.t, "the drift of "+mr, 60*time.Second, func(ctx context.Context) error {
		list, err := s.of(s.hans, drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			child, _, _ := unstructured.NestedString(d.Object, "spec", "child", "name")
			phase, _, _ := unstructured.NestedString(d.Object, "status", "phase")
			if suggested, _, _ = unstructured.NestedString(d.Object, "spec", "suggestedApproval"); child == mr && phase == "Detected" {
				return nil
			}
		}
		if w := s.writes(s.changedAt, mr); s.changedAt > 0 && len(w) > 0 {
			s.t.Fatalf("there is nothing left to report: the provider has reverted the change by %v", w)
		}
		o := s.mr(mr)
		return fmt.Errorf("%d drifts, none of them; gate %+v, status %v, written outside: %v", len(list.Items), gateOf(o), o.Object["status"], s.writes(0, mr))
	})
	return suggested
}

// polls waits until the provider has observed a resource n times more.
func (s *fixture) polls(mr string, n int) {
	s.t.Helper()
	from := s.seq()
	wait.For(s.t, fmt.Sprintf("the provider to observe it %d times", n), 60*time.Second, func(ctx context.Context) error {
		seen, err := the.cloud.Reads(ctx, from, mr)
		if err != nil {
			return err
		}
		if seen < n {
			return fmt.Errorf("%d times", seen)
		}
		return nil
	})
}

// TestIgnoredDifference: a difference that a rule ignores is no drift, and keeps no gate
// closed.
func TestIgnoredDifference(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "ignored")
	s.xr("store", 10)
	s.settles("store", composeAs{tier: "bronze"})
	mr := s.mrName("store")
	_, err := s.patch(s.hans, databases, mr, `{"spec":{"forProvider":{"tags":{"ignored":"a"}}}}`)
	require.NoError(t, err)
	s.awaitClosed(mr)
	s.changeOutside(mr, client.Fields{"tags": map[string]string{"tier": "bronze", "ignored": "b"}})
	wait.For(t, "the provider to show it", 30*time.Second, func(context.Context) error {
		if v, _, _ := unstructured.NestedString(s.mr(mr).Object, "status", "atProvider", "tags", "ignored"); v != "b" {
			return fmt.Errorf("it shows %q", v)
		}
		return nil
	})
	changed, err := s.patch(s.hans, databases, mr, `{"spec":{"forProvider":{"size":11}}}`)
	require.NoError(t, err)
	if g := gateOf(changed); g.State != v1alpha1.GateOpen { // as it was stored: it may be closed soon
		t.Errorf("held by what is ignored: %+v", g)
	}
	s.awaitClosed(mr)
	list, err := s.of(s.hans, drifts).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	if len(list.Items) > 0 {
		t.Errorf("reported: %v", list.Items)
	}
}

// TestEvents: each opening and closing of the gate has an event, and so have external drift
// and the approval that is used up (KR-08-53, KR-08-54).
func TestEvents(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "story")
	mr := s.settled("store", 10).GetName()
	_, err := s.patch(s.hans, databases, mr, `{"spec":{"forProvider":{"size":20}}}`)
	require.NoError(t, err)
	s.awaitClosed(mr)
	s.changeOutside(mr, client.Fields{"size": 3})
	s.follow(s.awaitDrift(mr))
	want := map[string]int64{"GateOpened": 3, "GateClosed": 3, "ExternalDrift": 1, "ApprovalUsed": 1} // created, changed, approved
	wait.For(t, "all events", 60*time.Second, func(context.Context) error {
		if got := s.eventCounts(mr); !maps.Equal(got, want) {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

// TestShadow: in mode log, an event shows what mode enforce would have held of what the
// provider reverts. Nothing is written to the resource (KR-08-55).
func TestShadow(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "shadow")
	bucket := s.bucket("Bucket", s.ns)
	bucket.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyMode: "log"})
	got, err := s.of(s.hans, buckets).Create(t.Context(), bucket, metav1.CreateOptions{})
	require.NoError(t, err)
	drifted := func() {
		_, err := s.of(s.hans, buckets).Patch(t.Context(), s.ns, types.MergePatchType, []byte(`{"status":{"atProvider":{"size":3}}}`),
			metav1.PatchOptions{FieldManager: "provider"}, "status")
		require.NoError(t, err)
	}
	polls, seen := 0, 0
	wait.For(t, "one event, however often it differs", 30*time.Second, func(context.Context) error {
		if polls++; polls%2 == 1 {
			s.report("buckets", got) // nothing differs, and then something does
		} else {
			drifted()
		}
		have := s.eventCounts(s.ns)
		if maps.Equal(have, map[string]int64{"GateWouldHold": 1}) {
			seen++
		}
		if seen < 4 {
			return fmt.Errorf("it is %v", have)
		}
		return nil
	})
	now, err := s.of(s.hans, buckets).Get(t.Context(), s.ns, metav1.GetOptions{})
	require.NoError(t, err)
	if !slices.Equal(policiesOf(now), []string{"*"}) || now.GetGeneration() != got.GetGeneration() || gateOf(now).State != "" {
		t.Errorf("it was changed: %v, gate %+v", now.Object["spec"], gateOf(now))
	}
}

// TestKinds: kinds without managementPolicies are not changed, and a kind that is
// defined later is gated, also when it is deleted and defined again.
func TestKinds(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "kinds")
	plain := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "other.example.org/v1", "kind": "Plain", "metadata": map[string]any{"name": "plain"},
		"spec": map[string]any{"managementPolicies": []any{"*"}, "forProvider": map[string]any{"size": int64(1)}}}}
	got, err := s.of(s.hans, plains).Create(t.Context(), plain, metav1.CreateOptions{})
	require.NoError(t, err)
	if a := got.GetAnnotations(); a[v1alpha1.AnnotationKeyGate] != "" || a[v1alpha1.AnnotationKeyManagementPolicies] != "" ||
		!slices.Equal(policiesOf(got), []string{"*"}) {
		t.Errorf("it was touched: %v %v", a, policiesOf(got))
	}
	require.NoError(t, the.Define(t.Context(), bucketLike("Vault")))
	r := buckets
	r.Resource = "vaults"
	bucket := s.bucket("Vault", "vault")
	s.gatedAndClosed(r, bucket)
	crd := namespaces
	crd.Group, crd.Resource = "apiextensions.k8s.io", "customresourcedefinitions"
	require.NoError(t, s.hans.Resource(crd).Delete(t.Context(), "vaults.other.example.org", metav1.DeleteOptions{}))
	wait.For(t, "the kind to be gone", 40*time.Second, func(ctx context.Context) error {
		_, err := s.hans.Resource(crd).Get(ctx, "vaults.other.example.org", metav1.GetOptions{})
		return still(err)
	})
	if err := the.gate.Err(); err != nil {
		t.Errorf("the gate did not survive that the kind went: %v", err)
	}
	require.NoError(t, the.Define(t.Context(), bucketLike("Vault")))
	s.gatedAndClosed(r, bucket)
}

// gatedAndClosed: an object of a new kind is created behind a gate, which closes
// once its provider has reported.
func (s *fixture) gatedAndClosed(r metav1GVR, o *unstructured.Unstructured) {
	s.t.Helper()
	wait.For(s.t, "the new kind to be gated", 40*time.Second, func(ctx context.Context) error {
		got, err := s.of(s.hans, r).Create(ctx, o, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if gateOf(got).State != v1alpha1.GateOpen {
			_ = s.of(s.hans, r).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
			return errors.New("it was created without a gate")
		}
		s.report(r.Resource, got)
		return nil
	})
	wait.For(s.t, "its gate to close", 40*time.Second, func(ctx context.Context) error {
		got, err := s.of(s.hans, r).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err == nil && gateOf(got).State != v1alpha1.GateClosed {
			err = fmt.Errorf("gate %+v", gateOf(got))
		}
		return err
	})
}

func (s *fixture) bucket(kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "other.example.org/v1", "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"forProvider": map[string]any{"size": int64(1)}}}}
}

// report what a provider reports of an object that is up to date.
func (s *fixture) report(resource string, o *unstructured.Unstructured) {
	s.t.Helper()
	r := buckets
	r.Resource = resource
	body := fmt.Sprintf(`{"status":{"atProvider":{"size":1},"conditions":[{"type":"Synced","status":"True","reason":"R",`+
		`"observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Ready","status":"True","reason":"R",`+
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, o.GetGeneration())
	_, err := s.of(s.hans, r).Patch(s.t.Context(), o.GetName(), types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "provider"}, "status")
	require.NoError(s.t, err)
}

// TestUngate restores the author's value verbatim, lists pending external drift,
// and may be run twice. A user other than the gate's is refused while the webhook
// enforces, so the Namespace's mode becomes log (KR-08-17).
func TestUngate(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "ungate")
	author := []any{"Delete", "Observe", "Update", "Create"}
	mr := s.lone("alone", 5, author...)
	s.awaitClosed(mr)
	s.changeOutside(mr, client.Fields{"size": 3})
	s.awaitDrift(mr)
	name := "databases.cloud.example.org/" + s.ns + "/" + mr
	ungate := func(args ...string) (string, error) {
		kubeconfig, err := the.Kubeconfig("ungate-"+s.ns, hans, "system:masters")
		require.NoError(t, err)
		out, err := exec.CommandContext(t.Context(), the.bins["kausality"], append([]string{"ungate", "--kubeconfig=" + kubeconfig}, args...)...).CombinedOutput()
		return string(out), err
	}
	out, err := ungate("--dry-run", name)
	if err != nil || !strings.Contains(out, name+": pending external drift: spec.forProvider.size: 3 → 5") ||
		!strings.Contains(out, "1 masked, 1 with pending external drift, 0 restored") {
		t.Errorf("dry-run: %v\n%s", err, out)
	}
	require.NoError(t, s.closed(t.Context(), mr))
	if out, err = ungate(name); err == nil || !strings.Contains(out, "--default-mode=log") {
		t.Errorf("the webhook enforces: %v\n%s", err, out)
	}
	if out, err = ungate("--all", "--dry-run"); err != nil || !strings.Contains(out, name+": would restore") {
		t.Errorf("all: %v\n%s", err, out)
	}
	if out, err = ungate(); err == nil || !strings.Contains(out, "--all") {
		t.Errorf("without arguments: %v\n%s", err, out)
	}
	_, err = s.hans.Resource(namespaces).Patch(t.Context(), s.ns, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kausality.io/mode":"log"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	wait.For(t, "the author's value to be restored", 30*time.Second, func(context.Context) error {
		out, err := ungate(name)
		if err != nil && !strings.Contains(out, "nothing to restore") {
			return fmt.Errorf("%w: %s", err, out)
		}
		if o := s.mr(mr); !slices.Equal(policiesOf(o), []string{"Delete", "Observe", "Update", "Create"}) ||
			o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies] != "" || o.GetAnnotations()[v1alpha1.AnnotationKeyGate] != "" {
			return fmt.Errorf("%v %v: %s", policiesOf(o), o.GetAnnotations(), out)
		}
		return nil
	})
	if out, err = ungate(name); err == nil || !strings.Contains(out, "there is nothing to restore") {
		t.Errorf("again: %v\n%s", err, out)
	}
}

// TestLegacyRuntime: a provider of an older runtime does not know the mask; its
// answer is understood, and another mask takes its place (KR-08-02).
func TestLegacyRuntime(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "legacy")
	o := s.bucket("Bucket", "bucket")
	o.Object["spec"].(map[string]any)["managementPolicies"] = []any{"Observe", "Update", "LateInitialize"}
	got, err := s.of(s.hans, buckets).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	if !slices.Equal(policiesOf(got), []string{"Observe", "Update", "LateInitialize"}) {
		t.Fatalf("created as %v", policiesOf(got))
	}
	body := `{"status":{"conditions":[{"type":"Synced","status":"False","reason":"ReconcileError","observedGeneration":1,
		"lastTransitionTime":"2026-01-01T00:00:00Z","message":"` + "`spec.managementPolicies` is set to a value" +
		"([Observe Update LateInitialize]) which is not supported. Check docs for supported policies" + `"}]}}`
	_, err = s.of(s.hans, buckets).Patch(t.Context(), "bucket", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "provider"}, "status")
	require.NoError(t, err)
	wait.For(t, "a mask that the provider knows", 30*time.Second, func(ctx context.Context) error {
		o, err := s.of(s.hans, buckets).Get(ctx, "bucket", metav1.GetOptions{})
		if err == nil && !slices.Equal(policiesOf(o), []string{"Observe", "Update"}) {
			err = fmt.Errorf("policies %v, gate %+v", policiesOf(o), gateOf(o))
		}
		return err
	})
}
