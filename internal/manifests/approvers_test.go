package manifests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// anna alone has the verb approve, on things of example.org in Namespace default.
type anna struct{}

func (anna) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	of := fmt.Sprint(a.GetUser().GetName(), a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetNamespace(), a.GetName())
	if of == "annaapproveexample.orgthingsdefaultthing" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// TestApproversWhileNothingIsJudged: with approver RBAC, decisions in annotations need the verb approve also where no webhook is called;
// all else, and what controllers copy, passes. Evaluated by the API server's own code (KR-12-14).
func TestApproversWhileNothingIsJudged(t *testing.T) {
	of := func(spec map[string]any, annotations ...string) map[string]any {
		metadata := map[string]any{"name": "thing", "namespace": "default"}
		if len(annotations) > 0 {
			all := map[string]any{}
			for _, a := range annotations {
				k, v, _ := strings.Cut(a, "=")
				all[k] = v
			}
			metadata["annotations"] = all
		}
		o := map[string]any{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
		if spec != nil {
			o["spec"] = spec
		}
		return o
	}
	owned := func(o map[string]any) map[string]any {
		o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "Owner", "name": "o", "uid": "u", "controller": true}}
		return o
	}
	many := make([]string, 0, 1001)
	for i := range cap(many) {
		many = append(many, fmt.Sprintf("x%d=y", i))
	}
	const hans, crossplane, once = "hans", "system:serviceaccount:crossplane-system:crossplane", "kausality.io/approve-0123456789abcdef=once"
	claimed := map[string]any{"claimRef": map[string]any{"name": "c"}}
	for name, tc := range map[string]struct {
		by      string
		was, is map[string]any
		refused bool
	}{
		"Approval":        {by: hans, was: of(nil), is: of(nil, once), refused: true},
		"ByAnApprover":    {by: "anna", was: of(nil), is: of(nil, once)},
		"Changed":         {by: hans, was: of(nil, once), is: of(nil, strings.ReplaceAll(once, "once", "always")), refused: true},
		"FreezeRemoved":   {by: hans, was: of(nil, "kausality.io/freeze=true"), is: of(nil), refused: true},
		"Orphan":          {by: hans, was: of(nil), is: of(nil, "kausality.io/deletion=orphan"), refused: true},
		"Created":         {by: hans, is: of(nil, "kausality.io/approvals=[]"), refused: true},
		"CreatedWithout":  {by: hans, is: of(nil)},
		"Kept":            {by: hans, was: of(map[string]any{"size": int64(1)}, once), is: of(map[string]any{"size": int64(2)}, once, "note=x")},
		"TraceLabel":      {by: hans, was: of(nil), is: of(nil, "kausality.io/trace-ticket=X-1")},
		"Hidden":          {by: hans, was: of(nil), is: of(nil, append(many, once)...), refused: true},
		"Robot":           {by: "system:serviceaccount:tools:robot", was: of(nil), is: of(nil, once), refused: true},
		"CopiedToOwned":   {by: crossplane, was: owned(of(nil)), is: owned(of(nil, "kausality.io/mode=log"))},
		"CopiedFromClaim": {by: crossplane, was: of(claimed), is: of(claimed, once)},
		"NotByAPerson":    {by: hans, was: owned(of(claimed)), is: owned(of(claimed, once)), refused: true},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.refused, refusesDecision(t, tc.by, tc.was, tc.is)) })
	}
}

// The decisions of a Namespace are about all objects in it, and no webhook is called for them (KR-12-14).
func TestApproversOfNamespaces(t *testing.T) {
	for _, r := range approverPolicy(&input{}).Spec.MatchConstraints.ResourceRules {
		if slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.Resources, []string{"namespaces"}) {
			return
		}
	}
	t.Error("the policy does not match Namespaces")
}

// refusesDecision reports whether the policy refuses a write; was is nil for a creation.
func refusesDecision(t *testing.T, by string, was, is map[string]any) bool {
	t.Helper()
	p := approverPolicy(&input{})
	expression := p.Spec.Validations[0].Expression
	for _, v := range p.Spec.Variables {
		expression = strings.ReplaceAll(expression, "variables."+v.Name, "("+v.Expression+")")
	}
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	match := func(conditions ...admissionregistrationv1.MatchCondition) bool {
		var all []cel.ExpressionAccessor
		for i := range conditions {
			all = append(all, (*matchconditions.MatchCondition)(&conditions[i]))
		}
		compiled := cel.NewConditionCompiler(env).CompileCondition(all, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
		kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"}
		v := &admission.VersionedAttributes{VersionedKind: kind, VersionedObject: &unstructured.Unstructured{Object: is}}
		operation, options := admission.Create, any(&metav1.CreateOptions{})
		if was != nil {
			operation, options = admission.Update, &metav1.UpdateOptions{}
			v.VersionedOldObject = &unstructured.Unstructured{Object: was}
		}
		switch o := options.(type) {
		case *metav1.CreateOptions:
			v.Attributes = admission.NewAttributesRecord(v.VersionedObject, nil, kind, "default", "thing", kind.GroupVersion().WithResource("things"), "",
				operation, o, false, &user.DefaultInfo{Name: by})
		case *metav1.UpdateOptions:
			v.Attributes = admission.NewAttributesRecord(v.VersionedObject, v.VersionedOldObject, kind, "default", "thing",
				kind.GroupVersion().WithResource("things"), "", operation, o, false, &user.DefaultInfo{Name: by})
		}
		got := matchconditions.NewMatcher(compiled, nil, "policy", "validating", "test").Match(t.Context(), v, nil, anna{})
		require.NoError(t, got.Error)
		return got.Matches
	}
	return match(p.Spec.MatchConditions...) && !match(admissionregistrationv1.MatchCondition{Name: "it", Expression: expression})
}

// TestApproverPolicyIsOptional: without approver RBAC every editor may decide, whether or not the webhook is called (KR-12-14).
func TestApproverPolicyIsOptional(t *testing.T) {
	scopes := []settings.Scope{{Policy: "one", APIGroups: []string{"example.org"}, Resources: []string{"*"}, Mode: v1alpha1.ModeEnforce, Suspended: true}}
	for rbac, on := range map[facts.ApproverRBAC]bool{"": false, facts.ApproverRBACOff: false, facts.ApproverRBACOn: true, facts.ApproverRBACResource: true} {
		g, err := Guard(Options{WebhookURL: "https://h:1", CABundle: []byte(certificate), ApproverRBAC: rbac}, scopes, nil, Masked{})
		require.NoError(t, err)
		is := false
		for _, b := range g.Bindings {
			is = is || b.Spec.PolicyName == approverProtection
		}
		assert.Equal(t, on, is)
	}
}
