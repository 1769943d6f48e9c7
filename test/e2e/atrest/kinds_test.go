package atrest

import (
	"fmt"
	"strings"
)

// oddity of kinds: what the API server, or a webhook, makes of what is composed.
type oddity struct {
	name string
	// properties of spec beside size, a YAML flow mapping without its braces.
	properties string
	// composed fields of spec, likewise.
	composed string
}

// oddities, each of which is at the top of spec, or below some fields.
var oddities = []oddity{
	{"defaulted", `replicas: {type: integer, default: 3}, policy: {type: object, default: {kind: Always}, ` +
		`properties: {kind: {type: string}, grace: {type: integer, default: 30}}}`,
		`policy: {kind: Never}`},
	{"numeric", `port: {x-kubernetes-int-or-string: true}, share: {type: number}, cpu: {type: string, pattern: ".*"}`,
		`port: "80", share: 1.0, cpu: 1000m`},
	{"listed", `ports: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [number, protocol], ` +
		`items: {type: object, required: [number], properties: {number: {type: integer}, ` +
		`protocol: {type: string, default: TCP}, name: {type: string, default: main}}}}`,
		`ports: [{number: 80}, {number: 53, protocol: UDP}]`},
	{"free", `known: {type: string}, any: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {mode: {type: string, default: fast}}}`,
		`known: a, any: {deep: [1, {b: null}], ratio: 1.50}`},
	{"nothing", `none: {type: object, nullable: true, properties: {a: {type: string}}}, list: {type: array, items: {type: string}}, map: {type: object, ` +
		`additionalProperties: {type: string}}`, `none: {}, list: [], map: {}`},
	{"lowered", `host: {type: string}`, `host: Some.Example.ORG`},
	{"completed", `zone: {type: string}, host: {type: string}`, `host: a.example.org`},
	{"secretive", `password: {type: string}, hash: {type: string}`, `password: kept-by-no-one`},
}

// depths of an oddity in spec.
const depths = 5

// odd kind.
type odd struct {
	oddity
	depth int
}

func (o odd) kind() string {
	return fmt.Sprintf("%s%d", strings.ToUpper(o.name[:1])+o.name[1:], o.depth)
}
func (o odd) plural() string { return strings.ToLower(o.kind()) + "s" }

// nested value of spec: each level has one field, below.
func (o odd) nested(value string, level func(string) string) string {
	for range o.depth {
		value = level(value)
	}
	return value
}

// properties of spec.
func (o odd) properties() string {
	return o.nested(o.oddity.properties, func(p string) string { return "below: {type: object, properties: {" + p + "}}" })
}

// fields of spec as composed.
func (o odd) fields() string {
	return o.nested(o.composed, func(c string) string { return "below: {" + c + "}" })
}

// kinds are all of them: forty.
func kinds() (out []odd) {
	for _, o := range oddities {
		for depth := range depths {
			out = append(out, odd{o, depth})
		}
	}
	return out
}

// crd of a kind in a group. Each third one has a version of its own in which it is stored, where size has another name, and a webhook converts it.
func (o odd) crd(i int, group, webhook, ca string) string {
	version := func(name, size string, storage bool) string {
		return fmt.Sprintf(`
  - name: %s
    served: true
    storage: %t
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {%s: {type: integer}, %s}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
    subresources: {status: {}}`, name, storage, size, o.properties())
	}
	versions, conversion := version("v1", "size", true), ""
	if i%3 == 0 {
		versions = version("v1", "size", false) + version("v2", "gigabytes", true)
		conversion = fmt.Sprintf(`
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: %q, caBundle: %s}}`, webhook+"/convert", ca)
	}
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.%s}
spec:
  group: %s
  scope: Namespaced
  names: {kind: %s, plural: %s}
  versions:%s%s
`, o.plural(), group, group, o.kind(), o.plural(), versions, conversion)
}

// composedAs an entry of a Composition, in a group.
func (o odd) composedAs(group string) string {
	return fmt.Sprintf(`
      - name: %s
        base: {apiVersion: %s/v1, kind: %s, spec: {size: 0, %s}}
        readinessChecks: [{type: None}]
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.size}]`, strings.ToLower(o.kind()), group, o.kind(), o.fields())
}
