package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/hack/campaign"
)

// results of seeds: the first failed at first, and passed then.
var results = []campaign.Result{
	{Item: "seed 1", Commit: "0123456789ab", At: time.Date(2026, 11, 29, 1, 0, 0, 0, time.UTC), Figures: map[string]string{"gate MiB": "70", "note": "x"}},
	{Item: "seed 2", Passed: true, Commit: "0123456789ab", At: time.Date(2026, 11, 28, 1, 0, 0, 0, time.UTC), Figures: map[string]string{"gate MiB": "90"}},
	{Item: "seed 1", Passed: true, Commit: "0123456789ab", At: time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC), Figures: map[string]string{"gate MiB": "80"}},
}

// TestLine: what was not played is no pass, and a commit that the repository does not have is named.
func TestLine(t *testing.T) {
	k := kind{name: "adversary", played: "seeds", planned: 200}
	sum := func(all []campaign.Result) summary { return summed(t, k, all) }
	require.Equal(t, "campaign adversary: 0 of 200 seeds passed; none was played", sum(nil).line("."))
	require.Equal(t, "campaign adversary: 1 of 200 seeds passed, 1 failed, at 0123456789ab, which this repository does not have", sum(results[:2]).line("."))
	repository, err := campaign.At(".")
	if err != nil {
		t.Skip("this is no checkout of the repository")
	}
	commit, err := repository.Commit()
	require.NoError(t, err)
	here := results[1]
	here.Commit = commit
	require.Equal(t, "campaign adversary: 1 of 200 seeds passed at "+commit, sum([]campaign.Result{here}).line(repository))
}

func summed(t *testing.T, k kind, all []campaign.Result) summary {
	t.Helper()
	s, err := sum(k, all)
	require.NoError(t, err)
	return s
}

// TestAmounts: items count with as much as was played of them, so that a soak of a minute is no hour.
func TestAmounts(t *testing.T) {
	minute := []campaign.Result{{Item: "minutes 0 to 0.16666666666666666", Passed: true}, {Item: "minutes 0.16666666666666666 to 1", Passed: true}}
	require.Contains(t, summed(t, kind{name: "soak", played: "minutes", planned: 60}, minute).line("."), "1 of 60 minutes passed")
	seeds := []campaign.Result{{Item: "seeds 1 to 1000", Passed: true}, {Item: "seeds 1001 to 1500", Passed: true}, {Item: "seeds 1501 to 1501"}}
	require.Contains(t, summed(t, kind{name: "model", played: "seeds", planned: 100_000}, seeds).line("."), "1500 of 100000 seeds passed, 1 failed")
	_, err := sum(kinds[0], []campaign.Result{{Item: "seeds 1 to 1.2.3"}})
	require.ErrorContains(t, err, `campaign adversary: "seeds 1 to 1.2.3"`)
}

// TestSince: a result from before a change of the product, or of what judges it, is named.
func TestSince(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	commit := func(file string) {
		t.Helper()
		path := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", file}} {
			out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput() //nolint:gosec // of this test
			require.NoError(t, err, string(out))
		}
	}
	commit("README.md")
	r := campaign.Repository(dir)
	at, err := r.Commit()
	require.NoError(t, err)
	line := func() string {
		t.Helper()
		k := kind{name: "soak", played: "minutes", planned: 60, judge: "test/soak"}
		return summed(t, k, []campaign.Result{{Item: "minutes 0 to 60", Passed: true, Commit: at}}).line(r)
	}
	require.Equal(t, "campaign soak: 60 of 60 minutes passed at "+at, line())
	commit("test/soak/soak_test.go")
	require.Equal(t, "campaign soak: 60 of 60 minutes passed at "+at+"; 1 commits have changed test/soak since, which judges it", line())
	commit("fn/fn.go")
	require.Contains(t, line(), "; 1 commits have changed admission, api, fn, gate, webhook, internal, package since: it is outdated")
}

// TestTable: the last result of each item counts, and the most of each figure.
func TestTable(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.ErrorIs(t, writeTable(page, nil), os.ErrNotExist)
	require.NoError(t, os.WriteFile(page, []byte("a\n"), 0o600))
	require.ErrorContains(t, writeTable(page, nil), "no markers")
	require.NoError(t, os.WriteFile(page, []byte("a\n"+begins+"old\n"+ends+"b\n"), 0o600))
	require.NoError(t, writeTable(page, []summary{summed(t, kind{name: "random", played: "seeds", planned: 100}, campaign.Last(results)),
		summed(t, kind{name: "soak", played: "minutes", planned: 60}, nil)}))
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "a\n"+begins+`| campaign | passed | failed | played | commit | highest figures |
|---|---|---|---|---|---|
| random | 2 of 100 seeds | 0 | 2026-11-28 to 2026-11-30 | 0123456789ab | gate MiB 90 |
| soak | 0 of 60 minutes | 0 | not yet |  |  |
`+ends+"b\n", string(got))
}
