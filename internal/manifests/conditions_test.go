package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
)

// matcher of conditions as the API server has it.
func matcher(conditions []admissionregistrationv1.MatchCondition) matchconditions.Matcher {
	var all []cel.ExpressionAccessor
	for i := range conditions {
		all = append(all, (*matchconditions.MatchCondition)(&conditions[i]))
	}
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiled := cel.NewConditionCompiler(env).CompileCondition(all, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	return matchconditions.NewMatcher(compiled, nil, "webhook", "mutating", "test")
}

// updating one state to another, by one of our components as such or by a person.
func updating(was, is map[string]any, own bool) *admission.VersionedAttributes {
	kind, resource := schema.GroupVersionKind{Group: "example.org", Version: "v1",
		Kind: "Thing"}, schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}
	o, old := &unstructured.Unstructured{Object: is}, &unstructured.Unstructured{Object: was}
	name, manager := "hans", "kubectl"
	if own {
		name, manager = (&input{}).components()[0], "kausality-webhook"
	}
	a := admission.NewAttributesRecord(o, old, kind, "default", "thing", resource, "", admission.Update,
		&metav1.UpdateOptions{FieldManager: manager}, false, &user.DefaultInfo{Name: name})
	return &admission.VersionedAttributes{Attributes: a, VersionedKind: kind, VersionedObject: o, VersionedOldObject: old}
}

// state of a kind whose desired state is in spec, data and rules.
func state(r *rand.Rand) map[string]any {
	o := map[string]any{"apiVersion": "example.org/v1", "kind": "Thing"}
	for _, field := range []string{"spec", "data", "rules", "status"} {
		if n := r.IntN(4); n > 0 {
			o[field] = map[string]any{"same": "x", "value": int64(n)}
		}
	}
	annotations := map[string]any{}
	for _, key := range []string{
		"example.org/note", "kausality.io/trace", "kausality.io/phase", "kausality.io/gate", "kausality.io/approve-1", "kausality.io/management-policies",
	} {
		if n := r.IntN(5); n > 1 {
			annotations[key] = fmt.Sprint(n)
		}
	}
	metadata := map[string]any{"name": "thing", "resourceVersion": fmt.Sprint(r.Int())}
	if len(annotations) > 0 || r.IntN(3) == 0 {
		metadata["annotations"] = annotations
	}
	if n := r.IntN(8); n > 3 { // rarely, so that nothing else hides that they differ
		metadata["labels"] = map[string]any{"app": "web", membership[r.IntN(len(membership))]: fmt.Sprint(n / 6)}
	}
	var owners []any
	for i := range r.IntN(3) {
		owner := map[string]any{"apiVersion": "v1", "kind": "Owner", "name": "owner", "uid": fmt.Sprint(i)}
		if i == 0 && r.IntN(2) == 0 {
			owner["controller"] = true
		}
		owners = append(owners, owner)
	}
	if len(owners) > 0 {
		metadata["ownerReferences"] = owners
	}
	o["metadata"] = metadata
	return o
}

func labelsOf(o map[string]any) map[string]any {
	out, _ := o["metadata"].(map[string]any)["labels"].(map[string]any)
	return out
}

var membership = parent.MembershipLabels()

// controllerOf an object: the owner that is its controller; nil for none.
func controllerOf(o map[string]any) map[string]any {
	owners, _ := o["metadata"].(map[string]any)["ownerReferences"].([]any)
	for _, e := range owners {
		if owner, _ := e.(map[string]any); owner["controller"] == true {
			return owner
		}
	}
	return nil
}

// next state: often only a little of it is another.
func next(r *rand.Rand, was map[string]any) map[string]any {
	other := state(r)
	is := maps.Clone(other)
	for _, k := range slices.Sorted(maps.Keys(was)) { // in order, so that a seed gives the same state each time
		if _, both := other[k]; both && r.IntN(3) > 0 {
			is[k] = was[k]
		}
	}
	if r.IntN(3) == 0 { // owners alone
		metadata := maps.Clone(other["metadata"].(map[string]any))
		delete(metadata, "annotations")
		if annotations := annotationsOf(was); annotations != nil {
			metadata["annotations"] = annotations
		}
		is["metadata"] = metadata
	}
	return is
}

