package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Review is a write of a Rollout or ClusterRollout by a user who is not a component of Kausality.
type Review struct {
	// Stored and Incoming annotations; Stored is nil for a new object.
	Stored, Incoming map[string]string
	// New: it is created.
	New  bool
	Spec *v1alpha1.RolloutSpec
	// Was is the stored spec; zero for a new object.
	Was v1alpha1.RolloutSpec
	// Plan is the id of its plan; "" before it is made.
	Plan string
	// Namespace of a Rollout; "" of a ClusterRollout.
	Namespace string
	User      subject.User
	Manager   string
	// Groups that ApprovalRules name.
	Groups sets.Set[string]
	Now    time.Time
}

// Outcome of a Review.
type Outcome struct {
	// Refused is why the write is refused, as a sentence; "" where it is not.
	Refused string
	// Edits of annotations; a nil value removes.
	Edits    map[string]*string
	Warnings []string
	// Approves: the write adds or withdraws a vote, or lets a wave begin that would not (KR-13-15).
	Approves bool
}

// Decide makes the decision about the write (KR-14-57): the votes are those of requests, as on any
// object. A new object has no votes, nor has one that is restored.
func (r Review) Decide() Outcome {
	if errs := Invalid(r.Spec, r.Namespace); len(errs) > 0 {
		return Outcome{Refused: strings.Join(errs, "; ")}
	}
	out := Outcome{Edits: map[string]*string{}, Approves: r.Spec.Proceed > r.Was.Proceed || r.Was.Stop && !r.Spec.Stop}
	if r.New {
		out.Edits = approval.Discard(r.Incoming)
		if len(out.Edits) > 0 {
			out.Warnings = append(out.Warnings, "approvals of a Rollout are given once its plan is made; those that it is created with are removed")
		}
		return out
	}
	if refused := r.protect(out.Edits); refused != "" {
		return Outcome{Refused: refused}
	}
	after := annotation.Apply(r.Incoming, out.Edits)
	voter := approval.Voter{Name: r.User.Name, Machine: r.User.IsMachine(), Groups: r.User.Groups, Extra: r.User.Extra}
	ballot := &approval.Ballot{Vote: voter.Vote(r.Manager, r.Groups, r.Now), Rules: true, Stored: r.Stored}
	planned := func(id string) (approval.Known, bool) { return approval.Known{Named: id == r.Plan}, id == r.Plan }
	if why, next := ballot.Refused(after, planned); why != "" {
		return Outcome{Refused: why + ". " + next}
	}
	maps.Copy(out.Edits, approval.Admit(after, 1, 0, r.Now, nil, ballot))
	written, removed := approval.Changed(r.Incoming, r.Stored, nil)
	out.Approves = out.Approves || slices.ContainsFunc(slices.Concat(written, removed), v1alpha1.HoldsApprovals)
	for _, key := range written {
		if id := strings.TrimPrefix(key, v1alpha1.AnnotationKeyApprovePrefix); v1alpha1.IsApprove(key) && id != r.Plan {
			out.Warnings = append(out.Warnings, fmt.Sprintf("the plan of this Rollout is %q, not %q: the vote is for another one", r.Plan, id))
		}
	}
	return out
}

// protect puts the claims back, and refuses approvals that do not name one plan.
func (r Review) protect(edits map[string]*string) (refused string) {
	claims, had := r.Stored[v1alpha1.AnnotationKeyClaims]
	now, has := r.Incoming[v1alpha1.AnnotationKeyClaims]
	switch {
	case had && (!has || now != claims):
		edits[v1alpha1.AnnotationKeyClaims] = &claims
	case !had && has:
		edits[v1alpha1.AnnotationKeyClaims] = nil
	}
	for key, value := range r.Incoming {
		if old, was := r.Stored[key]; was && old == value || !v1alpha1.HoldsApprovals(key) {
			continue
		}
		if key == v1alpha1.AnnotationKeyApprovals {
			return "a Rollout is approved as a whole, by annotation " + v1alpha1.AnnotationKeyApprovePrefix + r.Plan + "=once"
		}
		if err := approval.Validate(key, value); err != nil {
			return fmt.Sprintf("annotation %s does not parse: %v", key, err)
		}
		if e := approval.Parse(map[string]string{key: value}); len(e.Approvals) > 0 && e.Approvals[0].Mode != v1alpha1.ApprovalOnce {
			return fmt.Sprintf("annotation %s must be once, withdraw or break-glass: REASON, not %q", key, value)
		}
	}
	return ""
}

// Votes returns the votes for a plan, and what they lack by the Lacks of a Query; "" where they lack
// nothing.
func Votes(annotations map[string]string, plan string, now time.Time, lacks func([]v1alpha1.Vote) (string, bool)) (votes []v1alpha1.Vote, lacking string) {
	return approval.ParseAt(annotations, now).Tally(approval.Query{Digests: []change.Digest{change.Digest(plan)}, Lacks: lacks})
}
