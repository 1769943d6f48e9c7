package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// words of the files that match a pattern: the string literals that look like one
// and that keep selects.
func words(t *testing.T, pattern string, keep func(n ast.Node) []ast.Expr) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, error %v", pattern, err)
	}
	var out []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, e := range keep(n) {
				if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if s, err := strconv.Unquote(l.Value); err == nil && word.MatchString(s) {
						out = append(out, s)
					}
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var word = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// constants of a type (any where it is empty) whose name begins with a prefix.
func constants(kind, prefix string) func(ast.Node) []ast.Expr {
	return func(n ast.Node) []ast.Expr {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return nil
		}
		if name, ok := v.Type.(*ast.Ident); kind != "" && (!ok || name.Name != kind) || !strings.HasPrefix(v.Names[0].Name, prefix) {
			return nil
		}
		return v.Values
	}
}

// events of the gate and about Drifts: the reasons of the calls that make one.
func events(n ast.Node) []ast.Expr {
	if c, ok := n.(*ast.CallExpr); ok {
		if f, ok := c.Fun.(*ast.Ident); ok && (f.Name == "normal" || f.Name == "warning") {
			return c.Args[:1]
		}
		if f, ok := c.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "emit" && len(c.Args) == 4 {
			return c.Args[2:3]
		}
	}
	return nil
}

// section of docs/reasons.md: the words in a column of its table.
func section(t *testing.T, name string, column int) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(raw), "\n## "+name+"\n")
	if !found {
		t.Fatalf("docs/reasons.md has no section %s", name)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var out []string
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(line, "|---") {
			continue
		}
		for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(cells[column], -1) {
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestReasons compares the events and reasons of docs/reasons.md with those of
// the source.
func TestReasons(t *testing.T) {
	gate := slices.Concat(words(t, "api/v1alpha1/gate.go", constants("", "GateReason")), words(t, "admission/external/view.go", constants("", "Over")))
	conditions := slices.Concat(words(t, "api/v1alpha1/kausality.go", constants("", "KausalityReason")),
		words(t, "api/v1alpha1/policy_types.go", constants("", "ReasonCompile")),
		words(t, "api/v1alpha1/policy_types.go", constants("", "ReasonDerived")), words(t, "api/v1alpha1/policy_types.go", constants("", "ReasonInvalid")),
		words(t, "api/v1alpha1/policy_types.go", constants("", "ReasonEffective")), words(t, "api/v1alpha1/policy_types.go", constants("", "ReasonWithout")),
		words(t, "api/v1alpha1/driftreceiver_types.go", constants("", "Reason")),
		words(t, "api/v1alpha1/conditions.go", constants("", "ConditionReason")))
	for name, tc := range map[string]struct {
		section string
		column  int
		source  []string
	}{
		"Events": {section: "Events", column: 1, source: slices.Concat(
			words(t, "gate/events.go", constants("", "reason")), words(t, "internal/drift/receiver.go", events),
			words(t, "internal/drift/resolution.go", events), words(t, "internal/policycontroller/derived_write.go", events),
			words(t, "internal/rollout/events.go", events))},
		"Decisions":  {section: "Reasons of decisions", column: 1, source: words(t, "admission/outcome/decision.go", constants("Reason", "Reason"))},
		"Gate":       {section: "Reasons of the gate", column: 1, source: gate},
		"Conditions": {section: "Conditions", column: 3, source: conditions},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(tc.source)
			if diff := cmp.Diff(section(t, tc.section, tc.column), slices.Compact(tc.source)); diff != "" {
				t.Errorf("docs/reasons.md (-), and the source (+):\n%s", diff)
			}
		})
	}
}

// TestAnnotations: docs/annotations.md names every annotation of the source.
func TestAnnotations(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "annotations.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	n := 0
	for _, file := range []string{"api/v1alpha1/annotations.go", "internal/cluster/scope/removal.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", filepath.FromSlash(file)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(node ast.Node) bool {
			v, ok := node.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(v.Names[0].Name, "AnnotationKey") {
				return true
			}
			ast.Inspect(v, func(node ast.Node) bool {
				if l, ok := node.(*ast.BasicLit); ok {
					n++
					key, _ := strconv.Unquote(l.Value)
					if !strings.Contains(text, "`"+key) {
						t.Errorf("%s: docs/annotations.md does not name %q", v.Names[0].Name, key)
					}
				}
				return true
			})
			return true
		})
	}
	if n < 20 {
		t.Errorf("only %d annotations were found", n)
	}
}
