package decider

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// TestKindsNotRead: a replica that has not read the CRDs decides nothing and notes no status. A request waits for them, and is decided once
// they are read (KR-13-76).
func TestKindsNotRead(t *testing.T) {
	lists := map[schema.GroupVersionResource]string{kinds.CRDs: "CustomResourceDefinitionList"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	read := make(chan struct{})
	client.PrependReactor("list", kinds.CRDs.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		<-read
		return false, nil, nil
	})
	c, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	c.Kinds, err = kinds.New(client, nil)
	require.NoError(t, err)
	go c.Kinds.Run(t.Context())
	noted := 0
	dr := &Decider{Cluster: c, Evaluator: &admission.Evaluator{World: kindsWorld{}, Options: admission.Options{DefaultMode: v1alpha1.ModeEnforce}},
		StatusReviewed: func(*admission.Request) { noted++ }, Log: logr.Discard()}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "DB", "metadata": map[string]any{"name": "a", "uid": "u"}}}
	request := func() *admission.Request {
		return &admission.Request{Operation: admission.Create, Kind: o.GroupVersionKind(), Name: "a", Object: o.DeepCopy(), Time: metav1.Now().Time}
	}
	_, undecided := dr.Decide(t.Context(), Incoming{Request: request()})
	require.ErrorContains(t, undecided, "the CRDs are not read yet; try again")
	assert.EqualValues(t, http.StatusInternalServerError, undecided.Code(), "so that the caller repeats it")
	d, _ := dr.Status(t.Context(), request())
	assert.True(t, d.Allowed)
	assert.Zero(t, noted)

	time.AfterFunc(200*time.Millisecond, func() { close(read) })
	d, undecided = dr.Decide(t.Context(), Incoming{Request: request()})
	require.Nil(t, undecided)
	assert.True(t, d.Allowed)
	dr.Status(t.Context(), request())
	assert.Equal(t, 1, noted)
}
