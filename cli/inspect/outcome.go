package inspect

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Attempt is a request that an Outcome is decided for.
type Attempt string

const (
	// AttemptController: the parent's controller changes it.
	AttemptController Attempt = "ControllerChange"
	// AttemptYou: the user of the command changes it.
	AttemptYou Attempt = "YourChange"
	// AttemptDelete: the user of the command deletes it.
	AttemptDelete Attempt = "YourDeletion"
)

// Outcome of an attempt.
type Outcome struct {
	Attempt Attempt `json:"attempt"`
	// User who attempts it; empty for the controller.
	User    string         `json:"user,omitempty"`
	Allowed bool           `json:"allowed"`
	Class   outcome.Class  `json:"class,omitempty"`
	Reason  outcome.Reason `json:"reason"`
	// Code is the HTTP status of a refusal.
	Code int32 `json:"code,omitempty"`
	// Why as a clause; empty where nothing needs an explanation.
	Why string `json:"why,omitempty"`
	// Message of the refusal as the API server returns it; empty where the change is
	// not a specific one.
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// ID of the difference and Suggestion, the command that approves it; only of a
	// specific change.
	ID         string                     `json:"id,omitempty"`
	Suggestion string                     `json:"suggestion,omitempty"`
	Difference []v1alpha1.FieldDifference `json:"difference,omitempty"`
	// Needs of each ApprovalRule that matches the change.
	Needs []allowance.Need `json:"needs,omitempty"`
}

// maxFields that an outcome lists.
const maxFields = 32

// anyField is the field of a change that is not a specific one.
const anyField = "…"

// outcomes returns the outcomes of the attempts on an object; drifts are those about it.
func (i *Inspector) outcomes(ctx context.Context, o, patched *unstructured.Unstructured, drifts []v1alpha1.Drift) ([]Outcome, error) {
	certain := patched != nil
	if !certain {
		patched = anyChange(o)
	}
	var out []Outcome
	for _, a := range []Attempt{AttemptController, AttemptYou, AttemptDelete} {
		req := i.Request(a, o, patched)
		if a == AttemptController {
			req.Held = heldOn(o, drifts)
		}
		d, err := i.Decide(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("cannot decide: %w", err)
		}
		if a == AttemptController && d.Reason == outcome.ReasonNoParent {
			continue // it has no parent whose controller could change it
		}
		if a == AttemptDelete {
			d.Changes = nil
		}
		out = append(out, i.outcome(a, d, certain || a == AttemptDelete))
	}
	return out, nil
}

// Decide decides a request as the webhook would, without any effect.
func (i *Inspector) Decide(ctx context.Context, req *admission.Request) (admission.Decision, error) {
	if i.unread != nil {
		return admission.Decision{}, i.unread
	}
	req.DryRun, req.Time = true, i.options.Now()
	set, err := i.policies(ctx)
	if err != nil {
		return admission.Decision{}, err
	}
	e, err := admission.NewEvaluator(question{world: i.world, inspector: i, ctx: ctx, object: req.OldObject},
		admission.Options{DefaultMode: i.options.DefaultMode, Separates: true}, set)
	if err != nil {
		return admission.Decision{}, err
	}
	d, err := e.Live(ctx, req)
	if err == nil {
		err = i.Direct.Failed()
	}
	return d, err
}

// Request returns the request of an attempt on an object; patched is the object after the change.
func (i *Inspector) Request(a Attempt, o, patched *unstructured.Unstructured) *admission.Request {
	req := &admission.Request{
		Operation: admission.Update, Kind: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
		OldObject: o, Object: patched, User: i.User, FieldManager: "kubectl",
	}
	switch a {
	case AttemptController:
		req.Actor, req.User, req.FieldManager = admission.ActorParentController, subject.User{}, ""
	case AttemptDelete:
		req.Operation, req.Object, req.FieldManager = admission.Delete, nil, ""
	}
	return req
}

// outcome returns the outcome of an attempt. Unless certain, the change itself is unknown and only its
// class and verdict are reported.
func (i *Inspector) outcome(a Attempt, d admission.Decision, certain bool) Outcome {
	out := Outcome{Attempt: a, Allowed: d.Allowed, Class: d.Class, Reason: d.Reason, Code: d.Code, Why: d.Why, Needs: d.Needs}
	if a != AttemptController {
		out.User = i.User.Name
	}
	if certain {
		out.Message, out.ID, out.Suggestion, out.Warnings = d.Message, d.Digest.ID(), d.Suggestion, d.Warnings
		out.Difference = change.Fields(d.Changes, maxFields)
		if d.Held != nil {
			out.Warnings = append(out.Warnings, "a part of it stays held: "+d.Held.Message)
		}
	}
	return out
}

// anyChange returns the object with a field of its desired state set that no schema
// has: it differs from every change that was approved by its id.
func anyChange(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	if spec, ok := out.Object["spec"].(map[string]any); ok {
		spec[anyField] = true
		return out
	}
	out.Object[anyField] = true
	return out
}
