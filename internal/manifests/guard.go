package manifests

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kausality-io/function-kausality/admission/settings"
)

// Names of the cluster-wide objects that follow the policies, and of the labels
// that aggregate access.
const (
	// RoleWebhookPolicies and RoleGatePolicies give access to what is guarded.
	RoleWebhookPolicies = componentWebhook + "-policies"
	RoleGatePolicies    = componentGate + "-policies"
	// RoleControllerPolicies lets the policy controller list it.
	RoleControllerPolicies = componentController + "-policies"

	aggregateLabel = "rbac.kausality.io/aggregate-to-"
)

// Guarded are the cluster-wide objects that follow from policies.
type Guarded struct {
	Configuration *admissionregistrationv1.MutatingWebhookConfiguration
	// PolicyCheck refuses policies that do not compile, when they are written.
	PolicyCheck *admissionregistrationv1.ValidatingWebhookConfiguration
	// Rollouts records the votes for Rollouts.
	Rollouts *admissionregistrationv1.MutatingWebhookConfiguration
	// Roles of webhook and gate, aggregated to their own.
	Roles []*rbacv1.ClusterRole
	// Policies and their Bindings hold while the webhook is down.
	Policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// Unprotected is how many of the webhooks, the last ones, no binding protects.
	Unprotected int
	// Outages are what happens while the webhook does not answer, by policy.
	Outages map[string]Outage
	// FailOpen are Namespaces that enforce by their annotation, and for which the configuration has no room.
	FailOpen []string
}

// Guard returns the objects for the Scopes of policies, the most specific first;
// nil for no Scopes. It does not read the Options about what is watched. The same input gives the same output.
//
// retained are resources, as in --resources, that are no longer guarded and must
// not be unwatched yet: the gate keeps its access to them, and what is masked of
// them cannot be deleted by accident. masked are the CRDs that must not be deleted.
func Guard(o Options, scopes []settings.Scope, retained []string, masked Masked) (*Guarded, error) {
	if len(scopes) == 0 && len(retained) == 0 {
		return nil, nil // nil is nothing to guard.
	}
	in := &input{caBundle: o.CABundle, users: o.ComponentUsers, selectedBy: o.SelectedBy, approval: o.ApproverRBAC}
	for _, check := range []func(*input) error{o.parseURL, o.parseCA, o.parseUsers, o.parseTimeout} {
		if err := check(in); err != nil {
			return nil, err
		}
	}
	var failOpen []string
	in.entries, failOpen = withEnforced(entriesOf(scopes, o.DefaultMode), o.Enforced)
	in.groups = groupsOf(scopes)
	in.traced = onlyTraced(scopes)
	if len(retained) > 0 {
		old, err := parseResources(retained)
		if err != nil {
			return nil, err
		}
		in.groups = union(in.groups, old)
		for _, g := range old {
			delete(in.traced, g.name)
		}
	}
	out := &Guarded{Configuration: webhookConfiguration(in), PolicyCheck: policyConfiguration(in), Rollouts: rolloutConfiguration(in), Roles: policyRoles(in),
		Outages: outages(in.entries), FailOpen: failOpen}
	out.Policies = append(append(out.Policies, orphanPolicy(in), protectionPolicy(in), crdApprovalPolicy(in.approval)), MaskedPolicies(masked)...)
	for _, p := range []string{orphanProtection, crdProtection, providerProtection, crdApproval} {
		out.Bindings = append(out.Bindings, everywhere(p))
	}
	if o.ApproverRBAC.Required() {
		out.Policies, out.Bindings = append(out.Policies, approverPolicy(in)), append(out.Bindings, approverBinding())
	}
	names := bindingNames()
	for i, e := range in.entries[:min(len(in.entries), len(names))] {
		out.Bindings = append(out.Bindings, protectionBinding(names[i], e))
	}
	out.Unprotected = max(0, len(in.entries)-len(names))
	return out, nil
}

// Custom reports whether a group is served by CRDs, so that its objects may be managed
// resources.
func Custom(name string) bool { return group{name: name}.custom() }

// customOf the groups.
func customOf(groups []group) []group {
	return slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !g.custom() })
}

// Refused returns why a policy's resources cannot be guarded; nil where they can.
func Refused(scopes []settings.Scope) error {
	for _, s := range scopes {
		for _, g := range s.APIGroups {
			for _, r := range s.Resources {
				if why := denied(r, g); why != "" {
					return fmt.Errorf("cannot guard %s: %s", qualified(r, g), why)
				}
			}
		}
	}
	return nil
}

// qualified name of a resource, as kubectl and RBAC's documentation write it.
func qualified(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// policyRoles give each component access to what is guarded. What is only traced is not
// written.
func policyRoles(in *input) []*rbacv1.ClusterRole {
	traced := slices.DeleteFunc(slices.Clone(in.groups), func(g group) bool { return !in.traced[g.name] })
	written := slices.DeleteFunc(slices.Clone(in.groups), func(g group) bool { return in.traced[g.name] })
	return []*rbacv1.ClusterRole{
		addedTo(componentWebhook, RoleWebhookPolicies, append(watched(written, webhookVerbs...), watched(traced, read...)...)),
		addedTo(componentGate, RoleGatePolicies, append(watched(written, gateVerbs...), watched(traced, read...)...)),
		addedTo(componentController, RoleControllerPolicies, watched(customOf(in.groups), "list")),
	}
}

// onlyTraced returns the names of the groups about which all Scopes only trace.
func onlyTraced(scopes []settings.Scope) map[string]bool {
	out := map[string]bool{}
	for _, s := range scopes {
		for _, g := range s.APIGroups {
			if was, ok := out[g]; !ok || was {
				out[g] = s.TraceOnly
			}
		}
	}
	return out
}

// union of groups.
func union(a, b []group) []group {
	byName := map[string][]string{}
	for _, g := range append(slices.Clone(a), b...) {
		byName[g.name] = append(byName[g.name], g.resources...)
	}
	return sorted(byName)
}
