package external

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// finish waits until the cloud has an operation, and finishes it.
func (f *fixture) finish(failure string) {
	f.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; n == 0; <-tick.C {
		var err error
		n, err = f.cloud.Finish(context.Background(), "", failure)
		require.NoError(f, err)
	}
}

// wantReport waits for the report of an operation.
func (f *fixture) wantReport(op OperationType, message string) {
	f.Helper()
	r, got := <-f.reports, ""
	if r.err != nil {
		got = r.err.Error()
	}
	if r.op != op || got != message || r.name != (types.NamespacedName{Namespace: "default", Name: "db"}) {
		f.Errorf("want report of %s with %q, got %+v", op, message, r)
	}
}

// conditions on asynchronous operations in a few words.
func conditions(mg *v1alpha1.Database) string {
	last, async := mg.GetCondition(TypeLastAsyncOperation), mg.GetCondition(TypeAsyncOperation)
	return string(last.Reason) + "/" + string(async.Reason)
}

// Both ways to be asynchronous look the same to who waits for the end.
func TestAsync(t *testing.T) {
	cases := map[string]struct {
		reason  string
		options Options
		during  string
		after   string
	}{
		"Provider":     {reason: "upjet on the Terraform CLI", options: Options{Async: true, AsyncCondition: true}, during: "/Ongoing", after: "Success/Finished"},
		"ProviderLast": {reason: "upjet on the plugin SDK reports nothing while it works", options: Options{Async: true}, during: "/", after: "Success/"},
		"Cloud":        {reason: "the provider is synchronous, the cloud is not", options: Options{AsyncCondition: true}, during: "/Ongoing", after: "/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, f, mg := context.Background(), newFixture(t, tc.options), newDatabase(5)
			require.NoError(f, f.cloud.SetAsync(ctx, true, 0))
			c, _ := f.reconcile(mg)
			_, err := c.Create(ctx, mg)
			require.NoError(f, err)

			c, o := f.reconcile(mg)
			if !o.ResourceExists || !o.ResourceUpToDate {
				t.Errorf("%s: while it is created it must look settled, got %+v", tc.reason, o)
			}
			if got := conditions(mg); got != tc.during {
				t.Errorf("%s: during: want %q, got %q", tc.reason, tc.during, got)
			}
			if _, err := c.Update(ctx, mg); tc.options.Async && err == nil {
				t.Errorf("%s: want the second operation refused", tc.reason)
			}
			f.finish("")
			f.wantReport(OperationCreate, "")

			_, o = f.reconcile(mg)
			if !o.ResourceUpToDate || state(mg) != "Available available" {
				t.Errorf("%s: want the resource available, got %q, %+v", tc.reason, state(mg), o)
			}
			if got := conditions(mg); tc.options.Async && got != tc.after {
				t.Errorf("%s: after: want %q, got %q", tc.reason, tc.after, got)
			}
		})
	}
}

func TestAsyncUpdateFailure(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{Async: true, AsyncCondition: true}), newDatabase(5)
	_, _, err := f.cloud.Databases().Put(ctx, "db", cloud.DatabaseFields{Size: 1})
	require.NoError(f, err)
	require.NoError(f, f.cloud.SetAsync(ctx, true, 0))

	c, _ := f.reconcile(mg)
	_, err = c.Update(ctx, mg)
	require.NoError(f, err)
	if mg.Status.AtProvider.Size != 1 {
		t.Errorf("an asynchronous update must not touch the status, got size %d", mg.Status.AtProvider.Size)
	}
	f.finish("quota exceeded")
	f.wantReport(OperationUpdate, "async update failed: quota exceeded")

	c, o := f.reconcile(mg)
	if o.ResourceUpToDate || state(mg) != "Unavailable failed" {
		t.Errorf("want a failed resource that needs an update, got %q, %+v", state(mg), o)
	}
	// The next update starts, and returns the error of the one before.
	if _, err = c.Update(ctx, mg); err == nil || err.Error() != "async update failed: quota exceeded" {
		t.Errorf("want the error of the operation before, got %v", err)
	}
	f.finish("")
	f.wantReport(OperationUpdate, "")
	if _, o = f.reconcile(mg); !o.ResourceUpToDate || mg.Status.AtProvider.Size != 5 {
		t.Errorf("want the update done, got %+v", mg.Status.AtProvider)
	}
	if err := f.connector.tracker.Operation(mg).Err(); err != nil {
		t.Errorf("want the error forgotten once the resource is up to date, got %v", err)
	}
}

