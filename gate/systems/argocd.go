package systems

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ArgoCD is Argo CD 3.1 or later: Applications of argoproj.io whose sync policy
// is automated. It is masked with automated.enabled false, a field that manifests
// leave out; an opening is one sync operation to the revision that was compared,
// as Argo CD itself would begin it, so that sync windows hold it as well. (read,
// v3.3: autoSync, processRequestedAppOperation, setOperationState.)
type ArgoCD struct{}

// opening names, in the info of an operation, the opening that began it.
const opening = v1alpha1.AnnotationPrefix + "opening"

// Name returns "Argo CD".
func (ArgoCD) Name() string { return "Argo CD" }

// Field is automated.enabled.
func (ArgoCD) Field() string { return strings.Join(enabledPath, ".") }

// Handles Applications.
func (ArgoCD) Handles(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "argoproj.io" && gvk.Kind == "Application"
}

var enabledPath = []string{"spec", "syncPolicy", "automated", "enabled"}

// Author returns the automated.enabled that its author wrote; null for none. False is
// the mask while something is remembered.
func (ArgoCD) Author(o *unstructured.Unstructured) json.RawMessage {
	stored := field(o, enabledPath...)
	if was, masked := remembered(o); masked && stored == false {
		return was
	}
	return quote(stored)
}

// Look at an Application.
func (a ArgoCD) Look(o *unstructured.Unstructured) external.View {
	v := external.View{}
	_, v.Masked = remembered(o)
	if _, automated := field(o, "spec", "syncPolicy", "automated").(map[string]any); !automated || string(a.Author(o)) == "false" {
		v.State, v.Why = external.StateFree, "its author syncs by hand"
		return v
	}
	v.State = external.StateOpen
	if field(o, enabledPath...) == false {
		v.State = external.StateClosed
	}
	compared, phase := text(o, "status", "sync", "status"), text(o, "status", "operationState", "phase")
	running := field(o, "operation") != nil || phase == "Running" || phase == "Terminating"
	v.Idle = compared == "Synced" && !running
	v.Known = compared == "Synced" || compared == "OutOfSync"
	if running {
		v.Busy = "an operation goes on"
	}
	v.Current = a.current(o)
	if compared == "OutOfSync" {
		a.difference(o, &v)
	}
	a.progress(o, phase, &v)
	return v
}

// current reports whether what was compared is the source as it is now.
func (ArgoCD) current(o *unstructured.Unstructured) bool {
	same := func(name string) bool {
		return reflect.DeepEqual(field(o, "spec", name), field(o, "status", "sync", "comparedTo", name))
	}
	return same("sources") && (same("source") || field(o, "spec", "source") == nil)
}

// difference is what Argo CD would sync by itself: the resources that are out of
// sync, those to be pruned only where its author prunes.
func (a ArgoCD) difference(o *unstructured.Unstructured, v *external.View) {
	prune := flag(o, "spec", "syncPolicy", "automated", "prune")
	verbs := []v1alpha1.Verb{verb.Sync}
	list, _ := field(o, "status", "resources").([]any)
	for _, e := range list {
		r, _ := e.(map[string]any)
		pruned, _ := r["requiresPruning"].(bool)
		if r["status"] != "OutOfSync" || pruned && !prune {
			continue
		}
		c := change.Change{Path: "resources[" + resourceName(r) + "]", Verb: change.Mutate, Old: "OutOfSync", New: "Synced"}
		if pruned {
			c.Verb, c.New = change.Delete, nil
			if len(verbs) == 1 {
				verbs = append(verbs, verb.Remove)
			}
		}
		v.Difference = append(v.Difference, c)
	}
	last, next := revisions(o, "status", "operationState", "syncResult"), revisions(o, "status", "sync")
	done := text(o, "status", "operationState", "phase") == "Succeeded" && reflect.DeepEqual(last, next)
	if len(v.Difference) == 0 || done && !flag(o, "spec", "syncPolicy", "automated", "selfHeal") {
		v.Difference = nil
		return
	}
	slices.SortFunc(v.Difference, func(x, y change.Change) int { return strings.Compare(x.Path, y.Path) })
	if !reflect.DeepEqual(last, next) {
		v.Difference = append(v.Difference, change.Change{Path: "status.sync.revision", Verb: change.Mutate, Old: last, New: next})
	}
	v.Foreign = last != nil && a.sameSource(o)
	v.Verbs = verbs
}

