package fn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/results"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// runCase starts from a settled composite with database a (size 1) and thing
// b (value x), changes what is observed, and reconciles once with what the
// pipeline wants now. The outcome must be stable.
type runCase struct {
	reason string
	change func(s *stage)
	want   func(w desire)
	// writes of the reconcile, reason of the condition, parts of its message.
	writes    []string
	condition string
	message   []string
	check     func(t *testing.T, s *stage)
}

// testRunFunction runs the function once for each case, and checks what it writes and reports.
func testRunFunction(t *testing.T, cases map[string]runCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, want := settledStage(t)
			if tc.change != nil {
				tc.change(s)
			}
			if tc.want != nil {
				tc.want(want)
			}
			s.reconcile(want)
			if d := cmp.Diff(tc.writes, s.writes); d != "" {
				t.Errorf("%s: writes: -want +got\n%s", tc.reason, d)
			}
			_, reason, message := s.condition()
			if reason != tc.condition {
				t.Errorf("%s: condition: want %s, got %s: %s", tc.reason, tc.condition, reason, message)
			}
			for _, part := range tc.message {
				if !strings.Contains(message, part) {
					t.Errorf("%s: message lacks %q: %s", tc.reason, part, message)
				}
			}
			for _, r := range s.rsp.GetResults() {
				if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
					t.Errorf("%s: fatal: %s", tc.reason, r.GetMessage())
				}
			}
			if tc.check != nil {
				tc.check(t, s)
			}
			s.stable(want)
		})
	}
}

// TestRunFunction covers KR-09-02 and KR-09-04: which changes pass, and what is emitted for those that are held.
func TestRunFunction(t *testing.T) {
	testRunFunction(t, map[string]runCase{
		"Nothing": {
			reason: "a reconcile without a change writes nothing", condition: v1alpha1.ConditionReasonAllowed,
			check: func(t *testing.T, s *stage) {
				if got := offline.ConditionNote(s.xr.Object); got.Generation != 1 || !got.At.Equal(t0) {
					t.Errorf("settled: %v", got)
				}
			},
		},
		"LabelOnly": {
			reason: "metadata is no desired state: it passes",
			want:   func(w desire) { w["b"]["metadata"] = map[string]any{"labels": map[string]any{"x": "y"}} },
			writes: []string{"annotate b"}, condition: v1alpha1.ConditionReasonAllowed,
		},
		"Drift": {
			reason: "an unrequested change is held, with the field and the command that approves it",
			want:   func(w desire) { w["b"] = plain("y") }, writes: []string{"hold b"}, condition: v1alpha1.ConditionReasonHeld,
			message: []string{`resource "b"`, "spec.value", "kubectl annotate -n shop xdatabase.example.org db kausality.io/approve-"},
		},
		"SiblingsMoveOn": {
			reason: "one held resource holds no other",
			change: func(s *stage) {
				s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Thing","name":"*","mode":"always"}]`)
			},
			want:   func(w desire) { w["a"], w["b"] = database(9), plain("y") },
			writes: []string{"hold a", "update b"}, condition: v1alpha1.ConditionReasonHeld,
		},
		"NewResource": {
			reason: "an unrequested creation is held, and another resource lists it",
			want:   func(w desire) { w["c"] = plain("c") }, writes: []string{"annotate " +
				"a"}, condition: v1alpha1.ConditionReasonHeld, message: []string{`resource "c"`, "creating Thing"},
		},
		"NewResourceAsked": {
			reason: "with an intent it is",
			change: func(s *stage) { s.intend(2) },
			want:   func(w desire) { w["c"] = plain("c") }, writes: []string{"create c"}, condition: v1alpha1.ConditionReasonAllowed,
		},
		"FieldRemoved": {
			reason: "a field that the pipeline no longer wants is a change",
			want:   func(w desire) { w["b"]["spec"] = map[string]any{} }, writes: []string{"hold " +
				"b"}, condition: v1alpha1.ConditionReasonHeld, message: []string{"spec.value"},
		},
		"LateInitialized": {
			reason: "what a provider adds is not the pipeline's, and no change",
			change: func(s *stage) {
				s.update("a", "provider", func(o map[string]any) { ssa.Child(ssa.Child(o, "spec"), "forProvider")["zone"] = "z1" })
			},
			condition: v1alpha1.ConditionReasonAllowed,
		},
		"AnotherKind": {
			reason: "another kind under the name is a creation",
			want: func(w desire) {
				w["b"] = map[string]any{"apiVersion": "app.example.org/v1", "kind": "Other", "spec": map[string]any{}}
			},
			writes: []string{"hold b"}, condition: v1alpha1.ConditionReasonHeld, message: []string{"creating Other"},
			check: func(t *testing.T, s *stage) {
				if k := s.rsp.GetDesired().GetResources()["b"].GetResource().GetFields()["kind"].GetStringValue(); k != "Thing" {
					t.Errorf("want the Thing emitted again, got %s", k)
				}
			},
		},
		"MaskedByTheGate": {
			reason: "the gate's mask is no change, and a hold emits the author's value",
			change: func(s *stage) {
				s.live["a"] = s.live["a"].DeepCopy() // admission leaves no trace in managedFields
				ssa.Child(s.live["a"].Object, "spec")["managementPolicies"] = []any{"Observe"}
				ssa.Child(ssa.Child(s.live["a"].Object, "metadata"), "annotations")[v1alpha1.AnnotationKeyManagementPolicies] = `["*"]`
			},
			want: func(w desire) { w["a"] = database(9) }, condition: v1alpha1.ConditionReasonHeld, message: []string{"changing spec.forProvider.size of"},
			writes: []string{"update a"}, // the stage has no webhook that masks it again
			check: func(t *testing.T, s *stage) {
				if p := s.field("a", "spec", "managementPolicies"); !cmp.Equal(p, []any{"*"}) {
					t.Errorf("managementPolicies: %v", p)
				}
			},
		},
		"NoManagedFields": {
			reason: "without managedFields the shape of what is wanted determines what is emitted",
			change: func(s *stage) {
				s.live["b"] = s.live["b"].DeepCopy()
				s.live["b"].SetManagedFields(nil)
				_ = unstructured.SetNestedField(s.live["b"].Object, "z", "spec", "other")
			},
			want: func(w desire) { w["b"] = plain("y") }, condition: v1alpha1.ConditionReasonHeld,
			check: func(t *testing.T, s *stage) {
				got := ssa.Object(s.rsp.GetDesired().GetResources()["b"].GetResource())["spec"]
				if d := cmp.Diff(map[string]any{"value": "x"}, got); d != "" {
					t.Errorf("emitted spec: -want +got\n%s", d)
				}
			},
			writes: []string{"hold b"}, // managedFields come back, too
		},
	})
}

