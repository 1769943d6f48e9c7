package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/hack/gatestates"
)

// taken is a transition as the code takes it.
type taken struct {
	from, to gatestates.Status
	by       gatestates.Mover
	reason   string
}

// explored are the transitions taken, each with the first case that took it.
type explored map[taken]string

func (e explored) note(t taken, in string) {
	if _, ok := e[t]; !ok {
		e[t] = in
	}
}

// dimension of what decisions see: names of variants and what they do to an MR.
type dimension []struct {
	name string
	mod  fx.Mod
}

func nothing(*unstructured.Unstructured) {}

// storedMasks are all forms of author, policies and gate.
func storedMasks() dimension {
	masked := func(author, gate string, p ...any) fx.Mod {
		return func(o *unstructured.Unstructured) {
			fx.Policies(p...)(o)
			fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, author, v1alpha1.AnnotationKeyGate, gate)(o)
		}
	}
	gate := func(state, verbs, reason, more string) string {
		return fmt.Sprintf(`{"state":%q,"verbs":[%s],"generation":3,"at":"2026-01-02T11:30:00Z","reason":%q%s}`, state, verbs, reason, more)
	}
	all, u, d, cul := `["*"]`, `"Update"`, `"Delete"`, `"Create","Update","LateInitialize"`
	later := `,"deleteAt":"2026-01-02T11:50:00Z"`
	size, claim, sooner := `,"paths":["spec.forProvider.size"]`, `,"claim":"c1"`, `,"deleteAt":"2026-01-02T10:45:00Z"`
	return dimension{
		{"unmasked", fx.Policies("*")}, {"unmasked O,C", fx.Policies(fx.Observe, fx.Create)},
		{"author O", fx.Policies(fx.Observe)}, {"author []", fx.Policies()}, {"author C", fx.Policies(fx.Create)},
		{"leftover", fx.GateValue(gate("closed", u, v1alpha1.GateReasonRestored, claim))},
		{"closed", masked(all, gate("closed", u, v1alpha1.GateReasonConfirmed, ""), fx.Observe)},
		{"no gate annotation", func(o *unstructured.Unstructured) {
			fx.Policies(fx.Observe)(o)
			fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, all)(o)
		}},
		{"held", masked(all, gate("closed", "", v1alpha1.GateReasonPending, ""), fx.Observe)},
		{"held, size accepted", masked(all, gate("closed", u, v1alpha1.GateReasonPending, size), fx.Observe)},
		{"changed while paused", masked(all, gate("closed", u, v1alpha1.GateReasonPaused, size), fx.Observe)},
		{"frozen", masked(all, gate("closed", u, v1alpha1.GateReasonFrozen, size), fx.Observe)},
		{"expired", masked(all, gate("closed", u, v1alpha1.GateReasonExpired, claim), fx.Observe)},
		{"open U", masked(all, gate("open", u, v1alpha1.GateReasonChanged, size), fx.Observe, fx.Update)},
		{"open U, claim", masked(all, gate("open", u, v1alpha1.GateReasonApproved, size+claim), fx.Observe, fx.Update)},
		{"open C,U,LI", masked(all, gate("open", cul, v1alpha1.GateReasonCreated, ""), fx.Observe, fx.Create, fx.Update, fx.LateInitialize)},
		{"open D", masked(all, gate("open", d, v1alpha1.GateReasonApproved, ""), fx.Observe, fx.Delete)},
		{"open D, claim", masked(all, gate("open", d, v1alpha1.GateReasonApproved, claim), fx.Observe, fx.Delete)},
		{"open U,D", masked(all, gate("open", u+","+d, v1alpha1.GateReasonApproved, size), fx.Observe, fx.Delete)},
		{"open U,D, D sooner", masked(all, gate("open", u+","+d, v1alpha1.GateReasonChanged, size+sooner), fx.Observe, fx.Delete)},
		{"open U,D, D later", masked(all, gate("open", u+","+d, v1alpha1.GateReasonApproved, size+later), fx.Observe, fx.Delete)},
		{"open C,U,LI,D, D sooner", masked(all, gate("open", cul+","+d, v1alpha1.GateReasonChanged, sooner), "*")},
		{"closed, not supported", masked(all, gate("closed", u, v1alpha1.GateReasonConfirmed, ""), fx.Observe, fx.LateInitialize)},
		{"held, not supported", masked(all, gate("closed", "", v1alpha1.GateReasonPending, ""), fx.Observe, fx.LateInitialize)},
		{"expired, not supported", masked(all, gate("closed", u, v1alpha1.GateReasonExpired, claim), fx.Observe, fx.LateInitialize)},
		{"open U, not supported", masked(all, gate("open", u, v1alpha1.GateReasonChanged, size), fx.Observe, fx.Update, fx.LateInitialize)},
		{"author O,C,U masked", masked(`["Observe","Create","Update"]`, gate("closed", u, v1alpha1.GateReasonConfirmed, ""), fx.Observe)},
	}
}

