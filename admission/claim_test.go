package admission

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// To give a composite a Claim, whose approvals are about it then, needs the verb approve, but for Crossplane (KR-13-50).
func TestLinkingNeedsTheVerb(t *testing.T) {
	mine := fx.Set(map[string]any{"apiVersion": "example.com/v1alpha1", "kind": "DatabaseClaim", "namespace": "team", "name": "my-database"}, "spec", "claimRef")
	for name, tc := range map[string]struct {
		who     subject.User
		as      string
		was     []fx.Mod
		refused bool
	}{
		"Editor":      {who: hans, refused: true},
		"SomeManager": {who: hans, as: "apiextensions.crossplane.io/claim", refused: true},
		"Crossplane":  {who: fx.Crossplane, as: "apiextensions.crossplane.io/claim"},
		"Modern":      {who: hans, was: []fx.Mod{fx.Set(map[string]any{}, "spec", "crossplane")}}, // it has no Claim
		"Composed":    {who: hans, was: []fx.Mod{owners(owner("above", "above-uid", true))}},      // nor has one with an owner
	} {
		t.Run(name, func(t *testing.T) {
			xr := fx.With(xdatabase(), append(tc.was, func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "claimRef") })...)
			above := fx.With(xdatabase(), func(o *unstructured.Unstructured) { o.SetName("above"); o.SetUID("above-uid") })
			p := newPlay(t, nil, claim(), xr, above)
			p.e = stubs{Options: p.e.Options, mayApprove: func(context.Context, subject.User, parent.Ref) (bool, error) { return false, nil }}.of(p.e.World)
			d := p.update(tc.who, tc.as, "my-database-xyz", mine)
			if d.Allowed == tc.refused || tc.refused && (d.Reason != outcome.ReasonApproverForbidden || !strings.Contains(d.Message, "spec.claimRef")) {
				t.Errorf("allowed %t, %s: %s", d.Allowed, d.Reason, d.Message)
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
