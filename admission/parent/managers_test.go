package parent

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func managed(entries ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "X",
		"metadata": map[string]any{"name": "x", "managedFields": entries}}}
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
		"None": {reason: "no status was written",
			entries: []any{entry("kubectl", "", map[string]any{"f:spec": map[string]any{}})}},
		"Observed": {reason: "who observes", entries: []any{entry("ctl", "status", observed)}, want: "ctl",
			all: []string{"ctl"}},
		"ObservedSecond": {reason: "other managers that write there",
			entries: []any{entry("other", "status", conditionFields("Foo", false)), entry("ctl", "status", observed)}, want: "ctl",
			all: []string{"other", "ctl"}},
		"NotOfACondition": {reason: "the observedGeneration of a condition is not that of the object",
			entries: []any{entry("other", "status", conditionFields("Foo", true)), entry("ctl", "status", observed)}, want: "ctl",
			all: []string{"other", "ctl"}},
		"Synced": {reason: "the deciding condition",
			entries: []any{entry("other", "status", conditionFields("Foo", true)), entry("crossplane", "status", conditionFields("Synced", true))},
			want:    "crossplane", all: []string{"other", "crossplane"}},
		"SyncedOverReady": {reason: "Synced before Ready",
			entries: []any{entry("a", "status", conditionFields("Ready", true)), entry("b", "status", conditionFields("Synced", true))}, want: "b",
			all: []string{"a", "b"}},
		"Ready": {reason: "Ready where there is no Synced",
			entries: []any{entry("a", "status", conditionFields("Ready", false))}, want: "a", all: []string{"a"}},
		"NotSyncedTo": {reason: "another condition whose name begins alike",
			entries: []any{entry("a", "status", conditionFields("SyncedTo", false)), entry("b", "status", conditionFields("Ready", false))}, want: "b",
			all: []string{"a", "b"}},
		"Atomic": {reason: "conditions that are one value to the API server",
			entries: []any{entry("other", "status", conditionFields("Foo", true)),
				entry("ctl", "status", map[string]any{"f:status": map[string]any{"f:conditions": map[string]any{}}})},
			want: "ctl", all: []string{"other", "ctl"}},
		"NotTheStatusPart": {reason: "a status written through the main resource is no status write",
			entries: []any{entry("kubectl", "", observed)}},
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

// TestOf covers KR-01-02, KR-01-03.
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
		"Controller": {reason: "the owner with controller: true", owners: []any{owner(false), owner(true)}, role: RoleNone,
			want: p},
		"NoController": {reason: "other owners are no parents", owners: []any{owner(false)}, role: RoleNone, want: Ref{}},
		"None":         {reason: "no owner", role: RoleNone, want: Ref{}},
		"Claim": {reason: "the Claim of a composite", spec: map[string]any{"claimRef": claimRef}, role: RoleComposite,
			want: claim},
		"OwnerOverClaim": {reason: "a nested composite's parent is its owner", owners: []any{owner(true)},
			spec: map[string]any{"claimRef": claimRef}, role: RoleComposite, want: p},
		"PersistentVolume": {reason: "its spec.claimRef is not a Claim",
			spec: map[string]any{"claimRef": map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "team", "name": "c"}},
			role: RoleNone, want: Ref{}},
		"ClaimRefPartial": {reason: "without a name it refers to nothing",
			spec: map[string]any{"claimRef": map[string]any{"kind": "Claim"}}, role: RoleComposite, want: Ref{}},
		"ModernXR": {reason: "an XR with spec.crossplane has no Claim; its claimRef is its author's",
			spec: map[string]any{"claimRef": claimRef, "crossplane": map[string]any{}}, role: RoleComposite, want: Ref{}},
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

