package builds

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var (
	composition = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositions"}
	function    = schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functions"}
)

// authorsTTL is for how long a Composition or Function is cached, of which a revision is a cause.
const authorsTTL = 10 * time.Second

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

// Author of the revision that a cause names; the zero one where it is unknown, and of other causes.
func (b *Builds) Author(ctx context.Context, c v1alpha1.HopCause) (Author, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	switch c.Kind {
	case v1alpha1.CauseComposition:
		return b.compositionAuthor(ctx, c.Name)
	case v1alpha1.CauseFunction:
		return b.functionAuthor(ctx, c.Name)
	}
	return Author{}, nil
}

// compositionAuthor of a revision: the user whom the Composition's own trace names, as long as the Composition has the content of
// the revision. Of an earlier revision it is the one in its annotations, which Crossplane copies from the Composition when it
// makes the revision (v2.3, NewCompositionRevision).
func (b *Builds) compositionAuthor(ctx context.Context, name string) (Author, error) {
	rev, err := b.revision(ctx, name)
	if err != nil || rev.of == "" {
		return Author{User: rev.author.User, Copied: true}, err
	}
	s, err := b.source(ctx, composition, "Composition", rev.of)
	if err != nil {
		return Author{}, err
	}
	same := s.hop.User == rev.author.User && s.hop.Generation == rev.author.Generation
	switch current := s.uid == rev.uid && s.content == rev.content; {
	case current && same && s.observed():
		return Author{User: s.hop.User}, nil
	case current && (same || rev.author.User == ""): // changed while no webhook answered, or never traced
		return Author{Manager: s.writer}, nil
	}
	return Author{User: rev.author.User, Copied: true}, nil
}

// functionAuthor of a revision: who last changed the Function, as long as it names the package of the revision.
func (b *Builds) functionAuthor(ctx context.Context, name string) (Author, error) {
	active, err := b.active(ctx)
	if err != nil {
		return Author{}, err
	}
	for of, encoded := range active {
		var nameAndImage []string
		if err := json.Unmarshal([]byte(encoded), &nameAndImage); err != nil || len(nameAndImage) != 2 || nameAndImage[0] != name {
			continue
		}
		s, err := b.source(ctx, function, "Function", of)
		switch {
		case err != nil || s.image != nameAndImage[1]:
			return Author{}, err
		case s.observed():
			return Author{User: s.hop.User}, nil
		}
		return Author{Manager: s.writer}, nil
	}
	return Author{}, nil
}

// source is a Composition or Function that revisions are made of; the zero one where it is gone.
type source struct {
	uid        types.UID
	generation int64
	// content of its spec, and image of a Function.
	content digest
	image   string
	// hop of its last observed change, and writer of its spec.
	hop    v1alpha1.Hop
	writer string
}

// observed reports whether the last change of the spec is that of the hop.
func (s source) observed() bool { return s.hop.User != "" && s.hop.Generation == s.generation }

// digest of a spec; the zero one of none.
type digest [sha256.Size]byte

// source by its name.
func (b *Builds) source(ctx context.Context, r schema.GroupVersionResource, kind, name string) (source, error) {
	key := r.Resource + "/" + name
	if have, ok := b.sources.Get(key); ok {
		return have.(source), nil
	}
	o, err := b.client.Resource(r).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !kerrors.IsNotFound(err) {
		return source{}, fmt.Errorf("cannot read %s %s: %w", r.Resource, name, err)
	}
	var out source
	if err == nil {
		image, _, _ := unstructured.NestedString(o.Object, "spec", "package") // "" of a Composition
		out = source{uid: o.GetUID(), generation: o.GetGeneration(), content: contentOf(o), image: image, hop: lastHop(o, kind), writer: writerOf(o)}
	}
	b.sources.Add(key, out, authorsTTL)
	return out, nil
}

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

// ownerOf a CompositionRevision: the name and UID of its Composition; empty where no Composition controls it.
func ownerOf(o *unstructured.Unstructured) (name string, uid types.UID) {
	if ref := metav1.GetControllerOf(o); ref != nil && ref.Kind == "Composition" {
		return ref.Name, ref.UID
	}
	return "", ""
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
