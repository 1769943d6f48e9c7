package external

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// A report has the arguments of a callback.
type report struct {
	name types.NamespacedName
	op   OperationType
	err  error
}

// A fixture is a cloud and a connector to it.
type fixture struct {
	*testing.T

	cloud     *client.Client
	connector *Connector[*v1alpha1.Database, cloud.Database, cloud.DatabaseFields]
	reports   chan report
}

func newFixture(t *testing.T, o Options) *fixture {
	t.Helper()
	srv := httptest.NewServer(cloud.NewServer())
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	f := &fixture{T: t, cloud: client.New(srv.URL), reports: make(chan report, 10)}
	o.CheckInterval = 2 * time.Millisecond
	f.connector = NewConnector(ctx, Databases(), f.cloud, NewTracker(),
		func(_ context.Context, n types.NamespacedName, op OperationType, err error) error {
			f.reports <- report{name: n, op: op, err: err}
			return nil
		}, o, logging.NewNopLogger())
	return f
}

// reconcile connects again, as every reconcile does, and observes first.
func (f *fixture) reconcile(mg *v1alpha1.Database) (managed.TypedExternalClient[*v1alpha1.Database], managed.ExternalObservation) {
	f.Helper()
	c, err := f.connector.Connect(context.Background(), mg)
	require.NoError(f, err)
	o, err := c.Observe(context.Background(), mg)
	require.NoError(f, err)
	return c, o
}

func (f *fixture) writes() []string {
	f.Helper()
	entries, err := f.cloud.Writes(context.Background(), 0)
	require.NoError(f, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Method+" "+string(e.Body))
	}
	return out
}

func (f *fixture) wantWrites(want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.writes(), cmpopts.EquateEmpty()); diff != "" {
		f.Errorf("writes: -want, +got:\n%s", diff)
	}
}

func newDatabase(size int64) *v1alpha1.Database {
	mg := &v1alpha1.Database{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default", UID: "u"}}
	mg.Spec.ForProvider.Size = size
	mg.Spec.ManagementPolicies = xpv2.ManagementPolicies{xpv2.ManagementActionAll}
	meta.SetExternalName(mg, "db")
	return mg
}

// state of a managed resource in a few words: Ready's reason and atProvider.
func state(mg *v1alpha1.Database) string {
	return string(mg.GetCondition(xpv2.TypeReady).Reason) + " " + mg.Status.AtProvider.State
}

func TestLifecycle(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{}), newDatabase(5)

	c, o := f.reconcile(mg)
	if o.ResourceExists {
		t.Fatal("nothing was created yet")
	}
	_, err := c.Create(ctx, mg)
	require.NoError(f, err)

	_, o = f.reconcile(mg)
	if diff := cmp.Diff(managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true, ResourceLateInitialized: true}, o); diff != "" {
		t.Errorf("after creation: -want, +got:\n%s", diff)
	}
	if e := mg.Spec.ForProvider.Engine; e == nil || *e != cloud.DefaultEngine {
		t.Errorf("want the engine late-initialised, got %v", e)
	}
	want := v1alpha1.DatabaseObservation{Size: 5, Engine: cloud.DefaultEngine, State: "available"}
	if diff := cmp.Diff(want, mg.Status.AtProvider); diff != "" {
		t.Errorf("atProvider: -want, +got:\n%s", diff)
	}

	mg.Spec.ForProvider.Size = 7
	c, o = f.reconcile(mg)
	if o.ResourceUpToDate || o.Diff == "" || o.ResourceLateInitialized {
		t.Errorf("want a difference to update and nothing else, got %+v", o)
	}
	_, err = c.Update(ctx, mg)
	require.NoError(f, err)
	if got := mg.Status.AtProvider.Size; got != 7 {
		t.Errorf("want atProvider refreshed by the update, got size %d", got)
	}
	c, o = f.reconcile(mg)
	if !o.ResourceUpToDate {
		t.Errorf("want the resource up to date, got %s", o.Diff)
	}

	_, err = c.Delete(ctx, mg)
	require.NoError(f, err)
	if _, o = f.reconcile(mg); o.ResourceExists {
		t.Error("want the resource gone")
	}
	_, err = c.Delete(ctx, mg) // What is gone is deleted.
	require.NoError(f, err)
	f.wantWrites(`PUT {"size":5}`, `PATCH {"engine":"postgres","size":7,"tags":null}`, "DELETE ", "DELETE ")
	if mg.GetCondition(TypeLastAsyncOperation).Status != "Unknown" {
		t.Error("a synchronous provider must not report asynchronous operations")
	}
}

