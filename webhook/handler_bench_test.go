package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// emptyWorld knows no kinds and no parents: what remains is the handler's own
// work.
type emptyWorld struct{ admission.Nothing }

func (emptyWorld) Kind(schema.GroupVersionKind) identity.Kind { return identity.Kind{} }
func (emptyWorld) Parent(context.Context, parent.Ref, bool) (*parent.State, error) {
	return nil, admission.ErrNotFound
}
func (emptyWorld) Settled(parent.Ref) int64 { return -1 }
func (emptyWorld) Namespace(context.Context, string, bool) (settings.Namespace, error) {
	return settings.Namespace{Mode: v1alpha1.ModeEnforce}, nil
}

// thing is a custom resource of 3.5 KB with its managedFields.
func thing(count int) map[string]any {
	data, owned := map[string]any{}, map[string]any{".": map[string]any{}}
	for i := range 40 {
		data[fmt.Sprintf("field%02d", i)] = strings.Repeat("x", 40)
		owned[fmt.Sprintf("f:field%02d", i)] = map[string]any{}
	}
	return map[string]any{
		"apiVersion": "example.org/v1", "kind": "Thing",
		"metadata": map[string]any{
			"name": "thing", "namespace": "default", "uid": "u", "generation": 3, "annotations": map[string]any{"a": "b"},
			"managedFields": []any{map[string]any{
				"manager": "kubectl", "operation": "Update", "apiVersion": "example.org/v1", "time": "2026-01-01T00:00:00Z",
				"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:count": map[string]any{}, "f:data": owned}},
			}},
		},
		"spec": map[string]any{"count": count, "data": data},
	}
}

// update is the body of a review, as the API server sends it.
func update(tb testing.TB, old, new map[string]any) []byte {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
			"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "UPDATE", "dryRun": false, "namespace": "default", "name": "thing",
			"kind":     map[string]any{"group": "example.org", "version": "v1", "kind": "Thing"},
			"resource": map[string]any{"group": "example.org", "version": "v1", "resource": "things"},
			"userInfo": map[string]any{"username": "hans@example.com", "groups": []string{"system:authenticated"}},
			"object":   new, "oldObject": old,
			"options": map[string]any{"kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// BenchmarkHandle answers a review, from its body to the response.
func BenchmarkHandle(b *testing.B) {
	h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory()}}
	for name, counts := range map[string][2]int{"NoChange": {1, 1}, "Changed": {1, 2}} {
		body := update(b, thing(counts[0]), thing(counts[1]))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if resp := h.answer(b.Context(), body); !resp.Allowed || (len(resp.Patches) > 0) != (counts[0] != counts[1]) {
					b.Fatalf("%+v", resp)
				}
			}
		})
	}
}

// BenchmarkServed answers reviews over HTTP as net/http does: each in a goroutine of
// its own, with the stack that a new one has.
func BenchmarkServed(b *testing.B) {
	h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory()}}
	body := update(b, thing(1), thing(2))
	handler := review.Served(h.answer, review.NewInflight(), logr.Discard())
	b.ReportAllocs()
	done := make(chan *httptest.ResponseRecorder)
	for b.Loop() {
		go func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, PathMutate, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			handler.ServeHTTP(w, r)
			done <- w
		}()
		if w := <-done; !strings.Contains(w.Body.String(), `"allowed":true`) {
			b.Fatal(w.Body)
		}
	}
}
