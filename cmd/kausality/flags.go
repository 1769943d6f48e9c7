package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/choice"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/heartbeat"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/manifests"
	"github.com/kausality-io/function-kausality/internal/records"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

// processFlags are common to the processes that talk to an API server. run fills in
// the Config and the Log.
type processFlags struct {
	cluster.Process
	kubeconfig     string
	debug          bool
	mode           v1alpha1.Mode
	endpoints      drift.Endpoints
	reports        drift.ReportOptions
	closeTo        string
	pendingDrift   string
	ignore         []string
	provenance     []v1alpha1.Provenance
	tracing        telemetry.Tracing
	componentUsers []string
	records        recordFlags
	recorder       *records.Recorder
}

// claimsKey is the value of --claims-key.
type claimsKey cluster.ClaimsKey

// Set implements pflag.Value.
func (k *claimsKey) Set(value string) error {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("must be NAMESPACE/NAME of a Secret, as %s/%s, not %q", manifests.Namespace, manifests.SecretClaimsKey, value)
	}
	*k = claimsKey{Namespace: namespace, Name: name}
	return nil
}

// String implements pflag.Value.
func (k *claimsKey) String() string {
	if k.Name == "" {
		return ""
	}
	return k.Namespace + "/" + k.Name
}

// Type implements pflag.Value.
func (*claimsKey) Type() string { return "NAMESPACE/NAME" }

// add the flags of webhook and gate.
func (f *processFlags) add(cmd *cobra.Command) {
	f.addProcess(cmd)
	fl := cmd.Flags()
	fl.Var((*claimsKey)(&f.ClaimsKey), "claims-key", "NAMESPACE/NAME of the Secret with the key by which webhook and gate recognize the votes and used approvals "+
		"that they recorded; others do not count. Without it all count.")
	addEndpoints(fl, &f.endpoints, &f.reports)
	fl.StringArrayVar(&f.reports.Links, "drift-webhook-link", nil,
		"NAME=URL of a link in each DriftReport; {cluster}, {namespace}, {kind}, {name} and {id} in it are replaced; repeatable.")
	fl.BoolVar(&f.reports.Objects, "drift-webhook-objects", false, "Add the whole child, without what is secret, to each DriftReport.")
	pending := choice.One(&f.pendingDrift, pendingHold, pendingHold+" (keep the gate closed)", pendingCarry+" (carry out the difference as well)")
	fl.Var(pending, "on-pending-drift", "When the external resource already differs: "+pending.List()+".")
	fl.StringArrayVar(&f.ignore, "ignore-external", nil,
		"KIND.GROUP:PATH of fields whose differences are not external drift, as in Database.cloud.example.org:spec.forProvider.tags[*]; "+
			"*:PATH for all kinds; repeatable.")
	f.records.add(fl)
	closed := choice.One(&f.closeTo, closedObserve, closedObserve, closedLateInitialize)
	fl.Var(closed, "gate-closed", "managementPolicies of a closed gate: "+closed.List()+".")
	provenance := choice.Some(&f.provenance, v1alpha1.ProvenanceAWSTags, v1alpha1.ProvenanceTerraformEnv)
	fl.Var(provenance, "provenance", "Where the cause of a change is recorded outside, for objects whose policy has no external: "+provenance.List()+".")
}

// addEndpoints adds the flags of where DriftReports are sent to, and from.
func addEndpoints(fl *pflag.FlagSet, e *drift.Endpoints, r *drift.ReportOptions) {
	fl.StringArrayVar(&e.URLs, "drift-webhook-url", nil, "HTTPS URL to post DriftReports to, with options as in ,token-file=PATH,ca-file=PATH; repeatable.")
	fl.StringVar(&e.CAFile, "drift-webhook-ca-file", "", "PEM certificates to trust for each --drift-webhook-url without ca-file.")
	fl.DurationVar(&e.Timeout, "drift-webhook-timeout", 5*time.Second, "Time for one attempt to post a DriftReport.")
	fl.StringVar(&r.Cluster, "cluster-name", "", "Name of this cluster in DriftReports and records.")
}

// Values of --on-pending-drift and --gate-closed.
const (
	pendingHold          = "hold"
	pendingCarry         = "carry"
	closedObserve        = string(v1alpha1.VerbObserve)
	closedLateInitialize = closedObserve + "," + string(v1alpha1.VerbLateInitialize)
)

