package preview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Change of one composed resource that the Composition would make.
type Change struct {
	// Composite whose resource it is, and Resource by its name in the
	// Composition.
	Composite v1alpha1.ObjectReference `json:"composite"`
	Resource  string                   `json:"resource"`
	// Child as it is; without a name where it is to be created.
	Child      v1alpha1.ObjectReference   `json:"child"`
	Operation  admission.Operation        `json:"operation"`
	Difference []v1alpha1.FieldDifference `json:"difference,omitempty"`
	// Allowed and Reason are the decision about it now.
	Allowed bool           `json:"allowed"`
	Reason  outcome.Reason `json:"reason"`
	// Lacks is what the votes for it lack by the ApprovalRules that match it; empty where none does.
	Lacks string `json:"lacks,omitempty"`
	// ID of the difference, by which it can be approved beforehand.
	ID string `json:"id"`
	// Manual: the composite uses a new revision only once it is selected.
	Manual bool `json:"manual,omitempty"`
}

// Preview of a Composition on composites.
type Preview struct {
	// Composites that were rendered, and Unchanged ones among them.
	Composites int `json:"composites"`
	Unchanged  int `json:"unchanged"`
	// Groups of equal changes, those of most composites first.
	Groups []Group `json:"groups"`
	// Failed composites, with why.
	Failed []Failure `json:"failed,omitempty"`
}

// Group of changes that are the same on several composites.
type Group struct {
	Resource   string                     `json:"resource"`
	Kind       string                     `json:"kind"`
	Operation  admission.Operation        `json:"operation"`
	Difference []v1alpha1.FieldDifference `json:"difference,omitempty"`
	Allowed    bool                       `json:"allowed"`
	Reason     outcome.Reason             `json:"reason"`
	Lacks      string                     `json:"lacks,omitempty"`
	Changes    []Change                   `json:"changes"`
}

// Failure to render a composite.
type Failure struct {
	Composite v1alpha1.ObjectReference `json:"composite"`
	Error     string                   `json:"error"`
}

// maxFields that a change lists.
const maxFields = 32

// Previewer of a Composition.
type Previewer struct {
	Inspector   *inspect.Inspector
	Composition *Composition
	Renderer    Renderer

	found Preview
	at    map[string]int
}

// Add adds a composite as it is in the cluster. One that cannot be rendered is a
// Failure; the error is of the cluster.
func (p *Previewer) Add(ctx context.Context, xr *unstructured.Unstructured) error {
	p.found.Composites++
	state := parent.Sum(xr, parent.RoleComposite)
	observed, err := p.Inspector.Composed(ctx, state)
	if err != nil {
		return err
	}
	wanted, err := p.Renderer.render(ctx, p.Composition, bare(xr), slices.Collect(maps.Values(observed)))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.found.Failed = append(p.found.Failed, Failure{Composite: referenceTo(xr), Error: err.Error()})
		return nil
	}
	changed, err := p.compare(ctx, xr, observed, wanted)
	if err != nil {
		return err
	}
	if !changed {
		p.found.Unchanged++
	}
	return nil
}

// bare returns a composite without what render has no use for.
func bare(xr *unstructured.Unstructured) *unstructured.Unstructured {
	out := xr.DeepCopy()
	out.SetManagedFields(nil)
	return out
}

