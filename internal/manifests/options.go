package manifests

import (
	"cmp"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Namespace that webhook and gate are at home in. It is never sent to the
// webhook: Kausality must be able to restart itself.
const Namespace = "kausality-system"

// Options of Render. Each field is a flag of `kausality manifests`, which the
// errors name.
type Options struct {
	// CRDsOnly (--crds-only) leaves out everything but the CRDs; no other field
	// is needed then.
	CRDsOnly bool
	// FunctionOnly (--function-only) leaves out everything but what the composition
	// function needs without a webhook: the CRDs, and the role by which Crossplane reads
	// them for it. No other field is needed then.
	FunctionOnly bool
	// WebhookURL (--webhook-url) is where the webhook listens, as in
	// https://10.0.0.7:9443. A path is kept as prefix of /mutate, /status and
	// /policies.
	WebhookURL string
	// Service that the API server reaches the webhook by, in place of WebhookURL.
	Service *admissionregistrationv1.ServiceReference
	// CABundle (the content of --ca-file) holds the PEM certificates that the
	// webhook's serving certificate is checked against.
	CABundle []byte
	// Embedded (--embedded) is for an API server that has Kausality within: it calls no webhook. The webhook
	// configuration has what it guards for the other components, and neither WebhookURL nor CABundle is needed.
	Embedded bool
	// Resources (--resources) to watch: "deployments.apps", "configmaps" for
	// the core group, "*.example.org" for a whole group.
	Resources []string
	// ComponentUsers (--component-user) are the users that webhook and gate run
	// as where that is not their ServiceAccounts in Namespace. They get the
	// same access. May be empty.
	ComponentUsers []string
	// DefaultMode (--default-mode) of the webhook; v1alpha1.ModeLog where
	// empty. It decides the failure policy: in log mode nothing may be stopped,
	// by an outage least of all.
	DefaultMode v1alpha1.Mode
	// FailurePolicy (--failure-policy) where it is not to follow from
	// DefaultMode: "Ignore" or "Fail".
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// TimeoutSeconds (--webhook-timeout) is for how long the API server waits for the webhook's
	// decision; DefaultTimeoutSeconds where 0.
	TimeoutSeconds int32
	// Enforced Namespaces have the annotation mode with the value enforce; sorted. Guard alone reads
	// it, since they change.
	Enforced []string
	// ApproverRBAC: decisions in annotations need the verb approve. Guard alone reads it.
	ApproverRBAC facts.ApproverRBAC
	// SelectedBy are the keys of the labels by which ApprovalRules and UpgradeAllowances select objects; sorted. Guard
	// alone reads them.
	SelectedBy []string
}

// input is Options checked and parsed.
type input struct {
	// embedded: no webhook is called.
	embedded bool
	baseURL  string
	service  *admissionregistrationv1.ServiceReference
	caBundle []byte
	// groups of all entries together.
	groups []group
	// traced are the names of those groups to which nothing is written.
	traced        map[string]bool
	entries       []entry
	users         []string
	failurePolicy admissionregistrationv1.FailurePolicyType
	timeout       int32
	selectedBy    []string
	approval      facts.ApproverRBAC
}

// Paths of the webhooks.
const (
	pathMutate   = "/mutate"
	pathStatus   = "/status"
	pathPolicies = "/policies"
	pathRollouts = "/rollouts"
)

// nowhere is the URL of webhooks that are not called.
const nowhere = "https://embedded.invalid"

// client configuration for a path.
func (in *input) client(path string) admissionregistrationv1.WebhookClientConfig {
	out := admissionregistrationv1.WebhookClientConfig{CABundle: in.caBundle}
	if in.service != nil {
		out.Service = in.service.DeepCopy()
		out.Service.Path = &path
		return out
	}
	out.URL = new(in.baseURL + path)
	return out
}

// ComponentUsers returns the ServiceAccounts of our processes as the manifests install them.
func ComponentUsers() []string {
	return []string{WebhookUser(), serviceAccountPrefix + Namespace + ":" + componentGate}
}

// WebhookUser returns the ServiceAccount of the webhook as the manifests install it.
func WebhookUser() string { return serviceAccountPrefix + Namespace + ":" + componentWebhook }

// components returns the users that our processes run as.
func (in *input) components() []string {
	out := ComponentUsers()
	for _, u := range in.users {
		if !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	return out
}

// parse the options for Render. The error names the flag.
func (o Options) parse() (*input, error) {
	in := &input{embedded: o.Embedded, caBundle: o.CABundle, users: o.ComponentUsers}
	for _, check := range []func(*input) error{o.parseURL, o.parseCA, o.parseResources, o.parseUsers, o.parseFailurePolicy, o.parseTimeout} {
		if err := check(in); err != nil {
			return nil, err
		}
	}
	in.entries = []entry{{groups: in.groups, failurePolicy: in.failurePolicy}}
	return in, nil
}

// parseURL of the webhook, unless it is reached by its Service. The API server accepts
// https alone, without user, query and fragment.
func (o Options) parseURL(in *input) error {
	if o.Embedded {
		in.baseURL = nowhere
		return nil
	}
	if in.service = o.Service; in.service != nil {
		return nil
	}
	u, err := url.Parse(o.WebhookURL)
	switch {
	case o.WebhookURL == "":
		return fmt.Errorf("--webhook-url is missing: give the address of the webhook, as in --webhook-url=https://HOST:PORT")
	case err != nil:
		return fmt.Errorf("--webhook-url: %q is no URL: write https://HOST:PORT", o.WebhookURL)
	case u.Scheme != "https", u.Hostname() == "":
		return fmt.Errorf("--webhook-url: %q must be https://HOST:PORT, the API server speaks nothing else to webhooks", o.WebhookURL)
	case u.RawQuery != "", u.Fragment != "", u.User != nil:
		return fmt.Errorf("--webhook-url: %q must have no user, query or fragment: write https://HOST:PORT", o.WebhookURL)
	}
	in.baseURL = strings.TrimSuffix(o.WebhookURL, "/")
	return nil
}

// parseCA checks that the bundle has a certificate. The API server checks the rest.
func (o Options) parseCA(*input) error {
	if o.Embedded {
		return nil
	}
	if len(o.CABundle) == 0 {
		return fmt.Errorf("--ca-file is missing or empty: name the PEM file with the CA of the webhook's serving certificate")
	}
	for rest := o.CABundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return fmt.Errorf("--ca-file holds no PEM certificate: it must have a block BEGIN CERTIFICATE")
		}
		if block.Type == "CERTIFICATE" {
			return nil
		}
	}
}