// addServing adds the flags of every process that serves: where the API server is, what is logged, and where metrics and probes are served.
func (f *processFlags) addServing(fl *pflag.FlagSet) {
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "Kubeconfig of the API server; in a cluster the pod's own ServiceAccount is used.")
	fl.BoolVarP(&f.debug, "debug", "d", false, "Emit debug logs in addition to info logs.")
	fl.StringVar(&f.MetricsAddress, "metrics-bind-address", "0", "HOST:PORT of the Prometheus metrics; 0 turns them off.")
	fl.StringVar(&f.ProbeAddress, "health-probe-bind-address", "0", "HOST:PORT of /healthz and /readyz; 0 turns them off.")
}

// addProcess adds the flags of webhook, gate and policy controller.
func (f *processFlags) addProcess(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.addServing(fl)
	mode := choice.One(&f.mode, v1alpha1.ModeLog, v1alpha1.ModeLog, v1alpha1.ModeEnforce)
	fl.Var(mode, "default-mode", "Mode where neither the object nor its Namespace sets one: "+mode.List()+".")
	fl.StringVar(&f.tracing.Endpoint, "otlp-endpoint", "", "OpenTelemetry collector to trace to, as in http://HOST:4318; empty turns tracing off.")
	fl.Float64Var(&f.tracing.Ratio, "trace-ratio", 0.01, "Sampling ratio for requests without an incoming trace, from 0 to 1.")
	fl.BoolVar(&f.LeaderElection, "leader-elect", false, "Elect a leader among several replicas; the leader writes, the others what it leaves out for long.")
	fl.StringVar(&f.LeaderNamespace, "leader-elect-namespace", drift.HomeNamespace, "Namespace of the leader election's Lease.")
}

// run a process by start, after the common flags are checked: a mistake is reported
// before the connection is made.
func (f *processFlags) run(ctx context.Context, component string, start func(context.Context) error) error {
	if err := f.check(); err != nil {
		return err
	}
	f.Log = f.logger()
	err := heartbeat.PingConnections()
	if err != nil {
		return err
	}
	if f.Config, err = f.connect(ctx); err != nil {
		return err
	}
	stop, err := f.tracing.Start(ctx, component)
	if err != nil {
		return err
	}
	defer stop()
	recorder, end, err := f.records.start(f.Config, f.reports.Cluster, f.Log.WithName("records"))
	if err != nil {
		return err
	}
	defer end()
	f.recorder = recorder
	return start(ctx)
}

// closesTo returns the verbs that a closed gate keeps in addition to Observe; nil for none. Webhook and gate need the
// same value, as of the other flags of gates, since both of them write masks.
func (f *processFlags) closesTo() []v1alpha1.Verb {
	if f.closeTo == closedLateInitialize {
		return []v1alpha1.Verb{v1alpha1.VerbLateInitialize}
	}
	return nil
}

// ignored returns the rules of --ignore-external: differences that match one of them are no external drift. An invalid
// rule is a usage error.
func (f *processFlags) ignored() (external.Rules, error) {
	out := make(external.Rules, 0, len(f.ignore))
	for _, text := range f.ignore {
		r, err := external.ParseRule(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--ignore-external: %w", err)}
		}
		out = append(out, r)
	}
	return out, nil
}

// check the endpoints and the addresses to listen on before anything starts.
func (f *processFlags) check() error {
	_, _, invalid := f.records.options()
	if err := errors.Join(f.endpoints.Check(), f.reports.Check(), f.tracing.Check(), invalid); err != nil {
		return usageError{err}
	}
	for _, a := range []struct{ flag, address string }{{"--metrics-bind-address", f.MetricsAddress}, {"--health-probe-bind-address", f.ProbeAddress}} {
		if a.address == "0" || a.address == "" {
			continue
		}
		l, err := net.Listen("tcp", a.address) //nolint:noctx // Closed at once: a port in use is found before anything starts.
		if err != nil {
			return fmt.Errorf("%s: cannot listen on %s: %w; give another address, or 0 to turn it off", a.flag, a.address, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("%s: %w", a.flag, err)
		}
	}
	return nil
}

// logger of the process, which controller-runtime and client-go use as well.
func (f *processFlags) logger() logr.Logger {
	log := zap.New(zap.UseDevMode(false), func(o *zap.Options) {
		if f.debug {
			o.Level = debugLevel
		}
	})
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log
}

// connect to the API server, and wait until it answers and grants access.
func (f *processFlags) connect(ctx context.Context) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst = -1, 0 // the API server's own priority and fairness rules
	config.UserAgent = "kausality/" + version()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	err = informer.RetryForbidden(ctx, ctrl.Log, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return client.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	})
	if err != nil {
		return nil, unreachable(config.Host, err)
	}
	return config, nil
}