// TestMachinery covers KR-01-05.
func TestMachinery(t *testing.T) {
	cases := map[string]struct {
		role    Role
		modern  bool
		present []string
		absent  []string
	}{
		"LegacyXR": {role: RoleComposite,
			present: []string{"crossplane", "resourceRefs", "resourceRef", "claimRef", "compositionRef", "compositionRevisionRef",
				"compositionRevisionSelector", "compositionSelector", "compositionUpdatePolicy", "writeConnectionSecretToRef"},
			absent: []string{"size"}},
		"ModernXR": {role: RoleComposite, modern: true, present: []string{"crossplane"},
			absent: []string{"resourceRefs", "resourceRef"}},
		"Claim": {role: RoleClaim, present: []string{"resourceRef", "compositionRef"}, absent: []string{"size"}},
		"MR":    {role: RoleManaged, absent: []string{"crossplane", "resourceRefs"}},
		"Other": {role: RoleNone, absent: []string{"crossplane", "claimRef"}},
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

// TestWritten: the time of a write is that of its entry in managedFields, which admission is later than (KR-07-02, KR-07-14). An entry that any user
// may have put there does not make it older than a webhook can be slow.
func TestWritten(t *testing.T) {
	admitted := time.Date(2026, 1, 2, 11, 0, 9, 5e8, time.UTC)
	at := func(name, time string) map[string]any {
		e := entry(name, "", nil)
		e["time"] = time
		return e
	}
	const before, at0, at7 = "2026-01-02T10:00:00Z", "2026-01-02T11:00:00Z", "2026-01-02T11:00:07Z"
	for name, tc := range map[string]struct {
		reason   string
		old, new *unstructured.Unstructured
		want     time.Time
	}{
		"Entered": {reason: "the API server entered it before it called", old: managed(at("a", before)), new: managed(at("a", before), at("b", at7)),
			want: admitted.Add(-2500 * time.Millisecond)},
		"Again":   {reason: "of a manager that wrote before", old: managed(at("a", at0)), new: managed(at("a", at7)), want: admitted.Add(-2500 * time.Millisecond)},
		"Create":  {reason: "of an object that is new", new: managed(at("a", at7)), want: admitted.Add(-2500 * time.Millisecond)},
		"NoEntry": {reason: "the write has none of its own", old: managed(at("a", at7)), new: managed(at("a", at7)), want: admitted},
		"Moved":   {reason: "nor where an entry goes", old: managed(at("a", at0), at("b", at7)), new: managed(at("b", at7)), want: admitted},
		"Forged": {reason: "no webhook is that slow", old: managed(at("a", before)), new: managed(at("a", before), at("b", "2026-01-02T10:59:00Z")),
			want: admitted},
		"Future":   {reason: "no write is made after its admission", old: managed(), new: managed(at("a", "2026-01-02T12:00:00Z")), want: admitted},
		"Untimed":  {reason: "an entry without a time", old: managed(), new: managed(at("a", "soon")), want: admitted},
		"Deletion": {reason: "nothing is left", old: managed(at("a", at7)), want: admitted},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Written(tc.old, tc.new, admitted), tc.reason)
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
		"Fields": {reason: "its fields changed", old: managed(entry("a", "", size), entry("b", "", size)),
			new: managed(entry("a", "", size), entry("b", "", more)), want: "b"},
		"Time": {reason: "its time moved", old: managed(entry("a", "", size)),
			new: managed(at(entry("a", "", size), "2026-01-02T00:00:01Z")), want: "a"},
		"New": {reason: "it was not there", old: managed(entry("a", "", size)),
			new: managed(entry("a", "", size), entry("b", "", size)), want: "b"},
		"Create": {reason: "on CREATE", new: managed(entry("a", "", size)), want: "a"},
		"Nobody": {reason: "nothing changed", old: managed(entry("a", "", size)), new: managed(entry("a", "", size))},
		"Lost": {reason: "who only loses fields to another", old: managed(entry("a", "", more), entry("b", "", size)),
			new: managed(entry("b", "", size))},
		"Two": {reason: "two that differ identify none", old: managed(),
			new: managed(entry("a", "", size), entry("b", "", size))},
		"Applied": {reason: "an apply names its manager itself", old: managed(), new: managed(apply(entry("a", "", size)))},
		"SameName": {reason: "entries of one manager for the status and the rest are two", old: managed(entry("a", "status", size)),
			new: managed(entry("a", "status", size), entry("a", "", size)), want: "a"},
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

// A provider is known by the finalizer before it wrote any status (KR-01-07).
func TestProvides(t *testing.T) {
	finalizer := func(name string) map[string]any {
		return map[string]any{"f:metadata": map[string]any{"f:finalizers": map[string]any{`v:"` + name + `"`: map[string]any{}}}}
	}
	o := managed(entry("provider", "", finalizer("finalizer.managedresource.crossplane.io")), entry("other", "", finalizer("example.org/x")))
	got := map[string]bool{"provider": Provides(o, "provider"), "other": Provides(o, "other"), "": Provides(o, ""), "kubectl": Provides(o, "kubectl")}
	if diff := cmp.Diff(map[string]bool{"provider": true, "other": false, "": false, "kubectl": false}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if !WritesStatus(managed(entry("a", "status", nil)), "a") || WritesStatus(managed(entry("a", "", nil)), "a") ||
		WritesStatus(managed(entry("", "status", nil)), "") {
		t.Error("only a status entry of a named manager counts")
	}
}

// A time in the future, which any user with edit rights can write, counts as the
// present (KR-13-05).
func TestTimesAhead(t *testing.T) {
	spec := map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}}
	ahead := entry("kubectl", "", spec)
	ahead["time"] = "2099-01-01T00:00:00Z"
	scaled := entry("autoscaler", "scale", map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}})
	scaled["time"] = "2099-01-01T00:00:00Z"
	o := parse(t, settledXR)
	field([]any{ahead, scaled}, "metadata", "managedFields")(o)
	s := Sum(o, RoleComposite)
	for what, got := range map[string]time.Time{"intent": s.IntentTime, "scale": s.ScaleTime} {
		if since := time.Since(got); got.IsZero() || since < 0 || since > time.Minute {
			t.Errorf("the %s is of %s, want now", what, got)
		}
	}
}
