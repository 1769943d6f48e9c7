package policies

import (
	"fmt"
	"maps"
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// maxNamespaces is of how many Namespaces the annotations and labels are read. A
// cluster-scoped composite may compose resources in more; for these, the policies
// count that select Namespaces by name or not at all.
const maxNamespaces = 16

// Cluster is what Kausality policies and Namespaces configure for the objects of a
// request, as the webhook follows it (KR-09-23). The zero value configures nothing.
type Cluster struct {
	settings   settings.Set
	namespaces map[string]settings.Namespace
	// Removing: Kausality is being removed from the cluster.
	Removing bool
	// byDefault are the settings of objects that no policy covers: those of the Input.
	byDefault settings.Settings
}

// WithDefault returns it with what the Input configures of gates (KR-09-27); nil for nothing.
func (c Cluster) WithDefault(g *v1alpha1.GateSettings) Cluster {
	c.byDefault = c.byDefault.WithGate(g)
	return c
}

// Settings returns the settings of an object: those of the most specific policy that covers it.
//
// Policies name resources, and a request shows kinds: the resource is derived from the kind as
// Kubernetes' conventions have it. A policy that names an irregular plural covers its objects for the
// webhook alone, unless it covers all of a group.
func (c Cluster) Settings(ref parent.Ref, labels map[string]string) settings.Settings {
	if len(c.settings.Scopes()) == 0 {
		return c.byDefault
	}
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(ref.ToAPIVersionAndKind()))
	s := c.settings.For(settings.Target{
		Group: resource.Group, Resource: resource.Resource, Namespace: ref.Namespace,
		NamespaceLabels: c.namespaces[ref.Namespace].Labels, Labels: labels,
	})
	if s.Policy == "" {
		return c.byDefault
	}
	return s
}

// Initialized returns the condition types by which a kind counts as initialized; nil where no policy names
// any.
func (c Cluster) Initialized(gk schema.GroupKind) []string {
	return c.settings.Initialized(gk.Group, gk.Kind)
}

// Namespace returns what is declared on a Namespace; zero where it was not fetched.
func (c Cluster) Namespace(name string) settings.Namespace { return c.namespaces[name] }

// Covering returns what may freeze an object from outside (KR-14-39).
func (c Cluster) Covering(s *parent.State) identity.Covering {
	return identity.Covering{Namespace: c.Namespace(s.Namespace), Policies: c.Settings(s.Ref, s.Labels).Freezes}
}

// Mode returns the mode that an object would have by its policy if that were not suspended.
func (c Cluster) Mode(s *parent.State, configured settings.Settings, byDefault v1alpha1.Mode) v1alpha1.Mode {
	mode, err := settings.ModeOf(s.Annotations[v1alpha1.AnnotationKeyMode],
		func() (v1alpha1.Mode, error) { return c.Namespace(s.Namespace).Mode, nil }, configured.Mode, byDefault)
	if err != nil {
		return byDefault // nothing is read that can fail
	}
	return mode
}

// clusterOf returns the configuration of the cluster that a request shows. notes name what is ignored,
// and why.
func clusterOf(req *fnv1.RunFunctionRequest) (c Cluster, notes []string) {
	known, notes := fetch(kausalities, req, func(k *v1alpha1.Kausality) (*v1alpha1.Kausality, []allowance.RuleError) { return k, nil })
	set, errs := settings.Compile(known)
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		notes = append(notes, fmt.Sprintf("Kausality %s is ignored: %v", name, errs[name]))
	}
	c = Cluster{settings: set, namespaces: map[string]settings.Namespace{}}
	for _, name := range namespacesOf(req) {
		if o := single(req, RequirementNamespace+name); o != nil {
			c.namespaces[name] = settings.NamespaceOf(o.GetAnnotations(), o.GetLabels(), o.GetDeletionTimestamp() != nil)
		}
	}
	if o := single(req, RequirementConfiguration); o != nil {
		_, c.Removing = o.GetAnnotations()[v1alpha1.AnnotationKeyRemoval]
	}
	return c, notes
}

// single returns the first object under the name of a requirement; nil where there is no object.
func single(req *fnv1.RunFunctionRequest, name string) *unstructured.Unstructured {
	items, _ := Required(req, name)
	if len(items) == 0 {
		return nil
	}
	return &unstructured.Unstructured{Object: ssa.Object(items[0].GetResource())}
}

// namespacesOf returns the namespaces of the composite and of what it composes, as it is and as it is
// wanted, and of the objects that the pipeline requires, sorted; the first maxNamespaces of them.
func namespacesOf(req *fnv1.RunFunctionRequest) []string {
	found := map[string]bool{}
	add := func(r *fnv1.Resource) {
		metadata := r.GetResource().GetFields()["metadata"].GetStructValue()
		if name := metadata.GetFields()["namespace"].GetStringValue(); name != "" {
			found[name] = true
		}
	}
	add(req.GetObserved().GetComposite())
	for _, resources := range []map[string]*fnv1.Resource{req.GetObserved().GetResources(), req.GetDesired().GetResources()} {
		for _, r := range resources {
			add(r)
		}
	}
	if req.GetObserved().GetComposite() == nil { // an Operation is about what it requires
		for name, group := range req.GetRequiredResources() {
			for _, r := range group.GetItems() {
				if !Requires(name) {
					add(r)
				}
			}
		}
	}
	out := slices.Sorted(maps.Keys(found))
	return out[:min(len(out), maxNamespaces)]
}

// unreadable returns why nothing that the cluster configures is read, and what to do; "" where it is. installed: there is something to read.
func unreadable(req *fnv1.RunFunctionRequest) (why string, installed bool) {
	items, looked := Required(req, RequirementKausalityCRD)
	switch {
	case !looked:
		return "this Crossplane gives functions no required resources", false
	case len(items) == 0:
		return "CustomResourceDefinition " + crdKausalities + " is not installed", false
	case !readable(req):
		return "Crossplane may not read them, since the ClusterRole kausality-crossplane is missing or of an earlier release; upgrade the chart, or run " +
			"`kausality manifests --function-only | kubectl apply -f -`", true
	}
	return "", true
}
