package states

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// What our field managers write of a managed resource, in the form of managedFields: the mask, spec.managementPolicies, and below spec.forProvider
// the field that carries the cause to the outside.
const (
	fieldSpec        = "f:spec"
	fieldMask        = "f:managementPolicies"
	fieldForProvider = "f:forProvider"
)

// disownAttempts is how often the mask is released where the object changes meanwhile.
const disownAttempts = 3

// disown the mask, which a field manager of Kausality has just written, where a user applies
// the object server-side (KR-13-52): the value of the author, applied again, would conflict
// with the mask by its owner. Without an owner it is the author's again, and the webhook
// restores the mask in the same request. Crossplane forces its applies. Where the object
// changes meanwhile, it is read and tried again; in the end the author's tool reports the conflict, and
// nothing is lost. It returns the object as it is then.
func disown(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	for range disownAttempts {
		patch := disowning(o.GetManagedFields(), manager)
		if patch == nil {
			return o, nil
		}
		raw, err := json.Marshal(patch)
		if err != nil {
			return nil, fmt.Errorf("cannot encode patch: %w", err)
		}
		after, err := r.Patch(ctx, o.GetName(), types.JSONPatchType, raw, metav1.PatchOptions{FieldManager: manager})
		switch {
		case err == nil:
			return after, nil
		case kerrors.IsNotFound(err):
			return o, nil
		case !kerrors.IsConflict(err) && !kerrors.IsInvalid(err):
			return nil, fmt.Errorf("cannot release the field spec.managementPolicies of %s: %w", o.GetName(), err)
		}
		again, err := r.Get(ctx, o.GetName(), metav1.GetOptions{}) // it has changed since
		if kerrors.IsNotFound(err) || err == nil && again.GetUID() != o.GetUID() {
			return o, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", o.GetName(), err)
		}
		o = again
	}
	return o, nil
}

// disowning returns the JSON patch that takes the mask, and what carries the cause, from a field manager; nil where it does
// not own them, or no user applies the object. Where it owns nothing else of the spec, it
// takes the spec from it: an empty set would be the whole.
func disowning(entries []metav1.ManagedFieldsEntry, manager string) []map[string]any {
	if !slices.ContainsFunc(entries, appliedByUser) {
		return nil
	}
	for i, e := range entries {
		if e.Manager != manager || e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]map[string]json.RawMessage
		if json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
			continue
		}
		spec := fields[fieldSpec]
		at := fmt.Sprintf("/metadata/managedFields/%d", i)
		of := at + "/fieldsV1/" + fieldSpec
		var remove []map[string]any
		for _, field := range []string{fieldMask, fieldForProvider} {
			if _, owns := spec[field]; owns {
				remove = append(remove, map[string]any{"op": "remove", "path": of + "/" + field})
			}
		}
		switch len(remove) {
		case 0:
			continue
		case len(spec):
			remove = []map[string]any{{"op": "remove", "path": of}}
		}
		return append([]map[string]any{
			{"op": "test", "path": at + "/manager", "value": manager},
			{"op": "test", "path": at + "/operation", "value": e.Operation},
		}, remove...)
	}
	return nil
}

// appliedByUser reports whether an entry is of a server-side apply by another client than
// Crossplane and Kausality.
func appliedByUser(e metav1.ManagedFieldsEntry) bool {
	return e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" &&
		!subject.IsComposedApply(e.Manager) && !strings.HasPrefix(e.Manager, v1alpha1.ManagerPrefix)
}