// differs in one of the keys that count.
func differ(was, is map[string]any, counts func(string) bool) bool {
	for _, k := range slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is))) {
		a, had := was[k]
		b, has := is[k]
		if counts(k) && (had != has || !reflect.DeepEqual(a, b)) {
			return true
		}
	}
	return false
}

func desired(key string) bool {
	return !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, key)
}

func annotationsOf(o map[string]any) map[string]any {
	out, _ := o["metadata"].(map[string]any)["annotations"].(map[string]any)
	return out
}

// TestConditions: the conditions are true where they should be, evaluated by the
// API server's own code (KR-08-15, KR-12-03, KR-12-05, KR-13-13, KR-13-16).
func TestConditions(t *testing.T) {
	in := &input{}
	metadata := matcher(metadataConditions(in))
	webhook, policy := matcher(mutateConditions(in, entry{})), matcher(protectionPolicy(in).Spec.MatchConditions)
	only := func(keys ...string) func(string) bool { return func(k string) bool { return slices.Contains(keys, k) } }
	var system []string
	if err := json.Unmarshal([]byte(systemKeys), &system); err != nil {
		t.Fatal(err)
	}
	called := map[[2]bool]int{}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 0))
		was := state(r)
		is := next(r, was)
		before, now := annotationsOf(was), annotationsOf(is)
		wantKept := differ(before, now, func(k string) bool { return strings.HasPrefix(k, "kausality.io/") }) ||
			!reflect.DeepEqual(controllerOf(was), controllerOf(is)) || differ(labelsOf(was), labelsOf(is), only(membership...))
		wantCalled := differ(was, is, desired) || wantKept
		removed := slices.ContainsFunc(keptKeys, func(k string) bool { return before[k] != nil && now[k] == nil })
		ours := now["kausality.io/trace"] != nil && differ(before, now, only("kausality.io/trace")) && differ(before, now, only("kausality.io/management-policies"))
		wantTouched := removed || differ(before, now, only(system...)) && !differ(was, is, desired) && !ours
		for _, own := range []bool{false, true} {
			v := updating(was, is, own)
			a, b := webhook.Match(t.Context(), v, nil, nil), policy.Match(t.Context(), v, nil, nil)
			m := metadata.Match(t.Context(), v, nil, nil)
			if a.Error != nil || b.Error != nil || m.Error != nil {
				t.Fatal(a.Error, b.Error, m.Error)
			}
			if m.Matches != (wantKept && !own) {
				t.Fatalf("seed %d, own %t: called for a status %t, want %t", seed, own, m.Matches, wantKept)
			}
			if a.Matches != (wantCalled && !own) || b.Matches != (wantTouched && !own) {
				t.Fatalf("seed %d, own %t: called %t, want %t; touched %t, want %t\n%v\n%v", seed, own, a.Matches, wantCalled && !own, b.Matches,
					wantTouched && !own, was, is)
			}
			called[[2]bool{a.Matches, b.Matches}]++
		}
	}
	if len(called) != 3 { // a write that touches annotations of ours is always sent to the webhook
		t.Errorf("not every case came: %v", called)
	}
}

