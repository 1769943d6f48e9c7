package gates

// crds: an XR that is composed of a Database, Buckets, and one that has no managementPolicies.
const crds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xstores.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: XStore, plural: xstores, categories: [composite]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
` + bucketCRD + `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plains.other.example.org}
spec:
  group: other.example.org
  scope: Namespaced
  names: {kind: Plain, plural: plains, categories: [managed]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// bucketCRD is of a kind of managed resource without a provider.
const bucketCRD = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.other.example.org}
spec:
  group: other.example.org
  scope: Namespaced
  names: {kind: Bucket, plural: buckets, categories: [managed]}
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
            properties:
              deletionPolicy: {type: string}
              managementPolicies: {type: array, items: {type: string}, default: ["*"]}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
