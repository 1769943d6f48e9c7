package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// emptyWorld knows no kinds and no parents: what remains is the handler's own
// work.
type emptyWorld struct{}

func (emptyWorld) Kind(schema.GroupVersionKind) admission.Kind { return admission.Kind{} }
func (emptyWorld) Parent(context.Context, parent.Ref, bool) (*parent.State, error) {
	return nil, admission.ErrNotFound
}
func (emptyWorld) Settled(parent.Ref) int64             { return -1 }
func (emptyWorld) StatusWriter(parent.Ref, string) bool { return false }
func (emptyWorld) NamespaceMode(context.Context, string) (v1alpha1.Mode, error) {
	return v1alpha1.ModeEnforce, nil
}
func (emptyWorld) Managed(context.Context, *parent.State) ([]*parent.State, error) { return nil, nil }
func (emptyWorld) Component(subject.User, string) bool                             { return false }

// thing is a custom resource of 3.5 KB.
func thing(tb testing.TB, count int) []byte {
	tb.Helper()
	data := map[string]any{}
	for i := range 60 {
		data[fmt.Sprintf("field%02d", i)] = strings.Repeat("x", 40)
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "example.org/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "thing", "namespace": "default", "uid": "u", "generation": 3, "annotations": map[string]any{"a": "b"}},
		"spec":     map[string]any{"count": count, "data": data},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func BenchmarkHandle(b *testing.B) {
	h := &Handler{Evaluator: &admission.Evaluator{World: emptyWorld{}}, tracker: newTracker()}
	for name, counts := range map[string][2]int{"NoChange": {1, 1}, "Changed": {1, 2}} {
		r := ctrl.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: types.UID("r"), Kind: metav1.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"}, Namespace: "default", Name: "thing",
			Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: "hans@example.com"},
			OldObject: runtime.RawExtension{Raw: thing(b, counts[0])}, Object: runtime.RawExtension{Raw: thing(b, counts[1])},
			Options: runtime.RawExtension{Raw: []byte(`{"kind":"PatchOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl"}`)},
		}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if resp := h.Handle(b.Context(), r); !resp.Allowed || (len(resp.Patches) > 0) != (counts[0] != counts[1]) {
					b.Fatalf("%+v", resp)
				}
			}
		})
	}
}
