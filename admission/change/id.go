package change

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// IDLength is the number of hex digits of a difference id.
const IDLength = 16

// Identity of an object in a difference id: what stays the same from one
// replica, retry and adapter to the next. The name of a child that is to be
// created is not known yet; Resource, its composition resource name, stands in.
type Identity struct {
	APIVersion, Kind, Namespace, Name, Resource string
}

// ID of a difference: the first 16 hex digits of the SHA-256 over relation,
// operation, parent, child and the canonical JSON of the changed paths with old
// and new values (spec 10). The same difference has the same id everywhere.
func ID(relation v1alpha1.Relation, operation string, parent, child Identity, changes []Change) string {
	type field struct {
		Path     string
		Old, New any
	}
	fields := make([]field, 0, len(changes))
	for _, c := range changes {
		fields = append(fields, field{Path: c.Path, Old: c.Old, New: c.New})
	}
	raw, err := json.Marshal([]any{relation, operation, parent, child, fields})
	if err != nil { // as canonical has it, value by value
		for i, c := range changes {
			fields[i].Old, fields[i].New = canonical(c.Old), canonical(c.New)
		}
		raw = canonical([]any{relation, operation, parent, child, fields})
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:IDLength]
}

// redacted stands for values that must not leave the cluster.
const redacted = "<redacted>"

// maxValue is how many bytes of a value a report shows.
const maxValue = 256

// Fields of a report for changes, at most max of them. Values are redacted
// where secret says so, and cut to 256 bytes.
func Fields(changes []Change, max int, secret bool) []v1alpha1.FieldDifference {
	if len(changes) > max {
		changes = changes[:max]
	}
	out := make([]v1alpha1.FieldDifference, 0, len(changes))
	for _, c := range changes {
		out = append(out, v1alpha1.FieldDifference{
			Path: c.Path, Verb: string(c.Verb), Old: show(c.Old, secret), New: show(c.New, secret),
		})
	}
	return out
}

func show(v any, secret bool) string {
	if v == nil {
		return ""
	}
	if secret {
		return redacted
	}
	s := string(canonical(v))
	if len(s) > maxValue {
		s = strings.ToValidUTF8(s[:maxValue], "") + "…"
	}
	return s
}
