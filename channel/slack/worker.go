package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	act "github.com/kausality-io/function-kausality/channel/actor"
)

// answerFor is how long an answer that Slack does not accept is tried.
const answerFor = 10 * time.Minute

// worker works stored clicks off, on the leader. One goroutine uses it, the one of the poster.
type worker struct {
	api       *api
	store     *store
	poster    *poster
	directory *directory
	// live reads Drifts past every cache, as this process.
	live client.Reader
	as   func(Person) (actor, error)
	now  func() time.Time
	log  logr.Logger
}

// actor reads and writes the cluster as a person.
type actor interface {
	// Holder returns the annotations of the object that holds decisions about a change.
	Holder(ctx context.Context, on v1alpha1.ObjectReference) (map[string]string, error)
	// Write a decision about a change, and describe what it has led to.
	Write(ctx context.Context, d *v1alpha1.Drift, do channel.Decision) (outcome string, err error)
	// Except creates the policy of an exception like a change. A change that no exception is for is an act.RefusedError.
	Except(ctx context.Context, d *v1alpha1.Drift, e *channel.Exception) error
}

// sortClicks sorts clicks by their time.
func sortClicks(list []*stored) {
	slices.SortFunc(list, func(a, b *stored) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.object.Name, b.object.Name)) })
}

