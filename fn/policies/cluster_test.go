package policies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// The conditions by which a kind counts as initialized are those of the policies, as for the webhook (KR-03-09, KR-09-23).
func TestInitialized(t *testing.T) {
	k := &v1alpha1.Kausality{}
	k.Name = "all"
	k.Spec.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{"example.org"}, Resources: []string{"*"}}}
	k.Spec.Lifecycle = []v1alpha1.LifecycleRule{{APIGroup: "example.org", Kind: "XDatabase", Initialized: []string{"Provisioned"}}}
	set, errs := settings.Compile([]*v1alpha1.Kausality{k})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c := Cluster{settings: set}
	if d := cmp.Diff([]string{"Provisioned"}, c.Initialized(schema.GroupKind{Group: "example.org", Kind: "XDatabase"})); d != "" {
		t.Error(d)
	}
	if got := c.Initialized(schema.GroupKind{Group: "example.com", Kind: "XDatabase"}); got != nil {
		t.Errorf("of another group: %v", got)
	}
	if got := (Cluster{}).Initialized(schema.GroupKind{Kind: "XDatabase"}); got != nil {
		t.Errorf("of no policy: %v", got)
	}
}
