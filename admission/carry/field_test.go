package carry

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOf covers KR-08-43.
func TestOf(t *testing.T) {
	some, list := map[string]any{"tags": map[string]any{}}, map[string]any{"tags": []any{entry("key", "a", "1")}}
	cases := map[string]struct {
		reason, group  string
		wanted, stored map[string]any
		want           string
	}{
		"Upbound":    {reason: "a managed resource of AWS with tags", group: "s3.aws.upbound.io", wanted: some, want: "tags"},
		"Namespaced": {reason: "the namespaced ones too", group: "s3.aws.m.upbound.io", stored: some, want: "tags"},
		"Classic":    {reason: "the older provider too", group: "s3.aws.crossplane.io", wanted: some, stored: map[string]any{}, want: "tags"},
		"NoTags":     {reason: "a kind may have none, and would refuse them", group: "iam.aws.upbound.io", wanted: map[string]any{}},
		"List":       {reason: "a list of keys and values", group: "ec2.aws.crossplane.io", wanted: list, want: "tags"},
		"EmptyList":  {reason: "its entries may have another form", group: "ec2.aws.crossplane.io", wanted: map[string]any{"tags": []any{}}},
		"WasList": {reason: "but not where others are stored", group: "ec2.aws.crossplane.io", wanted: map[string]any{"tags": []any{}}, stored: list,
			want: "tags"},
		"OtherList": {reason: "as of KMS", group: "kms.aws.crossplane.io", wanted: map[string]any{"tags": []any{
			map[string]any{"tagKey": "a", "tagValue": "1"}}}},
		"Changed": {reason: "one of both is wrong", group: "ec2.aws.crossplane.io", wanted: some, stored: list},
		"Text":    {reason: "nothing that can be read", group: "ec2.aws.crossplane.io", wanted: map[string]any{"tags": "a=b"}},
		"Other":   {reason: "another cloud has other limits", group: "storage.gcp.upbound.io", wanted: some},
		"Sounds":  {reason: "the whole label counts", group: "flaws.example.org", wanted: some},
		"Tofu":    {reason: "runs have an environment", group: "opentofu.m.upbound.io", wanted: map[string]any{}, want: "env"},
		"Terraform": {reason: "runs have an environment", group: "tf.upbound.io", wanted: map[string]any{"env": []any{}},
			stored: map[string]any{}, want: "env"},
		"NoList":       {reason: "the API server refuses it", group: "tf.upbound.io", wanted: map[string]any{"env": "A=1"}},
		"NoWorkspace":  {reason: "a kind of another group", group: "example.org", wanted: map[string]any{"env": []any{}}},
		"NoParameters": {reason: "nothing to write to", group: "tf.upbound.io"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Of(schema.GroupKind{Group: tc.group, Kind: "Workspace"}, tc.wanted, tc.stored); got.Name != tc.want {
				t.Errorf("%s: got %q", tc.reason, got.Name)
			}
		})
	}
	if got := Of(schema.GroupKind{Group: "tf.upbound.io", Kind: "ProviderConfig"}, map[string]any{}, nil); got.Name != "" {
		t.Errorf("a ProviderConfig has the field %q", got.Name)
	}
}

// Fields as Of returns them.
var (
	env  = Of(schema.GroupKind{Group: "tf.upbound.io", Kind: "Workspace"}, map[string]any{}, nil)
	tags = Of(schema.GroupKind{Group: "s3.aws.upbound.io"}, map[string]any{"tags": map[string]any{}}, nil)
	list = Of(schema.GroupKind{Group: "ec2.aws.crossplane.io"}, map[string]any{"tags": []any{entry("key", "a", "1")}}, nil)
)

// entry of a list.
func entry(key, name, value string) any { return map[string]any{key: name, "value": value} }

// many tags; list: as a list.
func many(n int, asList bool) any {
	m, l := map[string]any{}, []any{}
	for i := range n {
		m[strconv.Itoa(i)] = "x"
		l = append(l, entry("key", strconv.Itoa(i), "x"))
	}
	if asList {
		return l
	}
	return m
}

// with returns tags with others.
func with(value any, more ...Entry) any {
	switch v := value.(type) {
	case map[string]any:
		for _, e := range more {
			v[e.Name] = e.Value
		}
	case []any:
		for _, e := range more {
			v = append(v, entry("key", e.Name, e.Value))
		}
		return v
	}
	return value
}

