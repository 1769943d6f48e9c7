package view

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Object is what is shown of one object.
type Object struct {
	Known
	Ref   v1alpha1.ObjectReference
	Title string
	// Waiting changes about it; More are left out.
	Waiting []channel.Entry
	More    int
	// Decided about it, a line each.
	Decided []string
	// Freeze is the action about its freeze: that it begins, or ends.
	Freeze channel.Action
}

// Object is one object: from the user to the external system, what waits about it, and what was decided.
func (v *View) Object(ctx context.Context, ref v1alpha1.ObjectReference) (*Object, error) {
	o, err := v.object(ctx, ref)
	if err != nil {
		return nil, err
	}
	i, err := v.inspector(ctx)
	if err != nil {
		return nil, err
	}
	out := &Object{Ref: ref, Title: channel.Describe(ref)}
	out.Known = trees{v.reader}.tree(ctx, i, o, nil)
	w, err := i.WaitingAbout(ctx, o)
	out.note("What waits is not known", err)
	for n := range w.Drifts {
		d := &w.Drifts[n]
		if !channel.Open(d) {
			continue
		}
		if len(out.Waiting) == maxChanges {
			out.More++
			continue
		}
		out.Waiting = append(out.Waiting, channel.EntryOf(d, channel.Ruling{}))
	}
	out.Decided = decidedOn(o, v.options.Now())
	f, err := i.FreezeAbout(ctx, o)
	out.note("Whether it is frozen is not known", err)
	if f != nil {
		out.Decided = append(out.Decided, f.Why()+"; to end that: "+channel.OwnCommands(f.End(), nil))
	}
	out.Freeze = channel.FreezeAction(o.GetAnnotations(), v.options.Now())
	return out, nil
}

// decidedOn returns what was decided on an object: its rejections and its snooze.
func decidedOn(o *unstructured.Unstructured, now time.Time) []string {
	set := approval.ParseAt(o.GetAnnotations(), now)
	out := lists.Map(set.Rejections, func(r v1alpha1.Rejection) string {
		return "rejects changes of " + r.Kind + " " + cmp.Or(r.Name, r.Resource) + ": " + r.Reason
	})
	if set.Snoozed(now) {
		out = append(out, channel.RulingLines(&v1alpha1.Drift{}, channel.Ruling{Snoozed: set.Snooze})...)
	}
	return out
}
