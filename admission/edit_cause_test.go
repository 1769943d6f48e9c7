package admission

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/external"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// workspace turns a managed resource into a Workspace with an inline module.
func workspace(o *unstructured.Unstructured) {
	o.SetAPIVersion("tf.m.upbound.io/v1beta1")
	o.SetKind("Workspace")
	fx.Set("Inline", "spec", "forProvider", "source")(o)
	fx.Set("variable \"kausality_origin\" {}\n", "spec", "forProvider", "module")(o)
	fx.Set(map[string]any{"outputs": map[string]any{}}, "status", "atProvider")(o)
	unstructured.RemoveNestedField(o.Object, "spec", "forProvider", "size")
	unstructured.RemoveNestedField(o.Object, "spec", "forProvider", "region")
}

// variable is an entry of env.
func variable(name, value string) any { return map[string]any{"name": name, "value": value} }

func environment(entries ...any) fx.Mod { return fx.Set(entries, "spec", "forProvider", "env") }

// carried is what the object has of a cause after the write; nil for nothing, also for a request that is refused.
func carried(t *testing.T, req *Request, d Decision) []string {
	t.Helper()
	content := req.Object.DeepCopy()
	for pointer, value := range d.Fields {
		if name, ok := strings.CutPrefix(pointer, "/spec/forProvider/"); ok {
			fx.Set(value, "spec", "forProvider", name)(content)
		}
	}
	of := carry.ForProvider(content.Object)
	f := carry.Of(req.Kind.GroupKind(), of, nil)
	var out []string
	for _, e := range f.Taken(of[f.Name]) {
		out = append(out, e.Name+"="+e.Value)
	}
	if others, ok := f.Without(of[f.Name]).([]any); ok {
		for _, e := range others {
			out = append(out, e.(map[string]any)["name"].(string))
		}
	}
	return out
}

// carrying are options by which causes are carried in some ways.
func carrying(mode v1alpha1.Mode, p ...v1alpha1.Provenance) Options {
	return Options{DefaultMode: mode, Provenance: p, Deadline: time.Hour}
}

// expectedUnder options a change follows from an intent that has not settled.
func expectedUnder(o Options) setting { return setting{xr: []fx.Mod{fx.Unsettled}, opts: o} }

var (
	// deadline of a gate that opens at noon.
	deadline = fx.Noon.Add(time.Hour).UTC().Format(time.RFC3339)
	// otherModule is a change of a Workspace.
	otherModule = fx.Set("variable \"kausality_origin\" {}\n# 2", "spec", "forProvider", "module")
	// oldEnv has a variable of its author, and what was written by an earlier change.
	oldEnv = []any{variable("MINE", "1"), variable(carry.VariableTraceID, "old")}
	// oldCarried is what oldEnv has of a cause.
	oldCarried = []string{"KAUSALITY_TRACE_ID=old", "MINE"}
)

// workspaceWith mods is a Workspace whose author set a variable.
func workspaceWith(mods ...fx.Mod) *unstructured.Unstructured {
	return fx.With(fx.Instance(), append([]fx.Mod{workspace, environment(variable("MINE", "1"))}, mods...)...)
}

// causeCase is a write, and what the object has of a cause after it.
type causeCase struct {
	reason  string
	setting setting
	req     *Request
	class   outcome.Class
	want    []string
	warning string
}

// testCause checks what writes carry. It is never a change of the desired state.
func testCause(t *testing.T, cases map[string]causeCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, tc.setting.world(), tc.setting.opts, tc.req)
			if d.Class != tc.class || d.Allowed != (name != "Held") {
				t.Fatalf("%s: %+v: %s", tc.reason, outcomeOf(d), d.Message)
			}
			if name == "NewOrigin" {
				own := external.ProvenanceOf(d.Trace, "")
				tc.want = []string{"KAUSALITY_TRACE_ID=" + own.TraceID, "KAUSALITY_INITIATOR=" + fx.Alice.Name, "KAUSALITY_ORIGIN=" + own.Origin, "KAUSALITY_ALLOWED=apply",
					"KAUSALITY_ALLOWED_UNTIL=" + deadline, "TF_VAR_kausality_origin=" + own.Origin, "MINE"}
			}
			if got := carried(t, tc.req, d); !cmp.Equal(tc.want, got) {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, cmp.Diff(tc.want, got))
			}
			if text := strings.Join(d.Warnings, "\n"); (tc.warning == "") != (len(d.Warnings) == 0) || !strings.Contains(text, tc.warning) {
				t.Errorf("%s: warnings %q", tc.reason, text)
			}
			for _, c := range d.Changes {
				if strings.Contains(c.Path, "env") || strings.Contains(c.Path, "tags") {
					t.Errorf("%s: %s is no part of the desired state", tc.reason, c.Path)
				}
			}
		})
	}
}

