package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// TestRatchet: no figure of the product crosses its limit.
func TestRatchet(t *testing.T) {
	lines, err := run("../..", false)
	require.NoError(t, err)
	for _, line := range lines {
		t.Error(line)
	}
}

// TestMeasure: what counts as a line, a comment, a method, a field and a write.
func TestMeasure(t *testing.T) {
	m, err := measure("testdata/product")
	require.NoError(t, err)
	writers := map[string]string{}
	for of, names := range m.writers {
		writers[strings.TrimPrefix(of.of, "steps.")] = strings.ReplaceAll(strings.Join(names, " "), "steps.", "")
	}
	maps.DeleteFunc(m.values, func(of figure, n int) bool { return of.kind == kindWriters || n == 0 })
	if diff := cmp.Diff(map[figure]int{
		{kindLines, "steps"}:              85,
		{kindLines, "steps/other"}:        3,
		{kindComments, "steps"}:           1000 * 6 / (6 + 57),
		{kindMethods, "steps.evaluation"}: 1,
		{kindMethods, "steps.memo"}:       1,
		{kindFields, "steps.evaluation"}:  7,
		{kindFields, "steps.base"}:        1,
		{kindFields, "steps.decision"}:    2,
		{kindFields, "steps.memo"}:        1,
		{kindFields, "steps/other.Out"}:   1,
	}, m.values); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"evaluation.base":      "evaluation.replace",
		"evaluation.d":         "evaluation.replace helper whole",
		"evaluation.all":       "element evaluation.replace",
		"evaluation.byName":    "closure evaluation.replace",
		"evaluation.refs":      "address evaluation.replace ranged",
		"evaluation.count":     "evaluation.replace pointed",
		"evaluation.out":       "abroad evaluation.replace",
		"base.seen":            "steps's variables evaluation.replace",
		"decision.allowed":     "element helper",
		"decision.reason":      "alias element outside",
		"memo.value":           "memo.set",
		"steps/other.Out.Text": "abroad",
	}, writers); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// at returns figures that measure values.
func at(kind string, values map[string]int) figures {
	m := figures{values: map[figure]int{}}
	for of, n := range values {
		m.values[figure{kind, of}] = n
	}
	return m
}

