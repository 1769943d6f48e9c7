package slack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// FieldManager of what is written for users: votes have it as their via.
const FieldManager = "slack"

// impersonated is an actor by impersonation.
type impersonated struct {
	config *rest.Config
	mapper meta.RESTMapper
	client dynamic.Interface
	person Person
}

// actors for persons: the requests are theirs, so that their rights and votes are what counts (KR-17-09).
func actors(config *rest.Config, mapper meta.RESTMapper) func(Person) (actor, error) {
	return func(p Person) (actor, error) {
		if err := p.check(); err != nil {
			return nil, err
		}
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: p.User, Groups: p.Groups}
		client, err := dynamic.NewForConfig(as)
		if err != nil {
			return nil, fmt.Errorf("cannot create a client: %w", err)
		}
		return &impersonated{config: as, mapper: mapper, client: client, person: p}, nil
	}
}

// resource of an object.
func (a *impersonated) resource(on v1alpha1.ObjectReference) (dynamic.ResourceInterface, error) {
	gvk := schema.FromAPIVersionAndKind(on.APIVersion, on.Kind)
	m, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("cannot find the resource of kind %s: %w", gvk.GroupKind(), err)
	}
	return inspect.ClientOf(a.client, m, on.Namespace), nil
}

// Holder implements actor.
func (a *impersonated) Holder(ctx context.Context, on v1alpha1.ObjectReference) (map[string]string, error) {
	c, err := a.resource(on)
	if err != nil {
		return nil, err
	}
	o, err := c.Get(ctx, on.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if on.UID != "" && o.GetUID() != on.UID {
		return nil, &refusedError{fmt.Errorf("%s was deleted, and another object has its name now", on.Name)}
	}
	return o.GetAnnotations(), nil
}

// Write implements actor.
func (a *impersonated) Write(ctx context.Context, d *v1alpha1.Drift, do channel.Decision) (string, error) {
	c, err := a.resource(do.On)
	if err != nil {
		return "", err
	}
	var last annotate.Change
	for _, w := range do.Writes {
		edit := func(annotations map[string]string) (*string, error) {
			next, err := w.Edit(annotations)
			if err != nil {
				return nil, &refusedError{err}
			}
			return next, nil
		}
		writer := annotate.Writer{Client: c, Name: do.On.Name, UID: do.On.UID, Manager: FieldManager}
		if last, err = writer.Annotate(ctx, w.Key, edit); err != nil {
			return "", err
		}
	}
	if by := channel.Carried(d, last.Has); by != nil && last.Unchanged && strings.HasPrefix(last.Key, v1alpha1.AnnotationKeyApprovePrefix) {
		return "It was approved already" + approval.ByText(by) + ".", nil
	}
	if !strings.HasPrefix(last.Key, v1alpha1.AnnotationKeyApprovePrefix) || last.After == nil || *last.After != string(v1alpha1.ApprovalOnce) && last.Unchanged {
		return "", nil
	}
	return a.cast(ctx, d, last), nil
}

// cast is what an approval has led to, as far as the person may read what decides about it.
func (a *impersonated) cast(ctx context.Context, d *v1alpha1.Drift, change annotate.Change) string {
	i, err := inspect.New(ctx, a.config, inspect.Options{Mapper: a.mapper})
	if err != nil {
		return ""
	}
	cast, err := i.Cast(ctx, d, change.Had, change.Has)
	if err != nil && cast.Rejected == nil {
		return "Whether other approvals are needed is not known to you; the message shows what is missing."
	}
	return castText(&cast)
}

// castText describes what became of an approval.
func castText(c *approve.Cast) string {
	sentence := func(clause string) string { return strings.TrimSuffix(clause, ".") + "." }
	switch {
	case c.Rejected != nil:
		return "It allows nothing: a rejection is in force until it is withdrawn (" + c.Rejected.Reason + ")."
	case c.Frozen && !c.Ruled:
		return "It has an effect once the freeze ends."
	case !c.Ruled:
		return "Its controller carries it out when it next reconciles."
	case !c.Stored && c.Lacks != "":
		return "The vote is not stored, and does not count: no webhook has reviewed it. " + sentence(c.Lacks)
	case c.Discounted != "":
		return "The vote does not count: " + sentence(c.Discounted) + " " + sentence(c.Lacks)
	case c.Lacks == "":
		return "The change is allowed."
	case c.Waits:
		return "The change is approved, and waits: " + sentence(c.Lacks)
	}
	return "The vote counts: " + sentence(c.Lacks)
}

// impersonationRefused is how the API server words that a client may not act as a user: by all of the user's rights, or by constrained impersonation
// (KEP-5284), whose verbs have the mode, and those on what is requested that verb.
var impersonationRefused = regexp.MustCompile(` cannot impersonate(-on)?(:[a-z-]+)* (resource|path) `)

// isImpersonation reports whether it is this process that was refused to act as a person.
func isImpersonation(err error) bool {
	status := kerrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonForbidden && impersonationRefused.MatchString(status.Status().Message)
}
