package integration

import "strings"

// groupSuffix of the API groups: each fleet has FLEET.test.example.org.
const groupSuffix = ".test.example.org"

// fleets are the names of all fleets: one for each test that has replicas of
// its own to kill, to stop or to count on.
var fleets = []string{
	"once", "wildcard", "given", "race", "fresh", "restart", "offline", "pending", "unsettled",
	"labelled", "fallen", "gone", "strict", "lenient", "reads", "reports", "spread", "pinned", "policies", "upgrades", "documented", "excepted",
}

// crdsOf a group: App reports status.observedGeneration, Part may be poisoned so
// that it is refused after mutating admission, Managed is like a managed
// resource.
func crdsOf(group string) string {
	return strings.NewReplacer("GROUP", group).Replace(crdTemplate)
}

const crdTemplate = `
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: App, plural: apps}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Part, plural: parts}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {count: {type: integer}, poison: {type: boolean}}
            x-kubernetes-validations: [{rule: "!has(self.poison) || !self.poison", message: "it is poisoned"}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: manageds.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Managed, plural: manageds}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties: {managementPolicies: {type: array, items: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
