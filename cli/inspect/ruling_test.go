package inspect

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

const driftPath = "kausality.io/v1alpha1/namespaces/team/drifts/00000000000000aa"

// pend puts an open Drift of the database on the server.
func (s *storedServer) pend(t *testing.T) {
	t.Helper()
	s.put(t, driftPath, `
apiVersion: kausality.io/v1alpha1
kind: Drift
metadata: {name: 00000000000000aa, namespace: team, uid: drift}
spec: {id: 00000000000000aa, relation: ControllerChild, operation: UPDATE, difference: [{path: spec.a, verb: Mutate}],
  parent: {apiVersion: example.org/v1, kind: Shop, namespace: team, name: orders, uid: shop},
  child: {apiVersion: cloud.example.org/v1, kind: Database, namespace: team, name: orders-db, uid: db}}
status: {phase: Detected}`)
}

// hold lets the function hold a change of the database, for a reason.
func (s *storedServer) hold(t *testing.T, reason string) {
	t.Helper()
	raw, err := json.Marshal(v1alpha1.Held{Reason: reason, Operation: "UPDATE", Paths: []string{"spec.b"}})
	require.NoError(t, err)
	s.annotate(databasePath, v1alpha1.AnnotationKeyHeld, string(raw))
	s.conditions(map[string]any{"type": v1alpha1.ConditionKausality, "status": "False", "reason": reason, "lastTransitionTime": "2026-01-02T10:00:00Z"})
}

// conditions are added to those of the composite.
func (s *storedServer) conditions(more ...any) {
	list, _, _ := unstructured.NestedSlice(s.objects[shopPath].Object, "status", "conditions")
	_ = unstructured.SetNestedSlice(s.objects[shopPath].Object, append(list, more...), "status", "conditions")
}

// TestRuling covers KR-12-30: what was decided about a pending change is shown with it, and a rejected one is not offered.
func TestRuling(t *testing.T) {
	for name, tc := range map[string]struct {
		key, value, reason, by, until string
	}{
		"Rejected": {key: v1alpha1.AnnotationKeyRejections, value: `[{"kind":"Database","name":"orders-db","reason":"not now"}]`, reason: "not now"},
		"Another":  {key: v1alpha1.AnnotationKeyRejections, value: `[{"kind":"Database","name":"other","reason":"not now"}]`},
		"Over":     {key: v1alpha1.AnnotationKeyRejections, value: `[{"kind":"Database","name":"orders-db","reason":"not now","generation":3}]`},
		"Frozen": {key: v1alpha1.AnnotationKeyFreeze, value: `{"user":"alice","message":"audit","expiry":"2026-01-03T12:00:00Z"}`,
			by: "Shop team/orders was frozen by alice (audit) until 2026-01-03T12:00:00Z"},
		"Snoozed": {key: v1alpha1.AnnotationKeySnooze, value: `{"user":"alice","expiry":"2026-01-03T12:00:00Z"}`, until: "2026-01-03T12:00:00Z"},
		"Nothing": {key: "x", value: "y"},
	} {
		t.Run(name, func(t *testing.T) {
			i, s := inspectorOf(t, func(s *storedServer) {
				s.pend(t)
				s.annotate(shopPath, tc.key, tc.value)
			})
			e, err := i.Explain(t.Context(), s.objects[databasePath], nil)
			require.NoError(t, err)
			require.Len(t, e.Drifts, 1)
			got := e.Rulings["00000000000000aa"]
			assert.Equal(t, tc.reason != "", got.Rejected != nil)
			assert.Equal(t, tc.by != "", got.Frozen != nil)
			assert.Equal(t, tc.until != "", got.Snoozed != nil)
			switch {
			case got.Rejected != nil:
				assert.Equal(t, tc.reason, got.Rejected.Reason)
			case got.Frozen != nil:
				assert.Equal(t, tc.by, got.Frozen.Why())
			}
		})
	}
}

// TestRulingsOfKindsThatAreGone covers KR-12-30: changes whose parents' kind is served no longer are listed, and that it is not known what was decided about
// them.
func TestRulingsOfKindsThatAreGone(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) {
		s.pend(t)
		s.annotate(shopPath, v1alpha1.AnnotationKeyFreeze, `{"user":"alice","message":"audit"}`)
	})
	read, err := DriftOf(s.objects[driftPath])
	require.NoError(t, err)
	gone := read.DeepCopy()
	gone.Name, gone.Spec.Parent.Kind = "00000000000000bb", "Gone"
	another := gone.DeepCopy()
	another.Name, another.Spec.Parent.Name = "00000000000000cc", "another"
	all := i.Rulings()
	of, err := all.Of(t.Context(), []v1alpha1.Drift{*gone, *another, *read})
	require.NoError(t, err)
	assert.Equal(t, channel.Ruling{}, of(gone))
	assert.NotNil(t, of(read).Frozen, "the other parents are read")
	require.Len(t, all.Unread, 1, "once for the kind")
	assert.ErrorContains(t, all.Unread[0], "Gone")
}

