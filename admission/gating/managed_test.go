package gating

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// gatingOf an MR and its XR, at noon.
func gatingOf(mr, xr *unstructured.Unstructured) Managed {
	s := parent.Sum(mr, parent.RoleManaged)
	g := Managed{MR: s, Kind: fx.KindOf(mr.GroupVersionKind().GroupKind()), Mode: v1alpha1.ModeEnforce, Deadline: time.Hour, User: "gate", Now: fx.Noon,
		Observed: Observed{Difference: external.Difference(mr.Object), Comparable: external.Comparable(mr.Object)}}
	g.Holders = []identity.Holder{{State: s, Kind: g.Kind}}
	if xr != nil {
		composite := parent.Sum(xr, parent.RoleComposite)
		g.Holders = append(g.Holders, identity.Holder{State: composite, Kind: fx.KindOf(xr.GroupVersionKind().GroupKind()),
			Whole: func() (identity.Whole, bool) { return identity.WholeOf(composite, []*parent.State{s}), true }})
	}
	return g
}

func decideGate(t *testing.T, g Managed) Decision {
	t.Helper()
	before := make([]map[string]string, 0, len(g.Holders))
	for _, h := range g.Holders {
		copied := map[string]string{}
		for k, v := range h.State.Annotations {
			copied[k] = v
		}
		before = append(before, copied)
	}
	d := g.Decide()
	if again := g.Decide(); !reflect.DeepEqual(d, again) {
		t.Errorf("same input, other decision:\n%+v\n%+v", d, again)
	}
	for i, h := range g.Holders {
		if len(before[i]) > 0 && !reflect.DeepEqual(before[i], h.State.Annotations) {
			t.Error("a holder was modified")
		}
	}
	return d
}

// opened is an MR whose gate is open, as g has it.
func opened(g string, mods ...fx.Mod) *unstructured.Unstructured {
	return fx.With(fx.Instance(), append([]fx.Mod{fx.Policies(fx.Observe, fx.Update), fx.GateValue(g)}, mods...)...)
}

// late is after the deadline of an open gate.
func late(g *Managed) { g.Now = fx.Noon.Add(31 * time.Minute) }

// managedCase is an MR, and what happens to its gate.
type managedCase struct {
	reason string
	mr     *unstructured.Unstructured
	change func(*Managed)
	want   Action
	// is the gate's reason, or a part of why nothing is done.
	is       string
	policies string
}

// testManaged decides about MRs below fx.Composite.
func testManaged(t *testing.T, cases map[string]managedCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := gatingOf(tc.mr, fx.Composite())
			if tc.change != nil {
				tc.change(&g)
			}
			d := decideGate(t, g)
			if got := strings.Join(d.Policies, ","); d.Action != tc.want || got != tc.policies || !strings.Contains(d.Gate.Reason+d.Why, tc.is) || d.Drift != nil {
				t.Errorf("%s: got %s %s %q (%s), drift %v", tc.reason, d.Action, got, d.Gate.Reason, d.Why, d.Drift)
			}
			if was := Uses(mask.ParseGate(tc.mr.GetAnnotations())); d.Action == ActionInstall && !slices.Equal(Uses(d.Gate), was) {
				t.Errorf("%s: %v is forgotten", tc.reason, was)
			}
			if d.Action == ActionClose && (d.Gate.Generation != g.MR.Generation+1 &&
				tc.policies != strings.Join(g.MR.ManagementPolicies, ",") || d.Gate.State != v1alpha1.GateClosed) {
				t.Errorf("%s: closes as %+v", tc.reason, d.Gate)
			}
		})
	}
}

