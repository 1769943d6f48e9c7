package fn

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// gateDeadline closes a gate whose opening was never confirmed.
const gateDeadline = time.Hour

// gate works out spec.managementPolicies of a managed resource and the
// annotations that go with it, where the Input asks the function to (gate:
// Managed): the change and the opening in one write, as the core decided it,
// the closing in a later one. nil leaves the field to the pipeline. What is
// masked once must be emitted ever after: the apply would take it away.
func (r *run) gate(res *resource, set map[string]string) []string {
	if !r.cfg.managed || !r.managed(res) {
		return nil
	}
	switch {
	case res.observed != nil && res.observed.GetDeletionTimestamp() != nil:
		return r.asStored(res, set) // nothing of ours takes Delete from it
	case res.masked && !res.refused() && !res.changes():
		return nil // an earlier step's word stands
	case res.refused():
		if g, ok := r.deletion(res); ok {
			return r.transition(res, g, set)
		}
	case res.decision.Mode != v1alpha1.ModeEnforce:
		return nil
	case res.changes():
		return r.asDecided(res, set)
	case !res.remembers():
		return r.adopt(res, set)
	}
	if g, ok := r.closing(res); ok {
		return r.transition(res, g, set)
	}
	return r.asStored(res, set)
}

// gateKeys are the annotations that go with a mask.
var gateKeys = []string{v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate}

// unmask what is wanted, where an earlier Kausality step of the pipeline masked
// it: what its author wants is decided about.
func (res *resource) unmask() {
	if res.desired == nil {
		return
	}
	spec := child(res.desired.Object, "spec")
	annotations := child(child(res.desired.Object, "metadata"), "annotations")
	author, ok := mask.ParseAuthor(text(annotations, v1alpha1.AnnotationKeyManagementPolicies))
	if !ok || spec["managementPolicies"] == nil {
		return
	}
	list := make([]any, 0, len(author))
	for _, p := range author {
		list = append(list, p)
	}
	spec["managementPolicies"], res.masked = list, true
}

// keepMask of an earlier step, with its annotations, where this one has none to
// make.
func (res *resource) keepMask(set map[string]string) {
	annotations := child(child(res.desired.Object, "metadata"), "annotations")
	for _, k := range gateKeys {
		if v := text(annotations, k); v != "" {
			set[k] = v
		}
	}
}

func (r *run) managed(res *resource) bool {
	u := res.observed
	if u == nil {
		u = res.desired
	}
	return u != nil && r.world.Kind(u.GroupVersionKind()).ManagementPolicies
}

// remembers an author's value: it was masked before.
func (res *resource) remembers() bool {
	_, ok := mask.ParseAuthor(res.annotation(v1alpha1.AnnotationKeyManagementPolicies))
	return ok
}

// author's value of the observed resource.
func (res *resource) author() []string {
	return mask.AuthorOf(map[string]string{
		v1alpha1.AnnotationKeyManagementPolicies: res.annotation(v1alpha1.AnnotationKeyManagementPolicies),
	}, res.state().ManagementPolicies)
}

// gate of the observed resource; the zero Gate for none.
func (res *resource) gate() v1alpha1.Gate {
	return mask.ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: res.annotation(v1alpha1.AnnotationKeyGate)})
}

func (r *run) asStored(res *resource, set map[string]string) []string {
	if !res.remembers() {
		return nil
	}
	for _, k := range gateKeys {
		if v := res.annotation(k); v != "" {
			set[k] = v
		}
	}
	return res.state().ManagementPolicies
}

// asDecided takes the mask from the core.
func (r *run) asDecided(res *resource, set map[string]string) []string {
	for _, k := range gateKeys {
		v := res.annotation(k)
		if res.observed != nil && res.replaced {
			v = ""
		}
		if edit, ok := res.decision.Annotations[k]; ok {
			v = ""
			if edit != nil {
				v = *edit
			}
		}
		if v != "" {
			set[k] = v
		}
	}
	if _, masked := set[v1alpha1.AnnotationKeyManagementPolicies]; !masked {
		delete(set, v1alpha1.AnnotationKeyGate)
		return nil
	}
	if g := res.decision.Gate; g != nil {
		opened := *g
		opened.At = approval.Stamp(r.now) // the deadline counts from here
		set[v1alpha1.AnnotationKeyGate] = mask.FormatGate(opened)
	}
	if p := res.decision.ManagementPolicies; p != nil {
		return p
	}
	return policiesOf(res.after)
}

