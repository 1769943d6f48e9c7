package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/drift"
)

// Receiver is the name of this channel in status.deliveries of Drifts.
const Receiver = "slack"

// perRound is how many messages are sent before clicks are worked off again.
const perRound = 5

// poster keeps the messages in Slack as the Drifts are. One goroutine uses it.
type poster struct {
	api    *api
	store  *store
	drifts client.Reader
	owes   *drift.Channel
	render renderer
	now    func() time.Time
	log    logr.Logger

	// link is the connection that clicks come by.
	link *link
	// probed is when Slack was last tried without a message to send; zero for not by this process.
	probed time.Time

	records []*record
	// delivered phases of changes, which the cache may not show yet.
	delivered map[key]v1alpha1.DriftPhase
}

// storeError is an error of the API server while messages are sent, not an error of Slack.
type storeError struct{ error }

// load loads the records, when this replica becomes the leader.
func (p *poster) load(ctx context.Context) (err error) {
	p.records, err = p.store.records(ctx)
	p.delivered = map[key]v1alpha1.DriftPhase{}
	return err
}

// round settles records, sends messages and records what Slack shows. Errors come from the API server; those of Slack are noted in the DriftReceiver.
func (p *poster) round(ctx context.Context) error {
	list := &v1alpha1.DriftList{}
	if err := p.drifts.List(ctx, list); err != nil {
		return fmt.Errorf("cannot list drifts: %w", err)
	}
	drifts, due := map[key]*v1alpha1.Drift{}, []*v1alpha1.Drift(nil)
	for i := range list.Items {
		d := &list.Items[i]
		drifts[keyOf(d)] = d
		if len(p.owes.Owed(d)) > 0 {
			due = append(due, d)
		}
	}
	slices.SortFunc(due, func(a, b *v1alpha1.Drift) int {
		return strings.Compare(channel.Since(a).UTC().Format(time.RFC3339)+a.Namespace+a.Name, channel.Since(b).UTC().Format(time.RFC3339)+b.Namespace+b.Name)
	})
	settle(p.records, drifts, p.now())
	p.records = assign(p.records, due, p.now())
	tried, err := p.send(ctx, drifts)
	if !tried && err == nil {
		p.probe(ctx)
	}
	p.owes.Impeded(p.link.failure())
	p.owes.Show(ctx, due)
	return err
}

// probeEvery is how often Slack is tried while nothing is to be sent, so that a token which was revoked is known before a change is held.
const probeEvery = time.Minute

// probe probes whether Slack still accepts the app, where nothing was sent: now and then, and while it does not, as messages are tried (KR-17-11).
func (p *poster) probe(ctx context.Context) {
	now := p.now()
	if now.Before(p.owes.Next()) || !p.owes.Failing() && now.Before(p.probed.Add(probeEvery)) {
		return
	}
	p.probed = now
	if err := p.api.accepted(ctx, p.render.config); err != nil {
		p.failed(err)
		return
	}
	p.owes.Reached()
}

// failed notes an error of Slack.
func (p *poster) failed(err error) {
	refusal("bot", err)
	p.owes.Failed(err, retryAfter(err))
	p.log.Info("cannot write to Slack; it is tried again", "error", err.Error())
}

// send sends what differs from what was sent, at most perRound messages, and records in the Drifts what Slack shows. tried is whether something was to be
// sent.
func (p *poster) send(ctx context.Context, drifts map[key]*v1alpha1.Drift) (tried bool, err error) {
	if p.now().Before(p.owes.Next()) {
		return true, p.saveAll(ctx)
	}
	left := perRound
	for _, r := range p.records {
		sent, err := p.sendRecord(ctx, r, drifts, &left)
		if serr := p.store.save(ctx, r); serr != nil {
			return true, serr
		}
		if errors.As(err, &storeError{}) {
			return true, err
		}
		if err != nil {
			p.failed(err)
			return true, p.saveAll(ctx)
		}
		if !sent {
			break
		}
		if err := p.deliver(ctx, r, drifts); err != nil {
			return true, err
		}
		r.finished = r.over()
	}
	if err := p.remind(ctx, drifts, left); errors.As(err, &storeError{}) {
		return true, err
	} else if err != nil {
		p.failed(err)
		return true, p.saveAll(ctx)
	}
	return left < perRound, p.retire(ctx)
}

