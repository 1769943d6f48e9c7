package gating

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Uses returns the uses of approvals that a gate annotation shows, comma-separated in its claim: ids
// of claims, and the content of an approval for the deletion of a holder with all below it. Every
// transition carries on those that are not finished, so that a claim that no gate shows never opened
// one.
func Uses(g v1alpha1.Gate) []string {
	return strings.FieldsFunc(g.Claim, func(r rune) bool { return r == ',' })
}

// HasUse reports whether a gate was opened by a use of an approval.
func HasUse(g v1alpha1.Gate, id string) bool { return slices.Contains(Uses(g), id) }

func withUse(claim, id string) string {
	if claim == "" || HasUse(v1alpha1.Gate{Claim: claim}, id) {
		return id
	}
	return claim + "," + id
}

// unfinished returns the uses of a gate that no holder is known to have finished.
func (g Managed) unfinished(was v1alpha1.Gate) string {
	out := ""
	for _, id := range Uses(was) {
		finished := slices.ContainsFunc(g.Holders, func(h identity.Holder) bool {
			return slices.ContainsFunc(approval.ParseClaims(h.State.Annotations[v1alpha1.AnnotationKeyClaims]), func(c v1alpha1.Claim) bool {
				return (c.ID == id || c.ID == "" && c.Content == id) && c.Spent()
			})
		})
		if !finished && !g.withdrawn(id) {
			out = withUse(out, id)
		}
	}
	return out
}

// withdrawn reports whether a use can be forgotten where no claims are taken: no
// holder has the approval any more. Otherwise the gate would collect them.
func (g Managed) withdrawn(id string) bool {
	return g.ByFunction && !slices.ContainsFunc(g.Holders, func(h identity.Holder) bool {
		return gives(h.State, id) || approval.ParseClaims(h.State.Annotations[v1alpha1.AnnotationKeyClaims]).Find(id) != nil
	})
}

// admittedBefore reports whether an approval existed at the last transition of a
// gate.
func admittedBefore(c *v1alpha1.Claim, g v1alpha1.Gate) bool {
	return c == nil || !c.At.After(g.At.Time)
}

// ended reports whether a once approval for the deletion of a holder with all
// below it is the one whose opening ended: it is used (KR-08-09). A
// lasting one opens the gate again. The gate is not open for Delete.
func ended(g v1alpha1.Gate, e approval.Entry, claims approval.Claims) bool {
	return HasUse(g, e.Content) && admittedBefore(claims.Of(e.Content), g)
}

// ClaimToFinish returns which claim of a closed gate's approvals is to be finished on a
// holder: the approval is used, whether it was confirmed or expired. nil for
// none; there may be another one when this one is finished.
func ClaimToFinish(mr, holder *parent.State) *v1alpha1.Claim {
	return finish(mask.ParseGate(mr.Annotations), holder)
}

func finish(gate v1alpha1.Gate, holder *parent.State) *v1alpha1.Claim {
	if gate.State != v1alpha1.GateClosed {
		return nil
	}
	claims := approval.ParseClaims(holder.Annotations[v1alpha1.AnnotationKeyClaims])
	for _, id := range Uses(gate) {
		if c := claims.Find(id); c != nil && c.State == v1alpha1.ClaimPending {
			return c
		}
		switch c := claims.Of(id); {
		case c != nil && c.State == v1alpha1.ClaimOpen && admittedBefore(c, gate):
			return c
		case c == nil && gate.Reason == v1alpha1.GateReasonRestored && gives(holder, id):
			return &v1alpha1.Claim{Content: id}
		}
	}
	return nil
}

// gives reports whether a holder has a once approval that no webhook admitted: one
// on behalf of a policy has no record. The gate annotation records that it
// was open by it; removing the annotation removes the approval, too.
func gives(holder *parent.State, content string) bool {
	return slices.ContainsFunc(approval.Parse(holder.Annotations).Approvals, func(e approval.Entry) bool {
		return e.Content == content && e.Mode == v1alpha1.ApprovalOnce
	})
}

// SpendOpening finishes the approvals that the gate of an MR is open by, or was. It returns the edits
// of a holder's annotations, nil for none. It is for callers that remove the gate. Without it no
// record would show that the approvals are used: they would open another gate.
func SpendOpening(mr, holder *parent.State, now time.Time) map[string]*string {
	gate := mask.ParseGate(mr.Annotations)
	if gate.State == v1alpha1.GateOpen {
		gate.State, gate.Reason, gate.At = v1alpha1.GateClosed, v1alpha1.GateReasonRestored, approval.Stamp(now)
	}
	return spendAll(gate, holder, now)
}

// spendAll spends all approvals of a holder that a closed gate was open by, and returns the edits of the
// holder's annotations.
func spendAll(closed v1alpha1.Gate, holder *parent.State, now time.Time) map[string]*string {
	after := *holder
	var edits map[string]*string
	for range Uses(closed) {
		claim := finish(closed, &after)
		if claim == nil {
			break
		}
		if edits == nil {
			edits = map[string]*string{}
		}
		spent := Spend(after.Annotations, *claim, now)
		maps.Copy(edits, spent)
		after.Annotations = annotation.Apply(after.Annotations, spent)
	}
	return edits
}

// Spend spends a claim. It returns the edits of its holder's annotations that remove the approval and
// keep its record; nil values remove.
func Spend(annotations map[string]string, claim v1alpha1.Claim, now time.Time) map[string]*string {
	claims := approval.ParseClaims(annotations[v1alpha1.AnnotationKeyClaims])
	if c := claims.Of(claim.Content); c != nil && c.ID == claim.ID {
		c.State, c.At = v1alpha1.ClaimUsed, approval.Stamp(now)
	}
	edits := approval.Remove(annotations, func(e approval.Entry) bool { return e.Content == claim.Content })
	if value := claims.String(); len(claims) > 0 {
		edits[v1alpha1.AnnotationKeyClaims] = &value
	}
	return edits
}