// compare compares the observed resources with the desired ones.
func (p *Previewer) compare(
	ctx context.Context, xr *unstructured.Unstructured, observed map[string]*unstructured.Unstructured, wanted []*unstructured.Unstructured,
) (changed bool, err error) {
	gone := maps.Clone(observed)
	for _, want := range wanted {
		name := want.GetAnnotations()[v1alpha1.AnnotationKeyCompositionResourceName]
		have := observed[name]
		delete(gone, name)
		did, err := p.one(ctx, xr, name, have, want)
		if err != nil {
			return false, err
		}
		changed = changed || did
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		if _, err := p.one(ctx, xr, name, gone[name], nil); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// one composed resource: have is nil for one to create, want for one to delete.
func (p *Previewer) one(ctx context.Context, xr *unstructured.Unstructured, name string, have, want *unstructured.Unstructured) (changed bool, err error) {
	req := request(xr, name, have, want)
	if req.Operation == admission.Update && change.Same(change.Desired(have.Object), change.Desired(req.Object.Object)) {
		return false, nil
	}
	d, err := p.Inspector.Decide(ctx, req)
	if err != nil {
		return false, fmt.Errorf("cannot decide about resource %q of %s: %w", name, xr.GetName(), err)
	}
	if d.Reason == outcome.ReasonNoChange {
		return false, nil
	}
	is := have
	if is == nil {
		is = want
	}
	c := Change{Composite: referenceTo(xr), Resource: name, Child: referenceTo(is), Operation: req.Operation,
		Allowed: d.Allowed, Reason: d.Reason, Lacks: d.Lacks, ID: d.Digest.ID(),
		Manual: Setting(xr, "compositionUpdatePolicy") == "Manual"} // it stays at its revision of the Composition
	if req.Operation == admission.Update {
		c.Difference = change.Fields(d.Changes, maxFields)
	}
	p.group(c)
	return true, nil
}

// Setting returns the setting of a composite by its path below spec.crossplane, where Crossplane v2 has it, else below spec; empty for none.
func Setting(xr *unstructured.Unstructured, path ...string) string {
	for _, above := range [][]string{{"spec", "crossplane"}, {"spec"}} {
		if value, ok, err := unstructured.NestedString(xr.Object, append(above, path...)...); err == nil && ok {
			return value
		}
	}
	return ""
}

// request returns the request of Crossplane for one composed resource.
func request(xr *unstructured.Unstructured, name string, have, want *unstructured.Unstructured) *admission.Request {
	req := &admission.Request{Actor: admission.ActorParentController, Namespace: xr.GetNamespace()}
	switch {
	case have == nil:
		req.Operation, req.Object = admission.Create, owned(want, xr, name)
		req.Kind = want.GroupVersionKind()
		return req
	case want == nil:
		req.Operation, req.OldObject = admission.Delete, have
	default:
		req.Operation, req.OldObject, req.Object = admission.Update, have, ssa.Applied(have, want)
	}
	req.Kind, req.Namespace, req.Name = have.GroupVersionKind(), have.GetNamespace(), have.GetName()
	return req
}

// owned returns a resource that the composite owns, as Crossplane creates it.
func owned(want, xr *unstructured.Unstructured, name string) *unstructured.Unstructured {
	out := want.DeepCopy()
	metadata, _ := out.Object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["ownerReferences"] = ssa.OwnerReferences(parent.RefOf(xr))
	out.Object["metadata"] = metadata
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationKeyCompositionResourceName] = name
	out.SetAnnotations(annotations)
	if ns := xr.GetNamespace(); ns != "" {
		out.SetNamespace(ns)
	}
	return out
}

func referenceTo(o *unstructured.Unstructured) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// group adds a change to those that are the same.
func (p *Previewer) group(c Change) {
	key := fmt.Sprint(c.Resource, "|", c.Child.APIVersion, "|", c.Child.Kind, "|", c.Operation, "|", c.Allowed, c.Reason, "|", c.Lacks, "|", c.Difference)
	if p.at == nil {
		p.at = map[string]int{}
	}
	n, ok := p.at[key]
	if !ok {
		n = len(p.found.Groups)
		p.at[key] = n
		p.found.Groups = append(p.found.Groups, Group{
			Resource: c.Resource, Kind: c.Child.Kind, Operation: c.Operation, Difference: c.Difference, Allowed: c.Allowed, Reason: c.Reason,
			Lacks: c.Lacks,
		})
	}
	p.found.Groups[n].Changes = append(p.found.Groups[n].Changes, c)
}

// Preview returns the preview of all that was added.
func (p *Previewer) Preview() *Preview {
	out := p.found
	out.Groups = slices.Clone(out.Groups)
	slices.SortStableFunc(out.Groups, func(a, b Group) int {
		if n := len(b.Changes) - len(a.Changes); n != 0 {
			return n
		}
		return strings.Compare(a.Resource, b.Resource)
	})
	return &out
}
