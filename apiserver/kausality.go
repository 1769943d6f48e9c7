package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	core "github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// PluginName by which the plugin is enabled and configured.
const PluginName = "Kausality"

// self is the user of its own requests: the server impersonates the webhook, since the ValidatingAdmissionPolicies let that user write.
var self = manifests.WebhookUser()

// Kausality within one API server. Its methods are safe for concurrent use.
type Kausality struct {
	// Clusters of a server with several logical clusters; nil for a server that is one cluster. Set it before Start.
	Clusters *Clusters

	log logr.Logger

	mu sync.Mutex
	// configuration, and the guarded objects by it; nil before the plugin is made.
	configuration *Configuration
	guard         *guard
	// start one of the clusters; nil before Start.
	start func(name string) (*running, error)
	// running clusters by name; a server that is one cluster has the name "".
	running map[string]*running

	// authorizer of the server.
	authorizer atomic.Pointer[authorizer.Authorizer]
	// decided are the objects that requests leave.
	decided memory
}

// New returns a Kausality that guards nothing before it is registered, enabled and configured.
func New() *Kausality {
	return &Kausality{log: klog.Background().WithName("kausality"), decided: newMemory(), running: map[string]*running{}}
}

// Register the plugin. A server may make it several times, once for each of the servers that it is composed of: they share one Kausality.
func (k *Kausality) Register(plugins *admission.Plugins) {
	plugins.Register(PluginName, func(config io.Reader) (admission.Interface, error) {
		c, err := ReadConfiguration(config)
		if err != nil {
			return nil, err
		}
		if err := k.configure(c); err != nil {
			return nil, err
		}
		return &plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete), kausality: k}, nil
	})
}

// Order returns an order of plugins with the one of Kausality: after those that change objects within the server, before the mutating
// webhooks, which are called again where it changes an object.
func Order(recommended []string) []string {
	const before = "MutatingAdmissionWebhook"
	i := slices.Index(recommended, before)
	if i < 0 {
		return append(slices.Clone(recommended), PluginName)
	}
	return slices.Insert(slices.Clone(recommended), i, PluginName)
}

// configure once. Another configuration is an error.
func (k *Kausality) configure(c *Configuration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.configuration != nil {
		if !reflect.DeepEqual(k.configuration, c) {
			return errors.New("cannot configure Kausality twice in one server")
		}
		return nil
	}
	g, err := newGuard(c)
	if err != nil {
		return err
	}
	k.configuration, k.guard = c, g
	return nil
}

// configured returns the configuration; nil where the plugin is not enabled.
func (k *Kausality) configured() *Configuration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.configuration
}

// Start what reads the cluster and what is written beside requests, until the context ends. It is for a post-start hook, with the server's
// loopback configuration, and does not wait. A plugin that is not enabled starts nothing. Of several logical clusters, each starts with its first
// request.
func (k *Kausality) Start(ctx context.Context, loopback *rest.Config) error {
	c := k.configured()
	if c == nil {
		return nil
	}
	o, err := c.options(rest.CopyConfig(loopback), k.log)
	if err != nil {
		return err
	}
	o.Caller, o.Check = userAgent, k.check
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.start != nil {
		return errors.New("cannot start Kausality twice in one server")
	}
	k.start = func(name string) (*running, error) {
		o := o
		if k.Clusters != nil {
			o.Config, o.Log = k.Clusters.Config(rest.CopyConfig(o.Config), name), o.Log.WithValues("cluster", name)
		}
		r, err := newRunning(o, k.guard)
		if err == nil {
			go r.keep(ctx)
		}
		return r, err
	}
	if k.Clusters == nil {
		k.running[""], err = k.start("")
	}
	return err
}

// check a permission by the authorizer of the server.
func (k *Kausality) check(ctx context.Context, of authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	by := k.authorizer.Load()
	if by == nil {
		return false, errors.New("cannot check a permission without an authorizer")
	}
	extra := make(map[string][]string, len(of.Extra))
	for key, values := range of.Extra {
		extra[key] = values
	}
	what := of.ResourceAttributes
	decision, why, err := (*by).Authorize(ctx, authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: of.User, UID: of.UID, Groups: of.Groups, Extra: extra}, ResourceRequest: true, Verb: what.Verb, Namespace: what.Namespace,
		APIGroup: what.Group, APIVersion: what.Version, Resource: what.Resource, Subresource: what.Subresource, Name: what.Name,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot check the permission %s of %s: %s: %w", what.Verb, of.User, why, err)
	}
	return false, nil
}

// options of the decider.
func (c *Configuration) options(config *rest.Config, log logr.Logger) (decider.Options, error) {
	controllers := subject.Eligible{Namespaces: c.ControllerNamespaces}
	if c.ControllerUsers != "" {
		named, err := regexp.Compile("^(?:" + c.ControllerUsers + ")$")
		if err != nil {
			return decider.Options{}, fmt.Errorf("controllerUsers: %w", err)
		}
		controllers.Named = named.MatchString
	}
	namespace, name, _ := strings.Cut(c.ClaimsKey, "/")
	config.QPS = -1 // the server's own flow control applies
	// kube-apiserver's content type is protobuf, which no type of kausality.io has, and its user agent that of the server.
	config.ContentConfig, config.UserAgent = rest.ContentConfig{ContentType: runtime.ContentTypeJSON}, v1alpha1.ManagerWebhook
	config.Impersonate = rest.ImpersonationConfig{UserName: self, Groups: []string{user.SystemPrivilegedGroup}}
	o := decider.Options{
		Process: cluster.Process{
			Config: config, MetricsAddress: "0", ProbeAddress: "0", LeaderElection: c.LeaderElection, LeaderNamespace: manifests.Namespace,
			ClaimsKey: cluster.ClaimsKey{Namespace: namespace, Name: name}, Log: log, Repeated: true,
		},
		ComponentUsers: slices.Concat(manifests.ComponentUsers(), c.ComponentUsers), Controllers: controllers, SettleGrace: c.SettleGrace.Duration,
		Admission: core.Options{
			DefaultMode: c.DefaultMode, Identify: c.IdentifyController, ExpectUntil: c.ExpectUntil, ComposedRefusalCode: c.ComposedRefusalStatus,
			ApproverRBAC: c.ApproverRBAC,
		},
	}
	if r := c.Reports; r != nil {
		o.Endpoints = drift.Endpoints{URLs: r.URLs, CAFile: r.CAFile}
		o.Reports = drift.ReportOptions{Cluster: r.ClusterName, Objects: r.Objects}
		if err := errors.Join(o.Endpoints.Check(), o.Reports.Check()); err != nil {
			return o, fmt.Errorf("reports: %w", err)
		}
	}
	return o, nil
}

// guard is what the plugin guards.
type guard struct {
	// object is the webhook configuration that selects the same.
	object *unstructured.Unstructured
	scope  *scope.Fixed
}

func newGuard(c *Configuration) (*guard, error) {
	configuration, err := c.guard().Configuration()
	if err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
	if err != nil {
		return nil, fmt.Errorf("cannot encode what is guarded: %w", err)
	}
	o := &unstructured.Unstructured{Object: content}
	scope, err := scope.NewFixed(o)
	return &guard{object: o, scope: scope}, err
}
