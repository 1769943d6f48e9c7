package policystore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kausality-io/function-kausality/admission/settling"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// finishEvery is how often pending claims are checked. A rule has at most one,
	// usually for less than half a minute.
	finishEvery = time.Second
	// finishAgain is the interval after an error.
	finishAgain = 10 * time.Second
	// doubtFor is how long a child may be unreadable before its claim counts as
	// used.
	doubtFor = time.Hour
)

// Children reads the child of a claim live.
type Children func(ctx context.Context, c v1alpha1.Claim) (settling.Child, error)

// FinishClaims of mode once until the context ends, where this replica leads: a
// claim is used once its change is stored, and is released where it is known that
// the change was not (KR-05-36). It needs no memory of the replica that claimed:
// that may have ended.
func (s *Store) FinishClaims(ctx context.Context, children Children) {
	wait := finishEvery
	for ctx.Err() == nil {
		s.pause(ctx, wait)
		wait = finishEvery
		if !s.leads.Load() {
			continue
		}
		for _, e := range s.Policies().Pending() {
			err := s.finish(ctx, e, children)
			if err != nil && ctx.Err() == nil && !kerrors.IsConflict(err) && !kerrors.IsNotFound(err) {
				s.log.Error(err, "cannot finish the claims of a policy; retrying", "policy", e.Key())
				wait = finishAgain
			}
		}
	}
}

// finish the pending claims of one policy. A child that cannot be read delays no
// other claim.
func (s *Store) finish(ctx context.Context, e *allowance.Exception, children Children) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var failed error
	var landings []allowance.Landing
	for _, c := range e.Claims {
		if c.State != v1alpha1.ClaimPending || c.Child == nil {
			continue
		}
		claim := v1alpha1.Claim{ID: c.ID, At: c.At, Child: c.Child}
		child, err := children(ctx, claim)
		switch {
		case err != nil && s.now().Sub(c.At.Time) > doubtFor:
			landings = append(landings, allowance.Landing{Claim: c, State: v1alpha1.ClaimUsed})
			continue
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("cannot read %s %s: %w", c.Child.Kind, c.Child.Name, err))
			continue
		}
		if state := settling.ClaimOutcome(claim, child, s.now()); state != "" {
			landings = append(landings, allowance.Landing{Claim: c, State: state})
		}
	}
	if len(landings) == 0 {
		return failed
	}
	return errors.Join(failed, s.land(ctx, e, landings))
}

// land writes the state of claims. allowance.Finished changes only the claims
// that the state was determined for: a rule that was claimed again in the
// meantime is kept.
func (s *Store) land(ctx context.Context, e *allowance.Exception, landings []allowance.Landing) error {
	client := s.resource(e.Namespace)
	o, err := client.Get(ctx, e.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if o.GetUID() != e.UID {
		return nil // another policy of the same name
	}
	claims, err := claimsOf(o)
	if err != nil {
		return err
	}
	return writeClaims(ctx, client, o, allowance.Finished(claims, landings))
}
