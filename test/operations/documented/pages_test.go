package documented

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

const kubectlPage = "docs/kubectl.md"

// typed is what a command of the documentation does here.
type typed struct {
	command string
	// not is the reason for which it is not run here; zero if it is.
	not exemption
	// with replaces parts of the command here, in pairs of old and new.
	with []string
	// prints this, on standard output or error.
	prints string
	// code it exits with.
	code int
	// before it, and after it.
	before, after func(t *testing.T)
	// prepares the shell, and reads what was printed.
	prepares func(t *testing.T, d *shell)
	reads    func(t *testing.T, d *shell, out string)
}

// exemption is why a command is not typed here: what shows that it works, or what prevents it. TestReasons checks that the file
// has the text.
type exemption struct {
	why string
	// file of this repository, and a text in it: the call of a test that types the command, or the lines that it is about.
	file, text string
}

// Reasons for commands that are not run here. Those that name a target, a test or a flag are checked to name one that exists, too.
var (
	byHarness = exemption{"the installation of all tests here is made by it, from the page", "test/operations/site/chart.go", "args, err := l.documented(chart)"}
	byInstall = exemption{"docs/install.md begins with it, and names the image as well", "docs/install.md", "helm install kausality package/helm/kausality " +
		"--namespace kausality-system --create-namespace --set image.repository=REPOSITORY"}
	byUninstall = exemption{"TestUninstall runs it, and ends the installation", "test/operations/site/uninstall.go",
		`l.RunHelm(t.Context(), "uninstall", "kausality")`}
	noKubelet = exemption{"there is no kubelet, and so no log of the Job", "package/helm/kausality/templates/ungate.yaml",
		"kind: Job metadata: name: kausality-ungate"}
	noPods = exemption{"there is no kubelet; TestNotifyTest runs the command of the Pod", "package/helm/kausality/templates/tests.yaml",
		"helm.sh/hook: test"}
	inTerminal  = exemption{"it takes a terminal, which test/page has", "test/page/tui_test.go", `c := tui(t, the.kubeconfigs[hans], 80, 24)`}
	onObject    = exemption{"it takes a terminal, which test/page has", "test/page/tui_test.go", `"--plain", "-n", s.ns, "xstore/invoices"`}
	tracesID    = inPlugin("plugin_test.go", `the.pipe(t, "trace", id, "-n", "default").has(t, 0,`)
	byUnit      = exemption{"make test runs it as a phase of its own, in each module", "Makefile", "PHASES ?= lint generate-check unit parts"}
	webhookRuns = exemption{"it runs until it is interrupted; test/webhook runs it", "test/webhook/fleet_test.go",
		`args = append([]string{"webhook", "--kubeconfig=" + the.kubeconfig, "--default-mode=enforce", "--cert-dir=" + the.certs,`}
	gateRuns  = exemption{"it runs until it is interrupted; test/gate runs it", "test/gate/main_test.go", `"kausality", "gate", "--kubeconfig="+users["gate"]`}
	shardRuns = exemption{"it runs until it is interrupted; TestAdvertisedValues gives the flag the example of its help", "cmd/kausality/webhook.go",
		"as in 0/3"}
	noTerraform = exemption{"Terraform is not built here; TestRealTerraform runs it where it is installed", "gate/systems/plan_test.go",
		`tf.run("show", "-json", "tfplan")`}
	byTofu  = exemption{"it builds OpenTofu; the test is the one that the command names", "gate/systems/plan_test.go", `"tofu": os.Getenv("KAUSALITY_TOFU")`}
	inTofu  = exemption{"test/terraform runs it with the real OpenTofu", "test/terraform/exec_test.go", `[]string{"terraform", "exec", "--", r.tofu}`}
	ofGraph = exemption{"test/kro types it with the real kro", "test/kro/plugin_test.go", `p.run("pending", "resourcegraphdefinition/shop")`}
	cleans  = exemption{"it removes the programs that the tests run", "Makefile", "@rm -rf $(OUT) $(if $(PARTS),$(BIN),"}
)

// takes minutes: a target of the Makefile.
func takes(target string) exemption {
	return exemption{"it takes minutes, or for ever", "Makefile", target + ":"}
}

