package slack

import (
	"context"
	"fmt"
	"time"

	"github.com/slack-go/slack"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

// remindEvery is the time between two reminders of a cause, at least.
const remindEvery = 24 * time.Hour

// overdue is a cause of which a reminder is due, with its changes that nothing was decided about.
type overdue struct {
	// in is its oldest message, in whose thread the reminder is.
	in     *record
	drifts []v1alpha1.Drift
}

// remind posts the reminders that are due, at most left, of each cause at most one a day (KR-17-27). That it is posted is stored before: a process
// that ends between the two leaves one out rather than post it twice. Errors come from Slack, or are storeErrors.
func (p *poster) remind(ctx context.Context, drifts map[key]*v1alpha1.Drift, left int) error {
	if p.render.config.Reminders == nil {
		return nil
	}
	for _, s := range due(p.records, drifts, p.render.config.Reminders.After.Duration, p.now()) {
		if left == 0 {
			return nil
		}
		left--
		was := s.in.Reminded
		s.in.Reminded = p.now().UTC().Truncate(time.Second)
		s.in.touch()
		if err := p.store.save(ctx, s.in); err != nil {
			return storeError{err}
		}
		_, err := p.api.post(ctx, s.in.TS, p.render.reminder(s, p.now()))
		if err != nil && !isGone(err) {
			s.in.Reminded = was
			s.in.touch()
			return err
		}
		p.owes.Succeeded()
	}
	return nil
}

// due returns the causes of which a reminder is due: those with a change that is held for as long as after, and that is neither rejected nor snoozed.
func due(records []*record, drifts map[key]*v1alpha1.Drift, after time.Duration, now time.Time) (out []*overdue) {
	at, reminded := map[string]*overdue{}, map[string]time.Time{}
	for _, r := range records {
		if r.Reminded.After(reminded[r.Cause]) {
			reminded[r.Cause] = r.Reminded
		}
		for _, m := range r.Members {
			d := drifts[m.key()]
			if d == nil || m.Over || r.TS == "" {
				continue
			}
			if ruling := m.ruling(d); ruling.Rejected != nil || ruling.Snoozed != nil || now.Sub(channel.Since(d).Time) < after {
				continue
			}
			s := at[r.Cause]
			if s == nil {
				s = &overdue{in: r}
				at[r.Cause] = s
				out = append(out, s)
			}
			if r.Started.Before(s.in.Started) {
				s.in = r
			}
			s.drifts = append(s.drifts, *d)
		}
	}
	rest := out[:0]
	for _, s := range out {
		if now.Sub(reminded[s.in.Cause]) >= remindEvery && now.Sub(s.in.Started) >= remindEvery { // a message of today needs none
			rest = append(rest, s)
		}
	}
	return rest
}

// reminder message of a cause: since when it is held, what that is, and what is missing.
func (r renderer) reminder(s *overdue, now time.Time) message {
	g := channel.ByCause(s.drifts)[0]
	card := channel.CardOf(g, func(*v1alpha1.Drift) channel.Ruling { return channel.Ruling{} }, " -A")
	head := "Still held after " + ago(now.Sub(card.Since.Time)) + ": " + card.Title
	text := card.Counts + ", since " + r.time(card.Since.Time)
	if more := lines(card.Decided, maxNotes); more != "" {
		text += "\n" + more
	}
	text += "\nDecide in this thread, or: " + card.Approve
	return message{text: fallback(r.where() + head), broadcast: true, blocks: []slack.Block{
		richText(literal(oneLine(head, maxTitle), true), literal("\n"+cut(text, maxCode), false))}}
}

// ago returns a time in hours, or in days from two on.
func ago(d time.Duration) string {
	if hours := int(d.Hours()); hours < 48 {
		return channel.Plural(hours, "hour")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
