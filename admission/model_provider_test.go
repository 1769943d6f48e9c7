package admission

import (
	"maps"
	"reflect"
	"slices"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// report of a provider's reconcile: what it writes into the status.
type report struct {
	synced, ready bool
	message       string
	at            map[string]any
	ongoing       bool
	last          string // LastAsyncOperation
}

// reconcile as crossplane-runtime v2.3 does, on the provider's possibly stale
// copy.
func (m *model) provide(key string) {
	o := m.stale("provider", key)
	if o == nil {
		return
	}
	policies, c := parent.PoliciesOf(o), m.cloud[key]
	can := func(v v1alpha1.Verb) bool { return mask.Gives(policies, v) }
	if len(policies) == 0 {
		return // paused
	}
	deleted := o.GetDeletionTimestamp() != nil
	if deleted && !can(v1alpha1.VerbDelete) {
		m.finalize(key, o) // before it looks
		return
	}
	if !deleted && len(o.GetFinalizers()) == 0 {
		m.write(key, fx.Provider, "provider", func(now *unstructured.Unstructured) *unstructured.Unstructured {
			if now == nil || now.GetResourceVersion() != o.GetResourceVersion() {
				return nil
			}
			now.SetFinalizers([]string{"finalizer.managedresource.crossplane.io"})
			return now
		})
		return
	}
	if c.pending != nil && m.chance(2) || c.pending != nil && m.reliable {
		c.failed = !m.reliable && m.chance(3)
		if !c.failed {
			c.fields = c.pending
		}
		c.pending = nil
	}
	m.act(key, o, deleted, can)
}

func (m *model) act(key string, o *unstructured.Unstructured, deleted bool, can func(v1alpha1.Verb) bool) {
	c := m.cloud[key]
	wanted, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	r := report{synced: true, ready: c.exists && c.ready, at: maps.Clone(c.fields), ongoing: c.pending != nil}
	broken := !m.reliable && m.chance(5)
	switch {
	case deleted && !c.exists:
		m.finalize(key, o)
		return
	case deleted:
		if broken {
			r.synced = false
			break
		}
		m.external(key, o, v1alpha1.VerbDelete, wanted)
		m.cloud[key] = &resource{}
	case !c.exists && can(v1alpha1.VerbCreate):
		if broken {
			r.synced, r.message = false, "create failed"
			break
		}
		m.external(key, o, v1alpha1.VerbCreate, wanted)
		c.exists, c.ready, c.fields = true, false, wanted
	case !c.exists:
		only := len(parent.PoliciesOf(o)) == 1
		r.at, r.ready = nil, false
		if only || can(v1alpha1.VerbUpdate) {
			r.synced, r.message = false, "observe failed: external resource does not exist"
		}
	case c.pending != nil:
	case c.exists && covers(c.fields, wanted):
		c.ready = true
		if can(v1alpha1.VerbLateInitialize) && wanted["zone"] == nil && m.lateInit(key, o) {
			return
		}
	case can(v1alpha1.VerbUpdate):
		m.update(key, o, wanted, broken, &r)
	default:
		c.ready = true
	}
	if key == "b" && (c.pending != nil || c.failed) {
		r.last = "False"
		if c.pending != nil {
			r.last = ""
		}
	} else if key == "b" {
		r.last = "True"
	}
	m.report(key, o, r)
}

func (m *model) update(key string, o *unstructured.Unstructured, wanted map[string]any, broken bool, r *report) {
	c := m.cloud[key]
	if broken {
		r.synced, r.message = false, "update failed"
		return
	}
	m.external(key, o, v1alpha1.VerbUpdate, wanted)
	if key == "b" { // asynchronous
		c.pending, r.ongoing = wanted, true
		return
	}
	c.fields = merged(c.fields, wanted)
}

func merged(a, b map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func covers(have, want map[string]any) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

func (m *model) lateInit(key string, o *unstructured.Unstructured) bool {
	return m.write(key, fx.Provider, "provider", func(now *unstructured.Unstructured) *unstructured.Unstructured {
		if now == nil || now.GetResourceVersion() != o.GetResourceVersion() {
			return nil
		}
		return fx.With(now, fx.Set("z1", "spec", "forProvider", "zone"))
	})
}

func (m *model) finalize(key string, o *unstructured.Unstructured) {
	now := m.get(key)
	if now == nil || now.GetResourceVersion() != o.GetResourceVersion() {
		return
	}
	next := now.DeepCopy()
	next.SetFinalizers(nil)
	m.store(key, next)
}

// report the status, under the precondition that the copy was the latest.
func (m *model) report(key string, o *unstructured.Unstructured, r report) {
	cond := func(t string, ok bool, reason string) map[string]any {
		c := map[string]any{"type": t, "status": "False", "reason": reason, "lastTransitionTime": m.now.Format(time.RFC3339)}
		if ok {
			c["status"] = "True"
		}
		return c
	}
	list := []any{cond("Synced", r.synced, "R"), cond("Ready", r.ready, "R")}
	if !m.upjet {
		list[0].(map[string]any)["observedGeneration"] = o.GetGeneration()
	}
	if r.message != "" {
		list[0].(map[string]any)["message"] = r.message
	}
	if r.ongoing {
		list = append(list, cond("AsyncOperation", false, "Ongoing"))
	}
	if r.last != "" {
		list = append(list, cond("LastAsyncOperation", r.last == "True", "R"))
	}
	st := map[string]any{"conditions": keepTimes(o, list)}
	if r.at != nil {
		st["atProvider"] = r.at
	}
	if at := o.GetAnnotations()[v1alpha1.AnnotationKeyReconcileRequestedAt]; at != "" && m.kind.ReconcileRequests {
		st["lastHandledReconcileAt"] = at
	}
	if m.status(key, o, fx.Set(st, "status")) {
		m.show(key, r.at)
	}
}

// keepTimes of conditions that did not change their status.
func keepTimes(o *unstructured.Unstructured, list []any) []any {
	old, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		c, _ := e.(map[string]any)
		i := slices.IndexFunc(old, func(x any) bool {
			b, _ := x.(map[string]any)
			return b["type"] == c["type"] && b["status"] == c["status"]
		})
		if i >= 0 {
			c["lastTransitionTime"] = old[i].(map[string]any)["lastTransitionTime"]
		}
	}
	return list
}

// show remembers since when the status shows a difference.
func (m *model) show(key string, at map[string]any) {
	o := m.get(key)
	wanted, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	for f, v := range wanted {
		k := key + " " + f
		have, ok := at[f]
		switch {
		case !ok || reflect.DeepEqual(have, v):
			delete(m.shown, k)
		case m.shown[k] == 0:
			m.shown[k] = m.step
		}
	}
}