// TestCause covers KR-08-43 and KR-08-62: the cause of a change travels in the write that opens the gate, and in no other.
func TestCause(t *testing.T) {
	both := carrying(v1alpha1.ModeEnforce, v1alpha1.ProvenanceAWSTags, v1alpha1.ProvenanceTerraformEnv)
	accepted := expectedUnder(both)
	intent := external.ProvenanceOf(trace.Trace{fx.Hop(fx.With(fx.Composite(), fx.Unsettled), 8, "alice")}, "")
	run := []string{"KAUSALITY_TRACE_ID=" + intent.TraceID, "KAUSALITY_INITIATOR=alice", "KAUSALITY_ORIGIN=XDatabase.example.org/db@8"}
	open := func(verbs string) []string {
		return append(run[:3:3], "KAUSALITY_ALLOWED="+verbs, "KAUSALITY_ALLOWED_UNTIL="+deadline, "TF_VAR_kausality_origin=XDatabase.example.org/db@8")
	}
	tags := []string{"kausality.io/trace-id=" + intent.TraceID, "kausality.io/initiator=alice", "kausality.io/origin=XDatabase.example.org/db@8"}
	tagged := fx.Set(map[string]any{"team": "a"}, "spec", "forProvider", "tags")
	showsTags := fx.Set(map[string]any{"team": "a"}, "status", "atProvider", "tags")
	fifty := map[string]any{}
	for i := range carry.MaxTags - 2 {
		fifty[strings.Repeat("t", i+1)] = "v"
	}
	testCause(t, map[string]causeCase{
		"Change": {reason: "an accepted change opens the gate", setting: accepted, req: byCrossplane(Update, workspaceWith(), otherModule),
			class: outcome.ClassExpected, want: append(open("apply"), "MINE")},
		"Create": {reason: "so does a creation", setting: accepted, class: outcome.ClassExpected,
			req: byCrossplane(Create, fx.With(fx.Unmasked(), workspace)), want: open("apply")},
		"NewOrigin": {reason: "a person's change has the person", setting: setting{opts: both},
			req:   by(byCrossplane(Update, workspaceWith(), otherModule), fx.Alice, "kubectl"),
			class: outcome.ClassNewOrigin, want: nil},
		"Log": {reason: "no gate limits the run", setting: expectedUnder(carrying(v1alpha1.ModeLog, v1alpha1.ProvenanceTerraformEnv)),
			req:   byCrossplane(Update, fx.With(fx.Unmasked(), workspace), otherModule),
			class: outcome.ClassExpected, want: append(run[:3:3], "TF_VAR_kausality_origin=XDatabase.example.org/db@8")},
		"Held": {reason: "a change that is not allowed reaches nothing", setting: setting{opts: both},
			req:   byCrossplane(Update, workspaceWith(environment(oldEnv...)), otherModule),
			class: outcome.ClassDrift, want: oldCarried},
		"Tags": {reason: "of AWS", setting: accepted, req: byCrossplane(Update, fx.With(fx.Instance(), tagged, showsTags), fx.Resize("l")),
			class: outcome.ClassExpected, want: tags},
		"TagsOff": {reason: "each way by itself", setting: expectedUnder(carrying(v1alpha1.ModeEnforce, v1alpha1.ProvenanceTerraformEnv)),
			class: outcome.ClassExpected,
			req:   byCrossplane(Update, fx.With(fx.Instance(), tagged, showsTags), fx.Resize("l"))},
		"TagsPending": {reason: "the gate stays closed, and a tag would be external drift", setting: accepted, class: outcome.ClassExpected,
			req:     byCrossplane(Update, fx.With(fx.Instance(), tagged, showsTags, fx.Set("m", "status", "atProvider", "region")), fx.Resize("l")),
			warning: "the gate stays closed"},
		"TagsNoRoom": {reason: "none, and a warning", setting: accepted, class: outcome.ClassExpected,
			req: byCrossplane(Update, fx.With(fx.Instance(), fx.Set(fifty, "spec", "forProvider", "tags"), fx.Set(fifty, "status", "atProvider", "tags")),
				fx.Resize("l")), warning: "no provenance: cannot add 3 provenance tags to the 48"},
		"NoModule": {reason: "it does not parse", setting: accepted, class: outcome.ClassExpected,
			warning: "no input variables of Kausality are set: the inline module does not parse",
			req:     byCrossplane(Update, workspaceWith(), fx.Set("variable \"kausality_origin\" {", "spec", "forProvider", "module")),
			want:    append(open("apply")[:5:5], "MINE")},
	})
}