// TestRunFunctionByMode covers KR-09-06: the mode determines whether drift is held; rejections and freezes hold in both.
func TestRunFunctionByMode(t *testing.T) {
	testRunFunction(t, map[string]runCase{
		"LogMode": {
			reason: "in log mode drift passes and is reported",
			change: func(s *stage) { s.input = `{"settleGrace":"10s"}` },
			want:   func(w desire) { w["b"] = plain("y") },
			writes: []string{"update b"}, condition: v1alpha1.ConditionReasonAllowed, message: []string{"drift: ", "spec.value"},
		},
		"ResourceInLogMode": {
			reason: "a resource's own mode goes before the Input's, as it is stored",
			change: func(s *stage) {
				s.update("b", "person", func(o map[string]any) {
					ssa.Child(ssa.Child(o, "metadata"), "annotations")[v1alpha1.AnnotationKeyMode] = "log"
				})
			},
			want: func(w desire) { w["b"] = plain("y") }, writes: []string{"update b"}, condition: v1alpha1.ConditionReasonAllowed,
		},
		"ModeOfTheSameChange": {
			reason: "one change cannot switch itself to log",
			want: func(w desire) {
				w["b"] = plain("y")
				w["b"]["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyMode: "log"}}
			},
			writes: []string{"hold b"}, condition: v1alpha1.ConditionReasonHeld,
		},
		"Rejected": {
			reason: "a rejection holds in log mode too",
			change: func(s *stage) {
				s.input = `{"settleGrace":"10s"}`
				s.annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"Thing","name":"*","reason":"not before the fair"}]`)
			},
			want: func(w desire) { w["b"] = plain("y") }, writes: []string{"hold b"}, condition: v1alpha1.ConditionReasonHeld, message: []string{"not before the fair"},
		},
		"BadFreeze": {
			reason: "a freeze that does not parse is a freeze",
			change: func(s *stage) { s.annotate(v1alpha1.AnnotationKeyFreeze, `{"user":`) },
			want:   func(w desire) { w["b"] = plain("y") }, writes: []string{"hold b"}, condition: v1alpha1.ConditionReasonFrozen,
		},
		"FrozenUnchanged": {
			reason: "freezing reports nothing while nothing changes",
			change: func(s *stage) { s.annotate(v1alpha1.AnnotationKeyFreeze, "true") }, condition: v1alpha1.ConditionReasonAllowed,
		},
	})
}

// TestRunFunctionRemovals covers KR-09-07.
func TestRunFunctionRemovals(t *testing.T) {
	testRunFunction(t, map[string]runCase{
		"RemovalOfThing": {
			reason: "an unrequested removal is held: the resource is emitted again",
			want:   func(w desire) { delete(w, "b") }, writes: []string{"hold b"}, condition: v1alpha1.ConditionReasonHeld, message: []string{"deleting Thing"},
			check: func(t *testing.T, s *stage) {
				want := map[string]any{"apiVersion": "app.example.org/v1", "kind": "Thing", "spec": map[string]any{"value": "x"}}
				got := ssa.Object(s.rsp.GetDesired().GetResources()["b"].GetResource())
				want["metadata"] = map[string]any{"annotations": map[string]any{ // nothing that is Crossplane's
					v1alpha1.AnnotationKeyTrace: s.live["b"].GetAnnotations()[v1alpha1.AnnotationKeyTrace],
					v1alpha1.AnnotationKeyHeld:  heldOf(s.live["b"]),
				}}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("emitted: -want +got\n%s", d)
				}
			},
		},
		"RemovalAsked": {
			reason: "with an intent it goes",
			change: func(s *stage) { s.intend(2) },
			want:   func(w desire) { delete(w, "b") }, writes: []string{"delete b"}, condition: v1alpha1.ConditionReasonAllowed,
		},
		"RemovalOfDatabaseAsked": {
			reason: "even an intended removal of a managed resource waits for the approval of the external deletion",
			change: func(s *stage) { s.intend(2) },
			want:   func(w desire) { delete(w, "a") }, writes: []string{"hold " +
				"a"}, condition: v1alpha1.ConditionReasonHeld, message: []string{"ExternalDeletionNotAllowed", "approve-"},
		},
		"RemovalOfTerminating": {
			reason: "a resource that is being deleted is not emitted again",
			change: func(s *stage) {
				s.live["b"] = s.live["b"].DeepCopy()
				_ = unstructured.SetNestedField(s.live["b"].Object, "2026-01-01T12:00:00Z", "metadata", "deletionTimestamp")
			},
			want: func(w desire) { delete(w, "b") }, writes: []string{"delete b"}, condition: v1alpha1.ConditionReasonAllowed,
		},
		"Deleting": {
			reason: "while the composite is being deleted, cleanup goes on",
			change: func(s *stage) {
				_ = unstructured.SetNestedField(s.xr.Object, "2026-01-01T12:00:00Z", "metadata", "deletionTimestamp")
			},
			want: func(w desire) { w["b"] = plain("y") }, writes: []string{"update b"}, condition: v1alpha1.ConditionReasonAllowed,
		},
	})
}

// TestRunFunctionApprovals covers KR-09-02 and KR-09-03: approvals are those of users, once and for one intent, and stamps are the function's.
func TestRunFunctionApprovals(t *testing.T) {
	testRunFunction(t, map[string]runCase{
		"PipelineTakesUserAnnotations": {
			reason: "a Composition cannot approve, freeze or trace",
			want: func(w desire) {
				w["b"]["metadata"] = map[string]any{"annotations": map[string]any{
					v1alpha1.AnnotationKeyFreeze: "true", v1alpha1.AnnotationKeyTrace: "[]", v1alpha1.AnnotationKeyTraceLabelPrefix + "ticket": "T-1", "example.org/x": "y",
				}}
			},
			writes: []string{"annotate b"}, condition: v1alpha1.ConditionReasonAllowed,
			check: func(t *testing.T, s *stage) {
				a := s.live["b"].GetAnnotations()
				if _, ok := a[v1alpha1.AnnotationKeyFreeze]; ok || len(s.trace("b")) != 2 || a["example.org/x"] != "y" ||
					a[v1alpha1.AnnotationKeyTraceLabelPrefix+"ticket"] != "T-1" {
					t.Errorf("annotations: %v", a)
				}
			},
		},
		"OnceForMany": {
			reason: "a wildcard once is one use altogether: the first by name takes it, and nothing else ever",
			change: func(s *stage) { s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*"}]`) },
			want:   func(w desire) { w["a"], w["b"] = database(9), plain("y") },
			writes: []string{"update a", "hold b"}, condition: v1alpha1.ConditionReasonHeld, message: []string{`resource "b"`, "used up"},
			check: func(t *testing.T, s *stage) {
				if s.live["a"].GetAnnotations()[v1alpha1.AnnotationKeyUsedApprovals] == "" {
					t.Error("the use is not on record")
				}
			},
		},
		"ApprovalBeforeIntent": {
			reason: "an approval does not outlast the next intent",
			change: func(s *stage) {
				s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Thing","name":"*","mode":"generation"}]`)
				s.now = s.now.Add(time.Minute)
				s.intend(2)
				w := desire{"a": database(2), "b": plain("x")}
				s.reconcile(w)
				s.settle(w)
			},
			want: func(w desire) { w["a"], w["b"] = database(2), plain("y") }, writes: []string{"hold b"}, condition: v1alpha1.ConditionReasonHeld,
		},
	})
}

