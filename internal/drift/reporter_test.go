package drift

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

// driftClient of an API server that has Drifts alone, with a status subresource. Calls go through funcs.
func driftClient(t *testing.T, funcs interceptor.Funcs, drifts ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Drift{}, &v1alpha1.DriftReceiver{}).
		WithObjects(drifts...).WithInterceptorFuncs(funcs).Build()
}

// endpoint that answers DriftReports with the codes in turn, then with 200.
type testEndpoint struct {
	mu      sync.Mutex
	codes   []int
	reports []v1alpha1.DriftReport
}

// ServeHTTP keeps accepted reports.
func (e *testEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.codes) > 0 {
		w.WriteHeader(e.codes[0])
		e.codes = e.codes[1:]
		return
	}
	var report v1alpha1.DriftReport
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e.reports = append(e.reports, report)
}

// newTestEndpoint serves until the test ends; the Sender posts to it.
func newTestEndpoint(t *testing.T, codes ...int) (*testEndpoint, *Sender) {
	t.Helper()
	e := &testEndpoint{codes: codes}
	server := httptest.NewTLSServer(e)
	t.Cleanup(server.Close)
	s, err := NewSenders(Endpoints{URLs: []string{server.URL}})
	require.NoError(t, err)
	s[0].client = server.Client()
	return e, s[0]
}

// deliveriesTo a test endpoint of what the Drifts of a client owe it.
func deliveriesTo(c client.Client, s *Sender) *receiver {
	d := &Deliverer{Drifts: c, Client: c, Component: v1alpha1.ManagerWebhook, Log: logr.Discard(), senders: []*Sender{s},
		Author: func(_ context.Context, d *v1alpha1.Drift, phase v1alpha1.DriftPhase) v1alpha1.DriftReport {
			return reportOf(d, phase)
		}}
	return d.receiver(s)
}

// sent reports, of all that the endpoint has accepted, after one more round.
func (e *testEndpoint) sent(t *testing.T, to *receiver) []v1alpha1.DriftReport {
	t.Helper()
	require.NoError(t, to.round(t.Context()))
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reports
}

// started Reporter, until the test ends.
func started(t *testing.T, c Config) *Reporter {
	t.Helper()
	c.Log = logr.Discard()
	r, err := NewReporter(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return r
}

// item of a drift on a child of the namespaced parent "app".
func item(id string) Item {
	return Item{Report: &admission.Report{
		Drift: v1alpha1.DriftSpec{
			ID: id, Relation: v1alpha1.RelationControllerChild,
			Child:  v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "child"},
			Parent: v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "App", Namespace: "ns", Name: "app", UID: "u"},
		},
		ParentRef: parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "App"}, Namespace: "ns", Name: "app", UID: "u"},
	}}
}

func get(t *testing.T, c client.Client, namespace, name string) *v1alpha1.Drift {
	t.Helper()
	d := &v1alpha1.Drift{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, d))
	return d
}

