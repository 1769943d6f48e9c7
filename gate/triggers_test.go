package gate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestDecideAgain: what changes the votes that a deletion above a managed resource needs is decided about for all that is below its parent
// (KR-14-03). What does not is decided about for the managed resource alone.
func TestDecideAgain(t *testing.T) {
	xr := parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "XDatabase"}, Namespace: "shop", Name: "orders"}
	terraform := schema.GroupVersionKind{Group: "infra.contrib.fluxcd.io", Version: "v1alpha2", Kind: "Terraform"}
	object := func(labels, annotations map[string]string, policies ...string) *states.Object {
		return &states.Object{State: &parent.State{Labels: labels, Annotations: annotations, Parent: xr, ManagementPolicies: policies,
			Ref: parent.Ref{GroupVersionKind: terraform, Namespace: "shop", Name: "net"}}}
	}
	for name, tc := range map[string]struct {
		new   *states.Object
		above bool
	}{
		"Same":     {new: object(nil, nil, "*")},
		"Traced":   {new: object(nil, map[string]string{v1alpha1.AnnotationKeyTrace: "[]"}, "*")},
		"Labelled": {new: object(map[string]string{"tier": "gold"}, nil, "*"), above: true},
		"Orphaned": {new: object(nil, map[string]string{v1alpha1.AnnotationKeyDeletion: v1alpha1.DeletionOrphan}, "*"), above: true},
		"NoDelete": {new: object(nil, nil, "Observe", "Update"), above: true},
	} {
		t.Run(name, func(t *testing.T) {
			of, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"}) // nothing is read
			require.NoError(t, err)
			s := &scope{cluster: of, queue: newQueue()}
			to := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[parent.Ref]())
			defer to.ShutDown()
			require.NoError(t, s.queue.Start(t.Context(), to))
			decideAgain(s, object(nil, nil, "*"), tc.new)
			var enqueued []string
			for to.Len() > 0 {
				ref, _ := to.Get()
				enqueued = append(enqueued, ref.Kind)
			}
			want := []string{"Terraform"}
			if tc.above {
				want = append(want, "XDatabase")
			}
			assert.Equal(t, want, enqueued)
		})
	}
}
