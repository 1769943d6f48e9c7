package documented

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// TestDocumentedCommands: the commands of the documentation are run here in their order, by the
// real kubectl and Helm, and its manifests are applied (KR-08-41, KR-10-10).
func TestDocumentedCommands(t *testing.T) {
	d := newShell(t)
	t.Cleanup(func() {
		if err := the.Admin.Resource(site.Kausality).Delete(context.Background(), "databases", site.Forget); err != nil {
			t.Error(err)
		}
	})
	d.notes(t)
	for _, p := range pages {
		d.at = d.dir
		at := 0
		for _, s := range listed(t, p) {
			if s.Yaml != "" {
				if p.page == "docs/install.md" {
					d.write(t, s.Yaml)
				}
				continue
			}
			d.types(t, p.commands[at])
			at++
		}
	}
}

// TestDocumentedCommandsAreListed: the commands of each page are those that are listed.
func TestDocumentedCommandsAreListed(t *testing.T) {
	for _, p := range pages {
		t.Run(p.page, func(t *testing.T) { listed(t, p) })
	}
}

// listed steps of a page: its commands are those of the list.
func listed(t *testing.T, p followed) []site.Step {
	t.Helper()
	steps, err := the.Steps(p.page)
	require.NoError(t, err)
	var have, want []string
	for _, s := range steps {
		if s.Command != "" {
			have = append(have, s.Command)
		}
	}
	for _, c := range p.commands {
		want = append(want, c.command)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Fatalf("%s has other commands than are listed here (-); list each new one (+) with how it is typed here, or why not:\n%s", p.page, diff)
	}
	return steps
}

// TestCompletion: kubectl itself completes the plugin's commands, flags and
// objects, once what docs/kubectl.md has is typed.
func TestCompletion(t *testing.T) {
	d := newShell(t)
	i := slices.IndexFunc(pages, func(f followed) bool { return f.page == kubectlPage })
	for _, c := range pages[i].commands[:2] {
		d.types(t, c)
	}
	ns := the.Namespace(t, "completed")
	_, err := the.App(t, ns, "orders")
	require.NoError(t, err)
	for line, want := range map[string]string{
		"kubectl __complete kausality unf":                               "unfreeze",
		"kubectl __complete kausality trace -n completed app/or":         "app/orders",
		"kubectl __complete kausality freeze -n completed app/x app/o":   "app/orders",
		"kubectl __complete kausality approve -n completed --mode ''":    "generation",
		"kubectl __complete kausality ungate -n completed --dry-run=":    "client",
		"kubectl __complete kausality freeze -n completed x --overwri":   "--overwrite",
		"kubectl __complete kausality explain --default-mode ''":         "enforce",
		"kubectl __complete kausality coverage -n completed --output ''": "yaml",
	} {
		d.types(t, typed{command: line, prints: want})
	}
}

// shell of a user who follows the documentation: its home and current directory,
// programs, and ports that are free.
type shell struct {
	dir, at, bin, path string
	caches             []string
	ports              map[string]string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	require.NoError(t, boot())
	d := &shell{dir: t.TempDir(), ports: map[string]string{}}
	d.at = d.dir
	tools, err := parts.Ensure(t.Context(), os.Stderr, "", parts.Kubectl)
	require.NoError(t, err)
	built, err := parts.Ensure(t.Context(), os.Stderr, "", parts.KubectlKausality)
	require.NoError(t, err)
	d.bin = t.TempDir()
	for name, file := range map[string]string{"kubectl": tools[parts.Kubectl], "helm": the.Helm.Program,
		"kubectl-kausality": built["kubectl-kausality"], "kausality": the.Kausality} {
		require.NoError(t, os.Symlink(file, filepath.Join(d.bin, name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "ca.crt"), the.Config().CAData, 0o600))
	d.path = d.bin + string(os.PathListSeparator) + os.Getenv("PATH")
	for _, documented := range []string{"PORT9443", "PORT9444"} {
		port, err := controlplane.FreePort()
		require.NoError(t, err)
		d.ports[documented] = strconv.Itoa(port)
	}
	for _, name := range []string{"GOCACHE", "GOPATH"} { // HOME is another one
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		d.caches = append(d.caches, name+"="+strings.TrimSpace(string(out)))
	}
	return d
}

func (d *shell) env() []string {
	return append(append(os.Environ(), d.caches...), "PATH="+d.path, "HOME="+the.Dir(), "KUBECONFIG="+the.Admins)
}

// notes that Helm prints after the installation contain a policy to apply.
func (d *shell) notes(t *testing.T) {
	t.Helper()
	raw, err := the.RunHelm(t.Context(), "get", "notes", "kausality")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), "  kubectl apply")
	line, _, ends := strings.Cut("  kubectl apply"+rest, "\n\n")
	if !found || !ends {
		t.Fatalf("the notes have nothing to type: %s", raw)
	}
	line = strings.ReplaceAll("\n"+line, "\n  ", "\n")
	d.types(t, typed{command: line, with: []string{"name: databases", "name: notes"}, prints: "kausality.kausality.io/notes created"})
	the.AwaitPolicy(t, "notes")
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "notes", site.Forget))
}

// write a manifest into policy.yaml, or the changes of the existing one.
func (d *shell) write(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(d.dir, "policy.yaml")
	if !strings.Contains(text, "kind:") {
		var was, now struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        map[string]any `json:"metadata"`
			Spec            map[string]any `json:"spec"`
		}
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(raw, &was))
		require.NoError(t, yaml.Unmarshal([]byte(text), &now))
		maps.Copy(was.Spec, now.Spec)
		raw, err = yaml.Marshal(was)
		require.NoError(t, err)
		text = string(raw)
	}
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// types a command, unless it is not played: then it is checked that what it names
// exists.
func (d *shell) types(t *testing.T, c typed) {
	t.Helper()
	if c.not != (exemption{}) {
		t.Logf("not typed: %s: %s", c.command, c.not.why)
		wrong, err := wrong(t.Context(), c.command, d.path)
		require.NoError(t, err)
		for _, w := range wrong {
			t.Errorf("%s: %s", c.command, w)
		}
		return
	}
	if c.before != nil {
		c.before(t)
	}
	if c.prepares != nil {
		c.prepares(t, d)
	}
	line := strings.NewReplacer(c.with...).Replace(c.command)
	line = strings.NewReplacer("ROOT", the.Root, "WORKDIR", d.at, "KAUSALITY", the.Kausality, "~/bin", d.bin, "PORT9443",
		d.ports["PORT9443"], "PORT9444", d.ports["PORT9444"]).Replace(line)
	began := time.Now()
	out := d.runs(t, line, c)
	t.Logf("%4.1fs %s", time.Since(began).Seconds(), c.command)
	if c.reads != nil {
		c.reads(t, d, out)
	}
	if c.after != nil {
		c.after(t)
	}
}

// runs a line in the current directory, and returns what it prints.
func (d *shell) runs(t *testing.T, line string, c typed) string {
	t.Helper()
	if dir, ok := strings.CutPrefix(line, "cd "); ok {
		d.at = filepath.Join(d.at, dir)
		_, err := os.Stat(d.at)
		require.NoError(t, err)
		return ""
	}
	if process, ok := strings.CutSuffix(line, " &"); ok {
		d.background(t, process)
		return ""
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = d.at, d.env()
	out, err := cmd.CombinedOutput()
	exit := &exec.ExitError{}
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.prints) {
		t.Errorf("%s: want exit code %d and %q, got %d and:\n%s", line, c.code, c.prints, code, out)
	}
	return string(out)
}
