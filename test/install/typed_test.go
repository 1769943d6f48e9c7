package install

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// step of the documentation: a command that it has somebody type, or what it has
// them write into policy.yaml.
type step struct{ command, yaml string }

var (
	blocks  = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```")
	inlines = regexp.MustCompile("`((?:kubectl|helm) [^`]+)`")
	remark  = regexp.MustCompile(` {2,}#.*$`)
)

// steps of a page in their order: lines of its shell blocks, and what it has of
// kubectl and helm in the running text; blocks of YAML. Of a page with several
// subjects, blocks without any of both do not count.
func (l *lab) steps(page string) ([]step, error) {
	raw, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	var out []step
	text := string(raw)
	for {
		at := blocks.FindStringSubmatchIndex(text)
		before := text
		if at != nil {
			before = text[:at[0]]
		}
		for _, m := range inlines.FindAllStringSubmatch(before, -1) {
			if command := strings.Join(strings.Fields(m[1]), " "); strings.Count(command, " ") > 1 { // not only the name of a command
				out = append(out, step{command: command})
			}
		}
		if at == nil {
			break
		}
		out = append(out, stepsOf(text[at[2]:at[3]], text[at[4]:at[5]])...)
		text = text[at[1]:]
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has nothing to type", page)
	}
	return out, nil
}

// stepsOf a block in a language.
func stepsOf(language, block string) []step {
	switch {
	case language == "yaml":
		return []step{{yaml: block}}
	case language != "shell" && language != "sh" && language != "console" && language != "bash", !strings.Contains(block, "kubectl") && !strings.Contains(block, "helm "):
		return nil
	}
	var out []step
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
		line = strings.TrimPrefix(strings.TrimSpace(remark.ReplaceAllString(strings.TrimRight(line, "\n"), "")), "$ ")
		if line != "" {
			out = append(out, step{command: strings.Join(strings.Fields(line), " ")})
		}
	}
	return out
}

// typed is what a command of the documentation does here.
type typed struct {
	command string
	// not played here, and why.
	not string
	// with is what stands here for words of the command, in pairs.
	with []string
	// prints it, or on standard error.
	prints string
	// before it, and after it.
	before, after func(t *testing.T)
}

// Of the commands that no test here can type, why. What Helm does is played by
// other tests of this package, with the command's own arguments where they read
// them from the page.
const (
	byHarness   = "the installation that all tests here share was made by it, from the page (lab.install)"
	byUninstall = "TestUninstall runs it, and ends the installation"
	noKubelet   = "there is no kubelet, and so no logs"
	make1       = "it is the build that every other test does"
	forever     = "it runs until somebody ends it; test/integration runs it"
	noFixed     = "a fixed configuration would come in the way of this one; TestTyped applies it as a dry run, test/integration for real"
)

// pages and what is typed by them, in their order. A command that is not here fails
// TestTyped, as does one that the page has no longer.
var pages = []struct {
	page     string
	commands []typed
}{
	{"docs/install.md", []typed{
		{command: "helm install kausality package/helm/kausality --namespace kausality-system --create-namespace --set image.repository=REPOSITORY --set image.tag=TAG", not: byHarness},
		{command: "kubectl -n kausality-system get pods", prints: "kausality-webhook-"},
		{command: "make manifests VALUES='--set image.repository=REPOSITORY --set image.tag=TAG' > kausality.yaml",
			with: []string{"make ", "make --no-print-directory -C ROOT "}},
		{command: "kubectl apply --server-side -f kausality.yaml", with: []string{"apply ", "apply --dry-run=server --force-conflicts "}, prints: "deployment.apps/kausality-webhook serverside-applied (server dry run)"},
		{command: "kubectl delete mutatingwebhookconfiguration kausality", not: noFixed},
		{command: "kubectl apply -f policy.yaml", prints: "kausality.kausality.io/databases created", after: func(t *testing.T) { awaitPolicy(t, "databases") }},
		{command: "kubectl get kausalities", prints: "databases"},
		{command: "kubectl get drifts -A"},
		{command: "kubectl get drifts -A"},
		{command: "kubectl annotate namespace team-a kausality.io/mode=enforce", before: func(t *testing.T) { namespace(t, "team-a"); namespace(t, "team-b") }, prints: "namespace/team-a annotated"},
		{command: "kubectl apply -f policy.yaml", prints: "kausality.kausality.io/databases configured"},
		{command: "kubectl wait --for=condition=WebhookConfigured kausality/databases", prints: "condition met", after: lenientElsewhere},
	}},
	{"README.md", []typed{
		{command: "helm install kausality package/helm/kausality --namespace kausality-system --create-namespace", not: byHarness},
		{command: "make build", not: make1},
		{command: "bin/kausality manifests --webhook-url=https://HOST:PORT --ca-file=ca.crt --resources='*.example.org,deployments.apps,configmaps' | kubectl apply -f -",
			with: []string{"bin/kausality", "KAUSALITY", "HOST:PORT", "127.0.0.1:9443", "apply ", "apply --dry-run=client "}, prints: "mutatingwebhookconfiguration.admissionregistration.k8s.io/kausality configured (dry run)"},
		{command: "bin/kausality webhook --kubeconfig=F --cert-dir=DIR --bind-address=:9443", not: forever},
		{command: "bin/kausality gate --kubeconfig=F", not: forever},
		{command: "kubectl annotate xdatabase orders kausality.io/approve-1f2e3d4c5b6a7980=once", before: xdatabase, prints: "xdatabase.example.org/orders annotated"},
		{command: `kubectl annotate xdatabase orders kausality.io/freeze='{"user":"hans","message":"incident"}'`, prints: "annotated"},
		{command: "kubectl get drifts -A"},
	}},
	{"docs/operations.md", []typed{
		{command: "kubectl annotate TYPE NAME kausality.io/mode=log --overwrite", with: []string{"TYPE NAME", "namespace team-a"}, prints: "namespace/team-a annotated"},
		{command: `kubectl patch kausality NAME --type=merge -p '{"spec":{"mode":"log","overrides":[]}}'`, with: []string{"NAME", "databases"}, prints: "patched"},
		{command: "kubectl -n kausality-system scale deployment kausality-controller --replicas=0", prints: "scaled", after: func(*testing.T) { the.controller.Stop() }},
		{command: "kubectl delete mutatingwebhookconfiguration kausality", prints: "deleted"},
		{command: "kubectl -n kausality-system scale deployment kausality-controller --replicas=2", prints: "scaled", after: func(t *testing.T) {
			must(t, the.controller.Restart())
			must(t, the.controller.await(t.Context()))
			eventually(t, "the configuration to be made anew", func(ctx context.Context) error { _, err := entries(ctx); return err })
		}},
		{command: "helm uninstall kausality --namespace kausality-system", not: byUninstall},
		// For real it takes five seconds, and is played by TestUninstall and by test/plugin.
		{command: "kubectl kausality ungate --all --for-removal --yes", with: []string{"--yes", "--yes --dry-run"}, prints: "0 masked"},
		{command: "kubectl delete -f kausality.yaml", with: []string{"delete ", "delete --dry-run=server "}, prints: `clusterrole.rbac.authorization.k8s.io "kausality-controller-base" deleted`},
		{command: "kubectl -n kausality-system logs job/kausality-ungate", not: noKubelet},
		{command: "kubectl annotate mutatingwebhookconfiguration kausality kausality.io/removal-", before: removal, prints: "annotated", after: func(t *testing.T) { awaitPolicy(t, "databases") }},
		{command: "kubectl kausality ungate --all", prints: "0 masked"},
		{command: "kubectl -n kausality-system get pods", prints: "kausality-webhook-"},
		{command: "kubectl get kausality NAME -o yaml", with: []string{"NAME", "databases"}, prints: "reason: Understood"},
		{command: "kubectl get drifts -A --sort-by=.status.count"},
		{command: "kubectl get mutatingwebhookconfiguration kausality -o yaml --show-managed-fields", prints: "manager: kausality-controller"},
	}},
	{"docs/kubectl.md", []typed{
		{command: `printf '#!/bin/sh\nexec kubectl-kausality __complete "$@"\n' > ~/bin/kubectl_complete-kausality`},
		{command: "chmod +x ~/bin/kubectl_complete-kausality"},
	}},
}

// lenientElsewhere: what the page has in policy.yaml at last is in force.
func lenientElsewhere(t *testing.T) {
	awaitPolicy(t, "databases")
	e, err := entry(t.Context(), "databases-2.admission.kausality.io")
	must(t, err)
	if e["failurePolicy"] != "Ignore" {
		t.Errorf("outside of the enforced Namespaces the failure policy is %v", e["failurePolicy"])
	}
}

// removal was begun, and did not end.
func removal(t *testing.T) {
	t.Helper()
	must(t, merge(t, the.admin, hooks, "", "kausality", annotate("kausality.io/removal", "2026-01-05T09:30:00Z")))
	eventually(t, "the policy to say so", func(ctx context.Context) error {
		k, err := the.admin.Resource(kausality).Get(ctx, "databases", metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(k.Object["status"]), "BeingRemoved") {
			err = fmt.Errorf("its status is %v", k.Object["status"])
		}
		return err
	})
}

// xdatabase of somebody, whose kind the policy of the pages covers.
func xdatabase(t *testing.T) {
	t.Helper()
	raw := strings.NewReplacer("shop.example.org", "example.org", "App", "XDatabase", "apps", "xdatabases").Replace(strings.Split(crds, "\n---\n")[0])
	must(t, the.Apply(t.Context(), []byte(raw)))
	eventually(t, "an XDatabase", func(ctx context.Context) error {
		_, err := the.admin.Resource(apps.GroupResource().WithVersion("v1")).Namespace("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		r := apps
		r.Group, r.Resource = "example.org", "xdatabases"
		_, err = as(t, hans).Resource(r).Namespace("default").Create(ctx, object("example.org/v1", "XDatabase", "default", "orders", map[string]any{"size": int64(1)}), metav1.CreateOptions{})
		return err
	})
}

// TestTyped: what the documentation has people type is typed here, by the real
// kubectl and Helm and in its order, and what it has them apply is applied.
func TestTyped(t *testing.T) {
	d := newDesk(t)
	t.Cleanup(func() {
		if err := the.admin.Resource(kausality).Delete(context.Background(), "databases", forget); err != nil {
			t.Error(err)
		}
	})
	d.notes(t)
	for _, p := range pages {
		steps, err := the.steps(p.page)
		must(t, err)
		var have, want []string
		for _, s := range steps {
			if s.command != "" {
				have = append(have, s.command)
			}
		}
		for _, c := range p.commands {
			want = append(want, c.command)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("%s has other commands than are listed here (-), say of each new one (+) how it is typed here, or why not:\n%s", p.page, diff)
		}
		at := 0
		for _, s := range steps {
			if s.yaml != "" {
				if p.page == "docs/install.md" {
					d.write(t, s.yaml)
				}
				continue
			}
			d.types(t, p.commands[at])
			at++
		}
	}
}

// TestCompletion: kubectl itself completes the plugin's commands, flags and
// objects, once what docs/kubectl.md has is typed.
func TestCompletion(t *testing.T) {
	d := newDesk(t)
	for _, c := range pages[len(pages)-1].commands {
		d.types(t, c)
	}
	ns := namespace(t, "completed")
	_, err := app(t, ns, "orders")
	must(t, err)
	for line, want := range map[string]string{
		"kubectl __complete kausality unf":                               "unfreeze",
		"kubectl __complete kausality trace -n completed app/or":         "app/orders",
		"kubectl __complete kausality approve -n completed --mode ''":    "generation",
		"kubectl __complete kausality ungate -n completed --dry-run=":    "client",
		"kubectl __complete kausality freeze -n completed x --overwri":   "--overwrite",
		"kubectl __complete kausality explain --default-mode ''":         "enforce",
		"kubectl __complete kausality coverage -n completed --output ''": "yaml",
	} {
		d.types(t, typed{command: line, prints: want})
	}
}

// desk of somebody who follows the documentation: a directory, and programs.
type desk struct{ dir, bin, path string }

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir()}
	tools, err := parts.Ensure(t.Context(), os.Stderr, "", parts.Kubectl)
	must(t, err)
	built, err := parts.Build(t.Context(), os.Stderr, "", parts.Part{Name: "kubectl-kausality", Dir: ".", Package: "./cmd/kubectl-kausality"})
	must(t, err)
	d.bin = t.TempDir()
	for name, file := range map[string]string{"kubectl": tools[parts.Kubectl], "helm": the.helm, "kubectl-kausality": built["kubectl-kausality"]} {
		must(t, os.Symlink(file, filepath.Join(d.bin, name)))
	}
	must(t, os.WriteFile(filepath.Join(d.dir, "ca.crt"), the.Config().CAData, 0o600))
	d.path = d.bin + string(os.PathListSeparator) + os.Getenv("PATH")
	return d
}

