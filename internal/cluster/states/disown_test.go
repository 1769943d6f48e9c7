package states

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
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
		"WithCause": {want: test("0", "/fieldsV1/f:spec"), entries: []metav1.ManagedFieldsEntry{
			entry("kausality-gate", update, `{"f:spec":{"f:managementPolicies":{},"f:forProvider":{"f:env":{}}}}`), user}},
		"Both": {want: append(test("0", "/fieldsV1/f:spec/f:managementPolicies"),
			map[string]any{"op": "remove", "path": "/metadata/managedFields/0/fieldsV1/f:spec/f:forProvider"}),
			entries: []metav1.ManagedFieldsEntry{entry("kausality-gate", update, `{"f:spec":{"f:managementPolicies":{},"f:forProvider":{},"f:other":{}}}`), user}},
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

// moving is an object whose managedFields another client moves before each of the first patches.
type moving struct {
	dynamic.ResourceInterface
	object *unstructured.Unstructured
	moves  int
	// released is the index in managedFields that the mask was released at.
	released string
	patches  int
}

func (m *moving) Patch(_ context.Context, _ string, _ types.PatchType, raw []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	m.patches++
	if m.moves > 0 {
		m.moves--
		m.object = m.object.DeepCopy()
		first := metav1.ManagedFieldsEntry{Manager: "provider", Operation: metav1.ManagedFieldsOperationUpdate}
		m.object.SetManagedFields(append([]metav1.ManagedFieldsEntry{first}, m.object.GetManagedFields()...))
		return nil, kerrors.NewInvalid(m.object.GroupVersionKind().GroupKind(), m.object.GetName(), nil)
	}
	var ops []struct{ Path string }
	if err := json.Unmarshal(raw, &ops); err != nil {
		return nil, err
	}
	m.released = strings.Split(ops[0].Path, "/")[3]
	return m.object, nil
}

func (m *moving) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	return m.object, nil
}

// The mask is released also where another client writes at the same time, but not forever (KR-13-52).
func TestDisownRaces(t *testing.T) {
	for name, tc := range map[string]struct {
		moves, patches int
		released       string
	}{
		"Calm":    {moves: 0, patches: 1, released: "1"},
		"Moved":   {moves: 2, patches: 3, released: "3"},
		"Forever": {moves: 9, patches: disownAttempts},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": "1"}}}
			o.SetManagedFields([]metav1.ManagedFieldsEntry{
				{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}},
				{Manager: "kausality-gate", Operation: metav1.ManagedFieldsOperationUpdate,
					FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:managementPolicies":{}}}`)}},
			})
			m := &moving{object: o, moves: tc.moves}
			if _, err := disown(t.Context(), m, o, "kausality-gate"); err != nil {
				t.Fatal(err)
			}
			if m.patches != tc.patches || m.released != tc.released {
				t.Errorf("want %d patches and the release at %q, got %d and %q", tc.patches, tc.released, m.patches, m.released)
			}
		})
	}
}
