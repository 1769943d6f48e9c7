package subject

import (
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Controllers that are recorded on an object: the users who wrote its status.
type Controllers struct {
	// ids of users, and hashes: of all of them, and of those whom an earlier release
	// recorded without an id. They are values of annotations, which each decision reads.
	ids, hashes string
}

// ControllersOf returns the controllers that are recorded in the annotations of an object.
func ControllersOf(annotations map[string]string) Controllers {
	return Controllers{ids: annotations[v1alpha1.AnnotationKeyControllerIDs], hashes: annotations[v1alpha1.AnnotationKeyControllers]}
}

// Known reports whether there are any.
func (c Controllers) Known() bool { return c.ids != "" || c.hashes != "" }

// Hashes returns the hashes of all controllers.
func (c Controllers) Hashes() Hashes { return ParseHashes(c.hashes) }

// Has reports whether a user, by id, is recorded.
func (c Controllers) Has(id string) bool {
	return listed(c.ids, func(have string) bool { return have == id }) && id != ""
}

// HasHash reports whether a user, by hash, is recorded by an earlier release, which did
// not record ids. Other users can have the same hash: it is proof of nothing (KR-13-41).
func (c Controllers) HasHash(hash string) bool {
	return hash != "" && listed(c.hashes, func(have string) bool { return have == hash }) &&
		!listed(c.ids, func(id string) bool { return HashOf(id) == hash })
}

// listed reports whether an entry of a list is one that is looked for.
func listed(value string, is func(string) bool) bool {
	for more := true; more; {
		var entry string
		if entry, value, more = strings.Cut(value, ","); is(strings.TrimSpace(entry)) {
			return true
		}
	}
	return false
}

// With returns the controllers with a user, by id, as the newest.
func (c Controllers) With(id string) Controllers {
	return Controllers{ids: ParseHashes(c.ids).With(id, nil).String(), hashes: c.Hashes().With(HashOf(id), nil).String()}
}

// Missing returns the annotations that record them and are not in have as they should be, by key.
func (c Controllers) Missing(have map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range map[string]string{v1alpha1.AnnotationKeyControllers: c.hashes, v1alpha1.AnnotationKeyControllerIDs: c.ids} {
		if value != ParseHashes(have[key]).String() {
			out[key] = value
		}
	}
	return out
}