// onPlane: a test of a package that starts control planes, and that make test or make test-more runs.
func onPlane(pkg string) exemption {
	return exemption{"it starts a control plane of its own", "test/packages.tsv", "github.com/kausality-io/function-kausality/test/" + pkg + " "}
}

// inPlugin: test/kubectl types it on the control plane of the story.
func inPlugin(file, call string) exemption {
	return exemption{"test/kubectl types it with objects of Crossplane, and compares the screen", "test/kubectl/" + file, call}
}

// followed page: what is typed by it, in its order.
type followed struct {
	page     string
	commands []typed
}

// pages in their order. A command of theirs that is not here fails TestDocumentedCommands, as
// does one that the page has no longer.
var pages = []followed{
	{page: "docs/install.md", commands: []typed{
		{command: "helm install kausality package/helm/kausality --namespace kausality-system --create-namespace --set " +
			"image.repository=REPOSITORY --set image.tag=TAG", not: byHarness},
		{command: "kubectl -n kausality-system get pods", prints: "kausality-webhook-"},
		{command: "make manifests VALUES='--set image.repository=REPOSITORY --set image.tag=TAG' > kausality.yaml",
			with: []string{"make ", "make --no-print-directory -C ROOT "}},
		{command: "kubectl apply --server-side -f kausality.yaml", with: []string{"apply ", "apply --dry-run=server --force-conflicts "},
			prints: "deployment.apps/kausality-webhook serverside-applied (server dry run)"},
		{command: "make manifests ARGS='--webhook-url=… --ca-file=… --resources=…'",
			with: []string{"make ", "make --no-print-directory -C ROOT BIN=$PWD/bin HELM=$(command -v helm) ", "webhook-url=…",
				"webhook-url=https://127.0.0.1:9443", "ca-file=…", "ca-file=WORKDIR/ca.crt", "resources=…", "resources=configmaps"},
			prints: "kind: MutatingWebhookConfiguration"},
		{command: "kubectl delete mutatingwebhookconfiguration kausality", with: []string{"delete ", "delete --dry-run=server "}, prints: "(server dry run)",
			before: configured, after: notConfigured},
		{command: "kubectl apply -f policy.yaml", prints: "kausality.kausality.io/databases created", after: func(t *testing.T) { the.AwaitPolicy(t, "databases") }},
		{command: "kubectl get kausalities", prints: "databases"},
		{command: "kubectl get drifts -A"},
		{command: "kubectl get drifts -A"},
		{command: "kubectl annotate namespace team-a kausality.io/mode=enforce",
			before: func(t *testing.T) { the.Namespace(t, "team-a"); the.Namespace(t, "team-b") }, prints: "namespace/team-a annotated"},
		{command: "kubectl apply -f policy.yaml", prints: "kausality.kausality.io/databases configured"},
		{command: "kubectl wait --for=condition=WebhookConfigured kausality/databases", prints: "condition met", after: lenientElsewhere},
		{command: "kubectl get kausalities", prints: "OUTAGE"},
		{command: "kubectl kausality coverage -A", prints: "are protected"},
		{command: "make build", with: []string{"make ", "make --no-print-directory -C ROOT BIN=$PWD/bin "}, prints: "bin/kubectl-kausality"},
		{command: "bin/kausality manifests --webhook-url=https://HOST:PORT --ca-file=ca.crt --resources='*.example.org,deployments.apps," +
			"configmaps' | kubectl apply -f -",
			with: []string{"bin/kausality", "KAUSALITY", "HOST:PORT", "127.0.0.1:9443", "apply ",
				"apply --dry-run=client "}, prints: "mutatingwebhookconfiguration.admissionregistration.k8s.io/kausality configured (dry run)"},
		{command: "bin/kausality webhook --kubeconfig=F --cert-dir=DIR --bind-address=:9443", not: webhookRuns},
		{command: "bin/kausality gate --kubeconfig=F", not: gateRuns},
		{command: "kausality ungate --all --for-removal", with: []string{"--for-removal", "--for-removal --dry-run"}, prints: "0 masked"},
	}},
	{page: "README.md", commands: []typed{
		{command: "make demo", not: takes("demo")},
		{command: "make test", not: takes("test")},
		{command: "helm install kausality package/helm/kausality --namespace kausality-system --create-namespace", not: byInstall},
		{command: "kubectl kausality pending -A", not: inPlugin("plugin_test.go", `the.pipe(t, "pending", "-A")`)},
		{command: "kubectl kausality approve 1f2e3d4c5b6a7980", not: inPlugin("plugin_test.go", `the.terminal(t, "", "approve", id, "--wait")`)},
		{command: "kubectl kausality freeze xdatabase/orders -m incident",
			not: inPlugin("plugin_test.go", `the.terminal(t, "", "freeze", xr, "-m", "incident 4711")`)},
		{command: "kubectl kausality pending -A", not: inPlugin("plugin_test.go", `the.pipe(t, "pending", "-A")`)},
	}},
	{page: "CONTRIBUTING.md", commands: []typed{
		{command: "go test ./admission/... ./fn/...", not: byUnit},
		{command: "make check", not: takes("check")},
		{command: "make release VERSION=v0.1.0", not: takes("release")},
	}},
	{page: "docs/demo.md", commands: []typed{
		{command: "KEEP=1 make demo", not: takes("demo")},
	}},
	{page: "docs/performance.md", commands: []typed{
		{command: `make bench ARGS="--rounds=1500 requests"`, not: takes("bench")},
		{command: "make bench ARGS=apiserver", not: takes("bench")},
		{command: "make bench ARGS=code", not: takes("bench")},
		{command: "make bench ARGS=page", not: takes("bench")},
		{command: "make bench ARGS=gate", not: takes("bench")},
		{command: "go test -C test ./e2e -run TestClicks -v", not: onPlane("e2e")},
		{command: "make bench ARGS=soak", not: takes("bench")},
		{command: "make bench ARGS=history", not: takes("bench")},
	}},
	{page: "docs/testing.md", commands: []typed{
		{command: "go test ./admission/... ./fn/...", not: byUnit},
		{command: "make unit", not: byUnit},
		{command: "make test PKG=./gate RUN=TestEvents", not: takes("test")},
		{command: "make test RESUME=1", not: takes("test")},
		{command: "go run ./hack/figures --update", not: exemption{"it writes hack/figures/limits.tsv", "hack/figures/figures_test.go", "func TestTightened("}},
		{command: "make clean PARTS=1", not: cleans},
		{command: "make bench ARGS=code", not: takes("bench")},
		{command: "go test ./admission -run TestModel -args -model.seed=7", with: []string{"go test ", "go test -C ROOT -trimpath -vet=off "}, prints: "ok "},
		{command: "go test ./admission -run TestGateTransitions", with: []string{"go test ", "go test -C ROOT -trimpath -vet=off "}, prints: "ok "},
		{command: "go test ./fn -run TestStory -v", with: []string{"go test ", "go test -C ROOT -trimpath -vet=off "}, prints: "--- PASS: TestStory"},
		{command: "go test -C test ./conformance -run 'TestScenarios/approvals/OnceIsOnce$' -v", not: onPlane("conformance")},
		{command: "go test -C test ./gate -run TestRandom -args -random.seed=3", not: onPlane("gate")},
		{command: "go test -C test ./webhook -run TestFreezeWithLaggingWatch", not: onPlane("webhook")},
		{command: "go test -C test ./operations/documented -run TestDocumentedCommands", not: onPlane("operations")},
		{command: "go test -C test ./e2e -run TestSteady", not: onPlane("e2e")},
		{command: "make test PKG=./test/adversary", not: takes("test")},
		{command: "make random SEEDS=100", not: takes("random")},
		{command: "make adversary SEEDS=200", not: takes("adversary")},
	}},
	{"docs/operations.md", []typed{
		{command: "kubectl kausality emergency", prints: "keep gates closed"},
		{command: "kubectl kausality ungate --all --dry-run", prints: "0 masked"},
		{command: "kubectl annotate TYPE NAME kausality.io/mode=log --overwrite", with: []string{"TYPE NAME", "namespace team-a"},
			prints: "namespace/team-a annotated"},
		{command: `kubectl patch kausality NAME --type=merge -p '{"spec":{"suspend":true}}'`, with: []string{"NAME", "databases"}, prints: "patched"},
		{command: `kubectl patch kausality NAME --type=merge -p '{"spec":{"suspend":false}}'`, with: []string{"NAME", "databases"}, prints: "patched"},
		{command: `kubectl patch kausality NAME --type=merge -p '{"spec":{"mode":"log","overrides":[]}}'`, with: []string{"NAME", "databases"}, prints: "patched"},
		{command: "kubectl -n kausality-system scale deployment kausality-controller --replicas=0", prints: "scaled",
			after: func(*testing.T) { the.Controller.Stop() }},
		{command: "kubectl delete mutatingwebhookconfiguration kausality", prints: "deleted"},
		{command: "kubectl -n kausality-system scale deployment kausality-controller --replicas=2", prints: "scaled", after: func(t *testing.T) {
			require.NoError(t, the.Controller.Restart())
			require.NoError(t, the.Controller.Await(t.Context()))
			wait.For(t, "the configuration to be created again", wait.Patience, func(ctx context.Context) error { _, err := the.Entries(ctx); return err })
		}},
		{command: "kubectl get drifts -A"},
		{command: "helm uninstall kausality --namespace kausality-system", not: byUninstall},
		{command: "kausality ungate --all --for-removal", with: []string{"--for-removal", "--for-removal --dry-run"}, prints: "0 masked"},
		// For real it takes five seconds, and is played by TestUninstall and by test/kubectl.
		{command: "kubectl kausality ungate --all --for-removal --yes", with: []string{"--yes", "--yes --dry-run"}, prints: "0 masked"},
		{command: "kubectl delete -f kausality.yaml", with: []string{"delete ", "delete --dry-run=server "},
			prints: `clusterrole.rbac.authorization.k8s.io "kausality-controller-base" deleted`},
		{command: "kubectl -n kausality-system logs job/kausality-ungate", not: noKubelet},
		{command: "kubectl annotate mutatingwebhookconfiguration kausality kausality.io/removal-", before: removal, prints: "annotated",
			after: func(t *testing.T) { the.AwaitPolicy(t, "databases") }},
		{command: "kubectl kausality ungate --all", prints: "0 masked"},
		{command: "kubectl get kausalities", prints: "ANSWERING"},
		{command: "kubectl -n kausality-system get pods", prints: "kausality-webhook-"},
		{command: "kubectl get kausality NAME -o yaml", with: []string{"NAME", "databases"}, prints: "reason: Understood"},
		{command: "kubectl get drifts -A --sort-by=.status.count"},
		{command: "kubectl get driftreceivers -o wide"},
		{command: "kubectl kausality pending -n NAMESPACE", with: []string{"NAMESPACE", "default"}},
		{command: "kubectl get events -A --field-selector reason=GlassBroken"},
		{command: "kubectl kausality rollout status NAME", not: inPlugin("rollout_test.go", `the.terminal(t, "", "rollout", "status", "silver")`)},
		{command: "kubectl describe rollout NAME", with: []string{"NAME", "-A"}},
		{command: "kubectl get mutatingwebhookconfiguration kausality -o yaml --show-managed-fields", prints: "manager: kausality-controller"},
		{command: "kubectl get kausalities", prints: "ANSWERING"},
		{command: "kubectl get kausality NAME -o yaml", with: []string{"NAME", "databases"}, prints: "reason: Understood"},
		{command: "kubectl -n kausality-system get pods", prints: "kausality-webhook-"},
		{command: "kubectl kausality explain TYPE/NAME", with: []string{"TYPE/NAME", "xdatabase/orders"}, before: xdatabase, prints: "XDatabase default/orders"},
	}},
	{page: kubectlPage, commands: []typed{
		{command: `printf '#!/bin/sh\nexec kubectl-kausality __complete "$@"\n' > ~/bin/kubectl_complete-kausality`},
		{command: "chmod +x ~/bin/kubectl_complete-kausality"},
		{command: "kubectl kausality trace database/orders-da6cb79af0ff", with: []string{"database/orders-da6cb79af0ff", "xdatabase/orders"},
			prints: "XDatabase default/orders, generation 1, by hans@example.com"},
		{command: "kubectl kausality trace 5f0c7d1e8a3b9246", not: tracesID},
		{command: `kubectl kausality explain database/orders-da6cb79af0ff --patch '{"spec":{"forProvider":{"size":50}}}'`,
			with: []string{"database/orders-da6cb79af0ff", "xdatabase/orders"}, prints: "If you change it"},
		{command: "kubectl kausality pending -A"},
		{command: "kubectl get drifts -A"},
		{command: "kubectl kausality pending resourcegraphdefinition/shop", not: ofGraph},
		{command: `kubectl kausality freeze xdatabases -l team=shop -m "incident 4712"`, before: team,
			with: []string{"freeze ", "freeze --dry-run "}, code: 1, prints: "left out: it is frozen already by hans (incident); unfreeze it first, or give --overwrite",
			reads: func(t *testing.T, _ *shell, out string) {
				if !strings.Contains(out, "XDatabase default/blue") || !strings.Contains(out, `kausality.io/freeze: none → {"at":`) ||
					!strings.Contains(out, "left out 1 of 2 objects") {
					t.Errorf("it shows:\n%s", out)
				}
			}},
		{command: "kubectl kausality tui", not: inTerminal},
		{command: "kubectl kausality tui xdatabase/orders", not: onObject},
		{command: "kubectl kausality tui --plain", not: onObject},
		{command: "kubectl kausality preview composition.yaml", not: inPlugin("preview_test.go", `the.terminal(t, "", "preview", changed, program,`)},
		{command: "kubectl create clusterrolebinding shop-views-kausality --clusterrole=kausality-viewer --group=shop"},
		{command: "kubectl auth can-i approve xdatabases.example.org --subresource=approval -n shop"},
	}},
	{"docs/function.md", []typed{
		{command: "kubectl get drifts"},
		{command: "bin/kausality manifests --function-only | kubectl apply -f -", with: []string{"bin/kausality", "KAUSALITY", "apply ", "apply --dry-run=client "},
			prints: "clusterrole.rbac.authorization.k8s.io/kausality-crossplane configured (dry run)"},
		{command: "kubectl get secret -n kausality-system kausality-claims-key -o jsonpath='{.data.key}' | base64 -d > key", before: crossplaneSystem},
		{command: "kubectl create secret generic -n crossplane-system kausality-claims-key --from-file=key && rm key", prints: "created", after: keyCopied},
		{command: "make parts build", prepares: cloned,
			// The parts are built already, and programs that other tests run meanwhile are not written.
			with:   []string{"make parts build", "make --no-print-directory -C ROOT build BIN=$PWD/bin"},
			prints: "bin/kubectl-kausality"},
		{command: "bin/kausality --insecure --address=127.0.0.1:9443 --metrics-bind-address=0 &", with: []string{"9443", "PORT9443"}},
		{command: "bin/function-patch-and-transform-v0.10.7 --insecure --address=127.0.0.1:9444 &", with: []string{"9444", "PORT9444"}},
		{command: "cd examples/getting-started"},
		{command: "../../bin/crossplane-cli-v2.2.0 render xr.yaml composition.yaml functions.yaml --include-full-xr --include-function-results",
			prints: `"labels":{"ticket":"SHOP-1"},"unattributed":true},{"apiVersion":"cloud.example.org/v1alpha1","kind":"Database"`},
		{command: "cd ../policies-inline"},
		{command: "../../bin/crossplane-cli-v2.2.0 render xr.yaml composition.yaml functions.yaml --observed-resources=observed.yaml " +
			"--include-full-xr --include-function-results",
			prints: "reason: Held", reads: approvedInFile},
	}},
	{page: "docs/external.md", commands: []typed{
		{command: "kausality manifests --resources='terraforms.infra.contrib.fluxcd.io,applications.argoproj.io,…'",
			with: []string{",…'", "' --webhook-url=https://127.0.0.1:9443 --ca-file=ca.crt"}, prints: "applications"},
		{command: "kubectl kausality approve workspace/orders --any --external=apply", before: workspace, prints: "Workspace default/orders", after: approved},
		{command: "kubectl kausality approve workspace/orders --any --external=apply,destroy", prints: "Workspace default/orders", after: approvedRun},
		{command: "terraform plan -out=tfplan && terraform show -json tfplan > plan.json", not: noTerraform},
		{command: "kubectl get workspace orders -o yaml > orders.yaml"},
		{command: "kausality terraform check-plan --plan=plan.json --annotations=orders.yaml", prepares: planned("create"),
			prints: "Plan: 7 to check, 0 not allowed"},
		{command: "kausality terraform exec -- tofu apply -auto-approve", not: inTofu},
		{command: "KAUSALITY_TOFU=$(go run -C test ./cmd/parts tofu) go test ./gate/systems -run TestRealTerraform", not: byTofu},
		{command: "kubectl kausality trace ID", not: tracesID},
	}},
	{page: "docs/reports.md", commands: []typed{
		{command: "helm test kausality -n kausality-system", not: noPods},
		{command: "kubectl get driftreceivers -o wide"},
	}},
	{page: "docs/policies.md", commands: []typed{
		{command: "kubectl get allowancepolicies,upgradeallowances,approvalpolicies -A"},
		{command: "kubectl apply -f xdatabases.yaml", with: []string{"xdatabases.yaml", "xdatabases.yaml --dry-run=server"}, prepares: neverEnds,
			prints: "Warning: spec.initializing.when: it never ends"},
		{command: "kausality policy derive --events=audit.log > policies.yaml", before: learned, prepares: audited},
		{command: "kausality policy test policies.yaml --events=audit.log", prints: " 0 refused", reads: derived},
		{command: "kubectl get drifts -A -o json", prints: `"kind": "List"`},
	}},
	{page: "docs/gate.md", commands: []typed{
		{command: "kausality gate --shard=0/3", not: shardRuns},
		{command: "kubectl get drifts"},
		{command: "kausality ungate --all", with: []string{"--all", "--all --dry-run"}, prints: "0 masked"},
	}},
	{page: "docs/dependencies.md", commands: []typed{
		{command: "terraform show -json", not: noTerraform},
	}},
	{page: "docs/adding-a-rule.md", commands: []typed{
		{command: "go test ./admission/...", not: byUnit},
		{command: "go test ./admission -run TestModel -args -model.seeds=10000", not: takes("model")},
		{command: "go test -C test ./conformance -run 'TestScenarios/freeze/' -v", not: onPlane("conformance")},
		{command: "make generate", not: byUnit},
		{command: "make lint unit", not: byUnit},
		{command: "make conformance", not: takes("conformance")},
	}},
	{page: "docs/adding-an-external-system.md", commands: []typed{
		{command: "go test ./gate/systems ./admission/external", with: []string{"go test ", "go test -C ROOT -trimpath -vet=off "}, prints: "ok "},
		{command: "go test -C test ./webhook/external -run TestArgoCD -v", not: onPlane("webhook/external")},
		{command: "kausality ungate --all --for-removal", with: []string{"--for-removal", "--for-removal --dry-run"}, prints: "0 masked"},
	}},
	{page: "docs/specification.md", commands: []typed{
		{command: "terraform show -json", not: noTerraform},
		{command: "kubectl kausality freeze --for PERIOD", with: []string{"--for PERIOD", "xdatabase/orders --for 2h --overwrite --dry-run"},
			prints: "kausality.io/freeze"},
		{command: "kubectl kausality approve --break-glass REASON",
			not: inPlugin("votes_test.go", `the.pipe(t, "approve", id, "--break-glass", "the disk is full")`)},
		{command: "kausality kro derive -f FILE", with: []string{"FILE", "ROOT/examples/kro/graph.yaml"}, prints: "name: shop-policy"},
	}},
	{page: "docs/design/0005-removal.md", commands: []typed{
		{command: "kausality ungate --all --for-removal", with: []string{"--for-removal", "--for-removal --dry-run"}, prints: "0 masked"},
	}},
}