// TestRecord: a drift is created once, counted when it occurs again, and reported once per occurrence
// (KR-10-01, KR-10-04).
func TestRecord(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t)
	recurred := 0
	to := deliveriesTo(c, sender)
	r := started(t, Config{Client: c, Receivers: []string{sender.Name}, Recurred: func(context.Context, parent.Ref, string) error { recurred++; return nil }})

	i := item("a1")
	before := *i.Report
	require.NoError(t, r.Record(t.Context(), i))
	assert.Equal(t, before, *i.Report, "the report is not modified")
	d := get(t, c, "ns", "a1")
	assert.Equal(t, v1alpha1.DriftDetected, d.Status.Phase)
	assert.EqualValues(t, 1, d.Status.Count)
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "App", Name: "app", UID: "u"}}, d.OwnerReferences)
	assert.Equal(t, owing([]string{sender.Name}, d.Status.Since), d.Status.Deliveries, "the write that begins it names who is to know")
	reports := e.sent(t, to)
	require.Len(t, reports, 1)
	assert.Equal(t, v1alpha1.DriftDetected, reports[0].Spec.Phase)
	assert.Equal(t, v1alpha1.DriftDetected, get(t, c, "ns", "a1").Status.Deliveries[0].Phase, "the endpoint accepted it")

	require.NoError(t, r.Record(t.Context(), item("a1")))
	assert.EqualValues(t, 2, get(t, c, "ns", "a1").Status.Count)
	assert.Equal(t, 1, recurred, "only a new occurrence")

	again := item("a1")
	again.Report.Recurs = true
	require.NoError(t, r.Record(t.Context(), again))
	assert.Equal(t, 2, recurred, "and one whose approval was used up, before the earlier one is resolved (KR-05-35)")

	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), "it was approved", nil))
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), "it was approved", nil), "it is over already")
	reports = e.sent(t, to)
	require.Len(t, reports, 2)
	assert.Equal(t, v1alpha1.DriftResolved, reports[1].Spec.Phase)
	assert.Equal(t, "it was approved", reports[1].Spec.Resolution)

	other := item("a1")
	other.Report.Drift.Cause = "composition revision new"
	require.NoError(t, r.Record(t.Context(), other))
	assert.EqualValues(t, 1, get(t, c, "ns", "a1").Status.Count, "counted from the new occurrence on")
	reports = e.sent(t, to)
	require.Len(t, reports, 3)
	assert.Equal(t, "composition revision new", reports[2].Spec.Cause, "as the new occurrence has it")
	assert.Equal(t, 3, recurred)
}

// TestRecordRaces: of two replicas that see the same drift, the one whose write conflicts begins no other occurrence, and
// nothing of what it saw is lost.
func TestRecordRaces(t *testing.T) {
	conflict := true
	patch := func(ctx context.Context, inner client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if conflict {
			conflict = false // the other replica comes first
			other := &v1alpha1.Drift{}
			if err := inner.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
				return err
			}
			now := metav1.Now()
			other.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Count: 1, Since: &now}
			if err := inner.Status().Update(ctx, other); err != nil {
				return err
			}
		}
		return inner.SubResource(sub).Patch(ctx, o, p, opts...)
	}
	c := driftClient(t, interceptor.Funcs{SubResourcePatch: patch})
	e, sender := newTestEndpoint(t)
	to := deliveriesTo(c, sender)
	r := started(t, Config{Client: c, Receivers: []string{sender.Name}})
	seen := item("a1")
	seen.Report.Lacks = "1 of 2 approvals"
	require.NoError(t, r.Record(t.Context(), seen))
	stored := get(t, c, "ns", "a1").Status
	assert.EqualValues(t, 2, stored.Count, "both saw it")
	assert.Equal(t, "1 of 2 approvals", stored.Lacks)
	assert.Len(t, e.sent(t, to), 1, "one is sent, whichever replica recorded it")
}

// TestRecordLate: what is recorded late, since a write failed, does not hide how the drift was seen since: what was put back would count as
// refused (KR-18-06).
func TestRecordLate(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	r := started(t, Config{Client: c})
	separated := item("a1")
	separated.Report.Separated, separated.Report.Drift.Intent, separated.at = true, 4, clock.Now()
	late := item("a1")
	late.Report.Drift.Intent, late.at = 3, clock.Now().Add(-time.Minute)
	require.NoError(t, r.Record(t.Context(), separated))
	require.NoError(t, r.Record(t.Context(), late))
	stored := get(t, c, "ns", "a1").Status
	assert.True(t, stored.Separated)
	assert.EqualValues(t, 4, stored.Intent)
	assert.EqualValues(t, 2, stored.Count)
	assert.WithinDuration(t, separated.at, stored.LastSeen.Time, time.Second)
}

