package approve

import (
	"context"
	"math"
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/world"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// HeldBelow returns what is held of the object's children and theirs.
func HeldBelow(ctx context.Context, f *facts.Facts) []world.Below {
	if f.Req.OldObject == nil {
		return nil
	}
	return f.World.Below(ctx, parent.Family(f.Req.OldObject, f.Kind.Role))
}

// Known returns a function that looks up the differences which approvals on the object are about, by their ids: since which
// intent generation one of the object's children's is held, before which an approval of it is not stale (KR-05-58), and the
// digests of those that were refused or reported (KR-13-68). What the composition function holds is known by its condition where
// the composed resource does not show it: none of its approvals is stale then.
func Known(ctx context.Context, f *facts.Facts) approval.Lookup {
	below, function := map[string]approval.Known{}, false
	for _, b := range HeldBelow(ctx, f) {
		if !b.Own {
			continue
		}
		k, had := below[b.ID]
		if !had {
			k = approval.Known{Named: true, Since: b.Since}
		}
		k.Since = min(k.Since, b.Since)
		if b.Digest != "" && !slices.Contains(k.Digests, b.Digest) {
			k.Digests = append(k.Digests, b.Digest)
		}
		below[b.ID] = k
	}
	if f.Kind.Role == parent.RoleComposite && f.Req.OldObject != nil {
		c, ok := parent.Outline(f.Req.Whole(), f.Kind.Role).Condition(v1alpha1.ConditionKausality)
		function = ok && c.Reason == v1alpha1.ConditionReasonHeld
	}
	return func(id string) (approval.Known, bool) {
		k, is := below[id]
		reported := f.World.Known(id)
		for _, d := range reported.Digests {
			if !slices.Contains(k.Digests, d) {
				k.Digests = append(slices.Clip(k.Digests), d)
			}
		}
		if !is && !function {
			k.Since = math.MaxInt64
		}
		k.Named, k.External = is || reported.Is(), reported.Outside()
		return k, k.Named || function
	}
}
