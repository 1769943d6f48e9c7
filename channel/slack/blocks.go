package slack

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Bounds of what a message shows. All blocks together stay below what Slack accepts, about 13,000 characters.
const (
	maxHeader    = 140
	maxTitle     = 600
	maxLine      = 300
	maxLines     = 12
	maxCode      = 2400
	maxNotes     = 8
	maxCauses    = 4
	maxReference = 250
)

// message as it is sent: text for notifications, and blocks.
type message struct {
	text   string
	blocks []slack.Block
	// broadcast: a message of a thread is shown in the channel, too.
	broadcast bool
}

// renderer of messages.
type renderer struct {
	config *Config
	// zone of the times that are shown.
	zone *time.Location
}

// note about a change that users of the channel know of, as who approved it here.
type note struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// member of a message: a change and what became of it.
type member struct {
	entry channel.Entry
	// over: it is decided or gone; outcome is how. glass: one user let it pass alone.
	over, glass bool
	outcome     string
	// ruling of one that is open.
	ruling channel.Ruling
	notes  []note
}

// main message of a cause. listed is how many of its changes have an entry in the thread.
func (r renderer) main(c *channel.Card, members []member, listed int) message {
	open := 0
	for i := range members {
		if !members[i].over {
			open++
		}
	}
	title := c.Title
	if len(members) == 1 {
		title = members[0].entry.Effect
	}
	head := oneLine(state(members)+": "+title, maxHeader)
	m := message{text: fallback(r.where() + head)}
	m.blocks = append(m.blocks, slack.NewHeaderBlock(plain(head, maxHeader)), richText(r.cause(c, len(members), open)...))
	if code := lines(c.Fields, maxLines); code != "" {
		m.blocks = append(m.blocks, preformatted(code))
	}
	if text := lines(c.Decided, maxNotes); text != "" && open > 0 && len(members) > 1 { // of a single change its outcome has it
		m.blocks = append(m.blocks, richText(literal(text, false)))
	}
	if len(members) == 1 {
		m.blocks = append(m.blocks, r.outcome(&members[0])...)
		m.blocks = append(m.blocks, r.actions(&members[0])...)
	}
	if more := len(members) - listed; more > 0 {
		m.blocks = append(m.blocks, richText(literal(fmt.Sprintf("%d more are not listed in the thread: kubectl kausality pending -A --cause %s --limit 0", more,
			oneLine(c.Key, maxLine)), false)))
	}
	return m
}

// state returns the state of the changes of a message in a word or two: that of those that are open, where they have one in common.
func state(members []member) string {
	open := slices.DeleteFunc(slices.Clone(members), func(m member) bool { return m.over })
	all := func(is func(member) bool) bool {
		return !slices.ContainsFunc(open, func(m member) bool { return !is(m) })
	}
	switch {
	case len(open) == 0 && slices.ContainsFunc(members, func(m member) bool { return m.glass }):
		return "Broken glass"
	case len(open) == 0:
		return "Over"
	case all(func(m member) bool { return m.ruling.Rejected != nil }):
		return "Rejected"
	case all(func(m member) bool { return m.ruling.Snoozed != nil }):
		return "Snoozed"
	}
	return "Held"
}

// cause returns the cause of a message: what it is, who made it, what it would change, since when.
func (r renderer) cause(c *channel.Card, total, open int) []slack.RichTextSectionElement {
	count := c.Counts
	if open < total {
		count += fmt.Sprintf("; %d of them decided or gone", total-open)
	}
	out := []slack.RichTextSectionElement{literal(oneLine(c.Title, maxTitle), true), literal("\n"+oneLine(count, maxLine)+", since "+r.time(c.Since.Time), false)}
	if text := lines(c.Causes, maxCauses); text != "" {
		out = append(out, literal("\n"+text, false))
	}
	if r.config.ClusterName != "" {
		out = append(out, literal("\ncluster "+r.config.ClusterName, false))
	}
	return out
}

// entry returns the entry of a change in the thread.
func (r renderer) entry(m *member) message {
	d := m.entry.Drift
	out := message{text: fallback(r.where() + m.entry.Effect)}
	out.blocks = append(out.blocks, richText(literal(oneLine(m.entry.Effect, maxLine), true),
		literal("\nbelow "+oneLine(m.entry.Parent, maxLine)+", id "+oneLine(d.Name, maxLine)+", since "+r.time(m.entry.Since.Time), false)))
	if code := fields(d); code != "" {
		out.blocks = append(out.blocks, preformatted(code))
	}
	out.blocks = append(out.blocks, r.outcome(m)...)
	out.blocks = append(out.blocks, r.actions(m)...)
	return out
}

// fields returns the fields of a difference, a line each.
func fields(d *v1alpha1.Drift) string {
	return lines(lists.Map(d.Spec.Difference, channel.Field), maxLines)
}

