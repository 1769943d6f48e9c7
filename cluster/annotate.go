package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
}

// Apply a patch to an object; a merge patch in one request. It fails with a
// conflict where the object changed since, and with not found where it is gone
// or another one has its name.
func (s *States) Apply(ctx context.Context, ref parent.Ref, p Patch) error {
	r, err := s.Resource(ref)
	if err != nil {
		return err
	}
	m := map[string]any{}
	if len(p.Annotations) > 0 {
		m["annotations"] = p.Annotations
	}
	if p.ResourceVersion != "" {
		m["resourceVersion"] = p.ResourceVersion
	}
	if ref.UID != "" {
		m["uid"] = ref.UID
	}
	body := map[string]any{"metadata": m}
	if p.ManagementPolicies != nil {
		body["spec"] = map[string]any{"managementPolicies": p.ManagementPolicies}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("cannot encode patch: %w", err)
	}
	_, err = r.Patch(ctx, ref.Name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: p.Manager})
	return err
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
	path := "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AnnotationKeyClaims, "/", "~1")
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