// TestDecide covers what closes the gate, and when, without approvals (KR-08-08, KR-08-09; docs/gate.md has the states).
func TestDecide(t *testing.T) {
	creating := `{"state":"open","verbs":["Create","Update","LateInitialize"],"generation":3,"at":"2026-01-02T11:30:00Z"}`
	testManaged(t, map[string]managedCase{
		"Closed": {reason: "nothing differs", mr: fx.With(fx.Instance(), fx.Synced, fx.Ready), want: ActionNone, is: "closed"},
		"ClosedPaused": {reason: "paused: what it shows is old",
			mr: fx.With(fx.Instance(), fx.Tampered, fx.Annotate("crossplane.io/paused", "true")), want: ActionNone, is: "closed"},
		"Confirmed": {reason: "seen, applied and equal", mr: opened(fx.OpenUpdate, fx.Synced), want: ActionClose,
			is: v1alpha1.GateReasonConfirmed, policies: "Observe"},
		"Failing": {reason: "Synced False keeps it open", mr: opened(fx.OpenUpdate, fx.Condition("Synced", "False", "R", 3)),
			want: ActionNone, is: "Synced is not True"},
		"Unreported": {reason: "so does no Synced at all", mr: opened(fx.OpenUpdate), want: ActionNone, is: "Synced is not True"},
		"Behind": {reason: "an older generation confirms nothing",
			mr: opened(fx.OpenUpdate, fx.Condition("Synced", "True", "R", 2)), want: ActionNone, is: "has not seen generation 3"},
		"Ongoing": {reason: "an asynchronous operation goes on",
			mr: opened(fx.OpenUpdate, fx.Synced, fx.Condition("AsyncOperation", "False", "Ongoing", 0)), want: ActionNone, is: "asynchronous"},
		"AsyncFailed": {reason: "or failed",
			mr: opened(fx.OpenUpdate, fx.Synced, fx.Condition("LastAsyncOperation", "False", "ApplyFailure", 0)), want: ActionNone, is: "asynchronous"},
		"Differs": {reason: "what was allowed is not there yet", mr: opened(fx.OpenUpdate, fx.Synced, fx.Tampered), want: ActionNone,
			is: "still differs: spec.forProvider.size"},
		"DiffersElsewhere": {reason: "another difference is not waited for",
			mr: opened(fx.OpenUpdate, fx.Synced, fx.Set("x", "status", "atProvider", "region")), want: ActionClose, is: v1alpha1.GateReasonConfirmed,
			policies: "Observe"},
		"CreatedNotReady": {reason: "a creation lasts until Ready", mr: opened(creating, fx.Synced), want: ActionNone, is: "not Ready"},
		"Created": {reason: "and no longer", mr: opened(creating, fx.Synced, fx.Ready), want: ActionClose,
			is: v1alpha1.GateReasonConfirmed, policies: "Observe"},
		"Expired": {reason: "the deadline closes it", mr: opened(fx.OpenUpdate), change: late, want: ActionClose,
			is: v1alpha1.GateReasonExpired, policies: "Observe"},
		"ConfirmedLate": {reason: "confirmed is confirmed, however late", mr: opened(fx.OpenUpdate, fx.Synced), change: late,
			want: ActionClose, is: v1alpha1.GateReasonConfirmed, policies: "Observe"},
		"CloseTo": {reason: "closed to Observe and LateInitialize by choice", mr: opened(fx.OpenUpdate, fx.Synced),
			change: func(g *Managed) { g.CloseTo = []v1alpha1.Verb{v1alpha1.VerbLateInitialize} }, want: ActionClose, is: v1alpha1.GateReasonConfirmed,
			policies: "Observe,LateInitialize"},
		"GoneNoCreate": {reason: "its author gives no Create: nothing to approve",
			mr:     fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Update"]`)),
			change: func(g *Managed) { g.Gone = true }, want: ActionNone, is: "closed"},
		"DriftNoUpdate": {reason: "its author gives no Update: nothing to approve",
			mr: fx.With(fx.Instance(), fx.Tampered, fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Create"]`)), want: ActionNone, is: "closed"},
	})
}

// TestDecideInstall covers KR-08-03 and KR-08-18: what is masked for the first time.
func TestDecideInstall(t *testing.T) {
	testManaged(t, map[string]managedCase{
		"Install": {reason: "an idle MR is masked", mr: fx.With(fx.Unmasked(), fx.Synced, fx.Ready), want: ActionInstall,
			is: v1alpha1.GateReasonInstalled, policies: "Observe"},
		"InstallNotSynced": {reason: "not while its provider fails",
			mr: fx.With(fx.Unmasked(), fx.Condition("Synced", "False", "R", 3), fx.Ready), want: ActionNone, is: "not idle"},
		"InstallNotReady": {reason: "nor before it is ready", mr: fx.With(fx.Unmasked(), fx.Synced), want: ActionNone, is: "not idle"},
		"InstallBehind": {reason: "nor with a change that its provider has not seen: the mask would cut it off",
			mr: fx.With(fx.Unmasked(), fx.Condition("Synced", "True", "R", 2), fx.Ready), want: ActionNone, is: "not idle"},
		"InstallAsync": {reason: "nor during an operation",
			mr: fx.With(fx.Unmasked(), fx.Synced, fx.Ready, fx.Condition("AsyncOperation", "False", "Ongoing", 0)), want: ActionNone, is: "not idle"},
		"InstallPaused": {reason: "nor paused", mr: fx.With(fx.Unmasked(), fx.Synced, fx.Ready, fx.Annotate("crossplane.io/paused", "true")),
			want: ActionNone, is: "not idle"},
		"InstallDeleting": {reason: "nor being deleted", mr: fx.With(fx.Unmasked(), fx.Synced, fx.Ready, fx.Deleting), want: ActionNone,
			is: "being deleted"},
		"Observes": {reason: "Observe alone is left alone", mr: fx.With(fx.Unmasked(), fx.Policies(fx.Observe), fx.Synced, fx.Ready),
			want: ActionNone, is: "not masked"},
		"PausedByAuthor": {reason: "so is []", mr: fx.With(fx.Unmasked(), fx.Policies(), fx.Synced, fx.Ready), want: ActionNone,
			is: "not masked"},
		"NoObserve": {reason: "and what lacks Observe", mr: fx.With(fx.Unmasked(), fx.Policies(fx.Create), fx.Synced, fx.Ready),
			want: ActionNone, is: "not masked"},
	})
}

// TestDecideRestore covers KR-08-19: mode log gives the author's value back, after the approval of an opening is finished.
func TestDecideRestore(t *testing.T) {
	log := func(g *Managed) { g.Mode, g.Live = v1alpha1.ModeLog, true }
	logCached := func(g *Managed) { g.Mode = v1alpha1.ModeLog }
	claimed := func(g *Managed) {
		log(g)
		g.Holders[1].State.Annotations[v1alpha1.AnnotationKeyClaims] = `[{"content":"x","state":"pending","id":"c1"}]`
	}
	leftover := fx.With(fx.Unmasked(), fx.GateValue(`{"state":"closed","at":null,"claim":"c1"}`))
	testManaged(t, map[string]managedCase{
		"Restore": {reason: "log mode gives the author's value back", mr: fx.Instance(), change: log, want: ActionRestore,
			policies: "*"},
		"RestoreOpen": {reason: "an opening by approval is closed first, so that the approval is finished",
			mr: opened(fx.OpenUpdate), change: log, want: ActionClose, is: v1alpha1.GateReasonRestored, policies: "Observe"},
		"RestoreLeftover": {reason: "what is left of a gate that the webhook lifted goes", mr: leftover, change: log,
			want: ActionRestore, policies: "*"},
		"RestoreCached": {reason: "not by a cache, which may not have the claim yet", mr: leftover,
			change: logCached, want: ActionNone, is: "read live"},
		"RestoreUnfinished": {reason: "nor before the approval is finished: another gate would be opened by it", mr: leftover,
			change: claimed, want: ActionNone, is: "finished first"},
		"RestoreClosed": {reason: "also where the mask is still there",
			mr: fx.With(fx.Instance(), fx.GateValue(`{"state":"closed","at":null,"claim":"c1"}`)), change: claimed, want: ActionNone, is: "finished first"},
		"InstallLeftover": {reason: "what is not finished stays known", mr: fx.With(leftover, fx.Synced, fx.Ready), want: ActionInstall,
			is: v1alpha1.GateReasonInstalled, policies: "Observe"},
		"RestoreDeleting": {reason: "nothing touches what is being deleted", mr: fx.With(fx.Instance(), fx.Deleting), change: log,
			want: ActionNone, is: "being deleted"},
		"LogUnmasked": {reason: "nothing to restore", mr: fx.Unmasked(), change: log, want: ActionNone, is: "not masked"},
	})
}

// TestDecideLost covers KR-08-08: where Synced has no generation, an echo of the reconcile request or the values confirm.
func TestDecideLost(t *testing.T) {
	unproven := strings.Replace(fx.OpenUpdate, `"claim"`, `"unproven":true,"claim"`, 1)
	echo := func(requested, handled string) func(*Managed) {
		return func(g *Managed) { g.Kind.ReconcileRequests, g.RequestedAt, g.HandledAt = true, requested, handled }
	}
	blind := func(g *Managed) { g.Comparable, g.Difference = false, nil }
	lost := fx.Condition("Synced", "True", "R", 0)
	testManaged(t, map[string]managedCase{
		"LostEcho": {reason: "upjet loses the generation: the echo confirms", mr: opened(fx.OpenUpdate, lost),
			change: echo("t1", "t1"), want: ActionClose, is: v1alpha1.GateReasonConfirmed, policies: "Observe"},
		"LostNoEcho": {reason: "no echo yet", mr: opened(fx.OpenUpdate, lost), change: echo("t2", "t1"), want: ActionNone,
			is: "has not handled"},
		"LostComparable": {reason: "or the comparison", mr: opened(fx.OpenUpdate, lost), want: ActionClose,
			is: v1alpha1.GateReasonConfirmed, policies: "Observe"},
		"LostUnproven": {reason: "a value from before the request proves nothing", mr: opened(unproven, lost),
			want: ActionNone, is: "equals the external one"},
		"LostUnprovenEcho": {reason: "where there is an echo, that does", mr: opened(unproven, lost), change: echo("t1", "t1"),
			want: ActionClose, is: v1alpha1.GateReasonConfirmed, policies: "Observe"},
		"SyncedUnproven": {reason: "or the generation", mr: opened(unproven, fx.Synced), want: ActionClose,
			is: v1alpha1.GateReasonConfirmed, policies: "Observe"},
		"ExpiredUnproven": {reason: "nothing else than the deadline", mr: opened(unproven, lost), change: late, want: ActionClose,
			is: v1alpha1.GateReasonExpired, policies: "Observe"},
		"LostBlind": {reason: "with neither, nothing is known", mr: opened(fx.OpenUpdate, lost), change: blind, want: ActionNone,
			is: "reports neither"},
		"EchoMissing": {reason: "a provider that echoes must have echoed", mr: opened(fx.OpenUpdate, fx.Synced),
			change: echo("t2", ""), want: ActionNone, is: "has not handled"},
	})
}

// TestDecideOpenForDelete covers KR-08-09: a gate that is open for Delete waits for the deletion until the deadline.
func TestDecideOpenForDelete(t *testing.T) {
	deletes := `{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:30:00Z"}`
	both := `{"state":"open","verbs":["Create","Update","LateInitialize","Delete"],"generation":3,"at":"2026-01-02T11:30:00Z"}`
	testManaged(t, map[string]managedCase{
		"Delete": {reason: "Delete waits for a deletion", mr: opened(deletes, fx.Synced, fx.Ready), want: ActionNone,
			is: "open for Delete"},
		"DeleteExpired": {reason: "until the deadline", mr: opened(deletes, fx.Synced, fx.Ready), change: late, want: ActionClose,
			is: v1alpha1.GateReasonExpired, policies: "Observe"},
		"DeleteDeleting": {reason: "nothing ever takes Delete from what is being deleted", mr: opened(deletes, fx.Deleting),
			change: late, want: ActionNone, is: "being deleted"},
		"DeleteAndMore": {reason: "what else it was opened for closes when it is confirmed", mr: opened(both, fx.Synced, fx.Ready),
			want: ActionOpen, is: v1alpha1.GateReasonConfirmed, policies: "Observe,Delete"},
		"DeleteAndMoreWaits": {reason: "and not before", mr: opened(both, fx.Synced), want: ActionNone, is: "open for Delete"},
	})
}

// Approvals open a closed gate: who holds them, of which mode, for which
// difference (KR-08-05).
func TestDecideApproved(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	xr := fx.Composite()
	closed := decideGate(t, gatingOf(drifted, xr))
	if closed.Drift == nil || len(closed.Drift.Difference) != 1 || closed.Drift.Difference[0].Path != "spec.forProvider.size" || closed.Drift.Parent.Name != "db" {
		t.Fatalf("got drift %+v", closed.Drift)
	}
	id := closed.Drift.ID
	if !strings.HasSuffix(closed.Drift.SuggestedApproval, v1alpha1.AnnotationKeyApprovePrefix+id+"=once") {
		t.Errorf("suggested: %s", closed.Drift.SuggestedApproval)
	}
	approve := func(mode string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, mode) }
	any1 := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","name":"inst","relation":"External"}]`)
	stale := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","name":"inst","relation":"External","mode":"generation","generation":4}]`)
	child := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","name":"inst","mode":"always"}]`)
	cases := map[string]struct {
		reason  string
		mr, xr  []fx.Mod
		gone    bool
		opens   bool
		claimed string
		verbs   string
	}{
		"Once": {reason: "exactly this difference, claimed first", xr: []fx.Mod{approve("once")}, opens: true, claimed: "db",
			verbs: "Update"},
		"Generation": {reason: "no claim needed", xr: []fx.Mod{approve("generation")}, opens: true, verbs: "Update"},
		"Always":     {reason: "nor here", xr: []fx.Mod{approve("always")}, opens: true, verbs: "Update"},
		"OnMR":       {reason: "the MR itself holds approvals", mr: []fx.Mod{any1}, opens: true, claimed: "inst", verbs: "Update"},
		"IDOnMR": {reason: "the id of the report, on the MR itself", mr: []fx.Mod{approve("once")}, opens: true, claimed: "inst",
			verbs: "Update"},
		"OnXR": {reason: "so does its XR, by name", xr: []fx.Mod{any1}, opens: true, claimed: "db", verbs: "Update"},
		"OtherDigest": {reason: "another difference",
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+"0123456789abcdef", "always")}},
		"Stale":      {reason: "an intent came in between", xr: []fx.Mod{stale}},
		"Child":      {reason: "an approval of the Kubernetes object's change is none of the cloud's", xr: []fx.Mod{child}},
		"GoneUpdate": {reason: "an approval of Update does not create", xr: []fx.Mod{any1}, gone: true},
		"GoneCreate": {reason: "Create does, and an update that finishes it",
			xr:   []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","verbs":["Create","Update"]}]`)},
			gone: true, opens: true, claimed: "db", verbs: "Create,Update"},
		"GoneCreateAlone": {reason: "Create alone does, and opens for nothing else",
			xr:   []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","verbs":["Create"]}]`)},
			gone: true, opens: true, claimed: "db", verbs: "Create"},
		"AllVerbs": {reason: "* is what the difference needs, and no Delete",
			xr:    []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`)},
			opens: true, claimed: "db", verbs: "Update"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := gatingOf(fx.With(drifted, tc.mr...), fx.With(xr, tc.xr...))
			g.Gone = tc.gone
			d := decideGate(t, g)
			if opens := d.Action == ActionOpen; opens != tc.opens || opens == (d.Drift != nil) {
				t.Fatalf("%s: got %s (%s), drift %v", tc.reason, d.Action, d.Why, d.Drift)
			}
			holder := ""
			if d.Claim != nil {
				holder = d.Claim.Holder.Name
				if !HasUse(d.Gate, d.Claim.ID) {
					t.Errorf("%s: claims %s, the gate shows %s", tc.reason, d.Claim.ID, d.Gate.Claim)
				}
			}
			if v := d.Edits[v1alpha1.AnnotationKeyClaims]; v != nil { // its own approval: in the same write
				holder += g.MR.Name
				if claims := approval.ParseClaims(*v); len(claims) != 1 || !HasUse(d.Gate, claims[0].ID) || claims[0].State != v1alpha1.ClaimPending {
					t.Errorf("%s: claims %s, the gate shows %s", tc.reason, *v, d.Gate.Claim)
				}
			}
			if d.Once != (tc.claimed != "") {
				t.Errorf("%s: uses a once approval: %t", tc.reason, d.Once)
			}
			if holder != tc.claimed || fx.Joined(d.Gate.Verbs) != tc.verbs {
				t.Errorf("%s: claimed on %q, open for %s", tc.reason, holder, fx.Joined(d.Gate.Verbs))
			}
		})
	}
}

// What the MR itself approves is claimed in the write that opens its gate, and
// finished in the one that closes it, however that ends.
func TestDecideOwnApproval(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered, fx.Annotate(v1alpha1.AnnotationKeyApprovals,
		`[{"kind":"*","name":"*","relation":"External"}]`))
	d := decideGate(t, gatingOf(drifted, fx.Composite()))
	if d.Action != ActionOpen || d.Claim != nil || len(d.Edits) != 1 {
		t.Fatalf("got %+v", d)
	}
	openNow := fx.With(drifted, fx.Policies(fx.Observe, fx.Update), fx.GateValue(gateText(t, d.Gate)),
		fx.Annotate(v1alpha1.AnnotationKeyClaims, *d.Edits[v1alpha1.AnnotationKeyClaims]))
	late := gatingOf(openNow, fx.Composite())
	late.Now = fx.Noon.Add(2 * time.Hour)
	for name, g := range map[string]Managed{"Confirmed": gatingOf(fx.With(openNow, fx.Set(map[string]any{}, "status"),
		fx.Condition("Synced", "True", "R", d.Gate.Generation), func(o *unstructured.Unstructured) { o.SetGeneration(d.Gate.Generation) }),
		fx.Composite()), "Expired": late} {
		closing := decideGate(t, g)
		if closing.Action != ActionClose {
			t.Fatalf("%s: got %+v", name, closing)
		}
		after := parent.Sum(fx.With(openNow, func(o *unstructured.Unstructured) {
			fx.GateValue(mask.FormatGate(closing.Gate))(o)
			for k, v := range closing.Edits {
				if v == nil {
					fx.Unannotate(k)(o)
				} else {
					fx.Annotate(k, *v)(o)
				}
			}
		}), parent.RoleManaged)
		if set := approval.Parse(after.Annotations); len(set.Approvals) != 0 || len(set.Claims) != 1 ||
			set.Claims[0].State != v1alpha1.ClaimUsed || ClaimToFinish(after, after) != nil {
			t.Errorf("%s leaves approvals %v, claims %v", name, set.Approvals, set.Claims)
		}
	}
}

// The id of the report opens wherever above the MR it is written: those who may
// not touch the XR write it on their Claim.
func TestDecideApprovedOnClaim(t *testing.T) {
	g := gatingOf(fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered), fx.Composite())
	id := decideGate(t, g).Drift.ID
	claim := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once"))
	claim.SetName("claim")
	claim.SetUID("claim")
	g.Holders = append(g.Holders, identity.Holder{State: parent.Sum(claim, parent.RoleClaim)})
	if d := decideGate(t, g); d.Action != ActionOpen || d.Claim == nil || d.Claim.Holder.Name != "claim" {
		t.Errorf("got %s (%s), claim %+v", d.Action, d.Why, d.Claim)
	}
}

// Approvals on a parent that is not guarded open nothing; they are suggested on the
// managed resource, and a freeze of the parent holds (KR-13-15).
func TestDecideUnguardedParent(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	of := func(mr *unstructured.Unstructured, mods ...fx.Mod) Managed {
		g := gatingOf(mr, fx.With(fx.Composite(), mods...))
		g.Holders[1].Unguarded, g.Live = true, true
		return g
	}
	all := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","mode":"always","relation":"External","verbs":["*"]}]`)
	d := decideGate(t, of(drifted, all))
	if d.Action != ActionNone || d.Drift == nil || d.Drift.Parent.Kind != "Instance" ||
		!strings.HasPrefix(d.Drift.SuggestedApproval, "kubectl annotate instances.aws.example.org inst ") {
		t.Fatalf("got %+v", d)
	}
	approved := fx.With(drifted, fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+d.Drift.ID, "once"))
	if d := decideGate(t, of(approved)); d.Action != ActionOpen {
		t.Errorf("not open as suggested: %s (%s)", d.Action, d.Why)
	}
	if d := decideGate(t, of(approved, fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true"))); d.Action != ActionNone {
		t.Errorf("open although the parent is frozen: %s", d.Action)
	}
	claim := fx.With(fx.Composite(), all)
	claim.SetUID("claim")
	g := of(drifted)
	g.Holders = append(g.Holders, identity.Holder{State: parent.Sum(claim, parent.RoleClaim)})
	if d := decideGate(t, g); d.Action != ActionOpen {
		t.Errorf("not open by a guarded Claim above it: %s (%s)", d.Action, d.Why)
	}
}

