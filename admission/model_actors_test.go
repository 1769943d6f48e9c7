package admission

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// composeXR is Crossplane: it applies what is composed, and writes the status.
func (m *model) composeXR() {
	xr := m.stale("crossplane", "xr")
	if xr == nil {
		return
	}
	if xr.GetDeletionTimestamp() != nil {
		m.finalize("xr", xr)
		return
	}
	refs := []any{}
	for _, k := range []string{"a", "b"} {
		refs = append(refs, map[string]any{"apiVersion": "aws.example.org/v1", "kind": "Instance", "name": k})
	}
	m.write("xr", fx.Crossplane, "apiextensions.crossplane.io/composite", func(now *unstructured.Unstructured) *unstructured.Unstructured {
		if now == nil || now.GetUID() != xr.GetUID() {
			return nil
		}
		return fx.With(now, fx.Set(refs, "spec", "resourceRefs"), fx.Set(map[string]any{"name": "rev-" + strconv.Itoa(m.revision)}, "spec", "compositionRevisionRef"))
	})
	if m.alone { // Crossplane runs the pipeline on what it has just written
		xr = m.get("xr")
	}
	ran := m.function(xr)
	synced, ready := true, true
	for _, k := range []string{"a", "b"} {
		ok, r := m.composeMR(k, xr, ran)
		synced, ready = synced && ok, ready && r
	}
	now := m.get("xr")
	if now == nil || now.GetUID() != xr.GetUID() {
		return
	}
	c := func(t string, ok bool) map[string]any {
		s := "False"
		if ok {
			s = "True"
		}
		return map[string]any{"type": t, "status": s, "reason": "R", "observedGeneration": xr.GetGeneration(), "lastTransitionTime": m.now.Format(time.RFC3339)}
	}
	conditions := []any{c("Synced", synced), c("Ready", ready)}
	for _, e := range ran.Conditions {
		e.(map[string]any)["lastTransitionTime"] = m.now.Format(time.RFC3339)
		conditions = append(conditions, e)
	}
	m.status("xr", now, fx.Set(map[string]any{"conditions": keepTimes(now, conditions)}, "status"))
}

// composeMR applies what the pipeline wants of an MR: as the Composition has it
// or, where the function masks, as that emits it.
func (m *model) composeMR(key string, xr *unstructured.Unstructured, ran Ran) (applied, ready bool) {
	wanted := m.wanted(xr)
	if ran.Desired != nil {
		if wanted = ran.Desired[key]; wanted == nil {
			return true, m.get(key) != nil // its creation is held
		}
		m.masked = identity.Annotation(wanted, v1alpha1.AnnotationKeyManagementPolicies) != ""
		defer func() { m.masked = false }()
	}
	applied = m.write(key, fx.Crossplane, fx.ComposedManager, func(now *unstructured.Unstructured) *unstructured.Unstructured {
		switch {
		case now == nil:
			now = fx.Object(fmt.Sprintf(`{apiVersion: aws.example.org/v1, kind: Instance, metadata: {name: %s, uid: %s-%d,
				annotations: {crossplane.io/composition-resource-name: %s},
				ownerReferences: [{apiVersion: example.org/v1, kind: XDatabase, name: db, uid: %s, controller: true}]}}`, key, key, m.version, key, xr.GetUID()))
		case metav1.GetControllerOf(now).UID != xr.GetUID():
			return nil
		}
		if ran.Desired != nil {
			return applyEmitted(now, wanted)
		}
		spec, _, _ := unstructured.NestedMap(wanted.Object, "spec")
		forProvider, _, _ := unstructured.NestedMap(now.Object, "spec", "forProvider")
		list, _ := spec["managementPolicies"].([]any)
		return fx.With(now, fx.Set(merged(forProvider, wantedOf(wanted)), "spec", "forProvider"), fx.Policies(list...))
	})
	if o := m.get(key); o != nil {
		ready = m.sum(o).True("Ready")
	}
	return applied, ready
}

// collect garbage.
func (m *model) collect() {
	xr := m.get("xr")
	for _, k := range []string{"a", "b"} {
		if o := m.get(k); o != nil && (xr == nil || metav1.GetControllerOf(o).UID != xr.GetUID()) {
			m.remove(k, fx.Collector)
		}
	}
}

// settle is the webhook's asynchronous writer.
func (m *model) settle() {
	if m.alone {
		return
	}
	m.settleOne("xr", "a", "b")
	m.settleOne("claim", "xr")
	m.count()
	m.resolve()
}

