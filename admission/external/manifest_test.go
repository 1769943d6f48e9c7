package external

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/builtin"
	"github.com/kausality-io/function-kausality/admission/change"
)

func manifestMR(want, have object) object {
	return mr(object{"manifest": want}, object{"manifest": have})
}

func deployment() object {
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "a", "labels": object{"app": "x", "n": "1"}},
		"spec": object{"replicas": int64(3), "paused": true, "selector": object{"matchLabels": object{"app": "x"}},
			"template": object{"spec": object{"automountServiceAccountToken": false, "containers": []any{object{"name": "c", "image": "nginx:1.10",
				"args": []any{"a", "b"}, "env": []any{object{"name": "E", "value": "60s"}},
				"ports":     []any{object{"containerPort": int64(80), "name": "http", "protocol": "TCP"}},
				"resources": object{"limits": object{"cpu": "2", "memory": "1Gi"}}}}}}}}
}

// TestManifest covers KR-08-44 and KR-13-01: an object of Kubernetes is compared as its API
// server stores it.
func TestManifest(t *testing.T) {
	const m = "spec.forProvider.manifest."
	data := func(kind string, d object) object { return object{"apiVersion": "v1", "kind": kind, "data": d} }
	cases := map[string]struct {
		reason     string
		want, have object
		diff       []change.Change
	}{
		"Quota": {reason: "a number against a quantity",
			want: object{"apiVersion": "v1", "kind": "ResourceQuota", "spec": object{"hard": object{"pods": int64(100)}}},
			have: object{"apiVersion": "v1", "kind": "ResourceQuota", "spec": object{"hard": object{"pods": "100"}}}},
		"Removed": {reason: "a key that was removed outside", want: data("ConfigMap", object{"a": "1"}), have: data("ConfigMap", object{}),
			diff: []change.Change{{Path: m + "data.a", Verb: change.Insert, New: "1"}}},
		"RemovedAll": {reason: "and all of them", want: data("ConfigMap", object{"a": "1"}), have: object{"apiVersion": "v1", "kind": "ConfigMap"},
			diff: []change.Change{{Path: m + "data", Verb: change.Insert, New: object{"a": "1"}}}},
		"Version": {reason: "a text is compared as it is", want: data("ConfigMap", object{"a": "1.10"}), have: data("ConfigMap", object{"a": "1.1"}),
			diff: []change.Change{mutate(m+"data.a", "1.1", "1.10")}},
		"Secret": {reason: "values of Secrets are marked", want: object{"apiVersion": "v1", "kind": "Secret", "stringData": object{"a": "b"}},
			have: data("Secret", object{"a": "eA=="}), diff: []change.Change{{Path: m + "data.a", Verb: change.Mutate, Old: "eA==", New: "Yg==", Secret: true}}},
		"CustomLabel": {reason: "metadata is the same for all kinds",
			want: object{"apiVersion": "x.example.com/v1", "kind": "X", "metadata": object{"labels": object{"a": "b"}}, "spec": object{"only": "want"}},
			have: object{"apiVersion": "x.example.com/v1", "kind": "X", "metadata": object{"uid": "1"}, "spec": object{}},
			diff: []change.Change{{Path: m + "metadata.labels", Verb: change.Insert, New: object{"a": "b"}}}},
		"CustomQuantity": {reason: "a webhook of the kind may write it in another form",
			want: object{"apiVersion": "x.example.com/v1", "kind": "X", "spec": object{"resources": object{"limits": object{"cpu": int64(2)}}}},
			have: object{"apiVersion": "x.example.com/v1", "kind": "X", "spec": object{"resources": object{"limits": object{"cpu": "2"}}}}},
		"CustomText": {reason: "elsewhere a number is no text", want: object{"apiVersion": "x.example.com/v1", "kind": "X", "spec": object{"v": int64(1)}},
			have: object{"apiVersion": "x.example.com/v1", "kind": "X", "spec": object{"v": "1"}},
			diff: []change.Change{mutate(m+"spec.v", "1", int64(1))}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := manifestMR(tc.want, tc.have)
			before := runtime.DeepCopyJSON(in)
			if d := cmp.Diff(tc.diff, Difference(in)); d != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, d)
			}
			if d := cmp.Diff(before, in); d != "" {
				t.Errorf("input modified: %s", d)
			}
		})
	}
}

// place of a value in an object.
type place struct {
	parent object
	key    string
	list   []any
	index  int
}

func (p place) get() any {
	if p.list != nil {
		return p.list[p.index]
	}
	return p.parent[p.key]
}

func (p place) set(v any) {
	if p.list != nil {
		p.list[p.index] = v
		return
	}
	p.parent[p.key] = v
}

