package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package x

// Thing of a kind.
// +kubebuilder:object:root=true
type Thing struct {
	metav1.TypeMeta
	// Mode of it,
	// in two lines.
	// +kubebuilder:default=log
	// +optional
	Mode Mode ` + "`json:\"mode,omitempty\"`" + `
	// Parts by name.
	Parts map[string]*Part ` + "`json:\"parts\"`" + `
}

// Mode of it.
// +kubebuilder:validation:Enum=log;enforce
type Mode string

// Part of a Thing.
type Part struct {
	v1alpha1.Spec
	// Sizes, small | large.
	Sizes []int64 ` + "`json:\"sizes\"`" + `
}

// Bare does not document its field.
type Bare struct {
	Field string ` + "`json:\"field\"`" + `
}
`

func TestReference(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("x.go", source)
	page := file("page.md", "# Page\n<!-- reference Thing -->\nold\n<!-- end -->\nmore\n")
	want := "# Page\n<!-- reference Thing -->\n\n#### Thing\n\nThing of a kind.\n\n| field | type | is |\n|---|---|---|\n" +
		"| `mode` | `log`, `enforce` | Mode of it, in two lines. Default: `log`. |\n| `parts` | map of Part | Parts by name. |\n\n" +
		"#### Part\n\nPart of a Thing.\n\n| field | type | is |\n|---|---|---|\n| … | | and the fields of Spec |\n" +
		"| `sizes` | list of integer | Sizes, small \\| large. |\n\n<!-- end -->\nmore\n"
	for range 2 { // twice is the same
		if err := run([]string{"--types", dir, "--page", page, "Thing"}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
	for name, tc := range map[string]struct{ kind, err string }{
		"Missing": {"Nothing", "there is no type Nothing"},
		"NoMark":  {"Part", "has no line"},
		"Enum":    {"Mode", "is no struct"},
		"Bare":    {"Bare", "field field has no comment"},
	} {
		if err := run([]string{"--types", dir, "--page", page, tc.kind}); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: want %q, got %v", name, tc.err, err)
		}
	}
}
