package actor

import (
	"context"
	"fmt"
	"strings"

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

// Actor reads and writes as the user of its configuration.
type Actor struct {
	config  *rest.Config
	mapper  meta.RESTMapper
	client  dynamic.Interface
	manager string
}

// New Actor. manager is the field manager of what it writes: votes have it as their via.
func New(config *rest.Config, mapper meta.RESTMapper, manager string) (*Actor, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client: %w", err)
	}
	return &Actor{config: config, mapper: mapper, client: client, manager: manager}, nil
}

// RefusedError is an error of the decision itself, which the user is answered.
type RefusedError struct{ Err error }

// Error returns that of the decision.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *RefusedError) Unwrap() error { return e.Err }

// resource returns the resource of an object.
func (a *Actor) resource(on v1alpha1.ObjectReference) (dynamic.ResourceInterface, error) {
	gvk := schema.FromAPIVersionAndKind(on.APIVersion, on.Kind)
	m, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("cannot find the resource of kind %s: %w", gvk.GroupKind(), err)
	}
	return inspect.ClientOf(a.client, m, on.Namespace), nil
}

// Holder returns the annotations of an object that holds decisions. That another object has its name now is a RefusedError.
func (a *Actor) Holder(ctx context.Context, on v1alpha1.ObjectReference) (map[string]string, error) {
	c, err := a.resource(on)
	if err != nil {
		return nil, err
	}
	o, err := c.Get(ctx, on.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if on.UID != "" && o.GetUID() != on.UID {
		return nil, &RefusedError{fmt.Errorf("%s was deleted, and another object has its name now", on.Name)}
	}
	return o.GetAnnotations(), nil
}

// Write writes a decision about a change; nil for one about an object. It returns what an approval has led to as sentences, empty for other decisions. What
// cannot be written as it is stored now is a RefusedError.
func (a *Actor) Write(ctx context.Context, d *v1alpha1.Drift, do channel.Decision) (string, error) {
	c, err := a.resource(do.On)
	if err != nil {
		return "", err
	}
	var last annotate.Change
	for _, w := range do.Writes {
		edit := func(annotations map[string]string) (*string, error) {
			next, err := w.Edit(annotations)
			if err != nil {
				return nil, &RefusedError{err}
			}
			return next, nil
		}
		writer := annotate.Writer{Client: c, Name: do.On.Name, UID: do.On.UID, Manager: a.manager}
		if last, err = writer.Annotate(ctx, w.Key, edit); err != nil {
			return "", err
		}
	}
	if d == nil || !strings.HasPrefix(last.Key, v1alpha1.AnnotationKeyApprovePrefix) {
		return "", nil
	}
	if by := channel.Carried(d, last.Has); by != nil && last.Unchanged {
		return "It was approved already" + approval.ByText(by) + ".", nil
	}
	if last.After == nil || *last.After != string(v1alpha1.ApprovalOnce) && last.Unchanged {
		return "", nil
	}
	return a.cast(ctx, d, last), nil
}

// cast returns what an approval has led to, as far as the user may read what decides about it.
func (a *Actor) cast(ctx context.Context, d *v1alpha1.Drift, change annotate.Change) string {
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
		return "The vote is not stored, and does not count: no webhook has reviewed it. Approve it again. " + sentence(c.Lacks)
	case c.Discounted != "":
		return "The vote does not count: " + sentence(c.Discounted) + " " + sentence(c.Lacks)
	case c.Lacks == "":
		return "The change is allowed."
	case c.Waits:
		return "The change is approved, and waits: " + sentence(c.Lacks)
	}
	return "The vote counts: " + sentence(c.Lacks)
}