// Earlier steps' desired composite, context and connection details pass.
func TestPassesOn(t *testing.T) {
	s := newStage(t, enforce)
	req := s.request(desire{"a": database(1)})
	req.Context = &structpb.Struct{Fields: map[string]*structpb.Value{"other": structpb.NewStringValue("x")}}
	req.Desired.Composite = &fnv1.Resource{Resource: ssa.ToStruct(map[string]any{"status": map[string]any{"size": int64(1)}}), Ready: fnv1.Ready_READY_FALSE}
	req.Desired.Resources["a"].ConnectionDetails = map[string][]byte{"k": []byte("v")}
	req.Desired.Resources["a"].Ready = fnv1.Ready_READY_TRUE
	rsp := s.run(req)
	if d := cmp.Diff(req.GetContext(), rsp.GetContext(), protocmp.Transform()); d != "" {
		t.Errorf("context: -want +got\n%s", d)
	}
	if d := cmp.Diff(req.GetDesired().GetComposite(), rsp.GetDesired().GetComposite(), protocmp.Transform()); d != "" {
		t.Errorf("composite: -want +got\n%s", d)
	}
	a := rsp.GetDesired().GetResources()["a"]
	if string(a.GetConnectionDetails()["k"]) != "v" || a.GetReady() != fnv1.Ready_READY_TRUE {
		t.Errorf("resource: %v", a)
	}
}

