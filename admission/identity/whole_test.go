package identity_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestWhole covers KR-13-64: the id of a deletion is over what is below, each with its external resource.
func TestWhole(t *testing.T) {
	xr := parent.Sum(fx.Composite(), parent.RoleComposite)
	mr := func(mods ...fx.Mod) *parent.State {
		return parent.Sum(fx.With(fx.Instance(), mods...), parent.RoleManaged)
	}
	named := func(name string) fx.Mod { return fx.Set(name, "metadata", "name") }
	a, b := mr(named("a")), mr(named("b"))
	both := identity.WholeOf(xr, []*parent.State{a, b})
	assert.Equal(t, both.Digest.ID(), identity.WholeOf(xr, []*parent.State{b, a, b}).Digest.ID(), "in any order, each once")
	assert.True(t, both.Has(a) && both.Has(b))

	prod := mr(named("b"), fx.Annotate(v1alpha1.AnnotationKeyExternalName, "prod"))
	for what, other := range map[string]identity.Whole{
		"one less": identity.WholeOf(xr, []*parent.State{a}), "one more": identity.WholeOf(xr, []*parent.State{a, b, mr(named("c"))}),
		"another external resource": identity.WholeOf(xr, []*parent.State{a, prod}), "another composite": identity.WholeOf(a, []*parent.State{a, b}),
	} {
		assert.NotEqual(t, both.Digest.ID(), other.Digest.ID(), what)
	}
	assert.False(t, both.Has(prod), "with another external resource than was listed")
	assert.False(t, both.Has(mr(named("c"))))
	assert.False(t, identity.Whole{}.Has(a))
	version := mr(named("a"))
	version.Version = "v9"
	assert.Equal(t, both.Digest.ID(), identity.WholeOf(xr, []*parent.State{version, b}).Digest.ID(), "whatever version they are read in")
}
