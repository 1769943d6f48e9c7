package policies

import (
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Pipeline names what composes a composite.
type Pipeline struct {
	// Revision and Composition by name; "" for none.
	Revision, Composition string
}

// PipelineOf returns what a composite refers to, in the form of Crossplane v2 or of v1.
func PipelineOf(xr map[string]any, revision string) Pipeline {
	spec := ssa.Child(xr, "spec")
	if modern := ssa.Child(spec, "crossplane"); modern != nil {
		spec = modern
	}
	return Pipeline{Revision: revision, Composition: ssa.Text(ssa.Child(spec, "compositionRef"), "name")}
}

// Builds are the revisions that compose a composite, and what they were made of, as far as they were fetched. They are where
// there is an ApprovalRule, whose notAuthors needs them. The zero value knows none.
type Builds struct {
	// revision of the Composition, its name, and the functions in its pipeline.
	revision  authorship.Revision
	name      string
	functions []string
	// composition as it is; the zero one where it is gone, or another one.
	composition authorship.Source
	// active revisions by function.
	active  map[string]active
	sources map[string]authorship.Source
	// traced: the annotations of Compositions, or Functions, are protected.
	traced map[v1alpha1.CauseKind]bool
}

// active revision of a function.
type active struct{ name, image string }

// buildsOf returns what a request shows.
func buildsOf(req *fnv1.RunFunctionRequest, c Cluster) Builds {
	out := Builds{active: activeOf(req), sources: map[string]authorship.Source{}, traced: map[v1alpha1.CauseKind]bool{
		v1alpha1.CauseComposition: c.traces(schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "Composition"}),
		v1alpha1.CauseFunction:    c.traces(schema.GroupVersionKind{Group: "pkg.crossplane.io", Version: "v1", Kind: "Function"}),
	}}
	if o := single(req, RequirementRevision); o != nil {
		out.revision, out.name, out.functions = authorship.RevisionOf(o), o.GetName(), functionsOf(o.Object)
	}
	if o := single(req, RequirementComposition); o != nil {
		out.composition = authorship.SourceOf(o)
	}
	items, _ := Required(req, RequirementSources)
	for _, item := range items {
		o := &unstructured.Unstructured{Object: ssa.Object(item.GetResource())}
		out.sources[o.GetName()] = authorship.SourceOf(o)
	}
	return out
}

// traces reports whether a policy has changes of a kind traced, so that its annotations are protected.
func (c Cluster) traces(gvk schema.GroupVersionKind) bool {
	s := c.Settings(parent.Ref{GroupVersionKind: gvk}, nil)
	return s.Policy != "" && !s.Suspended && !c.Removing
}

// Functions returns the active revisions of the functions in the pipeline, by name, sorted.
func (b Builds) Functions() (out []string) {
	for _, f := range b.functions {
		if revision := b.active[f].name; revision != "" {
			out = append(out, revision)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Author returns a cause with the author of the revision that it names, as the webhook does (KR-07-11); as it is for
// other causes, and where the revision was not fetched.
func (b Builds) Author(c v1alpha1.HopCause) v1alpha1.HopCause {
	switch {
	case c.Kind == v1alpha1.CauseComposition && c.Name == b.name:
		return b.revision.Author(b.composition).Cause(c, b.traced[c.Kind])
	case c.Kind != v1alpha1.CauseFunction:
		return c
	}
	for function, revision := range b.active {
		if revision.name == c.Name {
			return b.sources[function].Author(revision.image).Cause(c, b.traced[c.Kind])
		}
	}
	return c
}

// functionsOf the pipeline of a CompositionRevision, in its order.
func functionsOf(revision map[string]any) (out []string) {
	steps, _ := ssa.Child(revision, "spec")["pipeline"].([]any)
	for _, s := range steps {
		step, _ := s.(map[string]any)
		out = append(out, ssa.Text(ssa.Child(step, "functionRef"), "name"))
	}
	return out
}

// activeOf returns the active revisions that were fetched, by function.
func activeOf(req *fnv1.RunFunctionRequest) map[string]active {
	out := map[string]active{}
	items, _ := Required(req, RequirementFunctions)
	for _, item := range items {
		o := unstructured.Unstructured{Object: ssa.Object(item.GetResource())}
		if spec := ssa.Child(o.Object, "spec"); ssa.Text(spec, "desiredState") == "Active" {
			out[o.GetLabels()["pkg.crossplane.io/package"]] = active{name: o.GetName(), image: ssa.Text(spec, "image")}
		}
	}
	return out
}
