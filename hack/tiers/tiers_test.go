package tiers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// line of test/packages.tsv.
type line struct {
	// pkg is a directory, as in test/gate; tests are some of its tests, or none for all others.
	pkg   string
	tests []string
	load  string
}

func lines(t *testing.T) (all []line) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "test", "packages.tsv"))
	require.NoError(t, err)
	for text := range strings.Lines(string(raw)) {
		if strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSpace(text), "\t")
		if len(fields) == 4 && fields[3] == "subtests" {
			fields = fields[:3]
		}
		require.Len(t, fields, 3)
		path, tests, some := strings.Cut(strings.TrimPrefix(fields[0], "github.com/kausality-io/function-kausality/"), "#")
		l := line{pkg: path, load: fields[2]}
		if some {
			l.tests = strings.Split(tests, "|")
		}
		all = append(all, l)
	}
	return all
}

// TestListed: what is left to make test-more is listed with the reason, and nothing else is.
func TestListed(t *testing.T) {
	var want, got []string
	for _, l := range lines(t) {
		switch {
		case l.load != "more" && l.load != "whole":
		case len(l.tests) == 0:
			want = append(want, "`"+l.pkg+"`")
		default:
			for _, test := range l.tests {
				want = append(want, "`"+l.pkg+"`: `"+test+"`")
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(raw), "## What make test leaves out")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for row := range strings.Lines(section) {
		if cells := strings.Split(row, "|"); len(cells) == 5 && strings.Contains(cells[1], "`test/") {
			got = append(got, strings.TrimSpace(cells[1]))
			require.NotEmpty(t, strings.TrimSpace(cells[3]), "the reason for %s", cells[1])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("test/packages.tsv (-) and docs/testing.md (+): %s", diff)
	}
}

// TestExists: packages and tests of the record exist. A line of what does not would leave out nothing, and run nothing.
func TestExists(t *testing.T) {
	for _, l := range lines(t) {
		files, err := filepath.Glob(filepath.Join(root, l.pkg, "*_test.go"))
		require.NoError(t, err)
		if len(files) == 0 {
			t.Errorf("%s has no tests", l.pkg)
		}
		var text strings.Builder
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			text.Write(raw)
		}
		for _, test := range l.tests {
			if !strings.Contains(text.String(), "\nfunc "+test+"(") {
				t.Errorf("%s has no %s", l.pkg, test)
			}
		}
	}
}