// round works off what is stored.
func (w *worker) round(ctx context.Context) error {
	list, err := w.store.clicks(ctx)
	if err != nil {
		return err
	}
	w.count(list)
	for _, c := range list {
		if err := w.work(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// count sets the metrics of the clicks that wait.
func (w *worker) count(list []*stored) {
	n, oldest := 0, time.Duration(0)
	for _, c := range list {
		if !c.Done {
			n, oldest = n+1, max(oldest, w.now().Sub(c.At))
		}
	}
	waiting.Set(float64(n))
	lag.Set(oldest.Seconds())
}

// work works one click off: decide, then answer, then forget it. It may end between any two of these, and goes on there.
func (w *worker) work(ctx context.Context, c *stored) error {
	if c.invalid != nil {
		clicks.WithLabelValues("unknown", "invalid").Inc()
		w.log.Info("a stored click is dropped", "configMap", c.object.Name, "error", c.invalid.Error())
		return w.store.forget(ctx, c.object.Name)
	}
	if c.Over {
		return w.end(ctx, c)
	}
	if !c.Done {
		answer, result, err := w.decide(ctx, c)
		if retried := (*laterError)(nil); errors.As(err, &retried) {
			w.log.Info("a click waits", "configMap", c.object.Name, "error", err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		clicks.WithLabelValues(string(c.Action), result).Inc()
		w.log.Info("a click was worked off", "action", c.Action, "member", c.Team+"/"+c.User, "of", c.Reference, "result", result)
		if err := w.store.advance(ctx, c, progress{Begun: c.Begun, Done: true, Answer: answer}); err != nil {
			return err
		}
	}
	if c.Answer != "" && w.now().Sub(c.At) < answerFor+maxWait {
		if err := w.api.answer(ctx, c.User, c.Thread, c.Answer); err != nil && !isPermanent(err) && w.now().Sub(c.At) < answerFor {
			w.log.Info("cannot answer a click; it is tried again", "configMap", c.object.Name, "error", err.Error())
			return nil
		}
	}
	return w.end(ctx, c)
}

// end forgets a click that is worked off, unless it could be sent again.
func (w *worker) end(ctx context.Context, c *stored) error {
	switch {
	case !w.now().Before(c.Remember):
		return w.store.forget(ctx, c.object.Name)
	case c.Over:
		return nil
	}
	return w.store.advance(ctx, c, progress{Begun: c.Begun, Done: true, Over: true})
}

// laterError is an error that passes: the click waits.
type laterError struct{ error }

// Results of clicks, as the metric has them.
const (
	resultDecided = "decided"
	resultRefused = "refused"
	resultFailed  = "failed"
)

// decide decides what a click means and writes it as the person; the answer is for the user.
func (w *worker) decide(ctx context.Context, c *stored) (answer, result string, err error) {
	if w.now().Sub(c.At) > maxWait {
		return "Nothing was done: the click could not be worked off within an hour. Look at it again, and click again.", resultFailed, nil
	}
	at, ok := parseReference(c.Reference)
	if !ok || at.Cluster != w.render().config.ClusterName {
		return "Nothing was done: the message is of another cluster or release.", resultRefused, nil
	}
	person, err := w.directory.of(ctx, c.Team, c.User)
	if stranger := (*strangerError)(nil); errors.As(err, &stranger) {
		return "Nothing was done. " + stranger.why, resultRefused, nil
	}
	if err != nil {
		return "", "", &laterError{err}
	}
	d := &v1alpha1.Drift{}
	if err := w.live.Get(ctx, types.NamespacedName{Namespace: at.Namespace, Name: at.Name}, d); kerrors.IsNotFound(err) {
		d = nil
	} else if err != nil {
		return "", "", &laterError{err}
	}
	return w.write(ctx, c, at, d, person)
}

func (w *worker) render() renderer { return w.poster.render }

// write writes the decision of a click about a change as it is stored now; nil for none.
func (w *worker) write(ctx context.Context, c *stored, at target, d *v1alpha1.Drift, p Person) (answer, result string, err error) {
	as, err := w.as(p)
	if err != nil {
		return "", "", &laterError{err}
	}
	if c.Action == channel.ActionException {
		return w.except(ctx, c, at, d, p, as)
	}
	var holder map[string]string
	if d != nil {
		if holder, err = as.Holder(ctx, d.Spec.Parent); err != nil {
			return w.failed(d, p, err)
		}
	}
	do, refused := channel.Decide(channel.Click{Action: c.Action, Shown: at.Shown, Reason: c.Reason, Until: c.Until}, d, holder, p.User)
	if again := !c.Begun.IsZero() && d != nil && written(c, d, holder, p.User); again {
		return w.decided(c, d, p, "It was written before this process was restarted."), resultDecided, nil
	}
	if refused != "" {
		return w.refused(refused, d), resultRefused, nil
	}
	if c.Begun.IsZero() {
		if err := w.store.advance(ctx, c, progress{Begun: w.now().UTC()}); err != nil {
			return "", "", err
		}
	}
	outcome, err := as.Write(ctx, d, do)
	if err != nil {
		return w.failed(d, p, err)
	}
	return w.decided(c, d, p, outcome), resultDecided, nil
}

// except makes an exception like a change as its user. Made twice it is the same one.
func (w *worker) except(ctx context.Context, c *stored, at target, d *v1alpha1.Drift, p Person, as actor) (answer, result string, err error) {
	ruling := channel.Ruling{}
	if d != nil {
		if _, m := w.poster.find(d); m != nil {
			ruling = m.ruling(d)
		}
	}
	made, refused := channel.DecideException(channel.Click{Action: c.Action, Shown: at.Shown, Until: c.Until}, c.Scope, d, ruling)
	if refused != "" {
		return "Nothing was done: " + exceptionRefused(refused, d), resultRefused, nil
	}
	if err := as.Except(ctx, d, made); kerrors.IsForbidden(err) && !isImpersonation(err) {
		return fmt.Sprintf("Nothing was done: %s may not do that. It takes the verbs create and get on %s and, where an ApprovalRule may be about such changes, "+
			"the verb approve on %s/approval. The cluster answers: %s", p.User, made.Resource(), made.Resource(), err.Error()), resultRefused, nil
	} else if err != nil {
		return w.failed(d, p, err)
	}
	return w.decided(c, d, p, fmt.Sprintf("%s %s. To end it: %s", made.Kind(), made.Name, made.RemoveCommand())), resultDecided, nil
}

// written reports whether an approval that was begun is known to the holder: written again after it was used, it would be another one.
func written(c *stored, d *v1alpha1.Drift, holder map[string]string, user string) bool {
	if c.Action != channel.ActionApprove {
		return false // written twice, the others are the same
	}
	digest := change.Digest(cmp.Or(d.Spec.Digest, d.Name))
	for _, claim := range approval.ParseClaims(holder[v1alpha1.AnnotationKeyClaims]) {
		about := cmp.Or(claim.Bound, claim.Digest)
		if about != "" && !digest.Is(about) && !change.Digest(about).Is(d.Name) {
			continue
		}
		if slices.ContainsFunc(claim.By, func(v v1alpha1.Vote) bool {
			return v.User == user && v.Via == FieldManager && !v.At.Time.Before(c.Begun.Add(-voteSkew))
		}) {
			return true
		}
	}
	return false
}

// voteSkew is by how much the time of a vote may differ from ours.
const voteSkew = 2 * time.Minute

// verbs of what was done, for messages.
var done = map[channel.Action]string{
	channel.ActionApprove: "approved", channel.ActionReject: "rejected", channel.ActionWithdraw: "withdrawn", channel.ActionSnooze: "snoozed",
	channel.ActionException: "excepted",
}

// decided notes a decision in the message, and is the answer for the user.
func (w *worker) decided(c *stored, d *v1alpha1.Drift, p Person, outcome string) string {
	text := done[c.Action] + " by " + p.User
	switch c.Action {
	case channel.ActionReject:
		text += " (" + oneLine(c.Reason, maxLine) + ")"
	case channel.ActionSnooze, channel.ActionException:
		text += " until " + w.render().time(c.Until)
	default:
	}
	if r, m := w.poster.find(d); m != nil {
		m.note(c.Action, c.Reason, note{At: w.now().UTC().Truncate(time.Second), Text: text})
		r.touch()
	}
	return fmt.Sprintf("%s: %s. %s", channel.Describe(d.Spec.Child), text, outcome)
}

// refused returns the answer for a click that decides nothing; the message is shown again as it is now.
func (w *worker) refused(why channel.Refusal, d *v1alpha1.Drift) string {
	if d != nil {
		if r, m := w.poster.find(d); m != nil {
			m.Sent, r.Sent = "", ""
			r.touch()
		}
	}
	switch why {
	case channel.RefusedGone:
		if d != nil {
			return "Nothing was done: it is over already. " + d.Status.Resolution
		}
		return "Nothing was done: it is over already. What is held now has a message of its own."
	case channel.RefusedChanged:
		return "Nothing was done: it has changed since it was shown to you. It is now: " + channel.Summary(d) + ". Look at the message, and decide again."
	case channel.RefusedNotOffered:
		return "Nothing was done: it deletes or replaces something. Look at it first: " + channel.ExplainCommand(d)
	}
	return "Nothing was done: the reason is missing."
}

// failed returns the answer where the cluster refused the person; other errors pass, and the click waits.
func (w *worker) failed(d *v1alpha1.Drift, p Person, err error) (answer, result string, _ error) {
	switch {
	case isImpersonation(err):
		return "Nothing was done: this app may not act as " + p.describe() + ". Its administrator lists users and groups in its configuration, and applies " +
			"the roles that --print-roles prints. The cluster answers: " + err.Error(), resultFailed, nil
	case kerrors.IsForbidden(err):
		return fmt.Sprintf("Nothing was done: %s may not do that. It takes the verbs get and patch on the object of the change (%s), and where approver RBAC is on "+
			"the verb approve on its subresource approval. The cluster answers: %s", p.User, channel.Describe(d.Spec.Parent), err.Error()), resultRefused, nil
	case kerrors.IsInvalid(err), kerrors.IsBadRequest(err), kerrors.IsNotFound(err), errors.As(err, new(*act.RefusedError)):
		return "Nothing was done: " + err.Error(), resultRefused, nil
	}
	return "", "", &laterError{err}
}
