package parent

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func managed(entries ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "X", "metadata": map[string]any{"name": "x", "managedFields": entries}}}
}

func entry(manager, subresource string, fields map[string]any) map[string]any {
	e := map[string]any{"manager": manager, "operation": "Update", "time": "2026-01-02T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
	if subresource != "" {
		e["subresource"] = subresource
	}
	return e
}

func conditionFields(kind string, observed bool) map[string]any {
	fields := map[string]any{".": map[string]any{}, "f:status": map[string]any{}, "f:type": map[string]any{}}
	if observed {
		fields["f:observedGeneration"] = map[string]any{}
	}
	return map[string]any{"f:status": map[string]any{"f:conditions": map[string]any{`k:{"type":"` + kind + `"}`: fields}}}
}

// KR-04-04: the manager of f:status.f:observedGeneration or of the
// deciding condition, Synced before Ready.
func TestStatusManager(t *testing.T) {
	observed := map[string]any{"f:status": map[string]any{"f:observedGeneration": map[string]any{}}}
	cases := map[string]struct {
		reason  string
		entries []any
		want    string
		all     []string
	}{
		"None":             {"no status was written", []any{entry("kubectl", "", map[string]any{"f:spec": map[string]any{}})}, "", nil},
		"Observed":         {"who observes", []any{entry("ctl", "status", observed)}, "ctl", []string{"ctl"}},
		"ObservedSecond":   {"other managers that write there", []any{entry("other", "status", conditionFields("Foo", false)), entry("ctl", "status", observed)}, "ctl", []string{"other", "ctl"}},
		"NotOfACondition":  {"the observedGeneration of a condition is not that of the object", []any{entry("other", "status", conditionFields("Foo", true)), entry("ctl", "status", observed)}, "ctl", []string{"other", "ctl"}},
		"Synced":           {"the deciding condition", []any{entry("other", "status", conditionFields("Foo", true)), entry("crossplane", "status", conditionFields("Synced", true))}, "crossplane", []string{"other", "crossplane"}},
		"SyncedOverReady":  {"Synced before Ready", []any{entry("a", "status", conditionFields("Ready", true)), entry("b", "status", conditionFields("Synced", true))}, "b", []string{"a", "b"}},
		"Ready":            {"Ready where there is no Synced", []any{entry("a", "status", conditionFields("Ready", false))}, "a", []string{"a"}},
		"NotSyncedTo":      {"another condition whose name begins alike", []any{entry("a", "status", conditionFields("SyncedTo", false)), entry("b", "status", conditionFields("Ready", false))}, "b", []string{"a", "b"}},
		"Atomic":           {"conditions that are one value to the API server", []any{entry("other", "status", conditionFields("Foo", true)), entry("ctl", "status", map[string]any{"f:status": map[string]any{"f:conditions": map[string]any{}}})}, "ctl", []string{"other", "ctl"}},
		"NotTheStatusPart": {"a status written through the main resource is no status write", []any{entry("kubectl", "", observed)}, "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := managed(tc.entries...)
			s := Sum(o, RoleNone)
			if s.Manager != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, s.Manager)
			}
			if diff := cmp.Diff(tc.all, s.StatusManagers); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOf(t *testing.T) {
	owner := func(controller any) map[string]any {
		return map[string]any{"apiVersion": "example.org/v1", "kind": "P", "name": "p", "uid": "u", "controller": controller}
	}
	claimRef := map[string]any{"apiVersion": "example.org/v1", "kind": "Claim", "namespace": "team", "name": "c"}
	p := Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "P"}, Namespace: "ns", Name: "p", UID: "u"}
	claim := Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Claim"}, Namespace: "team", Name: "c"}

	cases := map[string]struct {
		reason string
		owners []any
		spec   map[string]any
		role   Role
		want   Ref
	}{
		"Controller":     {"the owner with controller: true", []any{owner(false), owner(true)}, nil, RoleNone, p},
		"NoController":   {"other owners are no parents", []any{owner(false)}, nil, RoleNone, Ref{}},
		"None":           {"no owner", nil, nil, RoleNone, Ref{}},
		"Claim":          {"the Claim of a composite", nil, map[string]any{"claimRef": claimRef}, RoleComposite, claim},
		"OwnerOverClaim": {"a nested composite's parent is its owner", []any{owner(true)}, map[string]any{"claimRef": claimRef}, RoleComposite, p},
		"PersistentVolume": {"its spec.claimRef is not a Claim", nil,
			map[string]any{"claimRef": map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "team", "name": "c"}}, RoleNone, Ref{}},
		"ClaimRefPartial": {"without a name it refers to nothing", nil, map[string]any{"claimRef": map[string]any{"kind": "Claim"}}, RoleComposite, Ref{}},
		"ModernXR":        {"an XR with spec.crossplane has no Claim; its claimRef is its author's", nil, map[string]any{"claimRef": claimRef, "crossplane": map[string]any{}}, RoleComposite, Ref{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ns", "ownerReferences": tc.owners}, "spec": tc.spec}}
			got, ok := Of(o, tc.role)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != (tc.want != Ref{}) {
				t.Errorf("%s: ok %t, -want, +got:\n%s", tc.reason, ok, diff)
			}
		})
	}
	if _, ok := Of(nil, RoleComposite); ok {
		t.Error("nothing has no parent")
	}
}

