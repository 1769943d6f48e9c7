package admission

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/authorship"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestGraphCause: the revision of its graph is the cause of an unrequested change below an instance, with its author (KR-18-05).
func TestGraphCause(t *testing.T) {
	const revision = "ResourceGraphDefinition shop revision 2"
	graph := v1alpha1.HopCause{Kind: v1alpha1.CauseGraph, Name: "shop-r00002"}
	byAnna, claimed := graph, graph
	byAnna.Author, claimed.Author, claimed.Claimed = "anna", "anna", true
	edit := v1alpha1.HopCause{Kind: v1alpha1.CauseEdit, Name: "hans"}
	built := allowance.Build{Fingerprint: "new", Graph: allowance.GraphRevision{Of: "shop", Name: "shop-r00002", Number: 2}}
	for name, tc := range map[string]struct {
		reason string
		build  allowance.Build
		op     Operation
		child  []fx.Mod
		author v1alpha1.HopCause
		want   []v1alpha1.HopCause
		text   string
	}{
		"Update": {reason: "a field of a template", op: Update, author: byAnna, want: []v1alpha1.HopCause{byAnna}, text: revision + ", changed by anna"},
		"Create": {reason: "a new node", op: Create, author: byAnna, want: []v1alpha1.HopCause{byAnna}, text: revision + ", changed by anna"},
		"Delete": {reason: "a node is dropped", op: Delete, author: byAnna, want: []v1alpha1.HopCause{byAnna}, text: revision + ", changed by anna"},
		"Claim": {reason: "the graph is not guarded", op: Update, author: claimed, want: []v1alpha1.HopCause{claimed},
			text: revision + ", changed by anna (a claim)"},
		"Unknown": {reason: "no record of the author", op: Update, author: graph, want: []v1alpha1.HopCause{graph}, text: revision},
		"Reverts": {reason: "hans had changed the field himself", op: Update, author: byAnna, want: []v1alpha1.HopCause{edit},
			child: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyTrace, `[{"kind":"ConfigMap","name":"db","user":"hans"}]`), fx.Set([]any{map[string]any{
				"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T12:00:00Z",
				"fieldsV1": map[string]any{"f:data": map[string]any{"f:message": map[string]any{}}}}}, "metadata", "managedFields")},
			text: revision + ", changed by anna, which reverts an edit by hans"},
		"SameRevision": {reason: "the revision changed the child before: this is kro's own", op: Update, author: byAnna,
			child: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "new")},
			want:  []v1alpha1.HopCause{{Kind: v1alpha1.CauseController, Name: kro.Name}}, text: "controller " + kro.Name},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			w := newWorld()
			w.add(i)
			opts := enforced()
			e := stubs{Options: opts, author: func(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
				if c.Kind == v1alpha1.CauseGraph {
					assert.Equal(t, graph, c)
					return tc.author, nil
				}
				return c, nil
			}}.of(builtWorld{w, built})
			req := by(byCrossplane(tc.op, fx.With(c, tc.child...), fx.Set("other", "data", "message")), kro, subject.ManagerApplySet)
			d, err := e.Evaluate(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, outcome.ReasonDrift, d.Reason, "%s: %s", tc.reason, d.Message)
			require.NotNil(t, d.Report)
			assert.Equal(t, tc.text, d.Report.Drift.Cause, tc.reason)
			assert.Equal(t, tc.want, d.Report.Drift.Causes, tc.reason)
			if name == "Update" {
				assert.Contains(t, d.Message, "settled at generation 1 ("+revision+", changed by anna)")
			}
		})
	}
}

// graphWorld is a world in which a graph can be read.
type graphWorld struct {
	builtWorld
	graph map[string]any
	err   error
}

func (w graphWorld) Object(_ context.Context, ref parent.Ref) (map[string]any, error) {
	if ref.GroupVersionKind != authorship.GraphKind || ref.Name != "shop" {
		return nil, nil
	}
	return w.graph, w.err
}

