package fn

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// account for the approvals on the composite that are used up or stale, as its
// claims would where a webhook keeps them.
func (c *composite) account(xr *unstructured.Unstructured, resources []*resource) {
	if c.webhook {
		c.asOurs()
		return
	}
	claims := approval.Claims{}
	written := approval.Parse(c.state.Annotations).Approvals
	if len(written) == 0 {
		return
	}
	for _, r := range resources {
		for content := range r.used() {
			c.used[content] = true
		}
	}
	for _, e := range written {
		switch {
		case e.Mode == v1alpha1.ApprovalOnce && c.used[e.Content]:
			claims = append(claims, v1alpha1.Claim{Content: e.Content, State: v1alpha1.ClaimUsed})
		case e.Mode != v1alpha1.ApprovalAlways && e.Generation == 0 && writtenBefore(xr, e.Key, c.intent.Timestamp.Time):
			claims = append(claims, v1alpha1.Claim{Content: e.Content, State: v1alpha1.ClaimPruned})
		}
	}
	if len(claims) > 0 {
		c.annotate(v1alpha1.AnnotationKeyClaims, claims.String())
	}
}

// asOurs makes the claims that the webhook took for Crossplane's writes, and
// that may not have landed, recognisable as those of the same use: the function
// knows no user.
func (c *composite) asOurs() {
	claims := approval.ParseClaims(c.state.Annotations[v1alpha1.AnnotationKeyClaims])
	pending := false
	for i := range claims {
		if claims[i].State == v1alpha1.ClaimPending {
			claims[i].User, pending = "", true
		}
	}
	if pending {
		c.annotate(v1alpha1.AnnotationKeyClaims, claims.String())
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

// take a once approval for the change that is being let through: there is one
// use altogether.
func (c *composite) take(content string) {
	claims := approval.ParseClaims(c.state.Annotations[v1alpha1.AnnotationKeyClaims])
	claims = slices.DeleteFunc(claims, func(e v1alpha1.Claim) bool { return e.Content == content })
	c.annotate(v1alpha1.AnnotationKeyClaims, append(claims, v1alpha1.Claim{Content: content, State: v1alpha1.ClaimUsed}).String())
}

// used contents of once approvals, as the observed resource tells.
func (r *resource) used() map[string]bool {
	out := map[string]bool{}
	for content := range strings.SplitSeq(r.annotation(v1alpha1.AnnotationKeyUsedApprovals), ",") {
		if content != "" {
			out[content] = true
		}
	}
	if content := onceOf(r.stored); content != "" {
		out[content] = true
	}
	return out
}

// onceOf is the content of the once approval that let the carrier's last change
// through; "" for none.
func onceOf(t trace.Trace) string {
	if own := t.Own(); own != nil && own.Approval != nil && own.Approval.Mode == v1alpha1.ApprovalOnce {
		return own.Approval.Content
	}
	return ""
}

// usedAnnotation of a resource that carries a trace afterwards; "" for none.
func (c *composite) usedAnnotation(r *resource, after trace.Trace) string {
	if c.webhook {
		return ""
	}
	used := r.used()
	for _, content := range []string{onceOf(after), r.opens} {
		if content != "" {
			used[content] = true
		}
	}
	if len(used) == 0 {
		return ""
	}
	for _, e := range approval.Parse(c.state.Annotations).Approvals {
		if used[e.Content] && e.Mode == v1alpha1.ApprovalOnce {
			used[e.Content] = false // written still
		}
	}
	maps.DeleteFunc(used, func(_ string, unwritten bool) bool { return unwritten })
	return strings.Join(slices.Sorted(maps.Keys(used)), ",")
}
