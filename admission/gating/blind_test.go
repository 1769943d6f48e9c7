package gating

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// blind is a Workspace behind a closed gate, of which nothing can be compared and nothing is shown.
func blind(mods ...fx.Mod) *unstructured.Unstructured {
	o := fx.With(fx.Instance(), fx.Synced, fx.Ready)
	o.Object["apiVersion"], o.Object["kind"] = "tf.m.upbound.io/v1beta1", "Workspace"
	o.Object["spec"].(map[string]any)["forProvider"] = map[string]any{"module": "size = 11"}
	o.Object["status"].(map[string]any)["atProvider"] = map[string]any{}
	return fx.With(o, mods...)
}

// reporting replaces what the provider reports by Synced.
func reporting(status string, generation int64) fx.Mod {
	return func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "status", "conditions")
		fx.Ready(o)
		fx.Condition("Synced", status, "R", generation)(o)
	}
}

func approving(verbs, mode string) fx.Mod {
	return fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","verbs":[`+verbs+`],"mode":"`+mode+`"}]`)
}

// Where nothing can be compared, an approval opens the gate for what its verbs mean
// (KR-08-49, KR-08-52).
func TestBlindOpens(t *testing.T) {
	equal := fx.Set("size = 11", "status", "atProvider", "module")
	for name, tc := range map[string]struct {
		reason string
		mr, xr []fx.Mod
		want   string
	}{
		"None":     {reason: "no approval, no opening"},
		"Update":   {reason: "for Update", xr: []fx.Mod{approving(`"Update"`, "once")}, want: "Update"},
		"Default":  {reason: "which is the default", xr: []fx.Mod{approving(``, "once")}, want: "Update"},
		"Apply":    {reason: "for Terraform's apply", xr: []fx.Mod{approving(`"apply"`, "once")}, want: "Create,Update"},
		"Create":   {reason: "for Create alone", xr: []fx.Mod{approving(`"Create"`, "once")}, want: "Create"},
		"All":      {reason: "but not for Delete by *", xr: []fx.Mod{approving(`"*"`, "always")}, want: "Create,Update"},
		"Destroy":  {reason: "a deletion has its own opening", xr: []fx.Mod{approving(`"destroy"`, "once")}, want: "Delete"},
		"Sync":     {reason: "not for the verb of another system", xr: []fx.Mod{approving(`"sync"`, "once")}},
		"OnItself": {reason: "approved on the managed resource", mr: []fx.Mod{approving(`"apply"`, "once")}, want: "Create,Update"},
		"Author": {reason: "no verb that its author does not give",
			mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Update"]`)},
			xr: []fx.Mod{approving(`"*"`, "once")}, want: "Update"},
		"Frozen": {reason: "a freeze keeps it closed",
			xr: []fx.Mod{approving(`"apply"`, "once"), fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}},
		"Unsynced": {reason: "what can be compared may show later",
			mr: []fx.Mod{reporting("False", 3)}, xr: []fx.Mod{approving(`"apply"`, "once")}},
		"Behind": {reason: "the closed gate is not observed yet",
			mr: []fx.Mod{fx.Set(int64(4), "metadata", "generation")}, xr: []fx.Mod{approving(`"apply"`, "once")}},
		"Paused": {reason: "a paused one",
			mr: []fx.Mod{fx.Annotate("crossplane.io/paused", "true")}, xr: []fx.Mod{approving(`"apply"`, "once")}},
		"Equal": {reason: "what can be compared and is equal needs nothing",
			mr: []fx.Mod{equal}, xr: []fx.Mod{approving(`"apply"`, "once")}},
		"OfAChild": {reason: "an approval about Kubernetes objects is none",
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","mode":"always"}]`)}},
		"Elsewhere": {reason: "of another object",
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Workspace","name":"other","relation":"External","mode":"always"}]`)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatingOf(blind(tc.mr...), fx.With(fx.Composite(), tc.xr...))
			d := decideGate(t, g)
			if (d.Action == ActionOpen) != (tc.want != "") || fx.Joined(d.Gate.Verbs) != tc.want || d.Drift != nil {
				t.Fatalf("%s: %s %+v (%s), drift %v", tc.reason, d.Action, d.Gate, d.Why, d.Drift)
			}
			if d.Blind != (d.Action == ActionOpen && tc.want != "Delete") {
				t.Errorf("%s: blind: %t", tc.reason, d.Blind)
			}
			if d.Action == ActionOpen && (d.Gate.Reason != v1alpha1.GateReasonApproved || len(d.Gate.Paths) > 0) {
				t.Errorf("%s: %+v", tc.reason, d.Gate)
			}
		})
	}
}

// stored is an object with the gate of a decision, and the policies that go with it.
func stored(o *unstructured.Unstructured, d Decision) *unstructured.Unstructured {
	policies := make([]any, 0, len(d.Policies))
	for _, p := range d.Policies {
		policies = append(policies, p)
	}
	return fx.With(o, fx.GateValue(mask.FormatGate(d.Gate)), fx.Policies(policies...), fx.Set(d.Gate.Generation, "metadata", "generation"))
}

