package parent

import (
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func gvk(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// fieldsEntry of managedFields, read from the object as it is: converting all
// of them to their type costs more than the rest of Sum.
type fieldsEntry struct {
	manager, subresource string
	// time is zero where there is none. Any user with edit rights can write one: a
	// time in the future counts as the present (KR-13-05).
	time   time.Time
	fields map[string]any
}

func entriesOf(o *unstructured.Unstructured) []fieldsEntry {
	meta, _ := o.Object["metadata"].(map[string]any)
	list, _ := meta["managedFields"].([]any)
	now := time.Now().UTC().Truncate(time.Second)
	out := make([]fieldsEntry, 0, len(list))
	for _, e := range list {
		m, _ := e.(map[string]any)
		f := fieldsEntry{}
		f.manager, _ = m["manager"].(string)
		f.subresource, _ = m["subresource"].(string)
		f.fields, _ = m["fieldsV1"].(map[string]any)
		if at, ok := m["time"].(string); ok {
			f.time, _ = time.Parse(time.RFC3339, at) // A time that is none counts as absent.
			if f.time.After(now) {
				f.time = now
			}
		}
		out = append(out, f)
	}
	return out
}

// managers reads from managedFields which manager reconciles the object, and when
// another one last changed its desired state.
func (s *State) managers(o *unstructured.Unstructured) {
	entries := entriesOf(o)
	s.StatusManagers = statusManagers(entries)
	s.Manager = deciding(entries)
	machinery := Machinery(s.Role, modern(o))
	for _, e := range entries {
		switch {
		case e.subresource == "scale":
			if e.time.After(s.ScaleTime) {
				s.ScaleTime = e.time
			}
		case e.subresource == "" && !slices.Contains(s.StatusManagers, e.manager) && !strings.HasPrefix(e.manager, ours) && e.time.After(s.IntentTime):
			if ownsDesired(e.fields, machinery) {
				s.IntentTime, s.IntentManager = e.time, e.manager
			}
		}
	}
}

// ours is the prefix of the field managers of Kausality's own components: what the
// gate writes into a spec is no intent.
const ours = v1alpha1.ManagerPrefix

// WritesStatus reports whether a field manager writes the status of an object.
func WritesStatus(o *unstructured.Unstructured, manager string) bool {
	return manager != "" && slices.Contains(statusManagers(entriesOf(o)), manager)
}

// finalizerManaged is the finalizer by which a provider takes a managed resource
// in hand: on its first writes there is no status yet (crossplane-runtime v2.3).
const finalizerManaged = `v:"finalizer.managedresource.crossplane.io"`

// Provides reports whether a field manager is the provider of a managed
// resource: the one that set the runtime's finalizer (KR-01-07).
func Provides(o *unstructured.Unstructured, manager string) bool {
	for _, e := range rawEntries(o) {
		if e["manager"] != manager || manager == "" {
			continue
		}
		if _, found, err := unstructured.NestedFieldNoCopy(e, "fieldsV1", "f:metadata", "f:finalizers", finalizerManaged); found && err == nil {
			return true
		}
	}
	return false
}

// statusManagers are the managers that write the status, in the order of their
// entries.
func statusManagers(entries []fieldsEntry) []string {
	var out []string
	for _, e := range entries {
		if e.subresource == "status" && !slices.Contains(out, e.manager) {
			out = append(out, e.manager)
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
			if e.subresource != "status" {
				continue
			}
			if _, found, err := unstructured.NestedFieldNoCopy(e.fields, mark...); found && err == nil {
				return e.manager
			}
		}
	}
	for _, e := range entries {
		if all, found, err := unstructured.NestedMap(e.fields, "f:status", "f:conditions"); e.subresource == "status" && found && err == nil && len(all) == 0 {
			return e.manager
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
	before := map[string]map[string]any{}
	for _, e := range rawEntries(old) {
		before[entryKey(e)] = e
	}
	writer := ""
	for _, e := range rawEntries(new) {
		if op, _ := e["operation"].(string); op != string(metav1.ManagedFieldsOperationUpdate) {
			continue
		}
		if was := before[entryKey(e)]; was != nil && was["time"] == e["time"] && reflect.DeepEqual(was["fieldsV1"], e["fieldsV1"]) {
			continue
		}
		m, _ := e["manager"].(string)
		if writer != "" && writer != m {
			return ""
		}
		writer = m
	}
	return writer
}

func rawEntries(o *unstructured.Unstructured) []map[string]any {
	if o == nil {
		return nil
	}
	m, _ := o.Object["metadata"].(map[string]any)
	list, _ := m["managedFields"].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, e := range list {
		if entry, ok := e.(map[string]any); ok {
			out = append(out, entry)
		}
	}
	return out
}

// entryKey is what the API server identifies an entry of managedFields by.
func entryKey(e map[string]any) string {
	m, _ := e["manager"].(string)
	op, _ := e["operation"].(string)
	sub, _ := e["subresource"].(string)
	v, _ := e["apiVersion"].(string)
	return m + "|" + op + "|" + sub + "|" + v
}
