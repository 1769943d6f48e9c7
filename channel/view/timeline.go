package view

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// Moment of what is known of a change.
type Moment struct {
	At   metav1.Time
	Text string
}

// timeline returns the timeline of a change, the oldest moment first: the hops that led to its object, when it was held and seen, votes, reports, and the
// gate. What has no time is not part of it.
func timeline(d *v1alpha1.Drift, hops []v1alpha1.Hop, g *inspect.Gate) (out []Moment) {
	add := func(at *metav1.Time, format string, args ...any) {
		if !at.IsZero() {
			out = append(out, Moment{At: *at, Text: fmt.Sprintf(format, args...)})
		}
	}
	for i := range hops {
		h := &hops[i]
		text := fmt.Sprintf("%s %s was changed by %s", h.Kind, h.Name, channel.UserOf(*h))
		if h.Approval != nil {
			text += ", approved" + approval.ByText(h.Approval)
		}
		add(&h.Timestamp, "%s", text)
	}
	held := "held for the first time"
	if channel.IsExternal(d) {
		held = "seen in the external system for the first time"
	}
	add(d.Status.Since, "%s", held)
	if d.Status.Count > 1 {
		add(d.Status.LastSeen, "last seen, %d times so far", d.Status.Count)
	}
	for i := range d.Status.Votes {
		v := &d.Status.Votes[i]
		add(&v.At, "approved by %s%s", v.User, channel.Part(" by ", v.Via, ""))
	}
	if v := d.Status.BrokenGlass; v != nil {
		add(&v.At, "%s broke the glass: %s", v.User, v.BreakGlass)
	}
	for i := range d.Status.Deliveries {
		r := &d.Status.Deliveries[i]
		add(r.ReportedAt, "%s was reported to %s", strings.ToLower(string(r.Phase)), r.Receiver)
	}
	if g != nil && g.State == v1alpha1.GateOpen {
		add(&g.Transition.At, "gate opened, %s", g.Transition.Reason)
	}
	slices.SortStableFunc(out, func(a, b Moment) int { return a.At.Compare(b.At.Time) })
	return out
}
