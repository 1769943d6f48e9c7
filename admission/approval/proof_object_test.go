package approval

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTrustedIn: an object whose claims are proven is returned as it is, and one whose claims are not, without them; it is not modified.
func TestTrustedIn(t *testing.T) {
	k := keyed("a")
	object := func(claims string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "XDatabase", "metadata": map[string]any{
			"namespace": "shop", "name": "db", "uid": "1", "annotations": map[string]any{keyClaims: claims}}}}
	}
	const claims = `[{"content":"c","state":"open","at":"2026-01-01T00:00:00Z"}]`
	if o := object(k.Seal(database, claims)); k.TrustedIn(o, now) != o {
		t.Error("an object whose claims are proven is another")
	}
	o := object(claims)
	if got := k.TrustedIn(o, now).GetAnnotations()[keyClaims]; got != "[]" {
		t.Errorf("the claims that nothing proves are %s", got)
	}
	if got := o.GetAnnotations()[keyClaims]; got != claims {
		t.Errorf("input modified: %s", got)
	}
	if o := (&unstructured.Unstructured{Object: map[string]any{}}); k.TrustedIn(o, now) != o {
		t.Error("an object without metadata is another")
	}
}
