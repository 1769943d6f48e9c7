package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/policystore"
	"github.com/kausality-io/function-kausality/webhook/rollouts"
)

// rollout decides about a write of a Rollout, as its webhook does.
func (p *plugin) rollout(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetOperation() == admission.Delete || !slices.Contains(rolloutResources, a.GetResource().Resource) {
		return nil
	}
	d, unready := p.kausality.deciderOf(ctx)
	if unready != nil {
		return p.unready(ctx, a, unready)
	}
	return p.answer(ctx, a, o, rollouts.Handler{Evaluator: d.Evaluator, Current: d.Evaluators, Claims: d.ClaimsKeys(), Log: d.Log})
}

// policy validates a policy, as its webhook does: after its schema, with all that mutates it.
func (p *plugin) policy(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetOperation() == admission.Delete || a.GetSubresource() != whole || !slices.Contains(v1alpha1.PolicyResources(), a.GetResource().Resource) {
		return nil
	}
	var v policystore.Validator
	if d, err := p.kausality.deciderOf(ctx); err == nil { // without the kinds, a policy is compiled all the same
		v.Kinds = d.Kinds
	}
	return p.answer(ctx, a, o, v)
}

var rolloutResources = []string{v1alpha1.ResourceRollouts, v1alpha1.ResourceClusterRollouts, v1alpha1.ResourceRolloutBatches}

// answer a request by the handler of its webhook.
func (p *plugin) answer(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, by ctrl.Handler) error {
	r, object, err := p.review(ctx, a, o)
	if err != nil {
		return p.undecided(ctx, &decider.UndecidedError{Mode: v1alpha1.ModeEnforce, Err: err})
	}
	resp := by.Handle(ctx, r)
	for _, w := range resp.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	if !resp.Allowed {
		return refused(resp.Result)
	}
	return object.edit(a, o, resp.Patches)
}

// review of a request, as the API server would send it to a webhook.
func (p *plugin) review(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) (ctrl.Request, *request, error) {
	in, err := incoming(a, o)
	if err != nil {
		return ctrl.Request{}, nil, err
	}
	r := admissionv1.AdmissionRequest{
		UID: types.UID(audit.GetAuditIDTruncated(ctx)), Kind: metav1.GroupVersionKind(a.GetKind()), Resource: metav1.GroupVersionResource(a.GetResource()),
		SubResource: a.GetSubresource(), Name: a.GetName(), Namespace: a.GetNamespace(),
		Operation: admissionv1.Operation(a.GetOperation()), DryRun: new(a.IsDryRun()),
		UserInfo: authenticationv1.UserInfo{Username: in.User.Name, UID: in.User.UID, Groups: in.User.Groups, Extra: map[string]authenticationv1.ExtraValue{}},
	}
	for k, v := range in.User.Extra {
		r.UserInfo.Extra[k] = v
	}
	if r.Object.Raw, err = json.Marshal(in.Object.Object); err != nil {
		return ctrl.Request{}, nil, fmt.Errorf("cannot encode the object: %w", err)
	}
	if in.OldObject != nil {
		if r.OldObject.Raw, err = json.Marshal(in.OldObject.Object); err != nil {
			return ctrl.Request{}, nil, fmt.Errorf("cannot encode the stored object: %w", err)
		}
	}
	if r.Options.Raw, err = json.Marshal(a.GetOperationOptions()); err != nil {
		return ctrl.Request{}, nil, fmt.Errorf("cannot encode the options: %w", err)
	}
	return ctrl.Request{AdmissionRequest: r}, in, nil
}