func (o Options) parseResources(in *input) error {
	var err error
	in.groups, err = parseResources(o.Resources)
	return err
}

// parseUsers checks the users of components that run elsewhere.
func (o Options) parseUsers(*input) error {
	for _, u := range o.ComponentUsers {
		if strings.TrimSpace(u) == "" {
			return fmt.Errorf("--component-user is empty: name the user that the component authenticates as")
		}
		if _, _, ok := serviceAccount(u); strings.HasPrefix(u, serviceAccountPrefix) && !ok {
			return fmt.Errorf("--component-user: %q is no ServiceAccount: write %sNAMESPACE:NAME", u, serviceAccountPrefix)
		}
	}
	return nil
}

// parseTimeout of the webhook, within what the API server accepts.
func (o Options) parseTimeout(in *input) error {
	in.timeout = cmp.Or(o.TimeoutSeconds, DefaultTimeoutSeconds)
	if in.timeout < 1 || in.timeout > 30 {
		return fmt.Errorf("--webhook-timeout: %d must be 1 to 30 seconds", o.TimeoutSeconds)
	}
	return nil
}

// parseFailurePolicy: that of the default mode, unless it is set explicitly. Mode log
// never refuses a request, not even during an outage.
func (o Options) parseFailurePolicy(in *input) error {
	switch o.DefaultMode {
	case "", v1alpha1.ModeLog:
		in.failurePolicy = admissionregistrationv1.Ignore
	case v1alpha1.ModeEnforce:
		in.failurePolicy = admissionregistrationv1.Fail
	default:
		return fmt.Errorf("--default-mode: %q must be log or enforce", o.DefaultMode)
	}
	switch o.FailurePolicy {
	case "":
	case admissionregistrationv1.Ignore, admissionregistrationv1.Fail:
		in.failurePolicy = o.FailurePolicy
	default:
		return fmt.Errorf("--failure-policy: %q must be Ignore or Fail", o.FailurePolicy)
	}
	return nil
}
