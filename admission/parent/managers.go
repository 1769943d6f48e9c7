package parent

import (
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// fieldsEntry is an entry of managedFields as it is stored: converting all of them to
// their type costs more than the rest of Sum.
type fieldsEntry map[string]any

// entriesOf returns the entries of managedFields of an object; nil for a nil object. What is not a valid
// entry is left out.
func entriesOf(o *unstructured.Unstructured) []fieldsEntry { return entriesIn(ManagedFields(o)) }

func entriesIn(managed []any) []fieldsEntry {
	out := make([]fieldsEntry, 0, len(managed))
	for _, e := range managed {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// ManagedFields of an object as they are stored; nil for a nil object.
func ManagedFields(o *unstructured.Unstructured) []any {
	if o == nil {
		return nil
	}
	list, _ := child(o.Object, "metadata")["managedFields"].([]any)
	return list
}

func (e fieldsEntry) manager() string     { return text(e, "manager") }
func (e fieldsEntry) subresource() string { return text(e, "subresource") }

// time returns the time of the entry; zero where it has none that parses. Any user with edit rights can
// write one: a time in the future counts as the present (KR-13-05).
func (e fieldsEntry) time() time.Time {
	at, _ := time.Parse(time.RFC3339, text(e, "time"))
	if now := clock.Now().UTC().Truncate(time.Second); at.After(now) {
		return now
	}
	return at
}

// fields returns the fields that the manager owns, in the form of fieldsV1; nil where it owns none.
func (e fieldsEntry) fields() map[string]any { return child(e, "fieldsV1") }

// field returns a field below the fields, by its keys; nil where the manager does not own it.
func (e fieldsEntry) field(keys ...string) any {
	f, _, _ := unstructured.NestedFieldNoCopy(e.fields(), keys...) // another shape is no such field
	return f
}

// key returns what the API server identifies an entry by.
func (e fieldsEntry) key() string {
	return e.manager() + "|" + text(e, "operation") + "|" + e.subresource() + "|" + text(e, "apiVersion")
}

// managers reads from managedFields which manager reconciles the object, and when
// another one last changed its desired state.
func (s *State) managers(o *unstructured.Unstructured) {
	entries := entriesOf(o)
	s.StatusManagers = statusManagers(entries)
	s.Manager = deciding(entries)
	machinery := Machinery(s.Role, modern(o))
	for _, e := range entries {
		switch at := e.time(); {
		case e.subresource() == "scale" && at.After(s.ScaleTime):
			s.ScaleTime = at
		case e.subresource() == "" && at.After(s.IntentTime) && !slices.Contains(s.StatusManagers, e.manager()) &&
			!strings.HasPrefix(e.manager(), ours) && ownsDesired(e.fields(), machinery):
			s.IntentTime, s.IntentManager = at, e.manager()
		}
	}
}

// ours is the prefix of the field managers of Kausality's own components: a write of the gate into a
// spec is not an intent.
const ours = v1alpha1.ManagerPrefix

// WritesStatus reports whether a field manager writes the status of an object.
func WritesStatus(o *unstructured.Unstructured, manager string) bool {
	return manager != "" && slices.Contains(statusManagers(entriesOf(o)), manager)
}

// ProviderFinalizer is the finalizer by which a provider takes a managed resource
// in hand: on its first writes there is no status yet (crossplane-runtime v2.3).
const ProviderFinalizer = "finalizer.managedresource.crossplane.io"

// finalizerManaged is ProviderFinalizer in managedFields.
const finalizerManaged = `v:"` + ProviderFinalizer + `"`

// HasProviderFinalizer reports whether an object has the finalizer of its provider.
func HasProviderFinalizer(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), ProviderFinalizer)
}

// Provides reports whether a field manager is the provider of a managed
// resource: the one that set the runtime's finalizer (KR-01-07).
func Provides(o *unstructured.Unstructured, manager string) bool {
	return manager != "" && slices.ContainsFunc(entriesOf(o), func(e fieldsEntry) bool {
		return e.manager() == manager && e.field("f:metadata", "f:finalizers", finalizerManaged) != nil
	})
}

// HasStatusWriter reports whether the status of an object was written.
func HasStatusWriter(o *unstructured.Unstructured) bool { return len(statusManagers(entriesOf(o))) > 0 }

// externalNamed is the external name in managedFields.
const externalNamed = "f:" + v1alpha1.AnnotationKeyExternalName

// Named reports whether a field manager named the external resource of a managed resource by an update, as
// initializers of providers do (crossplane-runtime, managed.NameAsExternalName). Users apply manifests.
func Named(o *unstructured.Unstructured, manager string) bool {
	return manager != "" && slices.ContainsFunc(entriesOf(o), func(e fieldsEntry) bool {
		return e.manager() == manager && text(e, "operation") == "Update" && e.field("f:metadata", "f:annotations", externalNamed) != nil
	})
}

// statusManagers returns the managers that write the status, in the order of their entries.
func statusManagers(entries []fieldsEntry) []string {
	var out []string
	for _, e := range entries {
		if e.subresource() == "status" && !slices.Contains(out, e.manager()) {
			out = append(out, e.manager())
		}
	}
	return out
}

// modern reports whether a composite is one of Crossplane v2, whose machinery fields
// are below spec.crossplane.
func modern(o *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "crossplane")
	return found && err == nil
}

