package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// What names an object as its parent is below it, whatever the object references
// (KR-13-34).
func TestOwned(t *testing.T) {
	app := parent.Ref{GroupVersionKind: shopApp, Namespace: "shop", Name: "app", UID: "app"}
	claim := parent.Ref{GroupVersionKind: shopDB, Namespace: "shop", Name: "claim", UID: "claim"}
	again, named := app, claim
	again.UID, named.UID = "earlier", ""
	c := covered(t)
	c.configured(false, "shop.example.org/*")
	c.sync()
	for name, p := range map[string]parent.Ref{"mine": app, "of-an-earlier-one": again, "alone": {}, "of-a-claim": named} {
		o := &Object{State: &parent.State{Ref: parent.Ref{GroupVersionKind: shopDB, Namespace: "shop", Name: name, UID: "u"}, Parent: p}}
		require.NoError(t, c.States.of(shopDB).informer.GetStore().Add(o))
	}
	one := func(name string) []parent.Ref {
		return []parent.Ref{{GroupVersionKind: shopDB, Namespace: "shop", Name: name}}
	}
	if diff := cmp.Diff(one("mine"), c.owned(app)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(one("of-a-claim"), c.owned(claim)); diff != "" {
		t.Errorf("of a Claim, which is referenced without its UID: -want, +got:\n%s", diff)
	}
}

// A list that a deletion covers is read again once another one joins, without a change of the composite (KR-13-64).
func TestSumOfWhatIsBelow(t *testing.T) {
	a := parent.Ref{GroupVersionKind: shopDB, Namespace: "shop", Name: "a"}
	b := parent.Ref{GroupVersionKind: shopDB, Namespace: "shop", Name: "b"}
	again := a
	again.UID, again.Version = "u", "v9"
	require.Equal(t, sumOf([]parent.Ref{a, b}), sumOf([]parent.Ref{b, again}))
	require.NotEqual(t, sumOf([]parent.Ref{a}), sumOf([]parent.Ref{a, b}))
	require.NotEqual(t, sumOf([]parent.Ref{a}), sumOf([]parent.Ref{b}))
}