// unreachable explains why an API server cannot be used: it refuses access, does not
// accept the credentials, or does not answer.
func unreachable(host string, err error) error {
	switch {
	case kerrors.IsForbidden(err):
		return fmt.Errorf("cannot read /version of %s: %w", host, err)
	case kerrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not accept the credentials: %w; "+
			"check those of --kubeconfig or, in a Pod, its ServiceAccount", host, err)
	}
	return fmt.Errorf("cannot reach the API server at %s: %w; check --kubeconfig and that it runs", host, err)
}

// admissionFlags are those of the core.
type admissionFlags struct {
	identify     admission.Identify
	expectUntil  admission.ExpectUntil
	composedCode string
	users        string
	namespaces   []string
	approverRBAC admission.ApproverRBAC
}

// composedCodes are the values of --composed-refusal-status.
var composedCodes = map[string]int32{"422": 422, "403": 403}

// add the flags to the webhook's command.
func (f *admissionFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	identify := choice.One(&f.identify, admission.IdentifyAuto, admission.IdentifyAuto, admission.IdentifyUserHash, admission.IdentifyFieldManager)
	fl.Var(identify, "identify-controller", "How the parent's controller is identified: "+identify.List()+".")
	until := choice.One(&f.expectUntil, admission.ExpectUntilConverged, admission.ExpectUntilConverged, admission.ExpectUntilObserved)
	fl.Var(until, "expect-until", "How long changes are expected after an intent: "+until.List()+".")
	code := choice.One(&f.composedCode, "422", "422", "403")
	fl.Var(code, "composed-refusal-status", "HTTP status of refusals to Crossplane's apply of composed resources: "+code.List()+".")
	addApproverRBAC(fl, &f.approverRBAC, "to change approvals, rejections, freeze, snooze, mode, deletion and parent")
	fl.StringVar(&f.users, "controller-users", "", "Regular expression of further user names that may be an object's own controller.")
	fl.StringSliceVar(&f.namespaces, "controller-namespaces", []string{subject.DefaultControllerNamespace},
		"Namespaces whose ServiceAccounts may be controllers of composites, Claims and managed resources.")
}

// addApproverRBAC adds --approver-rbac; whatFor completes its help.
func addApproverRBAC(fl *pflag.FlagSet, to *admission.ApproverRBAC, whatFor string) {
	values := choice.One(to, admission.ApproverRBACOff, admission.ApproverRBACOff,
		admission.ApproverRBACOn+" (on the subresource approval)", admission.ApproverRBACResource+" (on that or, with a warning, on the resource itself)")
	const name = "approver-rbac"
	fl.Var(values, name, "Require the verb approve "+whatFor+": "+values.List()+".")
	fl.Lookup(name).NoOptDefVal = string(admission.ApproverRBACOn)
}

// options of the core.
func (f *admissionFlags) options() admission.Options {
	return admission.Options{Identify: f.identify, ExpectUntil: f.expectUntil, ComposedRefusalCode: composedCodes[f.composedCode],
		ApproverRBAC: f.approverRBAC}
}

// controllers returns the users who may be controllers, by --controller-users and --controller-namespaces.
func (f *admissionFlags) controllers() (subject.Eligible, error) {
	e := subject.Eligible{Namespaces: f.namespaces}
	for _, n := range f.namespaces {
		if errs := validation.IsDNS1123Label(n); len(errs) > 0 {
			return e, usageError{fmt.Errorf("--controller-namespaces: %q is not a valid name of a Namespace: %s", n, errs[0])}
		}
	}
	if f.users == "" {
		return e, nil
	}
	re, err := regexp.Compile("^(?:" + f.users + ")$")
	if err != nil {
		return e, usageError{fmt.Errorf("--controller-users: %w", err)}
	}
	e.Named = re.MatchString
	return e, nil
}
