package annotate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/internal/await"
)

// busy is an object that another client writes before each patch, for a number of times.
type busy struct {
	dynamic.ResourceInterface

	conflicts int
}

func (b *busy) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAnnotations(map[string]string{"key": time.Now().Format(time.RFC3339Nano)})

	return o, nil
}

func (b *busy) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*unstructured.Unstructured, error) {
	if b.conflicts == 0 {
		return &unstructured.Unstructured{}, nil
	}

	b.conflicts--
	await.Sleep(time.Millisecond) // The other client writes.

	return nil, kerrors.NewConflict(schema.GroupResource{}, "orders", nil)
}

// TestBusyObject: a write wins within some seconds although other clients are faster many times.
func TestBusyObject(t *testing.T) {
	next := "mine"

	for name, tc := range map[string]struct {
		conflicts int
		fails     bool
	}{
		"ManyTimes":    {conflicts: attempts - 1},
		"AgainAndMore": {conflicts: attempts, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := Writer{Client: &busy{conflicts: tc.conflicts}, Name: "orders"}

				_, err := w.Annotate(t.Context(), "key", func(map[string]string) (*string, error) { return &next, nil })
				if (err != nil) != tc.fails {
					t.Fatalf("got error %v", err)
				}

				if took := time.Since(began); took < 3*time.Second || took > 15*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
