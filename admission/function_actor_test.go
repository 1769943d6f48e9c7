package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/hack/gatestates"
)

// Pipeline is what the composition function sees of one reconcile of an XR.
type Pipeline struct {
	Mode v1alpha1.Mode
	Now  time.Time
	XR   *unstructured.Unstructured
	// Observed and Desired resources by their names in the Composition.
	Observed, Desired map[string]*unstructured.Unstructured
	// Rule of the cluster about votes; nil for none.
	Rule *v1alpha1.ApprovalRule
}

// RunFunction runs the real composition function, which masks itself (gate:
// Managed), and returns what is desired afterwards. function_run_test.go sets it:
// package fn imports this one.
var RunFunction func(Pipeline) Ran

// Ran is what the function answers.
type Ran struct {
	// Desired resources by their names in the Composition.
	Desired map[string]*unstructured.Unstructured
	// Conditions of the XR, without times.
	Conditions []any
}

// applied is what Crossplane's apply of what the function emits leaves of an MR:
// what Kausality wrote there before and does not emit again is removed, but for
// the annotations that others write.
func applied(now, emitted *unstructured.Unstructured) *unstructured.Unstructured {
	out := now.DeepCopy()
	spec, _, _ := unstructured.NestedMap(emitted.Object, "spec")
	fx.Set(spec["forProvider"], "spec", "forProvider")(out)
	fx.Set(spec["managementPolicies"], "spec", "managementPolicies")(out)
	a := out.GetAnnotations()
	for _, k := range []string{v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate, v1alpha1.AnnotationKeyUsedApprovals,
		v1alpha1.AnnotationKeyHeld, v1alpha1.AnnotationKeySettledIntent, v1alpha1.AnnotationKeyHeldCreations} {
		delete(a, k)
	}
	maps.Copy(a, emitted.GetAnnotations())
	out.SetAnnotations(a)
	return out
}

// composedAs is what a Composition wants of an MR.
func composedAs(o *unstructured.Unstructured, author []string, mods ...fx.Mod) *unstructured.Unstructured {
	policies := make([]any, 0, len(author))
	for _, p := range author {
		policies = append(policies, p)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind()}}
	fp, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	return fx.With(out, append([]fx.Mod{fx.Set(fp, "spec", "forProvider"), fx.Policies(policies...)}, mods...)...)
}

// wants of a Composition about an MR; nil removes it.
func wants(o *unstructured.Unstructured) map[string]*unstructured.Unstructured {
	author := mask.AuthorOf(o.GetAnnotations(), parent.Sum(o, parent.RoleManaged).ManagementPolicies)
	return map[string]*unstructured.Unstructured{
		"same":         composedAs(o, author),
		"change":       composedAs(o, author, fx.Resize("l")),
		"change, *":    composedAs(o, []string{"*"}, fx.Resize("l")),
		"author O":     composedAs(o, []string{fx.Observe}),
		"author []":    composedAs(o, []string{}),
		"author *":     composedAs(o, []string{"*"}),
		"author O,C,U": composedAs(o, []string{fx.Observe, fx.Create, fx.Update}),
		"nothing":      nil,
	}
}

