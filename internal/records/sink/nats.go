package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
)

// jetStream publishes records into a stream that exists: SUBJECT.CLUSTER-UID.TYPE, with the id of the record as
// Nats-Msg-Id, by which the stream drops repetitions within its window.
type jetStream struct {
	Config
	conn *nats.Conn
	js   jetstream.JetStream
}

// connect connects where there is no connection. nats.go connects again by itself.
func (s *jetStream) connect() error {
	if s.conn != nil {
		return nil
	}
	config, err := s.TLS()
	if err != nil {
		return err
	}
	options := []nats.Option{nats.Name("kausality records"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.Timeout(attemptTimeout / 3)}
	if s.URL.Scheme == "tls" || s.CAFile != "" || s.CertFile != "" {
		options = append(options, nats.Secure(config))
	}
	if s.CredsFile != "" {
		options = append(options, nats.UserCredentials(s.CredsFile))
	}
	conn, err := nats.Connect(s.URL.String(), options...)
	if err != nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(attemptTimeout)) // one that is given up is forgotten
	if err != nil {
		conn.Close()
		return fmt.Errorf("cannot use JetStream: %w", err)
	}
	s.conn, s.js = conn, js
	return nil
}

// Send sends messages, and waits until the stream has stored each of them.
func (s *jetStream) Send(ctx context.Context, messages []Message) error {
	if err := s.connect(); err != nil {
		return err
	}
	acks := make([]jetstream.PubAckFuture, 0, len(messages))
	for _, m := range messages {
		msg := &nats.Msg{Subject: s.subject(m.Record), Data: m.Raw, Header: nats.Header{}}
		msg.Header.Set(jetstream.MsgIDHeader, m.Record.ID)
		ack, err := s.js.PublishMsgAsync(msg)
		if err != nil {
			return failure(err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return failure(err)
		case <-ctx.Done():
			return fmt.Errorf("cannot publish: no answer of the stream: %w", ctx.Err())
		}
	}
	return nil
}

// failure of a message: refused where the stream takes no message of this kind.
func failure(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeTooLarge || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) {
		return &RefusedError{err}
	}
	return fmt.Errorf("cannot publish: %w", err)
}

// codeTooLarge is the stream's error for a message that is larger than it takes.
const codeTooLarge jetstream.ErrorCode = 10054

// subject returns the subject of a record; what may not be part of a subject is replaced.
func (s *jetStream) subject(r recordsv1alpha1.Record) string {
	return s.Subject + "." + token(string(r.Cluster.UID)) + "." + token(string(r.Type))
}

// token returns the token of a subject.
func token(text string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '.' || r == '*' || r == '>' || r > '~' {
			return '_'
		}
		return r
	}, text)
}

// Close closes the connection.
func (s *jetStream) Close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return nil
}
