package replay

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Refusal of a recorded change, had the policies been in force.
type Refusal struct {
	// Line of the log.
	Line int
	// What was changed, by whom, and why it would be refused.
	Message string
	Reason  outcome.Reason
	// Time at which it was requested.
	Time time.Time
	// Approvable: an approval lets it through.
	Approvable bool
	// Needs of the ApprovalRules that match it; nil for none.
	Needs []allowance.Need
}

// Result of a replay.
type Result struct {
	// Decided is how many changes of desired state were decided.
	Decided int
	// Covered is how many of them were expected, or passed by a policy.
	Covered  int
	Refusals []Refusal
	// Closed are allowed changes of managed resources that would not have reached their external resources: no
	// allowance opens the gate.
	Closed []Refusal
	// Rules: there are ApprovalRules, and who may approve a refused change is reported.
	Rules bool
	// Warnings name policies with expressions that could not be evaluated.
	Warnings []string
}

// Test recorded changes against policies, in mode enforce. Allowances are granted
// and consumed along the way as they would be in a cluster (KR-10-10).
func Test(ctx context.Context, changes []Change, set *allowance.Set) (*Result, error) {
	w := newWorld()
	e, err := admission.NewEvaluator(w, admission.Options{DefaultMode: v1alpha1.ModeEnforce}, set)
	if err != nil {
		return nil, err
	}
	out := &Result{Rules: set.HasRules()}
	// granted allowances by the UID of their carrier: the recorded annotations may lack
	// them, or have those of other policies.
	granted := map[string]string{}
	for i := range changes {
		c := changes[i]
		ref := refOf(&c)
		if !c.Status && (c.OldObject != nil || c.Operation == admission.Create) {
			if err := out.replay(ctx, e, w, &c, granted); err != nil {
				return nil, fmt.Errorf("cannot replay line %d: %w", c.Line, err)
			}
		}
		w.put(ref, carrying(c.New, granted))
	}
	return out, nil
}

// refOf the changed object. Its state after the change has a name that was generated.
func refOf(c *Change) parent.Ref {
	return parent.RefOf(cmp.Or(c.New, c.OldObject))
}

// replay one change: it is decided as if the policies were in force, and what is granted
// by it is kept in granted for the changes of children that follow in the log. Changes
// that are no change of desired state are not counted.
func (r *Result) replay(ctx context.Context, e *admission.Evaluator, w *world, c *Change, granted map[string]string) error {
	req := c.Request
	req.OldObject, req.Object = enforced(carrying(c.OldObject, granted)), nil
	if c.Operation != admission.Delete {
		req.Object = enforced(asSent(c.Request.Object, req.OldObject))
	}
	if o := c.New; o != nil {
		w.roles[gk(o)] = roleOf(o)
	}
	d, err := e.Evaluate(ctx, &req)
	if err != nil {
		return err
	}
	if d.Class == outcome.ClassNone && d.Allowed {
		return nil
	}
	r.Decided++
	for _, warning := range d.Warnings {
		r.Warnings = append(r.Warnings, fmt.Sprintf("line %d: %s", c.Line, warning))
	}
	switch {
	case d.Approve != nil: // a policy opens the gate for a deletion, which passes when it is tried again
		r.Covered++
	case !d.Allowed:
		r.Refusals = append(r.Refusals, Refusal{Line: c.Line, Reason: d.Reason, Message: d.Message, Time: c.Time,
			Approvable: d.Suggestion != "" || len(d.Needs) > 0, Needs: d.Needs})
	case d.Class == outcome.ClassExpected, d.Reason == outcome.ReasonUpgraded, d.Reason == outcome.ReasonExcepted:
		r.Covered++
	}
	if d.Allowed && d.Unopened {
		r.Closed = append(r.Closed, Refusal{Line: c.Line, Message: unopened(c, &d), Time: c.Time})
	}
	if value, ok := d.Annotations[v1alpha1.AnnotationKeyAllowances]; ok && c.New != nil {
		delete(granted, string(c.New.GetUID()))
		if value != nil {
			granted[string(c.New.GetUID())] = *value
		}
	}
	return nil
}

// unopened returns what a user reads of a gate that no allowance opens, with what would.
func unopened(c *Change, d *admission.Decision) string {
	verb := v1alpha1.VerbUpdate
	if c.Operation == admission.Create {
		verb = v1alpha1.VerbCreate
	}
	what := ""
	if s := change.Summary(d.Changes, maxChanges); s != "" {
		what = " (" + s + ")"
	}
	return fmt.Sprintf("the gate of %s stays closed: no allowance with relation External covers the change%s; add to the rule that allows it: "+
		"relation External, verbs [%s]", identity.Describe(refOf(c)), what, verb)
}

// maxChanges bounds the fields that a message names.
const maxChanges = 5

// carrying the allowances of the replay instead of those that were recorded.
func carrying(o *unstructured.Unstructured, granted map[string]string) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return withAnnotation(o, v1alpha1.AnnotationKeyAllowances, granted[string(o.GetUID())])
}

// asSent returns an object before Kausality wrote to it: the annotations that the
// replay writes itself are those of the object before.
func asSent(o, old *unstructured.Unstructured) *unstructured.Unstructured {
	for _, k := range []string{v1alpha1.AnnotationKeyAllowances, v1alpha1.AnnotationKeyTrace, v1alpha1.AnnotationKeyUpdaters} {
		value := ""
		if old != nil {
			value = old.GetAnnotations()[k]
		}
		o = withAnnotation(o, k, value)
	}
	return o
}

// enforced returns an object without a mode of its own.
func enforced(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return withAnnotation(o, v1alpha1.AnnotationKeyMode, "")
}

// withAnnotation returns the object with another value of an annotation, "" for none. It
// is copied where the value differs, since the log and other changes share it.
func withAnnotation(o *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	a := o.GetAnnotations()
	if a[key] == value {
		return o
	}
	o = o.DeepCopy()
	if value == "" {
		delete(a, key)
	} else {
		if a == nil {
			a = map[string]string{}
		}
		a[key] = value
	}
	o.SetAnnotations(a)
	return o
}

// detailsOf a recorded change.
func detailsOf(c *Change, lists change.Lists) []change.Detail {
	if c.OldObject == nil || c.New == nil || c.Operation != admission.Update {
		return nil
	}
	return change.Details(change.Desired(c.OldObject.Object), change.Desired(c.New.Object), lists, false)
}
