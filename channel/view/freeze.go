package view

import (
	"cmp"
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// ConfirmFreeze shows what a freeze of an object, or its end, will do (KR-17-17).
func (v *View) ConfirmFreeze(ctx context.Context, ref v1alpha1.ObjectReference, a channel.Action) (*Confirmation, error) {
	o, err := v.object(ctx, ref)
	if err != nil {
		return nil, err
	}
	return v.freezing(o, ref, &Confirmation{Action: a})
}

// freezing confirms the freeze of an object as it is stored now, or its end.
func (v *View) freezing(o *unstructured.Unstructured, ref v1alpha1.ObjectReference, c *Confirmation) (*Confirmation, error) {
	is := channel.FreezeAction(o.GetAnnotations(), v.options.Now())
	if c.Problem != "" && (c.Action == channel.ActionFreeze || c.Action == channel.ActionUnfreeze) {
		c.Action = is // as it is now
	}
	if c.Action != is {
		return nil, &State{Status: http.StatusConflict, Title: "That is not possible for this object",
			Text: "Nothing was done. Open the object: it shows what may be done."}
	}
	c.Verb, c.About, c.Shown = channel.Label(c.Action), channel.Describe(ref), channel.FreezeFingerprint(o.GetAnnotations())
	would := channel.Click{Action: c.Action, Shown: c.Shown, Reason: cmp.Or(c.Reason, "…"), At: v.options.Now()}
	do, _ := channel.DecideFreeze(would, ref, o.GetAnnotations(), v.options.User)
	c.Writes = lists.Map(do.Writes, func(w channel.Write) string { return c.written(w, do.On, o.GetAnnotations()) })
	if c.Action == channel.ActionFreeze {
		c.Effects = []string{"All changes below " + c.About + " are refused, requested ones too, until it is unfrozen. Your reason is part of each refusal."}
		return c, nil
	}
	by := "It is frozen"
	if f := approval.FreezeOf(o.GetAnnotations(), v.options.Now()); f != nil {
		by += annotate.FrozenBy(*f)
	}
	c.Effects = []string{by + ".", "Changes that were requested in the meantime are carried out then."}
	return c, nil
}

// DecideFreeze freezes an object, or ends that, as it was confirmed. It returns what was done, or what is to be confirmed in its place.
func (v *View) DecideFreeze(ctx context.Context, ref v1alpha1.ObjectReference, f Form) (done string, again *Confirmation, err error) {
	now := v.options.Now()
	o, err := v.object(ctx, ref)
	if err != nil {
		return "", nil, v.options.kept(err)
	}
	c := &Confirmation{Action: f.Action, Reason: Entered(f.Reason)}
	click := channel.Click{Action: c.Action, Shown: f.Shown, Reason: c.Reason, At: now}
	on := ref
	on.UID = o.GetUID()
	do, refused := channel.DecideFreeze(click, on, o.GetAnnotations(), v.options.User)
	switch refused {
	case "":
	case channel.RefusedIncomplete:
		c.problem(http.StatusUnprocessableEntity, "Nothing was done", "Enter a reason.")
	case channel.RefusedChanged:
		c.problem(http.StatusConflict, "Nothing was done: its freeze has changed since it was shown to you", changedWhy)
	default:
		c.Status = http.StatusConflict
	}
	if refused != "" {
		again, err = v.freezing(o, ref, c)
		return "", again, err
	}
	_, err = v.actor.Write(ctx, nil, do)
	v.forget()
	if err != nil {
		state := v.options.notWritten(err)
		c.problem(state.Status, state.Title, state.Text)
		again, err = v.freezing(o, ref, c)
		return "", again, err
	}
	return doneTexts[c.Action], nil, nil
}
