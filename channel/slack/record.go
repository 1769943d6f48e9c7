package slack

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

const (
	// maxListed changes of one message have an entry in its thread.
	maxListed = 20
	// maxMembers of one message; with more a new one begins. It bounds the ConfigMap that remembers it.
	maxMembers = 2000
	// maxAge of a message that changes are added to.
	maxAge = 24 * time.Hour
	// maxNoted decisions about a change are remembered.
	maxNoted = 8
)

// record of a message of one cause: what it shows, and what was sent of it.
type record struct {
	// Cause is its key.
	Cause   string    `json:"cause"`
	Started time.Time `json:"started"`
	// TS identifies the message in the channel; empty before it is sent.
	TS string `json:"ts,omitempty"`
	// Sent is the digest of what was sent last.
	Sent string `json:"sent,omitempty"`
	// Reminded is when a reminder of its cause was last posted in its thread; zero for never.
	Reminded time.Time `json:"reminded,omitzero"`
	// Card that was shown last, without its entries: its changes may be deleted.
	Card    channel.Card `json:"card"`
	Members []*tracked   `json:"members"`

	// name of its object; empty where it is not stored yet.
	name, version string
	dirty         bool
	// finished: Slack shows that it is over.
	finished bool
}

// tracked is a change of a record.
type tracked struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Since is its occurrence, in seconds.
	Since int64 `json:"since"`
	// Listed: it has an entry in the thread. TS and Sent mean the same as in record.
	Listed bool   `json:"listed,omitempty"`
	TS     string `json:"ts,omitempty"`
	Sent   string `json:"sent,omitempty"`
	// Over and Outcome are as of a member.
	Over    bool   `json:"over,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	// Glass: one user let it pass alone.
	Glass bool `json:"glass,omitempty"`
	// Rejected and Withdrawn are what was decided here at RuledAt, and the Drift may not show yet; Approved is what was decided here.
	Rejected  string    `json:"rejected,omitempty"`
	Withdrawn bool      `json:"withdrawn,omitempty"`
	RuledAt   time.Time `json:"ruledAt,omitzero"`
	Approved  bool      `json:"approved,omitempty"`
	Notes     []note    `json:"notes,omitempty"`
	// Effect of one that is listed.
	Effect string `json:"effect,omitempty"`
}

// is reports whether it is an occurrence of a drift.
func (t *tracked) is(d *v1alpha1.Drift) bool {
	return t.Namespace == d.Namespace && t.Name == d.Name && t.Since == channel.Since(d).Unix()
}

// key of an occurrence.
type key struct {
	namespace, name string
	since           int64
}

func keyOf(d *v1alpha1.Drift) key { return key{d.Namespace, d.Name, channel.Since(d).Unix()} }
func (t *tracked) key() key       { return key{t.Namespace, t.Name, t.Since} }
func (r *record) open(now time.Time) bool {
	return !r.over() && now.Sub(r.Started) < maxAge && len(r.Members) < maxMembers
}

// over reports whether all of its changes are decided or gone.
func (r *record) over() bool {
	return !slices.ContainsFunc(r.Members, func(m *tracked) bool { return !m.Over })
}

// shownWithin is how long after a decision the Drift shows it at the latest.
const shownWithin = 30 * time.Second

// settle settles the changes of records by the Drifts that exist now: which are over, and how.
func settle(records []*record, drifts map[key]*v1alpha1.Drift, now time.Time) {
	for _, r := range records {
		for _, m := range r.Members {
			if m.Over {
				continue
			}
			d := drifts[m.key()]
			if (m.Rejected != "" || m.Withdrawn) && now.Sub(m.RuledAt) > shownWithin {
				m.Rejected, m.Withdrawn = "", false
				r.touch()
			}
			if d != nil && channel.Open(d) {
				continue
			}
			m.Glass = d != nil && d.Status.BrokenGlass != nil
			if m.Over = true; m.Listed { // of the others no more is shown than their number
				m.Outcome = outcomeOf(d)
			}
			r.touch()
		}
	}
}

// outcomeOf returns the outcome of a change that is over; nil for one whose Drift is deleted.
func outcomeOf(d *v1alpha1.Drift) string {
	if d == nil {
		return "Gone: the change is not held any more."
	}
	return "Resolved: " + oneLine(d.Status.Resolution+approval.ByText(d.Status.Approval), maxLine)
}

// touch marks a record to be stored.
func (r *record) touch() { r.dirty = true }

// assign assigns changes that a channel is to show to records, the open one of their cause or a new one (KR-17-07). What a record has already stays there.
func assign(records []*record, owed []*v1alpha1.Drift, now time.Time) []*record {
	known, open := map[key]bool{}, map[string]*record{}
	for _, r := range records {
		for _, m := range r.Members {
			known[m.key()] = true
		}
		if have := open[r.Cause]; r.open(now) && (have == nil || have.Started.Before(r.Started)) {
			open[r.Cause] = r
		}
	}
	for _, d := range owed {
		if known[keyOf(d)] || !channel.Open(d) {
			continue
		}
		cause := channel.CauseKey(d)
		r := open[cause]
		if r == nil || !r.open(now) {
			r = &record{Cause: cause, Started: now.UTC().Truncate(time.Second)}
			open[cause] = r
			records = append(records, r)
		}
		m := &tracked{Namespace: d.Namespace, Name: d.Name, Since: channel.Since(d).Unix()}
		if m.Listed = len(r.Members) < maxListed; m.Listed {
			m.Effect = oneLine(channel.Effect(d), maxLine)
		}
		r.Members = append(r.Members, m)
		r.touch()
	}
	return records
}

// members returns the members of a record as they are shown, and the card of its cause.
func (r *record) members(drifts map[key]*v1alpha1.Drift) (*channel.Card, []member) {
	var list []v1alpha1.Drift
	rulings := map[key]channel.Ruling{}
	for _, m := range r.Members {
		if d := drifts[m.key()]; d != nil {
			list = append(list, *d)
			rulings[m.key()] = m.ruling(d)
		}
	}
	if groups := channel.ByCause(list); len(groups) > 0 {
		r.Card = *channel.CardOf(groups[0], func(d *v1alpha1.Drift) channel.Ruling { return rulings[keyOf(d)] }, " -A")
	}
	out := make([]member, 0, len(r.Members))
	for _, m := range r.Members {
		e := channel.Entry{Drift: &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}, Effect: m.Effect,
			Since: metav1.NewTime(time.Unix(m.Since, 0))}
		if d := drifts[m.key()]; d != nil {
			ruling := rulings[m.key()]
			ruling.Snoozed = nil // which is shown with the time of the configuration
			e = channel.EntryOf(d, ruling)
			if channel.Exceptable(d, rulings[m.key()]) {
				e.Actions = slices.Insert(e.Actions, len(e.Actions)-1, channel.ActionException) // before what opens it
			}
		}
		out = append(out, member{entry: e, over: m.Over, glass: m.Glass, ruling: rulings[m.key()], outcome: m.Outcome, notes: m.Notes})
	}
	return &r.Card, out
}

// ruling returns the ruling of a change, as its Drift has it, and as it was decided here a moment ago.
func (t *tracked) ruling(d *v1alpha1.Drift) channel.Ruling {
	s := channel.Ruling{Approved: t.Approved}
	if on := d.Status.Ruling; on != nil {
		s.Rejected, s.Snoozed = on.Rejected, on.Snooze
	}
	switch {
	case t.Withdrawn:
		s.Rejected = nil
	case t.Rejected != "":
		s.Rejected = &v1alpha1.Rejection{Reason: t.Rejected}
	}
	return s
}

// note notes a decision about a change.
func (t *tracked) note(a channel.Action, reason string, n note) {
	switch a {
	case channel.ActionApprove:
		t.Approved = true
	case channel.ActionReject:
		t.Rejected, t.Withdrawn, t.RuledAt = oneLine(reason, maxLine), false, n.At
	case channel.ActionWithdraw:
		t.Approved, t.Rejected, t.Withdrawn, t.RuledAt = false, "", true, n.At
	default:
	}
	if slices.ContainsFunc(t.Notes, func(have note) bool { return have.Text == n.Text }) {
		return // a double click
	}
	t.Notes = append(t.Notes, n)
	t.Notes = t.Notes[max(0, len(t.Notes)-maxNoted):]
}