var (
	xdatabases = schema.GroupVersionResource{Group: site.LearnedGroup, Version: "v1", Resource: "xdatabases"}
	buckets    = schema.GroupVersionResource{Group: site.LearnedGroup, Version: "v1", Resource: "buckets"}
)

// neverEnds is a policy with a phase that never ends.
func neverEnds(t *testing.T, d *shell) {
	t.Helper()
	const text = `{apiVersion: kausality.io/v1alpha1, kind: AllowancePolicy, metadata: {name: xdatabases},
  spec: {target: {apiGroup: example.org, kind: XDatabase}, initializing: {when: "true", allow: []}}}`
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "xdatabases.yaml"), []byte(text), 0o600))
}

// configured: the API server is, for another policy.
func configured(t *testing.T) {
	spec := map[string]any{"resources": []any{map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"*"}}}}
	_, err := the.Admin.Resource(site.Kausality).Create(t.Context(), site.Object("kausality.io/v1alpha1", "Kausality", "", "configured", spec),
		metav1.CreateOptions{})
	require.NoError(t, err)
	the.AwaitPolicy(t, "configured")
}

// notConfigured any more.
func notConfigured(t *testing.T) {
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "configured", site.Forget))
	wait.For(t, "the configuration to be deleted", wait.Patience, func(ctx context.Context) error {
		_, err := the.Admin.Resource(site.Hooks).Get(ctx, "kausality", metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("there is one"), err)
	})
}