func policiesOf(u *unstructured.Unstructured) []string {
	list, ok := child(u.Object, "spec")["managementPolicies"].([]any)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, _ := e.(string)
		out = append(out, s)
	}
	return out
}

// transition of the gate that the function itself makes.
func (r *run) transition(res *resource, g v1alpha1.Gate, set map[string]string) []string {
	author := res.author()
	if !mask.Maskable(author) || !mask.Gives(author, v1alpha1.VerbObserve) {
		return r.asStored(res, set)
	}
	g.Generation = res.observed.GetGeneration() + 1
	set[v1alpha1.AnnotationKeyManagementPolicies] = mask.FormatAuthor(author)
	set[v1alpha1.AnnotationKeyGate] = mask.FormatGate(g)
	return gating.MaskedPolicies(author, g, nil, r.world.Kind(res.observed.GroupVersionKind()))
}

// adopt a managed resource that was there before us: closed once its provider
// is done with it.
func (r *run) adopt(res *resource, set map[string]string) []string {
	if !confirmed(res, v1alpha1.Gate{Verbs: []v1alpha1.Verb{v1alpha1.VerbCreate}}) {
		return nil
	}
	return r.transition(res, v1alpha1.Gate{State: v1alpha1.GateClosed, At: approval.Stamp(r.now), Reason: "Installed"}, set)
}

// closing of an open gate that did what it was opened for, or never will.
func (r *run) closing(res *resource) (v1alpha1.Gate, bool) {
	g := res.gate()
	if g.State != v1alpha1.GateOpen {
		return g, false
	}
	switch {
	case confirmed(res, g) && !slices.Contains(g.Verbs, v1alpha1.VerbDelete):
		g.Reason = "Confirmed"
	case r.now.Sub(g.At.Time) > gateDeadline:
		g.Reason = "ExpiredUnconfirmed"
	default:
		return g, false
	}
	g.State = v1alpha1.GateClosed
	return g, true
}

// confirmed: the provider carried out what the gate was opened for (spec 8,
// "Closes").
func confirmed(res *resource, g v1alpha1.Gate) bool {
	s := res.state()
	synced, _ := s.Condition("Synced")
	if !s.True("Synced") || synced.ObservedGeneration > 0 && synced.ObservedGeneration < g.Generation {
		return false
	}
	if slices.Contains(g.Verbs, v1alpha1.VerbCreate) && !s.True("Ready") {
		return false
	}
	for _, t := range []string{"LastAsyncOperation", "AsyncOperation"} {
		if _, ok := s.Condition(t); ok && !s.True(t) {
			return false
		}
	}
	pending := external.Difference(res.whole().Object)
	return len(pending) == len(external.Outside(pending, g.Paths)) && (len(g.Paths) > 0 || len(pending) == 0)
}

// deletion that is approved and waits for the gate to open for it.
func (r *run) deletion(res *resource) (v1alpha1.Gate, bool) {
	if res.decision.Reason != admission.ReasonExternalDeletion || res.operation != admission.Delete {
		return v1alpha1.Gate{}, false
	}
	res.whole()
	holder, mr := r.composite.state, parent.Sum(r.before(res), parent.RoleManaged)
	id := identity.DeletionID(holder, mr)
	apiVersion, kind := mr.ToAPIVersionAndKind()
	use := approval.Use{Digest: id, Child: v1alpha1.ClaimChild{
		APIVersion: apiVersion, Kind: kind, Namespace: mr.Namespace, Name: mr.Name, UID: mr.UID,
	}}
	_, approved := gating.DeletionApproval(holder, mr, approval.Parse(holder.Annotations), use)
	if !approved && res.decision.Approve == nil { // which a policy asks for where it allows the deletion
		return v1alpha1.Gate{}, false
	}
	return v1alpha1.Gate{
		State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}, At: approval.Stamp(r.now),
		Digest: id, Reason: "DeletionApproved",
	}, true
}
