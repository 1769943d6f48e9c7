package slack

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/slack-go/slack"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/channel"
)

const (
	// storeTimeout of a click: Slack waits 3 s for the acknowledgement.
	storeTimeout = 2 * time.Second
	// rejectCallback is the id of the modal for the reason of a rejection, reasonInput that of its field.
	rejectCallback = actionPrefix + "reject-reason"
	reasonInput    = "reason"
	// maxReason of a rejection, in characters.
	maxReason = 300
)

// interactions takes what users do in messages and modals, on every replica: all of it becomes clicks that are stored, however Slack sends it.
type interactions struct {
	api    *api
	store  *store
	render renderer
	// drifts of the cache, to show what an exception would let pass.
	drifts client.Reader
	now    func() time.Time
	log    logr.Logger
	// repeatable: Slack sends them in a form that others could send again (KR-17-25).
	repeatable bool
}

// take takes an interaction: it is stored when this returns, or the user knows that it is not (KR-17-08). The answer is what a modal shows; nil for none.
func (s *interactions) take(ctx context.Context, in slack.InteractionCallback) *slack.ViewSubmissionResponse {
	switch in.Type {
	case slack.InteractionTypeBlockActions:
		if in.View.CallbackID == exceptionCallback {
			if err := s.choose(ctx, in); err != nil {
				s.log.Info("cannot show what is chosen in a dialog", "error", err.Error())
			}
			return nil
		}
		for _, a := range in.ActionCallback.BlockActions {
			s.action(ctx, in, a)
		}
	case slack.InteractionTypeViewSubmission:
		field, failed := "", ""
		switch in.View.CallbackID {
		case rejectCallback:
			field, failed = reasonInput, s.rejection(ctx, in)
		case exceptionCallback:
			field, failed = untilInput, s.exception(ctx, in)
		}
		if failed != "" {
			return slack.NewErrorsViewSubmissionResponse(map[string]string{field: failed})
		}
	default:
	}
	return nil
}

// action takes a click on a button.
func (s *interactions) action(ctx context.Context, in slack.InteractionCallback, a *slack.BlockAction) {
	name, ours := strings.CutPrefix(a.ActionID, actionPrefix)
	at, ok := parseReference(a.BlockID)
	if !ours || !ok {
		return
	}
	c := click{Team: teamOf(in), User: in.User.ID, Action: channel.Action(name), Reference: a.BlockID, Thread: threadOf(in), At: s.now().UTC(), Event: a.ActionTs}
	switch c.Action {
	case channel.ActionOpen:
		if s.render.config.Page == nil {
			s.inform(ctx, c, "To look at it: "+command(at))
		}
		return
	case channel.ActionReject:
		if err := s.openReason(ctx, in.TriggerID, c); err != nil {
			s.lost(ctx, c, err)
		}
		return
	case channel.ActionException:
		if err := s.openException(ctx, in.TriggerID, c); err != nil {
			s.lost(ctx, c, err)
		}
		return
	case channel.ActionSnooze:
		until, err := channel.SnoozeUntil(a.SelectedOption.Value, s.now().In(s.render.zone))
		if err != nil {
			s.lost(ctx, c, err)
			return
		}
		c.Until = until.UTC().Truncate(time.Second)
	case channel.ActionApprove, channel.ActionWithdraw:
	default:
		return
	}
	if err := s.keep(ctx, c); err != nil {
		s.lost(ctx, c, err)
	}
}

// keep stores a click before Slack stops waiting for it.
func (s *interactions) keep(ctx context.Context, c click) error {
	if s.repeatable {
		c.Remember = s.now().Add(2 * signedFor).UTC().Truncate(time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.store.keep(ctx, c)
}

// command returns the command that shows a change.
func command(at target) string {
	return "kubectl get drift" + channel.InNamespace(at.Namespace) + " " + at.Name + " -o yaml"
}

// lost answers that nothing was done.
func (s *interactions) lost(ctx context.Context, c click, err error) {
	s.inform(ctx, c, s.lostText(c, err))
}

// lostText counts a click that is not stored, and returns the answer for the user.
func (s *interactions) lostText(c click, err error) string {
	clicks.WithLabelValues(string(c.Action), "lost").Inc()
	s.log.Info("a click is not stored, and the user is answered so", "action", c.Action, "member", c.Team+"/"+c.User, "error", err.Error())
	if gone := (*goneError)(nil); errors.As(err, &gone) {
		return "Nothing was done: " + gone.why
	}
	if errors.Is(err, errFull) {
		return "Nothing was done: too many clicks wait. Click again later, or use kubectl kausality."
	}
	return "Nothing was done: the click could not be stored. Click again, or use kubectl kausality."
}

// inform answers a user by a message that no other user sees.
func (s *interactions) inform(ctx context.Context, c click, text string) {
	if err := s.api.answer(ctx, c.User, c.Thread, text); err != nil {
		s.log.Info("cannot answer a user", "member", c.Team+"/"+c.User, "error", err.Error())
	}
}

// teamOf returns the workspace of the user, which is another one in a channel that is shared with it.
func teamOf(in slack.InteractionCallback) string {
	if in.User.TeamID != "" {
		return in.User.TeamID
	}
	return in.Team.ID
}

// threadOf returns the thread of the message of an action; the message itself where it is in none.
func threadOf(in slack.InteractionCallback) string {
	if in.Message.ThreadTimestamp != "" {
		return in.Message.ThreadTimestamp
	}
	return in.Container.ThreadTs
}
