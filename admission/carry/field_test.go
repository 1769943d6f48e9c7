package external

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTakesTags(t *testing.T) {
	some := map[string]any{"tags": map[string]any{}}
	cases := map[string]struct {
		reason string
		group  string
		is     []map[string]any
		want   bool
	}{
		"Upbound": {reason: "a managed resource of AWS with tags", group: "s3.aws.upbound.io", is: []map[string]any{some},
			want: true},
		"Namespaced": {reason: "the namespaced ones too", group: "s3.aws.m.upbound.io", is: []map[string]any{nil, some}, want: true},
		"Classic":    {reason: "the older provider too", group: "s3.aws.crossplane.io", is: []map[string]any{some, nil}, want: true},
		"NoTags": {reason: "a kind may have none, and would refuse them", group: "iam.aws.upbound.io",
			is: []map[string]any{{}, nil}},
		"List": {reason: "a list of tags has another form", group: "ec2.aws.crossplane.io",
			is: []map[string]any{{"tags": []any{}}}},
		"Other":  {reason: "another cloud has other limits", group: "storage.gcp.upbound.io", is: []map[string]any{some}},
		"Sounds": {reason: "the whole label counts", group: "flaws.example.org", is: []map[string]any{some}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := TakesTags(schema.GroupKind{Group: tc.group, Kind: "Bucket"}, tc.is...); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestTakesEnv covers KR-08-43.
func TestTakesEnv(t *testing.T) {
	for gk, want := range map[schema.GroupKind]bool{
		{Group: "tf.upbound.io", Kind: "Workspace"}:         true,
		{Group: "tf.m.upbound.io", Kind: "Workspace"}:       true,
		{Group: "opentofu.upbound.io", Kind: "Workspace"}:   true,
		{Group: "opentofu.m.upbound.io", Kind: "Workspace"}: true,
		{Group: "tf.upbound.io", Kind: "ProviderConfig"}:    false,
		{Group: "example.org", Kind: "Workspace"}:           false,
	} {
		if got := TakesEnv(gk); got != want {
			t.Errorf("TakesEnv(%s) = %t", gk, got)
		}
	}
}
