package settler

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// claimPoll is when a claim is checked again whose outcome is not known yet.
const claimPoll = time.Second

// claims edits the pending claims of approvals on a parent: used once the change was stored, released if
// it is known that it was not (KR-05-36). Claims for external drift are the gate's.
func (s *Settler) claims(ctx context.Context, p *parent.State, edits map[string]*string) (again time.Duration, err error) {
	all := approval.ParseClaims(p.Annotations[v1alpha1.AnnotationKeyClaims])
	claims, used := all, map[string]bool{}
	for _, c := range all {
		if c.State != v1alpha1.ClaimPending || c.Relation == v1alpha1.RelationExternal {
			continue
		}
		if left := c.At.Add(followerPatience).Sub(s.now()); !s.leader.Load() && left > 0 {
			again = soonest(again, left)
			continue
		}
		var child *parent.State
		if c.Child != nil {
			if child, err = s.Child(ctx, *c.Child); err != nil {
				return 0, err
			}
		}
		switch next := settling.ClaimOutcome(c, child, s.now()); next {
		case "":
			again = soonest(again, claimPoll)
		default:
			claims = claims.Set(c.ID, next, s.now())
			used[c.Content] = next == v1alpha1.ClaimUsed
		}
	}
	if len(used) == 0 {
		return again, nil
	}
	for k, v := range approval.Remove(p.Annotations, func(e approval.Entry) bool { return used[e.Content] }) {
		edits[k] = v
	}
	value := claims.String()
	edits[v1alpha1.AnnotationKeyClaims] = &value
	return again, nil
}

// Child of a claim, read live; nil if it does not exist, or has no name to find it by.
func (s *Settler) Child(ctx context.Context, c v1alpha1.ClaimChild) (*parent.State, error) {
	if c.Name == "" {
		return nil, nil // none
	}
	ref := parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(c.APIVersion, c.Kind), Namespace: c.Namespace, Name: c.Name}
	o, err := s.states.Get(ctx, ref, true)
	if errors.Is(err, admission.ErrNotFound) {
		return nil, nil // none
	}
	if err != nil {
		return nil, err
	}
	return o.State, nil
}
