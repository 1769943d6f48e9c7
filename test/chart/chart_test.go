package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

var helm, dir, root string

func TestMain(m *testing.M) {
	var err error
	if root, err = parts.Root(); err != nil {
		panic(err)
	}
	dir = filepath.Join(root, "package", "helm", "kausality")
	tools, err := parts.Ensure(context.Background(), os.Stderr, "", parts.Helm)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot get helm:", err)
		os.Exit(1)
	}
	helm = tools[parts.Helm]
	os.Exit(m.Run())
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s%s", err, stderr.String(), out)
	}
	return string(out), nil
}

func sets(values []string) (args []string) {
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// matrix of values, and what must and must not be rendered from them.
// keptRole lets Crossplane read the policies as long as their CRDs exist: otherwise each pipeline that fetches them
// would fail after the chart is uninstalled (KR-09-08).
const keptRole = "helm.sh/resource-policy: keep\n  name: kausality-crossplane"

var matrix = map[string]struct {
	values  []string
	has     []string
	without []string
}{
	"Defaults": {has: []string{"Deployment kausality-webhook", "Deployment kausality-gate", "Deployment kausality-controller",
		"PodDisruptionBudget kausality-webhook", "Job kausality-ungate",
		"CustomResourceDefinition drifts.kausality.io", "CustomResourceDefinition kausalities.kausality.io", "Service " +
			"kausality-webhook", "--certificates=own", "--default-mode=log", keptRole,
		"NetworkPolicy kausality-webhook", "NetworkPolicy kausality-gate", "NetworkPolicy kausality-controller"},
		without: []string{"NetworkPolicy kausality-notifier", "NetworkPolicy kausality-history", "ServiceMonitor", "PrometheusRule", "ConfigMap",
			"Certificate ", "Issuer ", "Deployment kausality-notifier",
			"MutatingWebhookConfiguration", "--record-"}},
	"Enforce": {values: []string{"defaultMode=enforce", "webhook.replicas=3"}, has: []string{"--default-mode=enforce"},
		without: []string{"--default-mode=log"}},
	"CertManager": {values: []string{"certificates.source=cert-manager"},
		has: []string{"Certificate kausality-webhook", "Certificate kausality-authority", "Issuer kausality\n",
			"Issuer kausality-selfsigned", "--certificates=secret"},
		without: []string{"--certificates=own"}},
	"Issuer": {values: []string{"certificates.source=cert-manager", "certificates.issuerRef.kind=ClusterIssuer", "certificates.issuerRef.name=corporate"},
		has:     []string{"Certificate kausality-webhook", "name: corporate"},
		without: []string{"Issuer kausality", "Certificate kausality-authority"}},
	"Monitoring": {values: []string{"metrics.serviceMonitor.enabled=true", "metrics.alerts.enabled=true",
		"metrics.dashboards.enabled=true", "metrics.alerts.labels.release=prometheus"},
		has: []string{"ServiceMonitor kausality", "PrometheusRule kausality", "ConfigMap kausality-dashboards", "KausalityWebhookDown",
			"{{ $labels.policy }}", "release: prometheus"}},
	"NoMetrics": {values: []string{"metrics.enabled=false", "metrics.alerts.enabled=true"},
		has: []string{"--metrics-bind-address=0"}, without: []string{"Service kausality-webhook-metrics", "PrometheusRule", "containerPort: 8080"}},
	"Notifier": {values: []string{"notifier.enabled=true", "notifier.tlsSecretName=notifier-tls"},
		has: []string{"Deployment kausality-notifier", "Service kausality-notifier", "ServiceAccount kausality-notifier",
			"--drift-webhook-url=https://kausality-notifier", "secretName: notifier-tls"}},
	"Endpoints": {values: []string{"driftWebhooks.urls={https://a.example.org/x,https://b.example.org/y}", "driftWebhooks.caSecretName=ca",
		"driftWebhooks.links={console=https://c.example.org/{id\\}}", "driftWebhooks.objects=true", "clusterName=prod-1"},
		has: []string{"--drift-webhook-url=https://a.example.org/x", "--drift-webhook-url=https://b.example.org/y", "secretName: ca",
			"--drift-webhook-link=console=", "--drift-webhook-objects", "--cluster-name=prod-1", "Pod kausality-notify-test"},
		without: []string{"drift-webhooks"}},
	"EndpointsWithCredentials": {values: []string{"driftWebhooks.urls={https://a.example.org/x\\,token-file=/etc/kausality/drift-webhooks/token}",
		"driftWebhooks.secretName=tokens"},
		has: []string{"--drift-webhook-url=https://a.example.org/x,token-file=/etc/kausality/drift-webhooks/token", "secretName: tokens",
			"{name: drift-webhooks, mountPath: /etc/kausality/drift-webhooks, readOnly: true}", "Pod kausality-notify-test"},
		without: []string{"drift-ca"}},
	"Records": {values: []string{"records.sinks={nats=tls://nats.example.org:4222\\,subject=fleet}", "records.secretName=creds", "records.tokenAudience=history",
		"records.spoolSize=1Gi"},
		has: []string{"--record-spool-dir=/var/lib/kausality/records", "--record-spool-size=1Gi", "--record-sink=nats=tls://nats.example.org:4222,subject=fleet",
			"emptyDir: {}", "secretName: creds", `audience: "history"`, "{name: records, mountPath: /var/lib/kausality/records}"}},
	"RecordsOnVolume": {values: []string{"records.sinks={otlp=https://collector:4318}", "records.volume.hostPath.path=/var/lib/x",
		"driftWebhooks.caSecretName=ca"},
		has: []string{"path: /var/lib/x", "name: drift-ca"}, without: []string{"emptyDir: {}", "records-token", "records-secret"}},
	"ClientCA": {values: []string{"webhook.clientCASecretName=clients"},
		has: []string{"--client-ca-file=/etc/kausality/client-ca/ca.crt", "secretName: clients"}},
	"NoNetworkPolicies": {values: []string{"networkPolicy.enabled=false", "history.enabled=true"}, without: []string{"NetworkPolicy "}},
	"NetworkPolicies": {values: []string{"networkPolicy.apiServers={10.0.0.7/32}", "notifier.enabled=true",
		"notifier.tlsSecretName=notifier-tls"},
		has: []string{"NetworkPolicy kausality-webhook", "NetworkPolicy kausality-gate", "NetworkPolicy kausality-controller",
			"NetworkPolicy kausality-notifier", `ipBlock: {cidr: "10.0.0.7/32"}`}},
	"History": {values: []string{"history.enabled=true", "networkPolicy.apiServers={10.0.0.7/32}"},
		has: []string{"Deployment kausality-history", "Service kausality-history", "PersistentVolumeClaim kausality-history", "fsGroup: 65532",
			"ServiceAccount kausality-history", "NetworkPolicy kausality-history", "ClusterRole kausality-history-auditor", "--store=/var/lib/kausality/history.db",
			"--retention=2160h", "--certificate-host=kausality-history.kausality-system.svc", "type: Recreate",
			"--record-sink=cloudevents=https://kausality-history.kausality-system.svc:8443/v1/records,token-file=", "history-ca"},
		without: []string{"--store-url-file", "--nats-url", "--hash-key-file"}},
	"HistoryOfAFleet": {values: []string{"history.enabled=true", "history.replicas=2", "history.postgres.secretName=pg", "history.hashKeySecretName=hash",
		"history.senderTokensSecretName=senders", "history.nats.url=tls://nats:4222", "history.nats.credsSecretName=creds"},
		has: []string{"--store-url-file=/etc/kausality/postgres/url", "secretName: pg", "--hash-key-file=/etc/kausality/hash-key/key", "--nats-url=tls://nats:4222",
			"--nats-creds-file=/etc/kausality/nats-creds/creds", "--sender-tokens-dir=/etc/kausality/sender-tokens"},
		without: []string{"PersistentVolumeClaim", "--store=/", "type: Recreate"}},
	"Slack": {values: append([]string{"networkPolicy.enabled=true"}, slackValues...),
		has: []string{"Deployment kausality-slack", "ServiceAccount kausality-slack", "NetworkPolicy kausality-slack", "ConfigMap kausality-slack",
			"Service kausality-slack-metrics", "ClusterRole kausality-slack", "--app-token-file=/etc/kausality/slack-tokens/app-token", "--leader-elect",
			"secretName: tokens", "key: app-token", "kausality.io/config-checksum"},
		without: []string{"Service kausality-slack\n", "--signing-secret-file", "--interactivity-cert-dir"}},
	"SlackByHTTP": {values: append([]string{"slack.interactivity.enabled=true", "slack.interactivity.tlsSecretName=slack-tls", "metrics.enabled=false",
		"networkPolicy.interactivity[0].namespaceSelector.matchLabels.a=ingress", "clusterName=production"}, slackValues...),
		has: []string{"Service kausality-slack\n", "--signing-secret-file=/etc/kausality/slack-tokens/signing-secret", "--interactivity-cert-dir=/etc/kausality/tls",
			"secretName: slack-tls", "port: 9444}]\n      from:\n        - namespaceSelector", "clusterName: production"},
		without: []string{"--app-token-file", "Service kausality-slack-metrics"}},
	"Page": {values: append([]string{"driftWebhooks.urls={https://a.example.org/x}"}, append(slackValues, pageValues...)...),
		has: []string{"Deployment kausality-page", "ServiceAccount kausality-page", "NetworkPolicy kausality-page", "ConfigMap kausality-page",
			"Service kausality-page\n", "Service kausality-page-metrics", "ClusterRole kausality-page", "PodDisruptionBudget kausality-page", "GOMEMLIMIT",
			"--cookie-keys-dir=/etc/kausality/page-keys",
			"secretName: page-keys", "port: 80,",
			"--drift-webhook-link=page=https://kausality.example.org/change/{id}?namespace={namespace}",
			"url: https://kausality.example.org/change/{id}?namespace={namespace}"},
		without: []string{"--cert-dir=/etc/kausality/tls", "--oidc-client-secret-file", "--oidc-ca-file"}},
	"PageWithTLS": {values: append([]string{"page.tlsSecretName=page-tls", "page.clientSecretName=page-client", "page.issuerCASecretName=page-issuer",
		"networkPolicy.page[0].namespaceSelector.matchLabels.a=ingress",
		"slack.config.page.url=https://other.example.org/{id\\}"}, append(slackValues, pageValues...)...),
		has: []string{"--cert-dir=/etc/kausality/tls", "secretName: page-tls", "port: 443,", "--oidc-client-secret-file=/etc/kausality/page-client/client-secret",
			"--oidc-ca-file=/etc/kausality/page-issuer/ca.crt", "port: 9445}]\n      from:\n        - namespaceSelector", "url: https://other.example.org/{id}"}},
	"PageURL": {values: []string{"page.url=https://kausality.example.org/"}, has: []string{"--drift-webhook-link=page=https://kausality.example.org/change/{id}"},
		without: []string{"Deployment kausality-page"}},
	"URL": {values: []string{"webhook.url=https://10.0.0.7:9443"}, has: []string{"--webhook-url=https://10.0.0.7:9443"},
		without: []string{"--webhook-service"}},
	"CRDsGo": {values: []string{"crds.keep=false"}, has: []string{"CustomResourceDefinition drifts.kausality.io", "\nmetadata:\n  labels:\n" +
		"    app.kubernetes.io/name: kausality\n    rbac.crossplane.io/aggregate-to-crossplane: \"true\"\n  name: kausality-crossplane"},
		without: []string{"helm.sh/resource-policy"}},
	"NoCRDs":   {values: []string{"crds.install=false"}, has: []string{keptRole}, without: []string{"CustomResourceDefinition"}},
	"NoUngate": {values: []string{"ungate.enabled=false"}, without: []string{"Job "}},
	"Digest":   {values: []string{"image.digest=sha256:" + strings.Repeat("a", 64)}, has: []string{"@sha256:aaaa"}},
	"Scheduling": {values: []string{"webhook.nodeSelector.disk=ssd", "gate.tolerations[0].operator=Exists",
		"imagePullSecrets[0].name=pull", "controller.extraArgs={--debug}"},
		has: []string{"disk: ssd", "operator: Exists", "name: pull", "--debug"}},
}

func TestMatrix(t *testing.T) {
	for name, tc := range matrix {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := sets(tc.values)
			if _, err := run(t, append([]string{"lint", dir, "--strict", "--namespace", "kausality-system"}, args...)...); err != nil {
				t.Fatal(err)
			}
			out, err := run(t, append([]string{"template", "kausality", dir, "--namespace", "kausality-system"}, args...)...)
			if err != nil {
				t.Fatal(err)
			}
			text := listed(t, out) + out
			for _, want := range tc.has {
				if !strings.Contains(text, want) {
					t.Errorf("want %q in it", want)
				}
			}
			for _, not := range tc.without {
				if strings.Contains(text, "\n"+not) || strings.HasPrefix(not, "-") && strings.Contains(text, not) {
					t.Errorf("want no %q in it", not)
				}
			}
		})
	}
}

