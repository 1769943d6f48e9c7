package fn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

const withProvenance = `{"mode":"enforce","settleGrace":"10s","external":{"provenance":["AWSTags","TerraformEnv"]}}`

// bucket is a managed resource of AWS; tags are none where nil.
func bucket(region string, tags map[string]any) map[string]any {
	forProvider := map[string]any{"region": region}
	if tags != nil {
		forProvider["tags"] = tags
	}
	return map[string]any{"apiVersion": "s3.aws.m.upbound.io/v1beta1", "kind": "Bucket", "spec": map[string]any{
		"forProvider": forProvider, "managementPolicies": []any{"*"},
	}}
}

func workspace(module string, env ...any) map[string]any {
	forProvider := map[string]any{"module": module}
	if env != nil {
		forProvider["env"] = env
	}
	return map[string]any{"apiVersion": "opentofu.m.upbound.io/v1beta1", "kind": "Workspace", "spec": map[string]any{"forProvider": forProvider}}
}

// tag of the live Bucket "a"; "" for none.
func (s *stage) tag(key string) string {
	return ssa.Text(asMap(s.field("a", "spec", "forProvider", "tags")), key)
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// variables of the live Workspace "w", as name=value.
func (s *stage) variables() []string {
	var out []string
	list, _ := s.field("w", "spec", "forProvider", "env").([]any)
	for _, e := range list {
		out = append(out, ssa.Text(asMap(e), "name")+"="+ssa.Text(asMap(e), "value"))
	}
	return out
}

func TestProvenance(t *testing.T) {
	s := newStage(t, withProvenance)
	mine := map[string]any{"name": "MINE", "value": "1"}
	want := desire{
		"a": bucket("eu", map[string]any{"team": "shop"}), "n": bucket("eu", nil),
		"w": workspace("m1", mine), "x": database(1, "tags", "text"),
	}
	s.reconcile(want)
	id := s.tag(carry.TagTraceID)
	if len(id) != 16 || s.tag(carry.TagInitiator) != external.Unattributed ||
		s.tag(carry.TagOrigin) != "XDatabase.example.org/shop/db@1" || s.tag("team") != "shop" {
		t.Fatalf("tags: %v", s.field("a", "spec", "forProvider", "tags"))
	}
	if v := s.field("n", "spec", "forProvider", "tags"); v != nil {
		t.Errorf("a kind that may have no tags got some: %v", v)
	}
	variables := []string{"MINE=1", "KAUSALITY_TRACE_ID=" + id, "KAUSALITY_INITIATOR=unattributed", "KAUSALITY_ORIGIN=XDatabase.example.org/shop/db@1"}
	if d := cmp.Diff(variables, s.variables()); d != "" {
		t.Errorf("variables: -want +got\n%s", d)
	}
	s.stable(want)
	s.settle(want)

	// An intent that changes one of them changes its provenance, and no other's.
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	s.reconcile(want)
	s.wantWrites() // nothing else changes, so provenance does not
	s.settle(want)
	want["a"] = bucket("us", map[string]any{"team": "shop"})
	s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Bucket","name":"*","mode":"always"}]`)
	s.reconcile(want)
	s.wantWrites("update a")
	// The change was approved, and no intent causes it: it is its own origin (KR-07-09).
	if next := s.tag(carry.TagTraceID); next == id || s.tag(carry.TagOrigin) != "Bucket.s3.aws.m.upbound.io/shop/db-a@2" {
		t.Errorf("tags after the change: %v", s.field("a", "spec", "forProvider", "tags"))
	}
	if d := cmp.Diff(variables, s.variables()); d != "" {
		t.Errorf("variables of the other: -want +got\n%s", d)
	}
	s.stable(want)
}

// A held change leaves provenance as it is. It is no part of the difference that is shown and
// approved, whose id would be another one with each intent.
func TestProvenanceOfHeldChange(t *testing.T) {
	s := newStage(t, withProvenance)
	want := desire{"a": bucket("eu", map[string]any{})}
	s.reconcile(want)
	s.settle(want)
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	s.reconcile(want)
	s.settle(want)
	was := s.tag(carry.TagTraceID)
	want["a"] = bucket("us", map[string]any{})
	s.reconcile(want)
	s.wantWrites("hold a")
	if now := s.tag(carry.TagTraceID); now != was {
		t.Errorf("a held change has new provenance: %s, was %s", now, was)
	}
	if h := s.held("a"); strings.Contains(fmt.Sprint(h.Paths), "tags") {
		t.Errorf("paths: %v", h.Paths)
	}
	s.stable(want)
	s.annotate(s.suggested()[0], "once")
	s.reconcile(want)
	s.wantWrites("update a")
	s.stable(want)
}

// An existing resource gets provenance with its next change; where the Input no longer
// configures it, it is removed with the next change, never by itself (KR-08-43).
func TestProvenanceOnAndOff(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{"a": bucket("eu", map[string]any{"team": "shop"}), "w": workspace("m1")}
	s.reconcile(want)
	s.settle(want)
	s.input = withProvenance
	s.stable(want)
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	want["a"], want["w"] = bucket("us", map[string]any{"team": "shop"}), workspace("m2")
	s.reconcile(want)
	s.wantWrites("update a", "update w")
	if s.tag(carry.TagTraceID) == "" || len(s.variables()) != 3 {
		t.Fatalf("no provenance: %v, %v", s.field("a", "spec"), s.variables())
	}
	s.settle(want)
	s.input = enforce
	s.stable(want)
	if s.tag(carry.TagTraceID) == "" || len(s.variables()) != 3 {
		t.Errorf("provenance went by itself")
	}
	s.now = s.now.Add(time.Minute)
	s.intend(3)
	want["a"], want["w"] = bucket("eu", map[string]any{"team": "shop"}), workspace("m3")
	s.reconcile(want)
	s.wantWrites("update a", "update w")
	if s.tag(carry.TagTraceID) != "" || s.tag("team") != "shop" || len(s.variables()) != 0 {
		t.Errorf("provenance stays: %v, %v", s.field("a", "spec"), s.variables())
	}
	s.stable(want)
}

// AWS allows fifty tags: a resource with that many has no provenance, which is
// reported.
func TestProvenanceWithoutRoom(t *testing.T) {
	s := newStage(t, withProvenance)
	tags := map[string]any{}
	for i := range carry.MaxTags - 1 {
		tags[fmt.Sprintf("t%d", i)] = "v"
	}
	want := desire{"a": bucket("eu", tags)}
	s.reconcile(want)
	if s.tag(carry.TagTraceID) != "" || len(asMap(s.field("a", "spec", "forProvider", "tags"))) != len(tags) {
		t.Errorf("tags: %v", s.field("a", "spec", "forProvider", "tags"))
	}
	if _, reason, message := s.condition(); reason != v1alpha1.ConditionReasonAllowed || !strings.Contains(message, "no provenance: ") {
		t.Errorf("%s: %s", reason, message)
	}
}

// A mask by webhook and gate is no change of the resource.
func TestProvenanceAndMask(t *testing.T) {
	s := newStage(t, withProvenance)
	want := desire{"a": bucket("eu", map[string]any{})}
	s.reconcile(want)
	s.settle(want)
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	s.live["a"] = s.live["a"].DeepCopy() // admission leaves no trace in managedFields
	ssa.Child(s.live["a"].Object, "spec")["managementPolicies"] = []any{"Observe"}
	ssa.Child(ssa.Child(s.live["a"].Object, "metadata"), "annotations")[v1alpha1.AnnotationKeyManagementPolicies] = `["*"]`
	before := s.tag(carry.TagTraceID)
	rsp := s.run(s.request(want))
	emitted := ssa.Child(ssa.Child(ssa.Child(ssa.Object(rsp.GetDesired().GetResources()["a"].GetResource()), "spec"), "forProvider"), "tags")
	if got := ssa.Text(emitted, carry.TagTraceID); got != before {
		t.Errorf("trace id: want %s, got %s", before, got)
	}
}

// What the function opens the gate of a Workspace for reaches the run in the same apply (KR-08-62).
func TestAllowedRun(t *testing.T) {
	s := newStage(t, `{"mode":"enforce","settleGrace":"10s","gate":{"managementPolicies":"Managed","deadline":"30m"},"external":{"provenance":["TerraformEnv"]}}`)
	module := func(text string) map[string]any {
		w := workspace(text, map[string]any{"name": "MINE", "value": "1"})
		spec := asMap(w["spec"])
		spec["managementPolicies"], asMap(spec["forProvider"])["source"] = []any{"*"}, "Inline"
		return w
	}
	want := desire{"w": module("variable kausality_allowed {}")}
	s.reconcile(want)
	until := func() string {
		return "KAUSALITY_ALLOWED_UNTIL=" + s.now.Add(30*time.Minute).UTC().Format(time.RFC3339)
	}
	all := s.variables()
	if d := cmp.Diff([]string{"KAUSALITY_ALLOWED=apply", until(), "TF_VAR_kausality_allowed=apply"}, all[min(4, len(all)):]); d != "" {
		t.Fatalf("created: %v: -want +got\n%s", all, d)
	}
	s.settle(want)
	s.stable(want)
	if d := cmp.Diff(all, s.variables()); d != "" {
		t.Errorf("closed: -want +got\n%s", d)
	}

	s.now = s.now.Add(time.Hour)
	s.intend(2)
	want["w"] = module("# changed")
	s.reconcile(want)
	if d := cmp.Diff([]string{"KAUSALITY_ALLOWED=apply", until()}, s.variables()[4:]); d != "" {
		t.Errorf("changed: -want +got\n%s", d)
	}
	s.stable(want)
}

// What a Composition has under the names of Kausality is not emitted: it is no part of the difference that is decided about, and a module may read it. In
// mode log, where nothing is held, it is.
func TestProvenanceOfComposition(t *testing.T) {
	for _, input := range []string{enforce, withProvenance, `{"settleGrace":"10s"}`} {
		s := newStage(t, input)
		logs := input != enforce && input != withProvenance
		forged := map[string]any{"name": "TF_VAR_kausality_origin", "value": "large"}
		want := desire{"w": workspace("m1", map[string]any{"name": "MINE", "value": "1"}, forged)}
		s.reconcile(want)
		s.settle(want)
		if forged["value"] = "larger"; !logs {
			s.stable(want)
		}
		want["w"] = workspace("m2", map[string]any{"name": "MINE", "value": "1"}, forged)
		s.now = s.now.Add(time.Minute)
		s.intend(2)
		s.reconcile(want)
		s.wantWrites("update w")
		if got := strings.Join(s.variables(), " "); strings.Contains(got, "large") != logs || !strings.HasPrefix(got, "MINE=1") {
			t.Errorf("%s: %s", input, got)
		}
	}
}