func TestDiff(t *testing.T) {
	engine := "mysql"
	cases := map[string]struct {
		reason   string
		desired  v1alpha1.DatabaseParameters
		external cloud.DatabaseFields
		differs  bool
	}{
		"Same":        {reason: "nothing differs", desired: v1alpha1.DatabaseParameters{Size: 1}, external: cloud.DatabaseFields{Size: 1}},
		"Size":        {reason: "it was resized externally", desired: v1alpha1.DatabaseParameters{Size: 1}, external: cloud.DatabaseFields{Size: 2}, differs: true},
		"EngineUnset": {reason: "the cloud may choose", desired: v1alpha1.DatabaseParameters{Size: 1}, external: cloud.DatabaseFields{Size: 1, Engine: "postgres"}},
		"EngineSet": {reason: "the spec chose", desired: v1alpha1.DatabaseParameters{Size: 1, Engine: &engine},
			external: cloud.DatabaseFields{Size: 1, Engine: "postgres"}, differs: true},
		"TagAdded": {reason: "tags that are not named are removed", desired: v1alpha1.DatabaseParameters{Size: 1},
			external: cloud.DatabaseFields{Size: 1, Tags: map[string]string{"a": "1"}}, differs: true},
		"TagsEmpty": {reason: "no tags are no tags", desired: v1alpha1.DatabaseParameters{Size: 1, Tags: map[string]string{}},
			external: cloud.DatabaseFields{Size: 1}},
		"TagValue": {reason: "a tag changed", desired: v1alpha1.DatabaseParameters{Size: 1, Tags: map[string]string{"a": "1"}},
			external: cloud.DatabaseFields{Size: 1, Tags: map[string]string{"a": "2"}}, differs: true},
		"TagsUnchanged": {reason: "the same tags", desired: v1alpha1.DatabaseParameters{Size: 1, Tags: map[string]string{"a": "1"}},
			external: cloud.DatabaseFields{Size: 1, Tags: map[string]string{"a": "1"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mg := newDatabase(0)
			mg.Spec.ForProvider = tc.desired
			if got := databaseDiff(mg, cloud.Database{DatabaseFields: tc.external}); (got != "") != tc.differs {
				t.Errorf("%s: want differs %t, got %q", tc.reason, tc.differs, got)
			}
		})
	}
}

func TestObserveByStatus(t *testing.T) {
	cases := map[string]struct {
		reason   string
		prepare  func(f *fixture, ctx context.Context)
		state    string
		upToDate bool
	}{
		"Available": {reason: "all is well", state: "Available available", upToDate: true},
		"Creating": {reason: "busy resources cannot be updated", prepare: func(f *fixture,
			ctx context.Context) {
			require.NoError(f, f.cloud.SetAsync(ctx, true, 0))
		}, state: "Creating creating", upToDate: true},
		"Incomplete": {reason: "an update has to finish creation", prepare: func(f *fixture,
			ctx context.Context) {
			require.NoError(f, f.cloud.SetIncompleteCreation(ctx, true))
		}, state: "Creating incomplete"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, f, mg := context.Background(), newFixture(t, Options{}), newDatabase(5)
			if tc.prepare != nil {
				tc.prepare(f, ctx)
			}
			_, _, err := f.cloud.Databases().Put(ctx, "db", cloud.DatabaseFields{Size: 5})
			require.NoError(f, err)
			_, o := f.reconcile(mg)
			if state(mg) != tc.state || o.ResourceUpToDate != tc.upToDate {
				t.Errorf("%s: want %q, up to date %t; got %q, %t", tc.reason, tc.state, tc.upToDate, state(mg), o.ResourceUpToDate)
			}
		})
	}
}

func TestIncompleteCreation(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{}), newDatabase(5)
	require.NoError(f, f.cloud.SetIncompleteCreation(ctx, true))
	c, _ := f.reconcile(mg)
	_, err := c.Create(ctx, mg)
	require.NoError(f, err)
	c, o := f.reconcile(mg)
	if o.ResourceUpToDate {
		t.Fatal("an incomplete resource is not up to date, even without a difference")
	}
	_, err = c.Update(ctx, mg)
	require.NoError(f, err)
	if got := state(mg); got != "Available available" {
		t.Errorf("want the resource available after the update, got %q", got)
	}
}

func TestSlowDeletion(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{}), newDatabase(5)
	require.NoError(f, f.cloud.SetDeleteDuration(ctx, 90*time.Minute))
	c, _ := f.reconcile(mg)
	_, err := c.Create(ctx, mg)
	require.NoError(f, err)
	for range 3 {
		c, o := f.reconcile(mg)
		if !o.ResourceExists {
			t.Fatal("want the resource to exist until 90 minutes have passed")
		}
		_, err := c.Delete(ctx, mg)
		require.NoError(f, err)
	}
	f.wantWrites(`PUT {"size":5}`, "DELETE ") // It was requested once.
	if got := state(mg); got != "Deleting deleting" {
		t.Errorf("want the resource deleting, got %q", got)
	}
	_, err = f.cloud.Advance(ctx, 90*time.Minute)
	require.NoError(f, err)
	if _, o := f.reconcile(mg); o.ResourceExists {
		t.Error("want the resource gone")
	}
}

func TestErrors(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{}), newDatabase(5)
	require.NoError(f, f.cloud.FailNext(ctx, 1, http.StatusForbidden))
	c, _ := f.reconcile(mg)
	_, err := c.Create(ctx, mg)
	if want := "cannot create external resource: cloud: the cloud is set to fail (403)"; err == nil || err.Error() != want {
		t.Errorf("want error %q, got %v", want, err)
	}
	if _, o := f.reconcile(mg); o.ResourceExists {
		t.Error("a failed creation creates nothing")
	}
}

func TestLateInitializeNeedsPolicy(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{}), newDatabase(5)
	mg.Spec.ManagementPolicies = xpv2.ManagementPolicies{xpv2.ManagementActionObserve}
	_, _, err := f.cloud.Databases().Put(ctx, "db", cloud.DatabaseFields{Size: 5})
	require.NoError(f, err)
	if _, o := f.reconcile(mg); o.ResourceLateInitialized || mg.Spec.ForProvider.Engine != nil {
		t.Error("without the policy the spec must not be touched")
	}
}
