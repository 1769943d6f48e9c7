package fn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
)

const upgrading = `{"mode":"enforce","settleGrace":"10s","upgrades":[{"name":"values",
  "serviceAccount":"system:serviceaccount:crossplane-system:crossplane","allow":[{"kind":"Thing","relation":"Child","mutations":["spec.value"]}]}]}`

// revise the Composition: the composite follows, and Crossplane gives the
// function what it requires.
func (s *stage) revise(revision, function string) {
	_ = unstructured.SetNestedField(s.xr.Object, revision, "spec", "crossplane", "compositionRevisionRef", "name")
	s.xr.SetGeneration(s.xr.GetGeneration() + 1)
	s.required = map[string]*fnv1.Resources{
		policies.RequirementRevision: resources(map[string]any{"apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositionRevision", "spec": map[string]any{
			"pipeline": []any{map[string]any{"functionRef": map[string]any{"name": "function-pt"}}},
		}}),
		policies.RequirementFunctions: resources(
			functionRevision("function-pt", "old", "Inactive"), functionRevision("function-pt", function, "Active"), functionRevision("other", revision, "Active")),
	}
}

func functionRevision(name, image, state string) map[string]any {
	return map[string]any{
		"apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision",
		"metadata": map[string]any{"name": name + "-" + image, "labels": map[string]any{"pkg.crossplane.io/package": name}},
		"spec":     map[string]any{"desiredState": state, "image": image},
	}
}

// A new revision of the Composition, or of a function of its pipeline, may
// change what the upgrade names, once; anything else is held as ever.
func TestUpgrade(t *testing.T) {
	s := newStage(t, upgrading)
	s.revise("r1", "v1")
	want := desire{"a": database(1), "b": plain("x"), "c": plain("x")}
	s.reconcile(want)
	s.settle(want)
	fingerprintOf := func(name string) string { return s.live[name].GetAnnotations()[v1alpha1.AnnotationKeyFingerprint] }
	first := fingerprintOf("b")
	if len(first) != 12 {
		t.Fatalf("fingerprint: %q", first)
	}

	// The same build: drift.
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	want["b"] = plain("x")
	s.reconcile(want)

	// A new Composition: what the upgrade names passes, the database does not.
	s.revise("r2", "v1")
	want["a"], want["b"] = database(2), plain("y")
	s.reconcile(want)
	s.wantWrites("hold a", "update b")
	if fingerprintOf("b") == first || fingerprintOf("c") != first {
		t.Errorf("fingerprints: %s, %s, were %s", fingerprintOf("b"), fingerprintOf("c"), first)
	}
	if a := s.trace("b").Own().Approval; a == nil || a.Policy != "UpgradeAllowance/values" {
		t.Errorf("approval in the hop: %+v", a)
	}
	if last := s.live["b"].GetAnnotations()[v1alpha1.AnnotationKeyLastUpgrade]; !strings.Contains(last, first) {
		t.Errorf("last upgrade: %s", last)
	}
	s.stable(want)

	// Each resource is upgraded once, and a way back is no upgrade.
	want["b"] = plain("z")
	s.reconcile(want)
	s.wantWrites("hold b")
	s.revise("r1", "v1")
	s.reconcile(want)
	s.wantWrites()
	s.stable(want)

	// A new function; another one, which is not in the pipeline, does not count.
	s.revise("r2", "v1")
	s.required[policies.RequirementFunctions].Items[2] = resources(functionRevision("other", "v9", "Active")).GetItems()[0]
	s.reconcile(want)
	s.wantWrites()
	s.revise("r2", "v2")
	s.reconcile(want)
	s.wantWrites("update b")
	s.stable(want)
}

// An upgrade for another controller does not count.
func TestUpgradeOfAnother(t *testing.T) {
	s := newStage(t, strings.Replace(upgrading, `"settleGrace"`, `"serviceAccount":"system:serviceaccount:elsewhere:crossplane","settleGrace"`, 1))
	s.revise("r1", "v1")
	want := desire{"b": plain("x")}
	s.reconcile(want)
	s.settle(want)
	s.revise("r2", "v1")
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
}