func TestAsyncDelete(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{Async: true}), newDatabase(5)
	_, _, err := f.cloud.Databases().Put(ctx, "db", cloud.DatabaseFields{Size: 5})
	require.NoError(f, err)
	require.NoError(f, f.cloud.SetAsync(ctx, true, 0))
	for range 2 { // Deleting while it is being deleted is no error.
		c, _ := f.reconcile(mg)
		_, err = c.Delete(ctx, mg)
		require.NoError(f, err)
	}
	f.finish("")
	f.wantReport(OperationDelete, "")
	f.wantWrites(`PUT {"size":5}`, "DELETE ")
	if _, o := f.reconcile(mg); o.ResourceExists {
		t.Error("want the resource gone")
	}
}

func TestAsyncTimeout(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{Async: true, Timeout: 20 * time.Millisecond}), newDatabase(5)
	require.NoError(f, f.cloud.SetAsync(ctx, true, 0))
	c, _ := f.reconcile(mg)
	_, err := c.Create(ctx, mg)
	require.NoError(f, err)
	f.wantReport(OperationCreate, "async create failed: cannot wait any longer for db: context deadline exceeded")
}

func TestAsyncLost(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{}), newDatabase(5)
	require.NoError(f, f.cloud.SetAsync(ctx, true, 0))
	c, _ := f.reconcile(mg)
	_, err := c.Create(ctx, mg)
	require.NoError(f, err)
	require.NoError(f, f.cloud.Lose(ctx, "db"))
	f.wantReport(OperationCreate, "async create failed: db is gone")
}

// After a restart nothing is known of an operation, but the cloud is busy.
func TestAsyncRestart(t *testing.T) {
	ctx, f, mg := context.Background(), newFixture(t, Options{Async: true}), newDatabase(5)
	_, _, err := f.cloud.Databases().Put(ctx, "db", cloud.DatabaseFields{Size: 1})
	require.NoError(f, err)
	require.NoError(f, f.cloud.SetAsync(ctx, true, 0))
	_, _, err = f.cloud.Databases().Patch(ctx, "db", client.Fields{"size": 5})
	require.NoError(f, err)
	_, o := f.reconcile(mg)
	if !o.ResourceUpToDate || conditions(mg) != "/" {
		t.Errorf("a busy resource is left alone and no success, got %q, %+v", conditions(mg), o)
	}
}

func TestPanicEndsOperation(t *testing.T) {
	f, mg := newFixture(t, Options{Async: true}), newDatabase(5)
	e := &external[*v1alpha1.Database, cloud.Database, cloud.DatabaseFields]{Connector: f.connector, op: f.connector.tracker.Operation(mg)}
	require.NoError(f, e.start(mg, OperationCreate, func(context.Context) error { panic("boom") }))
	f.wantReport(OperationCreate, "async create failed: recovered from panic: boom")
}

func TestLastAsyncOperation(t *testing.T) {
	cases := map[string]struct {
		op     OperationType
		err    error
		reason xpv2.ConditionReason
	}{
		"Success": {op: OperationCreate, reason: "Success"},
		"Create":  {op: OperationCreate, err: errors.New("x"), reason: "AsyncCreateFailure"},
		"Update":  {op: OperationUpdate, err: errors.New("x"), reason: "AsyncUpdateFailure"},
		"Delete":  {op: OperationDelete, err: errors.New("x"), reason: "AsyncDeleteFailure"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := LastAsyncOperation(tc.op, tc.err)
			if c.Reason != tc.reason || (c.Status == "True") != (tc.err == nil) || c.ObservedGeneration != 0 {
				t.Errorf("want reason %s, got %+v", tc.reason, c)
			}
		})
	}
}
