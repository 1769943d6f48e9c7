package slack

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/kausality-io/function-kausality/internal/pause"
)

// reconnectAfter is how long the client may wait before it tries to connect again; it would wait up to five minutes.
const reconnectAfter = 15 * time.Second

// socket takes clicks by Socket Mode, on every replica.
type socket struct {
	*interactions
	link *link
	// pause before a connection that has ended is made again.
	pause time.Duration
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
		go s.acknowledge(ctx, client, e.Request, data)
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

// acknowledge takes an interaction of a user, and acknowledges it.
func (s *socket) acknowledge(ctx context.Context, client *socketmode.Client, req *socketmode.Request, in slack.InteractionCallback) {
	var payload []any
	if answer := s.take(ctx, in); answer != nil {
		payload = append(payload, answer)
	}
	if err := client.Ack(*req, payload...); err != nil {
		s.log.Info("cannot acknowledge a click; Slack shows the user a warning", "error", err.Error())
	}
}
