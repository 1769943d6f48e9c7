package page

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

// objects are the pages of one object, and of its freeze.
type objects struct{ *Page }

// objectData of one object.
type objectData struct {
	known
	Object string
	// Waiting changes about it; More are left out.
	Waiting []listed
	More    int
	// Decided about it, a line each.
	Decided []string
	// Freeze is the link that freezes or unfreezes it.
	Freeze link
}

// referenced is the object that a query names.
func referenced(q *query) v1alpha1.ObjectReference {
	v := q.URL.Query()
	return v1alpha1.ObjectReference{APIVersion: v.Get("apiVersion"), Kind: v.Get("kind"), Namespace: v.Get("namespace"), Name: v.Get("name")}
}

// show one object: from the user to the external system, what waits about it, and what was decided.
func (p objects) show(ctx context.Context, q *query) (*answer, error) {
	ref := referenced(q)
	o, err := p.reader.object(ctx, ref)
	if err != nil {
		return nil, err
	}
	i, err := p.reader.inspector(ctx)
	if err != nil {
		return nil, err
	}
	data := &objectData{Object: channel.Describe(ref)}
	data.known = trees(p).tree(ctx, i, o, nil)
	w, err := i.WaitingAbout(ctx, o)
	if err != nil {
		data.Notes = append(data.Notes, "What waits is not known: "+err.Error())
	}
	for n := range w.Drifts {
		d := &w.Drifts[n]
		if !channel.Open(d) {
			continue
		}
		if len(data.Waiting) == maxChanges {
			data.More++
			continue
		}
		e := channel.EntryOf(d, channel.Ruling{})
		data.Waiting = append(data.Waiting, listed{Entry: &e, Href: p.links.change(d, ""), Change: channel.Clip(e.Change)})
	}
	data.Decided = decidedOn(o, p.options.Now())
	f, err := i.FreezeAbout(ctx, o)
	if err != nil {
		data.Notes = append(data.Notes, "Whether it is frozen is not known: "+err.Error())
	}
	if f != nil {
		data.Decided = append(data.Decided, f.Why()+"; to end that: "+channel.OwnCommands(f.End(), nil))
	}
	a := channel.FreezeAction(o.GetAnnotations(), p.options.Now())
	data.Freeze = link{Text: labels[a], Href: p.links.freeze(ref, a), Class: string(a)}
	return &answer{live: true, template: "object.html", title: channel.Clip(data.Object), data: data}, nil
}

// decidedOn an object: its rejections and its snooze.
func decidedOn(o *unstructured.Unstructured, now time.Time) (out []string) {
	set := approval.ParseAt(o.GetAnnotations(), now)
	for _, r := range set.Rejections {
		out = append(out, "rejects changes of "+r.Kind+" "+cmp.Or(r.Name, r.Resource)+": "+r.Reason)
	}
	if set.Snoozed(now) {
		out = append(out, channel.RulingLines(&v1alpha1.Drift{}, channel.Ruling{Snoozed: set.Snooze})...)
	}
	return out
}

// confirm shows what a freeze, or its end, will do.
func (p objects) confirm(ctx context.Context, q *query) (*answer, error) {
	ref := referenced(q)
	o, err := p.reader.object(ctx, ref)
	if err != nil {
		return nil, err
	}
	return p.freezing(o, ref, &confirmation{Action: channel.Action(q.PathValue("action"))}, http.StatusOK)
}

// freezing confirms the freeze of an object as it is stored now, or its end.
func (p objects) freezing(o *unstructured.Unstructured, ref v1alpha1.ObjectReference, c *confirmation, status int) (*answer, error) {
	is := channel.FreezeAction(o.GetAnnotations(), p.options.Now())
	if c.Problem != "" && (c.Action == channel.ActionFreeze || c.Action == channel.ActionUnfreeze) {
		c.Action = is // as it is now
	}
	if c.Action != is {
		return nil, &stateError{Status: http.StatusConflict, Title: "That is not possible for this object",
			Text: "Nothing was done. Open the object: it shows what may be done."}
	}
	c.Verb, c.About, c.Back, c.Shown = labels[c.Action], channel.Describe(ref), p.links.object(ref), channel.FreezeFingerprint(o.GetAnnotations())
	c.To = p.links.freeze(ref, c.Action) // it may be shown where the other one was sent
	c.Writes = []string{"annotation " + v1alpha1.AnnotationKeyFreeze + " of " + c.About}
	if c.Action == channel.ActionFreeze {
		c.Effects = []string{"All changes below " + c.About + " are refused, requested ones too, until it is unfrozen. Your reason is part of each refusal."}
		return &answer{status: status, template: "confirm.html", title: c.Verb + ": " + channel.Clip(c.About), data: c}, nil
	}
	by := "It is frozen"
	if f := approval.FreezeOf(o.GetAnnotations(), p.options.Now()); f != nil {
		by += " by " + cmp.Or(f.User, "an unknown user")
		if f.At != nil {
			by += " since " + f.At.UTC().Format(time.RFC3339)
		}
		if f.Message != "" {
			by += " (" + f.Message + ")"
		}
	}
	c.Effects = []string{by + ".", "Changes that were requested in the meantime are carried out then."}
	return &answer{status: status, template: "confirm.html", title: c.Verb + ": " + channel.Clip(c.About), data: c}, nil
}

// decide freezes an object, or ends that, as it was confirmed.
func (p objects) decide(ctx context.Context, q *query) (*answer, error) {
	ref, now := referenced(q), p.options.Now()
	o, err := p.reader.object(ctx, ref)
	if err != nil {
		return nil, p.kept(q, err)
	}
	c := &confirmation{Action: channel.Action(q.PathValue("action")), Reason: entered(q.PostForm.Get("reason"))}
	click := channel.Click{Action: c.Action, Shown: q.PostForm.Get("shown"), Reason: c.Reason, At: now}
	ref.UID = o.GetUID()
	do, refused := channel.DecideFreeze(click, ref, o.GetAnnotations(), p.options.User)
	switch refused {
	case "":
	case channel.RefusedIncomplete:
		c.Problem, c.Why = "Nothing was done", "Enter a reason."
		return p.freezing(o, ref, c, http.StatusUnprocessableEntity)
	case channel.RefusedChanged:
		c.Problem, c.Why = "Nothing was done: its freeze has changed since it was shown to you", "This is what it is now. Look at it, and decide again."
		return p.freezing(o, ref, c, http.StatusConflict)
	default:
		return p.freezing(o, ref, c, http.StatusConflict)
	}
	_, err = p.actor.Write(ctx, nil, do)
	p.reader.forget()
	if err != nil {
		state := notWritten(err)
		c.Problem, c.Why = state.Title, state.Text
		return p.freezing(o, ref, c, state.Status)
	}
	q.session.note(done[c.Action])
	return &answer{to: p.links.object(ref)}, nil
}