// TestBehindFreeze covers KR-12-30: what the function holds while the composite is frozen is listed, and the freeze with it.
func TestBehindFreeze(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) {
		s.hold(t, "Frozen")
		s.annotate(shopPath, v1alpha1.AnnotationKeyFreeze, `{"user":"alice","message":"audit"}`)
	})
	for _, path := range []string{shopPath, databasePath} {
		w, err := i.WaitingAbout(t.Context(), s.objects[path])
		require.NoError(t, err)
		assert.Empty(t, w.Drifts)
		require.Len(t, w.Behind, 1, path)
		assert.Equal(t, "Frozen", w.Behind[0].Reason)
		assert.Equal(t, "spec.b", w.Behind[0].Difference[0].Path)
		f, err := i.FreezeAbout(t.Context(), s.objects[path])
		require.NoError(t, err)
		require.NotNil(t, f, path)
		assert.Equal(t, "alice", f.User)
		e, err := i.Explain(t.Context(), s.objects[path], nil)
		require.NoError(t, err)
		assert.Len(t, e.Behind, 1, path)
	}
}

// TestWaitingUnread covers KR-12-30: where an object below a composite may not be read, what is known is returned, with the error.
func TestWaitingUnread(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) {
		s.pend(t)
		s.hold(t, "Drift")
		s.forbidden = databasePath
	})
	w, err := i.WaitingAbout(t.Context(), s.objects[shopPath])
	require.NoError(t, err)
	assert.Len(t, w.Drifts, 1, "the Drift is listed")
	require.Len(t, w.Unread, 1)
	assert.ErrorContains(t, w.Unread[0], "cannot read Database team/orders-db")
	_, err = i.About(t.Context(), s.objects[shopPath])
	require.Error(t, err, "a decision about all of it needs all of it")
}

// TestDescendants covers KR-12-31: the trace of a parent leads to its children.
func TestDescendants(t *testing.T) {
	i, s := inspectorOf(t, nil)
	c, err := i.Chain(t.Context(), s.objects[shopPath])
	require.NoError(t, err)
	require.Len(t, c.Children, 1)
	assert.Equal(t, "orders-db", c.Children[0].Object.Name)
	require.NotNil(t, c.Children[0].Hop)
	assert.Equal(t, "crossplane", c.Children[0].Hop.User)
	assert.Equal(t, "team", c.Children[0].Hop.Namespace)

	refs := []any{}
	for range 2 * maxDescendants {
		refs = append(refs, map[string]any{"apiVersion": "cloud.example.org/v1", "kind": "Database", "name": "gone"})
	}
	require.NoError(t, unstructured.SetNestedSlice(s.objects[shopPath].Object, refs, "spec", "crossplane", "resourceRefs"))
	c, err = i.Chain(t.Context(), s.objects[shopPath])
	require.NoError(t, err)
	require.Len(t, c.Children, maxDescendants)
	assert.Equal(t, "it does not exist", c.Children[0].Note)
	assert.Equal(t, maxDescendants, c.Children[maxDescendants-1].More)

	s.forbidden = databasePath
	require.NoError(t, unstructured.SetNestedSlice(s.objects[shopPath].Object, []any{map[string]any{"apiVersion": "cloud.example.org/v1", "kind": "Database",
		"name": "orders-db"}}, "spec", "crossplane", "resourceRefs"))
	c, err = i.Chain(t.Context(), s.objects[shopPath])
	require.NoError(t, err)
	assert.Equal(t, "you may not read it", c.Children[0].Note)
}

// TestAbsent covers KR-12-32: a condition of the function that no longer runs for the composite is reported as out of date.
func TestAbsent(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, step string
		condition    bool
		want         string
	}{
		"Removed": {reason: "only another function is left", step: "function-auto-ready", condition: true,
			want: "Condition Kausality (Allowed, since 2026-01-02T10:00:00Z) is out of date: the pipeline of composition revision shops-2 has no step"},
		"Runs":  {reason: "it is a step", step: "function-kausality", condition: true},
		"Never": {reason: "there is no condition", step: "function-auto-ready"},
	} {
		t.Run(name, func(t *testing.T) {
			i, s := inspectorOf(t, func(s *storedServer) {
				s.put(t, "apiextensions.crossplane.io/v1/compositionrevisions/shops-2", `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision,
  metadata: {name: shops-2}, spec: {pipeline: [{step: a, functionRef: {name: `+tc.step+`}}]}}`)
				s.put(t, "pkg.crossplane.io/v1/functionrevisions/f-1", `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision,
  metadata: {name: f-1, labels: {pkg.crossplane.io/package: `+tc.step+`}}, spec: {desiredState: Active, image: "example.org/f:v1"}}`)
				_ = unstructured.SetNestedField(s.objects[shopPath].Object, "shops-2", "spec", "crossplane", "compositionRevisionRef", "name")
				if tc.condition {
					s.conditions(map[string]any{"type": v1alpha1.ConditionKausality, "status": "True", "reason": "Allowed", "lastTransitionTime": "2026-01-02T10:00:00Z"})
				}
			})
			e, err := i.Explain(t.Context(), s.objects[shopPath], nil)
			require.NoError(t, err)
			if tc.want == "" {
				assert.Empty(t, e.Absent, tc.reason)
				return
			}
			assert.Contains(t, e.Absent, tc.want, tc.reason)
		})
	}
}

// TestDriftsForbidden: who may not list Drifts is shown the role that has the right.
func TestDriftsForbidden(t *testing.T) {
	i, _ := inspectorOf(t, func(s *storedServer) { s.forbidden = "kausality.io/v1alpha1/namespaces/team/drifts" })
	_, err := Drifts(t.Context(), i.Direct.Dynamic, "team", nil)
	require.ErrorContains(t, err, "the ClusterRole kausality-viewer grants that")
}
