package admission

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// legalSets of crossplane-runtime v2.3.3 (pkg/reconciler/managed/policies.go): not taken from
// the code that is tested.
var legalSets = [][]string{
	{"*"}, {fx.Observe, fx.Create, fx.Update, fx.Delete, fx.LateInitialize}, {fx.Observe}, {}, {fx.Observe, fx.Create, fx.Update,
		fx.Delete}, {fx.Observe, fx.Create, fx.Update, fx.LateInitialize},
	{fx.Observe, fx.Create, fx.Update}, {fx.Observe, fx.Create, fx.Delete, fx.LateInitialize}, {fx.Observe, fx.Create,
		fx.LateInitialize}, {fx.Observe, fx.Create, fx.Delete}, {fx.Observe, fx.Create},
	{fx.Observe, fx.Delete}, {fx.Observe, fx.Update}, {fx.Observe, fx.LateInitialize}, {fx.Observe, fx.Update, fx.LateInitialize},
}

func sameSet(a, b []string) bool {
	x, y := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(x, y)
}

// checkStored: (e) the policies are legal and no more than the author's; (f) the
// author's value is remembered, or stored.
func (m *model) checkStored(key string, old, o *unstructured.Unstructured) {
	if key == "xr" || key == "claim" {
		return
	}
	policies, annotations := parent.PoliciesOf(o), o.GetAnnotations()
	if !slices.ContainsFunc(legalSets, func(s []string) bool { return sameSet(s, policies) }) {
		m.fail("%s: %v is no legal set", key, policies)
	}
	author := m.author[key]
	for _, p := range policies {
		if o.GetDeletionTimestamp() == nil && !mask.Gives(author, v1alpha1.Verb(p)) && !slices.Contains(author, p) {
			m.fail("%s: %v holds %s, which the author (%v) did not give", key, policies, p, author)
		}
	}
	if kept := mask.AuthorOf(annotations, policies); !slices.Equal(kept, author) && o.GetDeletionTimestamp() == nil {
		m.fail("%s: the author wrote %v, remembered is %v", key, author, kept)
	}
	if old != nil && old.GetDeletionTimestamp() != nil && mask.Gives(parent.PoliciesOf(old), v1alpha1.VerbDelete) &&
		!mask.Gives(policies, v1alpha1.VerbDelete) && mask.Gives(author, v1alpha1.VerbDelete) {
		m.fail("%s: Delete was taken from it while it is being deleted", key)
	}
	was := v1alpha1.Gate{}
	if old != nil {
		was = mask.ParseGate(old.GetAnnotations())
	}
	if mask.ParseGate(annotations).State == v1alpha1.GateOpen && was.State != v1alpha1.GateOpen {
		m.openedAt[key] = m.step
	}
}

// removed: (b) no external resource is orphaned without a request.
func (m *model) removed(key string, o *unstructured.Unstructured) {
	m.note("%s is gone", key)
	c := m.cloud[key]
	if c == nil || !c.exists {
		return
	}
	if identity.Annotation(o, v1alpha1.AnnotationKeyDeletion) != v1alpha1.DeletionOrphan && mask.Gives(m.author[key], v1alpha1.VerbDelete) {
		m.fail("%s is gone, its external resource is orphaned: policies %v", key, parent.PoliciesOf(o))
	}
	m.cloud[key] = &resource{}
}

