package kro

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var update = flag.Bool("update", false, "write testdata")

// viewer may read the objects of the tests, and what the role kausality-viewer has: no graphs.
const viewer = "vera@example.com"

// TestPlugin shows a graph, an instance and its children with the plugin, and decides by what it prints: before an edit of the graph,
// while it is held, and after it passed (KR-10-08, KR-12-31, KR-18-05).
func TestPlugin(t *testing.T) {
	ns := namespace(t, "plugin")
	p := newPlugin(t, ns)
	shop(t, ns, "hello")
	settled(t, ns, 1)
	p.run("trace", "shop/db").golden("trace-instance", 0)
	p.run("trace", "configmap/db").golden("trace", 0)
	p.run("pending", "resourcegraphdefinition/farm").has(0, "Nothing waits for approval because of ResourceGraphDefinition farm.")

	// An edit of the graph: a field, and a node that is dropped.
	edit(t, "gold", true)
	t.Cleanup(func() { edit(t, "silver", false) })
	drift(t, ns, "ConfigMap", "Update")
	p.run("explain", "configmap/db").golden("explain", 0)
	p.run("explain", "configmap/db", "--patch", "data: {tier: gold}").has(0, "(ResourceGraphDefinition shop revision ")
	r := p.run("pending", "configmap/db")
	r.golden("pending", 0)
	p.run("pending", "resourcegraphdefinition/shop").has(0, "change ConfigMap "+ns+"/db")

	// What another command is for.
	key := regexp.MustCompile(`shop-r\d+`).FindString(r.out)
	p.run("rollout", "start", "gold", "--cause", "graphrevision/"+key).golden("rollout", 1)
	p.run("approve", "--cause", "graphrevision/"+key, "--limit", "1", "--dry-run").has(0, "change ConfigMap "+ns+"/db")
	p.run("approve", "resourcegraphdefinition/shop").golden("approve-graph", 1)
	p.run("freeze", "resourcegraphdefinition/shop").golden("freeze-graph", 1)
	p.run("freeze", "shop.kro.run", "--all", "-A", "-m", "incident 123", "--dry-run").has(0, "Shop "+ns+"/db")
	file := filepath.Join(t.TempDir(), "graph.yaml")
	require.NoError(t, os.WriteFile(file, []byte(graph), 0o600))
	p.run("preview", file).golden("preview-graph", 2)
	p.run("preview", "shop/db").golden("preview-instance", 2)

	// The printed id approves the update; then the deletion of the dropped node is held.
	p.run("approve", id.FindString(r.out)).has(0, "approve")
	data(t, ns, "tier", "gold")
	p.resolved("configmap/db")
	drift(t, ns, "Service", "Delete")
	p.run("trace", "configmap/db").golden("trace-approved", 0)
	p.run("pending", "shop/db").golden("pending-deletion", 0)
	p.run("explain", "shop/db").golden("explain-instance", 0)

	// The graph has what waits in all namespaces, those of other tests included.
	r = p.run("explain", "resourcegraphdefinition/shop")
	r.has(0, "ResourceGraphDefinition shop, graph\n")
	r.has(0, "cause: graph revision "+key+", by "+anna)
	r.has(0, "to list them, with the commands that approve them: kubectl kausality pending resourcegraphdefinition.kro.run/shop\n")
	p.run("trace", "resourcegraphdefinition/shop").has(0, ", by "+anna)

	// A user who may not read graphs reads all but their revisions.
	p.kubeconfig = p.viewer()
	p.run("explain", "shop/db").golden("explain-viewer", 0)
	p.run("trace", "shop/db").has(0, "Shop "+ns+"/db")
}

// plugin runs the real plugin in a namespace.
type plugin struct {
	*testing.T
	binary, kubeconfig, namespace string
}

// newPlugin builds the plugin for hans, who may do everything.
func newPlugin(t *testing.T, ns string) *plugin {
	t.Helper()
	built, err := parts.Ensure(t.Context(), os.Stderr, "", parts.KubectlKausality)
	require.NoError(t, err)
	kubeconfig, err := the.Kubeconfig("hans", hans, "system:masters")
	require.NoError(t, err)
	return &plugin{T: t, binary: built[parts.KubectlKausality], kubeconfig: kubeconfig, namespace: ns}
}

