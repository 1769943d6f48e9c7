package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// home is the Namespace of the implementation.
const home = "kausality-system"

// configurations of our implementation, each with its own webhook process. No
// scenario is decided by the process of another one. The default one leads and
// writes for all of them: with a writer in each, a process could observe later
// than its scenario that a parent settled.
var configurations = map[string][]string{
	DefaultConfiguration: {"--default-mode=enforce"},
	"log":                {"--default-mode=log"},
	"user-hash":          {"--default-mode=enforce", "--identify-controller=user-hash"},
	"field-manager":      {"--default-mode=enforce", "--identify-controller=field-manager"},
	"approver-rbac":      {"--default-mode=enforce", "--approver-rbac"},
	"alternatives": {"--default-mode=enforce", "--expect-until=observed", "--composed-refusal-status=403",
		"--controller-users=robot-.*"},
}

// guarded resources.
var guarded = []string{
	"*.conformance.example.org", "workspaces.tf.m.upbound.io", "applications.argoproj.io",
	"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps",
	"pods", "jobs.batch", "cronjobs.batch", "configmaps", "secrets", "roles.rbac.authorization.k8s.io",
}

// environment is an API server with an implementation under test.
type environment struct {
	config   *rest.Config
	auditLog string
	receiver *Receiver
	// configurations that are installed.
	configurations []string
	// foreign: the cluster is not ours, and is cleaned up afterwards.
	foreign bool

	cp        *controlplane.ControlPlane
	kausality string
	// certs is the directory of the receiver's certificate, and its CA's.
	certs string
}

// bootEnvironment with our implementation.
func bootEnvironment(ctx context.Context) (*environment, error) {
	l := &environment{}
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.Kausality)
	if err != nil {
		return l, err
	}
	l.kausality = built["kausality"]
	o := controlplane.Options{Out: os.Stderr, AuditLog: true, Dir: os.Getenv("KAUSALITY_CONFORMANCE_DIR")}
	if *plugin {
		if err := l.embed(&o); err != nil {
			return l, err
		}
	}
	if l.cp, err = controlplane.Start(ctx, o); err != nil {
		return l, err
	}
	l.config, l.auditLog = l.cp.Config(), l.cp.AuditLog()
	if !*plugin {
		l.certs = filepath.Join(l.cp.Dir(), "webhook-certs")
		if err := l.cp.CA().ServingCert(l.certs); err != nil {
			return l, err
		}
		if l.receiver, err = Receive("127.0.0.1:0", l.certs); err != nil {
			return l, err
		}
	}
	if err := l.prepare(ctx); err != nil {
		return l, err
	}
	return l, l.install(ctx)
}

// prepare the kinds and the rights of the scenarios.
func (l *environment) prepare(ctx context.Context) error {
	a, err := controlplane.NewApplier(l.config, "conformance")
	if err != nil {
		return err
	}
	for _, file := range []string{"crds.yaml", "rbac.yaml"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		objects, err := controlplane.Decode(raw)
		if err != nil {
			return err
		}
		apply := make([]any, 0, len(objects))
		for _, o := range objects {
			all, err := copies(o)
			if err != nil {
				return err
			}
			for _, c := range all {
				apply = append(apply, c)
			}
		}
		if err := a.Objects(ctx, apply...); err != nil {
			return err
		}
	}
	if l.receiver == nil {
		return nil
	}
	ca, err := os.ReadFile(filepath.Join(l.certs, "ca.crt"))
	if err != nil {
		return err
	}
	return a.Objects(ctx, laterWebhook(l.receiver.URL, ca))
}

func (l *environment) stop() {
	if l.receiver != nil {
		_ = l.receiver.Close() // the process ends
	}
	if l.cp != nil {
		l.cp.Stop()
	}
}

// install our manifests, a webhook for each configuration, and the gate.
func (l *environment) install(ctx context.Context) error {
	lease := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}}
	key := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{claimsKey}, Verbs: []string{"get", "list", "watch"}}
	kubeconfigs := map[string]string{}
	for _, name := range []string{"webhook", "gate"} {
		path, err := l.cp.ServiceAccountKubeconfig(ctx, home, "kausality-"+name, lease, key)
		if err != nil {
			return err
		}
		kubeconfigs[name] = path
	}
	if err := l.sealingKey(ctx); err != nil {
		return err
	}
	for name := range configurations {
		l.configurations = append(l.configurations, name)
	}
	if *plugin {
		l.configurations = []string{*configuration}
	}
	slices.Sort(l.configurations)
	// The default one brings the CRDs and the access that the others need.
	if i := slices.Index(l.configurations, DefaultConfiguration); i > 0 {
		l.configurations[0], l.configurations[i] = l.configurations[i], l.configurations[0]
	}
	var probes []string
	if *plugin {
		if err := l.installPlugin(ctx); err != nil {
			return err
		}
	}
	for _, name := range l.configurations {
		if *plugin {
			break
		}
		probe, err := l.webhook(ctx, name, kubeconfigs["webhook"])
		if err != nil {
			return err
		}
		probes = append(probes, probe)
		if name == DefaultConfiguration {
			if err := l.led(ctx); err != nil {
				return err
			}
		}
	}
	gate := exec.Command(l.kausality, "gate", "--kubeconfig="+kubeconfigs["gate"], "--default-mode=enforce", "--creation-grace=0s",
		"--drift-webhook-url="+l.receiver.URL, "--drift-webhook-ca-file="+filepath.Join(l.certs, "ca.crt"),
		"--cluster-name=conformance", "--drift-webhook-objects", "--claims-key="+home+"/"+claimsKey)
	if _, err := l.cp.Run(ctx, "gate", gate); err != nil {
		return err
	}
	for _, probe := range probes {
		if err := controlplane.Eventually(ctx, probe, time.Minute, func(ctx context.Context) error { return ready(ctx, probe) }); err != nil {
			return err
		}
	}
	return nil
}

