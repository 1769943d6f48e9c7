package sink

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/pause"
	"github.com/kausality-io/function-kausality/internal/records/spool"
)

const (
	// maxBatch is how many records are sent at once: at most 1 MiB.
	maxBatch = 256
	// attemptTimeout of one request.
	attemptTimeout = 30 * time.Second
	// firstPause after a failure; it doubles up to lastPause.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

// A Message is a record as it is in the spool, and decoded.
type Message struct {
	Raw    []byte
	Record recordsv1alpha1.Record
}

// A Sink sends records. One goroutine at a time uses it.
type Sink interface {
	// Send all messages. An error that errors.As finds a *RefusedError in means that the sink will never accept them as
	// they are; any other one is temporary. Some of them may have been accepted although there is an error.
	Send(ctx context.Context, messages []Message) error
	// Close the connection.
	Close() error
}

// RefusedError is a refusal that repeating does not change.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return "refused: " + e.Err.Error() }

// Unwrap the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// refused reports whether messages are refused.
func refused(err error) bool { return errors.As(err, new(*RefusedError)) }

// A Delivery carries records from a spool to one sink.
type Delivery struct {
	// Name of the sink, in metrics and logs.
	Name   string
	Reader *spool.Reader
	Sink   Sink
	Aside  *Aside
	Log    logr.Logger

	// pauses after failures; nil for the usual ones.
	pauses *wait.Backoff
}

// Run runs until the context ends or the spool is closed.
func (d *Delivery) Run(ctx context.Context) {
	defer func() {
		if err := d.Sink.Close(); err != nil {
			d.Log.Error(err, "cannot close the sink", "sink", d.Name)
		}
	}()
	for ctx.Err() == nil {
		b, err := d.Reader.Next(ctx, maxBatch)
		switch {
		case errors.Is(err, spool.ErrClosed), ctx.Err() != nil:
			return
		case err != nil:
			d.Log.Error(err, "cannot read the spool", "sink", d.Name)
			pause.For(ctx, lastPause/10)
			continue
		}
		messages := d.decode(b.Records)
		if !d.deliver(ctx, messages) {
			return
		}
		if err := d.Reader.Ack(b); err != nil && !errors.Is(err, spool.ErrClosed) {
			d.Log.Error(err, "cannot store what was delivered; it is delivered again after a restart", "sink", d.Name)
		}
		d.observe(nil)
	}
}

// decode decodes records. Those of a schema that this release does not know are set aside: no sink can name them.
func (d *Delivery) decode(raw [][]byte) []Message {
	out := make([]Message, 0, len(raw))
	for _, r := range raw {
		record, err := recordsv1alpha1.Decode(r)
		if err != nil {
			d.setAside(r, err)
			continue
		}
		out = append(out, Message{Raw: r, Record: record})
	}
	return out
}

// deliver delivers messages, however long it takes (KR-16-06, KR-16-07); false where the context ended first.
func (d *Delivery) deliver(ctx context.Context, messages []Message) bool {
	pauses := d.backoff()
	for len(messages) > 0 {
		d.observe(messages)
		err := d.attempt(ctx, messages)
		if ctx.Err() != nil && err != nil {
			return false
		}
		switch {
		case err == nil:
			return true
		case refused(err) && len(messages) == 1:
			d.setAside(messages[0].Raw, err)
			return true
		case refused(err): // find the ones that are refused
			half := len(messages) / 2
			if !d.deliver(ctx, messages[:half]) {
				return false
			}
			messages = messages[half:]
		default:
			after := pauses.Step()
			d.Log.Info("cannot deliver records; it is tried again", "sink", d.Name, "records", len(messages), "after", after.String(), "error", err.Error())
			if !pause.For(ctx, after) {
				return false
			}
		}
	}
	return true
}

// attempt attempts to send messages.
func (d *Delivery) attempt(ctx context.Context, messages []Message) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	err := d.Sink.Send(ctx, messages)
	result := resultDelivered
	switch {
	case refused(err):
		result = resultRefused
	case err != nil:
		result = resultFailed
	}
	deliveries.WithLabelValues(d.Name, result).Inc()
	return err
}

// setAside a record that the sink will never accept.
func (d *Delivery) setAside(raw []byte, why error) {
	setAside.WithLabelValues(d.Name).Inc()
	d.Log.Error(why, "record set aside", "sink", d.Name, "file", d.Aside.Path())
	if err := d.Aside.Add(raw, why); err != nil {
		d.Log.Error(err, "cannot set a record aside; it is lost", "sink", d.Name)
	}
}

func (d *Delivery) backoff() wait.Backoff {
	if d.pauses != nil {
		return *d.pauses
	}
	return wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.2, Steps: 1 << 20, Cap: lastPause}
}

// observe observes the lag behind the spool; the messages are those that are to be delivered next.
func (d *Delivery) observe(messages []Message) {
	pending.WithLabelValues(d.Name).Set(float64(d.Reader.Pending()))
	age := 0.0
	if len(messages) > 0 {
		age = max(0, time.Since(messages[0].Record.Time.Time).Seconds()) // 0 for a record of the future
	}
	oldest.WithLabelValues(d.Name).Set(age)
}
