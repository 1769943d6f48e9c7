package admission

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// modelPolicies are AllowancePolicies in force: a size goes from the Claim over
// the XR to the MRs, s3 no further than to the XR.
type modelPolicies struct {
	set *allowance.Set
	at  time.Time
	// external: a size may be changed outside, too.
	external bool
}

// modelGrant is an allowance as the model itself works it out.
type modelGrant struct {
	// claimed: its chain started at the Claim.
	claimed bool
}

const modelClaimPolicy = `
metadata: {name: claims}
spec:
  target: {apiGroup: example.org, kind: DatabaseClaim}
  subjects: [{kind: User, name: alice, mayInitiate: true}]
  rules: [{trigger: spec.size, 
    allow: [{target: {apiGroup: example.org, kind: XDatabase}, relation: ControllerChild, verbs: [Update], mutations: [{jsonPath: spec.size}]}]}]
`

const modelPolicy = `
metadata: {name: xrs}
spec:
  target: {apiGroup: example.org, kind: XDatabase}
  subjects: [{kind: User, name: alice, mayInitiate: true}, {kind: ServiceAccount, namespace: crossplane-system, name: crossplane}]
  rules:
  - trigger: spec.size
    conditions: ["object.spec.size != 's3'"]
    allow:
    - {target: {apiGroup: aws.example.org, kind: Instance}, relation: ControllerChild, verbs: [Update], mutations: [{jsonPath: spec.forProvider.size}]}
`

// Sections that a policy may have or not.
const (
	modelExternal     = "    - {relation: External, verbs: [Update]}\n"
	modelInitializing = "  initializing: {allow: [{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: \"*\"}]}, " +
		"{relation: External, verbs: [Create]}]}\n"
	modelDeleting = "  deleting: {allow: [{relation: ControllerChild, verbs: [\"*\"]}, {relation: External, verbs: [Delete]}]}\n"
)

// Policies in force, for the Evaluator.
func (m *model) Policies() *allowance.Set {
	var set *allowance.Set
	if m.governed != nil {
		set = m.governed.set
	}
	if !m.voted {
		return set
	}
	if set == nil {
		set = allowance.NewSet(nil, nil, nil)
	}
	return set.WithRules([]*allowance.Rule{twoVotes})
}

// govern puts policies in force.
func (m *model) govern() {
	g := &modelPolicies{at: m.now.Truncate(time.Second), external: !m.chance(4)}
	xrs := modelPolicy
	if g.external {
		xrs += modelExternal
	}
	for _, section := range []string{modelInitializing, modelDeleting} {
		if m.chance(2) {
			xrs += section
		}
	}
	var compiled []*allowance.Compiled
	for _, text := range []string{modelClaimPolicy, xrs} {
		p := &v1alpha1.AllowancePolicy{}
		if err := yaml.Unmarshal([]byte(text), p); err != nil {
			m.fail("%v in %s", err, text)
		}
		p.CreationTimestamp = metav1.NewTime(g.at)
		c, errs := allowance.Compile(p)
		if len(errs) > 0 {
			m.fail("%v in %s", errs, text)
		}
		compiled = append(compiled, c)
	}
	g.set = allowance.NewSet(compiled, nil, nil)
	m.governed = g
	m.note("policies come into force: external %t", g.external)
}

// regovern: policies come or go.
func (m *model) regovern() {
	if m.alone {
		return
	}
	if m.governed == nil {
		m.govern()
		return
	}
	m.governed = nil
	m.note("the policies are gone")
}

// fulfilled: a user requests a size, and no actor interferes with the result, so
// that allowances are consumed before the next change.
func (m *model) fulfilled() {
	m.edit(m.sized(), fx.Set("s"+strconv.Itoa(m.rng.IntN(4)), "spec", "size"))
	m.reliable = true
	m.rest(8)
	m.reliable = false
}

// sized is the object on which users set a size: the Claim where there is one, mostly.
func (m *model) sized() string {
	if m.claimed && !m.chance(4) {
		return "claim"
	}
	return "xr"
}

// claimXR is Crossplane, copying the spec of the Claim.
func (m *model) claimXR() {
	claim := m.stale("crossplane", "claim")
	if claim == nil {
		return
	}
	size := textOf(claim, "spec", "size")
	synced := m.write("xr", fx.Crossplane, managerXR, func(now *unstructured.Unstructured) *unstructured.Unstructured {
		if now == nil || textOf(now, "spec", "claimRef", "name") == "" {
			return nil
		}
		return fx.With(now, fx.Set(size, "spec", "size"))
	})
	ready := false
	if xr := m.get("xr"); xr != nil {
		ready = m.sum(xr).True("Ready")
	}
	c := func(t string, ok bool) map[string]any {
		s := "False"
		if ok {
			s = "True"
		}
		return map[string]any{"type": t, "status": s, "reason": "R", "observedGeneration": claim.GetGeneration(), "lastTransitionTime": m.now.Format(time.RFC3339)}
	}
	m.status("claim", claim, fx.Set(map[string]any{"conditions": keepTimes(claim, []any{c("Synced", synced), c("Ready", ready)})}, "status"))
}

