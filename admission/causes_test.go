package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/external"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// builtWorld is a world in which builds are known.
type builtWorld struct {
	*memoryWorld
	build allowance.Build
}

func (w builtWorld) Build(context.Context, *Request, *parent.State) (allowance.Build, error) {
	return w.build, nil
}

var (
	// noRevision leaves a composite without a Composition.
	noRevision = fx.Set(nil, "spec", "compositionRevisionRef")

	revisionCause   = v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "db-rev-2", Author: "alice"}
	controllerCause = v1alpha1.HopCause{Kind: v1alpha1.CauseController, Name: fx.Crossplane.Name}
)

// unrequested is a change, and the hop that it leaves.
type unrequested struct {
	reason      string
	xr          []fx.Mod
	opts        stubs
	build       allowance.Build
	req         *Request
	hops        int
	unrequested bool
	passed      v1alpha1.Passed
	causes      []v1alpha1.HopCause
	// reported is the cause in the report; empty for any.
	reported string
}

// testUnrequested checks the hops of changes that pass, and their causes.
func testUnrequested(t *testing.T, cases map[string]unrequested) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.opts.author = func(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
				switch c.Kind {
				case v1alpha1.CauseComposition:
					c.Author = "alice"
				case v1alpha1.CauseFunction:
					c.Manager = "kubectl (Apply)"
				}
				return c, nil
			}
			e := tc.opts.of(builtWorld{setting{xr: tc.xr}.world(), tc.build})
			d, err := e.Evaluate(t.Context(), tc.req)
			if err != nil || !d.Allowed {
				t.Fatalf("%s: %v: %+v: %s", tc.reason, err, outcomeOf(d), d.Message)
			}
			if tc.reported != "" && (d.Report == nil || d.Report.Drift.Cause != tc.reported) {
				t.Errorf("%s: the report has the cause %+v", tc.reason, d.Report)
			}
			stored := trace.Of(apply(tc.req.Object, d).GetAnnotations())
			own := stored.Own()
			if len(stored) != tc.hops || own.Unrequested != tc.unrequested || own.Passed != tc.passed {
				t.Fatalf("%s: got %s", tc.reason, stored)
			}
			if diff := cmp.Diff(tc.causes, own.Causes); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			recorded := apply(tc.req.Object, d).GetAnnotations()[v1alpha1.AnnotationKeyFingerprint]
			if tc.build.Controller != "" && recorded != tc.build.Fingerprint+"."+tc.build.Controller {
				t.Errorf("%s: recorded %q", tc.reason, recorded)
			}
		})
	}
}

// TestUnrequested covers KR-07-09, KR-07-10 and KR-07-11: what passes as drift is its own origin, with its causes.
func TestUnrequested(t *testing.T) {
	approve := fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)
	testUnrequested(t, map[string]unrequested{
		"Log": {reason: "no intent explains what mode log lets pass", req: resizing(), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{revisionCause}},
		"Controller": {reason: "no revision, and an unknown build", xr: []fx.Mod{noRevision}, req: resizing(), hops: 1, unrequested: true,
			passed: v1alpha1.PassedLog, causes: []v1alpha1.HopCause{controllerCause}},
		"Approved": {reason: "an approval does not make it an intent", xr: []fx.Mod{approve}, opts: stubs{Options: enforced()}, req: resizing(), hops: 1,
			unrequested: true, passed: v1alpha1.PassedApproval, causes: []v1alpha1.HopCause{revisionCause}},
		"Expected":  {reason: "an intent explains it", xr: []fx.Mod{fx.Unsettled}, req: resizing(), hops: 2},
		"NewOrigin": {reason: "a user's change has its user", req: by(resizing(), fx.Alice, "kubectl"), hops: 1},
		"OtherActor": {reason: "by another actor, whose changes count as drift", req: by(resizing(), fx.Alice, "kubectl"), hops: 1,
			opts:        under(func(s *v1alpha1.KausalitySpec) { s.OtherActors = v1alpha1.OtherActorsRequireApproval }),
			unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseUser, Name: fx.Alice.Name}}},
	})
}

