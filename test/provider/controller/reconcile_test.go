package controller

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	kclient "sigs.k8s.io/controller-runtime/pkg/client"
	kfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource/fake"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
	"github.com/kausality-io/function-kausality/test/provider/external"
)

var name = types.NamespacedName{Namespace: "default", Name: "db"}

// testManager is enough of a manager for the reconciler.
type testManager struct {
	fake.Manager
}

func (m *testManager) GetAPIReader() kclient.Reader                    { return m.Client }
func (m *testManager) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// A fixture is a cloud, an API server with one Database, and the real reconciler.
type fixture struct {
	*testing.T

	cloud *client.Client
	kube  kclient.Client
	r     *managed.Reconciler
	done  chan error // asynchronous operations that have ended
}

func newFixture(t *testing.T, o external.Options, policies ...xpv2.ManagementAction) *fixture {
	t.Helper()
	srv := httptest.NewServer(cloud.NewServer())
	t.Cleanup(srv.Close)
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	db := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace, UID: "u", Generation: 1}}
	db.Spec.ManagementPolicies = policies
	db.Spec.ForProvider.Size = 5
	kube := kfake.NewClientBuilder().WithScheme(s).WithObjects(db).WithStatusSubresource(db).Build()

	w := &fixture{T: t, cloud: client.New(srv.URL), kube: kube, done: make(chan error, 10)}
	o.CheckInterval = 2 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	mgr := &testManager{Manager: fake.Manager{Client: kube, Scheme: s}}
	w.r = newReconciler(ctx, mgr, v1alpha1.DatabaseGroupVersionKind, external.Databases(),
		Options{Cloud: w.cloud, External: o, Log: logging.NewNopLogger(), PollInterval: time.Minute},
		func(_ types.NamespacedName, err error) { w.done <- err })
	return w
}

func (w *fixture) reconcile(times int) {
	w.Helper()
	for range times {
		_, err := w.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: name})
		require.NoError(w, err)
	}
}

func (w *fixture) get() *v1alpha1.Database {
	w.Helper()
	db := &v1alpha1.Database{}
	require.NoError(w, w.kube.Get(context.Background(), name, db))
	return db
}

// edit the Database as a user; the generation is incremented as by the API server.
func (w *fixture) edit(change func(*v1alpha1.Database)) {
	w.Helper()
	db := w.get()
	change(db)
	db.Generation++
	require.NoError(w, w.kube.Update(context.Background(), db))
}

func (w *fixture) policies(p ...xpv2.ManagementAction) {
	w.Helper()
	w.edit(func(db *v1alpha1.Database) { db.Spec.ManagementPolicies = p })
}

// created is a fixture whose database exists and is settled, with the gate closed.
func created(t *testing.T, o external.Options) *fixture {
	t.Helper()
	w := newFixture(t, o, xpv2.ManagementActionAll)
	if o.Async {
		require.NoError(w, w.cloud.SetAsync(context.Background(), true, 0))
		w.reconcile(1)
		w.finish("")
		require.NoError(w, w.cloud.Reset(context.Background()))
	}
	w.reconcile(4)
	w.policies(xpv2.ManagementActionObserve)
	w.reconcile(1)
	w.wantWrites("PUT")
	return w
}

func (w *fixture) wantWrites(want ...string) {
	w.Helper()
	entries, err := w.cloud.Writes(context.Background(), 0)
	require.NoError(w, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Method)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("writes: -want, +got:\n%s", diff)
	}
}

func (w *fixture) wantCondition(t xpv2.ConditionType, status corev1.ConditionStatus, generation int64) {
	w.Helper()
	c := w.get().GetCondition(t)
	if c.Status != status || c.ObservedGeneration != generation {
		w.Errorf("want %s=%s at generation %d, got %+v", t, status, generation, c)
	}
}

func TestCreation(t *testing.T) {
	w := newFixture(t, external.Options{}, xpv2.ManagementActionAll)
	w.reconcile(4)
	db := w.get()
	want := v1alpha1.DatabaseObservation{Size: 5, Engine: cloud.DefaultEngine, State: "available"}
	if diff := cmp.Diff(want, db.Status.AtProvider); diff != "" {
		t.Errorf("atProvider: -want, +got:\n%s", diff)
	}
	if e := db.Spec.ForProvider.Engine; e == nil || *e != cloud.DefaultEngine {
		t.Errorf("want the engine late-initialised, got %v", e)
	}
	if got := meta.GetExternalName(db); got != name.Name {
		t.Errorf("want the object's name as external name, got %q", got)
	}
	w.wantCondition(xpv2.TypeReady, corev1.ConditionTrue, 0) // As providers do: not stamped.
	w.wantCondition(xpv2.TypeSynced, corev1.ConditionTrue, 1)
	w.wantWrites("PUT")
	if db.Status.ObservedGeneration != 0 {
		t.Error("crossplane-runtime writes status.observedGeneration now: the gate can use it")
	}
}

func TestClosedGate(t *testing.T) {
	w := created(t, external.Options{})
	w.edit(func(db *v1alpha1.Database) { db.Spec.ForProvider.Size = 9 })
	require.NoError(w, w.cloud.Change(context.Background(), name.Name, client.Fields{"size": 2}))
	w.reconcile(2)
	w.wantWrites("PUT")
	w.wantCondition(xpv2.TypeSynced, corev1.ConditionTrue, 3) // Synced, though nothing was applied.
	if got := w.get().Status.AtProvider.Size; got != 2 {
		t.Errorf("want the drift in atProvider, got size %d", got)
	}

	w.policies(xpv2.ManagementActionObserve, xpv2.ManagementActionUpdate)
	w.reconcile(1)
	w.wantWrites("PUT", "PATCH")
	if got := w.get().Status.AtProvider.Size; got != 9 {
		t.Errorf("want atProvider refreshed in the reconcile that updated, got size %d", got)
	}
	w.reconcile(3)
	w.wantWrites("PUT", "PATCH")
}