func providerReports() dimension {
	return dimension{
		{"not synced", fx.Condition("Synced", "False", "R", 3)}, {"synced earlier", fx.Condition("Synced", "True", "R", 2)},
		{"synced", fx.Synced}, {"synced, no generation", fx.Condition("Synced", "True", "R", 0)},
	}
}

func circumstances() dimension {
	deleted := func(o *unstructured.Unstructured) { fx.Ready(o); fx.Deleting(o) }
	paused := func(o *unstructured.Unstructured) { fx.Ready(o); fx.Annotate("crossplane.io/paused", "true")(o) }
	return dimension{{"ready", fx.Ready}, {"not ready", nothing}, {"ready, deleted", deleted}, {"ready, paused", paused},
		{"ready, operation", func(o *unstructured.Unstructured) {
			fx.Ready(o)
			fx.Condition("AsyncOperation", "False", "Ongoing", 0)(o)
		}}}
}

func cloudStates() dimension {
	return dimension{{"equal", nothing}, {"differs", fx.Tampered}, {"differs elsewhere", fx.Set("x", "status", "atProvider", "region")}, {"gone", nothing}}
}

// product of dimensions: all MRs there are, with their names.
func product(ds ...dimension) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{"": fx.Unmasked()}
	for _, d := range ds {
		next := map[string]*unstructured.Unstructured{}
		for name, o := range out {
			for _, v := range d {
				next[strings.TrimPrefix(name+"/"+v.name, "/")] = fx.With(o, v.mod)
			}
		}
		out = next
	}
	return out
}

// holders that approve or stop, for one MR.
func holdersFor(g gating.Managed) map[string]*parent.State {
	xr := parent.Sum(fx.Composite(), parent.RoleComposite)
	ids := map[string]string{"": "", "drift approved": identity.DriftDigest(xr, g.MR, g.Difference).ID(),
		"deletion approved": identity.DeletionDigest(xr, g.MR).ID(), "whole approved": identity.WholeOf(xr, []*parent.State{g.MR}).Digest.ID()}
	if g.Gone {
		ids["drift approved"] = identity.DriftDigest(xr, g.MR, []change.Change{{Path: external.Exists, Verb: change.Mutate, Old: false, New: true}}).ID()
	}
	out := map[string]*parent.State{}
	for what, id := range ids {
		for _, frozen := range []string{"", "true"} {
			s := *xr
			s.Annotations = maps.Clone(xr.Annotations)
			if id != "" {
				s.Annotations[v1alpha1.AnnotationKeyApprovePrefix+id] = "once"
			}
			if frozen != "" {
				s.Annotations[v1alpha1.AnnotationKeyFreeze] = frozen
			}
			out[what+" "+frozen] = &s
		}
	}
	return out
}

// decided is the MR after a decision of the gate controller's.
func decided(mr *parent.State, d gating.Decision) *parent.State {
	s := *mr
	s.Annotations = maps.Clone(mr.Annotations)
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.ManagementPolicies = d.Policies
	if !slices.Equal(d.Policies, mr.ManagementPolicies) {
		s.Generation++
	}
	if d.Action == gating.ActionRestore {
		delete(s.Annotations, v1alpha1.AnnotationKeyManagementPolicies)
		delete(s.Annotations, v1alpha1.AnnotationKeyGate)
		return &s
	}
	s.Annotations[v1alpha1.AnnotationKeyManagementPolicies], s.Annotations[v1alpha1.AnnotationKeyGate] = mask.FormatAuthor(d.Author), mask.FormatGate(d.Gate)
	return &s
}

// closedWindow is a rule for all external changes, whose window is not open at noon.
var closedWindow = func() *allowance.Set {
	r, errs := allowance.CompileRule(&v1alpha1.ApprovalRule{Spec: v1alpha1.ApprovalRuleSpec{
		Match:   v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}},
		Require: []v1alpha1.RequiredVotes{{Count: 1}},
		Windows: &v1alpha1.ApprovalWindows{Allow: []v1alpha1.ApprovalWindow{{Schedule: "0 18 * * *", Duration: metav1.Duration{Duration: time.Hour}}}},
	}})
	if len(errs) > 0 {
		panic(errs)
	}
	return allowance.NewSet(nil, nil, nil).WithRules([]*allowance.Rule{r})
}()

