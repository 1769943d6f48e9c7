package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// record a report in its Drift.
func (m *model) record(r *Report) {
	if r == nil || r.Drift.Relation != v1alpha1.RelationControllerChild {
		return
	}
	d, now := m.drifts[r.Drift.ID], metav1.NewTime(m.now)
	if d == nil {
		d = &v1alpha1.Drift{Spec: r.Drift, Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &now}}
		m.drifts[r.Drift.ID] = d
	}
	d.Status.LastSeen, d.Status.Intent, d.Status.Separated = &now, r.Drift.Intent, r.Separated
	if len(r.Held.Drift) > 0 {
		held := r.Held
		d.Status.Held = &held
	}
}

// resolve the Drifts that are over.
func (m *model) resolve() {
	state := func(name string) *parent.State {
		if o := m.get(m.keyOf(parent.Ref{Name: name})); o != nil {
			return m.sum(o)
		}
		return nil
	}
	for id, d := range m.drifts {
		p := state(d.Spec.Parent.Name)
		if p != nil && p.UID != d.Spec.Parent.UID {
			p = nil
		}
		why, err := settling.Resolved(d, p, nil, m.now, func() (*parent.State, error) {
			c := state(d.Spec.Child.Name)
			if c != nil && d.Spec.Child.UID != "" && c.UID != d.Spec.Child.UID {
				c = nil
			}
			return c, nil
		})
		if err != nil {
			m.fail("cannot resolve %s: %v", id, err)
		}
		if why != "" {
			m.note("drift %s is resolved: %s", id, why)
			delete(m.drifts, id)
		}
	}
}

// remembered of the child of a request, as drift.Memory has it.
func (m *model) remembered(req *Request) *Held {
	var of []*v1alpha1.Drift
	for _, d := range m.drifts {
		same := d.Spec.Child.Name == req.Name && d.Spec.Child.Kind == req.Kind.Kind && d.Spec.Operation == string(req.Operation)
		if same && d.Status.Held != nil && (req.OldObject == nil || req.OldObject.GetUID() == d.Spec.Child.UID) {
			of = append(of, d)
		}
	}
	slices.SortFunc(of, func(a, b *v1alpha1.Drift) int { return a.Status.LastSeen.Compare(b.Status.LastSeen.Time) })
	all := v1alpha1.HeldDrift{Drift: map[string]string{}}
	for _, d := range of {
		maps.Copy(all.Drift, d.Status.Held.Drift)
		if s := d.Status.Held.Since; s != nil && (all.Since == nil || s.Generation < all.Since.Generation) {
			all.Since = s
		}
	}
	return HeldOf(all)
}

// Below a parent.
func (m *model) Below(_ context.Context, p *parent.State) (out []Below) {
	for id, d := range m.drifts {
		if h := d.Status.Held; h != nil && d.Spec.Parent.UID == p.UID {
			b := Below{Child: d.Spec.Child.Name, Operation: Operation(d.Spec.Operation), ID: id, Own: true}
			if h.Since != nil {
				b.Since = h.Since.Generation
			}
			out = append(out, b)
		}
	}
	return out
}

// composedUpdate reports whether a request is Crossplane's apply of an MR that exists, in mode enforce.
func (m *model) composedUpdate(req *Request) bool {
	return req.Operation == Update && subject.IsComposedApply(req.FieldManager) && req.User.Name == fx.Crossplane.Name
}

// leavesOf an update of an MR's parameters.
func leavesOf(old, next *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, l := range (change.Comparison{}).Leaves(old.Object, next.Object) {
		if strings.HasPrefix(l.Path, "spec.forProvider") {
			out[l.Path] = l.Value
		}
	}
	return out
}

