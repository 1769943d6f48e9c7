package story

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

// clicked: a Composition revision passes by a click in Slack, as by the annotation of the user who clicked (KR-17-09). It needs Options.Slack.
func clicked(ctx context.Context, e *Env, t *Teller) error {
	since, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # tier: platinum → diamond")
	if err := e.Compose(ctx, Composition{Tier: "diamond", Kausality: true}); err != nil {
		return err
	}
	d, m, err := e.shownInSlack(ctx, `"diamond"`)
	if err != nil {
		return err
	}
	t.Reports("a message in Slack:\n%s", quoted(messageText(m)))
	if err := e.tierStays(ctx, t, since, "platinum"); err != nil {
		return err
	}
	began := time.Now()
	if err := e.ClickApprove(m); err != nil {
		return err
	}
	t.Reports("alice clicks Approve once")
	if err := e.tierBecomes(ctx, t, "diamond"); err != nil {
		return err
	}
	t.Reports("it reached the cloud %.1f s after the click", time.Since(began).Seconds())
	answer, err := e.answeredInSlack(ctx, "approved by "+Alice)
	if err != nil {
		return err
	}
	t.Reports("a message that only alice sees:\n%s", quoted(answer))
	if err := e.passedByClick(ctx, t, d); err != nil {
		return err
	}
	return e.overInSlack(ctx, t, m)
}

// shownInSlack is the change of the database to a new value, and the message with its button.
func (e *Env) shownInSlack(ctx context.Context, value string) (d *v1alpha1.Drift, m *slackfake.Message, err error) {
	if err := until(ctx, "the change to be held", func(ctx context.Context) error {
		u, err := e.drift(ctx, "ControllerChild", "Database", "UPDATE")
		if err != nil {
			return err
		}
		d = &v1alpha1.Drift{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
			return err
		}
		if len(d.Spec.Difference) != 1 || d.Spec.Difference[0].New != value {
			return fmt.Errorf("it is %v", d.Spec.Difference)
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	m, err = e.InSlack(ctx, d)
	return d, m, err
}

// passedByClick: the hop of the change names alice, and that she approved in Slack.
func (e *Env) passedByClick(ctx context.Context, t *Teller, d *v1alpha1.Drift) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	hops, err := Trace(mr)
	if err != nil {
		return err
	}
	t.Reports("%s", Tree(hops))
	a := hops[len(hops)-1].Approval
	if a == nil || a.Digest != d.Name || len(a.By) != 1 || a.By[0].User != Alice || a.By[0].Via != "slack" {
		return fmt.Errorf("the last hop has approval %+v, want that of %s via slack", a, Alice)
	}
	t.Right("the trace names who approved, and where: %s via %s", a.By[0].User, a.By[0].Via)
	return nil
}

// overInSlack: the same message, without buttons, shows what became of the change.
func (e *Env) overInSlack(ctx context.Context, t *Teller, was *slackfake.Message) error {
	return until(ctx, "the message to show that the change is over", func(context.Context) error {
		state, err := e.slack.State()
		if err != nil {
			return err
		}
		for _, m := range state.Messages {
			if m.TS != was.TS {
				continue
			}
			text := messageText(m)
			if block, _ := m.Block(); block != "" || !strings.Contains(text, "approved by "+Alice) {
				return fmt.Errorf("it is %q", text)
			}
			t.Reports("the message in Slack is now:\n%s", quoted(text))
			t.Right("the message shows who approved, and has no buttons any more")
			return nil
		}
		return errNone
	})
}

// messageText is what a message shows, for readers: its texts, and a line of its buttons.
func messageText(m *slackfake.Message) string {
	var blocks []struct {
		Type     string
		Text     struct{ Text string }
		Elements []json.RawMessage
	}
	if err := json.Unmarshal([]byte(m.Blocks), &blocks); err != nil {
		return m.Text
	}
	var lines []string
	for _, b := range blocks {
		line := b.Text.Text
		for _, e := range b.Elements {
			line += elementText(e, b.Type == "actions")
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// elementText of a section with elements of its own, or of a button or menu.
func elementText(raw json.RawMessage, button bool) (text string) {
	if button {
		b := struct{ Text, Placeholder struct{ Text string } }{}
		if json.Unmarshal(raw, &b) != nil {
			return ""
		}
		return " [" + b.Text.Text + b.Placeholder.Text + "]"
	}
	section := struct{ Elements []struct{ Text string } }{}
	if json.Unmarshal(raw, &section) != nil {
		return ""
	}
	for _, e := range section.Elements {
		text += e.Text
	}
	return text
}

// quoted text, with a mark before each line.
func quoted(text string) string { return "| " + strings.ReplaceAll(text, "\n", "\n| ") }
