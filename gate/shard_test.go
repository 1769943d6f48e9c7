package gate

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// Each object is exactly one shard's, in all versions of its kind, and the shards
// have about as many each (KR-12-07).
func TestShard(t *testing.T) {
	const shards, objects = 3, 3000
	counts := make([]int, shards)
	for n := range objects {
		takers := 0
		for i := range uint32(shards) {
			ref := parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Database"},
				Namespace: "shop", Name: fmt.Sprintf("db-%d", n)}
			s := Shard{Index: i, Count: shards}
			other := ref
			other.Version, other.UID = "v2", "uid"
			if s.Takes(ref) != s.Takes(other) {
				t.Fatalf("%s is another shard's in another version", ref.Name)
			}
			if s.Takes(ref) {
				takers++
				counts[i]++
			}
		}
		if takers != 1 {
			t.Fatalf("db-%d is %d shards'", n, takers)
		}
	}
	for i, n := range counts {
		if n < objects/shards*8/10 {
			t.Errorf("shard %d has %d of %d", i, n, objects)
		}
	}
	if !(Shard{}).Takes(parent.Ref{Name: "any"}) {
		t.Error("without shards there is an object that no process takes")
	}
}

func TestParseShard(t *testing.T) {
	for text, want := range map[string]Shard{"": {}, "0/1": {0, 1}, "2/3": {2, 3}} {
		if got, err := ParseShard(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"1", "3/3", "-1/2", "a/b", "0/0", "1/2/3", "0/99999"} {
		if got, err := ParseShard(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
	if a, b := (Shard{0, 2}).lease(), (Shard{1, 2}).lease(); a == b || (Shard{}).lease() != "kausality-gate" {
		t.Errorf("leases %s, %s, %s", a, b, (Shard{}).lease())
	}
}