// admitted: what an admitted write means for the author's value and for once
// approvals; an unrequested change is approved.
func (m *model) admitted(key string, user subject.User, req *Request, d Decision, after *unstructured.Unstructured) {
	if key == "xr" || key == "claim" {
		return
	}
	incoming := parent.PoliciesOf(req.Object)
	switch {
	case req.OldObject == nil && m.masked:
		m.author[key] = strings.Split(m.compose, ",")
	case req.OldObject == nil:
		m.author[key] = incoming
	case m.masked && req.OldObject.GetDeletionTimestamp() == nil:
		// The author's value as Kausality remembers it from what the function emits:
		// what was remembered before, or what the Composition has.
		if kept := mask.AuthorOf(after.GetAnnotations(), m.sum(after).ManagementPolicies); strings.Join(kept, ",") == m.compose {
			m.author[key] = kept
		}
	case !slices.Equal(incoming, parent.PoliciesOf(req.OldObject)) && (req.OldObject.GetDeletionTimestamp() == nil || m.mode == v1alpha1.ModeLog):
		m.author[key] = incoming
	}
	if _, masked := mask.ParseAuthor(identity.Annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies)); !masked {
		for _, c := range d.Changes { // what is requested again was not tampered with, and no gate remembers that
			if f, ok := strings.CutPrefix(c.Path, "spec.forProvider."); ok {
				delete(m.shown, key+" "+f)
			}
		}
	}
	for _, c := range d.Changes { // requested as the status shows it: there is no such difference any more
		if f, ok := strings.CutPrefix(c.Path, "spec.forProvider."); ok {
			if at, _, _ := unstructured.NestedFieldNoCopy(req.Object.Object, "status", "atProvider", f); at != nil && at == c.New {
				delete(m.shown, key+" "+f)
			}
		}
	}
	if m.mode == v1alpha1.ModeEnforce && d.Class == outcome.ClassDrift && d.Reason != outcome.ReasonApproved &&
		d.Reason != outcome.ReasonInitializing && d.Reason != outcome.ReasonParentDeleted {
		m.fail("%s: drift by %s passes for %s", key, user.Name, d.Reason)
	}
	if req.Operation == Update && user.Name == fx.Crossplane.Name && d.Reason == outcome.ReasonExpected {
		m.checkHeld(key, req.OldObject, after)
	}
	if own := d.Trace.Own(); own != nil && own.Approval != nil && own.Approval.Policy == "" && d.Reason == outcome.ReasonApproved {
		m.elected(key, "xr", own.Approval.Digest, own.Approval.By)
	}
	if len(d.Trace) == 0 || d.Trace.Own().Approval == nil || d.Trace.Own().Approval.Mode != v1alpha1.ApprovalOnce {
		return
	}
	m.use("xr " + d.Trace.Own().Approval.Content)
}

func (m *model) use(k string) {
	if m.used[k]++; m.used[k] > m.placed[k] {
		m.fail("once approval %s is used %d times, given %d times", k, m.used[k], m.placed[k])
	}
}

// openedBy: (d) by an approval that a user gave, and no once twice.
func (m *model) openedBy(key string, d gating.Decision) {
	if d.Gate.Reason != v1alpha1.GateReasonApproved {
		return // narrowed
	}
	for _, hk := range []string{key, "xr"} {
		holder := m.get(hk)
		if holder == nil {
			continue
		}
		claims := approval.ParseClaims(identity.Annotation(holder, v1alpha1.AnnotationKeyClaims))
		for _, id := range claimsOf(d.Gate) {
			c := claims.Find(id)
			if c == nil {
				continue
			}
			if k := id + " " + key; m.opened[k] == 0 { // one that it carries on is no new use
				m.opened[k]++
				m.use(hk + " " + c.Content)
				m.elected(key, hk, c.Digest, c.By)
			} else if was := m.versions[key][len(m.versions[key])-2]; !gating.HasUse(mask.ParseGate(was.GetAnnotations()), id) {
				m.fail("%s: claim %s opens the gate again", key, id)
			}
		}
		if hk == "xr" && d.Gate.Digest == m.whole(holder).Digest.ID() {
			for content, e := range approvalsOf(holder) {
				if was := m.versions[key][len(m.versions[key])-2]; e.Mode == v1alpha1.ApprovalOnce && e.Digest == d.Gate.Digest &&
					gating.HasUse(d.Gate, content) && !gating.HasUse(mask.ParseGate(was.GetAnnotations()), content) { // one that it carries on is no new use
					whole := "whole " + string(m.get(key).GetUID()) + " " + content
					m.placed[whole] = m.placed["xr "+content]
					m.use(whole)
				}
			}
		}
	}
}