// exploreFunction runs the composition function on every MR in every situation,
// alone and beside a webhook that keeps the trace of the XR.
func exploreFunction(t *testing.T, found explored) (asked int) {
	t.Helper()
	one := func(in string, p Pipeline) {
		asked++
		o := p.Observed["instance"]
		var before, after *parent.State
		if o != nil {
			before = parent.Sum(o, parent.RoleManaged)
		}
		emitted := RunFunction(p).Desired["instance"]
		switch {
		case o == nil && emitted == nil:
			return // held
		case o == nil:
			after = parent.Sum(emitted, parent.RoleManaged)
		case emitted == nil && before.Deleting():
			return
		case emitted == nil:
			after = parent.Sum(fx.With(o, fx.Deleting), parent.RoleManaged)
		default:
			after = parent.Sum(applied(o, emitted), parent.RoleManaged)
		}
		reason := ""
		was, is := gate1(before), gate1(after)
		switch from, to := statusOf(before), statusOf(after); {
		case from == gatestates.StatusTerminating && to != gatestates.StatusTerminating:
			t.Errorf("%s: a terminating MR is %s", in, to)
		case mask.FormatGate(was) != mask.FormatGate(is):
			if to != gatestates.StatusUnmasked && to != gatestates.StatusPaused {
				reason = is.Reason
			}
			found.note(taken{from, to, gatestates.MoverFunction, reason}, in)
		case from != to:
			found.note(taken{from, to, gatestates.MoverFunction, ""}, in)
		}
	}
	for name, o := range product(storedMasks(), providerReports(), circumstances()[:4], cloudStates()[:3]) {
		if strings.Contains(name, "not supported") {
			continue // the function does not know the runtime of a provider
		}
		for want, desired := range wants(o) {
			exploreHolders(name, want, o, desired, one)
		}
		exploreHolders(name, "nothing, orphan", fx.With(o, fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)), nil, one)
	}
	for want, desired := range wants(fx.Unmasked()) {
		if desired != nil {
			for _, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
				xr := fx.With(fx.Composite(), fx.Unsettled)
				one("create, "+want, Pipeline{Mode: mode, Now: fx.Noon, XR: xr, Desired: map[string]*unstructured.Unstructured{"instance": desired}})
			}
		}
	}
	return asked
}

// exploreHolders of approvals on the XR, modes and times for one MR: approvals and
// deadlines where the Composition wants nothing else, a new intent where it does.
func exploreHolders(name, want string, o, desired *unstructured.Unstructured, one func(string, Pipeline)) {
	mr := parent.Sum(o, parent.RoleManaged)
	g := gating.Managed{MR: mr, Observed: gating.Observed{Difference: external.Difference(o.Object)}}
	rests := want == "same" || strings.HasPrefix(want, "nothing")
	for what, holder := range holdersFor(g) {
		plain := strings.TrimSpace(what) == ""
		if !plain && (!rests || !strings.Contains(name, "/synced") || strings.Contains(name, "no generation") || !strings.Contains(name, "/ready/")) {
			continue
		}
		xrs := []*unstructured.Unstructured{fx.Composite(), fx.With(fx.Composite(), fx.Unsettled)}
		times := []time.Time{fx.Noon, fx.Noon.Add(31 * time.Minute)}
		if rests {
			xrs = xrs[:1]
		} else {
			times = times[:1]
		}
		for i, xr := range xrs {
			for k, v := range holder.Annotations {
				if v1alpha1.IsUser(k) {
					fx.Annotate(k, v)(xr)
				}
			}
			for _, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
				for _, now := range times {
					p := Pipeline{Mode: mode, Now: now, XR: xr, Observed: map[string]*unstructured.Unstructured{"instance": o}}
					if desired != nil {
						p.Desired = map[string]*unstructured.Unstructured{"instance": desired}
					}
					one(fmt.Sprintf("function: %s, %s, %s, %s, %s, new intent %t", name, want, what, mode, now.Format(time.TimeOnly), i == 1), p)
				}
			}
		}
	}
}

