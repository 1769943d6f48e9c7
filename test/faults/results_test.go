package faults

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

var update = flag.Bool("update", false, "write the table of docs/reliability.md")

const begins, ends = "<!-- generated: results -->\n", "<!-- end -->"

// TestResults: the table of docs/reliability.md is that of results.tsv, which the campaign
// wrote (_output/faults.tsv).
func TestResults(t *testing.T) {
	raw, err := os.ReadFile("results.tsv")
	require.NoError(t, err)
	root, err := parts.Root()
	require.NoError(t, err)
	page := filepath.Join(root, "docs", "reliability.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := bytes.Cut(text, []byte(begins))
	_, tail, closed := bytes.Cut(rest, []byte(ends))
	require.True(t, found && closed, "%s has no markers", page)
	want := string(head) + begins + table(t, string(raw)) + ends + string(tail)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
	} else if want != string(text) {
		t.Errorf("%s is not what results.tsv has; run go test ./faults -run TestResults -args -update", page)
	}
}

// table of the results: for each component and fault how many of its runs have passed, by the
// last result of each.
func table(t *testing.T, results string) string {
	t.Helper()
	last := map[string]string{}
	for line := range strings.Lines(results) {
		result, r, _ := strings.Cut(strings.TrimSpace(line), "\t")
		last[strings.ReplaceAll(r, "\t", "/")] = result
	}
	var out strings.Builder
	out.WriteString("| |")
	for _, f := range faults {
		fmt.Fprintf(&out, " %s |", f)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(faults)) + "\n")
	passed, played, planned := 0, 0, 0
	for _, c := range components {
		fmt.Fprintf(&out, "| %s |", c)
		for _, f := range faults {
			pass, runs := 0, 0
			for _, r := range rows() {
				if r.injection() != (injection{c, f}) {
					continue
				}
				runs++
				if _, ok := last[r.String()]; ok {
					played++
				}
				if last[r.String()] == "pass" {
					pass++
				}
			}
			passed, planned = passed+pass, planned+runs
			switch {
			case slices.Contains(possible[c], f):
				fmt.Fprintf(&out, " %d/%d |", pass, runs)
			default:
				out.WriteString(" |")
			}
		}
		out.WriteString("\n")
	}
	return out.String() + fmt.Sprintf("\n%d runs are planned, %d were played, %d of these passed.\n", planned, played, passed)
}
