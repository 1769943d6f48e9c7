package parent

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// What kro writes to the children of an instance of a graph, and to the instance (kro v0.9.3, pkg/metadata/labels.go,
// pkg/controller/instance/applyset/const.go). kro gives children no owner. Any user who may edit an object can write all of these.
const (
	labelInstanceUID       = "kro.run/instance-id"
	labelInstanceName      = "kro.run/instance-name"
	labelInstanceNamespace = "kro.run/instance-namespace"
	labelInstanceGroup     = "kro.run/instance-group"
	labelInstanceVersion   = "kro.run/instance-version"
	labelInstanceKind      = "kro.run/instance-kind"
	labelPartOf            = "applyset.kubernetes.io/part-of"

	labelApplySet        = "applyset.kubernetes.io/id"
	annotationTooling    = "applyset.kubernetes.io/tooling"
	annotationKinds      = "applyset.kubernetes.io/contains-group-kinds"
	annotationNamespaces = "applyset.kubernetes.io/additional-namespaces"
	toolingKro           = "kro/"
)

// membership are the labels by which a child names its instance.
var membership = []string{
	labelInstanceUID, labelInstanceName, labelInstanceNamespace, labelInstanceGroup, labelInstanceVersion, labelInstanceKind, labelPartOf,
}

// instanceOf returns the instance of a graph that the labels of an object name, where they agree with the ApplySet of which they
// declare it a part (KR-18-01).
func instanceOf(o *unstructured.Unstructured) (Ref, bool) {
	meta, _ := o.Object["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	uid := text(labels, labelInstanceUID)
	if uid == "" {
		return Ref{}, false
	}
	ref := Ref{
		GroupVersionKind: schema.GroupVersionKind{
			Group: text(labels, labelInstanceGroup), Version: text(labels, labelInstanceVersion), Kind: text(labels, labelInstanceKind)},
		Namespace: text(labels, labelInstanceNamespace), Name: text(labels, labelInstanceName), UID: types.UID(uid),
	}
	if ref.Kind == "" || ref.Name == "" || text(labels, labelPartOf) != applySetOf(ref) {
		return Ref{}, false
	}
	return ref, true
}

// applySetOf returns the id of the ApplySet of an object (KEP-3659).
func applySetOf(ref Ref) string {
	sum := sha256.Sum256([]byte(ref.Name + "." + ref.Namespace + "." + ref.Kind + "." + ref.Group))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// IsMember reports whether the parent that Of returns is an instance of a graph, by the labels of the object.
func IsMember(o *unstructured.Unstructured) bool {
	if o == nil || controllerOf(o) != nil {
		return false
	}
	_, is := instanceOf(o)
	return is
}

// SameMembership reports whether two objects have the same labels that name an instance.
func SameMembership(a, b *unstructured.Unstructured) bool {
	was, is := a.GetLabels(), b.GetLabels()
	for _, key := range membership {
		if was[key] != is[key] {
			return false
		}
	}
	return true
}

// WithMembership returns the labels of an object with those of another one that name an instance instead of its own. Neither
// is modified.
func WithMembership(o, of *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for k, v := range o.GetLabels() {
		out[k] = v
	}
	was := of.GetLabels()
	for _, key := range membership {
		if v, ok := was[key]; ok {
			out[key] = v
		} else {
			delete(out, key)
		}
	}
	return out
}

// IsInstance reports whether an object is an instance of a graph: kro has made it an ApplySet.
func IsInstance(s *State) bool {
	return strings.HasPrefix(s.Annotations[annotationTooling], toolingKro) && s.Labels[labelApplySet] == applySetOf(s.Ref)
}

// Contains reports whether an instance of a graph declares in turn that it has objects of a child's kind in its namespace (KR-18-01).
// kro writes that before it applies a child.
func Contains(s *State, child Ref) bool {
	kind := child.Kind
	if child.Group != "" {
		kind += "." + child.Group
	}
	return IsInstance(s) && listed(s.Annotations[annotationKinds], kind) &&
		(child.Namespace == "" || child.Namespace == s.Namespace || listed(s.Annotations[annotationNamespaces], child.Namespace))
}

// listed reports whether a comma-separated list has an item.
func listed(list, item string) bool {
	for e := range strings.SplitSeq(list, ",") {
		if e == item {
			return true
		}
	}
	return false
}

// isApplySet reports whether decisions read an annotation of an ApplySet.
func isApplySet(key string) bool {
	return key == annotationTooling || key == annotationKinds || key == annotationNamespaces
}

// instanceConverged reports whether kro has carried out the spec of an instance: its state is ACTIVE and, unless the author of the
// graph declares other conditions instead of kro's own, it is Ready (KR-18-03).
func instanceConverged(s *State, o *unstructured.Unstructured) bool {
	status, _ := o.Object["status"].(map[string]any)
	if text(status, "state") != "ACTIVE" {
		return false
	}
	_, theirs := s.Condition(conditionInstanceManaged)
	return !theirs || s.True("Ready")
}

// conditionInstanceManaged is a condition that kro writes to each instance whose graph declares no conditions.
const conditionInstanceManaged = "InstanceManaged"
