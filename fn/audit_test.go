package fn

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// operation is the request of an Operation's step that requires objects.
func operation(in string, objects ...*unstructured.Unstructured) *fnv1.RunFunctionRequest {
	items := make([]*fnv1.Resource, 0, len(objects))
	for _, o := range objects {
		items = append(items, &fnv1.Resource{Resource: ssa.ToStruct(o.Object)})
	}
	req := &fnv1.RunFunctionRequest{
		Meta:              &fnv1.RequestMeta{Tag: "tag"},
		Desired:           &fnv1.State{Resources: map[string]*fnv1.Resource{"of-an-earlier-step": {Resource: ssa.ToStruct(plain("x"))}}},
		RequiredResources: map[string]*fnv1.Resources{"databases": {Items: items}},
	}
	if in != "" {
		req.Input = &structpb.Struct{}
		if err := req.Input.UnmarshalJSON([]byte(in)); err != nil {
			panic(err)
		}
	}
	return req
}

func auditOf(t *testing.T, rsp *fnv1.RunFunctionResponse) input.Audit {
	t.Helper()
	raw, err := rsp.GetOutput().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	out := input.Audit{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// audit the stage's objects.
func (s *stage) audit(t *testing.T) input.Audit {
	t.Helper()
	objects := []*unstructured.Unstructured{s.xr}
	for _, name := range slices.Sorted(maps.Keys(s.live)) {
		objects = append(objects, s.live[name])
	}
	req := operation(s.input, objects...)
	rsp := s.fnRun(req)
	if d := cmp.Diff(req.GetDesired(), rsp.GetDesired(), protocmp.Transform()); d != "" {
		t.Errorf("an audit changes nothing: -want +got\n%s", d)
	}
	if len(rsp.GetConditions()) > 0 {
		t.Errorf("an Operation has no conditions: %v", rsp.GetConditions())
	}
	return auditOf(t, rsp)
}

// reasons of the findings on an object.
func reasons(a input.Audit, name string) []input.FindingReason {
	var out []input.FindingReason
	for _, r := range a.Resources {
		if r.Name == name {
			for _, f := range r.Findings {
				out = append(out, f.Reason)
			}
		}
	}
	return out
}

// TestAudit covers KR-09-15.
func TestAudit(t *testing.T) {
	annotation := func(u *unstructured.Unstructured, key, value string) {
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[key] = value
		u.SetAnnotations(a)
	}
	// gated database: masked, closed, compared.
	gated := func(s *stage, gate v1alpha1.Gate) {
		o := s.live["a"].DeepCopy()
		annotation(o, v1alpha1.AnnotationKeyManagementPolicies, `["*"]`)
		annotation(o, v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
		_ = unstructured.SetNestedStringSlice(o.Object, []string{"Observe"}, "spec", "managementPolicies")
		_ = unstructured.SetNestedField(o.Object, map[string]any{"size": int64(1)}, "status", "atProvider")
		s.live["a"] = o
	}
	closed := v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: "Installed"}
	cases := map[string]struct {
		reason string
		change func(s *stage)
		object string
		want   []input.FindingReason
	}{
		"Thing": {reason: "nothing is wrong with a settled thing", object: "db-b"},
		"Composite": {reason: "without a webhook a composite has no trace of its own", object: "db",
			want: []input.FindingReason{"Untraced"}},
		"Ungated": {reason: "a managed resource without a gate, that reports nothing", object: "db-a",
			want: []input.FindingReason{"Ungated", "ExternalDriftUnknown"}},
		"Gated": {reason: "a closed gate, and all is as it should be", change: func(s *stage) { gated(s, closed) },
			object: "db-a"},
		"ObserveOnly": {reason: "who only observes needs no gate", change: func(s *stage) {
			gated(s, closed)
			annotation(s.live["a"], v1alpha1.AnnotationKeyManagementPolicies, `["Observe"]`)
		}, object: "db-a"},
		"Drift": {reason: "the external resource is another", change: func(s *stage) {
			gated(s, closed)
			_ = unstructured.SetNestedField(s.live["a"].Object, int64(9), "status", "atProvider", "size")
		}, object: "db-a", want: []input.FindingReason{"ExternalDrift"}},
		"Unconfirmed": {reason: "open for longer than the deadline", change: func(s *stage) {
			gate := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}}
			gate.At.Time = s.now.Add(-2 * time.Hour)
			gated(s, gate)
		}, object: "db-a", want: []input.FindingReason{"Unconfirmed"}},
		"Expired": {reason: "closed by the deadline", change: func(s *stage) {
			gated(s, v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: "ExpiredUnconfirmed"})
		}, object: "db-a", want: []input.FindingReason{"Unconfirmed"}},
		"Held": {reason: "what the function holds", change: func(s *stage) {
			s.reconcile(desire{"a": database(1), "b": plain("y")})
		}, object: "db-b", want: []input.FindingReason{"Held"}},
		"HeldComposite": {reason: "on the composite too", change: func(s *stage) {
			s.reconcile(desire{"a": database(1), "b": plain("y")})
		}, object: "db", want: []input.FindingReason{"Held", "Untraced"}},
		"Frozen": {reason: "a frozen composite",
			change: func(s *stage) { s.annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"hans"}`) }, object: "db",
			want: []input.FindingReason{"Frozen", "Untraced"}},
		"Garbage": {reason: "an approval that does not parse",
			change: func(s *stage) { s.annotate(v1alpha1.AnnotationKeyApprovals, `[`) }, object: "db",
			want: []input.FindingReason{"InvalidAnnotation", "Untraced"}},
		"Untraced": {reason: "an object that existed before Kausality", change: func(s *stage) { s.apply("z", plain("z")) }, object: "db-z",
			want: []input.FindingReason{"Untraced"}},
		"LogMode": {reason: "an object whose own mode is log",
			change: func(s *stage) { annotation(s.live["b"], v1alpha1.AnnotationKeyMode, "log") }, object: "db-b",
			want: []input.FindingReason{"LogMode"}},
		"Unsettled": {reason: "an intent that has not come through", change: func(s *stage) {
			s.now = s.now.Add(time.Minute)
			s.intend(2)
		}, object: "db", want: []input.FindingReason{"Untraced", "Unsettled"}},
		"Away": {reason: "changed while it was not observed", change: func(s *stage) {
			s.annotate(v1alpha1.AnnotationKeyTrace,
				fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans","timestamp":%q}]`, t0.Format(time.RFC3339)))
			s.annotate(v1alpha1.AnnotationKeySettledGeneration, "9")
			s.now = s.now.Add(time.Minute)
			s.intend(2)
		}, object: "db", want: []input.FindingReason{"Unattributed"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, _ := settledStage(t)
			_ = unstructured.SetNestedField(s.xr.Object, map[string]any{}, "spec", "crossplane") // by which one knows an XR
			if tc.change != nil {
				tc.change(s)
			}
			got := s.audit(t)
			if d := cmp.Diff(tc.want, reasons(got, tc.object)); d != "" {
				t.Errorf("%s: -want +got\n%s\n%+v", tc.reason, d, got)
			}
			if got.Objects != len(s.live)+1 || got.APIVersion != input.APIVersion || got.Kind != "Audit" {
				t.Errorf("audit: %+v", got)
			}
		})
	}
}

