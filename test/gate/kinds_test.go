package gate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var (
	customResourceDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crates                    = schema.GroupVersionResource{Group: "other.example.org", Version: "v1", Resource: "crates"}
)

// TestUnreadableKind: a kind whose conversion is broken does not affect others.
// Webhook and gate that start meanwhile serve all other kinds.
//
// It does not run with others: it restarts what they share.
func TestUnreadableKind(t *testing.T) {
	s := newFixture(t, "unreadable")
	require.NoError(t, the.Define(t.Context(), bucketLike("Crate")))
	wait.For(t, "a crate", wait.Patience, func(ctx context.Context) error {
		_, err := s.of(s.hans, crates).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "other.example.org/v1", "kind": "Crate", "metadata": map[string]any{"name": "old"}, "spec": map[string]any{},
		}}, metav1.CreateOptions{})
		return err
	})
	s.convert(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/convert"}}}`,
		`,{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"copy","from":"/spec/versions/0","path":"/spec/versions/-"},
{"op":"replace","path":"/spec/versions/1/name","value":"v2"},{"op":"replace","path":"/spec/versions/1/storage","value":true}`)
	t.Cleanup(func() {
		s.convert(`{"strategy":"None"}`, "")
		require.NoError(t, s.hans.Resource(customResourceDefinitions).Delete(context.Background(), "crates.other.example.org", metav1.DeleteOptions{}))
	})
	wait.For(t, "the kind to be unreadable", wait.Patience, func(ctx context.Context) error {
		v2 := crates
		v2.Version = "v2"
		if _, err := s.of(s.hans, v2).List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "conversion") {
			return fmt.Errorf("listing does not fail for its conversion: %w", err)
		}
		return nil
	})
	for _, p := range []*part{the.webhook, the.gate} {
		p.Kill()
		require.NoError(t, p.Restart())
	}
	for _, p := range []*part{the.webhook, the.gate} {
		require.NoError(t, p.ready(t.Context()))
	}
	s.awaitClosed(s.lone("db", 5))
}

// convert crates so from now on.
func (s *fixture) convert(how, more string) {
	s.t.Helper()
	patch := `[{"op":"add","path":"/spec/conversion","value":` + how + `}` + more + `]`
	_, err := s.hans.Resource(customResourceDefinitions).Patch(context.Background(), "crates.other.example.org", types.JSONPatchType,
		[]byte(patch), metav1.PatchOptions{})
	require.NoError(s.t, err)
}
