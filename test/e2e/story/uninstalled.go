package story

import (
	"context"
	"fmt"
	"os/exec"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// admissionKinds of the API server that an uninstall deletes.
var admissionKinds = []string{
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy",
}

// uninstalled: the hook of the chart restores what is masked, then webhook and gate end, and
// what sends them requests is deleted. CRDs, policies and annotations stay.
func uninstalled(ctx context.Context, e *Env, t *Teller) error {
	t.Types("", "helm uninstall kausality")
	kubeconfig, err := e.Kubeconfig("helm", "helm", "system:masters")
	if err != nil {
		return err
	}
	ungate := exec.CommandContext(ctx, e.Bins[parts.Kausality], "ungate", "--all", "--for-removal", "--kubeconfig="+kubeconfig, "--timeout=60s")
	if out, err := ungate.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot run the hook: %w: %s", err, out)
	}
	for _, kind := range admissionKinds {
		r, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
		list, err := e.admin.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kausality"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := e.admin.Resource(r).Delete(ctx, list.Items[i].GetName(), metav1.DeleteOptions{}); err != nil && !kerrors.IsNotFound(err) {
				return err
			}
		}
	}
	for _, p := range e.components {
		p.Stop()
	}
	e.components, e.Options.Webhook = nil, false
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if p := Policies(mr); len(p) != 1 || p[0] != "*" {
		return fmt.Errorf("managementPolicies are %v", p)
	}
	t.Right("nothing is masked, and nothing of webhook and gate answers")
	return nil
}

// enlarged: what hans requests passes the function by itself, whatever the webhook recorded of
// an earlier intent, and what a Composition revision changes is held again after that.
func enlarged(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	t.Types(Hans, fmt.Sprintf(`kubectl patch xdatabase %s --type=merge -p '{"spec":{"size":50}}'`, xrName))
	if err := e.setSize(ctx, 50); err != nil {
		return err
	}
	if err := e.awaitThrough(ctx, mr.GetName(), 50); err != nil {
		return err
	}
	t.Right("it gets through")
	if err := settledByFunction(ctx, e, t); err != nil {
		return err
	}
	if err := e.Compose(ctx, Composition{Tier: "platinum", Kausality: true}); err != nil {
		return err
	}
	return until(ctx, "the function to hold the next revision", func(ctx context.Context) error {
		var is *unstructured.Unstructured
		if is, err = e.MR(ctx); err != nil {
			return err
		}
		_, err := e.heldTier(ctx, is, "platinum")
		return err
	})
}
