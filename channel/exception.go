package channel

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ExceptionScope is what an exception is about.
type ExceptionScope string

// The scopes.
const (
	// ExceptionObject is the object of the change alone, ExceptionKind each object of its kind and version in its Namespace, or in the
	// cluster where the kind has no Namespaces.
	ExceptionObject ExceptionScope = "object"
	ExceptionKind   ExceptionScope = "kind"
)

// ExceptionScopes are those that are offered, the narrowest first.
var ExceptionScopes = []ExceptionScope{ExceptionObject, ExceptionKind}

// Exceptable reports whether there can be an exception like a change: an update by a known user that neither deletes nor replaces anything, and
// that is not rejected. What the composition function holds has no user, and a policy opens no gate for what is changed in the external system (KR-17-19).
func Exceptable(d *v1alpha1.Drift, s Ruling) bool {
	return Open(d) && s.Rejected == nil && excepted(d)
}

// excepted reports whether policies are about such a change.
func excepted(d *v1alpha1.Drift) bool {
	c := d.Spec.Child
	named := c.APIVersion != "" && c.Kind != "" && c.Name != "" && !strings.ContainsAny(c.APIVersion+c.Kind+c.Namespace+c.Name, "*?") // rules have globs
	return d.Spec.Relation == v1alpha1.RelationControllerChild && d.Spec.Operation == string(admission.Update) && d.Spec.User != "" && named && !Destroys(d)
}

// exceptionMatch are the changes that an exception is about: updates that keep external name, provider config and deletion policy. What deletes the object,
// or points it at another external resource, is approved by itself (see replacing).
const exceptionMatch = `request.operation == "UPDATE" &&
  (has(object.metadata.annotations) && "crossplane.io/external-name" in object.metadata.annotations ?
    object.metadata.annotations["crossplane.io/external-name"] : "") ==
  (has(oldObject.metadata.annotations) && "crossplane.io/external-name" in oldObject.metadata.annotations ?
    oldObject.metadata.annotations["crossplane.io/external-name"] : "") &&
  (has(object.spec) && has(object.spec.providerConfigRef) ? object.spec.providerConfigRef : {}) ==
  (has(oldObject.spec) && has(oldObject.spec.providerConfigRef) ? oldObject.spec.providerConfigRef : {}) &&
  (has(object.spec) && has(object.spec.deletionPolicy) ? object.spec.deletionPolicy : "") ==
  (has(oldObject.spec) && has(oldObject.spec.deletionPolicy) ? oldObject.spec.deletionPolicy : "")`

// Exception from approvals until a time: the spec of an ApprovalPolicy or, without a Namespace, of a ClusterApprovalPolicy.
type Exception struct {
	Namespace, Name string
	Spec            v1alpha1.ApprovalPolicySpec
}

// Kind returns the kind of the policy.
func (e *Exception) Kind() string {
	if e.Namespace == "" {
		return v1alpha1.KindClusterApprovalPolicy
	}
	return v1alpha1.KindApprovalPolicy
}

// Resource returns the resource of the policy, in the plural.
func (e *Exception) Resource() string {
	if e.Namespace == "" {
		return "clusterapprovalpolicies"
	}
	return "approvalpolicies"
}