// viewer returns the kubeconfig of viewer.
func (p *plugin) viewer() string {
	p.Helper()
	require.NoError(p, the.Bind(p.Context(), viewer, "kausality-viewer"))
	require.NoError(p, the.Grant(p.Context(), viewer,
		rbacv1.PolicyRule{APIGroups: []string{"kro.run"}, Resources: []string{"shops"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}}))
	kubeconfig, err := the.Kubeconfig("vera", viewer)
	require.NoError(p, err)
	return kubeconfig
}

// run the plugin without a terminal.
func (p *plugin) run(args ...string) *result {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), wait.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.binary, append([]string{"-n", p.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig, "HOME="+the.Dir())
	out, err := cmd.CombinedOutput()
	exit := &exec.ExitError{}
	if err != nil && !errors.As(err, &exit) {
		require.NoError(p, err)
	}
	return &result{plugin: p, args: strings.Join(args, " "), out: string(out), code: cmd.ProcessState.ExitCode()}
}

// resolved waits until nothing about an object waits for approval.
func (p *plugin) resolved(object string) {
	p.Helper()
	wait.For(p.T, "the drift of "+object+" to be resolved", wait.Patience, func(context.Context) error {
		if r := p.run("pending", object); !strings.HasPrefix(r.out, "Nothing waits for approval") {
			return errors.New(r.out)
		}
		return nil
	})
}

// result of one run of the plugin.
type result struct {
	*plugin
	args, out string
	code      int
}

// id of a difference.
var id = regexp.MustCompile(`\b[0-9a-f]{16,32}\b`)

// What differs from run to run, in the order it is replaced. Other tests edit the same graph.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{pattern: regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), with: "<time>"},
	{pattern: regexp.MustCompile(`\b\d+(s|m|m\d+s) ago`), with: "<age> ago"},
	{pattern: regexp.MustCompile(`(since|,) \d+(s|m|m\d+s)(\n|:|$)`), with: "$1 <age>$3"},
	{pattern: regexp.MustCompile(`(?m)^(  [0-9a-f]{16,32} +)\d+(s|m|m\d+s) `), with: "$1<age> "},
	{pattern: regexp.MustCompile(`shop-r\d{5}`), with: "shop-r<n>"},
	{pattern: regexp.MustCompile(`revision \d+`), with: "revision <n>"},
	{pattern: regexp.MustCompile(`plugin-\d+`), with: "<namespace>"},
	{pattern: regexp.MustCompile(`/[^ ]*/graph.yaml`), with: "graph.yaml"},
}

// row of a table, whose columns are as wide as what is in them.
var row = regexp.MustCompile(`(?m)^  (ID|[0-9a-f]{16,32}) .*$`)

// wide is the space between columns.
var wide = regexp.MustCompile(` {2,}`)

// screen is the output as it is compared. Ids are numbered, so that equal ones stay equal.
func (r *result) screen() string {
	s := r.out
	for _, v := range varying {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	s = row.ReplaceAllStringFunc(s, func(line string) string { return "  " + wide.ReplaceAllString(line[2:], "  ") })
	seen := map[string]string{}
	return id.ReplaceAllStringFunc(s, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("<id %d>", len(seen)+1)
		}
		return seen[id]
	})
}

// has asserts that an output has a text in it.
func (r *result) has(code int, want string) {
	r.Helper()
	assert.Equal(r, code, r.code, r.args)
	assert.Contains(r, r.out, want, r.args)
}

// golden compares a screen with testdata.
func (r *result) golden(name string, code int) {
	r.Helper()
	assert.Equal(r, code, r.code, "%s: %s", r.args, r.out)
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(r, os.WriteFile(file, []byte(r.screen()), 0o644)) //nolint:gosec // Part of the repository.
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(r, err)
	assert.Equal(r, string(want), r.screen(), r.args)
}