// external write by the provider: (a).
func (m *model) external(key string, o *unstructured.Unstructured, verb v1alpha1.Verb, wanted map[string]any) {
	m.note("provider %s %s %v (g%d of %s)", verb, key, wanted, o.GetGeneration(), m.describe(key))
	if _, masked := mask.ParseAuthor(identity.Annotation(o, v1alpha1.AnnotationKeyManagementPolicies)); !masked {
		return
	}
	gate := mask.ParseGate(o.GetAnnotations())
	if gate.State != v1alpha1.GateOpen || !slices.Contains(gate.Verbs, verb) {
		m.fail("%s: external %s while the gate is %s for %v", key, verb, gate.State, gate.Verbs)
	}
	now := m.get(key)
	if now != nil && mask.ParseGate(now.GetAnnotations()).State == v1alpha1.GateClosed && verb == v1alpha1.VerbUpdate &&
		mask.ParseGate(now.GetAnnotations()).Reason == v1alpha1.GateReasonConfirmed {
		if have, _, _ := unstructured.NestedMap(now.Object, "spec", "forProvider"); !covers(have, wanted) {
			m.fail("%s: a stale copy writes %v after the gate closed, where %v is requested", key, wanted, have)
		}
	}
	if verb != v1alpha1.VerbUpdate || len(gate.Paths) == 0 {
		return
	}
	for f, v := range wanted {
		path, since := "spec.forProvider."+f, m.shown[key+" "+f]
		if m.cloud[key].fields[f] == v || since == 0 || since >= m.openedAt[key] {
			continue
		}
		if !slices.ContainsFunc(gate.Paths, func(p string) bool { return change.Under(path, p) || change.Under(p, path) }) {
			m.fail("%s: %s is applied without an approval, shown since step %s", key, path, strconv.Itoa(since))
		}
	}
}

// quiet: (c) at rest, no gate is open for more than an approved deletion, and
// no claim is in the air. late: past every deadline, none is open at all.
func (m *model) quiet(late bool) {
	for _, key := range []string{"a", "b"} {
		o := m.get(key)
		if o == nil || o.GetDeletionTimestamp() != nil || m.mode != v1alpha1.ModeEnforce {
			continue
		}
		s, gate := m.sum(o), mask.ParseGate(o.GetAnnotations())
		idle := s.True("Synced") && s.True("Ready") && covers(m.cloud[key].fields, wantedOf(o)) && !m.cloud[key].failed
		if gate.State == v1alpha1.GateOpen && late {
			m.overdue(key, gate)
		}
		// A provider that reports nothing, and a value that was requested again before
		// it can have been seen: only the deadline closes that, see overdue.
		unreported := m.upjet && !m.kind.ReconcileRequests && gate.Unproven
		if p := parent.PoliciesOf(o); !late && !unreported && gate.State == v1alpha1.GateOpen && idle &&
			(mask.Gives(p, v1alpha1.VerbUpdate) || mask.Gives(p, v1alpha1.VerbCreate)) {
			m.fail("%s: at rest, and open: %s", key, m.describe(key))
		}
		for _, hk := range []string{key, "xr"} {
			// What closed in the last round of 4 s is finished in the next one.
			if h := m.get(hk); h != nil && gate.State != v1alpha1.GateOpen && m.gateNow().Sub(gate.At.Time) > 5*time.Second {
				m.stuck(key, hk, h, o)
			}
		}
	}
}

// overdue reports a gate that is open for something past its deadline.
func (m *model) overdue(key string, gate v1alpha1.Gate) {
	for _, v := range gate.Verbs {
		since := gate.At
		if v == v1alpha1.VerbDelete {
			since = gating.DeletionOpenedAt(gate)
		}
		if m.now.Sub(since.Time) > modelDeadline+10*time.Second {
			m.fail("%s: open for %s past the deadline: %s", key, v, m.describe(key))
		}
	}
}

// obeyed: (g) what a person froze, as far as the gate could see, stays closed.
func (m *model) obeyed(key string, g gating.Managed, d gating.Decision) {
	if d.Action != gating.ActionOpen || d.Gate.Reason != v1alpha1.GateReasonApproved {
		return
	}
	for _, h := range g.Holders {
		if !h.State.Deleting() && h.State.Annotations[v1alpha1.AnnotationKeyFreeze] == "true" {
			m.fail("%s: opened by an approval while %s is frozen", key, h.State.Name)
		}
	}
}

func (m *model) stuck(key, hk string, holder, o *unstructured.Unstructured) {
	for _, c := range approval.ParseClaims(identity.Annotation(holder, v1alpha1.AnnotationKeyClaims)) {
		if c.State == v1alpha1.ClaimPending && c.Relation == v1alpha1.RelationExternal && c.Child.UID == o.GetUID() &&
			slices.Contains(claimsOf(mask.ParseGate(o.GetAnnotations())), c.ID) {
			m.fail("%s: claim %s on %s is never finished: %s", key, c.ID, hk, m.describe(key))
		}
	}
}

func wantedOf(o *unstructured.Unstructured) map[string]any {
	out, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	return out
}
