package verb

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	create = v1alpha1.VerbCreate
	update = v1alpha1.VerbUpdate
	remove = v1alpha1.VerbDelete
)

// The vocabulary of each system (KR-06-11, KR-08-49).
func TestMeans(t *testing.T) {
	every := map[string][]v1alpha1.Verb{
		"*": {create, update, remove}, "Create": {create}, "Update": {update}, "Delete": {remove},
		"Observe": nil, "LateInitialize": nil, "Apply": nil, "": nil,
	}
	for system, its := range map[System]map[string][]v1alpha1.Verb{
		Crossplane: {"apply": nil, "destroy": nil, "sync": nil, "delete": nil},
		Terraform:  {"apply": {create, update}, "destroy": {remove}, "sync": nil, "delete": nil},
		ArgoCD:     {"apply": nil, "destroy": nil, "sync": {create, update}, "delete": {remove}},
		Any:        {"apply": {create, update}, "destroy": {remove}, "sync": {create, update}, "delete": {remove}},
	} {
		for _, words := range []map[string][]v1alpha1.Verb{every, its} {
			for v, want := range words {
				if diff := cmp.Diff(want, system.Means(v)); diff != "" {
					t.Errorf("%s %q: -want, +got:\n%s", system, v, diff)
				}
				if listed := slices.Contains(system.Verbs(), v); listed != (want != nil) {
					t.Errorf("%s lists %q: %t", system, v, listed)
				}
			}
		}
	}
}

func TestOf(t *testing.T) {
	for text, want := range map[string]System{
		"Workspace.tf.upbound.io": Terraform, "Workspace.tf.m.upbound.io": Terraform, "Workspace.opentofu.upbound.io": Terraform,
		"Workspace.opentofu.m.upbound.io": Terraform, "Workspace.example.org": Crossplane, "ProviderConfig.tf.upbound.io": Crossplane,
		"Terraform.infra.contrib.fluxcd.io": Terraform, "Terraform.example.org": Crossplane,
		"Application.argoproj.io": ArgoCD, "AppProject.argoproj.io": Crossplane, "Bucket.s3.aws.upbound.io": Crossplane,
	} {
		gk := schema.ParseGroupKind(text)
		if got := Of(gk); got != want {
			t.Errorf("%s: %s", text, got)
		}
		foreign := want != Crossplane && gk.Kind != "Workspace"
		if got := IsForeign(gk); got != foreign {
			t.Errorf("%s is foreign: %t", text, got)
		}
		if got := Default(gk); slices.Contains(got, create) != foreign || !slices.Contains(got, update) || slices.Contains(got, remove) {
			t.Errorf("%s without verbs: %v", text, got)
		}
	}
}

// A verb that can have no effect is certain to have none only where the kind is known, or no
// kind of that name has it (KR-08-49).
func TestUnfit(t *testing.T) {
	kind := func(text string) Target {
		gk := schema.ParseGroupKind(text)
		return Target{Group: gk.Group, Kind: gk.Kind}
	}
	named := func(kind string) Target { return Target{Kind: kind, AnyGroup: true} }
	anything := Target{AnyKind: true, AnyGroup: true}
	cases := map[string]struct {
		target  Target
		verb    string
		certain bool
		why     string
	}{
		"Crossplane":          {target: kind("Bucket.example.org"), verb: "Update"},
		"All":                 {target: kind("Bucket.example.org"), verb: "*"},
		"ApplyOfBucket":       {target: kind("Bucket.example.org"), verb: "apply", certain: true, why: "for Bucket.example.org: Create, Update, Delete, *"},
		"LowerCaseDelete":     {target: kind("Bucket.example.org"), verb: "delete", certain: true, why: "Applications of Argo CD alone"},
		"Reboot":              {target: kind("Bucket.example.org"), verb: "reboot", certain: true, why: "no verb of an external system: Create"},
		"ApplyOfWorkspace":    {target: kind("Workspace.tf.upbound.io"), verb: "apply"},
		"SyncOfWorkspace":     {target: kind("Workspace.tf.upbound.io"), verb: "sync", certain: true, why: "for Workspace.tf.upbound.io: apply, destroy, Create"},
		"SyncOfApplication":   {target: kind("Application.argoproj.io"), verb: "sync"},
		"ApplyOfApplication":  {target: kind("Application.argoproj.io"), verb: "apply", certain: true, why: "sync, delete, Create"},
		"DestroyOfTerraform":  {target: kind("Terraform.infra.contrib.fluxcd.io"), verb: "destroy"},
		"ApplyOfAWorkspace":   {target: named("Workspace"), verb: "apply", why: "Workspaces and Terraform objects of Flux alone"},
		"SyncOfAWorkspace":    {target: named("Workspace"), verb: "sync", certain: true, why: "for Workspace: "},
		"SyncOfAnApplication": {target: named("Application"), verb: "sync", why: "Applications of Argo CD alone"},
		"ApplyOfABucket":      {target: named("Bucket"), verb: "apply", certain: true, why: "for Bucket: "},
		"UpdateOfAnything":    {target: anything, verb: "Update"},
		"ApplyOfAnything":     {target: anything, verb: "apply", why: "Workspaces and Terraform objects of Flux alone"},
		"RebootOfAnything":    {target: anything, verb: "reboot", certain: true, why: "no verb"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			why, certain := tc.target.Unfit(tc.verb)
			if certain != tc.certain || (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) {
				t.Errorf("%t: %s", certain, why)
			}
		})
	}
}

func TestNames(t *testing.T) {
	opened := []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate, v1alpha1.VerbLateInitialize, v1alpha1.VerbDelete}
	for system, want := range map[System][]string{
		Terraform: {"apply", "destroy"}, ArgoCD: {"sync", "delete"}, Crossplane: {"Create", "Update", "Delete"},
	} {
		if got := system.Names(opened); !slices.Equal(got, want) {
			t.Errorf("%s: want %v, got %v", system, want, got)
		}
	}
}