// function is the composition function in the reconcile of an XR: the emitted
// resources by their names, nil where the Composition has none that masks. Beside a
// webhook it sees what Crossplane's cache has, which may be old. Alone nothing
// guards it against that, so that it sees what is stored.
func (m *model) function(xr *unstructured.Unstructured) Ran {
	if !m.alone && (!m.masks || m.governed != nil) {
		return Ran{}
	}
	p := Pipeline{Mode: m.mode, Now: m.now, XR: xr, Observed: map[string]*unstructured.Unstructured{}, Desired: map[string]*unstructured.Unstructured{}}
	for _, k := range []string{"a", "b"} {
		o := m.get(k)
		if !m.alone {
			o = m.stale("crossplane", k)
		}
		if o != nil && metav1.GetControllerOf(o).UID == xr.GetUID() {
			p.Observed[k] = o
		}
		p.Desired[k] = m.wanted(xr)
	}
	if m.voted {
		p.Rule = ruleOfTwo
	}
	ran := RunFunction(p)
	for k, o := range p.Observed {
		if emitted := ran.Desired[k]; emitted == nil {
			m.fail("the function removes %s, which the Composition wants", k)
		} else if m.alone {
			m.offered(k, o, emitted)
		}
	}
	return ran
}

// wanted by the Composition of each MR.
func (m *model) wanted(xr *unstructured.Unstructured) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "aws.example.org/v1", "kind": "Instance"}}
	policies := []any{}
	for p := range strings.SplitSeq(m.compose, ",") {
		policies = append(policies, p)
	}
	return fx.With(o, fx.Set(textOf(xr, "spec", "size"), "spec", "forProvider", "size"),
		fx.Set("r"+strconv.Itoa(m.revision), "spec", "forProvider", "region"), fx.Policies(policies...))
}

// offered is what can be approved: what the function holds, and external drift, as
// its audit reports it.
func (m *model) offered(_ string, o, emitted *unstructured.Unstructured) {
	held := v1alpha1.Held{}
	if value := identity.Annotation(emitted, v1alpha1.AnnotationKeyHeld); value != "" && json.Unmarshal([]byte(value), &held) == nil && held.Approve != "" {
		m.offer("xr", held.ID)
	}
	if diff := external.Difference(o.Object); len(diff) > 0 {
		m.offer("xr", identity.DriftDigest(m.sum(m.get("xr")), m.sum(o), diff).ID())
	}
}

// applyEmitted is Crossplane's apply of what the function emits, over what is
// stored by then.
func applyEmitted(now, emitted *unstructured.Unstructured) *unstructured.Unstructured {
	forProvider, _, _ := unstructured.NestedMap(now.Object, "spec", "forProvider")
	wanted, _, _ := unstructured.NestedMap(emitted.Object, "spec", "forProvider")
	emitted = fx.With(emitted, fx.Set(merged(forProvider, wanted), "spec", "forProvider"))
	return applied(now, emitted)
}

// unguarded is a write that no webhook decides about: of a user, or of Crossplane
// where the function is alone.
func (m *model) unguarded(key, user string, old, next *unstructured.Unstructured) bool {
	if !m.reliable && m.chance(12) {
		m.note("%s's write of %s is lost", user, key)
		return false
	}
	switch {
	case key == "xr":
		next = m.written(old, next)
	case user == fx.Crossplane.Name:
		m.checkFunction(key, old, next)
	}
	m.store(key, next)
	m.note("%s wrote %s: %s", user, key, m.describe(key))
	return true
}

// written is an XR with the managedFields by which the function alone finds
// intents and the age of approvals: those of users.
func (m *model) written(old, next *unstructured.Unstructured) *unstructured.Unstructured {
	if old == nil {
		next.SetCreationTimestamp(metav1.NewTime(m.now))
	}
	entry := func(manager string, fields map[string]any) {
		list, _, _ := unstructured.NestedSlice(next.Object, "metadata", "managedFields")
		list = slices.DeleteFunc(list, func(e any) bool { return e.(map[string]any)["manager"] == manager })
		fx.Set(append(list, map[string]any{"manager": manager, "operation": "Update", "apiVersion": "example.org/v1", "fieldsType": "FieldsV1",
			"time": m.now.Format(time.RFC3339), "fieldsV1": fields}), "metadata", "managedFields")(next)
	}
	if old == nil || textOf(old, "spec", "size") != textOf(next, "spec", "size") {
		entry("kubectl-edit", map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}})
	}
	changed := map[string]any{}
	for k, v := range next.GetAnnotations() {
		if old == nil || identity.Annotation(old, k) != v {
			changed["f:"+k] = map[string]any{}
		}
	}
	if len(changed) > 0 {
		entry("kubectl-annotate-"+strconv.FormatInt(m.version, 10), map[string]any{"f:metadata": map[string]any{"f:annotations": changed}})
	}
	return next
}

