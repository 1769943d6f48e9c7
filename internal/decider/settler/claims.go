package settler

import (
	"context"
	"errors"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// claimPoll is when a claim without a known outcome is checked again.
const claimPoll = time.Second

const (
	// searchEvery is how often all objects of a kind are searched for the child of a claim.
	searchEvery = 5 * time.Second
	// maxSearches bounds the claims for which the last search is remembered.
	maxSearches = 1024
)

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
		var child settling.Child
		if c.Child != nil {
			if child, err = s.Child(ctx, c); err != nil {
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
	maps.Copy(edits, approval.Counted(p.Annotations))
	if len(used) == 0 {
		return again, nil
	}
	maps.Copy(edits, approval.Remove(p.Annotations, func(e approval.Entry) bool { return used[e.Content] }))
	edits[v1alpha1.AnnotationKeyClaims] = new(claims.String())
	return again, nil
}

// Child of a claim, read live.
func (s *Settler) Child(ctx context.Context, c v1alpha1.Claim) (settling.Child, error) {
	if c.Child.Name == "" {
		return s.created(ctx, c)
	}
	ref := childRef(c)
	ref.Name = c.Child.Name
	o, err := s.states.Get(ctx, ref, true)
	if errors.Is(err, admission.ErrNotFound) {
		return settling.Child{}, nil
	}
	if err != nil {
		return settling.Child{}, err
	}
	return settling.Child{State: o.State}, nil
}

// childRef returns the kind and the namespace of the child of a claim.
func childRef(c v1alpha1.Claim) parent.Ref {
	return parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(c.Child.APIVersion, c.Child.Kind), Namespace: c.Child.Namespace}
}

// created child of a claim for a creation without a name: the object whose hop has the id of the claim. Where its
// kind is watched, it is looked for there, and once more past the watch before the claim is released. Other
// kinds are listed, every few seconds.
func (s *Settler) created(ctx context.Context, c v1alpha1.Claim) (settling.Child, error) {
	ref := childRef(c)
	if _, watched := s.cluster.States.Seen(ref); watched {
		for _, o := range s.cluster.States.List(ref.GroupVersionKind) {
			if o.Namespace == ref.Namespace && bears(o.Annotations, c) {
				return settling.Child{State: o.State}, nil
			}
		}
		if !settling.Due(c, s.now()) {
			return settling.Child{}, nil
		}
	}
	if _, lately := s.searched.Get(c.ID); lately && !settling.Due(c, s.now()) {
		return settling.Child{}, nil
	}
	s.searched.Add(c.ID, true, searchEvery)
	name, complete, err := s.cluster.Find(ctx, ref, func(o metav1.Object) bool { return bears(o.GetAnnotations(), c) })
	if name == "" || err != nil {
		return settling.Child{Searched: complete}, err
	}
	ref.Name = name
	return settling.Child{State: &parent.State{Ref: ref, Annotations: map[string]string{
		v1alpha1.AnnotationKeyTrace: trace.Trace{{Approval: &v1alpha1.HopApproval{Claim: c.ID}}}.String(),
	}}}, nil
}

// bears reports whether the hop of an object with these annotations has a claim.
func bears(annotations map[string]string, c v1alpha1.Claim) bool {
	own := trace.Of(annotations).Own()
	return own != nil && own.Approval != nil && own.Approval.Claim == c.ID
}