// A write of a status that changes what is Kausality's of the metadata is refused while the
// webhook is down, whatever annotation it is (KR-13-54).
func TestStatusTouches(t *testing.T) {
	object := func(annotations map[string]any, owners ...any) map[string]any {
		return map[string]any{"apiVersion": "example.org/v1", "kind": "Thing",
			"metadata": map[string]any{"name": "thing", "annotations": annotations, "ownerReferences": owners}}
	}
	owner := map[string]any{"apiVersion": "v1", "kind": "Owner", "name": "owner", "uid": "u", "controller": true}
	m := matcher(protectionPolicy(&input{}).Spec.MatchConditions)
	for name, tc := range map[string]struct {
		was, is map[string]any
		// status, plain: whether it is matched as a write of the status, and of the object.
		status, plain bool
	}{
		"User":    {was: object(nil), is: object(map[string]any{"kausality.io/approve-1": "once"}), status: true},
		"Removed": {was: object(map[string]any{"kausality.io/freeze": "true"}), is: object(nil), status: true},
		"System": {was: object(map[string]any{"kausality.io/trace": "[]"}), is: object(map[string]any{"kausality.io/trace": "[1]"}),
			status: true, plain: true},
		"Claims":  {was: object(map[string]any{"kausality.io/claims": "[1]"}), is: object(map[string]any{"kausality.io/claims": "[]"}), status: true},
		"Owner":   {was: object(nil, owner), is: object(nil), status: true},
		"Another": {was: object(map[string]any{"a": "b"}), is: object(map[string]any{"a": "c"})},
		"Nothing": {was: object(map[string]any{"kausality.io/trace": "[]"}, owner), is: object(map[string]any{"kausality.io/trace": "[]"}, owner)},
	} {
		for subresource, want := range map[string]bool{"": tc.plain, "status": tc.status} {
			v := updating(tc.was, tc.is, false)
			v.Attributes = admission.NewAttributesRecord(v.VersionedObject, v.VersionedOldObject, v.VersionedKind, "default", "thing", v.GetResource(),
				subresource, admission.Update, v.GetOperationOptions(), false, v.GetUserInfo())
			if got := m.Match(t.Context(), v, nil, nil); got.Error != nil || got.Matches != want {
				t.Errorf("%s, subresource %q: matched %t, want %t; error %v", name, subresource, got.Matches, want, got.Error)
			}
		}
	}
}

// The removal of a provider's finalizer is worth a call, and that of no other one
// (KR-13-53).
func TestFinalizerOfAProvider(t *testing.T) {
	object := func(finalizers ...any) map[string]any {
		return map[string]any{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "thing", "finalizers": finalizers}}
	}
	m := matcher(mutateConditions(&input{}, entry{}))
	for name, tc := range map[string]struct {
		was, is map[string]any
		want    bool
	}{
		"Removed": {was: object("a", parent.ProviderFinalizer), is: object("a"), want: true},
		"All":     {was: object(parent.ProviderFinalizer), is: object(), want: true},
		"Another": {was: object("a", parent.ProviderFinalizer), is: object(parent.ProviderFinalizer)},
		"Added":   {was: object("a"), is: object("a", parent.ProviderFinalizer)},
	} {
		got := m.Match(t.Context(), updating(tc.was, tc.is, false), nil, nil)
		if got.Error != nil || got.Matches != tc.want {
			t.Errorf("%s: called %t, want %t; error %v", name, got.Matches, tc.want, got.Error)
		}
	}
}

// A label by which a policy selects objects is worth a call, and no other one
// (KR-13-46).
func TestLabelsOfSelectors(t *testing.T) {
	gold := settings.Scope{Policy: "gold", APIGroups: []string{"example.org"}, Resources: []string{"things"}, ObjectSelector: &metav1.LabelSelector{
		MatchLabels:      map[string]string{"tier": "gold"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "free", Operator: metav1.LabelSelectorOpDoesNotExist}},
	}}
	every := settings.Scope{Policy: "all", APIGroups: []string{"example.org"}, Resources: []string{"*"}}
	other := settings.Scope{Policy: "other", APIGroups: []string{"apps"}, Resources: []string{"*"}}
	scopes := []settings.Scope{gold, every, other}
	entries := map[string]entry{
		"gold": {own: scopes[:1], before: scopes[:1]}, "all": {own: scopes[1:2], before: scopes[:2]}, "other": {own: scopes[2:], before: scopes},
	}
	for name, tc := range map[string]struct {
		was, is map[string]any
		want    bool
	}{
		"Removed":      {was: map[string]any{"tier": "gold", "a": "b"}, is: map[string]any{"a": "b"}, want: true},
		"AllRemoved":   {was: map[string]any{"tier": "gold"}, want: true},
		"Added":        {is: map[string]any{"free": ""}, want: true},
		"Changed":      {was: map[string]any{"tier": "gold"}, is: map[string]any{"tier": "tin"}, want: true},
		"AnotherLabel": {was: map[string]any{"tier": "gold", "role": "replica"}, is: map[string]any{"tier": "gold", "role": "master"}},
		"None":         {},
	} {
		for of, e := range entries {
			conditions := mutateConditions(&input{}, e)[:1] // the other one is about which entry is called
			object := func(labels map[string]any) map[string]any {
				metadata := map[string]any{"name": "thing"}
				if labels != nil {
					metadata["labels"] = labels
				}
				return map[string]any{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
			}
			got := matcher(conditions).Match(t.Context(), updating(object(tc.was), object(tc.is), false), nil, nil)
			if want := tc.want && of != "other"; got.Error != nil || got.Matches != want {
				t.Errorf("%s of entry %s: called %t, want %t; error %v", name, of, got.Matches, want, got.Error)
			}
		}
	}
}

