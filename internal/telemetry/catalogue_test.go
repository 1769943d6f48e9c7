package telemetry

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the reference")

var (
	chart     = filepath.Join("..", "..", "package", "helm", "kausality", "files")
	reference = filepath.Join("..", "..", "docs", "metrics.md")
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var mentioned = regexp.MustCompile(`kausality_[a-z_]+`)

// metricsIn a text, each once, without the suffixes of histograms.
func metricsIn(text string) []string {
	var out []string
	for _, name := range mentioned.FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func names() []string {
	var out []string
	for _, m := range Catalogue {
		out = append(out, m.Name)
	}
	return out
}

func TestCatalogue(t *testing.T) {
	if all := names(); !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Error("the catalogue is not in order, or names a metric twice")
	}
	for _, m := range Catalogue {
		if !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Kind) {
			t.Errorf("%s: %q is no kind", m.Name, m.Kind)
		}
		if (m.Kind == "counter") != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: a counter ends in _total, and nothing else does", m.Name)
		}
		if (m.Kind == "histogram") != (len(m.Buckets) > 0) || m.By == "" || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: buckets, component or help are wrong", m.Name)
		}
	}
}

// TestDashboard: it shows every metric, and none that there is not.
func TestDashboard(t *testing.T) {
	raw := read(t, chart, "dashboards", "kausality.json")
	var dashboard struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(raw), &dashboard); err != nil {
		t.Fatal(err)
	}
	var exprs strings.Builder
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q has the number of another one", p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, x := range p.Targets {
			exprs.WriteString(x.Expr + "\n")
			checkLabels(t, x.Expr)
		}
	}
	if got, want := metricsIn(exprs.String()), names(); !slices.Equal(got, want) {
		t.Errorf("want the dashboard to show\n%v, it shows\n%v", want, got)
	}
}

// TestAlerts: they use existing metrics, and have a summary and a description.
func TestAlerts(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, chart, "rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			checkLabels(t, r.Expr)
			for _, name := range metricsIn(r.Expr) {
				if !slices.Contains(names(), name) {
					t.Errorf("alert %s rests on %s, which there is not", r.Alert, name)
				}
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %s lacks severity, summary or description", r.Alert)
			}
			if !strings.Contains(read(t, "..", "..", "docs", "operations.md"), r.Alert) {
				t.Errorf("alert %s is not in docs/operations.md", r.Alert)
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d alerts were read", n)
	}
}

var grouping = regexp.MustCompile(`by \(([a-z, ]+)\)`)

// checkLabels: what an expression groups by are labels of its metrics.
func checkLabels(t *testing.T, expr string) {
	t.Helper()
	for _, name := range metricsIn(expr) {
		if !slices.Contains(names(), name) {
			continue // reported by another assertion
		}
		labels := append([]string{"le"}, Lookup(name).Labels...)
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			for _, l := range strings.Split(g[1], ",") {
				if l = strings.TrimSpace(l); !slices.Contains(labels, l) {
					t.Errorf("%s groups by %s, which %s has not", expr, l, name)
				}
			}
		}
	}
}

// TestReference: docs/metrics.md is written from the catalogue.
func TestReference(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Metrics\n\nServed at `/metrics` of the address that `--metrics-bind-address` names. Written from the source by\n" +
		"`make generate`. Beside these there are those of controller-runtime and Go.\n\n| metric | kind | labels | of | meaning |\n|---|---|---|---|---|\n")
	for _, m := range Catalogue {
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, labels, m.By, m.Help)
	}
	if *update {
		if err := os.WriteFile(reference, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, reference) != out.String() {
		t.Error("docs/metrics.md is stale: run make generate")
	}
}