func TestMachinery(t *testing.T) {
	cases := map[string]struct {
		role    Role
		modern  bool
		present []string
		absent  []string
	}{
		"LegacyXR": {RoleComposite, false, []string{"crossplane", "resourceRefs", "resourceRef", "claimRef", "compositionRef", "compositionRevisionRef", "compositionRevisionSelector", "compositionSelector", "compositionUpdatePolicy", "writeConnectionSecretToRef"}, []string{"size"}},
		"ModernXR": {RoleComposite, true, []string{"crossplane"}, []string{"resourceRefs", "resourceRef"}},
		"Claim":    {RoleClaim, false, []string{"resourceRef", "compositionRef"}, []string{"size"}},
		"MR":       {RoleManaged, false, nil, []string{"crossplane", "resourceRefs"}},
		"Other":    {RoleNone, false, nil, []string{"crossplane", "claimRef"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := Machinery(tc.role, tc.modern)
			if i := slices.IndexFunc(tc.present, func(f string) bool { return !m[f] }); i >= 0 {
				t.Errorf("%s is machinery", tc.present[i])
			}
			if i := slices.IndexFunc(tc.absent, func(f string) bool { return m[f] }); i >= 0 {
				t.Errorf("%s is not machinery", tc.absent[i])
			}
		})
	}
}

// Who writes where the request does not name a manager: the one Update entry
// that differs.
func TestWriter(t *testing.T) {
	size := map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}}
	more := map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}, "f:class": map[string]any{}}}
	at := func(e map[string]any, time string) map[string]any { e["time"] = time; return e }
	apply := func(e map[string]any) map[string]any { e["operation"] = "Apply"; return e }
	cases := map[string]struct {
		reason   string
		old, new *unstructured.Unstructured
		want     string
	}{
		"Fields":   {"its fields changed", managed(entry("a", "", size), entry("b", "", size)), managed(entry("a", "", size), entry("b", "", more)), "b"},
		"Time":     {"its time moved", managed(entry("a", "", size)), managed(at(entry("a", "", size), "2026-01-02T00:00:01Z")), "a"},
		"New":      {"it was not there", managed(entry("a", "", size)), managed(entry("a", "", size), entry("b", "", size)), "b"},
		"Create":   {"on CREATE", nil, managed(entry("a", "", size)), "a"},
		"Nobody":   {"nothing changed", managed(entry("a", "", size)), managed(entry("a", "", size)), ""},
		"Lost":     {"who only loses fields to another", managed(entry("a", "", more), entry("b", "", size)), managed(entry("b", "", size)), ""},
		"Two":      {"two that differ identify none", managed(), managed(entry("a", "", size), entry("b", "", size)), ""},
		"Applied":  {"an apply names its manager itself", managed(), managed(apply(entry("a", "", size))), ""},
		"SameName": {"entries of one manager for the status and the rest are two", managed(entry("a", "status", size)), managed(entry("a", "status", size), entry("a", "", size)), "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old, changed := tc.old.DeepCopy(), tc.new.DeepCopy()
			if got := Writer(tc.old, tc.new); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
			if diff := cmp.Diff(old, tc.old) + cmp.Diff(changed, tc.new); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// A provider is known by the finalizer before it wrote any status.
func TestProvides(t *testing.T) {
	finalizer := func(name string) map[string]any {
		return map[string]any{"f:metadata": map[string]any{"f:finalizers": map[string]any{`v:"` + name + `"`: map[string]any{}}}}
	}
	o := managed(entry("provider", "", finalizer("finalizer.managedresource.crossplane.io")), entry("other", "", finalizer("example.org/x")))
	got := map[string]bool{"provider": Provides(o, "provider"), "other": Provides(o, "other"), "": Provides(o, ""), "kubectl": Provides(o, "kubectl")}
	if diff := cmp.Diff(map[string]bool{"provider": true, "other": false, "": false, "kubectl": false}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if !WritesStatus(managed(entry("a", "status", nil)), "a") || WritesStatus(managed(entry("a", "", nil)), "a") || WritesStatus(managed(entry("", "status", nil)), "") {
		t.Error("only a status entry of a named manager counts")
	}
}