// A label by which an UpgradeAllowance selects is worth a call of any entry (KR-13-46).
func TestLabelsOfUpgradeAllowances(t *testing.T) {
	m := matcher(mutateConditions(&input{selectedBy: []string{"tier"}}, entry{})[:1])
	object := func(labels map[string]any) map[string]any {
		return map[string]any{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "thing", "labels": labels}}
	}
	for key, want := range map[string]bool{"tier": true, "role": false} {
		got := m.Match(t.Context(), updating(object(map[string]any{"a": "b"}), object(map[string]any{"a": "b", key: "x"}), false), nil, nil)
		if got.Error != nil || got.Matches != want {
			t.Errorf("%s: called %t, error %v", key, got.Matches, got.Error)
		}
	}
}

// Of very many annotations the API server looks at none: that would take seconds.
func TestVeryManyAnnotations(t *testing.T) {
	was, is := thing(1, "1"), thing(1, "1")
	for i := range 20000 {
		annotationsOf(was)[fmt.Sprintf("example.org/%d", i)] = "x"
		annotationsOf(is)[fmt.Sprintf("example.org/%d", i)] = "y"
	}
	m := matcher(mutateConditions(&input{}, entry{}))
	for _, v := range []*admission.VersionedAttributes{updating(was, is, false), updating(was, thing(1, "1"), false)} {
		allocations := testing.AllocsPerRun(1, func() {
			if r := m.Match(t.Context(), v, nil, nil); r.Error != nil || !r.Matches {
				t.Errorf("%+v", r)
			}
		})
		t.Logf("%.0f allocations", allocations)
		if allocations > 4000 { // one for ten annotations
			t.Errorf("%.0f allocations", allocations)
		}
	}
}

// What the API server takes for them; "Least" is what any condition costs.
func BenchmarkConditions(b *testing.B) {
	in := &input{}
	was, mine, trace := thing(1, "1"), thing(2, "1"), thing(2, "2")
	for _, c := range []struct {
		name string
		of   []admissionregistrationv1.MatchCondition
		is   map[string]any
	}{
		{name: "Webhook/Change", of: mutateConditions(in, entry{}), is: mine},
		{name: "Webhook/Nothing", of: mutateConditions(in, entry{}), is: was},
		{name: "Policy/Change", of: protectionPolicy(in).Spec.MatchConditions, is: trace},
		{name: "Policy/Nothing", of: protectionPolicy(in).Spec.MatchConditions, is: was},
		{name: "Least", of: []admissionregistrationv1.MatchCondition{{Name: "least", Expression: "true"}}, is: was},
	} {
		m, v := matcher(c.of), updating(was, c.is, false)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := m.Match(b.Context(), v, nil, nil); r.Error != nil {
					b.Fatal(r.Error)
				}
			}
		})
	}
}

// thing is a custom resource of 3.5 KB.
func thing(count int64, trace string) map[string]any {
	data := map[string]any{}
	for i := range 60 {
		data[fmt.Sprintf("field%02d", i)] = strings.Repeat("x", 40)
	}
	return map[string]any{
		"apiVersion": "example.org/v1", "kind": "Thing", "spec": map[string]any{"count": count, "data": data},
		"metadata": map[string]any{"name": "thing", "annotations": map[string]any{"a": "b", "kausality.io/trace": trace, "kausality.io/updaters": "abc"}},
	}
}