// exploreGate decides, as the gate controller, about every MR in every situation.
func exploreGate(t *testing.T, found explored) (asked int) {
	t.Helper()
	for name, o := range product(storedMasks(), providerReports(), circumstances(), cloudStates()) {
		mr := parent.Sum(o, parent.RoleManaged)
		kind := newWorld().Kind(o.GroupVersionKind())
		if strings.Contains(name, "not supported") {
			kind.Runtime = mask.RuntimeLegacy
		}
		g := gating.Managed{MR: mr, Kind: kind, Deadline: time.Hour, User: "gate",
			Observed: gating.Observed{Difference: external.Difference(o.Object), Comparable: external.Comparable(o.Object), Gone: strings.HasSuffix(name, "/gone")}}
		for what, xr := range holdersFor(g) {
			g.Holders = []identity.Holder{{State: mr, Kind: g.Kind}, {State: xr, Kind: newWorld().Kind(xr.GroupVersionKind),
				Whole: func() (identity.Whole, bool) { return identity.WholeOf(xr, []*parent.State{mr}), true }}}
			for _, g.Mode = range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
				for _, g.Now = range []time.Time{fx.Noon, fx.Noon.Add(31 * time.Minute), fx.Noon.Add(-5 * time.Minute)} {
					g.Policies = nil
					if g.Now.Before(fx.Noon) { // a window is closed
						g.Policies = closedWindow
					}
					g.Live = g.Mode == v1alpha1.ModeLog // as the controller does after Decision.Live
					asked++
					d := g.Decide()
					in := fmt.Sprintf("%s, %s, %s, %s", name, what, g.Mode, g.Now.Format(time.TimeOnly))
					holdsOfEvery(t, in, g, d)
					if d.Action != gating.ActionNone {
						found.note(taken{statusOf(mr), statusOf(decided(mr, d)), gatestates.MoverGate, d.Gate.Reason}, in)
					}
				}
			}
		}
	}
	return asked
}

// holdsOfEvery decision of the gate controller's.
func holdsOfEvery(t *testing.T, in string, g gating.Managed, d gating.Decision) {
	t.Helper()
	switch {
	case g.MR.Deleting() && d.Action != gating.ActionNone:
		t.Errorf("%s: touches what is being deleted: %s", in, d.Action)
	case d.Action == gating.ActionOpen && frozenAbove(g) &&
		(d.Gate.Reason == v1alpha1.GateReasonApproved || d.Gate.Reason == v1alpha1.GateReasonChanged && statusOf(g.MR) == gatestates.StatusHeld):
		t.Errorf("%s: opens what is frozen", in)
	case d.Action == gating.ActionOpen && slices.Contains(d.Gate.Verbs, v1alpha1.VerbDelete) != (d.Gate.DeleteAt != nil) &&
		d.Gate.Reason == v1alpha1.GateReasonApproved && slices.Contains(d.Gate.Verbs, v1alpha1.VerbDelete):
		t.Errorf("%s: open for Delete without its time: %+v", in, d.Gate)
	}
	author := mask.AuthorOf(g.MR.Annotations, g.MR.ManagementPolicies)
	for _, p := range d.Policies {
		if !mask.Gives(author, v1alpha1.Verb(p)) && !slices.Contains(author, p) {
			t.Errorf("%s: adds %s to %v", in, p, author)
		}
	}
	if s := statusOf(g.MR); (s == gatestates.StatusOpen || s == gatestates.StatusConfirming || s == gatestates.StatusDeleting) &&
		g.Mode == v1alpha1.ModeEnforce && d.Action == gating.ActionNone && d.Again <= 0 {
		t.Errorf("%s: stays open with no deadline: %s", in, d.Why)
	}
}

// frozenAbove reports whether a holder of approvals is frozen.
func frozenAbove(g gating.Managed) bool {
	return slices.ContainsFunc(g.Holders, func(h identity.Holder) bool { return approval.Parse(h.State.Annotations).Freeze != nil })
}