// TestRecordSnoozed: a snoozed drift is recorded and not reported; it is once it occurs after the snooze
// (KR-05-28).
func TestRecordSnoozed(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t)
	to := deliveriesTo(c, sender)
	r := started(t, Config{Client: c, Receivers: []string{sender.Name}})
	snoozed := item("a1")
	snoozed.Report.Snoozed = true
	require.NoError(t, r.Record(t.Context(), snoozed))
	require.NoError(t, r.Record(t.Context(), item("b2")))
	reports := e.sent(t, to)
	require.Len(t, reports, 1)
	assert.Equal(t, "b2", reports[0].Spec.ID)
	assert.Equal(t, v1alpha1.DriftDetected, get(t, c, "ns", "a1").Status.Phase)
	assert.True(t, get(t, c, "ns", "a1").Status.Snoozed)

	require.NoError(t, r.Record(t.Context(), snoozed))
	assert.True(t, get(t, c, "ns", "a1").Status.Snoozed, "it still is")
	require.NoError(t, r.Record(t.Context(), item("a1")))
	reports = e.sent(t, to)
	require.Len(t, reports, 2)
	assert.Equal(t, "a1", reports[1].Spec.ID)
	assert.False(t, get(t, c, "ns", "a1").Status.Snoozed)
	require.NoError(t, r.Record(t.Context(), item("a1")))
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), "it was approved", nil))
	reports = e.sent(t, to)
	require.Len(t, reports, 3, "reported once, and that it is over")
	assert.Equal(t, v1alpha1.DriftResolved, reports[2].Spec.Phase)
}

// TestResolveSnoozed: that a drift is over is not reported where the drift was not (KR-05-28).
func TestResolveSnoozed(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t)
	to := deliveriesTo(c, sender)
	r := started(t, Config{Client: c, Receivers: []string{sender.Name}})
	snoozed := item("a1")
	snoozed.Report.Snoozed = true
	require.NoError(t, r.Record(t.Context(), snoozed))
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), "it was approved", nil))
	require.NoError(t, r.Record(t.Context(), item("b2")))
	reports := e.sent(t, to)
	require.Len(t, reports, 1)
	assert.Equal(t, "b2", reports[0].Spec.ID)
	assert.Equal(t, v1alpha1.DriftResolved, get(t, c, "ns", "a1").Status.Phase)
}

// TestEnqueue: a drift that occurs again within a minute is counted and not written, one that could not be
// recorded is written again with the next occurrence, and a panic is the error of its item alone (KR-13-02).
func TestEnqueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := driftClient(t, interceptor.Funcs{})
		var mu sync.Mutex
		calls := map[string]int{}
		r := started(t, Config{Client: c, Recurred: func(_ context.Context, _ parent.Ref, id string) error {
			mu.Lock()
			defer mu.Unlock()
			calls[id]++
			switch {
			case id == "bad":
				panic("poison")
			case id == "fails" && calls[id] == 1:
				return errors.New("away")
			}
			return nil
		}})
		count := func(id string) int64 {
			d := &v1alpha1.Drift{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: id}, d); err != nil {
				return 0
			}
			return d.Status.Count
		}
		r.Enqueue(item("bad"))
		r.Enqueue(item("good"))
		synctest.Wait()
		assert.EqualValues(t, 1, count("good"), "the item behind it is recorded")
		r.Enqueue(item("good"))
		r.Enqueue(item("fails"))
		synctest.Wait()
		r.Enqueue(item("fails"))
		await.Sleep(10 * time.Second)
		assert.Positive(t, count("fails"))
		assert.EqualValues(t, 1, count("good"), "within a minute it is not written again")
		assert.EqualValues(t, 1, r.takeCount("good"), "but counted")
		r.Enqueue(item("bad"))
		await.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		assert.Greater(t, calls["bad"], 1, "the next occurrence is another try")
	})
}

// TestEnqueueFull: a full queue drops items, which are written with their next occurrence.
func TestEnqueueFull(t *testing.T) {
	r, err := NewReporter(Config{Client: driftClient(t, interceptor.Funcs{}), Log: logr.Discard()}) // not started
	require.NoError(t, err)
	for i := range reportCapacity + 1 {
		r.Enqueue(item(strings.Repeat("x", i+1)))
	}
	assert.Equal(t, reportCapacity, r.queue.len())
	_, remembered := r.occurrences.Get(strings.Repeat("x", reportCapacity+1))
	assert.False(t, remembered, "it was dropped")
}