func leaves(v any, at place, out *[]place) {
	switch t := v.(type) {
	case object:
		for k, e := range t {
			leaves(e, place{parent: t, key: k}, out)
		}
	case []any:
		for i, e := range t {
			leaves(e, place{list: t, index: i}, out)
		}
	default:
		*out = append(*out, at)
	}
}

// TestEveryChangeShows: whatever single value of a manifest is changed or removed outside is a
// difference (KR-08-44).
func TestEveryChangeShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := runtime.DeepCopyJSON(deployment())
		delete(have, "apiVersion") // the provider reads by these
		delete(have, "kind")
		var all []place
		leaves(have, place{}, &all)
		p := all[rapid.IntRange(0, len(all)-1).Draw(t, "leaf")]
		was := p.get()
		switch v := was.(type) {
		case string:
			p.set(rapid.SampledFrom([]string{v + "0", v + ".0", "99", v + "m", " " + v, ""}).Draw(t, "text"))
		case bool:
			p.set(!v)
		case int64:
			p.set(rapid.SampledFrom([]int64{v + 1, 11, 0, -v}).Filter(func(n int64) bool { return n != v }).Draw(t, "number"))
		}
		if p.list == nil && rapid.Bool().Draw(t, "remove") {
			delete(p.parent, p.key)
		}
		have["apiVersion"], have["kind"] = "apps/v1", "Deployment"
		if len(Difference(manifestMR(deployment(), have))) == 0 && fmt.Sprint(p.get()) != fmt.Sprint(was) {
			if q, ok := builtin.Quantity(p.get()); ok {
				if r, ok := builtin.Quantity(was); ok && q.Cmp(r) == 0 && (p.key == "cpu" || p.key == "memory") {
					return // another spelling of the same quantity
				}
			}
			t.Fatalf("%s: %v became %v, and nothing differs", p.key, was, p.get())
		}
	})
}

// TestSame covers KR-08-45: forms of one value, and values that only look alike.
func TestSame(t *testing.T) {
	cases := map[string]struct {
		a, b any
		same bool
	}{
		"Units": {a: "1Gi", b: "1024Mi", same: true}, "UnitAndNone": {a: "1000m", b: "1", same: true},
		"Version": {a: "1.10", b: "1.1"}, "Exponent": {a: "1e3", b: "1000"}, "Hash": {a: "1E3", b: "1e3"},
		"Number": {a: "1", b: int64(1)}, "Moved": {a: int64(99), b: int64(11)},
		"Duration": {a: "90s", b: "1m30s", same: true}, "OtherDuration": {a: "90s", b: "90m"}, "Zero": {a: "0", b: "0s"},
		"Document":   {a: `{"a":1.0,"b":[1]}`, b: `{ "b": [1], "a": 1 }`, same: true},
		"BigInteger": {a: `{"a":9007199254740993}`, b: `{"a":9007199254740992}`}, "HugeExponent": {a: `{"a":1e999999999}`, b: `{"a":2e999999999}`},
		"TextInDocument": {a: `{"a":"1"}`, b: `{"a":1}`}, "ListOrder": {a: `[1,2]`, b: `[2,1]`}, "Trailing": {a: `{} x`, b: `{} y`},
		"NullInDocument": {a: `{"a":null}`, b: `{}`}, "Case": {a: "a", b: "A"}, "Space": {a: "a", b: "a "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (&comparer{}).same(tc.a, tc.b); got != tc.same {
				t.Errorf("%v and %v: %t", tc.a, tc.b, got)
			}
			if (&comparer{exact: true}).same(tc.a, tc.b) {
				t.Errorf("%v and %v are equal where both have one form", tc.a, tc.b)
			}
		})
	}
}

// TestInert covers KR-08-46.
func TestInert(t *testing.T) {
	want := object{"apiVersion": "v1", "kind": "ConfigMap", "data": object{"a": "1"}}
	applied := func(v any, managers ...any) object {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{
			"managedFields": managers, "annotations": object{corev1.LastAppliedConfigAnnotation: string(raw)}}}
	}
	other := object{"apiVersion": "v1", "kind": "ConfigMap", "data": object{"a": "2"}}
	for name, tc := range map[string]struct {
		in   object
		want bool
	}{
		"Applied":  {in: manifestMR(want, applied(want)), want: true},
		"Changed":  {in: manifestMR(want, applied(other))},
		"Never":    {in: manifestMR(want, other)},
		"Shared":   {in: manifestMR(want, applied(want, object{"manager": "provider-kubernetes/a", "operation": "Apply"}))},
		"NoObject": {in: mr(object{"a": "1"}, object{"a": "2"})},
	} {
		if got := Inert(tc.in); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
