package apiserver

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

const (
	// ConfigurationVersion and ConfigurationKind are the apiVersion and kind of a Configuration.
	ConfigurationVersion = "apiserver.kausality.io/v1alpha1"
	// ConfigurationKind is explained at ConfigurationVersion.
	ConfigurationKind = "KausalityConfiguration"
	// maxConfiguration bounds the file, in bytes.
	maxConfiguration = 1 << 20
)

// Configuration of the plugin. Unknown fields are errors.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// Resources that are guarded, at least one: "deployments.apps", "configmaps" for the core group, "*.example.org" for a whole group.
	Resources []string `json:"resources"`
	// NamespaceSelector selects the Namespaces of namespaced objects by their labels; nil for all but those that the cluster needs to get up
	// again. Cluster-scoped objects are guarded whatever it is.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ObjectSelector selects the objects by their labels, before or after the request; nil for all.
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// DefaultMode where neither object, Namespace nor policy sets one; log where empty.
	DefaultMode v1alpha1.Mode `json:"defaultMode,omitempty"`
	// ApproverRBAC as --approver-rbac of the webhook; "false" where empty.
	ApproverRBAC admission.ApproverRBAC `json:"approverRBAC,omitempty"`
	// IdentifyController as --identify-controller of the webhook; auto where empty.
	IdentifyController admission.Identify `json:"identifyController,omitempty"`
	// ExpectUntil as --expect-until of the webhook; converged where empty.
	ExpectUntil admission.ExpectUntil `json:"expectUntil,omitempty"`
	// ComposedRefusalStatus as --composed-refusal-status of the webhook: 422, which 0 is, or 403.
	ComposedRefusalStatus int32 `json:"composedRefusalStatus,omitempty"`
	// ControllerUsers is a regular expression of further users that may be controllers; none where empty.
	ControllerUsers string `json:"controllerUsers,omitempty"`
	// ControllerNamespaces are those whose ServiceAccounts may be controllers of composites, Claims and managed resources; crossplane-system
	// where nil.
	ControllerNamespaces []string `json:"controllerNamespaces,omitempty"`
	// ComponentUsers are the users that other components of Kausality run as, beside their ServiceAccounts in Namespace kausality-system.
	ComponentUsers []string `json:"componentUsers,omitempty"`
	// SettleGrace is how long a parent must stay converged before it counts as settled; 10s where nil.
	SettleGrace *metav1.Duration `json:"settleGrace,omitempty"`
	// LeaderElection among several API servers, by a Lease in Namespace kausality-system. Turn it on where there are several.
	LeaderElection bool `json:"leaderElection,omitempty"`
	// ClaimsKey is the Secret with the key that seals claims, as NAMESPACE/NAME; none where empty.
	ClaimsKey string `json:"claimsKey,omitempty"`
	// Reports are where DriftReports are delivered; none where nil.
	Reports *Reports `json:"reports,omitempty"`
}

// Reports of drift.
type Reports struct {
	// URLs that get all of them.
	URLs []string `json:"urls"`
	// CAFile is a PEM file that their certificates are checked against; the system's authorities where empty.
	CAFile string `json:"caFile,omitempty"`
	// ClusterName is in each report.
	ClusterName string `json:"clusterName,omitempty"`
	// Objects are in the reports, without secret values.
	Objects bool `json:"objects,omitempty"`
}

// defaultSettleGrace as of --settle-grace.
const defaultSettleGrace = 10 * time.Second

// errNoConfiguration is what a plugin without a configuration ends the server's start with.
var errNoConfiguration = fmt.Errorf("cannot guard without a configuration: --admission-control-config-file needs an entry for plugin %s "+
	"with a configuration of %s, kind %s", PluginName, ConfigurationVersion, ConfigurationKind)

var errNoResources = errors.New("nothing is guarded: list what is, as in [deployments.apps, configmaps, \"*.example.org\"]")

// ReadConfiguration of the plugin from YAML or JSON. The error names the field that is wrong.
func ReadConfiguration(from io.Reader) (*Configuration, error) {
	if from == nil {
		return nil, errNoConfiguration
	}
	raw, err := io.ReadAll(io.LimitReader(from, maxConfiguration+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	if len(raw) > maxConfiguration {
		return nil, fmt.Errorf("cannot read the configuration: it is larger than %d bytes", maxConfiguration)
	}
	c := &Configuration{}
	if err := yaml.UnmarshalStrict(raw, c); err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return c, c.validate()
}

// validate the configuration, and set its defaults.
func (c *Configuration) validate() error {
	resources := errNoResources
	if len(c.Resources) > 0 {
		resources = c.guard().Check()
	}
	if c.APIVersion != ConfigurationVersion || c.Kind != ConfigurationKind {
		return fmt.Errorf("the configuration is %q, %q; want %s, %s", c.APIVersion, c.Kind, ConfigurationVersion, ConfigurationKind)
	}
	if c.ControllerNamespaces == nil {
		c.ControllerNamespaces = []string{subject.DefaultControllerNamespace}
	}
	if c.SettleGrace == nil {
		c.SettleGrace = &metav1.Duration{Duration: defaultSettleGrace}
	}
	_, users := regexp.Compile(c.ControllerUsers)
	return errors.Join(
		oneOf("defaultMode", &c.DefaultMode, v1alpha1.ModeLog, v1alpha1.ModeEnforce),
		oneOf("approverRBAC", &c.ApproverRBAC, admission.ApproverRBACOff, admission.ApproverRBACOn, admission.ApproverRBACResource),
		oneOf("identifyController", &c.IdentifyController, admission.IdentifyAuto, admission.IdentifyUserHash, admission.IdentifyFieldManager),
		oneOf("expectUntil", &c.ExpectUntil, admission.ExpectUntilConverged, admission.ExpectUntilObserved),
		oneOf("composedRefusalStatus", &c.ComposedRefusalStatus, 422, 403),
		named("controllerUsers", users),
		named("resources", resources),
	)
}

// guard returns what the plugin guards, in the form of the webhook configuration.
func (c *Configuration) guard() manifests.Embedded {
	return manifests.Embedded{Resources: c.Resources, NamespaceSelector: c.NamespaceSelector, ObjectSelector: c.ObjectSelector, DefaultMode: c.DefaultMode}
}

// named returns an error with the name of its field; nil for none.
func named(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}

// oneOf sets a field that is not set to the first of some values, and refuses others.
func oneOf[T comparable](field string, value *T, values ...T) error {
	var unset T
	if *value == unset {
		*value = values[0]
	}
	if slices.Contains(values, *value) {
		return nil
	}
	return fmt.Errorf("%s: %v is none of %v", field, *value, values)
}