// TestItemKey: a refused DELETE that is to be repeated is one drift per user.
func TestItemKey(t *testing.T) {
	byController, byUser := item("a1"), item("a1")
	byController.Report.Repeat, byController.Report.Drift.User = true, "controller"
	byUser.Report.Repeat, byUser.Report.Drift.User = true, "hans"
	assert.NotEqual(t, byController.key(), byUser.key())
	assert.Equal(t, "a1", item("a1").key())
	again := item("a1")
	again.Report.Recurs = true
	assert.NotEqual(t, item("a1").key(), again.key(), "what is to be approved again does not wait for a minute")
}

// TestObject: the Drift is in the namespace of the parent, else of the child, else in ours (KR-10-01).
func TestObject(t *testing.T) {
	cases := map[string]struct {
		parent, child, want string
	}{
		"Parent":        {parent: "p", child: "c", want: "p"},
		"ClusterParent": {child: "c", want: "c"},
		"Cluster":       {want: HomeNamespace},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i := item("a1")
			i.Report.ParentRef.Namespace, i.Report.Drift.Child.Namespace = tc.parent, tc.child
			assert.Equal(t, tc.want, object(i.Report).Namespace)
		})
	}
}

// TestRedact: a report has no value of a Secret, no managedFields and no object that is too large (KR-13-01,
// KR-13-26).
func TestRedact(t *testing.T) {
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "s", "managedFields": []any{map[string]any{"manager": "m"}},
			"annotations": map[string]any{"a": "b", "kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"aGVsbG8="}}`}},
		"data": map[string]any{"password": "aGVsbG8="}, "stringData": map[string]any{"token": "hello"},
	}
	cases := map[string]struct {
		reason string
		object map[string]any
		want   string
	}{
		"Secret": {
			reason: "keys stay, values do not, nor the copy that kubectl keeps", object: secret,
			want: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"b"}},
				"data":{"password":"<redacted>"},"stringData":{"token":"<redacted>"}}`,
		},
		"ConfigMap": {
			reason: "other kinds keep their values", object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "1"}},
			want: `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1"}}`,
		},
		"Manifest": {
			reason: "a Secret in another object", object: map[string]any{"kind": "Object", "spec": map[string]any{"manifest": secret}},
			want: `{"kind":"Object","spec":{"manifest":{"apiVersion":"v1","kind":"Secret",
				"metadata":{"name":"s","managedFields":[{"manager":"m"}],
				"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"<redacted>"}},
				"data":{"password":"<redacted>"},"stringData":{"token":"<redacted>"}}}}`,
		},
		"Password": {
			reason: "a field with secret values", object: map[string]any{"kind": "Database", "spec": map[string]any{"password": "hello", "size": "s"}},
			want: `{"kind":"Database","spec":{"password":"<redacted>","size":"s"}}`,
		},
		"SecretOfAnotherGroup": {
			reason: "only the Secret of Kubernetes", object: map[string]any{"apiVersion": "example.org/v1", "kind": "Secret", "data": map[string]any{"a": "1"}},
			want: `{"apiVersion":"example.org/v1","kind":"Secret","data":{"a":"1"}}`,
		},
		"TooLarge": {reason: "larger than 256 KiB", object: map[string]any{"kind": "ConfigMap", "data": map[string]any{"a": strings.Repeat("x", maxObject)}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := runtime.DeepCopyJSON(tc.object)
			got := raw(change.SecretFields("spec.password").RedactObject(tc.object))
			assert.Equal(t, before, tc.object, "the object is not modified")
			if tc.want == "" {
				assert.Nil(t, got, tc.reason)
				return
			}
			assert.JSONEq(t, tc.want, string(got.Raw), tc.reason)
		})
	}
}