// deciding returns the manager of status.observedGeneration, else of the
// Synced, else of the Ready condition. Where the schema does not declare that
// conditions are a map by type, one manager has all of them.
func deciding(entries []fieldsEntry) string {
	marks := [][]string{
		{"f:status", "f:observedGeneration"},
		{"f:status", "f:conditions", `k:{"type":"Synced"}`},
		{"f:status", "f:conditions", `k:{"type":"Ready"}`},
	}
	for _, mark := range marks {
		for _, e := range entries {
			if e.subresource() == "status" && e.field(mark...) != nil {
				return e.manager()
			}
		}
	}
	for _, e := range entries {
		if all, ok := e.field("f:status", "f:conditions").(map[string]any); ok && len(all) == 0 && e.subresource() == "status" {
			return e.manager()
		}
	}
	return ""
}

// ownsDesired reports whether fields in the form of managedFields hold one of
// the desired state outside of the machinery.
func ownsDesired(fields map[string]any, machinery map[string]bool) bool {
	for key, below := range fields {
		name, isField := strings.CutPrefix(key, "f:")
		if !isField {
			continue
		}
		switch {
		case !isDesired(name):
		case name == "spec":
			spec, _ := below.(map[string]any)
			for k := range spec {
				if k != "." && !machinery[strings.TrimPrefix(k, "f:")] {
					return true
				}
			}
		default:
			return true
		}
	}
	return false
}

// Writer returns the field manager whose Update entry differs between two
// versions of an object: the writer, where the request does not name it. The API
// server takes it from the client's User-Agent then, and has entered it by the
// time admission sees the object. "" where no single entry
// differs.
func Writer(old, new *unstructured.Unstructured) string {
	before := map[string]fieldsEntry{}
	for _, e := range entriesOf(old) {
		before[e.key()] = e
	}
	writer := ""
	for _, e := range entriesOf(new) {
		if text(e, "operation") != string(metav1.ManagedFieldsOperationUpdate) {
			continue
		}
		if was := before[e.key()]; was != nil && was["time"] == e["time"] && sameFields(was["fieldsV1"], e["fieldsV1"]) {
			continue
		}
		if writer != "" && writer != e.manager() {
			return ""
		}
		writer = e.manager()
	}
	return writer
}

// writtenWithin is how long before its admission the API server may have entered a write into managedFields: it gives a webhook at most 30 s.
const writtenWithin = 30 * time.Second

// Written returns when the write was made that changes an object from old to new and is admitted at a time: as the API server has entered it
// into managedFields, which it does before admission, so that a trace and managedFields agree however long a webhook took. It is the time of
// admission where no entry of the last 30 s is newer than all stored ones. Any user with edit rights can enter such a time, which counts where
// the API server enters none, as for a write that only removes fields: such a write passes for one of 30 s before at most.
func Written(old, new *unstructured.Unstructured, admitted time.Time) time.Time {
	written := newest(new)
	if since := admitted.Sub(written); since < 0 || since > writtenWithin || !written.After(newest(old)) {
		return admitted
	}
	return written
}

// newest time of the entries of an object; zero where there is none.
func newest(o *unstructured.Unstructured) (at time.Time) {
	for _, e := range ManagedFields(o) {
		if m, ok := e.(map[string]any); ok && fieldsEntry(m).time().After(at) {
			at = fieldsEntry(m).time()
		}
	}
	return at
}

// sameFields reports whether two sets of fields are equal. They are maps of maps, which reflect.DeepEqual compares in several times as long.
func sameFields(a, b any) bool {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		return reflect.DeepEqual(a, b)
	}
	if len(x) != len(y) {
		return false
	}
	for k, v := range x {
		if w, ok := y[k]; !ok || !sameFields(v, w) {
			return false
		}
	}
	return true
}