// approveByPolicy writes what the webhook does on behalf of a policy.
func (m *model) approveByPolicy(a *outcome.ApproveEffect) {
	key := m.keyOf(a.Holder)
	o := m.get(key)
	if o == nil || o.GetUID() != a.Holder.UID || o.GetAnnotations()[a.Key] != "" {
		return
	}
	before := approvalsOf(o)
	m.store(key, fx.With(o, fx.Annotate(a.Key, a.Value)))
	for content := range approvalsOf(m.get(key)) {
		if _, had := before[content]; !had {
			m.placed[key+" "+content]++
		}
	}
}

// recent versions of an object: a decision may rest on any of them that a cache
// still has.
func (m *model) recent(key string) (out []*unstructured.Unstructured) {
	v := m.versions[key]
	for _, o := range v[max(0, len(v)-5):] {
		if o != nil {
			out = append(out, o)
		}
	}
	return out
}

// live reports whether a version of a carrier has an allowance that is not
// consumed, by what the model knows of grants.
func (m *model) live(o *unstructured.Unstructured) bool {
	settled := m.sum(o).SettledGeneration()
	for generation := range m.grants[string(o.GetUID())] {
		if generation > settled && generation <= o.GetGeneration() {
			return true
		}
	}
	return false
}

func sizeOf(o *unstructured.Unstructured) string { return textOf(o, "spec", "size") }

func textOf(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// ruled: what an admitted write means under policies.
func (m *model) ruled(key string, req *Request, d Decision, result *unstructured.Unstructured) {
	m.pruned(key, req, d, result)
	if key == "xr" || key == "claim" {
		m.granted(key, req, result)
		m.carried(key, result)
		return
	}
	m.travelled(key, result)
	if m.governed == nil || d.Reason != outcome.ReasonExpected {
		m.unopened(key, req, d)
		return
	}
	m.covered(key, req, d)
}

// granted: (h) a change of the size is granted an allowance, by a user who may
// initiate or whose own change was allowed by the Claim, and nothing else is.
func (m *model) granted(key string, req *Request, result *unstructured.Unstructured) {
	old := req.OldObject
	generation := int64(1)
	if old != nil {
		generation = old.GetGeneration() + 1
	}
	has := slices.ContainsFunc(entriesOf(m, result), func(a v1alpha1.Allowance) bool { return a.Generation == generation })
	uid := string(result.GetUID())
	may := old != nil && old.GetDeletionTimestamp() == nil && m.governed != nil && sizeOf(old) != sizeOf(result) && (key == "claim" || sizeOf(result) != "s3")
	must, grant := may, modelGrant{}
	if may && req.User.Name != fx.Alice.Name {
		grant.claimed = true
		versions := m.recent("claim")
		may = slices.ContainsFunc(versions, m.live)
		must = may && !slices.ContainsFunc(versions, func(o *unstructured.Unstructured) bool { return !m.live(o) })
	}
	switch {
	case has && !may:
		m.fail("%s: generation %d by %s is granted an allowance", key, generation, req.User.Name)
	case !has && must:
		m.fail("%s: generation %d by %s is granted no allowance: %v", key, generation, req.User.Name, result.GetAnnotations())
	case has:
		if m.grants[uid] == nil {
			m.grants[uid] = map[int64]modelGrant{}
		}
		m.grants[uid][generation] = grant
	}
}

// carried: (i) each entry was granted, and names by whom and on which way.
func (m *model) carried(key string, o *unstructured.Unstructured) {
	for _, a := range entriesOf(m, o) {
		grant, known := m.grants[string(o.GetUID())][a.Generation]
		want := []string{o.GetKind()}
		if grant.claimed {
			want = []string{"DatabaseClaim", o.GetKind()}
		}
		if !known || a.Initiator != fx.Alice.Name || !slices.Equal(want, kindsOf(a)) || a.Trace[len(a.Trace)-1].Generation != a.Generation {
			m.fail("%s carries an allowance that was not granted (%t, %v): %+v", key, known, want, a)
		}
	}
}

// travelled: (j) what an MR carries is External, and comes from its XR's.
func (m *model) travelled(key string, o *unstructured.Unstructured) {
	xr := m.get("xr")
	for _, a := range entriesOf(m, o) {
		if a.Relation != v1alpha1.RelationExternal || a.Initiator != fx.Alice.Name || len(a.Trace) < 2 || kindsOf(a)[len(a.Trace)-1] != "Instance" {
			m.fail("%s carries %+v", key, a)
			continue
		}
		from := a.Trace[len(a.Trace)-2]
		if _, known := m.grants[string(metav1.GetControllerOf(o).UID)][from.Generation]; !known || from.Kind != "XDatabase" {
			m.fail("%s carries what its XR (%v) was never granted: %+v", key, xr != nil, a)
		}
	}
}

func kindsOf(a v1alpha1.Allowance) (out []string) {
	for _, h := range a.Trace {
		out = append(out, h.Kind)
	}
	return out
}

// entriesOf an object, read by nothing of ours.
func entriesOf(m *model, o *unstructured.Unstructured) (out []v1alpha1.Allowance) {
	value := identity.Annotation(o, v1alpha1.AnnotationKeyAllowances)
	if value == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(value), &out); err != nil || len(out) == 0 {
		m.fail("allowances %q: %v", value, err)
	}
	return out
}