// TestRecordStored: nothing is recorded of an object that is not stored, and an occurrence whose object
// cannot be read is recorded the next time (KR-13-22).
func TestRecordStored(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	r, err := NewReporter(Config{Client: c, Log: logr.Discard()})
	require.NoError(t, err)
	i := item("0123456789abcdef")
	for _, failure := range []error{nil, errors.New("down")} {
		i.Stored = func(context.Context) (bool, error) { return false, failure }
		assert.ErrorIs(t, r.Record(t.Context(), i), failure)
		var list v1alpha1.DriftList
		require.NoError(t, c.List(t.Context(), &list))
		assert.Empty(t, list.Items)
		assert.True(t, r.due(i.key(), i.seen()), "the next one is written")
	}
}

// TestHandleRetries: a Drift is right within a minute, whichever of its writes fails, also where the difference does not
// occur again and where its Drift was resolved before (KR-10-11).
func TestHandleRetries(t *testing.T) {
	for name, before := range map[string]v1alpha1.DriftPhase{"New": "", "Resolved": v1alpha1.DriftResolved} {
		for _, failing := range []string{"create", "get", "recurred", "status", "conflict", "landed"} {
			t.Run(name+"/"+failing, func(t *testing.T) {
				t.Parallel() // each waits for its retries
				var mu sync.Mutex
				failures := 0
				fails := func(at string) error {
					mu.Lock()
					defer mu.Unlock()
					if at != failing || failures == 0 {
						return nil
					}
					failures--
					if at == "conflict" {
						return kerrors.NewConflict(schema.GroupResource{Resource: "drifts"}, "a1", errors.New("resolved in between"))
					}
					return context.DeadlineExceeded
				}
				c := driftClient(t, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						if err := fails("create"); err != nil {
							return err
						}
						return c.Create(ctx, o, opts...)
					},
					Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
						if err := fails("get"); err != nil {
							return err
						}
						return c.Get(ctx, k, o, opts...)
					},
					SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
						opts ...client.SubResourcePatchOption) error {
						if err := cmp.Or(fails("status"), fails("conflict")); err != nil {
							return err
						}
						return cmp.Or(c.SubResource(sub).Patch(ctx, o, p, opts...), fails("landed"))
					},
				})
				if before != "" {
					d := object(item("a1").Report)
					d.Status.Phase = before
					require.NoError(t, c.Create(t.Context(), d))
				}
				e, sender := newTestEndpoint(t)
				to := deliveriesTo(c, sender)
				r := started(t, Config{Client: c, Receivers: []string{sender.Name},
					Recurred: func(context.Context, parent.Ref, string) error { return fails("recurred") }})
				mu.Lock()
				failures = 1
				mu.Unlock()
				r.Enqueue(item("a1"))
				await.Poll(t, "a report", func() bool { return len(e.sent(t, to)) == 1 })
				mu.Lock()
				failures = 0
				mu.Unlock()
				assert.Equal(t, v1alpha1.DriftDetected, get(t, c, "ns", "a1").Status.Phase)
			})
		}
	}
}

// TestItemAgain: what the API server will not accept is not tried again, nor anything for ever, and the wait is bounded.
func TestItemAgain(t *testing.T) {
	recent, old := Item{at: time.Now()}, Item{at: time.Now().Add(-retryFor - time.Second)}
	assert.True(t, recent.again(errors.New("away")))
	assert.False(t, old.again(errors.New("away")))
	gr := schema.GroupResource{Resource: "drifts"}
	assert.False(t, recent.again(kerrors.NewInvalid(schema.GroupKind{Kind: "Drift"}, "a1", nil)))
	terminating := kerrors.NewForbidden(gr, "a1", errors.New("the Namespace is being deleted"))
	assert.True(t, recent.again(terminating), "a role may come later")
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	assert.False(t, recent.again(fmt.Errorf("cannot create drift: %w", terminating)))
	for tries := 1; tries < 100; tries++ {
		wait := Item{tries: tries}.wait()
		assert.True(t, firstRetry <= wait && wait <= lastRetry, "%d: %s", tries, wait)
	}
}
