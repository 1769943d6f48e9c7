package change

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Digest of a difference: SHA-256 as 64 hex digits. The same difference has the same Digest in each replica, retry and
// adapter. An approval that names a difference is about its Digest (KR-13-68).
type Digest string

// IDLength is the number of hex digits of a difference id.
const IDLength = 16

// ID returns the id by which users and messages name the difference: the first digits of the Digest.
func (d Digest) ID() string { return string(d[:min(len(d), IDLength)]) }

// Whole returns the Digest as text; "" where no more than its id is known.
func (d Digest) Whole() string {
	if len(d) <= IDLength {
		return ""
	}
	return string(d)
}

// Is reports whether a name is that of the difference: its id, or the whole Digest.
func (d Digest) Is(name string) bool { return name != "" && (name == d.ID() || name == string(d)) }

// Identity identifies an object in a difference id, by fields that are the same in each replica, retry and adapter.
// The name of a child that is to be created is not known yet; Resource, its composition resource name, takes its
// place.
type Identity struct {
	APIVersion, Kind, Namespace, Name, Resource string
	// External resource of a managed resource. Where it is empty, it is not part of the id.
	External string `json:",omitempty"`
}

// DigestOf returns the Digest of a difference: over relation, operation, parent, child and the canonical JSON of the changed
// paths with old and new values (KR-10-02). Values that are secret are not part of it: with the rest of the input public, the id would be a hash to
// test guesses by (KR-13-27).
func DigestOf(relation v1alpha1.Relation, operation string, parent, child Identity, changes []Change) Digest {
	buffer, _ := buffers.Get().(*[]byte)
	raw := (*buffer)[:0]
	raw = append(appendText(append(raw, '['), string(relation)), ',')
	raw = append(appendText(raw, operation), ',')
	raw = append(parent.append(raw), ',')
	raw = append(child.append(raw), ",["...)
	for i, c := range changes {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(appendText(append(raw, `{"Path":`...), c.Path), `,"Old":`...)
		raw = append(appendCanonical(raw, shown(c.Old, c.Secret)), `,"New":`...)
		raw = append(appendCanonical(raw, shown(c.New, c.Secret)), '}')
	}
	raw = append(raw, "]]"...)
	sum := sha256.Sum256(raw)
	if cap(raw) <= maxBuffer {
		*buffer = raw
		buffers.Put(buffer)
	}
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return Digest(digits[:])
}

// IsID reports whether a text has the form of an id. Any other text is never part of a command that is suggested.
func IsID(s string) bool { return len(s) == IDLength && strings.Trim(s, "0123456789abcdef") == "" }

// buffers for what is digested, of up to maxBuffer bytes.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxBuffer = 16 * 1024

// append appends the identity as JSON, with its fields in the order of the type.
func (i Identity) append(out []byte) []byte {
	if i.External != "" {
		return appendMembers(out, "APIVersion", i.APIVersion, "Kind", i.Kind, "Namespace", i.Namespace, "Name", i.Name, "Resource", i.Resource,
			"External", i.External)
	}
	return appendMembers(out, "APIVersion", i.APIVersion, "Kind", i.Kind, "Namespace", i.Namespace, "Name", i.Name, "Resource", i.Resource)
}

// maxValue is how many bytes of a value a report shows.
const maxValue = 256

// Fields returns the fields of a report for changes, at most max of them. Values are cut to 256 bytes, and replaced
// where they are secret (KR-13-01).
func Fields(changes []Change, max int) []v1alpha1.FieldDifference {
	if len(changes) > max {
		changes = changes[:max]
	}
	out := make([]v1alpha1.FieldDifference, 0, len(changes))
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	text := func(v any) (s string) {
		var room []byte
		if s, room = text(v, *buffer); cap(room) <= maxBuffer {
			*buffer = room
		}
		return s
	}
	for _, c := range changes {
		out = append(out, v1alpha1.FieldDifference{
			Path: c.Path, Verb: string(c.Verb), Old: text(shown(c.Old, c.Secret)), New: text(shown(c.New, c.Secret)),
		})
	}
	return out
}

// shown returns a value with its secret parts replaced.
func shown(v any, secret bool) any {
	if secret {
		return hide(v)
	}
	out, _ := show(v)
	return out
}

// text returns the text of a value in a report: JSON, and "" for nil. It is written into room, which is returned.
func text(v any, room []byte) (string, []byte) {
	switch v {
	case nil:
		return "", room
	case redacted: // without quotes: no JSON is cut short
		return redacted, room
	}
	room = appendCanonical(room[:0], v)
	if len(room) > maxValue {
		return strings.ToValidUTF8(string(room[:maxValue]), "") + "…", room
	}
	return string(room), room
}
