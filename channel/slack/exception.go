package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/slack-go/slack"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

const (
	// exceptionCallback is the id of the modal of an exception; scopeInput and untilInput are those of its fields.
	exceptionCallback = actionPrefix + "exception"
	scopeInput        = "scope"
	untilInput        = "until"
	// shownFor is for how long a modal may be confirmed after it was opened.
	shownFor = time.Hour
	// maxExcepted bounds the changes that a modal lists of those that an exception would have let pass, too.
	maxExcepted = 5
	// exceptedFor is how old a change may be that an exception is compared with.
	exceptedFor = 7 * 24 * time.Hour
)

// about is what a modal of an exception is about, as its metadata has it: the policy that it shows depends on it and on what is chosen.
type about struct {
	Reference string    `json:"reference"`
	Thread    string    `json:"thread,omitempty"`
	At        time.Time `json:"at"`
}

// chosen is what is chosen in the modal of an exception.
type chosen struct{ scope, until string }

// choiceOf returns what the state of a modal has; where nothing is chosen, the first of the options.
func choiceOf(state *slack.ViewState) chosen {
	of := func(field string) string {
		if state == nil {
			return ""
		}
		return state.Values[field][actionPrefix+field].SelectedOption.Value
	}
	return chosen{scope: cmp.Or(of(scopeInput), string(channel.ExceptionObject)), until: cmp.Or(of(untilInput), channel.Snoozes[0])}
}

// excepted returns the click of an exception as it is chosen.
func (s *interactions) excepted(a about, c chosen) (channel.Click, error) {
	until, err := channel.SnoozeUntil(c.until, a.At.In(s.render.zone))
	at, _ := parseReference(a.Reference)
	return channel.Click{Action: channel.ActionException, Shown: at.Shown, Until: until}, err
}

// openException opens the modal of an exception like a change.
func (s *interactions) openException(ctx context.Context, trigger string, c click) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	view, err := s.exceptionView(ctx, about{Reference: c.Reference, Thread: c.Thread, At: c.At.Truncate(time.Minute)}, choiceOf(nil))
	if err != nil {
		return err
	}
	_, err = s.api.client.OpenViewContext(ctx, trigger, *view)
	return explained(err)
}

// choose shows in the modal what is chosen in it.
func (s *interactions) choose(ctx context.Context, in slack.InteractionCallback) error {
	a := about{}
	if err := json.Unmarshal([]byte(in.View.PrivateMetadata), &a); err != nil {
		return fmt.Errorf("the modal is of another release: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	view, err := s.exceptionView(ctx, a, choiceOf(in.View.State))
	if err != nil {
		return err
	}
	_, err = s.api.client.UpdateViewContext(ctx, *view, "", in.View.Hash, in.View.ID)
	return explained(err)
}

// goneError is why no exception is made, as a sentence for the user.
type goneError struct{ why string }

func (e *goneError) Error() string { return e.why }

// exceptionView returns the modal of an exception: what it does, the policy, and what that would have let pass, too (KR-17-26).
func (s *interactions) exceptionView(ctx context.Context, a about, c chosen) (*slack.ModalViewRequest, error) {
	at, ok := parseReference(a.Reference)
	d := &v1alpha1.Drift{}
	if !ok {
		return nil, &goneError{"the message is of another release."}
	}
	if err := s.drifts.Get(ctx, types.NamespacedName{Namespace: at.Namespace, Name: at.Name}, d); kerrors.IsNotFound(err) {
		d = nil
	} else if err != nil {
		return nil, fmt.Errorf("cannot read what is held: %w", err)
	}
	click, err := s.excepted(a, c)
	if err != nil {
		return nil, err
	}
	scope := channel.ExceptionScope(c.scope)
	would, refused := channel.DecideException(click, scope, d, channel.Ruling{})
	if refused != "" {
		return nil, &goneError{exceptionRefused(refused, d)}
	}
	policy, err := would.Policy()
	if err != nil {
		return nil, err
	}
	raw, err := yaml.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("cannot show the policy: %w", err)
	}
	others, err := s.others(ctx, d, scope)
	if err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a modal: %w", err)
	}
	title := channel.Label(channel.ActionException)
	return &slack.ModalViewRequest{
		Type: slack.VTModal, CallbackID: exceptionCallback, PrivateMetadata: string(metadata),
		Title: plain(title, 24), Submit: plain(title, 24), Close: plain("Cancel", 24),
		Blocks: slack.Blocks{BlockSet: []slack.Block{
			richText(literal(oneLine(channel.Effect(d), maxLine), true), literal("\n"+strings.Join(channel.ExceptionEffects(d, channel.Ruling{}), "\n"), false)),
			choice(scopeInput, "What it is about", c.scope, scopeOptions(d)),
			choice(untilInput, "Until", c.until, untilOptions()),
			preformatted(cut(channel.Printable(string(raw)), maxCode)),
			richText(literal(others, false)),
		}},
	}, nil
}

