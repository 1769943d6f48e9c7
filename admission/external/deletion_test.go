package external

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/verb"
)

func TestDestroys(t *testing.T) {
	terraform := schema.GroupKind{Group: "infra.contrib.fluxcd.io", Kind: "Terraform"}
	application := schema.GroupKind{Group: "argoproj.io", Kind: "Application"}
	finalizers := func(names ...any) map[string]any {
		return map[string]any{"metadata": map[string]any{"finalizers": names}}
	}
	removal := func(index, name string) string {
		return `--type=json -p '[{"op":"test","path":"/metadata/finalizers/` + index + `","value":"` + name + `"},` +
			`{"op":"remove","path":"/metadata/finalizers/` + index + `"}]'`
	}
	const background = argoFinalizer + "/background"
	cases := map[string]struct {
		reason  string
		kind    schema.GroupKind
		content map[string]any
		want    Destruction
	}{
		"Terraform": {reason: "a Terraform that destroys what it made", kind: terraform,
			content: map[string]any{"spec": map[string]any{"destroyResourcesOnDeletion": true}},
			want: Destruction{Verb: verb.Destroy, Why: "spec.destroyResourcesOnDeletion destroys everything it made",
				Otherwise: `--type=merge -p '{"spec":{"destroyResourcesOnDeletion":false}}'`}},
		"TerraformKeeps": {reason: "one that does not", kind: terraform, content: map[string]any{"spec": map[string]any{}}},
		"Application": {reason: "its finalizer deletes what it deployed, and is removed alone", kind: application,
			content: finalizers(argoFinalizer),
			want:    Destruction{Verb: verb.Remove, Why: "its finalizer " + argoFinalizer + " deletes everything it deployed", Otherwise: removal("0", argoFinalizer)}},
		"OtherFinalizers": {reason: "finalizers of other controllers stay", kind: application,
			content: finalizers("example.org/backup", background),
			want:    Destruction{Verb: verb.Remove, Why: "its finalizer " + background + " deletes everything it deployed", Otherwise: removal("1", background)}},
		"ApplicationKeeps": {reason: "an Application without it", kind: application, content: finalizers("example.org/backup", argoFinalizer+"s")},
		"OtherKind":        {reason: "no other kind", kind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, content: finalizers(argoFinalizer)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Destroys(tc.kind, tc.content)); d != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, d)
			}
		})
	}
}
