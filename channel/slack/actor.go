package slack

import (
	"context"
	"errors"
	"regexp"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	act "github.com/kausality-io/function-kausality/channel/actor"
)

// FieldManager of what is written for users: votes have it as their via.
const FieldManager = "slack"

// actors returns a function that makes the actor for a person: the requests are theirs, so that their rights and votes are what counts (KR-17-09).
func actors(config *rest.Config, mapper meta.RESTMapper) func(Person) (actor, error) {
	return func(p Person) (actor, error) {
		if err := p.check(); err != nil {
			return nil, err
		}
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: p.User, Groups: p.Groups}
		made, err := act.New(as, mapper, FieldManager)
		if err != nil {
			return nil, err
		}
		return excepting{made, mapper}, nil
	}
}

// excepting is an actor that makes exceptions.
type excepting struct {
	*act.Actor
	mapper meta.RESTMapper
}

// Except implements actor.
func (e excepting) Except(ctx context.Context, d *v1alpha1.Drift, made *channel.Exception) error {
	if !act.Scoped(e.mapper, d) {
		return &act.RefusedError{Err: errors.New("its kind has Namespaces, and it names none: the exception would be for all of them")}
	}
	policy, err := made.Policy()
	if err != nil {
		return err
	}
	return e.Create(ctx, policy)
}

// impersonationRefused is how the API server words that a client may not act as a user: by all of the user's rights, or by constrained impersonation
// (KEP-5284), whose verbs have the mode, and those on what is requested that verb.
var impersonationRefused = regexp.MustCompile(` cannot impersonate(-on)?(:[a-z-]+)* (resource|path) `)

// isImpersonation reports whether it is this process that was refused to act as a person.
func isImpersonation(err error) bool {
	status := kerrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonForbidden && impersonationRefused.MatchString(status.Status().Message)
}
