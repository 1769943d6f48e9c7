package composed

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// shopGraph has a ConfigMap of a tier, with what its instance is given, and a composite.
const shopGraph = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec: {message: string, label: string}
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data: {message: "${schema.spec.message}", label: "${schema.spec.label}", tier: %s}
  - id: database
    template:
      apiVersion: example.org/v1alpha1
      kind: XDatabase
      metadata: {name: "${schema.metadata.name}"}
      spec: {size: 5}
`

// stalls are composites that are composed of a Shop.
var stalls = story.Definition{Group: "example.org", Version: "v1alpha1", Kind: "XStall", Plural: "xstalls", Spec: "{message: {type: string}}"}

// composeStalls of a Shop with a label.
func composeStalls(t *testing.T, label string) {
	t.Helper()
	apply(t, anna, string(stalls.Composition("xstalls.example.org", fmt.Sprintf(`
      - name: shop
        base: {apiVersion: kro.run/v1alpha1, kind: Shop, spec: {label: %s}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.message, toFieldPath: spec.message}`, label), story.StepAutoReady)))
}

// stall is one of them, with a message.
const stall = "{apiVersion: example.org/v1alpha1, kind: XStall, metadata: {name: stall}, spec: {message: %s}}"

// TestInstanceOfComposite: what a user changes of a composite passes through the instance that it composes to its children, and has that
// user as its origin. An edit of the graph is held on the child, a revision of the Composition on the instance (KR-18-01, KR-18-05). The
// composite is deleted with what is below the instance (KR-08-12).
func TestInstanceOfComposite(t *testing.T) {
	define(t, "shop", fmt.Sprintf(shopGraph, "silver"))
	apply(t, anna, string(stalls.XRD()))
	composeStalls(t, "plain")
	apply(t, hans, fmt.Sprintf(stall, "hello"))
	name := only(t, shops).GetName()
	chain := []string{"XStall " + hans, "Shop " + crossplane, "ConfigMap " + kro}
	assert.Equal(t, chain, hops(t, has(t, configMaps, name, "hello", "data", "message")))
	settled(t, shops, name)
	settled(t, stalls.Resource(), "stall")

	apply(t, hans, fmt.Sprintf(stall, "bye"))
	assert.Equal(t, chain, hops(t, has(t, configMaps, name, "bye", "data", "message")))
	settled(t, shops, name)
	settled(t, stalls.Resource(), "stall")

	revision := define(t, "shop", fmt.Sprintf(shopGraph, "gold"))
	d := drift(t, "ConfigMap", name, "UPDATE", edited("shop", revision))
	has(t, configMaps, name, "silver", "data", "tier")
	approve(t, d, shops, name)
	has(t, configMaps, name, "gold", "data", "tier")
	settled(t, shops, name)

	composeStalls(t, "fancy")
	d = drift(t, "Shop", name, "UPDATE", "composition revision xstalls.example.org-")
	has(t, shops, name, "plain", "spec", "label")
	approve(t, d, stalls.Resource(), "stall")
	has(t, shops, name, "fancy", "spec", "label")
	o := has(t, configMaps, name, "fancy", "data", "label")
	trace, err := story.Trace(o)
	require.NoError(t, err)
	assert.True(t, trace[len(trace)-2].Unrequested, "the Shop was changed by the Composition: %v", trace)

	database := only(t, story.Databases).GetName()
	closed(t, database, 5)
	destroyed(t, stalls.Resource(), "stall", database)
	gone(t, of(t, hans, shops), name)
}
