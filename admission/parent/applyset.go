package parent

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
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

// MembershipLabels returns the labels by which a child names its instance.
func MembershipLabels() []string { return slices.Clone(membership) }

// instanceOf returns the instance of a graph that the labels of an object name, where they agree with the ApplySet of which they
// declare it a part (KR-18-01).
func instanceOf(o *unstructured.Unstructured) (Ref, bool) {
	labels := labelsOf(o)
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

// labelsOf returns the labels of an object as they are stored, without a copy.
func labelsOf(o *unstructured.Unstructured) map[string]any {
	return child(child(o.Object, "metadata"), "labels")
}

// applySetOf returns the id of the ApplySet of an object (KEP-3659).
func applySetOf(ref Ref) string {
	sum := sha256.Sum256([]byte(ref.Name + "." + ref.Namespace + "." + ref.Kind + "." + ref.Group))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// MayBeInstance reports whether kro declares on an object what its ApplySet has, which kro does on instances of graphs. Any user may declare it
// as well: it is for where the CRD of its kind is not known.
func MayBeInstance(o *unstructured.Unstructured) bool {
	return strings.HasPrefix(annotation(o, annotationTooling), toolingKro) && text(labelsOf(o), labelApplySet) != ""
}

// IsMember reports whether the parent that Of returns is an instance of a graph, by the labels of an object of a role.
func IsMember(o *unstructured.Unstructured, role Role) bool {
	if o == nil || text(labelsOf(o), labelInstanceUID) == "" || controllerOf(o) != nil { // as of nearly all objects
		return false
	}
	if _, bound := claimOf(o, role); bound {
		return false
	}
	_, is := instanceOf(o)
	return is
}

// SameMembership reports whether two objects have the same labels that name an instance.
func SameMembership(a, b *unstructured.Unstructured) bool {
	was, is := labelsOf(a), labelsOf(b)
	for _, key := range membership {
		if text(was, key) != text(is, key) {
			return false
		}
	}
	return true
}

// WithMembership returns the labels of an object with those of another one that name an instance instead of its own. Neither
// is modified.
func WithMembership(o, of *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	maps.Copy(out, labelsOf(o))
	was := labelsOf(of)
	for _, key := range membership {
		if v, ok := was[key]; ok {
			out[key] = v
		} else {
			delete(out, key)
		}
	}
	return out
}

// Linked reports whether a parent that a child names references the child in turn: a Claim that is found by its name (KR-01-03), and an
// instance that the child's labels name, as of a member (KR-18-01). An owner need not.
func Linked(p *State, child Ref, member bool) bool {
	if member {
		return contains(p, child)
	}
	return p.Role != RoleClaim || p.ClaimTarget == "" || p.ClaimTarget == child.Name
}

// contains reports whether an instance of a graph declares that its ApplySet has objects of a child's kind in its namespace.
// kro writes that before it applies a child.
func contains(s *State, child Ref) bool {
	kind := child.Kind
	if child.Group != "" {
		kind += "." + child.Group
	}
	return s.Role == RoleInstance && strings.HasPrefix(s.Annotations[annotationTooling], toolingKro) &&
		s.Labels[labelApplySet] == applySetOf(s.Ref) && listed(s.Annotations[annotationKinds], kind) &&
		(child.Namespace == "" || child.Namespace == s.Namespace || listed(s.Annotations[annotationNamespaces], child.Namespace))
}

// Membership is which objects an instance of a graph declares as its own.
type Membership struct {
	Kinds []schema.GroupKind
	// Namespaces of those that are in one.
	Namespaces []string
	// Selector of their labels.
	Selector string
}

// MembershipOf returns the Membership of an instance of a graph; the zero Membership of any other object.
func MembershipOf(s *State) (m Membership) {
	if s.Role != RoleInstance {
		return m
	}
	comma := func(r rune) bool { return r == ',' }
	for kind := range strings.FieldsFuncSeq(s.Annotations[annotationKinds], comma) {
		m.Kinds = append(m.Kinds, schema.ParseGroupKind(kind))
	}
	m.Namespaces = strings.FieldsFunc(s.Namespace+","+s.Annotations[annotationNamespaces], comma)
	m.Selector = labelInstanceUID + "=" + string(s.UID)
	return m
}

// listed reports whether a comma-separated list has an item.
func listed(list, item string) bool { return slices.Contains(strings.Split(list, ","), item) }

// isApplySet reports whether decisions read an annotation of an ApplySet.
func isApplySet(key string) bool {
	return key == annotationTooling || key == annotationKinds || key == annotationNamespaces
}

// instanceConverged reports whether kro has carried out the spec of an instance: its state is ACTIVE (KR-18-03). All else in the status is
// the author's of the graph, who may declare conditions of the types of kro's own as well.
func instanceConverged(o *unstructured.Unstructured) bool {
	return text(child(o.Object, "status"), "state") == "ACTIVE"
}

// stampedGeneration returns the newest generation that the conditions of an instance report: kro stamps those of the author, too, with
// that of the pass in which it writes the status (KR-18-03).
func stampedGeneration(s *State, o *unstructured.Unstructured) (generation int64, has bool) {
	list, _ := child(o.Object, "status")["conditions"].([]any)
	for _, e := range list {
		c, _ := e.(map[string]any)
		if g := integer(c["observedGeneration"]); g > generation && s.exists(g) {
			generation = g
		}
	}
	return generation, generation > 0
}