// TestUnrequestedByBuild covers KR-07-10: the functions and the image of a build are causes where the last change had another build.
func TestUnrequestedByBuild(t *testing.T) {
	built := allowance.Build{Fingerprint: "new", Functions: []string{"fn-1"}, Images: []string{"crossplane@sha256:1"}}
	composed := func(images string) allowance.Build {
		out := built
		out.Controller = images
		return out
	}
	holding := func(r *Request) *Request {
		r.Held = &Held{Values: map[string]string{"spec.forProvider.region": `"us"`}}
		return r
	}
	function := v1alpha1.HopCause{Kind: v1alpha1.CauseFunction, Name: "fn-1", Manager: "kubectl (Apply)"}
	running := "controller " + fx.Crossplane.Name + " running " + built.Images[0]
	testUnrequested(t, map[string]unrequested{
		"Several": {reason: "a revision and a function cannot be distinguished", build: built, req: resizing(), hops: 1,
			unrequested: true, passed: v1alpha1.PassedLog, causes: []v1alpha1.HopCause{revisionCause, function}},
		"SameBuild": {reason: "the revision changed the child before, and is not the cause", build: built,
			req: resizing(fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "new")), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{controllerCause}},
		"SameBuildHeld": {reason: "the revision may have changed the rest of the child before: a part is held", build: built,
			req: holding(resizing(fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "new"))), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{revisionCause, function}},
		"OtherBuild": {reason: "another build than that of the last change", build: built,
			req: resizing(fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "old")), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{revisionCause, function}},
		"ImageToo": {reason: "the controller runs another image as well, and none of them is the only cause", build: composed("i2"),
			req: resizing(fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "old.i1")), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes:   []v1alpha1.HopCause{revisionCause, {Kind: v1alpha1.CauseImage, Name: built.Images[0]}, function},
			reported: "composition revision db-rev-2, and " + running},
		"SameImage": {reason: "it runs the image of the last change", build: composed("i1"),
			req: resizing(fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "old.i1")), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{revisionCause, function}},
		"ImageUnknown": {reason: "which image it ran was not recorded", build: composed("i2"),
			req: resizing(fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "old")), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{revisionCause, function}},
		"SameBuildRecorded": {reason: "all of it is as it was", build: composed("i1"),
			req: resizing(fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "new.i1")), hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{controllerCause}},
		"Image": { // KR-10-13
			xr: []fx.Mod{noRevision}, reason: "a controller without a Composition",
			build: allowance.Build{Fingerprint: "new", Images: built.Images}, req: resizing(), hops: 1,
			unrequested: true, passed: v1alpha1.PassedLog, causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseImage, Name: built.Images[0]}},
			reported: running},
		"Many": {xr: []fx.Mod{noRevision}, reason: "the number of causes is bounded",
			build: allowance.Build{Fingerprint: "new", Images: []string{"a", "b", "c", "d", "e"}}, req: resizing(),
			hops: 1, unrequested: true, passed: v1alpha1.PassedLog, causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseImage, Name: "a"},
				{Kind: v1alpha1.CauseImage, Name: "b"}, {Kind: v1alpha1.CauseImage, Name: "c"}, {Kind: v1alpha1.CauseImage, Name: "d"}}},
		"Long": {xr: []fx.Mod{noRevision}, reason: "and so is a name",
			build: allowance.Build{Fingerprint: "new", Images: []string{strings.Repeat("ä", 200)}}, req: resizing(),
			hops: 1, unrequested: true, passed: v1alpha1.PassedLog,
			causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseImage, Name: strings.Repeat("ä", 126)}}},
	})
}

