package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
)

// A kind that reports no generation has observed the one it had when its status
// was last written (spec 3), from the moment that the write shows in the object.
func TestObservedByStatusWrite(t *testing.T) {
	object := func(revision string, generation int64, status any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Plain",
			"metadata": map[string]any{"name": "p", "uid": "u", "resourceVersion": revision, "generation": generation}}}
		if status != nil {
			o.Object["status"] = status
		}
		return o
	}
	busy, done := map[string]any{"step": "busy"}, map[string]any{"step": "done"}
	cases := map[string]struct {
		reason string
		// old and written status, of the write that is admitted at revision 10.
		old, written any
		seen         *unstructured.Unstructured
		want         int64
	}{
		"NotLanded":     {"the first status is on its way", nil, busy, object("10", 2, nil), 0},
		"OtherWrite":    {"what landed is somebody's annotation", nil, busy, object("11", 2, nil), 0},
		"Landed":        {"it shows", nil, busy, object("11", 2, busy), 2},
		"NextNotLanded": {"the older status is about an older generation", done, busy, object("10", 2, done), 0},
		"NextLanded":    {"the next one shows", done, busy, object("11", 2, busy), 2},
		"Stale":         {"an older version of the object", done, busy, object("9", 1, done), 0},
		"SameAgain":     {"a write that changes nothing makes no new version", done, done, object("10", 2, done), 2},
		"NoNumber":      {"a resourceVersion that cannot be compared", done, busy, object("x", 2, busy), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tr := newTracker()
			tr.sawStatus(&admission.Request{Operation: admission.Update, User: subject.User{Name: "system:controller"},
				OldObject: object("10", 2, tc.old), Object: object("10", 2, tc.written)})
			got, known := tr.observed(parent.Sum(tc.seen, parent.RoleNone))
			if got != tc.want || known != (tc.want > 0) {
				t.Errorf("%s: want %d, got %d, known %t", tc.reason, tc.want, got, known)
			}
		})
	}
}
