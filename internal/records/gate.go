package records

import (
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// A Transition of the gate of an object, as it is stored.
type Transition struct {
	// Object behind the gate, with Kausality's annotations.
	Object *parent.State
	// External name; empty for none.
	External string
	// Was and Is are the gate before and after.
	Was, Is v1alpha1.Gate
	// At is when it was written: the time of a closing, which no object stores.
	At time.Time
	// Claims are the annotations of the holders of approvals, as they are stored then; nil where they are not known.
	Claims map[parent.Ref]string
}

// gate that was opened or closed.
type gate struct {
	ref      parent.Ref
	external string
	was, is  v1alpha1.Gate
	at       time.Time
	trace    trace.Trace
	// used are the claims by which it opened, by their holder.
	used []claimed
}

type claimed struct {
	holder parent.Ref
	claim  v1alpha1.Claim
}

// OfTransition returns what is recorded of the gate of an object: that it opened, that the provider confirmed what it opened for, that it expired, or that it
// closed for another reason (KR-16-12). nil for other transitions.
func OfTransition(t Transition) Occurrence {
	opens, closes := opened(t.Was, t.Is), t.Was.State == v1alpha1.GateOpen && t.Is.State == v1alpha1.GateClosed
	if !opens && !closes {
		return nil
	}
	g := &gate{ref: t.Object.Ref, external: t.External, was: t.Was, is: t.Is, at: t.At, trace: trace.Of(t.Object.Annotations)}
	if opens && t.Is.Claim != "" {
		g.used = claimsOf(t.Is.Claim, t.Claims)
	}
	return g
}

// opened reports whether a gate opened, or was opened again for another change.
func opened(was, is v1alpha1.Gate) bool {
	return is.State == v1alpha1.GateOpen && (was.State != v1alpha1.GateOpen || !was.At.Equal(&is.At))
}

// claimsOf returns the claims of holders that a gate names.
func claimsOf(names string, holders map[parent.Ref]string) (out []claimed) {
	for _, id := range strings.Split(names, ",") {
		for holder, claims := range holders { // an id is that of one claim
			for _, c := range approval.ParseClaims(claims) {
				if id != "" && c.ID == id {
					out = append(out, claimed{holder, c})
				}
			}
		}
	}
	return out
}

// Records returns the records of the transition.
func (g *gate) Records(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	if opened(g.was, g.is) {
		return g.opening(c)
	}
	of := recordsv1alpha1.TypeGateClosed
	switch g.is.Reason {
	case v1alpha1.GateReasonConfirmed:
		of = recordsv1alpha1.TypeGateConfirmed
	case v1alpha1.GateReasonExpired:
		of = recordsv1alpha1.TypeGateExpired
	}
	r := newRecord(c, of, g.object(), g.at, g.was.At.UTC().Format(time.RFC3339Nano), g.is.Reason)
	g.describe(&r, g.was)
	r.Reason, r.CausedBy = g.is.Reason, []string{g.openID(c, g.was)}
	return []recordsv1alpha1.Record{r}
}

// opening returns the opening of the gate, and the approvals that it used.
func (g *gate) opening(c recordsv1alpha1.Cluster) (out []recordsv1alpha1.Record) {
	r := newRecord(c, recordsv1alpha1.TypeGateOpened, g.object(), g.is.At.Time)
	r.ID = g.openID(c, g.is)
	g.describe(&r, g.is)
	r.Reason = g.is.Reason
	for _, u := range g.used {
		a := g.approval(c, u)
		out, r.CausedBy, r.Approvers = append(out, a), append(r.CausedBy, a.ID), append(r.Approvers, a.Approvers...)
	}
	if own := g.trace.Own(); own != nil {
		r.CausedBy, r.Causes = append(r.CausedBy, ids(intentID(c, *own, g.ref.Namespace))...), causesOf(own.Causes)
	}
	return append(out, r)
}

// approval returns the approval that the gate used.
func (g *gate) approval(c recordsv1alpha1.Cluster, u claimed) recordsv1alpha1.Record {
	r := newRecord(c, recordsv1alpha1.TypeApprovalUsed, g.object(), g.is.At.Time, u.claim.ID, u.claim.Content, g.is.Digest)
	holder := objectOf(u.holder)
	r.Parent, r.External, r.Reason, r.Message = &holder, g.external, string(v1alpha1.RelationExternal), u.claim.Reason
	r.Differences, r.Approvers = ids(g.is.Digest), approversOf(approval.Approvers(u.claim))
	r.Approval = &recordsv1alpha1.Approval{Mode: string(u.claim.Mode)}
	r.CausedBy = lists.Map(u.claim.By, func(v v1alpha1.Vote) string { return voteID(c, holder, u.claim.Content, v) })
	return r
}

func (g *gate) object() recordsv1alpha1.Object {
	o := objectOf(g.ref)
	o.Generation = g.is.Generation
	return o
}

// openID returns the id of the record of an opening.
func (g *gate) openID(c recordsv1alpha1.Cluster, open v1alpha1.Gate) string {
	return recordsv1alpha1.ID(c, g.object(), recordsv1alpha1.TypeGateOpened, open.At.Time, "open")
}

// describe describes an opening in a record.
func (g *gate) describe(r *recordsv1alpha1.Record, open v1alpha1.Gate) {
	r.External, r.Differences, r.Paths, r.Trace = g.external, ids(open.Digest), open.Paths, hopsOf(g.trace, g.ref.Namespace)
	r.Verbs = lists.Map(open.Verbs, func(v v1alpha1.Verb) string { return string(v) })
	if n := len(g.trace); n > 1 {
		r.Parent = new(hopObject(g.trace[n-2], g.ref.Namespace))
	}
}