// The opening ends when the provider has observed it, or at its deadline, and the approval
// does not open the gate again: a once one is used, a lasting one is on record until it is
// removed (KR-08-52, KR-08-09).
func TestBlindEnds(t *testing.T) {
	for _, mode := range []string{"once", "generation", "always"} {
		for _, confirmed := range []bool{true, false} {
			xr := fx.With(fx.Composite(), approving(`"apply"`, mode))
			d := decideGate(t, gatingOf(blind(), xr))
			if d.Action != ActionOpen || (d.Claim != nil) != (mode == "once") {
				t.Fatalf("%s: not opened: %+v", mode, d)
			}
			if d.Claim != nil {
				fx.Annotate(v1alpha1.AnnotationKeyClaims, d.Claim.Value)(xr)
			}
			open := stored(blind(), d)
			g := gatingOf(open, xr)
			if d := decideGate(t, g); d.Action != ActionNone || d.Again != time.Hour {
				t.Fatalf("%s: before its provider observed it: %s, again in %s (%s)", mode, d.Action, d.Again, d.Why)
			}
			if confirmed {
				g = gatingOf(fx.With(open, reporting("True", d.Gate.Generation)), xr)
			}
			g.Now = fx.Noon.Add(time.Hour)
			d = decideGate(t, g)
			want := map[bool]string{true: v1alpha1.GateReasonConfirmed, false: v1alpha1.GateReasonExpired}[confirmed]
			if d.Action != ActionClose || d.Gate.Reason != want {
				t.Fatalf("%s: not closed: %s %+v", mode, d.Action, d.Gate)
			}
			shut := fx.With(stored(open, d), reporting("True", d.Gate.Generation))
			if mode == "once" { // the claim is finished first
				c := ClaimToFinish(gatingOf(shut, xr).MR, gatingOf(shut, xr).Holders[1].State)
				if c == nil {
					t.Fatalf("nothing to finish: %+v", d.Gate)
				}
				for k, v := range Spend(xr.GetAnnotations(), *c, fx.Noon) {
					if v == nil {
						fx.Unannotate(k)(xr)
					} else {
						fx.Annotate(k, *v)(xr)
					}
				}
			}
			if d := decideGate(t, gatingOf(shut, xr)); d.Action == ActionOpen {
				t.Errorf("%s: it opens again: %+v", mode, d.Gate)
			}
		}
	}
}

// An accepted change between keeps the record of a lasting approval. When the approval is
// removed, live, so is its record, and the same approval opens the gate again (KR-08-52).
func TestBlindAgain(t *testing.T) {
	xr := fx.With(fx.Composite(), approving(`"apply"`, "always"))
	content := approval.Parse(xr.GetAnnotations()).Approvals[0].Content
	shut := blind(fx.GateValue(`{"state":"closed","generation":3,"at":"2026-01-02T11:00:00Z","reason":"Confirmed","opened":["` + content + `"]}`))
	accepted, _ := Acceptance{Gate: mask.ParseGate(shut.GetAnnotations()), Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Generation: 4, Time: fx.Noon}.Transition()
	if !slices.Equal(accepted.Opened, []string{content}) {
		t.Errorf("forgotten by a change: %+v", accepted)
	}
	if d := decideGate(t, gatingOf(shut, xr)); d.Action != ActionNone {
		t.Errorf("it opens again: %+v", d)
	}
	withdrawn := gatingOf(shut, fx.Composite())
	if d := decideGate(t, withdrawn); !d.Live || d.Action != ActionNone {
		t.Errorf("by a cache alone: %+v", d)
	}
	withdrawn.Live = true
	d := decideGate(t, withdrawn)
	if d.Action != ActionRecord || len(d.Gate.Opened) > 0 || strings.Join(d.Policies, ",") != "Observe" {
		t.Fatalf("not forgotten: %+v", d)
	}
	if d := decideGate(t, gatingOf(stored(shut, d), xr)); d.Action != ActionOpen {
		t.Errorf("written again: %+v", d)
	}
}

// Where an ApprovalRule matches, the votes are for what no field shows, by its id, which is reported once an approval requests it.
func TestBlindVotes(t *testing.T) {
	rule := between(t, "0 10 * * *", 8)
	decide := func(mods ...fx.Mod) Decision {
		g := gatingOf(blind(), fx.With(fx.Composite(), mods...))
		g.Policies = rule
		return decideGate(t, g)
	}
	if d := decide(); d.Drift != nil || d.Lacks != "" {
		t.Errorf("nothing is requested: lacks %q, drift %v", d.Lacks, d.Drift)
	}
	d := decide(approving(`"apply"`, "once"))
	if d.Action != "" || d.Drift == nil || !strings.Contains(d.Lacks, "0 of 1 approvals") || !strings.Contains(d.Why, d.Lacks) ||
		!strings.Contains(d.Drift.SuggestedApproval, d.Drift.ID) {
		t.Fatalf("requested without votes: %s %s, lacks %q, drift %+v", d.Action, d.Why, d.Lacks, d.Drift)
	}
	open := decide(votedFor(d.Drift.ID, "open", `anna","at":"2026-01-02T11:00:00Z"`))
	if open.Action != ActionOpen || fx.Joined(open.Gate.Verbs) != "Create,Update" || open.Gate.Digest != d.Drift.ID {
		t.Errorf("with its vote: %s %+v (%s)", open.Action, open.Gate, open.Why)
	}
}