func TestDeletion(t *testing.T) {
	cases := map[string]struct {
		reason   string
		policies []xpv2.ManagementAction
		writes   []string
	}{
		"Closed": {reason: "without Delete the external resource is orphaned, silently",
			policies: []xpv2.ManagementAction{xpv2.ManagementActionObserve}, writes: []string{"PUT"}},
		"Open": {reason: "with Delete it is deleted", policies: []xpv2.ManagementAction{xpv2.ManagementActionObserve,
			xpv2.ManagementActionDelete}, writes: []string{"PUT", "DELETE"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := created(t, external.Options{})
			w.policies(tc.policies...)
			require.NoError(w, w.kube.Delete(context.Background(), w.get()))
			w.reconcile(3)
			w.wantWrites(tc.writes...)
			if err := w.kube.Get(context.Background(), kclient.ObjectKey{Namespace: "default", Name: "db"}, &v1alpha1.Database{}); !kerrors.IsNotFound(err) {
				t.Errorf("%s: want the Database gone, got %v", tc.reason, err)
			}
		})
	}
}

func TestUnsupportedPolicies(t *testing.T) {
	w := created(t, external.Options{})
	w.policies(xpv2.ManagementActionObserve, xpv2.ManagementActionUpdate, xpv2.ManagementActionDelete)
	w.reconcile(1)
	w.wantCondition(xpv2.TypeSynced, corev1.ConditionFalse, 3)
}

func TestReconcileRequest(t *testing.T) {
	w := created(t, external.Options{})
	w.edit(func(db *v1alpha1.Database) {
		meta.AddAnnotations(db, map[string]string{meta.AnnotationKeyReconcileRequestedAt: "token"})
	})
	w.reconcile(1)
	if got := w.get().Status.LastHandledReconcileAt; got != "token" {
		t.Errorf("want the reconcile request echoed, got %q", got)
	}
}

// TestLost: what happens to a resource that is gone, by policy.
func TestLost(t *testing.T) {
	cases := map[string]struct {
		reason   string
		policies []xpv2.ManagementAction
		synced   corev1.ConditionStatus
	}{
		"Observe": {reason: "observing nothing is an error", policies: []xpv2.ManagementAction{xpv2.ManagementActionObserve},
			synced: corev1.ConditionFalse},
		"ObserveLateInitialize": {reason: "the runtime does not notice", policies: []xpv2.ManagementAction{xpv2.ManagementActionObserve,
			xpv2.ManagementActionLateInitialize}, synced: corev1.ConditionTrue},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := created(t, external.Options{})
			w.policies(tc.policies...)
			require.NoError(w, w.cloud.Lose(context.Background(), "db"))
			w.reconcile(1)
			w.wantCondition(xpv2.TypeSynced, tc.synced, 3)
			w.wantWrites("PUT")
			if got := w.get().Status.AtProvider.Size; got != 5 {
				t.Errorf("%s: the status keeps what was last seen, got size %d", tc.reason, got)
			}
		})
	}
}

func TestAsync(t *testing.T) {
	w := created(t, external.Options{Async: true, AsyncCondition: true})
	ctx := context.Background()
	require.NoError(w, w.cloud.SetAsync(ctx, true, 0))
	w.edit(func(db *v1alpha1.Database) {
		db.Spec.ForProvider.Size = 9
		db.Spec.ManagementPolicies = xpv2.ManagementPolicies{xpv2.ManagementActionObserve, xpv2.ManagementActionUpdate}
	})
	w.reconcile(1)
	w.wantCondition(xpv2.TypeSynced, corev1.ConditionTrue, 3) // Synced at the new generation before anything is done.
	w.reconcile(1)
	w.wantCondition(external.TypeAsyncOperation, corev1.ConditionFalse, 0)
	w.finish("out of disks")
	w.wantCondition(external.TypeLastAsyncOperation, corev1.ConditionFalse, 0)
	w.wantCondition(external.TypeAsyncOperation, corev1.ConditionTrue, 0)
	w.wantCondition(xpv2.TypeSynced, corev1.ConditionFalse, 0) // The report knows no generation.
	if c := w.get().GetCondition(xpv2.TypeSynced); c.Message != "update failed: async update failed: out of disks" {
		t.Errorf("want the failure in Synced, got %q", c.Message)
	}

	w.reconcile(1)
	w.finish("")
	w.wantCondition(external.TypeLastAsyncOperation, corev1.ConditionTrue, 0)
	w.reconcile(1)
	w.wantWrites("PUT", "PATCH", "PATCH")
	if got := w.get().Status.AtProvider.Size; got != 9 {
		t.Errorf("want the update observed, got size %d", got)
	}
	// A condition without observedGeneration equals one with any, so that
	// SetConditions never stamps it again, until it changes otherwise.
	w.edit(func(db *v1alpha1.Database) {
		db.Spec.ManagementPolicies = xpv2.ManagementPolicies{xpv2.ManagementActionObserve}
	})
	w.reconcile(2)
	w.wantCondition(xpv2.TypeSynced, corev1.ConditionTrue, 0)
}

// finish the operation that goes on, and wait for its report.
func (w *fixture) finish(failure string) {
	w.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; n == 0; <-tick.C {
		var err error
		n, err = w.cloud.Finish(context.Background(), "", failure)
		require.NoError(w, err)
	}
	if err := <-w.done; (err == nil) != (failure == "") {
		w.Fatalf("want failure %q, got %v", failure, err)
	}
}
