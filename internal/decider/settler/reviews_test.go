package settler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// lagging states: the watch shows a widget at version 6 until shown, and at 7 from then on; stored is version 8, with the status that was written.
type lagging struct {
	objects
	shown time.Time
	known string
}

func (l lagging) Cached(parent.Ref) *states.Object {
	o := versionOf("7", "a")
	if time.Now().Before(l.shown) {
		o = versionOf("6", "x")
	}
	if l.known != "" {
		o.SetAnnotations(subject.Controllers{}.With(subject.User{Name: l.known}.ID()).Missing(nil))
	}
	return &states.Object{State: parent.Sum(o, parent.RoleNone)}
}

func (l lagging) Get(context.Context, parent.Ref, bool) (*states.Object, error) {
	o := versionOf("8", "b")
	return &states.Object{State: parent.Sum(o, parent.RoleNone), StatusDigest: states.StatusDigest(o.Object)}, nil
}

// TestStatusReviewedBehind: where the watch is behind, the review of a status waits for it, so that its writer is known from the moment it is
// stored (KR-13-20). It does not for a user who is known, or for long.
func TestStatusReviewedBehind(t *testing.T) {
	const user = "system:serviceaccount:apps:controller"
	for name, tc := range map[string]struct {
		reason string
		after  time.Duration
		known  string
		busy   int
		want   bool
		most   time.Duration
	}{
		"Shown":   {reason: "the watch has it", want: true},
		"Behind":  {reason: "the watch has it in a moment", after: 100 * time.Millisecond, want: true, most: 110 * time.Millisecond},
		"Known":   {reason: "the user is recorded", after: time.Hour, known: user},
		"Another": {reason: "another one is", after: 100 * time.Millisecond, known: "another", want: true, most: 110 * time.Millisecond},
		"Late":    {reason: "no request waits longer than a second", after: time.Hour, most: time.Second},
		"Busy":    {reason: "enough of them wait", after: 100 * time.Millisecond, busy: maxBehind},
		"Others": {reason: "a new controller writes the first status of many objects", after: 100 * time.Millisecond, busy: maxBehind - 1, want: true,
			most: 110 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := idleSettler(t)
				began := time.Now()
				w.states = lagging{objects: w.states, shown: began.Add(tc.after), known: tc.known}
				for range tc.busy {
					w.behind <- struct{}{}
				}
				by := subject.User{Name: user}
				w.StatusReviewed(&admission.Request{User: by, OldObject: versionOf("7", "a"), Object: versionOf("7", "b")})
				assert.LessOrEqual(t, time.Since(began), tc.most, tc.reason)
				assert.Equal(t, tc.want, w.StatusWriter(parent.RefOf(versionOf("7", "a")), by.ID()), tc.reason)
				w.queue.ShutDown()
			})
		})
	}
}
