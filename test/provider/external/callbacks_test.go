package external

import (
	"context"
	"errors"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
)

func TestStatusCallback(t *testing.T) {
	cases := map[string]struct {
		reason    string
		name      string
		conflicts int
		finished  bool
		err       error
		fails     bool
		want      string
		synced    xpv2.ConditionReason
	}{
		"Success":       {reason: "both conditions are reported", name: "db", finished: true, want: "Success/Finished", synced: "ReconcileSuccess"},
		"LastOnly":      {reason: "AsyncOperation is left out if finished is false", name: "db", want: "Success/", synced: "ReconcileSuccess"},
		"Failure":       {reason: "the failure is reported", name: "db", err: errors.New("x"), want: "AsyncUpdateFailure/", synced: "ReconcileError"},
		"Conflict":      {reason: "a conflict must not lose the report", name: "db", conflicts: 2, want: "Success/", synced: "ReconcileSuccess"},
		"ConflictsLong": {reason: "it does not try for ever", name: "db", conflicts: 100, fails: true, want: "/"},
		"Gone":          {reason: "there is nothing to report to", name: "other", want: "/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, left := context.Background(), tc.conflicts
			s := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(s); err != nil {
				t.Fatal(err)
			}
			mg := newDatabase(5)
			kube := fake.NewClientBuilder().WithScheme(s).WithObjects(mg).WithStatusSubresource(mg).WithInterceptorFuncs(interceptor.Funcs{
				SubResourceUpdate: func(ctx context.Context, c kclient.Client, sub string, o kclient.Object, opts ...kclient.SubResourceUpdateOption) error {
					if left--; left >= 0 {
						return kerrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("another client wrote"))
					}
					return c.SubResource(sub).Update(ctx, o, opts...)
				},
			}).Build()
			requeued := 0
			cb := StatusCallback(kube, kube, Databases().New, tc.finished, func(types.NamespacedName, error) { requeued++ })

			err := cb(ctx, types.NamespacedName{Namespace: "default", Name: tc.name}, OperationUpdate, tc.err)
			if (err != nil) != tc.fails {
				t.Errorf("%s: want failure %t, got %v", tc.reason, tc.fails, err)
			}
			if requeued != 1 {
				t.Errorf("%s: want one reconcile requested in any case, got %d", tc.reason, requeued)
			}
			got := &v1alpha1.Database{}
			if err := kube.Get(ctx, types.NamespacedName{Namespace: "default", Name: "db"}, got); err != nil {
				t.Fatal(err)
			}
			if c := conditions(got); c != tc.want || got.GetCondition(xpv2.TypeSynced).Reason != tc.synced {
				t.Errorf("%s: want %q and Synced %q, got %q and %q", tc.reason, tc.want, tc.synced, c, got.GetCondition(xpv2.TypeSynced).Reason)
			}
		})
	}
}
