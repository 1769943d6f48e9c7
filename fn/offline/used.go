package offline

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// account records the approvals on the composite that are used or stale, as the claims of a webhook do
// (KR-09-02). Where a webhook keeps claims, it does so for what it guards alone (KR-09-17); they and their votes stay.
func (c *Composite) account(xr *unstructured.Unstructured, observed []*Resource) {
	written := approval.Parse(c.State.Annotations).Approvals
	if len(written) == 0 {
		return
	}
	used := map[string]bool{}
	for _, r := range observed {
		maps.Copy(used, r.used())
	}
	stored := c.State.Annotations[v1alpha1.AnnotationKeyClaims]
	claims, held := approval.ParseClaims(stored), heldSince(observed)
	for _, e := range written {
		at := c.Intent.Timestamp.Time
		if since, ok := held[e.Digest]; ok && since.Before(at) {
			at = since
		}
		switch {
		case e.Mode == v1alpha1.ApprovalOnce && used[e.Content]:
			claims = claims.Mark(e.Content, v1alpha1.ClaimUsed)
		case c.Webhook: // it prunes what is stale
		case e.Mode != v1alpha1.ApprovalAlways && e.Generation == 0 && writtenBefore(xr, e.Key, at):
			claims = claims.Mark(e.Content, v1alpha1.ClaimPruned)
		}
	}
	if value := claims.String(); len(claims) > 0 && !approval.Same(value, stored) {
		c.Annotate(v1alpha1.AnnotationKeyClaims, value)
	}
}

// WithoutVotes returns the State of a composite without the votes in its claims; the same State where there are none.
func WithoutVotes(c *Composite) *parent.State {
	if c.votesOf != c.State {
		c.votesOf, c.withoutVotes = c.State, withoutVotes(c.State)
	}
	return c.withoutVotes
}

func withoutVotes(s *parent.State) *parent.State {
	stored := s.Annotations[v1alpha1.AnnotationKeyClaims]
	if stored == "" {
		return s
	}
	claims := approval.ParseClaims(stored)
	kept := make(approval.Claims, 0, len(claims))
	for _, c := range claims {
		if c.By, c.Counted = nil, nil; !c.Votes || c.Spent() {
			kept = append(kept, c)
		}
	}
	if value := kept.String(); value != claims.String() {
		return Annotated(s, v1alpha1.AnnotationKeyClaims, value)
	}
	return s
}

// heldSince returns the times of the intents after which differences were first held, by their ids:
// approvals of them that are written later hold across intents (KR-05-58).
func heldSince(observed []*Resource) map[string]time.Time {
	out := map[string]time.Time{}
	add := func(id string, d v1alpha1.HeldDrift) {
		if id != "" && d.Since != nil {
			out[id] = d.Since.At.Time
		}
	}
	for _, r := range observed {
		var h v1alpha1.Held
		if value := r.Annotation(v1alpha1.AnnotationKeyHeld); value != "" && json.Unmarshal([]byte(value), &h) == nil {
			add(h.ID, h.HeldDrift)
		}
		for _, c := range ParseCreations(r.Annotation(v1alpha1.AnnotationKeyHeldCreations)) {
			add(c.ID, c.HeldDrift)
		}
	}
	return out
}

// disownClaims removes the user from the pending claims that a webhook made for
// Crossplane's writes. The function knows no user, and would take a claim that has
// one, and whose write may not have landed, for another use.
func (c *Composite) disownClaims() {
	claims := approval.ParseClaims(c.State.Annotations[v1alpha1.AnnotationKeyClaims])
	pending := false
	for i := range claims {
		if claims[i].State == v1alpha1.ClaimPending {
			claims[i].User, pending = "", true
		}
	}
	if pending {
		c.Annotate(v1alpha1.AnnotationKeyClaims, claims.String())
	}
}

// writtenBefore reports whether managedFields show that an annotation was last
// written before a time: an approval does not outlast the next intent.
func writtenBefore(xr *unstructured.Unstructured, key string, at time.Time) bool {
	mark := []byte(`"f:` + key + `"`)
	found := false
	for _, e := range xr.GetManagedFields() {
		if e.FieldsV1 == nil || e.Time == nil || !bytes.Contains(e.FieldsV1.Raw, mark) {
			continue
		}
		if !e.Time.Time.Before(at) {
			return false
		}
		found = true
	}
	return found
}

// Take uses a once approval for a change that passes, by its content: the resources that follow in the
// same run do not find it (KR-09-02).
func (c *Composite) Take(content string) {
	claims := approval.ParseClaims(c.State.Annotations[v1alpha1.AnnotationKeyClaims])
	c.Annotate(v1alpha1.AnnotationKeyClaims, claims.Mark(content, v1alpha1.ClaimUsed).String())
}

// used returns the contents of the once approvals that a resource used, by its annotation and its
// trace; empty for a nil Resource.
func (r *Resource) used() map[string]bool {
	out := map[string]bool{}
	if r == nil {
		return out
	}
	for content := range strings.SplitSeq(r.Annotation(v1alpha1.AnnotationKeyUsedApprovals), ",") {
		if content != "" {
			out[content] = true
		}
	}
	if content := onceOf(r.Trace); content != "" {
		out[content] = true
	}
	return out
}

// Guarded reports whether a webhook guards the resource: it records who updated it.
func (r *Resource) Guarded() bool { return r.Annotation(v1alpha1.AnnotationKeyUpdaters) != "" }

// onceOf returns the content of the once approval by which the carrier's last change passed; "" for
// none.
func onceOf(t trace.Trace) string {
	if own := t.Own(); own != nil && own.Approval != nil && own.Approval.Mode == v1alpha1.ApprovalOnce {
		return own.Approval.Content
	}
	return ""
}

// UsedAnnotation returns the value of v1alpha1.AnnotationKeyUsedApprovals on a resource: the contents
// that it used as long as they are written on the composite. r is nil for a new resource. after is the
// trace that it carries from now on, opens the approval that opened its gate. "" for none, and where a
// webhook keeps claims: for what it guards.
func (c *Composite) UsedAnnotation(r *Resource, after trace.Trace, opens string) string {
	if c.Webhook && (r == nil || r.Guarded()) {
		return ""
	}
	used := r.used()
	for _, content := range []string{onceOf(after), opens} {
		if content != "" {
			used[content] = true
		}
	}
	if len(used) == 0 {
		return ""
	}
	var still []string
	for _, e := range approval.Parse(c.State.Annotations).Approvals {
		if used[e.Content] && e.Mode == v1alpha1.ApprovalOnce {
			still = append(still, e.Content)
		}
	}
	slices.Sort(still)
	return strings.Join(slices.Compact(still), ",")
}