// pruned: (k) what was consumed before a change is gone after it; a write that is
// none leaves all as it was, byte for byte.
func (m *model) pruned(key string, req *Request, d Decision, result *unstructured.Unstructured) {
	if req.OldObject == nil {
		return
	}
	if d.Class == outcome.ClassNone || d.Class == outcome.ClassSelf {
		if was, is := identity.Annotation(req.OldObject, v1alpha1.AnnotationKeyAllowances), identity.Annotation(result, v1alpha1.AnnotationKeyAllowances); was != is {
			m.fail("%s: a %s write makes allowances %q of %q", key, d.Class, is, was)
		}
		return
	}
	consumed := m.sum(req.OldObject).SettledGeneration()
	gate := mask.ParseGate(req.OldObject.GetAnnotations())
	if gate.State == v1alpha1.GateClosed && gate.Reason != v1alpha1.GateReasonPending && gate.Reason != v1alpha1.GateReasonFrozen {
		// A write that the mask undoes names the generation after it, which the object does not get.
		consumed = min(gate.Generation, req.OldObject.GetGeneration())
	}
	for _, a := range entriesOf(m, result) {
		if a.Generation <= consumed {
			m.fail("%s keeps an allowance of generation %d, consumed at %d", key, a.Generation, consumed)
		}
	}
}

// covered: (l) under policies, what Crossplane changes of an MR is allowed field
// by field, and its gate opens for what is allowed outside and nothing else.
func (m *model) covered(key string, req *Request, d Decision) {
	versions := m.recent("xr")
	bound := slices.DeleteFunc(slices.Clone(versions), func(o *unstructured.Unstructured) bool { return !m.binds(o) })
	if len(bound) < len(versions) {
		return // it may go back to before the policies
	}
	allowed := slices.ContainsFunc(versions, m.live)
	if req.Operation != Update {
		m.fail("%s: %s passes as expected, which no policy allows", key, req.Operation)
	}
	for _, c := range d.Changes {
		if c.Path != "spec.forProvider.size" || !allowed {
			m.fail("%s: %s of %s passes as expected, allowed %t", key, req.Operation, c.Path, allowed)
		}
	}
	if opens(req, d) && (!m.governed.external || !allowed) {
		m.fail("%s: the gate opens for %v without an allowance", key, d.Gate.Verbs)
	}
}

// binds reports whether policies existed when the intent was made that a
// version of the XR records.
func (m *model) binds(o *unstructured.Unstructured) bool {
	hop := trace.Of(o.GetAnnotations()).Own()
	return hop != nil && !m.governed.at.After(hop.Timestamp.Time)
}

// opens reports whether a write opens a gate that was closed.
func opens(req *Request, d Decision) bool {
	if d.Gate == nil || d.Gate.State != v1alpha1.GateOpen || req.OldObject == nil {
		return false
	}
	return mask.ParseGate(req.OldObject.GetAnnotations()).State == v1alpha1.GateClosed
}

// unopened: (m) under policies, a person's change of an MR opens no gate.
func (m *model) unopened(key string, req *Request, d Decision) {
	if m.governed != nil && d.Reason == outcome.ReasonNewOrigin && opens(req, d) {
		m.fail("%s: the gate opens for %v by a change that no policy allows outside", key, d.Gate.Verbs)
	}
}