// requests are all requests about an MR.
func requests(o *unstructured.Unstructured) map[string]*Request {
	orphaned := fx.With(o, fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan))
	return map[string]*Request{
		"re-apply":               byCrossplane(Update, o),
		"author's again":         byCrossplane(Update, o, fx.Policies("*")),
		"author O":               byCrossplane(Update, o, fx.Policies(fx.Observe)),
		"author []":              byCrossplane(Update, o, fx.Policies()),
		"author O,C,U":           byCrossplane(Update, o, fx.Policies(fx.Observe, fx.Create, fx.Update)),
		"change":                 byCrossplane(Update, o, fx.Resize("l")),
		"change, author's again": byCrossplane(Update, o, fx.Resize("l"), fx.Policies("*")),
		"change by alice":        by(byCrossplane(Update, o, fx.Resize("l")), fx.Alice, "kubectl"),
		"late initialisation":    by(byCrossplane(Update, o, fx.Set("z", "spec", "forProvider", "zone")), fx.Provider, "provider"),
		"delete":                 by(byCrossplane(Delete, o), fx.Alice, ""),
		"delete, orphan":         by(byCrossplane(Delete, orphaned), fx.Alice, ""),
		"delete by GC":           by(byCrossplane(Delete, o), fx.Collector, ""),
	}
}

// exploreWebhook decides, as the webhook, about every MR and every request.
func exploreWebhook(t *testing.T, found explored) (asked int) {
	t.Helper()
	one := func(in string, w *memoryWorld, mode v1alpha1.Mode, before *parent.State, req *Request) {
		asked++
		d, err := (&Evaluator{World: w, Options: Options{DefaultMode: mode}}).Evaluate(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			return
		}
		var after *parent.State
		if req.Operation == Delete {
			after = parent.Sum(fx.With(req.OldObject, fx.Deleting), parent.RoleManaged)
		} else {
			after = parent.Sum(persisted(req, apply(req.Object, d)), parent.RoleManaged)
		}
		switch from, to := statusOf(before), statusOf(after); {
		case from == gatestates.StatusTerminating && to != gatestates.StatusTerminating:
			t.Errorf("%s: a terminating MR is %s", in, to)
		case d.Gate != nil:
			found.note(taken{from, to, gatestates.MoverWebhook, d.Gate.Reason}, in)
		case from != to:
			found.note(taken{from, to, gatestates.MoverWebhook, ""}, in)
		}
	}
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
		for _, settled := range []bool{true, false} {
			s := setting{}
			if !settled {
				s.xr = []fx.Mod{fx.Unsettled}
			}
			for name, o := range product(storedMasks(), providerReports()[1:3], circumstances()[:4], cloudStates()[:3]) {
				for what, req := range requests(o) {
					one(fmt.Sprintf("%s, %s, %s, settled %t", name, what, mode, settled), s.world(), mode, parent.Sum(o, parent.RoleManaged), req)
				}
			}
			for name, p := range map[string][]any{"*": {"*"}, "O": {fx.Observe}, "[]": {}} {
				one("create "+name, s.world(), mode, nil, byCrossplane(Create, fx.With(fx.Unmasked(), fx.Policies(p...))))
			}
		}
	}
	return asked
}

// exploreProvider reports every condition on every open MR.
func exploreProvider(found explored) {
	for name, o := range product(storedMasks()) {
		for _, a := range providerReports() {
			for _, b := range providerReports() {
				from, to := statusOf(parent.Sum(fx.With(o, a.mod), parent.RoleManaged)), statusOf(parent.Sum(fx.With(o, b.mod), parent.RoleManaged))
				if from != to {
					found.note(taken{from, to, gatestates.MoverProvider, ""}, name+", "+a.name+", "+b.name)
				}
			}
		}
	}
	found.note(taken{statusOf(parent.Sum(fx.With(fx.Unmasked(), fx.Deleting), parent.RoleManaged)), statusOf(nil),
		gatestates.MoverProvider, ""}, "its finalizer goes")
}

