package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// Kind of custom resource that a test defines: namespaced, of one version, with a status
// subresource. Its plural is its name in lower case and an s.
type Kind struct {
	Group, Kind string
	// Version is "v1" where it is empty.
	Version string
	// Categories as in "managed" and "composite".
	Categories []string
	// Spec is the schema of spec, YAML in flow style, as in ManagedSpec. Where it is empty, objects
	// may hold anything.
	Spec string
}

// ManagedSpec is the schema of spec of managed resources, which may hold anything else.
const ManagedSpec = `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {managementPolicies: {type: array, items: {type: string}}}}`

const (
	anything = `{type: object, x-kubernetes-preserve-unknown-fields: true}`

	definition = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[2]s, categories: [%[4]s]}
  versions:
  - name: %[5]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: %[6]s}
`
)

// Define applies the CRDs of the kinds as the admin and waits until they are established.
func (c *ControlPlane) Define(ctx context.Context, kinds ...Kind) error {
	var crds strings.Builder
	for _, k := range kinds {
		k.define(&crds)
	}

	return c.Apply(ctx, []byte(crds.String()))
}

func (k Kind) define(crds *strings.Builder) {
	objects := anything
	if k.Spec != "" {
		objects = fmt.Sprintf(`{type: object, properties: {spec: %s, status: %s}}`, k.Spec, anything)
	}

	fmt.Fprintf(crds, definition, k.Group, strings.ToLower(k.Kind)+"s", k.Kind, strings.Join(k.Categories, ", "), cmp.Or(k.Version, "v1"), objects)
}
