package policies

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
)

// TestPoliciesWithoutCRD: a cluster without the CRD of the policies has none, and
// nothing waits for them.
func TestPoliciesWithoutCRD(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	if p.HasSynced() {
		t.Error("nothing was read yet")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	await.Poll(t, "the policies to be known", p.HasSynced)
	if got := len(p.Set().Scopes()); got != 0 {
		t.Errorf("%d scopes without policies", got)
	}
	stop()
	<-done
}

// TestPoliciesOfTheNextCRD: policies are in force within seconds after their CRD is installed again, however long it was
// missing, and while it is missing nothing is requested.
func TestPoliciesOfTheNextCRD(t *testing.T) {
	t.Parallel()
	var served, defined atomic.Bool
	var requests, early atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch {
		case !served.Load():
			if defined.Load() {
				early.Add(1)
			}
			http.NotFound(w, r)
		case r.URL.Query().Get("watch") != "":
			http.Error(w, "no watches", http.StatusBadRequest)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"apiVersion":"kausality.io/v1alpha1","kind":"KausalityList","metadata":{"resourceVersion":"1"},"items":[` +
				`{"apiVersion":"kausality.io/v1alpha1","kind":"Kausality","metadata":{"name":"shop","uid":"1"},"spec":{"mode":"log","resources":[` +
				`{"apiGroups":["shop.example.org"],"resources":["apps"]}]}}]}`))
		}
	}))
	t.Cleanup(s.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	require.NoError(t, err)
	p, err := New(client)
	require.NoError(t, err)
	var looked atomic.Int32
	var looks await.Signal
	p.Defined = func() bool {
		defer looks.Raise()
		looked.Add(1)
		return defined.Load()
	}
	done := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(done); p.Run(ctx) }()
	await.Poll(t, "the policies to be missing", p.missing.Load)
	before, from := requests.Load(), looked.Load()
	looks.Until(t, "the CRD to be missed ten times", func() bool { return looked.Load() >= from+10 })
	assert.Equal(t, before, requests.Load(), "while the CRD is missing, nothing is requested")
	defined.Store(true) // The API server serves the kind of a CRD some time after it exists.
	await.Poll(t, "a request for what is not served yet", func() bool { return early.Load() >= 2 })
	served.Store(true)
	await.Poll(t, "the policy to be in force", func() bool { return len(p.Set().Scopes()) == 1 })
	stop()
	<-done
}

// TestDeletedPolicies: a deleted policy is not in force any more, also where its CRD
// cannot be read at first. One that was deleted with its CRD stays in force, also
// where the CRD is installed again before it can be read.
func TestDeletedPolicies(t *testing.T) {
	created := time.Now().Truncate(time.Second)
	crd := func(age time.Duration, deleting bool) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("apiextensions.k8s.io/v1")
		o.SetKind("CustomResourceDefinition")
		o.SetName(PolicyCRD)
		o.SetCreationTimestamp(metav1.NewTime(created.Add(-age)))
		if deleting {
			o.SetDeletionTimestamp(&metav1.Time{Time: created})
		}
		return o
	}
	for name, tc := range map[string]struct {
		crd      *unstructured.Unstructured
		failures int32
		again    bool // the policy is created again, before its CRD can be read
		stays    bool
	}{
		"Read":              {crd: crd(time.Hour, false)},
		"SameSecond":        {crd: crd(0, false)},
		"UnreadableAtFirst": {crd: crd(time.Hour, false), failures: 2},
		"CreatedAgain":      {crd: crd(time.Hour, false), failures: 2, again: true, stays: true},
		"CRDGone":           {stays: true},
		"CRDDeleting":       {crd: crd(time.Hour, true), stays: true},
		"CRDAgain":          {crd: crd(-time.Minute, false), failures: 2, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{Resource: "KausalityList", kinds.CRDs: "CustomResourceDefinitionList"})
			if tc.crd != nil {
				require.NoError(t, client.Tracker().Add(tc.crd))
			}
			var reads atomic.Int32
			client.PrependReactor("get", kinds.CRDs.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return reads.Add(1) <= tc.failures, nil, context.DeadlineExceeded
			})
			p, err := New(client)
			require.NoError(t, err)
			one := func(uid types.UID) *policy {
				m := metav1.ObjectMeta{Name: "shop", UID: uid, CreationTimestamp: metav1.NewTime(created)}
				return &policy{Meta: informer.Meta{ObjectMeta: m}, k: &v1alpha1.Kausality{ObjectMeta: m}}
			}
			var changes atomic.Int32
			p.OnChange(func() { changes.Add(1) })
			p.learn(one("1"))
			p.forget(cache.DeletedFinalStateUnknown{Obj: one("1")})
			if tc.again {
				p.learn(one("2"))
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); p.Run(ctx) }()
			await.Poll(t, "the CRD to be read", func() bool {
				p.mu.RLock()
				defer p.mu.RUnlock()
				return len(p.deleted) == 0
			})
			stop()
			<-done
			assert.Equal(t, tc.stays, p.byName["shop"] != nil)
			assert.Equal(t, tc.failures+1, reads.Load())
			if !tc.stays {
				assert.EqualValues(t, 2, changes.Load(), "a change is announced")
			}
		})
	}
}

// TestLivePolicies: the policies as they are stored, whatever the watch has: those of it that are gone with their CRD stay in force, and so
// do all while there is no CRD; what cannot be read is an error (KR-13-74).
func TestLivePolicies(t *testing.T) {
	created := time.Now().Truncate(time.Second)
	stored := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": Kind.GroupVersion().String(), "kind": Kind.Kind,
			"metadata": map[string]any{"name": name, "uid": name}, "spec": map[string]any{"freeze": map[string]any{},
				"resources": []any{map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"apps"}}}}}}
	}
	crd := func(deleting bool) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("apiextensions.k8s.io/v1")
		o.SetKind("CustomResourceDefinition")
		o.SetName(PolicyCRD)
		o.SetCreationTimestamp(metav1.NewTime(created.Add(-time.Hour)))
		if deleting {
			o.SetDeletionTimestamp(&metav1.Time{Time: created})
		}
		return o
	}
	for name, tc := range map[string]struct {
		objects []*unstructured.Unstructured
		failure error
		want    []string
	}{
		"Removed":     {objects: []*unstructured.Unstructured{crd(false), stored("new")}, want: []string{"new"}},
		"CRDDeleting": {objects: []*unstructured.Unstructured{crd(true)}, want: []string{"known"}},
		"CRDGone":     {failure: kerrors.NewNotFound(Resource.GroupResource(), ""), want: []string{"known"}},
		"Unreadable":  {failure: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{Resource: "KausalityList", kinds.CRDs: "CustomResourceDefinitionList"})
			for _, o := range tc.objects {
				resource := kinds.CRDs
				if o.GetKind() == Kind.Kind {
					resource = Resource
				}
				require.NoError(t, client.Tracker().Create(resource, o, ""))
			}
			client.PrependReactor("list", Resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return tc.failure != nil, nil, tc.failure
			})
			p, err := New(client)
			require.NoError(t, err)
			known := policyOf(stored("known"))
			known.k.CreationTimestamp = metav1.NewTime(created)
			p.learn(known)
			set, err := p.Live(t.Context())
			if tc.want == nil {
				require.ErrorIs(t, err, tc.failure)
				return
			}
			require.NoError(t, err)
			assert.ElementsMatch(t, tc.want, slices.Collect(maps.Keys(set.Frozen())))
			assert.Len(t, p.Set().Frozen(), 1, "what the watch has is not changed")
		})
	}
}

// TestConfigurationByName: of all webhook configurations only ours is read.
func TestConfigurationByName(t *testing.T) {
	selectors := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case selectors <- r.URL.Query().Get("fieldSelector"):
		default: // enough of them
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	scope, err := scope.New(client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); scope.Run(ctx) }()
	for range 2 { // a list that streams, and one that does not
		if got := <-selectors; got != "metadata.name=kausality" {
			t.Errorf("read with field selector %q", got)
		}
	}
	stop()
	<-done
}
