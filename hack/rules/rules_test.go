package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// strict: rules without code, unit test or scenario fail the test.
const strict = true

// Each rule of this repository is cited by code, unit test and scenario; each id
// that is cited is that of one rule; and users read none.
func TestRepository(t *testing.T) {
	root := os.DirFS("../..")
	rules, err := readSpecification(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Citations(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) < 90 {
		t.Errorf("%d rules were read from %s, want 90 at least", len(rules), specificationFile)
	}
	for _, problem := range Wrong(rules, all) {
		t.Error(problem)
	}
	missing := Missing(rules, all)
	for _, problem := range missing {
		if strict {
			t.Error(problem)
		} else {
			t.Log(problem)
		}
	}
	t.Logf("%d rules, %d citations, %d missing", len(rules), len(all), len(missing))
}

const specification = `# Specification

## 1. One

**KR-01-01** First rule: text
over two lines, and KR-02-01.

*No unit test: only a
cluster shows it.*

## 2. Two

**KR-02-01** Second: text.
`

// repository with one citation of each kind of KR-02-01.
func repository() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		specificationFile: file(specification),
		pageFile:          file("KR-99-99"),
		"hack/rules/a.go": file("// KR-99-98"),
		"bin/a.md":        file("KR-99-97"),
		"core/core.go": file(`// Package core (KR-01-01).
package core

// Decide (KR-02-01).
func (d *Decider) Decide() {}

func other() {
	// KR-02-01
	_ = "KR-99-96: a string of product code is no citation"
}

const (
	// A is the first.
	A = 1
	// B (KR-01-01).
	B = 2
)
`),
		"core/core_test.go":                     file("package core\n\nfunc TestDecide() {\n\t_ = map[string]int{\"KR-02-01/drift\": 1}\n}\n"),
		"test/webhook/webhook_test.go":          file("package webhook\n\n// TestFirst (KR-01-01).\nfunc TestFirst() {}\n"),
		"test/conformance/scenarios/drift.yaml": file("scenarios:\n- name: Refused\n  rules: [KR-02-01]\n"),
		"test/conformance/suite_test.go":        file("package conformance\n\n// KR-02-01\n"),
		"docs/a.md":                             file("as KR-01-01 requires"),
	}
}

func read(t *testing.T, repo fstest.MapFS) ([]Rule, []Citation) {
	t.Helper()
	rules, err := readSpecification(repo)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Citations(repo)
	if err != nil {
		t.Fatal(err)
	}
	return rules, all
}

func TestCitations(t *testing.T) {
	_, all := read(t, repository())
	want := []Citation{
		{Rule: "KR-01-01", Kind: Code, File: "core/core.go", In: ""},
		{Rule: "KR-02-01", Kind: Code, File: "core/core.go", In: "Decider.Decide"},
		{Rule: "KR-02-01", Kind: Code, File: "core/core.go", In: "other"},
		{Rule: "KR-01-01", Kind: Code, File: "core/core.go", In: "B"},
		{Rule: "KR-02-01", Kind: Unit, File: "core/core_test.go", In: "TestDecide"},
		{Rule: "KR-01-01", Kind: Text, File: "docs/a.md", In: ""},
		{Rule: "KR-02-01", Kind: Integration, File: "test/conformance/scenarios/drift.yaml", In: "drift/Refused"},
		{Rule: "KR-02-01", Kind: Text, File: "test/conformance/suite_test.go", In: ""},
		{Rule: "KR-01-01", Kind: Integration, File: "test/webhook/webhook_test.go", In: "TestFirst"},
	}
	if !slices.Equal(want, all) {
		t.Errorf("want\n%v\ngot\n%v", want, all)
	}
}

func TestProblems(t *testing.T) {
	cases := map[string]struct {
		file, text string
		want       string
	}{
		"None":              {file: "docs/b.md", text: "", want: ""},
		"UnknownID":         {file: "docs/b.md", text: "KR-07-77", want: "docs/b.md cites KR-07-77, which is no rule"},
		"SharedID":          {file: specificationFile, text: specification + "\n**KR-02-01** Third: text.\n", want: "two rules have the id KR-02-01"},
		"NoUnitTest":        {file: "core/core_test.go", text: "package core\n", want: "KR-02-01 (Second) has no unit test"},
		"NoCode":            {file: "core/core.go", text: "package core\n\n// KR-01-01\n", want: "KR-02-01 (Second) has no code"},
		"NoScenario":        {file: "test/webhook/webhook_test.go", text: "package webhook\n", want: "KR-01-01 (First rule) has no scenario"},
		"TextIsNoCode":      {file: "core/core.go", text: "package core\n\n// KR-02-01\n", want: "KR-01-01 (First rule) has no code"},
		"NeedlessWaiver":    {file: "core/b_test.go", text: "package core\n\n// KR-01-01\n", want: "KR-01-01 waives its unit test, but core/b_test.go cites it"},
		"ShownToUsers":      {file: "package/crds/a.yaml", text: "description: as KR-01-01", want: "package/crds/a.yaml is for users and cites KR-01-01"},
		"ScenarioIsByRules": {file: "test/conformance/scenarios/drift.yaml", text: "# KR-02-01\n", want: "KR-02-01 (Second) has no scenario"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			repo := repository()
			repo[tc.file] = &fstest.MapFile{Data: []byte(tc.text)}
			rules, all := read(t, repo)
			got := append(Wrong(rules, all), Missing(rules, all)...)
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tc.want)) {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

func TestWaiverWithoutRule(t *testing.T) {
	if _, err := Specification("*No code: a reason.*\n"); err == nil {
		t.Error("want an error")
	}
}

func TestPage(t *testing.T) {
	rules, all := read(t, repository())
	got := Page(rules, all)
	for _, want := range []string{
		"\n## 1. One\n", "\n## 2. Two\n",
		"| KR-01-01 | First rule | [core/core.go](../core/core.go)<br>[core/core.go B](../core/core.go) | *only a cluster shows it* |" +
			" [webhook/webhook_test.go TestFirst](../test/webhook/webhook_test.go) |\n",
		"| [drift/Refused](../test/conformance/scenarios/drift.yaml) |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if again := Page(rules, all); got != again {
		t.Error("the same rules and citations give another page")
	}
}

// A cell lists the first citations alone.
func TestPageOfManyCitations(t *testing.T) {
	rules := []Rule{{ID: "KR-01-01", Title: "First", Section: "1"}}
	var all []Citation
	for _, in := range []string{"A", "B", "C", "D", "E", "E", "F"} {
		all = append(all, Citation{Rule: "KR-01-01", Kind: Code, File: "core/core.go", In: in})
	}
	if got := Page(rules, all); !strings.Contains(got, "core.go D](../core/core.go)<br>2 more |") {
		t.Errorf("want the first %d, got\n%s", most, got)
	}
}