// TestGraphLines: a refusal names the lines of the graph that have what was changed (KR-18-10).
func TestGraphLines(t *testing.T) {
	graph := func(resource string) map[string]any {
		return fx.Object(`{kind: ResourceGraphDefinition, spec: {resources: [` + resource + `]}}`).Object
	}
	const config = `{id: config, includeWhen: ["${schema.spec.on}"], template: {data: {message: "${schema.spec.message}"}}}`
	policies := policySet(t, `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {apiGroup: kro.run, kind: Shop}}}`)
	for name, tc := range map[string]struct {
		reason   string
		resource string
		err      error
		policies *allowance.Set
		op       Operation
		intent   bool
		kind     string
		code     outcome.Reason
		want     string
	}{
		"Drift": {reason: "an edit of the graph", resource: config, op: Update, code: outcome.ReasonDrift,
			want: "; in ResourceGraphDefinition shop: resources[0].template.data.message: ${schema.spec.message}"},
		"Missing": {reason: "a change that no rule explains", resource: config, op: Update, intent: true, policies: policies, code: outcome.ReasonAllowanceMissing,
			want: "covers data.message (AllowancePolicy p); in ResourceGraphDefinition shop: resources[0].template.data.message: ${schema.spec.message}"},
		"Delete": {reason: "a condition", resource: config, op: Delete, intent: true, policies: policies, code: outcome.ReasonAllowanceMissing,
			want: `covers delete (AllowancePolicy p); in ResourceGraphDefinition shop: resources[0].includeWhen[0]: ${schema.spec.on}`},
		"Dropped": {reason: "the graph has it no more", resource: `{id: other}`, op: Delete, code: outcome.ReasonDrift,
			want: "; in ResourceGraphDefinition shop: it has no resource config"},
		"Secret": {reason: "an expression without its literals", resource: `{id: config, template: {data: {message: "hunter2-${schema.spec.message}"}}}`,
			op: Update, kind: "Secret", code: outcome.ReasonDrift,
			want: "; in ResourceGraphDefinition shop: resources[0].template.data.message: …${schema.spec.message}"},
		"Unread": {reason: "no reason to decide otherwise", resource: config, op: Update, err: assert.AnError, code: outcome.ReasonDrift},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			if tc.intent {
				i = fx.With(i, fx.Set(int64(2), "metadata", "generation"))
			}
			if tc.kind != "" {
				c.SetKind(tc.kind)
				i = fx.With(i, fx.Annotate("applyset.kubernetes.io/contains-group-kinds", "Secret"))
			}
			w := newWorld()
			w.add(i)
			req := byCrossplane(tc.op, c)
			if tc.op == Update {
				req = byCrossplane(tc.op, c, fx.Set("other", "data", "message"))
			}
			e := &Evaluator{World: graphWorld{builtWorld{w, allowance.Build{}}, graph(tc.resource), tc.err}, Options: enforced(), Policies: tc.policies}
			d, err := e.Evaluate(t.Context(), by(req, kro, subject.ManagerApplySet))
			require.NoError(t, err)
			require.Equal(t, tc.code, d.Reason, "%s: %s", tc.reason, d.Message)
			if tc.want == "" {
				assert.NotContains(t, d.Message, "in ResourceGraphDefinition", tc.reason)
				return
			}
			assert.Contains(t, d.Message, tc.want, tc.reason)
			assert.NotContains(t, d.Message, "hunter2", tc.reason)
		})
	}
}

// unbuiltWorld is a world in which the kind of an instance has a graph, whose revision cannot be read.
type unbuiltWorld struct{ *memoryWorld }

func (unbuiltWorld) Build(context.Context, *Request, *parent.State) (allowance.Build, error) {
	return allowance.Build{Unread: true}, assert.AnError
}

// TestGraphUnread: a revision that cannot be read is reported, and the change is held all the same (KR-18-05).
func TestGraphUnread(t *testing.T) {
	i, c := instanceAndChild()
	w := newWorld()
	w.add(i)
	e := &Evaluator{World: unbuiltWorld{w}, Options: enforced()}
	d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, c, fx.Set("other", "data", "message")), kro, subject.ManagerApplySet))
	require.NoError(t, err)
	assert.Equal(t, outcome.ReasonDrift, d.Reason)
	assert.Contains(t, d.Warnings, "cannot determine the build of the controller: "+assert.AnError.Error())
	assert.Equal(t, "controller "+kro.Name, d.Report.Drift.Cause)
}

// TestGraphAuthors: the author of the revision of a graph may not vote, known or not (KR-14-05).
func TestGraphAuthors(t *testing.T) {
	graph := allowance.GraphRevision{Of: "shop", Name: "shop-r00002", Number: 2}
	for name, tc := range map[string]struct {
		reason string
		world  func(*memoryWorld) World
		want   string
	}{
		"Known": {reason: "also where kro's images are not", want: "not hans or anna",
			world: func(w *memoryWorld) World { return builtWorld{w, allowance.Build{Graph: graph}} }},
		"Same": {reason: "and where the revision seems to have changed the child before", want: "not hans or anna",
			world: func(w *memoryWorld) World { return builtWorld{w, allowance.Build{Fingerprint: "b", Graph: graph}} }},
		"Unread": {reason: "the revision cannot be read", want: "authors of the change cannot be read: those of the revisions that make it",
			world: func(w *memoryWorld) World { return unbuiltWorld{w} }},
		"Revision": {reason: "a kro that has no revisions", want: "one author is unknown",
			world: func(w *memoryWorld) World { return builtWorld{w, allowance.Build{Fingerprint: "b"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			w := newWorld()
			w.add(fx.With(i, fx.Annotate(v1alpha1.AnnotationKeyTrace,
				`[{"apiVersion":"kro.run/v1alpha1","kind":"Shop","name":"db","namespace":"team","generation":1,"user":"hans"}]`)))
			e := stubs{Options: enforced(), author: func(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
				if c.Kind == v1alpha1.CauseGraph {
					c.Author = "anna"
				}
				return c, nil
			}}.of(tc.world(w))
			e.Policies = ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationControllerChild}},
				Require: []v1alpha1.RequiredVotes{{Count: 1, NotAuthors: true, UnknownAuthors: v1alpha1.UnknownAuthorsRefuse}}})
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, fx.With(c, fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b")),
				fx.Set("other", "data", "message")), kro, subject.ManagerApplySet))
			require.NoError(t, err)
			require.Equal(t, outcome.ReasonDrift, d.Reason, d.Message)
			assert.Contains(t, d.Message, tc.want, tc.reason)
		})
	}
}