// option is one value of a menu.
type option struct{ value, text string }

// scopeOptions returns what an exception may be about, the narrowest first.
func scopeOptions(d *v1alpha1.Drift) (out []option) {
	for _, scope := range channel.ExceptionScopes {
		out = append(out, option{string(scope), strings.TrimPrefix(channel.ScopeText(d, scope), "of ")})
	}
	return out
}

// untilOptions returns until when an exception may be, the soonest first.
func untilOptions() (out []option) {
	for _, s := range channel.Snoozes {
		out = append(out, option{s, snoozeLabels[s]})
	}
	return out
}

// choice returns a menu of options. Slack reports each choice, so that the modal shows it.
func choice(field, label, value string, options []option) *slack.InputBlock {
	list, initial := make([]*slack.OptionBlockObject, 0, len(options)), (*slack.OptionBlockObject)(nil)
	for _, o := range options {
		block := slack.NewOptionBlockObject(o.value, plain(o.text, 75), nil)
		if list = append(list, block); o.value == value {
			initial = block
		}
	}
	menu := slack.NewOptionsSelectBlockElement(slack.OptTypeStatic, nil, actionPrefix+field, list...)
	menu.InitialOption = initial
	return slack.NewInputBlock(field, plain(label, 150), nil, menu).WithDispatchAction(true)
}

// others returns what an exception would have let pass, too, of what is known of the last days.
func (s *interactions) others(ctx context.Context, d *v1alpha1.Drift, scope channel.ExceptionScope) (string, error) {
	list := &v1alpha1.DriftList{}
	if err := s.drifts.List(ctx, list); err != nil {
		return "", fmt.Errorf("cannot list what was held: %w", err)
	}
	var out []string
	more, since := 0, s.now().Add(-exceptedFor)
	for i := range list.Items {
		other := &list.Items[i]
		switch {
		case other.Namespace == d.Namespace && other.Name == d.Name || !channel.Excepted(d, scope, other) || channel.Since(other).Time.Before(since):
		case len(out) == maxExcepted:
			more++
		default:
			out = append(out, oneLine(channel.Summary(other), maxLine))
		}
	}
	if len(out) == 0 {
		return "No other change that was held in the last 7 days would have passed.", nil
	}
	text := "Of what was held in the last 7 days it would have let pass, too:\n" + strings.Join(out, "\n")
	if more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text, nil
}

// exceptionRefused returns why no exception is made, as a sentence.
func exceptionRefused(why channel.Refusal, d *v1alpha1.Drift) string {
	switch why {
	case channel.RefusedGone:
		return "it is over already."
	case channel.RefusedChanged:
		return "it has changed since it was shown to you. It is now: " + channel.Summary(d) + "."
	case channel.RefusedNotOffered:
		return "an exception is for updates by a known user that delete and replace nothing, and are not rejected."
	}
	return "choose what it is about, and until when."
}

// exception stores the click of a modal that was confirmed. It returns what the modal shows where the click is not stored.
func (s *interactions) exception(ctx context.Context, in slack.InteractionCallback) (failed string) {
	a := about{}
	if err := json.Unmarshal([]byte(in.View.PrivateMetadata), &a); err != nil {
		return "Nothing was done: the dialog is of another release."
	}
	if s.now().Sub(a.At) > shownFor {
		return "Nothing was done: what this dialog shows is more than an hour old. Open it again."
	}
	made := choiceOf(in.View.State)
	as, err := s.excepted(a, made)
	if err != nil {
		return "Nothing was done: choose until when."
	}
	return s.submit(ctx, in, click{Action: channel.ActionException, Reference: a.Reference, Thread: a.Thread,
		Scope: channel.ExceptionScope(made.scope), Until: as.Until.UTC()})
}
