package approval

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Keys prove which claims annotations were written by Kausality while it reviewed the object: they are sealed by an HMAC with a key
// that no user reads (KR-13-69). They are safe for concurrent use. Without a key, as nil is, and before the first Use, nothing is sealed
// and everything counts.
type Keys struct {
	keys atomic.Pointer[[][]byte]
}

// maxKeys that count. The newest seals.
const maxKeys = 3

// Use a key to seal claims from now on. Those that the keys before have sealed count as well.
func (k *Keys) Use(key []byte) {
	for {
		had := k.keys.Load()
		next := [][]byte{key}
		if had != nil {
			for _, other := range *had {
				if !slices.Equal(other, key) && len(next) < maxKeys {
					next = append(next, other)
				}
			}
		}
		if k.keys.CompareAndSwap(had, &next) {
			return
		}
	}
}

func (k *Keys) all() [][]byte {
	if k == nil {
		return nil
	}
	if keys := k.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

// Sealed is the object whose claims are sealed. An object that is being created has no UID yet: its claims are sealed for its kind, namespace
// and name, and count for no object whose name is generated.
type Sealed struct {
	Kind            schema.GroupKind
	Namespace, Name string
	UID             types.UID
}

// identities of the object that a seal may name, the most specific one first.
func (o Sealed) identities() []string {
	created := "new " + o.Kind.String() + "/" + o.Namespace + "/" + o.Name
	if o.UID != "" {
		return []string{"uid " + string(o.UID), created}
	}
	return []string{created}
}

const (
	sealStart = `{"content":"","state":"` + string(v1alpha1.ClaimSeal) + `","id":"`
	sealEnd   = `"}`
	// none is the value for no claims.
	none = "[]"
	// sealLength is the number of bytes of a seal: half of an HMAC-SHA256.
	sealLength = 16
)

// seal of a claims value by a key, in hex.
func seal(key []byte, identity, value string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(identity + "\n" + value))
	return hex.EncodeToString(h.Sum(nil)[:sealLength])
}

// split a claims value into the claims without their seal, and the seal; "" for none. last is false where claims follow the seal, which a
// stored value that counts never has.
func split(value string) (claims, sealed string, last bool) {
	at := strings.LastIndex(value, sealStart)
	if at < 0 {
		return value, "", false
	}
	before, rest := value[:at], value[at+len(sealStart):]
	sealed, after, ok := strings.Cut(rest, sealEnd)
	if !ok {
		return value, "", false
	}
	if last = after == "]"; last {
		return strings.TrimSuffix(before, ",") + after, sealed, true
	}
	return before + strings.TrimPrefix(after, ","), sealed, false
}

// Stored returns the value of the claims annotation that a value of Trusted is based on: up to its seal. A value without a seal is
// returned as it is.
func Stored(value string) string {
	at := strings.LastIndex(value, sealStart)
	if at < 0 {
		return value
	}
	length := strings.Index(value[at:], sealEnd)
	if length < 0 {
		return value
	}
	return value[:at+length] + sealEnd + "]"
}

// Same reports whether two claims values are the same, seals aside.
func Same(a, b string) bool {
	a, _, _ = split(a)
	b, _, _ = split(b)
	return a == b
}

// Seal returns a claims value with a seal for the object. A seal that it has is replaced; no claims need none.
func (k *Keys) Seal(o Sealed, value string) string {
	keys := k.all()
	if value, _, _ = split(value); len(keys) == 0 || value == none || !strings.HasSuffix(value, "]") {
		return value
	}
	return strings.TrimSuffix(value, "]") + "," + sealStart + seal(keys[0], o.identities()[0], value) + sealEnd + "]"
}

// sealed reports whether a claims value has a seal for the object.
func (k *Keys) sealed(o Sealed, value string) bool {
	claims, have, last := split(value)
	if !last {
		return false
	}
	for _, key := range k.all() {
		for _, identity := range o.identities() {
			if hmac.Equal([]byte(seal(key, identity, claims)), []byte(have)) {
				return true
			}
		}
	}
	return false
}

// Trusted returns the annotations of an object with the claims that count: the same map where the seal of the claims shows that Kausality
// wrote them, and they know each approval that is written on the object. Otherwise claims without a valid seal are left out, but
// for what withholds a written approval, and written approvals that the rest does not know are marked unreviewed.
func (k *Keys) Trusted(o Sealed, annotations map[string]string, now time.Time) map[string]string {
	if len(k.all()) == 0 || !Holds(annotations) {
		return annotations
	}
	stored := annotations[v1alpha1.AnnotationKeyClaims]
	proven, claims := stored == "" || stored == none || k.sealed(o, stored), Claims(nil)
	if proven {
		claims = ParseClaims(stored)
	}
	unknown := unreviewed(claims, ParseClaims(stored), Parse(annotations).Approvals, now)
	value := unknown.String()
	switch {
	case proven && len(unknown) == 0:
		return annotations
	case proven && stored != "" && stored != none: // the stored value is the part up to its seal
		value = strings.TrimSuffix(stored, "]") + "," + strings.TrimPrefix(value, "[")
	}
	out := maps.Clone(annotations)
	out[v1alpha1.AnnotationKeyClaims] = value
	return out
}

// TrustedIn returns an object with the claims that count, as Trusted has them: the same object where all do.
func (k *Keys) TrustedIn(u *unstructured.Unstructured, now time.Time) *unstructured.Unstructured {
	had := u.GetAnnotations()
	of := Sealed{Kind: u.GroupVersionKind().GroupKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID()}
	counts := k.Trusted(of, had, now)
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok || counts[v1alpha1.AnnotationKeyClaims] == had[v1alpha1.AnnotationKeyClaims] {
		return u
	}
	out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	out.Object["metadata"] = maps.Clone(metadata)
	out.SetAnnotations(counts)
	return out
}

// unreviewed returns claims of the written approvals that those which count do not know. What is stored that one of them was used or is
// outdated is kept, also unproven: it can only withhold, and GitOps writes such an approval for ever (KR-05-35).
func unreviewed(counts, stored Claims, written []Entry, now time.Time) (out Claims) {
	for _, e := range written {
		if e.Key == "" || e.Mode == v1alpha1.ApprovalAlways && e.Expiry == nil || counts.Of(e.Content) != nil {
			continue
		}
		c := v1alpha1.Claim{Content: e.Content, State: v1alpha1.ClaimUnreviewed, At: Stamp(now), Digest: e.Digest}
		if had := stored.Of(e.Content); had != nil && had.Spent() {
			c.State, c.At, c.Generation, c.ID = had.State, had.At, had.Generation, had.ID
		}
		out = append(out, c)
	}
	return out
}

// SealIn returns edits of annotations with a seal of the claims that they write to an object.
func (k *Keys) SealIn(o Sealed, edits map[string]*string) map[string]*string {
	value := edits[v1alpha1.AnnotationKeyClaims]
	if value == nil || len(k.all()) == 0 {
		return edits
	}
	out, sealed := maps.Clone(edits), k.Seal(o, *value)
	out[v1alpha1.AnnotationKeyClaims] = &sealed
	return out
}
