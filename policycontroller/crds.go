package policycontroller

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/settings"
)

const (
	// recountEvery is how often a kind is listed again, at the most; many kinds less often, so that there are no more
	// than three lists a second.
	recountEvery = 15 * time.Second
	listEvery    = 300 * time.Millisecond
)

// maskedKind is whether objects of a kind are masked, and when that was read.
type maskedKind struct {
	is bool
	at time.Time
}

// maskedCRDs that a policy covers, sorted. They are in the status of the policy, which is the parameter of the
// ValidatingAdmissionPolicy that refuses their deletion (KR-13-29).
func (c *Controller) maskedCRDs(ctx context.Context, policy string, set settings.Set, offered []offer) []string {
	var names []string
	for _, o := range offered {
		gr := o.GroupResource()
		covered := slices.ContainsFunc(set.Scopes(), func(s settings.Scope) bool { return s.Policy == policy && s.Covers(gr.Group, gr.Resource) })
		if covered && c.isCRD(ctx, gr) && c.isMasked(ctx, o.GroupVersionResource) {
			names = append(names, gr.String())
		}
	}
	slices.Sort(names)
	return names
}

// isCRD reports whether a CRD defines a resource.
func (c *Controller) isCRD(ctx context.Context, gr schema.GroupResource) bool {
	return strings.Contains(gr.Group, ".") && c.Cached.Get(ctx, client.ObjectKey{Name: gr.String()}, partial(crdKind)) == nil
}

// recountAfter is how long it is not listed again whether objects of a kind are masked.
func (c *Controller) recountAfter() time.Duration {
	return max(recountEvery, time.Duration(len(c.maskedKinds))*listEvery)
}

// isMasked reports whether objects of a kind are masked; they are not counted again after a short time. A kind that
// cannot be listed is as it was, and masked where that is unknown.
func (c *Controller) isMasked(ctx context.Context, r schema.GroupVersionResource) bool {
	gr := r.GroupResource()
	last, known := c.maskedKinds[gr]
	if known && c.Now().Before(last.at.Add(c.recountAfter())) {
		return last.is
	}
	is, err := c.anyMasked(ctx, r)
	if err != nil {
		c.Log.Error(err, "cannot count masked objects; their CRD is protected as before", "resource", gr.String())
		is = last.is || !known
	}
	if c.maskedKinds == nil {
		c.maskedKinds = map[schema.GroupResource]maskedKind{}
	}
	c.maskedKinds[gr] = maskedKind{is: is, at: c.Now()}
	return is
}