// saveAll records that have changed.
func (p *poster) saveAll(ctx context.Context) error {
	for _, r := range p.records {
		if err := p.store.save(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// sendRecord sends the main message, then the entries of the thread. complete is whether nothing is left to send. Errors come from Slack.
func (p *poster) sendRecord(ctx context.Context, r *record, drifts map[key]*v1alpha1.Drift, left *int) (complete bool, err error) {
	card, members := r.members(drifts)
	listed := 0
	for _, m := range r.Members {
		if m.Listed {
			listed++
		}
	}
	if complete, err = p.one(ctx, r, "", &r.TS, &r.Sent, p.render.main(card, members, listed), left); !complete || err != nil {
		return complete, err
	}
	for i, m := range r.Members {
		if !m.Listed || len(r.Members) == 1 && m.TS == "" {
			continue // a single change has its fields and buttons in the message itself
		}
		if complete, err = p.one(ctx, r, r.TS, &m.TS, &m.Sent, p.render.entry(&members[i]), left); !complete || err != nil {
			return complete, err
		}
	}
	return true, nil
}

// one message, where it differs from what was sent.
func (p *poster) one(ctx context.Context, r *record, thread string, ts, sent *string, m message, left *int) (complete bool, err error) {
	digest := m.digest()
	if *ts != "" && *sent == digest {
		return true, nil
	}
	if *left == 0 {
		return false, nil
	}
	*left--
	if *ts == "" {
		*ts, err = p.api.post(ctx, thread, m)
	} else {
		err = p.api.update(ctx, *ts, m)
	}
	if err != nil && !isGone(err) { // what was deleted in Slack is not sent again
		return false, err
	}
	p.owes.Succeeded()
	*sent = digest
	r.touch()
	if serr := p.store.save(ctx, r); serr != nil { // at once: what is sent and not stored would be sent again
		return false, storeError{serr}
	}
	return true, nil
}

// digest returns the digest of what a message shows.
func (m message) digest() string {
	raw, err := json.Marshal([]any{m.text, m.blocks})
	if err != nil {
		return "" // which is sent again
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// deliver records in the Drifts of a record, all of which Slack shows, what it shows.
func (p *poster) deliver(ctx context.Context, r *record, drifts map[key]*v1alpha1.Drift) error {
	for _, m := range r.Members {
		d := drifts[m.key()]
		if d == nil {
			continue
		}
		for _, phase := range p.owes.Owed(d) {
			if phase == v1alpha1.DriftResolved && !m.Over || p.delivered[m.key()] == phase {
				continue
			}
			if err := p.owes.Delivered(ctx, d, phase); err != nil && !kerrors.IsNotFound(err) {
				return err
			}
			p.delivered[m.key()] = phase
		}
	}
	return nil
}

// retire records that are over and shown as that, once nothing is owed about them.
func (p *poster) retire(ctx context.Context) error {
	var kept []*record
	for _, r := range p.records {
		if !r.over() || r.dirty || !r.finished || p.now().Sub(r.Started) < retireAfter {
			kept = append(kept, r)
			continue
		}
		if err := p.store.forget(ctx, r.name); err != nil {
			return err
		}
		for _, m := range r.Members {
			delete(p.delivered, m.key())
		}
	}
	p.records = kept
	return nil
}

// retireAfter is how long the record of a message is kept at least: the cache may show its Drifts as owed for a moment.
const retireAfter = time.Minute

// find finds the change of a record that a Drift is.
func (p *poster) find(d *v1alpha1.Drift) (*record, *tracked) {
	for _, r := range p.records {
		for _, m := range r.Members {
			if m.is(d) {
				return r, m
			}
		}
	}
	return nil, nil
}