// The condition is bounded, counts what it leaves out, and never loses a
// command.
func TestMessageIsBounded(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{}
	for i := range 40 {
		want[fmt.Sprintf("thing-%02d", i)] = plain("x")
	}
	s.reconcile(want)
	s.settle(want)
	for name := range want {
		spec := map[string]any{"value": "x"}
		for i := range 8 {
			spec[fmt.Sprintf("%s-%d", strings.Repeat("very-long-field-name", 12), i)] = "y"
		}
		want[name] = map[string]any{"apiVersion": "app.example.org/v1", "kind": "Thing", "spec": spec}
	}
	s.reconcile(want)
	_, reason, message := s.condition()
	if reason != v1alpha1.ConditionReasonHeld || len(message) > results.MaxMessage || !strings.Contains(message, "\nand 37 more") {
		t.Errorf("%s, %d bytes: %s", reason, len(message), message)
	}
	for _, line := range strings.Split(message, "\n") {
		if strings.HasPrefix(line, "resource") && !approvalPattern.MatchString(line) {
			t.Errorf("no command in %q", line)
		}
	}
	if n := len(s.rsp.GetResults()); n != results.Max+1 {
		t.Errorf("results: want %d, got %d", results.Max+1, n)
	}
}

// With a webhook its trace and settled-generation are taken, and nothing is
// marked or remembered in the composed resources (KR-09-12).
func TestWithWebhook(t *testing.T) {
	s := newStage(t, enforce)
	hop := fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans@example.com",`+
		`"timestamp":%q}]`, t0.Format(time.RFC3339))
	s.annotate(v1alpha1.AnnotationKeyTrace, hop)
	want := desire{"a": database(1), "b": plain("x")}
	s.reconcile(want)
	if got := s.trace("a"); len(got) != 2 || got.Origin().User != "hans@example.com" {
		t.Fatalf("trace: %s", got)
	}
	s.ready()
	s.now = s.now.Add(time.Hour)
	s.stable(want)
	if ttl := s.rsp.GetMeta().GetTtl().AsDuration(); ttl != time.Minute {
		t.Errorf("ttl: %s", ttl)
	}
	s.update("b", "webhook", func(o map[string]any) { // which guards it
		_ = unstructured.SetNestedField(o, "13c7u", "metadata", "annotations", v1alpha1.AnnotationKeyUpdaters)
	})
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("update b") // not settled: the webhook has not recorded it
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	want["b"] = plain("z")
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.annotate(s.suggested()[0], "once")
	s.reconcile(want)
	s.wantWrites("update b")
	if _, ok := s.live["b"].GetAnnotations()[v1alpha1.AnnotationKeyUsedApprovals]; ok {
		t.Error("uses are the webhook's to remember")
	}
}