// A claim's whole life, through every crash: taken and not opened, opened,
// closed and not finished, finished.
func TestDecideClaims(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	approved := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External"}]`))
	first := decideGate(t, gatingOf(drifted, approved))
	claimed := fx.With(approved, fx.Annotate(v1alpha1.AnnotationKeyClaims, first.Claim.Value))

	again := decideGate(t, gatingOf(drifted, claimed))
	if again.Action != ActionOpen || again.Claim != nil || again.Gate.Claim != first.Claim.ID {
		t.Errorf("a claim whose opening never landed is used again: %+v", again)
	}
	other := decideGate(t, gatingOf(fx.With(drifted, fx.Set("y", "status", "atProvider", "size")), claimed))
	if other.Action != ActionOpen || other.Gate.Claim != first.Claim.ID {
		t.Errorf("also where the difference became another one: %s (%s)", other.Action, other.Why)
	}
	expired := first.Gate
	expired.State, expired.Reason = v1alpha1.GateClosed, v1alpha1.GateReasonExpired
	shut := fx.With(drifted, fx.GateValue(gateText(t, expired)))
	if d := decideGate(t, gatingOf(shut, claimed)); d.Action != ActionNone || d.Drift == nil {
		t.Errorf("an expired opening is not opened again by the same claim: %s %+v", d.Action, d.Gate)
	}
	mr, xr := parent.Sum(shut, parent.RoleManaged), parent.Sum(claimed, parent.RoleComposite)
	c := ClaimToFinish(mr, xr)
	if c == nil || c.ID != first.Claim.ID {
		t.Fatalf("to be finished: %+v", c)
	}
	if ClaimToFinish(parent.Sum(fx.With(drifted, fx.GateValue(gateText(t, first.Gate))), parent.RoleManaged), xr) != nil {
		t.Error("an open gate finishes nothing")
	}
	done := fx.With(claimed)
	for k, v := range Spend(xr.Annotations, *c, fx.Noon) {
		if v == nil {
			fx.Unannotate(k)(done)
		} else {
			fx.Annotate(k, *v)(done)
		}
	}
	state := parent.Sum(done, parent.RoleComposite)
	if len(approval.Parse(state.Annotations).Approvals) != 0 || ClaimToFinish(mr, state) != nil {
		t.Errorf("finished: %v", state.Annotations)
	}
}

