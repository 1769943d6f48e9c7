package identity

import (
	"cmp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// MaxReportFields is the number of changed fields that a report lists.
const MaxReportFields = 32

// HomeNamespace holds the Drifts of cluster-scoped objects.
const HomeNamespace = "kausality-system"

// DriftNamespace returns the Namespace of the Drift of a change: that of the parent, else that of the child, else
// HomeNamespace.
func DriftNamespace(parent, child string) string { return cmp.Or(parent, child, HomeNamespace) }

// Of returns the identity of an object in difference ids. resource is its
// composition resource name, empty for none: it replaces the name of a composed
// resource, which is generated and unknown before the object exists.
func Of(ref parent.Ref, resource string) change.Identity {
	apiVersion, kind := ref.ToAPIVersionAndKind()
	id := change.Identity{APIVersion: apiVersion, Kind: kind, Namespace: ref.Namespace, Name: ref.Name, Resource: resource}
	if resource != "" {
		id.Name, id.Namespace = "", ""
	}
	return id
}

// OfParent returns the identity of the parent in a difference id. A parent keeps
// its own name even if it is composed itself.
func OfParent(p *parent.State) change.Identity { return Of(p.Ref, "") }

// OfChild returns the identity of the child in a difference id, with its external
// resource (KR-13-17).
func OfChild(s *parent.State) change.Identity {
	id := Of(s.Ref, s.Annotations[v1alpha1.AnnotationKeyCompositionResourceName])
	id.External = string(s.Represents())
	return id
}

// DeletionDigest returns the digest of deleting an object, which is no composite or Claim, together with its
// external resource.
func DeletionDigest(p, object *parent.State) change.Digest {
	return change.DigestOf(v1alpha1.RelationExternal, "DELETE", OfParent(p), OfChild(object), nil)
}

// DriftDigest returns the digest of a difference between a managed resource and its
// external resource. holder is the parent that reports it.
func DriftDigest(holder, mr *parent.State, difference []change.Change) change.Digest {
	return change.DigestOf(v1alpha1.RelationExternal, "UPDATE", OfParent(holder), OfChild(mr), difference)
}

// ObjectReference returns the reference to an object for a report. generation is 0 and resource empty
// where they do not apply.
func ObjectReference(ref parent.Ref, generation int64, resource string) v1alpha1.ObjectReference {
	apiVersion, kind := ref.ToAPIVersionAndKind()
	return v1alpha1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: ref.Namespace, Name: ref.Name,
		UID: ref.UID, Generation: generation, Resource: resource}
}

// Ref returns the object that a reference of the API names.
func Ref(o v1alpha1.ObjectReference) parent.Ref {
	return parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// Version returns the version of an object's desired state: its generation, or its resourceVersion and a digest of its trace if
// its kind has no generation.
func Version(o *unstructured.Unstructured) string {
	return version(o.GetGeneration(), o.GetResourceVersion(), Annotation(o, v1alpha1.AnnotationKeyTrace))
}

// VersionOf returns the version of the desired state of an object, by its summary.
func VersionOf(s *parent.State) string {
	key := v1alpha1.AnnotationKeyTrace
	return version(s.Generation, s.ResourceVersion, cmp.Or(s.Annotations[key], s.Gone()[key]))
}

// IsVersion reports whether a version is that of an object. An earlier release recorded it without the trace.
func IsVersion(text string, s *parent.State) bool {
	is := VersionOf(s)
	return is == text || strings.HasPrefix(is, text+"-t")
}

func version(generation int64, resourceVersion, trace string) string {
	if generation > 0 {
		return "g" + strconv.FormatInt(generation, 10)
	}
	return "rv" + resourceVersion + "-t" + annotation.Digest(trace, traceDigits)
}

// traceDigits is the number of hex digits of the digest of a trace in a version.
const traceDigits = 12
