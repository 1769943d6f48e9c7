package drift

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestSuccessor covers KR-10-20: a Drift that is deleted with its parent while a report of it is owed has a resolved one in its place.
func TestSuccessor(t *testing.T) {
	const to = "host/0a1b2c3d"
	since := metav1.NewTime(time.Unix(1000, 0))
	gone := func(edit func(*v1alpha1.Drift)) *v1alpha1.Drift {
		d := object(item("a1").Report)
		d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &since, Count: 3,
			Deliveries: []v1alpha1.DriftDelivery{{Receiver: to, Since: &since, Phase: v1alpha1.DriftDetected}}}
		if edit != nil {
			edit(d)
		}
		return d
	}
	app := func(uid types.UID, deleting bool) *parent.State {
		s := &parent.State{Ref: parent.Ref{UID: uid}}
		if deleting {
			s.DeletedAt = &since.Time
		}
		return s
	}
	const parentGone = "the parent was deleted"
	for name, tc := range map[string]struct {
		reason string
		drift  *v1alpha1.Drift
		app    *parent.State
		// stored Drift with its name.
		stored *v1alpha1.Drift
		// none: there is no successor, since nothing is owed; notOver, since it exists.
		none, notOver bool
		resolution    string
	}{
		"Open":    {reason: "the receiver knows that it was detected", drift: gone(nil), resolution: parentGone},
		"Unknown": {reason: "the receiver was away", drift: gone(func(d *v1alpha1.Drift) { d.Status.Deliveries[0].Phase = "" }), resolution: parentGone},
		"Resolved": {reason: "it was resolved for another reason", drift: gone(func(d *v1alpha1.Drift) {
			d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "it was approved"
		}), resolution: "it was approved"},
		"Deleting":  {reason: "the parent is being deleted", drift: gone(nil), app: app("u", true), resolution: parentGone},
		"Recreated": {reason: "another parent has its name", drift: gone(nil), app: app("another", false), resolution: parentGone},
		"HalfMade": {reason: "a process ended after it had created the successor", drift: gone(nil), resolution: parentGone,
			stored: &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: HomeNamespace, Name: "a1"}}},
		"Exists":   {reason: "what it is about exists: it is restored", drift: gone(nil), app: app("u", false), notOver: true},
		"Restored": {reason: "it exists again", drift: gone(nil), stored: gone(nil)},
		"Known": {reason: "the receiver knows the end", none: true, drift: gone(func(d *v1alpha1.Drift) {
			d.Status.Phase, d.Status.Deliveries[0].Phase = v1alpha1.DriftResolved, v1alpha1.DriftResolved
		})},
		"Snoozed":    {reason: "nothing is reported of it", none: true, drift: gone(func(d *v1alpha1.Drift) { d.Status.Snoozed = true })},
		"Unrecorded": {reason: "nothing is recorded in it", none: true, drift: gone(func(d *v1alpha1.Drift) { d.Status = v1alpha1.DriftStatus{} })},
		"Successor": {reason: "a successor has none", none: true, drift: gone(func(d *v1alpha1.Drift) {
			d.Namespace, d.OwnerReferences = HomeNamespace, nil
		})},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []client.Object
			if tc.stored != nil {
				stored = append(stored, tc.stored)
			}
			c := driftClient(t, interceptor.Funcs{}, stored...)
			objects := memoryObjects{"child": &parent.State{}}
			if tc.app != nil {
				objects["app"] = tc.app
			}
			d := &Deliverer{Client: c, Objects: objects, Log: logr.Discard(), senders: []*Sender{{Name: to}}}
			assert.Equal(t, !tc.none, d.owes(tc.drift), tc.reason)
			if tc.none {
				return
			}
			err := d.succeedOne(t.Context(), tc.drift)
			assert.Equal(t, tc.notOver, errors.Is(err, errNotOver), "%s: %v", tc.reason, err)
			out := &v1alpha1.Drift{}
			err = c.Get(t.Context(), client.ObjectKey{Namespace: HomeNamespace, Name: "a1"}, out)
			if tc.resolution == "" {
				assert.True(t, kerrors.IsNotFound(err), tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			assert.Equal(t, v1alpha1.DriftResolved, out.Status.Phase)
			assert.Equal(t, tc.resolution, out.Status.Resolution)
			assert.EqualValues(t, 3, out.Status.Count)
			assert.Equal(t, tc.drift.Status.Deliveries[0].Phase, out.Status.Deliveries[0].Phase)
			assert.Empty(t, out.OwnerReferences, "it is not deleted with its parent")
			require.NoError(t, d.succeedOne(t.Context(), tc.drift), "a second time changes nothing")
		})
	}
}

// TestSuccessorIsDelivered: the report of the end has the id that it would have had.
func TestSuccessorIsDelivered(t *testing.T) {
	c := driftClient(t, identified())
	e, sender := newTestEndpoint(t)
	recordedIn(t, c, sender, "a1")
	to := deliveriesTo(c, sender)
	to.Objects = memoryObjects{}
	detected := e.sent(t, to)
	require.Len(t, detected, 1)
	d := get(t, c, "ns", "a1")
	require.NoError(t, c.Delete(context.Background(), d))
	require.NoError(t, to.succeedOne(t.Context(), d))
	all := e.sent(t, to)
	require.Len(t, all, 2)
	assert.Equal(t, v1alpha1.DriftResolved, all[1].Spec.Phase)
	assert.Equal(t, "the parent was deleted", all[1].Spec.Resolution)
	assert.Equal(t, detected[0].Spec.Since.Unix(), all[1].Spec.Since.Unix())
}
