package subject

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// User who makes a request, as Kubernetes authenticated them.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

const (
	hashLength = 5
	// idBytes are as many of a SHA-256 that no other name with the same ones can be found.
	idBytes = 16
)

// Hash returns the user hash (KR-02-03): the first 5 characters of the base36 of the SHA-256 of the
// user name, or of the UID where there is no name. A user with neither has the hash "".
//
// It has 26 bits: a client that may name users finds one with a given hash. It is for users
// and other tools to read, and only narrows what ID grants (KR-13-40).
func (u User) Hash() string {
	name := cmp.Or(u.Name, u.UID)
	if name == "" {
		return ""
	}
	if known, ok := hashes.Get(name); ok {
		hash, _ := known.(string)
		return hash
	}
	sum := sha256.Sum256([]byte(name))
	hash := short(sum[:])
	if len(name) <= maxHashed {
		hashes.Add(strings.Clone(name), hash) // not the request that the name is a part of
	}
	return hash
}

// hashes by the names of users, of at most maxHashes: the same few users make most requests, and the base 36 of a SHA-256 is a long division.
var hashes = lru.New(maxHashes)

const (
	maxHashes = 1024
	// maxHashed is the longest name whose hash is kept, in bytes.
	maxHashed = 256
)

// ID returns the first 128 bits, as 32 hex digits, of the SHA-256 that Hash is of. A user with neither
// name nor UID has the id "" (KR-13-40).
func (u User) ID() string {
	name := cmp.Or(u.Name, u.UID)
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	var digits [2 * idBytes]byte
	hex.Encode(digits[:], sum[:idBytes])
	return string(digits[:])
}

// HashOf returns the hash of the user with an id; "" for what is not an id. It is the user's Hash: the
// bits that the id leaves out change the first digits in one of 2^100 cases.
func HashOf(id string) string {
	sum, err := hex.DecodeString(id)
	if err != nil || len(sum) != idBytes {
		return ""
	}
	return short(append(sum, make([]byte, sha256.Size-idBytes)...))
}

// short returns the short form of a SHA-256.
func short(sum []byte) string {
	text := new(big.Int).SetBytes(sum).Text(36)
	for len(text) < hashLength {
		text = "0" + text
	}
	return text[:hashLength]
}

// IsMachine reports whether the user is a ServiceAccount or another system:
// user. system:admin and the like count: no person uses them.
func (u User) IsMachine() bool { return strings.HasPrefix(u.Name, "system:") }

// IsGarbageCollection reports whether the user is the garbage collector or the
// namespace controller, whose deletions follow from another user's.
func (u User) IsGarbageCollection() bool {
	switch u.Name {
	case "system:serviceaccount:kube-system:generic-garbage-collector",
		"system:serviceaccount:kube-system:namespace-controller":
		return true
	}
	return false
}

// Hashes is the value of an updaters, controllers or controller-ids annotation.
type Hashes []string

// ParseHashes reads a comma-separated list. It never fails: what is not a hash
// never equals one.
func ParseHashes(value string) Hashes {
	var out Hashes
	for h := range strings.SplitSeq(value, ",") {
		if h = strings.TrimSpace(h); h != "" {
			out = append(out, h)
		}
	}
	return out
}

// String returns the annotation's value.
func (h Hashes) String() string { return strings.Join(h, ",") }

// Has reports whether a hash is in the list.
func (h Hashes) Has(hash string) bool { return hash != "" && slices.Contains(h, hash) }

// With returns the list with a hash added as its newest. A hash that is in the
// list already leaves it as it is: the order then does not depend on who wrote
// last, and two controllers that take turns do not change the object for ever.
// The oldest hashes beyond v1alpha1.MaxHashes are pushed out, those in spare
// last.
func (h Hashes) With(hash string, spare Hashes) Hashes {
	if hash == "" || h.Has(hash) {
		return h
	}
	out := append(slices.Clone(h), hash)
	for len(out) > v1alpha1.MaxHashes {
		victim := 0
		for i, old := range out[:len(out)-1] {
			if !spare.Has(old) {
				victim = i
				break
			}
		}
		out = slices.Delete(out, victim, victim+1)
	}
	return out
}

// Crossplane's field managers (v2.3.3, internal/controller/apiextensions).
const (
	composedPrefix   = "apiextensions.crossplane.io/composed/"
	managerComposite = "apiextensions.crossplane.io/composite"
	managerClaim     = "apiextensions.crossplane.io/claim"
	managerBinary    = "crossplane"
)

// referenceResolver is the field manager of crossplane-runtime for references that it
// resolves (v2.1, pkg/reconciler/managed/api.go).
const referenceResolver = "managed.crossplane.io/api-simple-reference-resolver"

// IsReferenceResolver reports whether a field manager is the one under which providers
// write the references of managed resources that they resolved.
func IsReferenceResolver(manager string) bool { return manager == referenceResolver }

// ManagerApplySet is the field manager under which kro applies the children of an instance of a graph (kro v0.9.3,
// pkg/controller/instance/applyset/const.go).
const ManagerApplySet = "kro.run/applyset"

// IsComposedApply reports whether a field manager is one under which
// Crossplane applies composed resources, of whatever composite.
func IsComposedApply(manager string) bool { return strings.HasPrefix(manager, composedPrefix) }

// IsClaimSync reports whether a field manager is the one under which
// Crossplane syncs a Claim to its composite.
func IsClaimSync(manager string) bool { return manager == managerClaim }

// IsCrossplaneMachinery reports whether a field manager is one under which
// Crossplane writes the machinery fields of a composite.
func IsCrossplaneMachinery(manager string) bool {
	return manager == managerComposite || manager == managerBinary
}

// ComposedManager returns the field manager under which Crossplane applies the composed resources of
// the composite with that name and kind (ComposedFieldOwnerName of crossplane v2.3.3).
func ComposedManager(name string, kind schema.GroupKind) string {
	return string(appendComposed(nil, name, kind))
}

// IsComposer reports whether a field manager is the ComposedManager of the composite with that name and kind.
func IsComposer(manager, name string, kind schema.GroupKind) bool {
	var room [128]byte
	return IsComposedApply(manager) && string(appendComposed(room[:0], name, kind)) == manager
}

func appendComposed(out []byte, name string, kind schema.GroupKind) []byte {
	var room [256]byte
	of := append(append(room[:0], name...), kind.Kind...)
	if kind.Group != "" { // as GroupKind.String
		of = append(append(of, '.'), kind.Group...)
	}
	sum := sha256.Sum256(of)
	return hex.AppendEncode(append(out, composedPrefix...), sum[:])
}
