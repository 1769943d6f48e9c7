package slack

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/pause"
)

const (
	// storeTimeout of a click: Slack waits 3 s for the acknowledgement.
	storeTimeout = 2 * time.Second
	// reconnectAfter is how long the client may wait before it tries to connect again; it would wait up to five minutes.
	reconnectAfter = 15 * time.Second
	// rejectCallback is the id of the modal for the reason of a rejection, reasonInput that of its field.
	rejectCallback = actionPrefix + "reject-reason"
	reasonInput    = "reason"
	// maxReason of a rejection, in characters.
	maxReason = 300
)

// socket takes clicks by Socket Mode, on every replica.
type socket struct {
	api    *api
	store  *store
	render renderer
	link   *link
	// pause before a connection that has ended is made again.
	pause time.Duration
	now   func() time.Time
	log   logr.Logger
}

// link is what is known of the connection of this replica. It is safe for concurrent use.
type link struct{ err atomic.Pointer[error] }

// set sets why there is no connection; nil where there is one.
func (l *link) set(err error) { l.err.Store(&err) }

// failure is why there is no connection; nil where there is one, or is about to be.
func (l *link) failure() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

// NeedLeaderElection is false: Slack sends each event to one of the connections.
func (*socket) NeedLeaderElection() bool { return false }

// Start takes clicks until the context ends. A connection that is lost is made again, whatever the reason.
func (s *socket) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		s.once(ctx)
	}
	return nil
}

// once connects, and waits after the connection has ended.
func (s *socket) once(ctx context.Context) {
	err := s.connection(ctx)
	connected.Set(0)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("the connection has ended")
	}
	refusal("app", err)
	s.link.set(explained(err))
	s.log.Info("the connection to Slack has ended; it is made again", "error", explained(err).Error())
	pause.For(ctx, s.pause)
}

// connection keeps a connection to Slack until it cannot be made soon.
func (s *socket) connection(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := socketmode.New(s.api.client)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-client.Events:
				s.event(ctx, client, e, cancel)
			}
		}
	}()
	err := client.RunContext(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// event handles an event of the connection.
func (s *socket) event(ctx context.Context, client *socketmode.Client, e socketmode.Event, stop context.CancelCauseFunc) {
	switch data := e.Data.(type) {
	case *slack.ConnectionErrorEvent:
		connected.Set(0)
		if data.Backoff > reconnectAfter || isPermanent(data.ErrorObj) {
			stop(data.ErrorObj)
		}
	case slack.InteractionCallback:
		go s.interaction(ctx, client, e.Request, data)
	default:
		switch {
		case e.Type == socketmode.EventTypeConnected:
			connected.Set(1)
			s.link.set(nil)
			s.log.Info("connected to Slack")
		case e.Request != nil: // of a kind that this app does not use
			_ = client.Ack(*e.Request)
		}
	}
}

// interaction handles an interaction of a user: it is acknowledged once it is stored, or the user knows that it is not (KR-17-08).
func (s *socket) interaction(ctx context.Context, client *socketmode.Client, req *socketmode.Request, in slack.InteractionCallback) {
	ack := func(payload ...any) {
		if err := client.Ack(*req, payload...); err != nil {
			s.log.Info("cannot acknowledge a click; Slack shows the user a warning", "error", err.Error())
		}
	}
	switch {
	case in.Type == slack.InteractionTypeBlockActions:
		for _, a := range in.ActionCallback.BlockActions {
			s.action(ctx, in, a)
		}
	case in.Type == slack.InteractionTypeViewSubmission && in.View.CallbackID == rejectCallback:
		if failed := s.rejection(ctx, in); failed != "" {
			ack(slack.NewErrorsViewSubmissionResponse(map[string]string{reasonInput: failed}))
			return
		}
	}
	ack()
}

// action handles the action of a button.
func (s *socket) action(ctx context.Context, in slack.InteractionCallback, a *slack.BlockAction) {
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

// keep keeps a click before Slack stops to wait for it.
func (s *socket) keep(ctx context.Context, c click) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.store.keep(ctx, c)
}

// command returns the command that shows a change.
func command(at target) string {
	return "kubectl get drift" + channel.InNamespace(at.Namespace) + " " + at.Name + " -o yaml"
}

// lost answers that nothing was done.
func (s *socket) lost(ctx context.Context, c click, err error) { s.inform(ctx, c, s.lostText(c, err)) }

// lostText counts a click that is not stored, and returns the answer for the user.
func (s *socket) lostText(c click, err error) string {
	clicks.WithLabelValues(string(c.Action), "lost").Inc()
	s.log.Info("a click is not stored, and the user is answered so", "action", c.Action, "member", c.Team+"/"+c.User, "error", err.Error())
	if errors.Is(err, errFull) {
		return "Nothing was done: too many clicks wait. Click again later, or use kubectl kausality."
	}
	return "Nothing was done: the click could not be stored. Click again, or use kubectl kausality."
}

// inform informs a user by a message that no other user sees.
func (s *socket) inform(ctx context.Context, c click, text string) {
	if err := s.api.answer(ctx, c.User, c.Thread, text); err != nil {
		s.log.Info("cannot answer a user", "member", c.Team+"/"+c.User, "error", err.Error())
	}
}

// teamOf returns the team of the user: another workspace's members are in channels that are shared with it.
func teamOf(in slack.InteractionCallback) string {
	return cmp.Or(in.User.TeamID, in.Team.ID)
}

// threadOf returns the thread of the message of an action; the message itself where it is in none.
func threadOf(in slack.InteractionCallback) string {
	return cmp.Or(in.Message.ThreadTimestamp, in.Container.ThreadTs)
}
