package story

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Definition is a kind of composite with one version, for which it makes the
// XRD and Compositions.
type Definition struct {
	Group, Version, Kind, Plural string
	// ClaimKind and ClaimPlural of a legacy Claim; empty for none. The XRD of a
	// composite with a Claim is of v1, which has no scope.
	ClaimKind, ClaimPlural string
	// Scope of a composite without a Claim: Cluster, or "" for Namespaced.
	Scope string
	// Spec has the properties of the spec, as a YAML flow mapping.
	Spec string
}

// Resource of the composites.
func (d Definition) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: d.Group, Version: d.Version, Resource: d.Plural}
}

// Claims is the resource of the Claims.
func (d Definition) Claims() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: d.Group, Version: d.Version, Resource: d.ClaimPlural}
}

// XRD of the kind, in YAML.
func (d Definition) XRD() []byte {
	version, offer := "v2", "scope: "+cmp.Or(d.Scope, "Namespaced")
	if d.ClaimKind != "" {
		version, offer = "v1", fmt.Sprintf("claimNames: {kind: %s, plural: %s}", d.ClaimKind, d.ClaimPlural)
	}
	return fmt.Appendf(nil, `
apiVersion: apiextensions.crossplane.io/%s
kind: CompositeResourceDefinition
metadata: {name: %s}
spec:
  group: %s
  names: {kind: %s, plural: %s}
  %s
  versions:
  - name: %s
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: %s}
`, version, d.Resource().GroupResource(), d.Group, d.Kind, d.Plural, offer, d.Version, d.Spec)
}

// Steps of a pipeline after function-patch-and-transform, in YAML.
const (
	StepKausality = `
  - step: kausality
    functionRef: {name: function-kausality}
    input: {apiVersion: kausality.fn.crossplane.io/v1alpha1, kind: Input, mode: enforce}`
	StepKausalityShortGrace = `
  - step: kausality
    functionRef: {name: function-kausality}
    input: {apiVersion: kausality.fn.crossplane.io/v1alpha1, kind: Input, mode: enforce, settleGrace: 1s}`
	StepAutoReady = `
  - step: auto-ready
    functionRef: {name: function-auto-ready}`
)

// Composition of the kind, in YAML: function-patch-and-transform with resources (a
// YAML list, indented by six), and then steps.
func (d Definition) Composition(name, resources string, steps ...string) []byte {
	return fmt.Appendf(nil, `
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: %s}
spec:
  compositeTypeRef: {apiVersion: %s/%s, kind: %s}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:%s%s
`, name, d.Group, d.Version, d.Kind, strings.TrimRight(resources, "\n"), strings.Join(steps, ""))
}
