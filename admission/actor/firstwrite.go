package actor

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// showsProvider reports whether an update of a managed resource shows that its provider makes it, before a
// status or finalizer does (KR-07-08): it has no content of its own, or the field manager is one that named
// the external resource so, or the reference resolver's. It shows nothing of a user who changed the desired
// state before: that one is an author. The caller checks that the user may update the status.
func showsProvider(f *facts.Facts) bool {
	if f.Kind.Role != parent.RoleManaged || len(f.Changes) == 0 || subject.IsComposedApply(f.Manager) || isAuthor(f) {
		return false
	}
	if subject.IsReferenceResolver(f.Manager) {
		return true
	}
	return !parent.HasStatusWriter(f.Req.OldObject) && (fillsIn(f) || parent.Named(f.Req.OldObject, f.Manager))
}

// isAuthor reports whether the user is recorded to have changed the object's desired state.
func isAuthor(f *facts.Facts) bool {
	old := f.Req.OldObject
	if own := trace.Of(old.GetAnnotations()).Own(); own != nil && own.User == f.Req.User.Name {
		return true
	}
	return subject.ParseHashes(identity.Annotation(old, v1alpha1.AnnotationKeyUpdaters)).Has(f.Hash())
}

// fillsIn reports whether the request inserts fields with nothing but zero values, defaults and the tags of
// the object itself, and perhaps the external name that the object would get anyway.
func fillsIn(f *facts.Facts) bool {
	defaults, tags := f.World.Defaults(f.Req.Kind), externalTags(f.Req.Object)
	for _, d := range f.Fields() {
		switch {
		case d.Path == facts.PathExternalName:
			if !parent.ExternalOf(f.Req.OldObject).Names(parent.ExternalOf(f.Req.Object), f.Req.OldObject.GetName()) {
				return false
			}
		case d.Verb != change.Insert || !defaults.Fill(d.At, d.New) && !tags.only(d.At, d.New):
			return false
		}
	}
	return true
}

// ownTags are tags of a managed resource: values by keys. They repeat the identity of the object, and are no content
// of its own.
type ownTags map[string]string

// externalTags returns the tags of a managed resource that the initializers of many providers write before its first
// status, some of them before the external name (crossplane-runtime v2.3, resource.GetExternalTags; upjet,
// config.Tagger).
func externalTags(o *unstructured.Unstructured) ownTags {
	config := func(field string) string {
		value, _, err := unstructured.NestedString(o.Object, "spec", "providerConfigRef", field)
		if err != nil {
			return ""
		}
		return value
	}
	return ownTags{
		"crossplane-kind": strings.ToLower(o.GroupVersionKind().GroupKind().String()), "crossplane-name": o.GetName(),
		"crossplane-namespace": o.GetNamespace(), "crossplane-providerconfig": config("name"), "crossplane-providerconfig-kind": config("kind"),
	}
}

// only reports whether a value at a path is one of the tags, or holds nothing else: as a map, or as a list of keys and values.
func (t ownTags) only(at []change.Segment, value any) bool {
	switch v := value.(type) {
	case string:
		return len(at) > 0 && t.is(at[len(at)-1].Key, v)
	case map[string]any:
		if key, ok := v["key"].(string); ok && len(v) == 2 {
			tag, _ := v["value"].(string)
			return t.is(key, tag)
		}
		for key, e := range v {
			if tag, ok := e.(string); !ok || !t.is(key, tag) {
				return false
			}
		}
		return len(v) > 0
	case []any:
		for _, e := range v {
			if item, ok := e.(map[string]any); !ok || len(item) != 2 || !t.only(at, item) {
				return false
			}
		}
		return len(v) > 0
	}
	return false
}

// is reports whether a key has the value of that tag; some versions leave the kind out.
func (t ownTags) is(key, value string) bool {
	want, ok := t[key]
	return ok && (value == want || value == "")
}