// A webhook's trace on a composed resource is emitted to the letter, whatever
// its form.
func TestForeignTraceIsKept(t *testing.T) {
	s, want := settledStage(t)
	odd := `[ {"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans",` +
		`"timestamp":"2026-01-01T12:00:00Z","settled":true,"future":1},` +
		`{"apiVersion":"app.example.org/v1","kind":"Thing","name":"db-b","generation":1,"user":"x","timestamp":"2026-01-01T12:00:01Z"} ]`
	s.update("b", "webhook", func(o map[string]any) {
		ssa.Child(ssa.Child(o, "metadata"), "annotations")[v1alpha1.AnnotationKeyTrace] = odd
	})
	s.reconcile(want)
	if got := s.live["b"].GetAnnotations()[v1alpha1.AnnotationKeyTrace]; got != odd {
		t.Errorf("trace: want it as it was, got %s", got)
	}
}

// Resources that existed before the function get a trace once (KR-07-04).
func TestAdoption(t *testing.T) {
	s := newStage(t, enforce)
	s.apply("b", plain("x"))
	s.xr.SetGeneration(7)
	want := desire{"b": plain("x")}
	s.reconcile(want)
	s.wantWrites("annotate b")
	got := s.trace("b")
	if len(got) != 2 || got[0].Generation != 7 || !got[0].Unattributed || !got[1].Unattributed || got[1].Generation != 1 {
		t.Errorf("trace: %s", got)
	}
	s.stable(want)
	s.settle(want)
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
}

// An intent that changes no resource settles too, and stays so.
func TestIntentWithoutChange(t *testing.T) {
	s, want := settledStage(t)
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	s.reconcile(want)
	s.wantWrites()
	s.settle(want)
	s.xr.SetGeneration(9)
	s.flap()
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(want)
}

// Nothing is left to hang the latch on but the condition.
func TestAllResourcesGone(t *testing.T) {
	s, want := settledStage(t)
	s.live = map[string]*unstructured.Unstructured{}
	s.reconcile(want)
	s.wantWrites()
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(want)
}

// A cluster-scoped composite with namespaced resources: hops have their scope (KR-07-03).
func TestClusterScopedComposite(t *testing.T) {
	s := newStage(t, enforce)
	unstructured.RemoveNestedField(s.xr.Object, "metadata", "namespace")
	w := plain("x")
	w["metadata"] = map[string]any{"namespace": "shop"}
	want := desire{"b": w}
	s.reconcile(want)
	if got := s.trace("b"); !got[0].ClusterScoped {
		t.Errorf("trace: %s", got)
	}
	s.settle(want)
	if got := s.trace("b"); !got[0].ClusterScoped || !got[0].Settled {
		t.Errorf("settled trace: %s", got)
	}
	w["spec"] = map[string]any{"value": "y"}
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
}

// A nested composite is stamped like any resource.
func TestNestedComposite(t *testing.T) {
	s := newStage(t, enforce)
	nested := func(size int64) map[string]any {
		return map[string]any{"apiVersion": "example.org/v1", "kind": "XNested", "spec": map[string]any{"size": size}}
	}
	want := desire{"n": nested(1)}
	s.reconcile(want)
	s.update("n", "apiextensions.crossplane.io/composite", func(o map[string]any) {
		ssa.Child(o, "spec")["crossplane"] = map[string]any{"resourceRefs": []any{map[string]any{"kind": "X", "name": "y"}}}
	})
	s.settle(want)
	want["n"] = nested(2)
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
	if _, ok := ssa.Child(ssa.Object(s.rsp.GetDesired().GetResources()["n"].GetResource()), "spec")["crossplane"]; ok {
		t.Error("machinery was emitted")
	}
	s.stable(want)
	delete(want, "n")
	s.reconcile(want)
	s.wantWrites("hold n") // now its removal
	s.wantReason(v1alpha1.ConditionReasonHeld)
	if got := trace.Of(s.live["n"].GetAnnotations()); len(got) != 2 {
		t.Errorf("trace: %s", got)
	}
}
