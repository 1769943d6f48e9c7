package change

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// values that are JSON, and a few that are not.
func odd(depth int) *rapid.Generator[any] {
	return rapid.OneOf(value(depth), rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }), rapid.SampledFrom([]any{
		"<&>", "\u2028", "\xff", "\x7f", "tab\t", `"\`, 1e21, 1e-7, -0.5, math.NaN(), math.Inf(1), 3, uint8(1), []string{"a"}, struct{ A int }{1},
		map[string]any(nil), []any(nil), map[string]any{"\xff<": "x"}, []any{math.NaN()}, math.MaxInt64, int64(math.MinInt64), json.RawMessage(`{"a": 1}`),
	}))
}

// The shorter way ends where encoding/json does.
func TestAppendJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := odd(3).Draw(t, "value")
		want, err := json.Marshal(v)
		got, failed := appendJSON([]byte("before"), v)
		if (err != nil) != (failed != nil) {
			t.Fatalf("%#v: encoding/json returns %v, appendJSON %v", v, err, failed)
		}
		if err == nil && string(got) != "before"+string(want) {
			t.Errorf("%#v: want %s after before, got %s", v, want, got)
		}
	})
}

// An id is the digest of what encoding/json makes of a difference: it is stored
// on objects in clusters.
func TestIDIsOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"", "apps/v1", "Deployment", "<b>", "\xff"}), rapid.String())
		identity := rapid.Custom(func(t *rapid.T) Identity {
			return Identity{text.Draw(t, "version"), text.Draw(t, "kind"), text.Draw(t, "namespace"), text.Draw(t, "name"), text.Draw(t, "resource"),
				text.Draw(t, "external")}
		})
		changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Change {
			return Change{Path: text.Draw(t, "path"), Verb: Mutate, Old: odd(2).Draw(t, "old"), New: odd(2).Draw(t, "new")}
		}), 0, 4).Draw(t, "changes")
		p, c, op := identity.Draw(t, "parent"), identity.Draw(t, "child"), text.Draw(t, "operation")

		type field struct {
			Path     string
			Old, New any
		}
		json1 := func(v any) json.RawMessage {
			raw, err := json.Marshal(v)
			if err != nil {
				return json.RawMessage(`"?"`)
			}
			return raw
		}
		fields := []field{}
		for _, x := range changes {
			fields = append(fields, field{x.Path, json1(x.Old), json1(x.New)})
		}
		sum := sha256.Sum256(json1([]any{v1alpha1.RelationControllerChild, op, p, c, fields}))
		if got, want := DigestOf(v1alpha1.RelationControllerChild, op, p, c, changes).ID(), hex.EncodeToString(sum[:])[:IDLength]; got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	})
}