func (m *model) settleOne(key string, children ...string) {
	o := m.get(key)
	if o == nil || o.GetDeletionTimestamp() != nil {
		return
	}
	s := m.sum(o)
	in := settling.Observation{Parent: s, Observed: s.ObservedGeneration, Known: s.HasObserved, Grace: time.Second, Now: m.now}
	for _, k := range children {
		if c := m.get(k); c != nil {
			in.Children = append(in.Children, m.sum(c))
		}
	}
	edits := map[string]string{}
	intent, recorded := trace.Intent(s)
	if !recorded {
		edits[v1alpha1.AnnotationKeyTrace] = trace.Current(s).String()
	}
	if ok, _ := in.Settles(); ok && s.SettledGeneration() < intent.Generation {
		edits[v1alpha1.AnnotationKeySettledGeneration] = strconv.FormatInt(intent.Generation, 10)
		edits[v1alpha1.AnnotationKeyPhase] = string(v1alpha1.PhaseInitialized)
		m.note("%s settled at %d", key, intent.Generation)
	}
	next := fx.With(o, func(o *unstructured.Unstructured) {
		for k, v := range edits {
			fx.Annotate(k, v)(o)
		}
		m.landed(o, s)
	})
	if !reflect.DeepEqual(next.Object, o.Object) {
		m.store(key, next)
	}
}

// landed finishes the claims of the webhook.
func (m *model) landed(o *unstructured.Unstructured, s *parent.State) {
	for _, c := range approval.ParseClaims(s.Annotations[v1alpha1.AnnotationKeyClaims]) {
		if c.State != v1alpha1.ClaimPending || c.Relation == v1alpha1.RelationExternal {
			continue
		}
		var child *parent.State
		if x := m.get(c.Child.Name); x != nil {
			child = m.sum(x)
		}
		if next := settling.ClaimOutcome(c, settling.Child{State: child}, m.now); next != "" {
			m.spend(o, c, next)
		}
	}
}

func (m *model) spend(o *unstructured.Unstructured, c v1alpha1.Claim, next v1alpha1.ClaimState) {
	a := o.GetAnnotations()
	edits := gating.Spend(a, c, m.now)
	if next == v1alpha1.ClaimOpen {
		value := approval.ParseClaims(a[v1alpha1.AnnotationKeyClaims]).Set(c.ID, next, m.now).String()
		edits = map[string]*string{v1alpha1.AnnotationKeyClaims: &value}
	}
	edited(edits)(o)
}

// edited annotations, nil for those that are removed.
func edited(edits map[string]*string) fx.Mod {
	return func(o *unstructured.Unstructured) {
		a := o.GetAnnotations()
		for k, v := range edits {
			if v == nil {
				delete(a, k)
			} else {
				a[k] = *v
			}
		}
		o.SetAnnotations(a)
	}
}

// gateStep is the gate controller looking at one MR, as package gate does; it may crash between any two writes.
func (m *model) gateStep(key string) {
	if m.alone {
		return
	}
	o := m.stale("gate", key)
	if o == nil {
		return
	}
	s := m.sum(o)
	g := gating.Managed{MR: s, Kind: m.kind, Mode: m.mode, Observed: gating.Observe(o, m.kind.SecretFields),
		Deadline: modelDeadline, User: fx.GateController.ID(), Now: m.gateNow(), Policies: m.Policies()}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c := e.(map[string]any); c["type"] == "Synced" && c["status"] != "True" {
			msg, _ := c["message"].(string)
			g.Gone = external.Gone(msg)
		}
	}
	if !m.finishGate(key, o, &g, m.stale("gate", "xr")) {
		return
	}
	d := g.Decide()
	if d.Live {
		if g.Live = true; !m.finishGate(key, o, &g, m.get("xr")) {
			return
		}
		d = g.Decide()
	}
	m.obeyed(key, g, d)
	m.actGate(key, o, d)
}

// gateNow is the time by the gate controller's clock.
func (m *model) gateNow() time.Time { return m.now.Add(m.skew) }

