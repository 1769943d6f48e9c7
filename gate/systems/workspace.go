package systems

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Workspace of provider-terraform or provider-opentofu: a managed resource whose
// provider runs terraform apply for Create and Update alike, and terraform
// destroy for Delete. Its atProvider holds outputs and a checksum, none of which
// is in forProvider: external drift is unknown. (read, provider-terraform v1.0,
// provider-opentofu v1.0.)
type Workspace struct{ Managed }

var workspaceGroups = []string{"tf.upbound.io", "tf.m.upbound.io", "tf.crossplane.io", "opentofu.upbound.io", "opentofu.m.upbound.io"}

// Name is "Terraform workspace".
func (Workspace) Name() string { return "Terraform workspace" }

// Handles Workspaces of both providers, cluster-scoped and namespaced ones.
func (Workspace) Handles(gvk schema.GroupVersionKind, kind admission.Kind) bool {
	return kind.ManagementPolicies && gvk.Kind == "Workspace" && slices.Contains(workspaceGroups, gvk.Group)
}

// Look at a Workspace: what would be applied is unknown.
func (w Workspace) Look(o *unstructured.Unstructured) external.View {
	v := w.Managed.Look(o)
	v.Known, v.Difference, v.Verbs = false, nil, []v1alpha1.Verb{external.VerbApply}
	return v
}

// Open for the gate's verbs, and tell the run by whom. The gate's own edit of a
// managed resource changes no forProvider; this one is made only together with
// an opening, which is a change by itself.
func (w Workspace) Open(o *unstructured.Unstructured, gate v1alpha1.Gate, by external.Provenance) map[string]any {
	var verbs []v1alpha1.Verb
	for _, v := range gate.Verbs {
		verbs = append(verbs, external.Verbs(string(v))...)
	}
	gate.Verbs = verbs
	edit := w.Managed.Open(o, gate, by)
	env, _ := field(o, "spec", "forProvider", "env").([]any)
	if next := by.Env(); len(next) > 0 {
		spec, _ := edit["spec"].(map[string]any)
		spec["forProvider"] = map[string]any{"env": external.WithEnv(env, env, next, true)}
	}
	return edit
}
