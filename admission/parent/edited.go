package parent

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Edit is the last write of a field by a field manager that does not reconcile its object.
type Edit struct {
	Manager   string
	Operation string
	// At is when that manager last changed anything.
	At time.Time
	// Last: no other manager has changed anything since, but the provider's.
	Last bool
}

// Editors are the entries of managedFields of an object that may show edits.
type Editors struct {
	foreign, own []fieldsEntry
}

// managerBeforeApply is what the API server names all writes of an object without managedFields once it is applied: nothing is known of them.
const managerBeforeApply = "before-first-apply"

// EditorsOf managedFields. Writes of managers that own is true for, of those that write the status and of Kausality's are no edits.
func EditorsOf(managed []any, own func(manager string) bool) (out Editors) {
	entries := entriesIn(managed)
	writers := statusManagers(entries)
	for _, e := range entries {
		switch m := e.manager(); {
		case e.subresource() != "" || strings.HasPrefix(m, ours) || m == managerBeforeApply:
		case own(m):
			out.own = append(out.own, e)
		case !slices.Contains(writers, m):
			out.foreign = append(out.foreign, e)
		}
	}
	return out
}

// None reports whether there is no edit at all, as of most objects.
func (e Editors) None() bool { return len(e.foreign) == 0 }

// Edit returns the last edit of the field at a path, by names of fields, or of one below it; ok is false where there is no edit. An apply of
// a value that a manager of the controller applied as well does not count.
func (e Editors) Edit(path []string) (edit Edit, ok bool) {
	if e.None() {
		return Edit{}, false
	}
	keys := make([]string, 0, len(path))
	for _, name := range path {
		keys = append(keys, "f:"+name)
	}
	for _, f := range e.foreign {
		if f.owns(keys) && (!ok || f.time().After(edit.At)) {
			edit, ok = Edit{Manager: f.manager(), Operation: text(f, "operation"), At: f.time()}, true
		}
	}
	if edit.Operation == string(metav1.ManagedFieldsOperationApply) && slices.ContainsFunc(e.own, func(o fieldsEntry) bool { return o.owns(keys) }) {
		return Edit{}, false
	}
	edit.Last = !slices.ContainsFunc(slices.Concat(e.foreign, e.own), func(o fieldsEntry) bool { return o.time().After(edit.At) })
	return edit, ok
}

// owns reports whether the manager owns the place at some keys, something below it, or the value that it is in.
func (e fieldsEntry) owns(keys []string) bool {
	at := e.fields()
	for _, k := range keys {
		below, ok := at[k].(map[string]any)
		if !ok {
			return false
		}
		if at = below; len(at) == 0 {
			return true // an atomic value
		}
	}
	return true
}
