package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// recording world: an open Drift has a difference.
type recording struct {
	*memoryWorld
	digest change.Digest
}

func (w recording) Known(id string) Known {
	if w.digest == "" || id != w.digest.ID() {
		return Known{}
	}
	return Known{Stored: true, Digests: []change.Digest{w.digest}}
}

// putBackCase is a change of a child by kro, and what is decided about it.
type putBackCase struct {
	reason          string
	instance, child []fx.Mod
	// change sets the tier where nil.
	change []fx.Mod
	// user is kro where empty, op Update.
	user       subject.User
	op         Operation
	held       []fx.Mod // the change that was held before
	options    func(*Options)
	unrecorded bool
	settings   settings.Settings
	want       outcome.Reason
	unchanged  bool
	// passes are the paths that change.
	passes []string
}

var tier = fx.Set("gold", "data", "tier")

// TestPutAllBack: an update by kro that is refused as drift passes with all that is stored, where the adapter can write that and the policy
// does not refuse (KR-18-06). What is reported nowhere stays refused.
func TestPutAllBack(t *testing.T) {
	message := fx.Set("bye", "data", "message")
	unsettled := fx.Unannotate(v1alpha1.AnnotationKeySettledGeneration)
	const id = "kro.run/instance-id"
	for name, tc := range map[string]putBackCase{
		"Drift": {reason: "an edit of the graph", want: outcome.ReasonNoChange, unchanged: true},
		"Admit": {reason: "which is about changes with two causes", settings: settings.Settings{MixedCauses: v1alpha1.MixedCausesAdmit},
			want: outcome.ReasonNoChange, unchanged: true},
		"Refuse":     {reason: "the policy refuses", settings: settings.Settings{MixedCauses: v1alpha1.MixedCausesRefuse}, want: outcome.ReasonDrift},
		"Unrecorded": {reason: "no Drift has it yet", unrecorded: true, want: outcome.ReasonDrift},
		"Elsewhere":  {reason: "nothing writes what is stored", options: func(o *Options) { o.Separates = false }, want: outcome.ReasonDrift},
		"Rejected": {reason: "a rejection is reported nowhere", instance: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)},
			want: outcome.ReasonRejected},
		"Frozen": {reason: "so is a freeze", instance: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"hans"}`)}, want: outcome.ReasonFrozen},
		"Create": {reason: "there is nothing to put back", op: Create, want: outcome.ReasonDrift},
		"Delete": {reason: "nor here", op: Delete, want: outcome.ReasonDrift},
		"Forger": {reason: "another user with kro's field manager", user: fx.Alice, settings: settings.Settings{RequireApproval: true}, want: outcome.ReasonDrift},
		"Cleared": {reason: "the stored object would stay without its parent", child: []fx.Mod{label(id, "")},
			change: []fx.Mod{tier, member}, want: outcome.ReasonDrift},
		"Log": {reason: "nothing is held", options: func(o *Options) { o.DefaultMode = v1alpha1.ModeLog }, want: outcome.ReasonDriftLogged,
			passes: []string{"data.tier"}},
		"Intent": {reason: "the user's own change", instance: []fx.Mod{unsettled}, change: []fx.Mod{message}, want: outcome.ReasonExpected,
			passes: []string{"data.message"}},
		"HeldBefore": {reason: "what was held stays so while an intent is carried out", instance: []fx.Mod{unsettled}, held: []fx.Mod{tier},
			want: outcome.ReasonNoChange, unchanged: true},
		"Mixed": {reason: "and the user's own change passes", instance: []fx.Mod{unsettled}, held: []fx.Mod{tier}, change: []fx.Mod{tier, message},
			want: outcome.ReasonExpected, passes: []string{"data.message"}},
		"Replaced": {reason: "the graph has another value", held: []fx.Mod{tier}, change: []fx.Mod{fx.Set("platinum", "data", "tier")},
			want: outcome.ReasonNoChange, unchanged: true},
		"MixedRefuse": {reason: "the policy refuses", instance: []fx.Mod{unsettled}, held: []fx.Mod{tier}, change: []fx.Mod{tier, message},
			settings: settings.Settings{MixedCauses: v1alpha1.MixedCausesRefuse}, want: outcome.ReasonDrift},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			tc.complete()
			tc.check(t, fx.With(i, tc.instance...), fx.With(c, tc.child...))
		})
	}
}

// complete sets what the case leaves out.
func (tc *putBackCase) complete() {
	if tc.change == nil {
		tc.change = []fx.Mod{tier}
	}
	if tc.op == "" {
		tc.op = Update
	}
	if tc.op == Delete {
		tc.change = nil
	}
	if tc.user.Name == "" {
		tc.user = kro
	}
}

// request of the case's operation on the child, with other mods than those of its change.
func (tc *putBackCase) request(child *unstructured.Unstructured, mods ...fx.Mod) *Request {
	r := byCrossplane(tc.op, child, mods...)
	if tc.op == Delete {
		return by(r, tc.user, "")
	}
	return by(r, tc.user, subject.ManagerApplySet)
}

// decide about a request, again once an open Drift has the difference.
func (tc *putBackCase) decide(t *testing.T, instance *unstructured.Unstructured, req *Request) Decision {
	t.Helper()
	options := stubs{Options: remembering()}
	if tc.options != nil {
		tc.options(&options.Options)
	}
	options.settings = func(parent.Ref, map[string]string) settings.Settings { return tc.settings }
	w := newWorld()
	w.add(instance)
	d, err := options.of(w).Evaluate(t.Context(), req)
	require.NoError(t, err)
	if d.Allowed || tc.unrecorded {
		return d
	}
	d, err = options.of(recording{w, d.Digest}).Evaluate(t.Context(), req)
	require.NoError(t, err)
	return d
}

// heldBefore is what was held of an earlier change while the instance was settled.
func (tc *putBackCase) heldBefore(t *testing.T, child *unstructured.Unstructured) *Held {
	t.Helper()
	settled, _ := instanceAndChild()
	d := tc.decide(t, settled, by(tc.request(child, tc.held...), kro, subject.ManagerApplySet))
	if d.Held != nil {
		return d.Held.Drift
	}
	return d.Drift
}

// check what is decided about the case, and what it leaves of the child.
func (tc *putBackCase) check(t *testing.T, instance, child *unstructured.Unstructured) {
	t.Helper()
	req := tc.request(child, tc.change...)
	if tc.held != nil {
		req.Held = tc.heldBefore(t, child)
		require.NotNil(t, req.Held)
	}
	d := tc.decide(t, instance, req)
	require.Equal(t, tc.want, d.Reason, "%s: %s", tc.reason, d.Message)
	assert.Equal(t, tc.unchanged, d.Unchanged, tc.reason)
	if tc.unchanged {
		require.NotNil(t, d.Held)
		assert.Equal(t, outcome.ReasonDrift, d.Held.Reason)
		assert.Equal(t, req.OldObject, d.Rest, "all that is stored")
		assert.Empty(t, d.Annotations, "of ours, too")
		assert.True(t, d.Held.Report.Separated)
		assert.NotEmpty(t, d.Held.Report.Held.Drift)
		assert.Contains(t, strings.Join(d.Warnings, "\n"), "the stored values are kept: Drift: changing data.tier of ConfigMap team/db")
	}
	if d.Allowed && tc.op == Update {
		after := req.Object
		if d.Held != nil {
			after = d.Rest
		}
		assert.ElementsMatch(t, tc.passes, change.Paths(change.Diff(child.Object, after.Object, false)))
	}
}
