package settler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// versionOf an object with UID u and a status; "" for none.
func versionOf(version, status string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"uid": "u", "generation": int64(3), "resourceVersion": version,
	}}}
	if status != "" {
		o.Object["status"] = map[string]any{"message": status}
	}
	return o
}

func stateOf(o *unstructured.Unstructured) *parent.State { return parent.Sum(o, parent.RoleNone) }

// see an object in a watch, or read it live where from is "".
func (m *Memory) see(from string, o *unstructured.Unstructured) bool {
	return m.StatusStored(from, stateOf(o), states.StatusDigest(o.Object))
}

// TestStatusReviews: the writer of a status is who wrote what is stored (KR-13-20).
func TestStatusReviews(t *testing.T) {
	review := func(user string, from, to *unstructured.Unstructured) *admission.Request {
		return &admission.Request{User: subject.User{Name: user}, OldObject: from, Object: to}
	}
	a, b := versionOf("7", "a"), versionOf("7", "b")
	type event struct {
		from   string
		stored *unstructured.Unstructured
	}
	for name, tc := range map[string]struct {
		reason string
		// stored is what the watch shows at the time of the review; nil for nothing.
		stored   *unstructured.Unstructured
		from, to *unstructured.Unstructured
		events   []event
		want     bool
	}{
		"Stored":      {reason: "it is what comes after", from: a, to: b, events: []event{{"7", versionOf("8", "b")}}, want: true},
		"NotStored":   {reason: "a review alone shows nothing", from: a, to: b},
		"OtherStatus": {reason: "another write came after", from: a, to: b, events: []event{{"7", versionOf("8", "c")}}},
		"LaterStatus": {reason: "another write took its place", from: a, to: b,
			events: []event{{"7", versionOf("8", "c")}, {"8", versionOf("9", "b")}}},
		"Copied": {reason: "the status was stored before", from: versionOf("6", "a"), to: versionOf("6", "b"), stored: b,
			events: []event{{"7", versionOf("8", "b")}}},
		"CopiedUnseen": {reason: "what a first list shows may be older", from: versionOf("6", "a"), to: versionOf("6", "b"),
			events: []event{{"", b}}},
		"Live": {reason: "no version after the review was known to the client", from: a, to: b, stored: a,
			events: []event{{"", versionOf("9", "b")}}, want: true},
		"SameVersion": {reason: "nothing was written", from: a, to: b, stored: a, events: []event{{"", b}}},
		"WithoutVersion": {reason: "it is about no stored object", from: versionOf("", "a"), to: versionOf("", "b"),
			events: []event{{"", versionOf("8", "b")}}},
		"NothingToChange": {reason: "nothing is written", from: a, to: a, stored: a, events: []event{{"7", versionOf("8", "a")}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := clockedMemory()
			var stored *parent.State
			if tc.stored != nil {
				stored = stateOf(tc.stored)
			}
			assert.False(t, m.StatusReviewed(review("ctrl", tc.from, tc.to), stored))
			for _, e := range tc.events {
				m.see(e.from, e.stored)
			}
			assert.Equal(t, tc.want, m.WritesStatus(parent.Ref{UID: "u"}, idOf("ctrl")), tc.reason)
		})
	}
}

// TestStatusReviewsOfControllers: a controller that writes the status that the object has
// has observed the object; no other user is made a controller by that (KR-03-02, KR-13-20).
func TestStatusReviewsOfControllers(t *testing.T) {
	stored := stateOf(versionOf("7", "a"))
	ctrl := subject.User{Name: "ctrl"}
	stored.Annotations = map[string]string{v1alpha1.AnnotationKeyControllers: ctrl.Hash(), v1alpha1.AnnotationKeyControllerIDs: ctrl.ID()}
	for user, want := range map[string]bool{"ctrl": true, "mallory": false, subject.User{Name: "x"}.Hash(): false} {
		req := &admission.Request{User: subject.User{Name: user}, OldObject: versionOf("7", "a"), Object: versionOf("7", "a")}
		m, _ := clockedMemory()
		assert.Equal(t, want, m.StatusReviewed(req, stored), user)
		_, known, _ := m.observed(stored)
		assert.Equal(t, want, known, user)

		m, _ = clockedMemory() // the watch is late
		assert.False(t, m.StatusReviewed(req, stateOf(versionOf("6", "a"))))
		assert.Equal(t, want, m.StatusStored("6", stored, 0), user)
		_, known, _ = m.observed(stored)
		assert.Equal(t, want, known, user)
	}
}

// TestStatusReviewsByHash: where an earlier release recorded the hash of a user, the user
// observes the object, and is no controller by writing what is stored: other users have that
// hash, too (KR-13-41).
func TestStatusReviewsByHash(t *testing.T) {
	stored := stateOf(versionOf("7", "a"))
	ctrl := subject.User{Name: "ctrl"}
	stored.Annotations = map[string]string{v1alpha1.AnnotationKeyControllers: ctrl.Hash()}
	m, _ := clockedMemory()
	req := &admission.Request{User: ctrl, OldObject: versionOf("7", "a"), Object: versionOf("7", "a")}
	assert.True(t, m.StatusReviewed(req, stored))
	_, known, _ := m.observed(stored)
	assert.True(t, known)
	assert.False(t, m.WritesStatus(stored.Ref, ctrl.ID()))
	assert.Empty(t, m.controllers(stored))
}

// TestStatusReviewsAreBounded: made-up objects displace no others, and reviews are forgotten.
func TestStatusReviewsAreBounded(t *testing.T) {
	m, now := clockedMemory()
	req := &admission.Request{User: subject.User{Name: "ctrl"}, OldObject: versionOf("7", "a"), Object: versionOf("7", "b")}
	m.StatusReviewed(req, stateOf(versionOf("7", "a")))
	for i := range 2 * maxReviewed {
		made := versionOf("7", "a")
		made.SetUID(types.UID(fmt.Sprint("made-up-", i)))
		m.StatusReviewed(&admission.Request{OldObject: made, Object: made}, nil)
	}
	assert.Equal(t, maxUnseen, m.reviews.unseen.Len())
	assert.Empty(t, m.objects, "nothing is remembered about what is not stored")
	for range 2 * maxReviewedWrites {
		m.StatusReviewed(&admission.Request{User: subject.User{Name: "forger"}, OldObject: versionOf("6", "a"), Object: versionOf("6", "x")}, nil)
	}
	assert.Len(t, m.reviews.of("u", m.now()), maxReviewedWrites)
	assert.True(t, m.AwaitsStatus("u"))
	*now = now.Add(reviewedFor + time.Second)
	assert.False(t, m.AwaitsStatus("u"))
}
