package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The mask is taken from our field manager where a user applies the object (KR-13-52).
func TestDisowning(t *testing.T) {
	const mask = `{"f:spec":{"f:managementPolicies":{}}}`
	const update = metav1.ManagedFieldsOperationUpdate
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	user := entry("kubectl", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:forProvider":{}}}`)
	status := entry("kausality-gate", update, mask)
	status.Subresource = "status"
	test := func(i, path string) []map[string]any {
		at := "/metadata/managedFields/" + i
		return []map[string]any{
			{"op": "test", "path": at + "/manager", "value": "kausality-gate"},
			{"op": "test", "path": at + "/operation", "value": update},
			{"op": "remove", "path": at + path},
		}
	}
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    []map[string]any
	}{
		"Alone": {want: test("1", "/fieldsV1/f:spec"), entries: []metav1.ManagedFieldsEntry{user, entry("kausality-gate", update,
			`{"f:metadata":{"f:annotations":{"f:kausality.io/gate":{}}},"f:spec":{"f:managementPolicies":{}}}`)}},
		"WithAnother": {want: test("0", "/fieldsV1/f:spec/f:managementPolicies"), entries: []metav1.ManagedFieldsEntry{
			entry("kausality-gate", update, `{"f:spec":{"f:managementPolicies":{},"f:other":{}}}`), user}},
		"NotOwned": {entries: []metav1.ManagedFieldsEntry{user, entry("kausality-gate", update, `{"f:metadata":{}}`)}},
		"Status":   {entries: []metav1.ManagedFieldsEntry{user, status}},
		"Updated":  {entries: []metav1.ManagedFieldsEntry{entry("kubectl-edit", update, mask), entry("kausality-gate", update, mask)}},
		"Composed": {entries: []metav1.ManagedFieldsEntry{
			entry("apiextensions.crossplane.io/composed/x", metav1.ManagedFieldsOperationApply, mask), entry("kausality-gate", update, mask)}},
		"AnotherOfOurs": {entries: []metav1.ManagedFieldsEntry{user, entry("kausality-webhook", update, mask)}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, disowning(tc.entries, "kausality-gate")); d != "" {
				t.Error(d)
			}
		})
	}
}
