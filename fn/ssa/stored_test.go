package ssa

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/change"
)

// TestApplied: with the API server's own managedFields, what was applied is owned, whatever webhooks store of it; where another manager
// changed or removed a field, so that to apply it again would change the object, it is not (KR-09-29).
func TestApplied(t *testing.T) {
	for _, typed := range []bool{false, true} {
		t.Run(fmt.Sprintf("typed=%v", typed), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				fm := managedfieldstest.NewFakeFieldManager(converter(t, typed), thingKind)
				live := &unstructured.Unstructured{Object: map[string]any{}}
				live.SetGroupVersionKind(thingKind)
				live.SetName("t")
				want := thing(specs().Draw(t, "want"))
				delete(Child(want.Object, "spec"), "whole")
				live = applyReal(t, fm, live, want.DeepCopy(), manager)
				stored := live.DeepCopy()
				for k := range specs().Draw(t, "dropped by a webhook") {
					delete(Child(stored.Object, "spec"), k)
				}
				if !Own(ToStruct(stored.Object)).Applied(want.Object) {
					t.Fatalf("it was applied: %v", stored.Object)
				}
				for i := range rapid.IntRange(0, 2).Draw(t, "others") {
					next := thing(specs().Draw(t, "other"))
					if rapid.Bool().Draw(t, "by apply") {
						live = applyReal(t, fm, live, next, fmt.Sprintf("applier-%d", i))
						continue
					}
					next.SetManagedFields(live.GetManagedFields())
					out, err := fm.Update(live.DeepCopy(), next, fmt.Sprintf("updater-%d", i))
					if err != nil {
						t.Fatal(err)
					}
					live = out.(*unstructured.Unstructured)
				}
				again := applyReal(t, fm, live, want.DeepCopy(), manager)
				d := change.Diff(inOrder(live).Object, inOrder(again).Object, false)
				if len(d) > 0 && Own(ToStruct(live.Object)).Applied(want.Object) {
					raw, _ := json.MarshalIndent(map[string]any{"live": live.Object, "want": want.Object["spec"]}, "", " ")
					t.Errorf("another manager changed %v\n%s", d, raw)
				}
			})
		})
	}
	require.False(t, Own(ToStruct(thing(map[string]any{"a": "p"}).Object)).Applied(thing(nil).Object), "without managedFields nothing is known")
}

// inOrder returns an object whose lists with items of their own are sorted: nothing owns their order.
func inOrder(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, name := range []string{"set", "items"} {
		list, _ := Child(o.Object, "spec")[name].([]any)
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return o
}

// TestStored: the values that are observed, without the fields that are not, and the managementPolicies that are wanted.
func TestStored(t *testing.T) {
	observed := map[string]any{"kind": "Thing", "metadata": map[string]any{"name": "t"}, "status": map[string]any{"x": "y"},
		"spec": map[string]any{"host": "a", "managementPolicies": []any{"Observe"}}, "data": map[string]any{"a": "b"}}
	desired := map[string]any{"kind": "Thing", "metadata": map[string]any{"labels": map[string]any{"a": "b"}},
		"spec": map[string]any{"host": "A", "managementPolicies": []any{"*"}}, "stringData": map[string]any{"a": "b"}}
	want := map[string]any{"kind": "Thing", "metadata": desired["metadata"], "spec": map[string]any{"host": "a", "managementPolicies": []any{"*"}}}
	require.Empty(t, cmp.Diff(want, Stored(observed, desired)))
	delete(desired["spec"].(map[string]any), "managementPolicies")
	require.Equal(t, observed["spec"], Stored(observed, desired)["spec"])
}
