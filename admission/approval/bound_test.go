package approval

import (
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestBound covers KR-13-68: of two differences with one id, the one that is known when it is approved is approved.
func TestBound(t *testing.T) {
	harmless, harmful := change.Digest(difference+strings.Repeat("a", 48)), change.Digest(difference+strings.Repeat("b", 48))
	knows := func(digests ...change.Digest) Lookup {
		return func(id string) (Known, bool) {
			return Known{Named: id == difference, Since: 7, Digests: digests}, id == difference
		}
	}
	for name, tc := range map[string]struct {
		reason string
		known  Lookup
		write  map[string]string
		// approves which of them; refused is part of the reason why the write is refused.
		harmless, harmful bool
		refused           string
	}{
		"ByID": {reason: "the one that was shown", known: knows(harmless), write: map[string]string{keyApprove + difference: "once"}, harmless: true},
		"NotKnown": {reason: "before either is known the id is all there is", known: knows(), write: map[string]string{keyApprove + difference: "once"},
			harmless: true, harmful: true},
		"Both": {reason: "neither where both are known", known: knows(harmless, harmful), write: map[string]string{keyApprove + difference: "once"},
			refused: "is the id of two differences"},
		"ByDigest": {reason: "a whole digest names one of them", known: knows(harmless, harmful),
			write: map[string]string{keyApprovals: `[{"digest":"` + string(harmful) + `"}]`}, harmful: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParent()
			p.held = tc.known
			if why := p.write("anna", true, tc.write); (why == "") != (tc.refused == "") || !strings.Contains(why, tc.refused) {
				t.Fatalf("%s: refused: %q", tc.reason, why)
			}
			p.count()
			for digest, want := range map[change.Digest]bool{harmless: tc.harmless, harmful: tc.harmful} {
				q := query()
				q.Digests, q.Intent = []change.Digest{digest}, 7
				if _, ok := Parse(p.annotations).Approved(q); ok != want {
					t.Errorf("%s: %s is approved: %t", tc.reason, digest, ok)
				}
			}
		})
	}
	p := newParent()
	p.held = knows(harmless)
	p.write("anna", true, map[string]string{keyApprove + difference: "once"})
	p.count()
	p.held = knows(harmful)
	if why := p.write("bob", true, map[string]string{keyApprove + difference: "once"}); !strings.Contains(why, string(harmful)) {
		t.Errorf("a vote for the other difference is added to those for the first: %q", why)
	}
	if c := ParseClaims(p.annotations[keyClaims]); len(c) != 1 || c[0].Bound != string(harmless) || c[0].State != v1alpha1.ClaimOpen {
		t.Errorf("the claims: %+v", c)
	}
}
