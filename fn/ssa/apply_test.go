package ssa

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/subject"
)

var thingKind = schema.GroupVersionKind{Group: "app.example.org", Version: "v1", Kind: "Thing"}

// manager is Crossplane's, of the composed resources of one XR.
var manager = subject.ComposedManager("db", schema.GroupKind{Group: "example.org", Kind: "XDatabase"})

// thingSchema has lists of all types and an atomic map.
const thingSchema = `{"type":"object","x-kubernetes-group-version-kind":[{"group":"app.example.org","version":"v1","kind":"Thing"}],
"properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},
 "metadata":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
 "spec":{"type":"object","properties":{
  "a":{"type":"string"},"b":{"type":"string"},
  "m":{"type":"object","additionalProperties":{"type":"string"}},
  "whole":{"type":"object","additionalProperties":{"type":"string"},"x-kubernetes-map-type":"atomic"},
  "atoms":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"atomic"},
  "set":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
  "items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
   "items":{"type":"object","properties":{"name":{"type":"string"},"x":{"type":"string"},"y":{"type":"string"}}}}}}}}`

func converter(t interface{ Fatal(...any) }, typed bool) managedfields.TypeConverter {
	if !typed {
		return managedfields.NewDeducedTypeConverter()
	}
	s := &spec.Schema{}
	if err := json.Unmarshal([]byte(thingSchema), s); err != nil {
		t.Fatal(err)
	}
	c, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"org.example.app.v1.Thing": s}, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// specs of a Thing.
func specs() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		out := map[string]any{}
		text := rapid.SampledFrom([]string{"p", "q", "r"})
		for _, k := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, k+"?") {
				out[k] = text.Draw(t, k)
			}
		}
		for _, k := range []string{"m", "whole"} {
			if rapid.Bool().Draw(t, k+"?") {
				m := map[string]any{}
				for _, e := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"k1", "k2", "k3"}), 1, 3, rapid.ID).Draw(t, k) {
					m[e] = text.Draw(t, e)
				}
				out[k] = m
			}
		}
		for _, k := range []string{"atoms", "set"} {
			if rapid.Bool().Draw(t, k+"?") {
				var list []any
				for _, e := range rapid.SliceOfNDistinct(text, 1, 3, rapid.ID).Draw(t, k) {
					list = append(list, e)
				}
				out[k] = list
			}
		}
		if rapid.Bool().Draw(t, "items?") {
			var list []any
			for _, n := range rapid.SliceOfNDistinct(text, 1, 3, rapid.ID).Draw(t, "items") {
				item := map[string]any{"name": n}
				for _, k := range []string{"x", "y"} {
					if rapid.Bool().Draw(t, n+k) {
						item[k] = text.Draw(t, k)
					}
				}
				list = append(list, item)
			}
			out["items"] = list
		}
		if len(out) == 0 {
			// An empty value that is applied looks, once a webhook filled it,
			// like an atomic one: apply takes the safe side there.
			out["a"] = "p"
		}
		return out
	})
}

func thing(spec map[string]any) *unstructured.Unstructured {
	return (&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "app.example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "t"}, "spec": spec,
	}}).DeepCopy()
}

// history of a thing: composed, changed by others (by update or apply), on
// which the pipeline then wants something else.
func history(t *rapid.T, typed bool) (fm *managedfields.FieldManager, live *unstructured.Unstructured) {
	fm = managedfieldstest.NewFakeFieldManager(converter(t, typed), thingKind)
	live = &unstructured.Unstructured{Object: map[string]any{}}
	live.SetGroupVersionKind(thingKind)
	live.SetName("t")
	live = applyReal(t, fm, live, thing(specs().Draw(t, "first")), manager)
	for i := range rapid.IntRange(0, 3).Draw(t, "others") {
		next := specs().Draw(t, "other")
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			live = applyReal(t, fm, live, thing(next), fmt.Sprintf("applier-%d", i))
		case 1: // lays its fields over the observed ones
			o := live.DeepCopy()
			o.Object["spec"] = merged(Child(o.Object, "spec"), next)
			out, err := fm.Update(live.DeepCopy(), o.DeepCopy(), fmt.Sprintf("updater-%d", i))
			if err != nil {
				t.Fatal(err)
			}
			live = out.(*unstructured.Unstructured)
		case 2: // a webhook adds fields without an owner
			for _, k := range []string{"atoms", "set", "items", "whole"} {
				delete(next, k) // whose type would then be unknown
			}
			live.Object["spec"] = merged(next, Child(live.Object, "spec"))
			live = live.DeepCopy()
			items, _ := Child(live.Object, "spec")["items"].([]any)
			for _, e := range items {
				if item := e.(map[string]any); item["y"] == nil {
					item["y"] = "added"
				}
			}
		default:
			live = applyReal(t, fm, live, thing(next), manager)
		}
	}
	return fm, live
}