// outcome returns the outcome of a change and what was decided about it; nil for nothing.
func (r renderer) outcome(m *member) []slack.Block {
	var all []string
	if m.over {
		all = append(all, m.outcome)
	} else {
		all = append(all, m.entry.Decided...)
		if z := m.ruling.Snoozed; z != nil {
			all = append(all, "snoozed until "+r.time(z.Expiry.Time)+channel.Part(" by ", z.User, "")+channel.Part(": ", z.Message, ""))
		}
		if by := approval.VotesText(m.entry.Drift.Status.Votes); by != "" {
			all = append(all, "voted for"+strings.TrimPrefix(by, ","))
		}
	}
	all = append(all, lists.Map(m.notes, func(n note) string { return n.Text + " at " + r.time(n.At) })...)
	text := lines(all, maxNotes)
	if text == "" {
		return nil
	}
	return []slack.Block{richText(literal(text, false))}
}

// actions returns the actions of a change as buttons; nil where it is over.
func (r renderer) actions(m *member) []slack.Block {
	if m.over {
		return nil
	}
	buttons := lists.Map(m.entry.Actions, func(a channel.Action) slack.BlockElement { return r.button(a, m.entry.Drift) })
	return []slack.Block{slack.NewActionBlock(reference(r.config.ClusterName, m.entry.Drift), buttons...)}
}

// Prefix of the ids of actions.
const actionPrefix = "kausality:"

// label returns the label of the button of an action.
func label(a channel.Action) string {
	if a == channel.ActionReject || a == channel.ActionSnooze || a == channel.ActionException { // more is entered or chosen then
		return channel.Label(a) + "…"
	}
	return channel.Label(a)
}

// snoozeLabels of the times that are offered.
var snoozeLabels = map[string]string{"1h": "1 hour", "8h": "8 hours", "monday": "until Monday"}

// button returns the button of an action.
func (r renderer) button(a channel.Action, d *v1alpha1.Drift) slack.BlockElement {
	id := actionPrefix + string(a)
	if a == channel.ActionSnooze {
		options := lists.Map(channel.Snoozes, func(s string) *slack.OptionBlockObject {
			return slack.NewOptionBlockObject(s, plain(snoozeLabels[s], maxHeader), nil)
		})
		return slack.NewOptionsSelectBlockElement(slack.OptTypeStatic, plain(label(a), maxHeader), id, options...)
	}
	b := slack.NewButtonBlockElement(id, string(a), plain(label(a), 75))
	switch {
	case a == channel.ActionOpen && r.config.Page != nil:
		b = b.WithURL(r.page(d))
	case a == channel.ActionApprove:
		where := channel.Part(" in cluster ", r.config.ClusterName, "")
		b = b.WithStyle(slack.StylePrimary).WithConfirm(slack.NewConfirmationBlockObject(plain("Approve this change?", 100),
			plain(channel.Effect(d)+where+": "+strings.ReplaceAll(fields(d), "\n", "; "), 300), plain("Approve", 30), plain("Cancel", 30)))
	}
	return b
}

// page returns the page of a change.
func (r renderer) page(d *v1alpha1.Drift) string {
	return strings.NewReplacer("{namespace}", url.PathEscape(d.Namespace), "{id}", url.PathEscape(d.Name)).Replace(r.config.Page.URL)
}

// reference returns the reference to a change as it is shown, which its buttons carry: cluster, Drift and fingerprint.
func reference(cluster string, d *v1alpha1.Drift) string {
	return strings.Join([]string{"v1", cluster, d.Namespace, d.Name, channel.Fingerprint(d)}, "|")
}

// target of a click by the reference of its block.
type target struct {
	Cluster, Namespace, Name, Shown string
}

// parseReference parses the reference of a block; false for a block of another app.
func parseReference(s string) (t target, ok bool) {
	p := strings.Split(s, "|")
	if len(s) > maxReference || len(p) != 5 || p[0] != "v1" || p[3] == "" || p[4] == "" {
		return t, false
	}
	return target{Cluster: p[1], Namespace: p[2], Name: p[3], Shown: p[4]}, true
}

// where returns where the changes are, as the beginning of a line.
func (r renderer) where() string { return channel.Part("", r.config.ClusterName, ": ") }

// time returns the time of day with its date.
func (r renderer) time(t time.Time) string { return t.In(r.zone).Format("2 Jan 15:04 MST") }

// lines returns the lines of texts, each on one line and cut, at most some and at most maxCode characters, with a last line that counts the others.
func lines(all []string, limit int) string {
	var out []string
	size := 0
	for i, l := range all {
		l = oneLine(l, maxLine)
		if i == limit || size+length(l) > maxCode {
			out = append(out, fmt.Sprintf("… %d more", len(all)-i))
			break
		}
		size += length(l) + 1
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

// richText block of one section.
func richText(elements ...slack.RichTextSectionElement) slack.Block {
	return slack.NewRichTextBlock("", slack.NewRichTextSection(elements...))
}

// preformatted block of a text.
func preformatted(text string) slack.Block {
	return slack.NewRichTextBlock("", &slack.RichTextPreformatted{Type: slack.RTEPreformatted, Elements: []slack.RichTextSectionElement{literal(text, false)}})
}