// checkFunction that is alone: what it does to an MR's gate, and to approvals.
func (m *model) checkFunction(key string, old, next *unstructured.Unstructured) {
	if kept := mask.AuthorOf(next.GetAnnotations(), m.sum(next).ManagementPolicies); strings.Join(kept, ",") == m.compose || old == nil {
		m.author[key] = kept
	}
	had := map[string]bool{}
	if old != nil {
		had = usedBy(old)
	}
	for content := range usedBy(next) {
		if !had[content] {
			m.use("xr " + content)
		}
	}
	was := v1alpha1.Gate{}
	if old != nil {
		was = mask.ParseGate(old.GetAnnotations())
	}
	gate := mask.ParseGate(next.GetAnnotations())
	opens := gate.State == v1alpha1.GateOpen && (gate.Reason == v1alpha1.GateReasonApproved || gate.Reason == v1alpha1.GateReasonDeletionApproved)
	if opens && was.State != v1alpha1.GateOpen && identity.Annotation(m.get("xr"), v1alpha1.AnnotationKeyFreeze) == "true" {
		m.fail("%s: opened by an approval while its XR is frozen", key)
	}
	if old == nil {
		return
	}
	m.checkHeld(key, old, next)
	for f, v := range wantedOf(next) { // requested again, or as the status shows it: that was not tampered with
		at, _, _ := unstructured.NestedFieldNoCopy(next.Object, "status", "atProvider", f)
		if _, masked := mask.ParseAuthor(identity.Annotation(next, v1alpha1.AnnotationKeyManagementPolicies)); wantedOf(old)[f] != v && (!masked || at == v) {
			delete(m.shown, key+" "+f)
		}
	}
}

// checkHeld: no path passes with a value that was held as drift and is neither approved nor granted by an intent since,
// whatever else the write changes (KR-05-55, KR-05-68).
func (m *model) checkHeld(key string, old, next *unstructured.Unstructured) {
	var held v1alpha1.Held
	value := identity.Annotation(old, v1alpha1.AnnotationKeyHeld)
	if value == "" || json.Unmarshal([]byte(value), &held) != nil || m.mode != v1alpha1.ModeEnforce {
		return
	}
	if own := trace.Of(next.GetAnnotations()).Own(); own != nil && own.Approval != nil {
		return
	}
	record := HeldOf(held.HeldDrift)
	for _, l := range (change.Comparison{}).Leaves(old.Object, next.Object) {
		granted := held.Since != nil && m.grantedSince(l.Path, held.Since.Generation)
		if strings.HasPrefix(l.Path, "spec.forProvider") && record.Has(l) && !granted {
			m.fail("%s: %s passes, which was held and is neither approved nor granted since", key, l.Path)
		}
	}
}

// usedBy an MR: contents of once approvals.
func usedBy(o *unstructured.Unstructured) map[string]bool {
	out := map[string]bool{}
	for content := range strings.SplitSeq(identity.Annotation(o, v1alpha1.AnnotationKeyUsedApprovals), ",") {
		if content != "" {
			out[content] = true
		}
	}
	if own := trace.Of(o.GetAnnotations()).Own(); own != nil && own.Approval != nil && own.Approval.Mode == v1alpha1.ApprovalOnce {
		out[own.Approval.Content] = true
	}
	return out
}

func gate1(s *parent.State) v1alpha1.Gate {
	if s == nil {
		return v1alpha1.Gate{}
	}
	return mask.ParseGate(s.Annotations)
}