// TestCrossed: which figures and which limits are reported, and what to do.
func TestCrossed(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		limits string
		m      figures
		want   string
	}{
		"WithinHeadroom": {
			reason: "5 % of lines, in full tens",
			limits: "lines\ta\t1000\t1050\n", m: at(kindLines, map[string]int{"a": 1050}),
		},
		"FarBelow": {
			reason: "who simplifies need not change limits",
			limits: "lines\ta\t1000\t1050\n", m: at(kindLines, map[string]int{"a": 10}),
		},
		"Above": {
			limits: "lines\ta\t1000\t1050\n", m: at(kindLines, map[string]int{"a": 1051}),
			want: "lines of a: 1051, at most 1050: simplify, or raise the limit in hack/figures/limits.tsv with a reason",
		},
		"Raised": {
			limits: "lines\ta\t1000\t1100\t1100: a\n", m: at(kindLines, map[string]int{"a": 1100}),
		},
		"RaisedWithoutReason": {
			limits: "lines\ta\t1000\t1060\n", m: at(kindLines, map[string]int{"a": 1055}),
			want: `lines of a: the limit 1060, set from 1000, needs a reason in hack/figures/limits.tsv, which begins with "1060: "`,
		},
		"RaisedWithEmptyReason": {
			limits: "lines\ta\t1000\t1060\t1060: \n", m: at(kindLines, map[string]int{"a": 1055}),
			want: `lines of a: the limit 1060, set from 1000, needs a reason in hack/figures/limits.tsv, which begins with "1060: "`,
		},
		"RaisedAgain": {
			reason: "another limit needs another reason",
			limits: "lines\ta\t1000\t1200\t1100: a\n", m: at(kindLines, map[string]int{"a": 1150}),
			want: `lines of a: the limit 1200, set from 1000, needs a reason in hack/figures/limits.tsv, which begins with "1200: "`,
		},
		"New": {
			limits: "", m: at(kindLines, map[string]int{"a": 101}),
			want: "lines of a: 101, no limit: add to hack/figures/limits.tsv: lines\ta\t101\t110",
		},
		"Gone": {
			limits: "lines\ta\t100\t110\n",
			want:   "lines of a: does not exist: delete the line of hack/figures/limits.tsv, as go run ./hack/figures --update does",
		},
		"AboveTheRest": {
			limits: "methods\t*\t15\t15\n", m: at(kindMethods, map[string]int{"a.T": 15, "a.U": 16}),
			want: "methods of a.U: 16, at most 15: simplify, or add to hack/figures/limits.tsv with a reason: methods\ta.U\t15\t17\t17:",
		},
		"Writers": {
			limits: "writers\ta.T.f\t1\t2\n",
			m:      figures{values: map[figure]int{{kindWriters, "a.T.f"}: 3}, writers: map[figure][]string{{kindWriters, "a.T.f"}: {"a.x", "a.y", "a.z"}}},
			want:   "writers of a.T.f: 3 (a.x, a.y, a.z), at most 2: simplify, or raise the limit in hack/figures/limits.tsv with a reason",
		},
		"FewerComments": {
			limits: "comments\ta\t150\t135\n", m: at(kindComments, map[string]int{"a": 134}),
			want: "comments of a: 134, at least 135: comment what a reader needs, or lower the limit in hack/figures/limits.tsv with a reason",
		},
		"MoreComments": {
			limits: "comments\ta\t150\t135\n", m: at(kindComments, map[string]int{"a": 500}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			limits, err := parse(c.limits)
			require.NoError(t, err)
			require.Equal(t, c.want, strings.Join(crossed(limits, c.m), "\n"), c.reason)
		})
	}
}

// TestTightened: limits follow the figures down, and a share of comments up, and never the other way.
func TestTightened(t *testing.T) {
	for name, c := range map[string]struct{ reason, limits, want string }{
		"Smaller":       {"5 % above what it is now", "lines\ta\t200\t210\n", "lines\ta\t100\t110\n"},
		"RaisedSmaller": {"the reason was for another limit", "lines\ta\t200\t300\t300: a\n", "lines\ta\t100\t110\n"},
		"Raised":        {"a raised limit stays until the code is smaller than before", "lines\ta\t100\t300\t300: a\n", "lines\ta\t100\t300\t300: a\n"},
		"Larger":        {"no limit is loosened", "lines\ta\t50\t60\n", "lines\ta\t50\t60\n"},
		"Gone":          {"", "# lines\nlines\tb\t50\t60\n", "# lines\n"},
		"AsTheRest":     {"", "methods\t*\t15\t15\nmethods\ta.T\t20\t21\n", "methods\t*\t15\t15\n"},
		"BelowTheRest":  {"a tighter limit stays", "methods\t*\t15\t15\nmethods\ta.T\t14\t14\n", "methods\t*\t15\t15\nmethods\ta.T\t9\t10\n"},
		"MoreComments":  {"", "comments\ta\t150\t135\n", "comments\ta\t200\t180\n"},
		"FewerComments": {"", "comments\ta\t300\t270\n", "comments\ta\t300\t270\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tightened(c.limits, figures{values: map[figure]int{{kindLines, "a"}: 100, {kindMethods, "a.T"}: 9, {kindComments, "a"}: 200}})
			require.NoError(t, err)
			require.Equal(t, c.want, got, c.reason)
		})
	}
}

// TestParse: lines that are no limits are errors.
func TestParse(t *testing.T) {
	for _, text := range []string{"\n", "lines\ta\t1\n", "lines\ta\t1\tx\n", "lines\ta\tx\t1\n", "lines\ta\t1\t1\nlines\ta\t1\t1\n"} {
		_, err := parse(text)
		require.Error(t, err, "%q", text)
	}
}