// TestReverted covers KR-07-14: a change that reverts a user's edit has that as its cause; whose votes count does not depend on it.
func TestReverted(t *testing.T) {
	edited := func(fields ...string) fx.Mod {
		owned := map[string]any{}
		for _, f := range fields {
			owned["f:"+f] = map[string]any{}
		}
		return fx.Set([]any{map[string]any{"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T12:00:00Z",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:forProvider": owned}}}}, "metadata", "managedFields")
	}
	byHans := fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{fx.Hop(fx.Instance(), 4, "hans")}.String())
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "db-rev-2"}
	edit := v1alpha1.HopCause{Kind: v1alpha1.CauseEdit, Name: "hans"}
	for name, tc := range map[string]struct {
		reason string
		mods   []fx.Mod
		change []fx.Mod
		want   []v1alpha1.HopCause
		text   string
	}{
		"Unedited": {reason: "the revision alone", change: []fx.Mod{fx.Resize("l")}, want: []v1alpha1.HopCause{revision}, text: "composition revision db-rev-2"},
		"Edit": {reason: "it reverts the edit alone", mods: []fx.Mod{byHans, edited("size")}, change: []fx.Mod{fx.Resize("l")},
			want: []v1alpha1.HopCause{edit}, text: "composition revision db-rev-2, which reverts an edit by hans"},
		"Both": {reason: "and changes something else", mods: []fx.Mod{byHans, edited("size")},
			change: []fx.Mod{fx.Resize("l"), fx.Set("us", "spec", "forProvider", "region")}, want: []v1alpha1.HopCause{edit, revision},
			text: "composition revision db-rev-2, which reverts an edit by hans"},
		"Other": {reason: "the edit is of another field", mods: []fx.Mod{byHans, edited("region")}, change: []fx.Mod{fx.Resize("l")},
			want: []v1alpha1.HopCause{revision}, text: "composition revision db-rev-2"},
	} {
		t.Run(name, func(t *testing.T) {
			req := byCrossplane(Update, fx.With(fx.Instance(), tc.mods...), tc.change...)
			d := decide(t, setting{}.world(), enforced(), req)
			if d.Allowed || d.Report == nil {
				t.Fatalf("%s: %+v", tc.reason, outcomeOf(d))
			}
			if diff := cmp.Diff(tc.want, d.Report.Drift.Causes); diff != "" || d.Report.Drift.Cause != tc.text {
				t.Errorf("%s: %q, -want, +got:\n%s", tc.reason, d.Report.Drift.Cause, diff)
			}
		})
	}
}

// Without a webhook the parent's intent is recorded in the trace alone, and precedes a hop that it did not
// initiate (KR-07-09).
func TestUnrequestedKeepsIntent(t *testing.T) {
	d := decide(t, setting{}.world(), Options{KeepIntent: true}, byCrossplane(Update, fx.Instance(), fx.Resize("l")))
	if len(d.Trace) != 2 || !d.Trace.Own().Unrequested {
		t.Fatalf("got %s", d.Trace)
	}
	below := trace.Extend(d.Trace, parent.RefOf(fx.Instance()), v1alpha1.Hop{Kind: "Disk", Name: "disk"}, "")
	for _, tr := range []trace.Trace{d.Trace, below} {
		if got := tr.Origin(); got.Kind != "Instance" || got.User != fx.Crossplane.Name {
			t.Errorf("origin of %s: %+v", tr, got)
		}
		if got := external.ProvenanceOf(tr, "team-a"); got.Initiator != fx.Crossplane.Name {
			t.Errorf("provenance: %+v", got)
		}
	}
}

// TestLateAuthors: an API server that does not answer is not waited for once for each cause (KR-07-11).
func TestLateAuthors(t *testing.T) {
	rules := ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationControllerChild}},
		Require: []v1alpha1.RequiredVotes{{Count: 1, NotAuthors: true}}})
	for name, tc := range map[string]struct {
		err      error
		policies Policies
		reads    int
	}{
		"Late":      {err: context.DeadlineExceeded, reads: 1},
		"Rules":     {err: context.DeadlineExceeded, policies: rules, reads: 1}, // no vote counts then
		"Forbidden": {err: errors.New("forbidden"), reads: 3},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			s := stubs{Options: enforced(), author: func(context.Context, v1alpha1.HopCause) (v1alpha1.HopCause, error) {
				reads++
				return v1alpha1.HopCause{}, fmt.Errorf("cannot read it: %w", tc.err)
			}}
			w := builtWorld{setting{}.world(), allowance.Build{Fingerprint: "f2", Functions: []string{"a-1", "b-1"}}}
			e := s.of(w)
			e.Policies = tc.policies
			got, err := e.Evaluate(t.Context(), byCrossplane(Update, fx.Instance(), fx.Resize("xl")))
			require.NoError(t, err)
			assert.False(t, got.Allowed)
			assert.Equal(t, tc.reads, reads)
			assert.Contains(t, got.Message, "composition revision db-rev-2", "it is named without its author")
		})
	}
}
