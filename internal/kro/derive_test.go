package kro

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/internal/race"

	"github.com/google/go-cmp/cmp"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// short returns a derived policy in short: for each trigger what it permits, and the lines that no rule explains.
func short(t *testing.T, d *Derived) string {
	t.Helper()
	var out strings.Builder
	for i := range d.Policies {
		p := &d.Policies[i]
		if _, errs := allowance.Compile(p); len(errs) > 0 {
			t.Errorf("%s does not compile: %v", p.Name, errs)
		}
		if found := allowance.Unbound(p, nil); len(found) > 0 {
			t.Errorf("%s has a part without effect: %v", p.Name, found)
		}
		if len(p.Spec.Rules) > maxRules {
			t.Errorf("%s has %d rules", p.Name, len(p.Spec.Rules))
		}
		for _, r := range p.Spec.Rules {
			fmt.Fprintln(&out, r.Trigger)
			if len(r.DerivedFrom) == 0 || len(r.DerivedFrom) > maxLines || len(r.Allow) > maxAllow {
				t.Errorf("rule %s has %d lines and %d permissions", r.Trigger, len(r.DerivedFrom), len(r.Allow))
			}
			for _, a := range r.Allow {
				kind := a.Target.Kind
				if a.Relation == v1alpha1.RelationExternal {
					kind = "External " + kind
				}
				fmt.Fprintf(&out, "  %s %s", strings.Join(a.Verbs, ","), kind)
				for _, m := range a.Mutations {
					fmt.Fprintf(&out, " %s", m.JSONPath)
					if len(m.Verbs) > 0 {
						fmt.Fprintf(&out, "%v", m.Verbs)
					}
				}
				out.WriteByte('\n')
			}
		}
	}
	for _, u := range d.Unknown {
		fmt.Fprintln(&out, "unknown:", u)
	}
	return out.String()
}

func readGraphs(t *testing.T, text string) []krov1alpha1.ResourceGraphDefinition {
	t.Helper()
	graphs, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return graphs
}

// TestExamples derives policies from the examples of kro (KR-18-09).
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/kro/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, g := range readGraphs(t, string(raw)) {
				d, err := Derive(&g, DefaultServiceAccount)
				if err != nil {
					got += "error: " + err.Error() + "\n"
					continue
				}
				got += short(t, d)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestWebapp compares with a policy that was written by hand for the same graph. It differs in three places: section initializing has no
// expression, since instances of kro have no status.observedGeneration, so that it would never end; users are subjects beside kro, whose
// changes of an instance would be granted nothing; and an object with another name is created, and the former one deleted.
func TestWebapp(t *testing.T) {
	raw, err := os.ReadFile("testdata/webapp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := Derive(&readGraphs(t, string(raw))[0], DefaultServiceAccount)
	if err != nil {
		t.Fatal(err)
	}
	short(t, d)
	want, err := os.ReadFile("testdata/webapp-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policy v1alpha1.AllowancePolicy
	if err := yaml.UnmarshalStrict(want, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.Initializing.When = ""
	policy.Spec.Subjects = append(policy.Spec.Subjects,
		v1alpha1.PolicySubject{Subject: v1alpha1.Subject{Kind: v1alpha1.SubjectGroup, Name: "system:authenticated"}, MayInitiate: true})
	got := d.Policies[0].DeepCopy()
	for i := range got.Spec.Rules {
		got.Spec.Rules[i].DerivedFrom = nil
	}
	renamed := &got.Spec.Rules[0].Allow
	*renamed = slices.DeleteFunc(*renamed, func(a v1alpha1.AllowedChange) bool { return slices.Equal(a.Verbs, identities) })
	if len(d.Policies) != 1 || len(d.Policies[0].Spec.Rules[0].Allow) != len(*renamed)+2 {
		t.Error("a rename must be permitted for both")
	}
	if diff := cmp.Diff(&policy, got); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	if err := d.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"  # resources[0].template.spec.replicas: ${schema.spec.replicas}\n  - trigger: spec.replicas\n",
		"#   resources[1].template.spec.selector.app: ${deployment.metadata.labels.app}: resources[0] has no metadata.labels.app, ",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
	var written v1alpha1.AllowancePolicy
	if err := yaml.UnmarshalStrict(out.Bytes(), &written); err != nil {
		t.Fatal(err)
	}
	for i := range d.Policies[0].Spec.Rules {
		d.Policies[0].Spec.Rules[i].DerivedFrom = nil
	}
	if diff := cmp.Diff(d.Policies[0], written); diff != "" {
		t.Errorf("what is written differs from what is derived: %s", diff)
	}
}

// used time of processors, of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestLarge: a graph of 1 MiB is derived in seconds, or refused as too large.
func TestLarge(t *testing.T) {
	build := func(nodes int, resource func(i int) string) string {
		var b strings.Builder
		b.WriteString("apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: large}\n" +
			"spec:\n  schema: {apiVersion: v1, kind: Large}\n  resources:\n")
		for i := range nodes {
			b.WriteString(resource(i))
		}
		return b.String()
	}
	config := "  - {id: c%d, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}, data: {%s}}}\n"
	for name, tc := range map[string]struct{ text, err string }{
		"Chain": {text: build(8000, func(i int) string {
			return fmt.Sprintf(config, i, i, fmt.Sprintf(`a: "${c%d.status.x}", b: "${schema.spec.f%d}"`, max(0, i-1)+8000*(1-min(i, 1)), i%100)) +
				map[bool]string{true: "  - {id: c8000, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: last}}}\n"}[i == 0]
		})},
		"Conditions": {text: build(7000, func(i int) string {
			return fmt.Sprintf("  - {id: c%d, includeWhen: [\"${schema.spec.f%d}\"], "+
				"template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: \"${%s}\"}}}\n",
				i, i, map[bool]string{true: "schema.spec.a", false: fmt.Sprintf("c%d.data.a", max(0, i-1))}[i == 0])
		}), err: "it is too large: at most 1024 rules"},
		"Labels": {text: build(7000, func(i int) string {
			return fmt.Sprintf(config, i, i, fmt.Sprintf(`a: "${schema.metadata.labels.l%d}", b: "${c%d.status.x}"`, i, max(0, i-1)+7000*(1-min(i, 1)))) +
				map[bool]string{true: "  - {id: c7000, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: last}}}\n"}[i == 0]
		})},
		"Fields": {text: build(9000, func(i int) string { return fmt.Sprintf(config, i, i, fmt.Sprintf(`a: "${schema.spec.field%d}"`, i)) }),
			err: "it is too large: at most 1024 rules"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begun := used(t)
			g := readGraphs(t, tc.text)
			d, err := Derive(&g[0], DefaultServiceAccount)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("want %q, got %v", tc.err, err)
			}
			if err == nil {
				short(t, d)
			}
			runtime.ReadMemStats(&after)
			perNode := (after.Mallocs - before.Mallocs) / uint64(strings.Count(tc.text, "{id: "))
			took := used(t) - begun
			t.Logf("%d bytes took %v of a processor, and %d allocations for each resource", len(tc.text), took, perNode)
			if perNode > 3000 || took > 20*time.Second && !race.Enabled {
				t.Error("that is too much")
			}
		})
	}
}