func applyReal(t *rapid.T, fm *managedfields.FieldManager, live, applied *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	out, err := fm.Apply(live.DeepCopy(), applied, manager, true)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*unstructured.Unstructured)
}

// What apply predicts is what the API server's own server-side apply makes.
func TestApplyIsServerSideApply(t *testing.T) {
	for _, typed := range []bool{false, true} {
		t.Run(fmt.Sprintf("typed=%v", typed), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				fm, live := history(t, typed)
				want := thing(specs().Draw(t, "want"))
				real := applyReal(t, fm, live, want.DeepCopy(), manager)
				before := live.DeepCopy()
				got := Apply(live.Object, want.Object, Own(ToStruct(live.Object)))
				if d := change.Diff(real.Object, got, false); len(d) > 0 {
					raw, _ := json.MarshalIndent(map[string]any{"live": live.Object, "want": want.Object["spec"], "real": real.Object["spec"], "got": got["spec"]}, "", " ")
					t.Errorf("differs from server-side apply: %v\n%s", d, raw)
				}
				if d := cmp.Diff(before.Object, live.Object); d != "" {
					t.Errorf("observed was modified: %s", d)
				}
			})
		})
	}
}

// Applying what restrict emits changes nothing.
func TestRestrictIsNoChange(t *testing.T) {
	for _, typed := range []bool{false, true} {
		t.Run(fmt.Sprintf("typed=%v", typed), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				fm, live := history(t, typed)
				held := &unstructured.Unstructured{Object: Object(Restrict(ToStruct(live.Object), nil, Own(ToStruct(live.Object))))}
				held = held.DeepCopy()
				held.SetName("t")
				after := applyReal(t, fm, live, held, manager)
				if d := cmp.Diff(maps.Clone(change.Desired(live.Object)), change.Desired(after.Object)); d != "" {
					raw, _ := json.MarshalIndent(map[string]any{"live": live.Object, "held": held.Object}, "", " ")
					t.Errorf("a hold changes: %s\n%s", d, raw)
				}
				again := applyReal(t, fm, after, held.DeepCopy(), manager)
				if d := cmp.Diff(withoutTimes(after), withoutTimes(again)); d != "" {
					t.Errorf("a hold is not stable: %s", d)
				}
			})
		})
	}
}

// A list that loses its last item by the apply is removed with it, although another
// manager set a field in that item.
func TestEmptiedListGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fm := managedfieldstest.NewFakeFieldManager(converter(t, true), thingKind)
		live := &unstructured.Unstructured{Object: map[string]any{}}
		live.SetGroupVersionKind(thingKind)
		live.SetName("t")
		live = applyReal(t, fm, live, thing(map[string]any{"items": []any{map[string]any{"name": "p"}}}), manager)
		o := thing(map[string]any{"items": []any{map[string]any{"name": "p", "y": "p"}}})
		o.SetManagedFields(live.GetManagedFields())
		out, err := fm.Update(live.DeepCopy(), o, "updater")
		if err != nil {
			t.Fatal(err)
		}
		live = out.(*unstructured.Unstructured)
		want := thing(map[string]any{"a": "p"})
		got := Apply(live.Object, want.Object, Own(ToStruct(live.Object)))
		if d := cmp.Diff(applyReal(t, fm, live, want, manager).Object["spec"], got["spec"]); d != "" {
			t.Errorf("-server-side apply +ours\n%s", d)
		}
	})
}

// withoutTimes is an object whose managedFields have no times.
func withoutTimes(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy()
	entries := c.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	c.SetManagedFields(entries)
	return c.Object
}

// merged returns base with the fields of overlay laid over it: maps are merged, all else is replaced.
func merged(base, overlay map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, base)
	for k, v := range overlay {
		above, isMap := v.(map[string]any)
		below, both := out[k].(map[string]any)
		if isMap && both {
			v = merged(below, above)
		}
		out[k] = v
	}
	return out
}
