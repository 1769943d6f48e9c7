package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/internal/pause"
)

const (
	// batch of messages that are stored at once.
	batch = 500
	// maxWait for the first message of a batch.
	maxWait = 2 * time.Second
	// ackWait is when JetStream delivers a message again that was not acknowledged.
	ackWait = time.Minute
	// retryAfter is the pause after a failure.
	retryAfter = 2 * time.Second
	// sender of all records of the stream. Which cluster may publish to which subject is decided by the NATS server, and a
	// record is of the cluster of its subject.
	sender = "nats"
)

// Options of a consumer.
type Options struct {
	// URLs of NATS servers, with commas between.
	URLs string
	// Stream with the records.
	Stream string
	// Consumer is the durable name by which replicas of one store share the stream.
	Consumer string
	// CredsFile and CAFile are optional.
	CredsFile, CAFile string
	Log               logr.Logger
}

// Run runs until the context ends: read batches, store and acknowledge them (KR-16-44). count is called with each receipt. A failure of
// the store or of NATS is logged and tried again.
func Run(ctx context.Context, o Options, store *history.Store, count func(query.Receipt)) error {
	options := []nats.Option{nats.Name("kausality-history"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true)}
	if o.CredsFile != "" {
		options = append(options, nats.UserCredentials(o.CredsFile))
	}
	if o.CAFile != "" {
		options = append(options, nats.RootCAs(o.CAFile))
	}
	conn, err := nats.Connect(o.URLs, options...)
	if err != nil {
		return fmt.Errorf("cannot connect to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("cannot use JetStream: %w", err)
	}
	for ctx.Err() == nil {
		err := consume(ctx, js, o, store, count)
		if err == nil || ctx.Err() != nil {
			continue
		}
		o.Log.Error(err, "cannot read records from NATS; trying again", "stream", o.Stream)
		pause.For(ctx, retryAfter)
	}
	return nil
}

// consume until something fails.
func consume(ctx context.Context, js jetstream.JetStream, o Options, store *history.Store, count func(query.Receipt)) error {
	consumer, err := js.CreateOrUpdateConsumer(ctx, o.Stream, jetstream.ConsumerConfig{
		Durable: o.Consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 20 * batch, MaxDeliver: -1,
	})
	if err != nil {
		return fmt.Errorf("cannot create the consumer %s: %w", o.Consumer, err)
	}
	for ctx.Err() == nil {
		messages, err := consumer.Fetch(batch, jetstream.FetchMaxWait(maxWait))
		if err != nil {
			return fmt.Errorf("cannot fetch: %w", err)
		}
		if err := storeBatch(ctx, messages, store, count); err != nil {
			return err
		}
	}
	return nil
}

// clusterOf returns the cluster of a subject, which ends in the UID of the cluster and the type of the record. Who may publish to it is who may
// send the cluster's records.
func clusterOf(subject string) string {
	tokens := strings.Split(subject, ".")
	return tokens[max(0, len(tokens)-2)]
}

// storeBatch of messages, and acknowledge them. After a failure of the store they are delivered again, at once.
func storeBatch(ctx context.Context, messages jetstream.MessageBatch, store *history.Store, count func(query.Receipt)) error {
	var list []jetstream.Msg
	var deliveries []history.Delivery
	for m := range messages.Messages() {
		list = append(list, m)
		deliveries = append(deliveries, history.Delivery{Raw: m.Data(), ID: m.Headers().Get(nats.MsgIdHdr), Cluster: clusterOf(m.Subject())})
	}
	if err := messages.Error(); err != nil && len(list) == 0 {
		return fmt.Errorf("cannot fetch: %w", err)
	}
	if len(list) == 0 {
		return nil
	}
	receipt, err := store.Insert(ctx, sender, deliveries)
	if err != nil {
		for _, m := range list {
			err = errors.Join(err, m.NakWithDelay(retryAfter))
		}
		return err
	}
	count(receipt)
	for _, m := range list {
		if err := m.Ack(); err != nil { // delivered again, and known then
			return fmt.Errorf("cannot acknowledge: %w", err)
		}
	}
	return nil
}
