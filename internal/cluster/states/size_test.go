package states

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/race"
)

// xr of 3.5 KB, as the API server sends it.
func xr(i int) []byte {
	hop := fmt.Sprintf(`[{"apiVersion":"example.org/v1alpha1","kind":"XDatabase","name":"db-%05d","generation":4,`+
		`"user":"hans@example.com","timestamp":"2026-01-01T00:00:00Z"}]`, i)
	return fmt.Appendf(nil, `{"apiVersion":"example.org/v1alpha1","kind":"XDatabase",
"metadata":{"name":"db-%05d","namespace":"team-%d","uid":"6f9619ff-8b86-d011-b42d-%012d","resourceVersion":"%d",
"generation":4,"creationTimestamp":"2026-01-01T00:00:00Z",
"annotations":{"kausality.io/phase":"initialized","kausality.io/settled-generation":"4","kausality.io/settled-state":"4,0123456789abcdef",
"kausality.io/controllers":"2m2kc","kausality.io/controller-ids":"0123456789abcdef0123456789abcdef",
"kubectl.kubernetes.io/last-applied-configuration":%q,
"kausality.io/trace":%q},
"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"example.org/v1alpha1","time":"2026-01-01T00:00:00Z",
"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:size":{}}}},
{"manager":"crossplane","operation":"Update","subresource":"status","apiVersion":"example.org/v1alpha1","time":"2026-01-01T00:00:00Z",
"fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{}}}}]},
"spec":{"size":20,"text":%q,"crossplane":{"compositionRef":{"name":"xdatabases.example.org"},"compositionRevisionRef":{"name":"xdatabases.example.org-b57ab4c"},
"resourceRefs":[{"apiVersion":"cloud.example.org/v1alpha1","kind":"Database","name":"db-%05d-a"},
{"apiVersion":"cloud.example.org/v1alpha1","kind":"Database","name":"db-%05d-b"}]}},
"status":{"conditions":[{"type":"Synced","status":"True","reason":"ReconcileSuccess","observedGeneration":4,"lastTransitionTime":"2026-01-01T00:00:00Z"},
{"type":"Ready","status":"True","reason":"Available","observedGeneration":4,"lastTransitionTime":"2026-01-01T00:00:00Z"},
{"type":"Responsive","status":"True","reason":"WatchCircuitClosed","observedGeneration":4,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		i, i%50, i, i, strings.Repeat("x", 1200), hop, strings.Repeat("x", 600), i, i)
}

// A cached XR with two children takes half of what the object has as JSON, and nothing of it keeps the object itself alive.
func TestObjectSize(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates, too")
	}
	const n, limit = 5000, 1900
	raw := xr(0)
	if len(raw) < 3000 {
		t.Fatalf("the object has only %d bytes", len(raw))
	}
	keep := make([]*Object, n)
	before := live()
	for i := range keep {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(xr(i)); err != nil {
			t.Fatal(err)
		}
		keep[i] = &Object{State: parent.Sum(u, parent.RoleComposite)}
		keep[i].Share()
	}
	size := (live() - before) / n
	runtime.KeepAlive(keep)
	t.Logf("%d bytes of %d", size, len(raw))
	if size > limit {
		t.Errorf("a cached object takes %d bytes, more than %d", size, limit)
	}
	if s := keep[1].State; s.Name != "db-00001" || s.Namespace != "team-1" || len(s.Children) != 2 || !s.True("Ready") ||
		s.Annotations["kausality.io/phase"] != "initialized" || s.CompositionRevision == "" {
		t.Errorf("the object is %+v", s)
	}
}

func live() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// 10,000 parents, 100 of them as large as the API server stores, take a fraction of the memory of a replica
// (KR-13-28).
func TestManyParents(t *testing.T) {
	const n, great, limit = 10_000, 100, 48 << 20
	keep := make([]*Object, n)
	before := live()
	for i := range keep {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(xr(i)); err != nil {
			t.Fatal(err)
		}
		if i < great {
			u.Object["spec"].(map[string]any)["text"] = strings.Repeat("<", 1<<20)
			u.Object["spec"].(map[string]any)["list"] = make([]any, 50_000)
		}
		keep[i] = &Object{State: parent.Sum(u, parent.RoleComposite)}
		keep[i].Share()
	}
	size := live() - before
	runtime.KeepAlive(keep)
	t.Logf("%d MiB", size>>20)
	if size > limit {
		t.Errorf("%d parents take %d bytes, more than %d", n, size, limit)
	}
}
