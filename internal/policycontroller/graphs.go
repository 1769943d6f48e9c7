package policycontroller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// knownKro is the release of kro in which children have a parent (KR-18-01).
const knownKro = "v0.9."

// graphResource is the resource of graphs.
var graphResource = authorship.GraphResource.GroupResource()

// maxFailed is how many graphs a message explains.
const maxFailed = 3

// graphKind is a kind that a graph of kro defines.
type graphKind struct {
	schema.GroupResource
	// Graph is its name, and Version the release of kro that made the CRD; empty where that is unknown.
	Graph, Version string
}

// graphKinds of the cluster, by their CRDs, in order.
func graphKinds(ctx context.Context, from client.Reader) ([]graphKind, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(crdKind.GroupVersion().WithKind(crdKind.Kind + "List"))
	if err := from.List(ctx, list, client.MatchingLabels{kinds.LabelGraphOwned: "true"}); err != nil {
		return nil, fmt.Errorf("cannot list the CRDs of graphs: %w", err)
	}
	var out []graphKind
	for i := range list.Items {
		crd := &list.Items[i]
		if graph := kinds.GraphOf(crd); graph != "" {
			out = append(out, graphKind{schema.ParseGroupResource(crd.Name), graph, crd.Labels[kinds.LabelGraphVersion]})
		}
	}
	slices.SortFunc(out, func(a, b graphKind) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// graphsOf a policy: the condition about the graphs of kro that it covers, or of which it covers the instances; false for neither.
// Nothing is guarded that no policy names (KR-18-07).
func graphsOf(policy string, set settings.Set, kinds []graphKind) (metav1.Condition, bool) {
	ofGraphs, found := covers(set, policy, graphResource), false
	var unguarded, unknown, other []string
	for _, k := range kinds {
		ofKind := covers(set, policy, k.GroupResource)
		found = found || ofKind || ofGraphs
		switch {
		case ofGraphs && !anyCovers(set.Scopes(), k.GroupResource):
			unguarded = append(unguarded, k.String())
		case ofKind && !anyCovers(set.Scopes(), graphResource):
			unknown = append(unknown, k.String())
		case (ofKind || ofGraphs) && !strings.HasPrefix(k.Version, knownKro):
			other = append(other, k.String()+" ("+k.Version+")")
		}
	}
	out := metav1.Condition{Type: v1alpha1.KausalityGraphs, Status: metav1.ConditionFalse, Reason: v1alpha1.KausalityReasonNotGuarded}
	switch {
	case len(unguarded) > 0:
		out.Message = "edits of graphs are not held on " + named(unguarded, maxNamed) + ": no policy covers them; add them to the resources of a policy"
	case len(unknown) > 0:
		out.Message = "who edits the graphs of " + named(unknown, maxNamed) + " is unknown: no policy covers " + graphResource.String() +
			"; add it to the resources of a policy"
	case len(other) > 0:
		out.Reason = v1alpha1.KausalityReasonOtherRelease
		out.Message = "another release of kro than " + knownKro + "x defines " + named(other, maxNamed) +
			": children of their instances may have no parent, and are not held then; read docs/kro.md before you rely on it"
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, v1alpha1.KausalityReasonGuarded, "graphs of kro are guarded, and the kinds that they define"
	}
	return out, found
}

// notDerived returns the condition of a policy about the graphs from which no policies could be derived, given by name with the reason;
// false if the policy covers no graphs, or there are no such graphs (KR-18-11).
func notDerived(policy string, set settings.Set, failed map[string]string) (metav1.Condition, bool) {
	return metav1.Condition{Type: v1alpha1.KausalityGraphs, Status: metav1.ConditionFalse, Reason: v1alpha1.KausalityReasonNotDerived,
		Message: "no AllowancePolicies are derived from " + describeFailed(failed)}, len(failed) > 0 && covers(set, policy, graphResource)
}

// describeFailed lists graphs with the reasons.
func describeFailed(failed map[string]string) string {
	var out []string
	for _, graph := range slices.Sorted(maps.Keys(failed)) {
		out = append(out, graph+" ("+failed[graph]+")")
	}
	return named(out, maxFailed)
}

// maxNamed bounds what a message names.
const maxNamed = 5

// named lists at most that many elements, and the number of the others.
func named(list []string, most int) string {
	if n := len(list) - most; n > 0 {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(list, ", ")
}