// lenientElsewhere: what the page has in policy.yaml at last is in force.
func lenientElsewhere(t *testing.T) {
	the.AwaitPolicy(t, "databases")
	e, err := the.Entry(t.Context(), "databases-2.admission.kausality.io")
	require.NoError(t, err)
	if e["failurePolicy"] != "Ignore" {
		t.Errorf("outside of the enforced Namespaces the failure policy is %v", e["failurePolicy"])
	}
}

// removal was begun, and did not end.
func removal(t *testing.T) {
	t.Helper()
	require.NoError(t, site.Merge(t, the.Admin, site.Hooks, "", "kausality", site.Annotate("kausality.io/removal", "2026-01-05T09:30:00Z")))
	wait.For(t, "the policy to report it", wait.Patience, func(ctx context.Context) error {
		k, err := the.Admin.Resource(site.Kausality).Get(ctx, "databases", metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(k.Object["status"]), "BeingRemoved") {
			err = fmt.Errorf("its status is %v", k.Object["status"])
		}
		return err
	})
}

// team of one XDatabase, in addition to orders, which hans freezes.
func team(t *testing.T) {
	t.Helper()
	c := the.As(t, site.Hans).Resource(xdatabases).Namespace("default")
	_, err := c.Create(t.Context(), site.Object("example.org/v1", "XDatabase", "default", "blue", map[string]any{"size": int64(1)}), metav1.CreateOptions{})
	require.NoError(t, err)
	for _, name := range []string{"blue", "orders"} {
		require.NoError(t, site.Merge(t, the.As(t, site.Hans), xdatabases, "default", name,
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "shop"}}}))
	}
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), xdatabases, "default", "orders", site.Annotate("kausality.io/freeze",
		`{"user":"hans","message":"incident"}`)))
}

// xdatabase of a kind that the policy of the pages covers.
func xdatabase(t *testing.T) {
	t.Helper()
	defined(t, "XDatabase", "example.org", "v1")
	wait.For(t, "an XDatabase", wait.Patience, func(ctx context.Context) error {
		_, err := the.As(t, site.Hans).Resource(xdatabases).Namespace("default").Create(ctx,
			site.Object("example.org/v1", "XDatabase", "default", "orders", map[string]any{"size": int64(1)}), metav1.CreateOptions{})
		return err
	})
}

// defined kind, without a schema of its objects.
func defined(t *testing.T, kind, group, version string) {
	t.Helper()
	require.NoError(t, the.Define(t.Context(), controlplane.Kind{Group: group, Kind: kind, Version: version}))
}
