package gating

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Observed is what a managed resource shows of its external resource.
type Observed struct {
	// Difference of the external resource from the desired state, without secret values; nil for none.
	Difference []change.Change
	// Comparable reports whether the managed resource has both sides to compare.
	Comparable bool
	// Shown are digests of what identifies the external state where the managed resource is not Comparable (external.Digests).
	Shown map[string]string
	// Inert reports that the provider makes no change for the Difference.
	Inert bool
	// Gone reports that, as the provider has it, the external resource does not exist.
	Gone bool
	// SyncedMessage is that of a condition Synced that is not True.
	SyncedMessage string
	// RequestedAt and HandledAt are the last reconcile request and its echo.
	RequestedAt, HandledAt string
}

// Observe returns the observations of a managed resource that the gate needs. secrets are the fields
// with secret values.
func Observe(o *unstructured.Unstructured, secrets change.SecretFields) Observed {
	out := Observed{
		Difference: secrets.Redact(external.Difference(o.Object)), Comparable: external.Comparable(o.Object), Shown: external.Digests(o.Object),
		SyncedMessage: external.SyncedMessage(o.Object), RequestedAt: identity.Annotation(o, v1alpha1.AnnotationKeyReconcileRequestedAt),
	}
	out.Inert = len(out.Difference) > 0 && external.Inert(o.Object)
	out.Gone = external.Gone(out.SyncedMessage)
	out.HandledAt, _, _ = unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt") // a status of another shape handles no requests
	return out
}

// Defaults apply where the policy of a managed resource sets nothing else.
type Defaults struct {
	// Deadline after which an unconfirmed opening is closed; DefaultDeadline for 0.
	Deadline time.Duration
	// CloseTo are the verbs of a closed gate beside Observe.
	CloseTo []v1alpha1.Verb
	// Ignore selects external differences that are ignored; nil for none.
	Ignore external.Rules
}

// Of returns the question about the gate of a managed resource under the settings of its policy. The caller adds who makes the transition, the
// mode, and the holders of approvals.
func Of(mr *parent.State, kind identity.Kind, seen Observed, s settings.Settings, d Defaults) Managed {
	g := Managed{MR: mr, Kind: kind, Observed: seen, Deadline: DeadlineOf(s, d), CloseTo: d.CloseTo, Suspended: s.Suspended}
	if s.HasCloseTo {
		g.CloseTo = s.CloseTo
	}
	g.Difference = s.Relevant(d.Ignore.Filter(mr.GroupKind(), seen.Difference))
	return g
}
