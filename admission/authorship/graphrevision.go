package authorship

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Graphs of kro, and their revisions (v0.9.3).
var (
	GraphKind             = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	GraphResource         = GraphKind.GroupVersion().WithResource("resourcegraphdefinitions")
	GraphRevisionResource = schema.GroupVersionResource{Group: "internal.kro.run", Version: "v1alpha1", Resource: "graphrevisions"}
)

// GraphRevision of kro, which never changes. The zero one is of a revision that is gone.
type GraphRevision struct {
	// Of is the name of the graph; Name and Number are the revision's.
	Of, Name string
	Number   int64
	// Generation of the graph that it was made of.
	Generation int64
	// UID of the revision.
	UID types.UID
	// graph is the UID of the graph.
	graph types.UID
	// content of the spec of the graph.
	content digest
}

// GraphRevisionOf returns what a GraphRevision shows (kro v0.9.3, api/internal.kro.run/v1alpha1).
func GraphRevisionOf(o *unstructured.Unstructured) GraphRevision {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != GraphKind.Kind || !strings.HasPrefix(ref.APIVersion, GraphKind.Group+"/") {
		return GraphRevision{}
	}
	spec, _ := o.Object["spec"].(map[string]any)
	snapshot, _ := spec["snapshot"].(map[string]any)
	out := GraphRevision{Of: ref.Name, Name: o.GetName(), UID: o.GetUID(), graph: ref.UID,
		content: contentOf(&unstructured.Unstructured{Object: snapshot})}
	out.Number, _ = spec["revision"].(int64)
	out.Generation, _ = snapshot["generation"].(int64)
	return out
}

// IsOf reports whether it is a revision of a graph.
func (r GraphRevision) IsOf(graph types.UID) bool { return r.graph != "" && r.graph == graph }

// Author of the revision: the user whom the graph's own trace names for the generation that the revision was made of. It is a claim
// where the graph has another content by now. s is the graph.
func (r GraphRevision) Author(s Source) Author {
	switch {
	case !r.IsOf(s.uid):
		return Author{}
	case s.hop.User != "" && s.hop.Generation == r.Generation:
		return Author{User: s.hop.User, Copied: s.content != r.content}
	case s.generation == r.Generation: // changed while no webhook answered, or never traced
		return Author{Manager: s.writer}
	}
	return Author{}
}