// TestCauseInRequest covers KR-08-43: what a request has of a cause is a claim, which changes nothing that was written.
func TestCauseInRequest(t *testing.T) {
	accepted := expectedUnder(carrying(v1alpha1.ModeEnforce, v1alpha1.ProvenanceAWSTags, v1alpha1.ProvenanceTerraformEnv))
	was := environment(oldEnv...)
	testCause(t, map[string]causeCase{
		"Reapply": {reason: "a re-apply without it is no change", setting: accepted, req: byCrossplane(Update, workspaceWith(was), environment(oldEnv[0])),
			class: outcome.ClassNone, want: oldCarried},
		"ReapplyAbsent": {reason: "also where the Composition has no such field", setting: accepted, class: outcome.ClassNone,
			want: []string{"KAUSALITY_TRACE_ID=old"}, req: byCrossplane(Update, workspaceWith(environment(oldEnv[1])), func(o *unstructured.Unstructured) {
				unstructured.RemoveNestedField(o.Object, "spec", "forProvider", "env")
			})},
		"Forged": {reason: "a value of the request is a claim", setting: accepted, class: outcome.ClassNone, want: oldCarried,
			req:     by(byCrossplane(Update, workspaceWith(was), environment(oldEnv[0], variable(carry.VariableTraceID, "forged"))), fx.Alice, "kubectl"),
			warning: "KAUSALITY_TRACE_ID in spec.forProvider.env is written by Kausality alone"},
		"ForgedOff": {reason: "also where none is written", setting: expectedUnder(enforced()), class: outcome.ClassNone, want: oldCarried,
			req:     by(byCrossplane(Update, workspaceWith(was), environment(oldEnv[0], variable(carry.VariableTraceID, "forged"))), fx.Alice, "kubectl"),
			warning: "KAUSALITY_TRACE_ID in spec.forProvider.env is written by Kausality alone"},
		"Composed": {reason: "a Composition could carry anything past the decision", setting: expectedUnder(enforced()), class: outcome.ClassNone, want: oldCarried,
			req: byCrossplane(Update, workspaceWith(was), environment(oldEnv[0], variable(carry.VariableTraceID, "old"), variable("TF_VAR_kausality_origin", "x")))},
		"ComposedChange": {reason: "also with a change", setting: expectedUnder(enforced()), class: outcome.ClassExpected, want: []string{"MINE"},
			req: byCrossplane(Update, workspaceWith(was), otherModule, environment(oldEnv[0], variable("TF_VAR_kausality_origin", "x")))},
		"LogOff": {reason: "nothing of others is changed in mode log", setting: expectedUnder(Options{}), class: outcome.ClassExpected,
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), workspace, was), otherModule, environment(oldEnv[0], variable(carry.VariableTraceID, "next"))),
			want: []string{"KAUSALITY_TRACE_ID=next", "MINE"}},
		"Off": {reason: "it goes with the next change", setting: expectedUnder(enforced()), class: outcome.ClassNewOrigin, want: []string{"MINE"},
			req: by(byCrossplane(Update, workspaceWith(was), otherModule), fx.Alice, "kubectl")},
	})
}
