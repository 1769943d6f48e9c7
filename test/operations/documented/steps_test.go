package documented

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/operations/site"
)

// documents that may have commands to type.
func documents() (out []string, err error) {
	for _, dir := range []string{"README.md", "CONTRIBUTING.md", "docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(the.Root, dir), func(path string, _ fs.DirEntry, err error) error {
			if rel, _ := filepath.Rel(the.Root, path); filepath.Ext(path) == ".md" {
				out = append(out, filepath.ToSlash(rel))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// synopses are pages whose commands are not to be typed, with what shows that they work, or are none.
var synopses = map[string][]exemption{
	"docs/commands.md":                    {{"generated from the source", "cmd/kausality/reference_test.go", `"docs", "commands.md")`}},
	"docs/kubectl-commands.md":            {{"generated from the source", "cmd/kubectl-kausality/reference_test.go", `"docs", "kubectl-commands.md")`}},
	"docs/rules.md":                       {{"generated; its command is a pattern", "hack/rules/page.go", "-run 'TestScenarios/FILE/NAME'"}},
	"docs/design/0008-reading-reviews.md": {{"no command, but a measurement", "docs/design/0008-reading-reviews.md", "At `GOGC=400`, which is what"}},
	"docs/design/0009-votes.md":           {{"it takes minutes", "admission/allowance/approvalrule_test.go", "func BenchmarkMatching("}},
	"docs/approvals.md": {
		{"approve ID", "test/kubectl/plugin_test.go", `the.terminal(t, "", "approve", id, "--wait")`},
		{"approve ID --for", "cli/approve_vote_test.go", "\"For\": {options: voteOptions{period: 2 * time.Hour}"},
		{"approve ID --break-glass REASON", "test/kubectl/votes_test.go", `the.pipe(t, "approve", id, "--break-glass", "the disk is full")`},
		{"withdraw ID", "test/kubectl/votes_test.go", `the.pipe(t, "withdraw", id)`},
	},
	"docs/library.md": {
		{"the example", "test/embedded/example_test.go", `out := play(t, "--clusters=root,orchard")`},
		{"manifests --embedded", "test/conformance/plugin_test.go", `"manifests", "--embedded", "--resources="`},
	},
	"examples/generic-control-plane/README.md": {{"go run .", "test/embedded/example_test.go", `out := play(t, "--clusters=root,orchard")`}},
	"docs/page.md": {{"kubectl kausality ui", "test/page/browser_test.go", `"ui", "--no-browser"`}},
	"docs/slack.md": {
		{"notify slack --print-roles", "test/e2e/story/slack.go", `"notify", "slack", config, "--print-roles"`},
		{"helm upgrade with these values", "test/operations/changes/slack_test.go", `"--reset-then-reuse-values", "--values", s.values`},
		{"kubectl get driftreceivers -o wide", "test/operations/documented/pages_test.go", `{command: "kubectl get driftreceivers -o wide"}`},
	},
	"docs/design/0012-slack.md": {{"notify slack --print-roles", "test/e2e/story/slack.go", `"notify", "slack", config, "--print-roles"`}},
	"docs/history.md": {
		{"the screen", "cli/history_test.go", "func TestHistory("},
		{"the server", "test/history/server_test.go", "func TestServer("},
	},
	"docs/rollouts.md": {
		{"rollout start", "test/kubectl/rollout_test.go", `{"rollout", "start", "silver", "--cause", revision, "--waves", "1,100%", "--after", "1m", "--manual"}`},
		{"rollout status --watch", "test/kubectl/rollout_test.go", `the.terminal(t, "", "rollout", "status", "silver", "--watch")`},
		{"rollout stop", "test/kubectl/rollout_test.go", `the.pipe(t, "rollout", "stop", "silver")`},
		{"rollout resume", "test/kubectl/rollout_test.go", `the.pipe(t, "rollout", "resume", "silver", "--yes")`},
		{"rollout approve", "test/kubectl/rollout_test.go", `the.terminal(t, "y\n", "rollout", "approve", "silver")`},
	},
	"docs/records.md": {{"no command, but the form of a sink", "cmd/kausality/advertised_test.go", `"record-sink": {"cloudevents=`}},
	"docs/try.md":     {{"typed whole in a playground", "test/playground/try_test.go", `filepath.Join(root, "docs", "try.md")`}},
	"docs/kro.md": {
		{"pending", "test/kro/graphs/chapters.go", `"kubectl kausality pending -n "+namespace`},
		{"explain", "test/kro/plugin_test.go", `p.run("explain", "configmap/db")`},
		{"approve ID", "test/kubectl/plugin_test.go", `the.terminal(t, "", "approve", id, "--wait")`},
		{"pending of a graph", "test/kro/plugin_test.go", `p.run("pending", "resourcegraphdefinition/shop")`},
		{"approve a cause", "test/kubectl/plugin_test.go", `"approve", "-A", "--cause", revision`},
	},
	"docs/gitops.md": {{"pending -A", "test/kubectl/plugin_test.go", `the.pipe(t, "pending", "-A")`}},
}

// contains reports whether a file of the repository has a text, whatever the white space between its words.
func contains(file, text string) (bool, error) {
	raw, err := os.ReadFile(filepath.Join(the.Root, filepath.FromSlash(file)))
	words := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, "\\\n", " ")), " ") }
	return strings.Contains(words(string(raw)), words(text)), err
}

// TestReasons: each command that is not typed here names the call of a test that types it, or what prevents it.
func TestReasons(t *testing.T) {
	check := func(what string, e exemption) {
		if has, err := contains(e.file, e.text); err != nil || !has || e.why == "" {
			t.Errorf("%s: %s: %s does not have %s: %v", what, e.why, e.file, e.text, err)
		}
	}
	for _, p := range pages {
		for _, c := range p.commands {
			if c.not != (exemption{}) {
				check(p.page+": "+c.command, c.not)
			}
		}
	}
	for page, reasons := range synopses {
		for _, e := range reasons {
			check(page, e)
		}
	}
}