// An opening is no intent, where the manager of the spec wrote a label since, either: what is claimed stays claimed (KR-01-10).
func TestDecideKeepsTheIntent(t *testing.T) {
	labelled := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered,
		fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External"}]`))
	labelled.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "argocd",
		Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: fx.Noon.Add(time.Minute)},
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:forProvider":{"f:size":{}}}}`)}}})
	was, _ := trace.Intent(parent.Sum(labelled, parent.RoleManaged))
	d := decideGate(t, gatingOf(labelled, fx.Composite()))
	if d.Action != ActionOpen || d.Gate.Generation == labelled.GetGeneration() || d.Gate.Intent != was.Generation {
		t.Fatalf("want an opening that keeps intent %d, got %s %+v (%s)", was.Generation, d.Action, d.Gate, d.Why)
	}
	opened := fx.With(labelled, fx.GateValue(gateText(t, d.Gate)))
	opened.SetGeneration(d.Gate.Generation)
	if is, recorded := trace.Intent(parent.Sum(opened, parent.RoleManaged)); is.Generation != was.Generation || !recorded {
		t.Errorf("the intent was %+v, and is %+v", was, is)
	}
	plain := fx.With(labelled)
	plain.SetManagedFields(nil)
	if d := decideGate(t, gatingOf(plain, fx.Composite())); d.Action != ActionOpen || d.Gate.Intent != 0 {
		t.Errorf("nothing is to be kept: %s %+v", d.Action, d.Gate)
	}
}

