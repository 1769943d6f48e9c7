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
		"Upbound":    {"a managed resource of AWS with tags", "s3.aws.upbound.io", []map[string]any{some}, true},
		"Namespaced": {"the namespaced ones too", "s3.aws.m.upbound.io", []map[string]any{nil, some}, true},
		"Classic":    {"the older provider too", "s3.aws.crossplane.io", []map[string]any{some, nil}, true},
		"NoTags":     {"a kind may have none, and would refuse them", "iam.aws.upbound.io", []map[string]any{{}, nil}, false},
		"List":       {"a list of tags has another form", "ec2.aws.crossplane.io", []map[string]any{{"tags": []any{}}}, false},
		"Other":      {"another cloud has other limits", "storage.gcp.upbound.io", []map[string]any{some}, false},
		"Sounds":     {"the whole label counts", "flaws.example.org", []map[string]any{some}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := TakesTags(schema.GroupKind{Group: tc.group, Kind: "Bucket"}, tc.is...); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

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