// listed objects, a line each. Each must have its labels and its place.
func listed(t *testing.T, out string) string {
	t.Helper()
	objects, err := controlplane.Decode([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(out, "\n---\n") {
		var content map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil { // such as a duplicate key, of which only one counts
			t.Errorf("%v in\n%s", err, document)
		}
	}
	text := "\n"
	seen := map[string]bool{}
	for _, o := range objects {
		line := o.GetKind() + " " + o.GetName() + "\n"
		if seen[line] {
			t.Errorf("%s is rendered twice", line)
		}
		seen[line] = true
		text += line
		if o.GetKind() != "CustomResourceDefinition" && o.GetLabels()["app.kubernetes.io/name"] != "kausality" {
			t.Errorf("%s has no label app.kubernetes.io/name", line)
		}
		// Reading the authorities of clients is granted where they are published.
		reads := o.GetKind() == "RoleBinding" && o.GetName() == "kausality-history" && o.GetNamespace() == "kube-system"
		if ns := o.GetNamespace(); ns != "" && ns != "kausality-system" && !reads {
			t.Errorf("%s is in namespace %s", line, ns)
		}
		if o.GetKind() == "Deployment" || o.GetKind() == "Job" {
			careful(t, o)
		}
	}
	return text
}

// careful pods run as a user without privileges, on a file system that is read
// only.
func careful(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	pod, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	if yes, _, _ := unstructured.NestedBool(pod, "securityContext", "runAsNonRoot"); !yes {
		t.Errorf("%s may run as root", o.GetName())
	}
	if profile, _, _ := unstructured.NestedString(pod, "securityContext", "seccompProfile", "type"); profile != "RuntimeDefault" {
		t.Errorf("%s has the seccomp profile %q", o.GetName(), profile)
	}
	if mounted, declared, _ := unstructured.NestedBool(pod, "automountServiceAccountToken"); !declared || mounted == (o.GetName() == "kausality-notifier") {
		t.Errorf("%s mounts a token: %t, declared: %t", o.GetName(), mounted, declared)
	}
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	for _, c := range containers {
		if yes, _, _ := unstructured.NestedBool(c.(map[string]any), "securityContext", "readOnlyRootFilesystem"); !yes {
			t.Errorf("%s may write its file system", o.GetName())
		}
		if drop, _, _ := unstructured.NestedStringSlice(c.(map[string]any), "securityContext", "capabilities", "drop"); !slices.Equal(drop, []string{"ALL"}) {
			t.Errorf("%s has capabilities", o.GetName())
		}
		if limit, _, _ := unstructured.NestedString(c.(map[string]any), "resources", "limits", "memory"); limit == "" {
			t.Errorf("%s has no limit of memory", o.GetName())
		}
	}
}

// TestWrongValues: the schema, or the chart, names the wrong value.
func TestWrongValues(t *testing.T) {
	cases := map[string]struct{ value, want string }{
		"Mode": {value: "defaultMode=strict", want: "defaultMode"}, "Typo": {value: "webhok.replicas=2", want: "webhok"}, "Duration": {value: "gate.deadline=soon",
			want: "deadline"},
		"URL": {value: "driftWebhooks.urls={http://a}", want: "urls"}, "Closed": {value: "gate.closed=Update",
			want: "closed"}, "Source": {value: "certificates.source=nobody",
			want: "source"},
		"Digest": {value: "image.digest=abc", want: "digest"}, "NoReplicas": {value: "webhook.replicas=0",
			want: "replicas"}, "Notifier": {value: "notifier.enabled=true",
			want: "notifier.tlsSecretName"},
		"Slack":        {value: "slack.enabled=true", want: "slack.config"},
		"SlackTokens":  {value: strings.Replace(strings.Join(slackValues, ","), "=tokens", "=", 1), want: "slack.tokensSecretName"},
		"SlackChannel": {value: "slack.config.channel=#general", want: "channel"},
		"Page":         {value: "page.enabled=true", want: "page.url"},
		"PageLogin":    {value: "page.enabled=true,page.url=https://a.example.org", want: "page.config: set oidc"},
		"PageKeys":     {value: strings.Replace(strings.Join(pageValues, ","), "=page-keys", "=", 1), want: "page.keysSecretName"},
		"PageURL":      {value: "page.url=http://a.example.org", want: "url"},
		"PagePath":     {value: "page.url=https://a.example.org/x", want: "url"},
		"PageSystem":   {value: "page.config.groups={system:masters}", want: "groups"},
		"SlackField":   {value: "slack.config.chanel=C0123", want: "chanel"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, "template", "kausality", dir, "--namespace", "kausality-system", "--set", tc.value)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error that names %s, got %v", tc.want, err)
			}
		})
	}
	if _, err := run(t, "template", "kausality", dir, "--namespace", "elsewhere"); err == nil || !strings.Contains(err.Error(), "kausality-system") {
		t.Errorf("want it refused in another namespace, got %v", err)
	}
}

// TestSchemaDescribes every value that there is.
func TestSchemaDescribes(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	described(t, "", schema)
}

func described(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		one := p.(map[string]any)
		if one["description"] == nil && one["properties"] == nil {
			t.Errorf("value %s%s is not described", path, name)
		}
		described(t, path+name+".", one)
	}
}

// TestChartHasGeneratedCRDs: the chart has the CRDs that are generated.
func TestChartHasGeneratedCRDs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "package", "crds", "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d CRDs, error %v", len(files), err)
	}
	for _, f := range files {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "files", "crds", filepath.Base(f)))
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("%s is not the chart's (error %v): run make generate", filepath.Base(f), err)
		}
	}
}
