package ssa

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// randomValue returns a random JSON value, of few different ones so that two are often equal in part.
func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n < 2 && depth > 0:
		return randomFields(r, depth-1)
	case n < 4 && depth > 0:
		out := make([]any, r.IntN(4))
		for i := range out {
			out[i] = randomValue(r, depth-1)
		}
		return out
	case n < 6:
		return fmt.Sprint("text", r.IntN(3))
	case n == 6:
		return int64(r.IntN(3))
	case n == 7:
		return []any{true, 0.5}[r.IntN(2)]
	}
	return nil
}

func randomFields(r *rand.Rand, depth int) map[string]any {
	out := map[string]any{}
	for range r.IntN(4) {
		out[fmt.Sprint("field", r.IntN(4))] = randomValue(r, depth)
	}
	return out
}

// TestObjectLike: what is read with the help of another object is what is read without, in a map of its own, and
// leaves the other object as it was.
func TestObjectLike(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same values in each run
	for range 20_000 {
		s, like := ToStruct(randomFields(r, 3)), randomFields(r, 3)
		if r.IntN(3) == 0 { // they differ in one field
			like = Object(s)
			like["field0"] = randomValue(r, 1)
		}
		before := Object(ToStruct(like))
		got := ObjectLike(s, like)
		if diff := cmp.Diff(Object(s), got); diff != "" {
			t.Fatalf("like %v: -want, +got:\n%s", like, diff)
		}
		got["added"] = true
		if diff := cmp.Diff(before, like); diff != "" {
			t.Fatalf("the other object changed: -want, +got:\n%s", diff)
		}
	}
	if got := ObjectLike(nil, map[string]any{"a": "b"}); got != nil {
		t.Errorf("got %v for no Struct", got)
	}
	if got := ObjectLike(&structpb.Struct{}, nil); got == nil || len(got) != 0 {
		t.Errorf("got %v for an empty Struct", got)
	}
}