// exploreRuns decides about open gates of Workspaces, whose run an approval lets destroy.
func exploreRuns(t *testing.T, found explored) (asked int) {
	t.Helper()
	xr := parent.Sum(fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovals,
		`[{"kind":"Workspace","name":"*","relation":"External","verbs":["apply","destroy"],"mode":"once"}]`)), parent.RoleComposite)
	for name, o := range product(storedMasks(), providerReports()) {
		o.Object["apiVersion"], o.Object["kind"] = "tf.m.upbound.io/v1beta1", "Workspace"
		if !strings.HasPrefix(name, "open U/") {
			continue
		}
		mr := parent.Sum(o, parent.RoleManaged)
		g := gating.Managed{MR: mr, Kind: newWorld().Kind(o.GroupVersionKind()), Mode: v1alpha1.ModeEnforce, Deadline: time.Hour, User: "gate", Now: fx.Noon}
		g.Holders = []identity.Holder{{State: mr, Kind: g.Kind}, {State: xr, Kind: newWorld().Kind(xr.GroupVersionKind)}}
		for _, by := range []gatestates.Mover{gatestates.MoverGate, gatestates.MoverFunction} {
			g.ByFunction = by == gatestates.MoverFunction
			asked++
			d := g.Decide()
			if statusOf(mr) == gatestates.StatusConfirming { // it closes: nothing is left to destroy
				continue
			}
			if d.Action != gating.ActionOpen || !d.Gate.Destroys || slices.Contains(d.Policies, string(v1alpha1.VerbDelete)) {
				t.Errorf("%s: %s %+v", name, d.Action, d.Gate)
			}
			found.note(taken{statusOf(mr), statusOf(decided(mr, d)), by, d.Gate.Reason}, name)
		}
	}
	return asked
}

// The table holds exactly what the code does, in every situation there is.
func TestGateTransitions(t *testing.T) {
	found := explored{}
	asked := exploreGate(t, found)
	asked += exploreWebhook(t, found)
	asked += exploreFunction(t, found)
	asked += exploreRuns(t, found)
	exploreProvider(found)
	rows := map[taken]bool{}
	for _, r := range gatestates.Transitions() {
		for _, from := range r.From {
			for _, by := range r.By {
				k := taken{from, r.To, by, r.Reason}
				if rows[k] {
					t.Errorf("row given twice: %v", k)
				}
				rows[k] = true
				if _, ok := found[k]; !ok {
					t.Errorf("row never taken: %v", k)
				}
			}
		}
	}
	for k, in := range found {
		if !rows[k] {
			t.Errorf("no row for %v, taken by: %s", k, in)
		}
	}
	t.Logf("%d situations, %d transitions", asked, len(found))
}

// Every gate closes again, whatever users and providers do: from each
// state in which the provider may act, the deadline leads to one in which it may
// not, without any other actor.
func TestGateClosesAgain(t *testing.T) {
	for _, s := range []gatestates.Status{gatestates.StatusOpen, gatestates.StatusConfirming, gatestates.StatusDeleting} {
		closes := false
		for _, r := range gatestates.Transitions() {
			closes = closes || slices.Contains(r.By, gatestates.MoverGate) && r.Reason == v1alpha1.GateReasonExpired &&
				r.To == gatestates.StatusExpired && slices.Contains(r.From, s)
		}
		if !closes {
			t.Errorf("%s has no deadline", s)
		}
	}
}

// statusOf the gate of an MR; nil is one that does not exist.
func statusOf(mr *parent.State) gatestates.Status {
	if mr == nil {
		return gatestates.StatusAbsent
	}
	_, remembered := mask.ParseAuthor(mr.Annotations[v1alpha1.AnnotationKeyManagementPolicies])
	gate := mask.ParseGate(mr.Annotations)
	switch {
	case mr.Deleting():
		return gatestates.StatusTerminating
	case !remembered && mask.Maskable(mr.ManagementPolicies):
		return gatestates.StatusUnmasked
	case !remembered:
		return gatestates.StatusPaused
	case gate.State == v1alpha1.GateOpen && slices.Contains(gate.Verbs, v1alpha1.VerbDelete):
		return gatestates.StatusDeleting
	case gate.State == v1alpha1.GateOpen && reported(mr, gate):
		return gatestates.StatusConfirming
	case gate.State == v1alpha1.GateOpen:
		return gatestates.StatusOpen
	case gate.Reason == v1alpha1.GateReasonExpired:
		return gatestates.StatusExpired
	case gate.Reason == v1alpha1.GateReasonPending, gate.Reason == v1alpha1.GateReasonFrozen, gate.Reason == v1alpha1.GateReasonPaused:
		return gatestates.StatusHeld
	}
	return gatestates.StatusClosed
}

// reported: the provider has observed the opened generation.
func reported(mr *parent.State, gate v1alpha1.Gate) bool {
	c, _ := mr.Condition("Synced")
	return c.Status == metav1.ConditionTrue && c.ObservedGeneration > 0 && c.ObservedGeneration >= gate.Generation
}