// What is found can be approved with the command that is given.
func TestAuditedDriftCanBeApproved(t *testing.T) {
	s, want := settledStage(t)
	want["b"] = plain("y")
	s.reconcile(want)
	for _, r := range s.audit(t).Resources {
		if r.Name != "db-b" {
			continue
		}
		if r.Initiator != "unattributed" || r.Origin != "XDatabase.example.org/shop/db@1" || r.Phase != "initialized" || r.IntentGeneration != 1 {
			t.Errorf("resource: %+v", r)
		}
		key := approvalPattern.FindStringSubmatch(r.Findings[0].Approve)
		if key == nil {
			t.Fatalf("no command: %+v", r.Findings)
		}
		s.annotate(key[1], "once")
	}
	s.reconcile(want)
	s.wantWrites("update b")
}

// One object that several requirements name is one; what has findings comes
// first; and what is too much is counted.
func TestAuditIsBounded(t *testing.T) {
	s, _ := settledStage(t)
	var objects []*unstructured.Unstructured
	for i := range input.MaxAudited + 7 {
		o := s.live["b"].DeepCopy()
		o.SetName(fmt.Sprintf("thing-%03d", i))
		if i == input.MaxAudited {
			o.SetAnnotations(nil)
		}
		objects = append(objects, o)
	}
	req := operation("", objects...)
	req.RequiredResources["ops.crossplane.io/watched-resource"] = &fnv1.Resources{Items: []*fnv1.Resource{{Resource: ssa.ToStruct(objects[0].Object)}}}
	req.ExtraResources = map[string]*fnv1.Resources{"older": req.RequiredResources["databases"]} //nolint:staticcheck // What older Crossplanes send.
	got := auditOf(t, s.fnRun(req))
	if got.Objects != len(objects) || len(got.Resources) != input.MaxAudited || got.Omitted != 7 || got.Findings != 1 ||
		got.Resources[0].Name != fmt.Sprintf("thing-%03d", input.MaxAudited) {
		t.Errorf("audit: %d objects, %d listed, %d omitted, %d findings, first %s", got.Objects, len(got.Resources), got.Omitted, got.Findings, got.Resources[0].Name)
	}
}