// Policy returns the object to create.
func (e *Exception) Policy() (*unstructured.Unstructured, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&e.Spec)
	if err != nil {
		return nil, fmt.Errorf("cannot write %s %s: %w", e.Kind(), e.Name, err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(v1alpha1.GroupVersion.String())
	o.SetKind(e.Kind())
	o.SetNamespace(e.Namespace)
	o.SetName(e.Name)
	return o, nil
}

// RemoveCommand ends the exception before its time.
func (e *Exception) RemoveCommand() string {
	return fmt.Sprintf("kubectl delete %s %s%s", strings.ToLower(e.Kind()), e.Name, InNamespace(e.Namespace))
}

// exceptionLike returns an exception like a change: from when it is created until a time, which is truncated to minutes, any update by the change's user of
// the objects in its scope needs no approval.
func exceptionLike(d *v1alpha1.Drift, scope ExceptionScope, until time.Time) *Exception {
	until = until.UTC().Truncate(time.Minute)
	expiry := metav1.NewTime(until)
	child := d.Spec.Child
	rule := v1alpha1.ApprovalPolicyRule{APIVersion: child.APIVersion, Kind: child.Kind, Namespace: child.Namespace, Mode: v1alpha1.ApprovalAlways, Expiry: &expiry,
		Match: &v1alpha1.ApprovalMatch{CEL: exceptionMatch}}
	if scope == ExceptionObject {
		rule.Name = child.Name
	}
	return &Exception{
		Namespace: child.Namespace, Name: fmt.Sprintf("exception-%s-%s-%s", d.Name, scope, until.Format("20060102t1504")),
		Spec: v1alpha1.ApprovalPolicySpec{Subjects: []v1alpha1.Subject{subjectOf(d.Spec.User)}, Rules: []v1alpha1.ApprovalPolicyRule{rule}},
	}
}

// subjectOf returns the subject of a user by their name.
func subjectOf(user string) v1alpha1.Subject {
	if rest, is := strings.CutPrefix(user, "system:serviceaccount:"); is {
		if namespace, name, ok := strings.Cut(rest, ":"); ok {
			return v1alpha1.Subject{Kind: v1alpha1.SubjectServiceAccount, Namespace: namespace, Name: name}
		}
	}
	return v1alpha1.Subject{Kind: v1alpha1.SubjectUser, Name: user}
}

// Excepted reports whether an exception like a change would have let another one pass, too.
func Excepted(d *v1alpha1.Drift, scope ExceptionScope, other *v1alpha1.Drift) bool {
	a, b := d.Spec.Child, other.Spec.Child
	return excepted(other) && other.Spec.User == d.Spec.User &&
		a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Namespace == b.Namespace && (scope == ExceptionKind || a.Name == b.Name)
}

// DecideException returns the exception that a click requests, or the reason why there is none. now is the change as it is stored, nil if it is gone
// (KR-17-03, KR-17-19).
func DecideException(c Click, scope ExceptionScope, now *v1alpha1.Drift, s Ruling) (*Exception, Refusal) {
	switch {
	case now == nil || !Open(now):
		return nil, RefusedGone
	case c.Shown == "" || c.Shown != Fingerprint(now):
		return nil, RefusedChanged
	case !Exceptable(now, s):
		return nil, RefusedNotOffered
	case c.Until.IsZero() || !slices.Contains(ExceptionScopes, scope):
		return nil, RefusedIncomplete
	}
	return exceptionLike(now, scope, c.Until), ""
}

// ScopeText returns what an exception like a change is about, as the end of a sentence.
func ScopeText(d *v1alpha1.Drift, scope ExceptionScope) string {
	c := d.Spec.Child
	switch {
	case scope == ExceptionObject:
		return "of " + Describe(c) + " alone"
	case c.Namespace == "":
		return "of each " + c.Kind + " of " + c.APIVersion + " in the whole cluster"
	}
	return "of each " + c.Kind + " of " + c.APIVersion + " in Namespace " + c.Namespace
}

// ExceptionEffects returns what an exception will do, in sentences.
func ExceptionEffects(d *v1alpha1.Drift, s Ruling) []string {
	out := []string{
		"Until the time that you choose, updates by " + d.Spec.User + " pass without an approval: each of them, and of any field.",
		"Its deletion is held as before, and so is what changes its external name, provider configuration or deletion policy.",
		"Rejections and freezes refuse as before.",
		"What its own controller then changes below it follows from that.",
		"The change below passes when its controller tries it again. The command that ends the exception before its time is shown then.",
	}
	if d.Status.Lacks != "" {
		out = append(out, "The votes that are missing are not needed then: "+d.Status.Lacks+".")
	}
	if s.Frozen != nil {
		out = append(out, "It has an effect once the freeze ends: "+s.Frozen.Why()+".")
	}
	return out
}