// claimsKey is the Secret with the key that seals claims, which the policy controller creates elsewhere.
const claimsKey = "kausality-claims-key"

func (l *environment) sealingKey(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return err
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: claimsKey}, Data: map[string][]byte{"key": []byte(rand.Text() + rand.Text())}}
	_, err = client.CoreV1().Secrets(home).Create(ctx, s, metav1.CreateOptions{})
	return err
}

// led waits until the webhook that runs first is the leader.
func (l *environment) led(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "the webhook to become leader", time.Minute, func(ctx context.Context) error {
		lease, err := client.CoordinationV1().Leases(home).Get(ctx, "kausality-webhook", metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity == nil {
			err = errors.New("the lease has no holder")
		}
		return err
	})
}

func ready(ctx context.Context, probe string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // The body is not used.
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// webhook process of a configuration, and the manifests that make the API server
// call it.
func (l *environment) webhook(ctx context.Context, name, kubeconfig string) (probe string, err error) {
	addresses := make([]string, 0, 2)
	for range 2 {
		port, err := controlplane.FreePort()
		if err != nil {
			return "", err
		}
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	if err := l.configure(ctx, name, "https://"+addresses[0]); err != nil {
		return "", err
	}
	args := append([]string{"webhook", "--kubeconfig=" + kubeconfig, "--cert-dir=" + l.certs, "--settle-grace=800ms", "--leader-elect",
		"--bind-address=" + addresses[0], "--health-probe-bind-address=" + addresses[1],
		"--drift-webhook-url=" + l.receiver.URL, "--drift-webhook-ca-file=" + filepath.Join(l.certs, "ca.crt"),
		"--cluster-name=conformance", "--drift-webhook-objects", "--claims-key=" + home + "/" + claimsKey}, configurations[name]...)
	_, err = l.cp.Run(ctx, "webhook-"+name, exec.Command(l.kausality, args...))
	return "http://" + addresses[1] + "/readyz", err
}

// configure the API server as our manifests do, for the Namespaces of a
// configuration alone.
func (l *environment) configure(ctx context.Context, name, url string) error {
	out, err := exec.CommandContext(ctx, l.kausality, "manifests", "--webhook-url="+url, "--ca-file="+filepath.Join(l.certs, "ca.crt"),
		"--resources="+strings.Join(guarded, ","), configurations[name][0]).Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	return l.applyManifests(ctx, name, out)
}

// applyManifests for the Namespaces of a configuration.
func (l *environment) applyManifests(ctx context.Context, name string, out []byte) error {
	objects, err := controlplane.Decode(out)
	if err != nil {
		return err
	}
	apply := make([]any, 0, len(objects))
	for _, o := range objects {
		if o.GetKind() == "MutatingWebhookConfiguration" {
			if err := restrict(o, name); err != nil {
				return err
			}
		} else if o.GetKind() == "ValidatingAdmissionPolicyBinding" && o.GetName() == "kausality-annotation-protection" && (name == DefaultConfiguration || *plugin) {
			// Like the webhook itself: where nothing is guarded, scenarios may write
			// anything.
			if err := only(o.Object, name, "spec", "matchResources", "namespaceSelector", "matchExpressions"); err != nil {
				return err
			}
		} else if name != DefaultConfiguration && !*plugin {
			continue
		}
		apply = append(apply, o)
	}
	a, err := controlplane.NewApplier(l.config, "kubectl")
	if err != nil {
		return err
	}
	return a.Objects(ctx, apply...)
}

// only Namespaces of a configuration, by the expressions of a selector.
func only(o map[string]any, name string, path ...string) error {
	match, _, err := unstructured.NestedSlice(o, path...)
	if err != nil {
		return err
	}
	match = append(match, map[string]any{"key": ConfigurationLabel, "operator": "In", "values": []any{name}})
	return unstructured.SetNestedSlice(o, match, path...)
}

// restrict a webhook configuration to the Namespaces of its scenarios.
// Cluster-scoped objects belong to the default configuration alone. The timeout is
// long because the machine may be slow and no scenario is about timeouts.
func restrict(o *unstructured.Unstructured, name string) error {
	if name != DefaultConfiguration && !*plugin {
		o.SetName(o.GetName() + "-" + name)
	}
	hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, h := range hooks {
		m := h.(map[string]any)
		m["timeoutSeconds"] = int64(15)
		if err := only(m, name, "namespaceSelector", "matchExpressions"); err != nil {
			return err
		}
		if name == DefaultConfiguration {
			m["objectSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": UnguardedLabel, "operator": "DoesNotExist"}}}
			continue
		}
		for _, r := range m["rules"].([]any) {
			r.(map[string]any)["scope"] = "Namespaced"
		}
	}
	return unstructured.SetNestedSlice(o.Object, hooks, "webhooks")
}