// fetchUpgrade has Crossplane find an UpgradeAllowance in the cluster.
func (s *stage) fetchUpgrade() {
	s.required[policies.RequirementKausalityCRD] = resources(readableCRD)
	s.required[policies.RequirementPolicies] = &fnv1.Resources{}
	s.required[policies.RequirementUpgrades] = resources(map[string]any{
		"apiVersion": "kausality.io/v1alpha1", "kind": "UpgradeAllowance", "metadata": map[string]any{"name": "values"},
		"spec": map[string]any{"serviceAccount": defaultServiceAccount, "allow": []any{map[string]any{"kind": "Thing", "relation": "Child",
			"mutations": []any{"spec.value"}}}},
	})
}

// With a webhook, which knows more of a build, it decides whether there is a new
// one: the function passes what is part of the upgrade, and writes nothing of it.
// A webhook does not read the Input's upgrades.
func TestUpgradeWithWebhook(t *testing.T) {
	for _, tc := range []struct {
		name, input string
		writes      []string
		note        string
	}{
		{name: "Fetched", input: selecting, writes: []string{"hold a", "update b"}},
		{name: "Inline", input: upgrading, writes: []string{"hold a", "update b"}, note: "upgrades of the Input are ignored"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t, tc.input)
			s.annotate(v1alpha1.AnnotationKeyTrace,
				fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans","timestamp":%q}]`, t0.Format(time.RFC3339)))
			s.revise("r1", "v1")
			s.fetchUpgrade()
			want := desire{"a": database(1), "b": plain("x")}
			s.reconcile(want)
			s.ready()
			s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
			s.stable(want)
			want["a"], want["b"] = database(2), plain("y")
			s.reconcile(want)
			s.wantWrites(tc.writes...)
			if f, ok := s.live["b"].GetAnnotations()[v1alpha1.AnnotationKeyFingerprint]; ok {
				t.Errorf("fingerprint: %s", f)
			}
			if !strings.Contains(fmt.Sprint(s.rsp.GetResults()), tc.note) {
				t.Errorf("results: %v", s.rsp.GetResults())
			}
		})
	}
}

// Revisions are required only where there is an upgrade, and those of the
// cluster's upgrades are fetched like policies.
func TestRequiresRevisions(t *testing.T) {
	revision := &fnv1.ResourceSelector{ApiVersion: "apiextensions.crossplane.io/v1", Kind: "CompositionRevision",
		Match: &fnv1.ResourceSelector_MatchName{MatchName: "r1"}}
	functions := &fnv1.ResourceSelector{ApiVersion: "pkg.crossplane.io/v1", Kind: "FunctionRevision",
		Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{}}}
	s := newStage(t, upgrading)
	s.revise("r1", "v1")
	rsp := s.run(s.request(desire{}))
	want := map[string]*fnv1.ResourceSelector{policies.RequirementRevision: revision, policies.RequirementFunctions: functions}
	got := rsp.GetRequirements().GetExtraResources() //nolint:staticcheck // For Crossplane before 2.2.
	delete(got, policies.RequirementKausalityCRD)
	delete(got, policies.RequirementConfiguration)
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("inline: -want +got\n%s", d)
	}
	s.input = selecting
	s.fetchUpgrade()
	w := desire{"b": plain("x")}
	s.reconcile(w)
	s.settle(w)
	if got := s.rsp.GetRequirements().GetExtraResources(); len(got) != 11 { //nolint:staticcheck // For Crossplane before 2.2.
		t.Errorf("fetched: %v", got)
	}
	fetched := s.required
	s.revise("r2", "v1")
	for k, v := range fetched {
		if s.required[k] == nil {
			s.required[k] = v
		}
	}
	w["b"] = plain("y")
	s.reconcile(w)
	s.wantWrites("update b")
}