// TestWith: the entries of others stay as they are and where they are, and those of Kausality are the given ones.
func TestWith(t *testing.T) {
	secret := map[string]any{"name": "TOKEN", "secretKeyRef": map[string]any{"name": "s"}}
	one := []Entry{{VariableTraceID, "new"}}
	three := []Entry{{TagTraceID, "new"}, {TagInitiator, "hans"}, {TagOrigin, "o"}}
	cases := map[string]struct {
		reason string
		field  Field
		value  any
		ours   []Entry
		want   any
		fails  bool
	}{
		"Variables": {reason: "ours follow", field: env, value: []any{secret}, ours: one, want: []any{secret, entry("name", VariableTraceID, "new")}},
		"Forged": {reason: "ours in a request are not believed", field: env, value: []any{entry("name", VariableTraceID, "forged"), secret,
			entry("name", "TF_VAR_kausality_origin", "forged")}, ours: one, want: []any{secret, entry("name", VariableTraceID, "new")}},
		"Without": {reason: "ours go", field: env, value: []any{secret, entry("name", VariableAllowed, "apply")}, want: []any{secret}},
		"Last":    {reason: "the field stays where it was set", field: env, value: []any{entry("name", VariableAllowed, "apply")}, want: []any{}},
		"Nothing": {reason: "nil stays nil", field: env},
		"First":   {reason: "the first one", field: env, ours: one, want: []any{entry("name", VariableTraceID, "new")}},
		"NotAnEntry": {reason: "what is no entry is left for the API server to refuse", field: env, value: []any{"x"}, ours: one,
			want: []any{"x", entry("name", VariableTraceID, "new")}},
		"Tags": {reason: "ours beside theirs", field: tags, value: map[string]any{"team": "b"}, ours: three,
			want: with(map[string]any{"team": "b"}, three...)},
		"Empty":       {reason: "the first ones", field: tags, value: map[string]any{}, ours: three, want: with(map[string]any{}, three...)},
		"TagsGo":      {reason: "ours go", field: tags, value: with(map[string]any{}, three...), want: map[string]any{}},
		"Full":        {reason: "exactly fifty", field: tags, value: many(47, false), ours: three, want: with(many(47, false), three...)},
		"TooMany":     {reason: "no room: none of ours", field: tags, value: many(48, false), ours: three, want: many(48, false), fails: true},
		"FullAlso":    {reason: "ours count once", field: tags, value: with(many(47, false), three...), ours: three, want: with(many(47, false), three...)},
		"List":        {reason: "at the end", field: list, value: many(2, true), ours: three, want: with(many(2, true), three...)},
		"ListForged":  {reason: "also there", field: list, value: with(many(2, true), three[1]), ours: three[:1], want: with(many(2, true), three[0])},
		"ListTooMany": {reason: "no room there, either", field: list, value: many(48, true), ours: three, want: many(48, true), fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := runtime.DeepCopyJSONValue(tc.value)
			got, err := tc.field.With(tc.value, tc.ours)
			if (err != nil) != tc.fails {
				t.Errorf("%s: error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if again, _ := tc.field.With(got, tc.ours); !cmp.Equal(got, again) {
				t.Errorf("%s: a second time: %v", tc.reason, again)
			}
			if !tc.fails && !cmp.Equal(tc.field.Taken(got), tc.ours) {
				t.Errorf("%s: ours are %v", tc.reason, tc.field.Taken(got))
			}
			if !cmp.Equal(before, tc.value) {
				t.Errorf("%s: input modified", tc.reason)
			}
		})
	}
}

// TestStrip: what Kausality writes is no part of the desired state, and an empty field is none.
func TestStrip(t *testing.T) {
	object := func(value any) map[string]any {
		forProvider := map[string]any{"region": "eu"}
		if value != nil {
			forProvider["env"] = value
		}
		return map[string]any{"kind": "Workspace", "spec": map[string]any{"forProvider": forProvider}}
	}
	mine := entry("name", "MINE", "1")
	for name, tc := range map[string]struct{ value, want any }{
		"Absent": {}, "Empty": {value: []any{}}, "Ours": {value: []any{entry("name", VariableOrigin, "o")}},
		"Theirs": {value: []any{mine}, want: []any{mine}}, "Both": {value: []any{mine, entry("name", VariableOrigin, "o")}, want: []any{mine}},
	} {
		t.Run(name, func(t *testing.T) {
			before := object(tc.value)
			if diff := cmp.Diff(object(tc.want), env.Strip(before)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if diff := cmp.Diff(object(tc.value), before); diff != "" {
				t.Errorf("input modified: %s", diff)
			}
		})
	}
	if got := env.Strip(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