func TestNothingToAudit(t *testing.T) {
	s := newStage(t, "")
	rsp := s.fnRun(operation(""))
	if r := rsp.GetResults(); len(r) != 1 || !strings.Contains(r[0].GetMessage(), "nothing to audit") {
		t.Errorf("results: %v", r)
	}
	if rsp := s.fnRun(operation(`{"mode":"strict"}`)); rsp.GetResults()[0].GetSeverity() != fnv1.Severity_SEVERITY_FATAL {
		t.Errorf("an invalid Input: %v", rsp.GetResults())
	}
}

// An audit follows the Kausality policies of the cluster, as the gate does: deadline and ignored paths.
func TestAuditFollowsPolicies(t *testing.T) {
	open := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}}
	for name, tc := range map[string]struct {
		spec map[string]any
		want []input.FindingReason
	}{
		"Default":  {spec: map[string]any{}, want: []input.FindingReason{input.FindingUnconfirmed, input.FindingExternalDrift}},
		"Deadline": {spec: map[string]any{"gate": map[string]any{"deadline": "4h"}}, want: []input.FindingReason{input.FindingExternalDrift}},
		"Ignored": {spec: map[string]any{"gate": map[string]any{"ignorePaths": []any{"spec.forProvider.size"}}},
			want: []input.FindingReason{input.FindingUnconfirmed}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := settledStage(t)
			o := s.live["a"].DeepCopy()
			open.At.Time = s.now.Add(-2 * time.Hour)
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyTrace: o.GetAnnotations()[v1alpha1.AnnotationKeyTrace],
				v1alpha1.AnnotationKeyManagementPolicies: `["*"]`, v1alpha1.AnnotationKeyGate: mask.FormatGate(open)})
			_ = unstructured.SetNestedField(o.Object, map[string]any{"size": int64(9)}, "status", "atProvider")
			tc.spec["resources"] = []any{map[string]any{"apiGroups": []any{"cloud.example.org"}, "resources": []any{"databases"}}}
			policy := resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "Kausality", "metadata": map[string]any{"name": "all"}, "spec": tc.spec})
			req := operation(following, o)
			req.RequiredResources[policies.RequirementKausalityCRD] = resources(readableCRD)
			req.RequiredResources[policies.RequirementKausalities] = policy
			rsp := s.fnRun(req)
			got := auditOf(t, rsp)
			if d := cmp.Diff(tc.want, reasons(got, "db-a")); d != "" {
				t.Errorf("-want +got\n%s\n%+v", d, got)
			}
			if got.Objects != 1 {
				t.Errorf("policies are audited: %+v", got)
			}
			if _, ok := rsp.GetRequirements().GetExtraResources()[policies.RequirementKausalities]; !ok { //nolint:staticcheck // For v1.20.
				t.Errorf("policies are not required: %v", rsp.GetRequirements())
			}
		})
	}
}
