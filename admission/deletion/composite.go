package deletion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// compositeDeletion decides about all managed resources below a composite, a Claim or an instance of a graph
// (KR-08-12). One that enforces makes the decision one of mode enforce.
func (ev *decider) compositeDeletion() (*outcome.Verdict, Finding, error) {
	root := parent.Sum(ev.Req.OldObject, ev.Kind.Role)
	below, err := ev.World.Managed(ev.ctx, root)
	if err != nil {
		return ev.unlisted(root, err), Finding{}, nil
	}
	if ev.Req.Orphans && ev.Kind.Role == parent.RoleComposite {
		return ev.orphaningDeletion(root, below), Finding{}, nil
	}
	j := judge(ev.Facts, root, root, "")
	j.digest, j.exact = identity.WholeOf(root, below).Digest, true
	j.mode, j.byPolicy, j.together = v1alpha1.ModeEnforce, true, gating.Destroyed(ev.PolicySet(), root, below)
	var names []string
	var orphans []parent.Ref
	for _, mr := range below {
		blocks, err := ev.blocks(mr)
		if err != nil {
			return nil, Finding{}, err
		}
		decision := allowance.DeletionUndeclared
		if blocks {
			decision = ev.PolicySet().ExternalDeletion(gating.Governor(ev.PolicySet(), root, mr), mr.GroupKind())
		}
		if decision == allowance.DeletionOrphans {
			orphans = append(orphans, mr.Ref)
			continue
		}
		if !blocks {
			continue
		}
		j.byPolicy = j.byPolicy && decision == allowance.DeletionAllowed
		names, j.blocked = append(names, identity.Describe(mr.Ref)), append(j.blocked, mr)
	}
	if len(j.blocked) == 0 {
		v, d := ev.recount(root, below)
		d.Orphans = orphans
		return v, d, nil
	}
	if v, d, ok := ev.retargetedBelow(root, j.blocked); ok {
		return v, d, nil
	}
	const show = 10
	if extra := len(names) - show; extra > 0 {
		names = append(names[:show], fmt.Sprintf("%d more", extra))
	}
	j.why = "it would leave the external resources of these behind: " + strings.Join(names, ", ")
	v, d := ev.blockedDeletion(j)
	d.Orphans = orphans
	return v, d, nil
}

// orphaningDeletion decides about the deletion of a composite that deletes none of its composed resources (of a
// Claim, Crossplane deletes the composite). A freeze or rejection of the composite does not apply to the managed
// resources afterwards (KR-13-61).
func (ev *decider) orphaningDeletion(root *parent.State, below []*parent.State) *outcome.Verdict {
	if len(below) == 0 || ev.Mode != v1alpha1.ModeEnforce {
		return nil
	}
	freeze, err := ev.FreezeOf(ev.ctx, root, ev.live)
	switch {
	case err != nil:
		return outcome.Refuse(ev.Facts, outcome.ClassNone, outcome.UnknownFreeze(err))
	case freeze != nil:
		return outcome.Refuse(ev.Facts, outcome.ClassNone, outcome.Frozen(freeze))
	}
	if ev.Options.ApproverRBAC.Required() || len(ev.PolicySet().MatchingAny(approve.Destroying(ev.ctx, ev.Facts, below))) > 0 {
		if r := actor.Authorize(ev.ctx, ev.Facts, ev.warnings, "a deletion that orphans the managed resources"); r != nil {
			return outcome.Refuse(ev.Facts, outcome.ClassNone, *r)
		}
	}
	return nil
}

// unlisted returns the verdict where the managed resources below cannot be listed.
func (ev *decider) unlisted(root *parent.State, err error) *outcome.Verdict {
	if ev.Mode == v1alpha1.ModeLog {
		ev.warnings.Add(fmt.Sprintf("cannot list the managed resources below %s: %v", identity.Describe(root.Ref), err))
		return nil
	}
	return outcome.Refuse(ev.Facts, outcome.ClassNone, outcome.Refusal{Code: outcome.CodeInternal, Reason: outcome.ReasonParentUnreadable,
		Why: fmt.Sprintf("the managed resources below it cannot be read: %v", err), Next: "Try again; where there are too many, delete what is below it first."})
}

// blocks reports whether a managed resource below prevents the deletion: it would be orphaned, and its mode is
// enforce or Kausality's mask still withholds Delete.
func (ev *decider) blocks(mr *parent.State) (bool, error) {
	mode, invalid, err := ev.ModeOf(ev.ctx, mr.Annotations[v1alpha1.AnnotationKeyMode], mr.Namespace, ev.World.Settings(mr.Ref, mr.Labels))
	if err != nil {
		return false, err
	}
	ev.warnings.Add(invalid...)
	return (mode == v1alpha1.ModeEnforce || gating.WithholdsDelete(mr)) && gating.WouldOrphan(mr) != "", nil
}

// retargetedBelow decides about a managed resource, below a composite that is deleted, which represents another
// external resource than when its gate was last opened or closed. An approval of the whole does not apply to that
// resource (KR-13-18).
func (ev *decider) retargetedBelow(root *parent.State, blocked []*parent.State) (*outcome.Verdict, Finding, bool) {
	i := slices.IndexFunc(blocked, gating.Retargeted)
	if i < 0 {
		return nil, Finding{}, false
	}
	mr := blocked[i]
	j := judge(ev.Facts, root, mr, "the external resource of "+identity.Describe(mr.Ref)+
		" is another one than before, and an approval of the whole is not about it")
	if mr.Parent.Name != "" {
		j.digest = identity.DeletionDigest(&parent.State{Ref: mr.Parent}, mr) // that of the gate, wherever it is approved
	}
	j.blocked, j.mode = []*parent.State{mr}, v1alpha1.ModeEnforce
	v, d := ev.blockedDeletion(j)
	return v, d, true
}
