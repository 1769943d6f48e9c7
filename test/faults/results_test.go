package faults

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/hack/campaign"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

var update = flag.Bool("update", false, "write the table of docs/reliability.md")

const begins, ends = "<!-- generated: results -->\n", "<!-- end -->"

// TestResults: the table of docs/reliability.md is that of the results in test/campaigns.
func TestResults(t *testing.T) {
	root, err := parts.Root()
	require.NoError(t, err)
	played, err := campaign.Read(filepath.Join(root, "test", "campaigns", "faults.tsv"))
	if !errors.Is(err, os.ErrNotExist) { // none was played yet
		require.NoError(t, err)
	}
	page := filepath.Join(root, "docs", "reliability.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := bytes.Cut(text, []byte(begins))
	_, tail, closed := bytes.Cut(rest, []byte(ends))
	require.True(t, found && closed, "%s has no markers", page)
	require.Contains(t, string(text), fmt.Sprintf(" of %d runs |", len(rows())), "hack/campaigns plans another number of runs")
	want := string(head) + begins + table(t, campaign.Last(played)) + ends + string(tail)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
	} else if want != string(text) {
		t.Errorf("%s is not what test/campaigns/faults.tsv has; run go test ./faults -run TestResults -args -update", page)
	}
}

// table of the results: for each component and fault how many of its runs have passed, by the
// last result of each.
func table(t *testing.T, played []campaign.Result) string {
	t.Helper()
	last := map[string]bool{}
	for _, r := range played {
		last[r.Item] = r.Passed
	}
	var out strings.Builder
	out.WriteString("| |")
	for _, f := range faults {
		fmt.Fprintf(&out, " %s |", f)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(faults)) + "\n")
	passed, tried, planned := 0, 0, 0
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
					tried++
				}
				if last[r.String()] {
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
	return out.String() + fmt.Sprintf("\n%d runs are planned, %d were played, %d of these passed.\n", planned, tried, passed)
}