// notes that Helm prints after the installation have somebody type a policy.
func (d *desk) notes(t *testing.T) {
	t.Helper()
	raw, err := the.run(t.Context(), "get", "notes", "kausality")
	must(t, err)
	_, rest, found := strings.Cut(string(raw), "  kubectl apply")
	line, _, ends := strings.Cut("  kubectl apply"+rest, "\n\n")
	if !found || !ends {
		t.Fatalf("the notes have nothing to type: %s", raw)
	}
	line = strings.ReplaceAll("\n"+line, "\n  ", "\n")
	d.types(t, typed{command: line, with: []string{"name: databases", "name: notes"}, prints: "kausality.kausality.io/notes created"})
	awaitPolicy(t, "notes")
	must(t, the.admin.Resource(kausality).Delete(t.Context(), "notes", forget))
}

// write a manifest into policy.yaml, or what changes of the one that is there.
func (d *desk) write(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(d.dir, "policy.yaml")
	if !strings.Contains(text, "kind:") {
		var was, now struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        map[string]any `json:"metadata"`
			Spec            map[string]any `json:"spec"`
		}
		raw, err := os.ReadFile(file)
		must(t, err)
		must(t, yaml.Unmarshal(raw, &was))
		must(t, yaml.Unmarshal([]byte(text), &now))
		maps.Copy(was.Spec, now.Spec)
		raw, err = yaml.Marshal(was)
		must(t, err)
		text = string(raw)
	}
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

// types a command, unless it is not played.
func (d *desk) types(t *testing.T, c typed) {
	t.Helper()
	if c.not != "" {
		t.Logf("not typed: %s: %s", c.command, c.not)
		return
	}
	if c.before != nil {
		c.before(t)
	}
	line := strings.NewReplacer(c.with...).Replace(c.command)
	line = strings.NewReplacer("ROOT", the.root, "KAUSALITY", the.kausality, "~/bin", d.bin).Replace(line)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "PATH="+d.path, "HOME="+the.Dir(), "KUBECONFIG="+the.admins)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), c.prints) {
		t.Errorf("%s: %v, want %q in:\n%s", line, err, c.prints, out)
	}
	if c.after != nil {
		c.after(t)
	}
}
