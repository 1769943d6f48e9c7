package authorship

import (
	"crypto/sha256"
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const kindComposition = "Composition"

// Author of a revision (KR-07-11).
type Author struct {
	// User of the last change of the Composition or Function; empty where no trace of it is about this revision.
	User string
	// Copied: the user is from the revision's own annotations, not from those of the Composition. It is a claim: the Composition may
	// have been changed while no webhook answered.
	Copied bool
	// Manager of the last write of the spec, with its operation, where User is unknown; empty where that, too, is unknown.
	Manager string
}

// Cause returns a cause with the author. traced reports that the annotations of the Composition or Function are protected: the
// author is a claim otherwise.
func (a Author) Cause(c v1alpha1.HopCause, traced bool) v1alpha1.HopCause {
	c.Author, c.Manager = a.User, a.Manager
	c.Claimed = c.Author != "" && (a.Copied || !traced)
	return c
}

// Revision of a Composition, which never changes but for its annotations. The zero one is of a revision that is gone.
type Revision struct {
	// Of is the name of the Composition; empty where none controls it.
	Of string
	// uid of the Composition.
	uid types.UID
	// hop of the Composition when the revision was made; zero where unknown.
	hop v1alpha1.Hop
	// content of its spec, as its Composition has it.
	content digest
}

// RevisionOf returns what a CompositionRevision shows.
func RevisionOf(o *unstructured.Unstructured) Revision {
	out := Revision{hop: lastHop(o, kindComposition), content: contentOf(o)}
	if ref := metav1.GetControllerOf(o); ref != nil && ref.Kind == kindComposition {
		out.Of, out.uid = ref.Name, ref.UID
	}
	return out
}

// Author of the revision: the user whom the Composition's own trace names, as long as the Composition has the content of
// the revision. Of an earlier revision it is the one in its annotations, which Crossplane copies from the Composition when it
// makes the revision (v2.3, NewCompositionRevision). s is the Composition.
func (r Revision) Author(s Source) Author {
	same := s.hop.User == r.hop.User && s.hop.Generation == r.hop.Generation
	switch current := s.uid != "" && s.uid == r.uid && s.content == r.content; {
	case current && same && s.observed():
		return Author{User: s.hop.User}
	case current && (same || r.hop.User == ""): // changed while no webhook answered, or never traced
		return Author{Manager: s.writer}
	}
	return Author{User: r.hop.User, Copied: true}
}

// Source is a Composition or Function that revisions are made of; the zero one where it is gone.
type Source struct {
	uid        types.UID
	generation int64
	// content of its spec, and image of a Function.
	content digest
	image   string
	// hop of its last observed change, and writer of its spec.
	hop    v1alpha1.Hop
	writer string
}

// SourceOf returns what a Composition or Function shows.
func SourceOf(o *unstructured.Unstructured) Source {
	image, _, _ := unstructured.NestedString(o.Object, "spec", "package") // "" of a Composition
	return Source{uid: o.GetUID(), generation: o.GetGeneration(), content: contentOf(o), image: image, hop: lastHop(o, o.GetKind()), writer: writerOf(o)}
}

// Author of the revision of a Function that has an image: who last changed the Function, as long as it names that.
func (s Source) Author(image string) Author {
	switch {
	case s.image != image:
		return Author{}
	case s.observed():
		return Author{User: s.hop.User}
	}
	return Author{Manager: s.writer}
}

// observed reports whether the last change of the spec is that of the hop.
func (s Source) observed() bool { return s.hop.User != "" && s.hop.Generation == s.generation }

// digest of a spec; the zero one of none.
type digest [sha256.Size]byte

// lastHop of a kind in the trace of an object; the zero one where there is none, or its change was not observed.
func lastHop(o *unstructured.Unstructured, kind string) (last v1alpha1.Hop) {
	for _, h := range trace.Of(o.GetAnnotations()) {
		if h.Kind == kind && !h.Unattributed {
			last = h
		}
	}
	return last
}

// writerOf the spec of an object: the field manager and operation of the newest entry of managedFields that has it; "" for none.
func writerOf(o *unstructured.Unstructured) string {
	var last metav1.ManagedFieldsEntry
	for _, e := range o.GetManagedFields() {
		var fields map[string]any
		if e.Subresource != "" || e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil || fields["f:spec"] == nil {
			continue
		}
		if last.Manager == "" || last.Time == nil || e.Time != nil && e.Time.After(last.Time.Time) {
			last = e
		}
	}
	if last.Manager == "" {
		return ""
	}
	return last.Manager + " (" + string(last.Operation) + ")"
}

// contentOf the spec of a Composition, or of a revision as its Composition has it.
func contentOf(o *unstructured.Unstructured) digest {
	spec, _ := o.Object["spec"].(map[string]any)
	if _, ok := spec["revision"]; ok {
		spec = maps.Clone(spec)
		delete(spec, "revision")
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return digest{}
	}
	return sha256.Sum256(raw)
}