// sameSource reports whether the last sync was of the source as it is now: what
// differs came with the source, not with a change of the Application.
func (ArgoCD) sameSource(o *unstructured.Unstructured) bool {
	for _, name := range []string{"source", "sources"} {
		if s := field(o, "status", "operationState", "syncResult", name); s != nil {
			return reflect.DeepEqual(s, field(o, "spec", name))
		}
	}
	return false
}

// resourceName as group/Kind/namespace/name.
func resourceName(r map[string]any) string {
	parts := make([]string, 0, 4)
	for _, key := range []string{"group", "kind", "namespace", "name"} {
		if s, _ := r[key].(string); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "/")
}

// revisions at a path: revision, or revisions of several sources; nil for none.
func revisions(o *unstructured.Unstructured, path ...string) any {
	if list, ok := field(o, append(slices.Clone(path), "revisions")...).([]any); ok && len(list) > 0 {
		return list
	}
	if s := text(o, append(slices.Clone(path), "revision")...); s != "" {
		return s
	}
	return nil
}

// progress of an opening: its operation waits, goes on, or ended.
func (ArgoCD) progress(o *unstructured.Unstructured, phase string, v *external.View) {
	gate := mask.ParseGate(o.GetAnnotations())
	if gate.State != v1alpha1.GateOpen {
		return
	}
	ours := openingOf(gate)
	waits := begunBy(field(o, "operation"), ours)
	state := begunBy(field(o, "status", "operationState", "operation"), ours)
	switch {
	case state && phase == "Succeeded" && !waits:
		return
	case state && (phase == "Failed" || phase == "Error") && !waits:
		v.Over = external.OverFailed
	case waits || state:
		v.Unconfirmed = "the sync is not done yet"
		if m := text(o, "status", "operationState", "message"); state && m != "" {
			v.Unconfirmed += ": " + m
		}
	default:
		v.Over = external.OverSuperseded
	}
}

// openingOf a gate: the difference and the time make it one of its kind.
func openingOf(g v1alpha1.Gate) string { return g.Digest + "@" + g.At.UTC().Format("20060102150405") }

// begunBy reports whether an operation is the one of an opening: a user may begin
// others at any time.
func begunBy(operation any, id string) bool {
	m, _ := operation.(map[string]any)
	list, _ := m["info"].([]any)
	return slices.ContainsFunc(list, func(e any) bool {
		i, _ := e.(map[string]any)
		return i["name"] == opening && i["value"] == id
	})
}

// Open for one sync to the revision that was compared, begun as Argo CD's own
// automated syncs are.
func (ArgoCD) Open(o *unstructured.Unstructured, gate v1alpha1.Gate, by external.Provenance) map[string]any {
	sync := map[string]any{"prune": slices.Contains(gate.Verbs, verb.Remove)}
	for _, key := range []string{"revision", "revisions"} {
		if v := field(o, "status", "sync", key); v != nil && v != "" {
			sync[key] = v
		}
	}
	for _, key := range []string{"source", "sources"} {
		if v := field(o, "spec", key); v != nil {
			sync[key] = v
		}
	}
	if options := field(o, "spec", "syncPolicy", "syncOptions"); options != nil {
		sync["syncOptions"] = options
	}
	info := []any{map[string]any{"name": opening, "value": openingOf(gate)}}
	for _, v := range carry.Variables(carry.Cause{Provenance: by}) {
		info = append(info, map[string]any{"name": v.Name, "value": v.Value})
	}
	operation := map[string]any{
		"initiatedBy": map[string]any{"automated": true, "username": "kausality"},
		"info":        info, "retry": map[string]any{"limit": int64(5)}, "sync": sync,
	}
	if retry, ok := field(o, "spec", "syncPolicy", "retry").(map[string]any); ok {
		operation["retry"] = maps.Clone(retry)
	}
	return map[string]any{"operation": operation}
}

// Close for automated syncs, and remove an operation of Kausality that has not
// ended.
func (ArgoCD) Close(o *unstructured.Unstructured) map[string]any {
	edit := map[string]any{"spec": map[string]any{"syncPolicy": map[string]any{"automated": map[string]any{"enabled": false}}}}
	if begunBy(field(o, "operation"), openingOf(mask.ParseGate(o.GetAnnotations()))) {
		edit["operation"] = nil
	}
	return edit
}

// Restore what the author wrote. Where its author took automated away, nothing
// is put there.
func (a ArgoCD) Restore(o *unstructured.Unstructured) map[string]any {
	if _, automated := field(o, "spec", "syncPolicy", "automated").(map[string]any); !automated {
		return nil
	}
	return map[string]any{"spec": map[string]any{"syncPolicy": map[string]any{"automated": map[string]any{"enabled": a.Author(o)}}}}
}
