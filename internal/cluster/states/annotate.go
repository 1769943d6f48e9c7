package states

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Patch of an object by one of our components: annotations (nil removes) and,
// for an MR, its mask.
type Patch struct {
	// Manager is the field manager to write under.
	Manager string
	// ResourceVersion that the object must still have; "" for any.
	ResourceVersion string
	Annotations     map[string]*string
	// ManagementPolicies to set; nil leaves them.
	ManagementPolicies []string
	// ForProvider has fields of spec.forProvider to set along with them; nil for none.
	ForProvider map[string]any
}

// Apply a patch to an object; a merge patch in one request, and where a user applies the
// object server-side, one more that releases the mask. It fails with a
// conflict where the object changed since, and with not found where it is gone
// or another one has its name.
func (s *States) Apply(ctx context.Context, ref parent.Ref, p Patch) error {
	r, err := s.Resource(ref)
	if err != nil {
		return err
	}
	p.Annotations = s.Claims.SealIn(Sealed(ref), p.Annotations)
	_, err = p.apply(ctx, r, ref.Name, ref.UID)
	return err
}

// ApplyTo an object that was read by other means than States, under the
// precondition that it has not changed since. It must not write claims, which would have no seal. It returns the object as it is
// then.
func (p Patch) ApplyTo(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	p.ResourceVersion = o.GetResourceVersion()
	return p.apply(ctx, r, o.GetName(), o.GetUID())
}

// Apply the patch. UID and resourceVersion in the body of a merge patch
// are preconditions of the API server: a Conflict where either differs.
func (p Patch) apply(ctx context.Context, r dynamic.ResourceInterface, name string, uid types.UID) (*unstructured.Unstructured, error) {
	m := map[string]any{}
	if len(p.Annotations) > 0 {
		m["annotations"] = p.Annotations
	}
	if p.ResourceVersion != "" {
		m["resourceVersion"] = p.ResourceVersion
	}
	if uid != "" {
		m["uid"] = uid
	}
	body := map[string]any{"metadata": m}
	if p.ManagementPolicies != nil {
		spec := map[string]any{"managementPolicies": p.ManagementPolicies}
		if len(p.ForProvider) > 0 {
			spec["forProvider"] = p.ForProvider
		}
		body["spec"] = spec
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("cannot encode patch: %w", err)
	}
	o, err := r.Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: p.Manager})
	if err != nil || p.ManagementPolicies == nil {
		return o, err
	}
	return disown(ctx, r, o, p.Manager)
}

// TakeClaims writes the claims annotation of an object if it still has the
// stored value: the one write of the request path, exact under concurrency (a
// JSON patch that tests the value and nothing else, so that it does not lose to
// status writes). The error is the API server's; a lost race is an Invalid.
func (s *States) TakeClaims(ctx context.Context, ref parent.Ref, manager, stored string, has bool, value string) error {
	r, err := s.Resource(ref)
	if err != nil {
		return err
	}
	stored, value = approval.Stored(stored), s.Claims.Seal(Sealed(ref), value)
	path := change.Pointer("metadata", "annotations", v1alpha1.AnnotationKeyClaims)
	ops := []map[string]any{{"op": "test", "path": path, "value": stored}, {"op": "replace", "path": path, "value": value}}
	if !has {
		ops = []map[string]any{{"op": "test", "path": path, "value": nil}, {"op": "add", "path": path, "value": value}}
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("cannot encode patch: %w", err)
	}
	_, err = r.Patch(ctx, ref.Name, types.JSONPatchType, raw, metav1.PatchOptions{FieldManager: manager})
	return err
}

// Sealed returns an object for the seals of its claims.
func Sealed(ref parent.Ref) approval.Sealed {
	return approval.Sealed{Kind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

// Trust puts the claims that count into the state of an object that was read by other means than States.
func (s *States) Trust(o *parent.State) {
	o.Annotations = s.Claims.Trusted(Sealed(o.Ref), o.Annotations, clock.Now())
}