// finishGate finds the holders of approvals, the XR as it is given, and finishes
// a claim of a closed gate, as package gate does. ok is false where the
// gate controller crashed, or is to start again.
func (m *model) finishGate(key string, o *unstructured.Unstructured, g *gating.Managed, xr *unstructured.Unstructured) (ok bool) {
	g.Holders = []identity.Holder{{State: g.MR, Kind: g.Kind}}
	holders := map[string]*unstructured.Unstructured{key: o}
	if xr != nil && xr.GetUID() == g.MR.Parent.UID {
		g.Holders, holders["xr"] = append(g.Holders, identity.Holder{State: m.sum(xr), Kind: m.Kind(xr.GroupVersionKind()), Whole: func() (identity.Whole, bool) {
			return m.whole(xr), true
		}}), xr
	}
	for _, h := range g.Holders {
		c := gating.ClaimToFinish(g.MR, h.State)
		if c == nil {
			continue
		}
		if !m.reliable && m.chance(4) {
			return false // crashed before it was finished
		}
		hk := m.keyOf(h.State.Ref)
		if now := m.get(hk); now == nil || now.GetResourceVersion() != holders[hk].GetResourceVersion() {
			return false // conflict: tried again later
		}
		m.store(hk, fx.With(m.get(hk), func(o *unstructured.Unstructured) { m.spend(o, *c, v1alpha1.ClaimUsed) }))
		m.note("gate finished claim %s on %s", c.ID, hk)
		return hk != key // the MR changed: its own write conflicts
	}
	return true
}

func (m *model) actGate(key string, o *unstructured.Unstructured, d gating.Decision) {
	if d.Drift != nil {
		m.offer(m.keyOf(parent.Ref{Name: d.Drift.Parent.Name}), d.Drift.ID)
	}
	if d.Action == gating.ActionNone {
		return
	}
	if d.Claim != nil {
		if !m.takeClaims(d.Claim) {
			return
		}
		if !m.reliable && m.chance(4) {
			m.note("gate crashed between claim %s and opening %s", d.Claim.ID, key)
			return
		}
	}
	now := m.get(key)
	if now == nil || now.GetResourceVersion() != o.GetResourceVersion() {
		return // conflict; a claim on the MR itself makes one too
	}
	next := fx.With(now, func(o *unstructured.Unstructured) {
		list := make([]any, 0, len(d.Policies))
		for _, p := range d.Policies {
			list = append(list, p)
		}
		fx.Policies(list...)(o)
		for k, v := range d.Edits {
			if v == nil {
				fx.Unannotate(k)(o)
			} else {
				fx.Annotate(k, *v)(o)
			}
		}
		if d.Action == gating.ActionRestore {
			fx.Unannotate(v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate)(o)
			return
		}
		fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, mask.FormatAuthor(d.Author), v1alpha1.AnnotationKeyGate, mask.FormatGate(d.Gate))(o)
		for k, v := range d.Annotations {
			if v == nil {
				fx.Unannotate(k)(o)
			} else {
				fx.Annotate(k, *v)(o)
			}
		}
		if d.Gate.State == v1alpha1.GateOpen {
			fx.Annotate(v1alpha1.AnnotationKeyReconcileRequestedAt, m.gateNow().Format(time.RFC3339Nano)+strconv.FormatInt(m.version, 10))(o)
		}
	})
	m.store(key, next)
	if d.Action == gating.ActionOpen {
		m.openedBy(key, d)
	}
	m.note("gate %s %s %s: %s", d.Action, key, d.Gate.Reason, m.describe(key))
}

func (m *model) describe(key string) string {
	if !m.verbose {
		return ""
	}
	o := m.get(key)
	if o == nil {
		return "gone"
	}
	g := identity.Annotation(o, v1alpha1.AnnotationKeyGate)
	fp, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	out := fmt.Sprintf("g%d %v %v", o.GetGeneration(), fp, parent.PoliciesOf(o))
	if g != "" {
		out += " gate=" + g
	}
	if a := slices.Sorted(mapKeys(approvalsOf(o))); len(a) > 0 {
		out += fmt.Sprintf(" approvals=%v", a)
	}
	return out
}

// forget what was spent on a difference that occurs again (notify.Forget).
func (m *model) forget(o offer) {
	h := m.get(o.holder)
	set := approval.Parse(h.GetAnnotations())
	if next := set.Claims.Forget(o.id, set.Approvals); len(next) != len(set.Claims) {
		m.store(o.holder, fx.With(h, fx.Annotate(v1alpha1.AnnotationKeyClaims, next.String())))
	}
}

// claimsOf a gate: the uses of approvals that keep it open.
func claimsOf(g v1alpha1.Gate) []string { return gating.Uses(g) }