// TestPagesWithCommandsAreListed: each page with commands is one that TestDocumentedCommands types, or has a
// reason why not.
func TestPagesWithCommandsAreListed(t *testing.T) {
	documents, err := documents()
	require.NoError(t, err)
	if len(documents) < 15 {
		t.Fatalf("there are only %v", documents)
	}
	for _, page := range documents {
		steps, err := the.Steps(page)
		require.NoError(t, err)
		has := slices.ContainsFunc(steps, func(s site.Step) bool { return s.Command != "" })
		listed := len(synopses[page]) > 0 || slices.ContainsFunc(pages, func(f followed) bool { return f.page == page })
		if has != listed {
			t.Errorf("%s: it has commands: %t; it is in pages or synopses: %t", page, has, listed)
		}
	}
}

// TestStepsOfAPage: what is taken for a command, and what is not.
func TestStepsOfAPage(t *testing.T) {
	for text, want := range map[string][]string{
		"```shell\na \\\n  b   # why\n\n$ c\n```":                {"a b", "c"},
		"```text\n$ kubectl kausality trace x/y\nXDatabase\n```": {"kubectl kausality trace x/y"},
		"```go\n$ x\n```": nil,
		"`kubectl get\n drifts` and `kubectl describe`":                 {"kubectl get drifts"},
		"`kubectl kausality explain`, `kubectl kausality ungate --all`": {"kubectl kausality ungate --all"},
		"`kausality policy test`, `kausality gate --shard=0/3`":         {"kausality gate --shard=0/3"},
		"`make help`, `make bench ARGS=gate`, `go test ./a -run B`":     {"make bench ARGS=gate", "go test ./a -run B"},
		"`KEEP=1 make demo`": {"KEEP=1 make demo"},
	} {
		file := filepath.Join(t.TempDir(), "page.md")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		steps, err := (&site.Site{}).Steps(file)
		require.NoError(t, err)
		var have []string
		for _, s := range steps {
			have = append(have, s.Command)
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: want %q, got %q", text, want, have)
		}
	}
}

var (
	goTest  = regexp.MustCompile(`go test (?:-C (\S+) )?(\S+) -run (\w+)`)
	makes   = regexp.MustCompile(`\bmake ([a-z-]+)`)
	program = regexp.MustCompile(`^(?:bin/)?(kausality|kubectl kausality)((?: [a-z][a-z-]*)*)`)
	flags   = regexp.MustCompile(` (--[a-z][a-z-]*)`)
)

// wrong with a command that is not typed: a test, target, command or flag that it
// names does not exist.
func wrong(ctx context.Context, command, path string) (out []string, err error) {
	for _, m := range goTest.FindAllStringSubmatch(command, -1) {
		if raw, err := exec.CommandContext(ctx, "grep", "-rh", "^func "+m[3], filepath.Join(the.Root, m[1], m[2]),
			"--include=*_test.go").CombinedOutput(); err != nil {
			out = append(out, fmt.Sprintf("there is no test %s (%v %s)", m[3], err, raw))
		}
	}
	raw, err := os.ReadFile(filepath.Join(the.Root, "Makefile"))
	if err != nil {
		return nil, err
	}
	for _, m := range makes.FindAllStringSubmatch(command, -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(raw) {
			out = append(out, "the Makefile has no target "+m[1])
		}
	}
	m := program.FindStringSubmatch(command)
	if m == nil {
		return out, nil
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", m[1]+m[2]+" --help")
	cmd.Env = append(os.Environ(), "PATH="+path)
	help, err := cmd.CombinedOutput()
	if words := strings.Fields(m[2]); err != nil || len(words) > 0 && !strings.Contains(string(help), m[1]+" "+words[0]) {
		out = append(out, fmt.Sprintf("there is no command %s%s: %v", m[1], m[2], err))
	}
	for _, f := range flags.FindAllStringSubmatch(command, -1) {
		if !regexp.MustCompile(regexp.QuoteMeta(f[1]) + `(?:[^a-z-]|$)`).Match(help) {
			out = append(out, "there is no flag "+f[1])
		}
	}
	return out, nil
}

// TestCommandsAreChecked: commands that no test runs are checked, and mistakes in
// them are found.
func TestCommandsAreChecked(t *testing.T) {
	d := newShell(t)
	for command, want := range map[string]string{
		"go test -C test ./operations -run TestCommandsAreChecked": "",
		"go test -C test ./operations -run TestRight":              "no test TestRight",
		"go test ./operations -run TestCommandsAreChecked":         "no test TestCommandsAreChecked",
		"KEEP=1 make demo": "",
		"make tea":         "no target tea",
		"bin/kausality webhook --kubeconfig=F --bind-address=:9443": "",
		"bin/kausality webhook --bind=:9443":                        "no flag --bind",
		"kausality tea --milk":                                      "no command kausality tea",
		"kubectl kausality preview composition.yaml --max=1":        "",
		"kubectl kausality preview composition.yaml --maximum=1":    "no flag --maximum",
		"kubectl kausality explains database/orders --patch '{}'":   "no command kubectl kausality explains",
		"terraform plan -out=tfplan && terraform show -json tfplan": "",
	} {
		got, err := wrong(t.Context(), command, d.path)
		require.NoError(t, err)
		if want == "" && len(got) > 0 || !strings.Contains(strings.Join(got, "; "), want) {
			t.Errorf("%s: want %q, got %q", command, want, got)
		}
	}
}