// refusedBefore keeps what Crossplane is refused and still wants, whatever Drifts show; and (h): while it works on an
// intent, nothing that was held before is refused, so that the XR settles (KR-05-59).
func (m *model) refusedBefore(key string, req *Request, d Decision) {
	if !m.composedUpdate(req) {
		return
	}
	uid, now := string(req.OldObject.GetUID()), leavesOf(req.OldObject, req.Object)
	wants := m.wants[uid]
	if wants == nil {
		wants = map[string]want{}
		m.wants[uid] = wants
	}
	maps.DeleteFunc(wants, func(path string, w want) bool { return now[path] != w.value })
	stale := identity.Annotation(req.OldObject, v1alpha1.AnnotationKeyHeld) != "" // the function's own, which Crossplane composes again
	if d.Before && !d.Allowed && d.Reason == outcome.ReasonDrift && !stale && m.governed == nil {
		m.fail("%s: refused while the XR works on an intent, so that it does not settle: %s", key, d.Message)
	}
	refused := d.Drift
	switch {
	case m.mode != v1alpha1.ModeEnforce:
		clear(wants)
		return
	case d.Held != nil:
		refused = d.Held.Drift
	case d.Allowed || !remembered[d.Reason]: // what policies narrow alone follows from an intent
		return
	}
	for path, value := range now {
		if unresolved := d.Held != nil && m.approved[uid+" "+path] == value; unresolved {
			continue // it was approved since, landed or not, and its Drift is not resolved yet
		}
		if refused.Has(change.Leaf{Path: path, Value: value}) {
			delete(m.approved, uid+" "+path)
			wants[path] = want{value: value, since: cmp.Or(wants[path].since, m.sum(m.get("xr")).SettledGeneration())}
		}
	}
}

// want of a field that was refused, since a generation at which the XR settled.
type want struct {
	value string
	since int64
}

// grantedSince reports whether policies grant a field of an MR, by an intent of the XR since it was refused (KR-05-68).
func (m *model) grantedSince(path string, since int64) bool {
	return slices.ContainsFunc(m.recent("xr"), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(entriesOf(m, o), func(a v1alpha1.Allowance) bool {
			return a.Relation == v1alpha1.RelationControllerChild && a.Generation > since &&
				slices.ContainsFunc(a.Mutations, func(f v1alpha1.AllowedMutation) bool { return f.JSONPath == path })
		})
	})
}

// checkWants: (i) no path passes that was held and is neither approved nor granted since (KR-05-55).
func (m *model) checkWants(key string, req *Request, d Decision, after *unstructured.Unstructured) {
	if !m.composedUpdate(req) || m.mode != v1alpha1.ModeEnforce || passesAlways[d.Reason] {
		return
	}
	uid := string(req.OldObject.GetUID())
	wants := m.wants[uid]
	own := trace.Of(after.GetAnnotations()).Own()
	approved := own != nil && own.Approval != nil && d.Reason == outcome.ReasonApproved
	for path, value := range leavesOf(req.OldObject, after) {
		if w := wants[path]; w.value == value && !approved && !m.grantedSince(path, w.since) {
			m.fail("%s: %s passes (%s), which was held and is neither approved nor granted since", key, path, d.Reason)
		}
		delete(wants, path)
		if approved {
			m.approved[uid+" "+path] = value
		}
	}
}

// passesAlways are the reasons for which what was held passes.
var passesAlways = map[outcome.Reason]bool{outcome.ReasonInitializing: true, outcome.ReasonParentDeleted: true, outcome.ReasonBeingDeleted: true}

// arrived: (j) at rest, what intents changed has arrived, but for what is held (KR-05-56).
func (m *model) arrived() {
	xr := m.get("xr")
	if m.wrong != "" || xr == nil || xr.GetDeletionTimestamp() != nil || m.mode != v1alpha1.ModeEnforce || m.governed != nil || m.claimed ||
		identity.Annotation(xr, v1alpha1.AnnotationKeyFreeze) != "" {
		return
	}
	size, _ := wantedOf(m.wanted(xr))["size"].(string)
	for _, key := range []string{"a", "b"} {
		o := m.get(key)
		if o == nil || o.GetDeletionTimestamp() != nil || metav1.GetControllerOf(o).UID != xr.GetUID() || textOf(o, "spec", "forProvider", "size") == size {
			continue
		}
		var h v1alpha1.Held
		value := identity.Annotation(o, v1alpha1.AnnotationKeyHeld)
		recorded := value != "" && json.Unmarshal([]byte(value), &h) == nil && (h.Drift["spec.forProvider.size"] != "" || h.Drift[v1alpha1.HeldWhole] != "")
		_, wants := m.wants[string(o.GetUID())]["spec.forProvider.size"]
		if !recorded && !wants {
			m.fail("%s: the size %s of the XR does not arrive: %s", key, size, m.describe(key))
		}
	}
}
