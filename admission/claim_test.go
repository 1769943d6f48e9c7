package admission

import (
	"context"
	"strings"
	"testing"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A Claim that references another composite is the parent of none (KR-01-03), not one
// that does not exist.
func TestClaimOfAnotherComposite(t *testing.T) {
	frozen := fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")
	other := fx.Set("other", "spec", "resourceRef", "name")
	resize := fx.Set("large", "spec", "size")
	for name, tc := range map[string]struct {
		claim []fx.Mod
		gone  bool
		want  outcome.Reason
	}{
		"Linked":    {claim: []fx.Mod{frozen}, want: outcome.ReasonFrozen},
		"NotLinked": {claim: []fx.Mod{frozen, other}, want: outcome.ReasonNoParent},
		"Gone":      {gone: true, want: outcome.ReasonParentNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, nil, fx.With(claim(), tc.claim...), xdatabase())
			if tc.gone {
				delete(p.w.live, key(parent.RefOf(claim())))
			}
			p.want(p.update(hans, "kubectl", "my-database-xyz", resize), tc.want)
			if p.w.liveReads == 0 {
				t.Error("decided on a cache alone")
			}
		})
	}
}

// To take a composite from its Claim needs the verb approve (KR-13-50).
func TestUnlinkingNeedsTheVerb(t *testing.T) {
	sync := "apiextensions.crossplane.io/claim"
	for name, tc := range map[string]struct {
		who    subject.User
		as, of string
		mod    fx.Mod
		needs  string
	}{
		"ClaimRef":      {who: hans, of: "my-database-xyz", mod: fx.Set("other", "spec", "claimRef", "name"), needs: "spec.claimRef"},
		"NoClaimRef":    {who: hans, of: "my-database-xyz", mod: fx.Set(map[string]any{}, "spec", "claimRef"), needs: "spec.claimRef"},
		"ResourceRef":   {who: hans, of: "my-database", mod: fx.Set("other", "spec", "resourceRef", "name"), needs: "spec.resourceRef"},
		"SomeManager":   {who: hans, as: sync, of: "my-database-xyz", mod: fx.Set("other", "spec", "claimRef", "name"), needs: "spec.claimRef"},
		"Crossplane":    {who: fx.Crossplane, of: "my-database", mod: fx.Set("other", "spec", "resourceRef", "name")},
		"Sync":          {who: fx.Crossplane, as: sync, of: "my-database-xyz", mod: fx.Set("other", "spec", "claimRef", "name")},
		"AnotherField":  {who: hans, of: "my-database-xyz", mod: fx.Set("large", "spec", "size")},
		"OfTheClaim":    {who: hans, of: "my-database", mod: fx.Set("large", "spec", "size")},
		"OnlyAVersion":  {who: hans, of: "my-database", mod: fx.Set("example.com/v1", "spec", "resourceRef", "apiVersion")},
		"OfNoComposite": {who: hans, of: "my-database-xyz-rds", mod: fx.Set("x", "spec", "claimRef", "name")},
	} {
		t.Run(name, func(t *testing.T) {
			xr := xdatabase()
			p := newPlay(t, nil, fx.With(claim(), fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "3")), xr, rdsInstance(xr))
			may := false
			p.e = stubs{Options: p.e.Options, mayApprove: func(context.Context, subject.User, parent.Ref) (bool, error) { return may, nil }}.of(p.e.World)
			d := p.update(tc.who, tc.as, tc.of, tc.mod)
			if d.Allowed == (tc.needs != "") || !strings.Contains(d.Message, tc.needs) || tc.needs != "" && d.Reason != outcome.ReasonApproverForbidden {
				t.Errorf("allowed %t, %s: %s", d.Allowed, d.Reason, d.Message)
			}
			may = true
			if d := p.update(tc.who, tc.as, tc.of, tc.mod); !d.Allowed {
				t.Errorf("with the verb: %s", d.Message)
			}
		})
	}
}