func gateText(t *testing.T, g v1alpha1.Gate) string {
	t.Helper()
	return mask.FormatGate(g)
}

// Deletion is approved for the MR, or for all below its XR.
func TestDecideDeletion(t *testing.T) {
	mr, xr := parent.Sum(fx.Instance(), parent.RoleManaged), parent.Sum(fx.Composite(), parent.RoleComposite)
	own := fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+identity.DeletionDigest(xr, mr).ID(), "once")
	whole := fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+identity.WholeOf(xr, []*parent.State{mr}).Digest.ID(), "once")
	wholeGate := func(o *unstructured.Unstructured, approved *unstructured.Unstructured, reason, at string) *unstructured.Unstructured {
		content := approval.Parse(approved.GetAnnotations()).Approvals[0].Content
		return fx.With(o, fx.GateValue(`{"state":"closed","verbs":["Delete"],"generation":4,"at":"`+at+`","claim":"`+content+`",`+
			`"digest":"`+identity.WholeOf(xr, []*parent.State{mr}).Digest.ID()+`","reason":"`+reason+`"}`))
	}
	one := decideGate(t, gatingOf(fx.Instance(), fx.With(fx.Composite(), own)))
	if one.Action != ActionOpen || one.Claim == nil || fx.Joined(one.Gate.Verbs) != fx.Delete || strings.Join(one.Policies, ",") != "Observe,Delete" {
		t.Errorf("of the MR: %+v", one)
	}
	all := fx.With(fx.Composite(), whole)
	if d := decideGate(t, gatingOf(fx.Instance(), all)); d.Action != ActionOpen || d.Claim != nil || fx.Joined(d.Gate.Verbs) != fx.Delete {
		t.Errorf("of all below the XR, which is not claimed for one: %+v", d)
	}
	updating := fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Update), fx.GateValue(fx.OpenUpdate))
	if d := decideGate(t, gatingOf(updating, all)); fx.Joined(d.Gate.Verbs) != "Update,Delete" || !HasUse(d.Gate, "c1") {
		t.Errorf("while open for Update, whose approval is not forgotten: %+v", d.Gate)
	}
	noDelete := fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Create","Update"]`))
	if d := decideGate(t, gatingOf(noDelete, all)); d.Action != ActionNone {
		t.Errorf("its author gives no Delete: %+v", d)
	}
	for _, approved := range []*unstructured.Unstructured{all, fx.With(fx.Composite(), own)} {
		marked := fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan))
		if d := decideGate(t, gatingOf(marked, approved)); d.Action != ActionNone {
			t.Errorf("to be left behind by its annotation: %+v", d)
		}
		policy := fx.With(fx.Instance(), fx.Set("Orphan", "spec", "deletionPolicy"))
		if d := decideGate(t, gatingOf(policy, approved)); d.Action != ActionNone {
			t.Errorf("to be left behind by its deletionPolicy: %+v", d)
		}
	}
	for _, tc := range []struct{ verbs, left string }{{`["Delete"]`, ""}, {`["Update","Delete"]`, fx.Update}} {
		open := fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Delete), fx.GateValue(
			`{"state":"open","verbs":`+tc.verbs+`,"generation":4,"at":"2026-01-02T11:59:00Z","reason":"DeletionApproved"}`),
			fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan))
		if s := parent.Sum(open, parent.RoleManaged); !StillDestroys(s) || WouldOrphan(s) != "" {
			t.Errorf("it would be destroyed: %v", tc)
		}
		d := decideGate(t, gatingOf(open, fx.Composite()))
		if strings.Contains(strings.Join(d.Policies, ","), fx.Delete) || d.Action == ActionNone ||
			d.Gate.State == v1alpha1.GateOpen && fx.Joined(d.Gate.Verbs) != tc.left {
			t.Errorf("open for %s, and to be left behind since: %+v", tc.verbs, d)
		}
	}
	if d := decideGate(t, gatingOf(wholeGate(fx.Instance(), all, v1alpha1.GateReasonExpired, "2026-01-02T11:59:00Z"), all)); d.Action != ActionNone {
		t.Errorf("expired, and opened again by the same approval: %+v", d.Gate)
	}
	// The approval is spent when it expired; one that was given later is another.
	content := approval.Parse(all.GetAnnotations()).Approvals[0].Content
	record := func(at string) *unstructured.Unstructured {
		return fx.With(all, fx.Annotate(v1alpha1.AnnotationKeyClaims, `[{"content":"`+content+`","state":"open","generation":7,"at":"`+at+`"}]`))
	}
	shut := wholeGate(fx.Instance(), all, v1alpha1.GateReasonExpired, "2026-01-02T11:50:00Z")
	if c := ClaimToFinish(parent.Sum(shut, parent.RoleManaged), parent.Sum(record("2026-01-02T10:00:00Z"),
		parent.RoleComposite)); c == nil || c.Content != content {
		t.Errorf("to be spent: %+v", c)
	}
	later := record("2026-01-02T11:55:00Z")
	if c := ClaimToFinish(parent.Sum(shut, parent.RoleManaged), parent.Sum(later, parent.RoleComposite)); c != nil {
		t.Errorf("spent before it was used: %+v", c)
	}
	if d := decideGate(t, gatingOf(shut, later)); d.Action != ActionOpen {
		t.Errorf("approved again: %s (%s)", d.Action, d.Why)
	}
}

func TestExplainDifference(t *testing.T) {
	got := ExplainDifference(change.Fields([]change.Change{{Path: "a", Verb: change.Mutate, Old: "x", New: "y"}}, 5))
	if got != `a is "x", should be "y"` {
		t.Error(got)
	}
	if got := ExplainDifference([]v1alpha1.FieldDifference{{Path: "exists"}}); got != "exists is absent, should be absent" {
		t.Error(got)
	}
}
