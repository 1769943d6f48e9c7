package kro

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// config begins the template of a ConfigMap, up to its data.
const config = `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: `

// deriveCase is a graph, and its policy in short, or a part of the error.
type deriveCase struct{ reason, schema, resources, want, err string }

// testDerive checks the policies of graphs. They have a schema with fields of each type where the case has none.
func testDerive(t *testing.T, cases map[string]deriveCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.schema == "" {
				tc.schema = `{apiVersion: v1, kind: Shop, spec: {text: string, tier: 'string | default="a"', size: integer | default=1, enabled: boolean,
					labels: "map[string]string", zones: "[]string", tiers: "[]string", ingress: {host: string, port: string}}}`
			}
			if tc.resources == "" {
				tc.resources = "[]"
			}
			g := readGraphs(t, "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: shop}\n"+
				"spec:\n  schema: "+tc.schema+"\n  resources: "+tc.resources)
			d, err := Derive(&g[0], DefaultServiceAccount)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("%s: want %q, got %v", tc.reason, tc.err, err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want, short(t, d)); diff != "" {
				t.Errorf("%s: %s", tc.reason, diff)
			}
		})
	}
}

// TestDerive covers KR-18-09: what one graph lets a change of an instance change.
func TestDerive(t *testing.T) {
	testDerive(t, map[string]deriveCase{
		"Field": {
			reason:    "the field of one scalar is never absent",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.text}"}}}]`,
			want:      "spec.text\n  Update ConfigMap data.a[Mutate]\n",
		},
		"Constant": {
			reason:    "only an edit of the graph changes it",
			resources: `[{id: c, template: ` + config + `{a: "1"}}}]`,
		},
		"Map": {
			reason:    "below a field that is no scalar keys are added and removed",
			resources: `[{id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: "${schema.spec.labels}"}}]`,
			want:      "spec.labels\n  Update ConfigMap data\n",
		},
		"Default": {
			reason:    "markers of a type are not part of it",
			resources: `[{id: c, template: ` + config + `{a: "${string(schema.spec.size)}", b: "${schema.spec.tier}"}}}]`,
			want:      "spec.size\n  Update ConfigMap data.a\nspec.tier\n  Update ConfigMap data.b[Mutate]\n",
		},
		"Text": {
			reason:    "a text around expressions is never absent",
			resources: `[{id: c, template: ` + config + `{a: "x-${schema.spec.text}-${schema.spec.labels['a']}"}}}]`,
			want:      "spec.labels.a\n  Update ConfigMap data.a[Mutate]\nspec.text\n  Update ConfigMap data.a[Mutate]\n",
		},
		"Condition": {
			reason:    "either value, or none",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.enabled ? schema.spec.text : schema.spec.tier}"}}}]`,
			want:      "spec.enabled\n  Update ConfigMap data.a\nspec.text\n  Update ConfigMap data.a\nspec.tier\n  Update ConfigMap data.a\n",
		},
		"Optional": {
			reason:    "the inspector reads a field that may be absent as well",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.?ingress.?host.orValue('')}", b: "${schema.spec.ingress[?\"port\"].orValue('')}"}}}]`,
			want:      "spec.ingress.host\n  Update ConfigMap data.a\nspec.ingress.port\n  Update ConfigMap data.b\n",
		},
		"Comprehension": {
			reason:    "all items of the list",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.zones.map(z, z + schema.spec.text).join(',')}"}}}]`,
			want:      "spec.text\n  Update ConfigMap data.a\nspec.zones\n  Update ConfigMap data.a\n",
		},
		"ManagedResource": {
			reason: "its updates open its gate; its deletion is for a person to allow",
			resources: `[{id: a, includeWhen: ["${schema.spec.enabled}"], template: {apiVersion: rds.example.org/v1, kind: Instance, metadata: {name: a},
				spec: {forProvider: {size: "${schema.spec.size}"}}}}]`,
			want: "spec.size\n  Update Instance spec.forProvider.size[Mutate]\n  Update External Instance\n" +
				"spec.enabled\n  Create,Delete Instance\n" +
				"unknown: resources[0]: the deletion of its external resource is for a person to allow: add relation External with verb Delete to the rules that may\n",
		},
		"SameField": {
			reason: "two resources of a kind share their rules",
			resources: `[{id: a, template: ` + config + `{x: "${schema.spec.text}"}}},
				{id: b, template: ` + config + `{x: "${schema.spec.tier}", z: "${schema.spec.text}"}}}]`,
			want: "spec.text\n  Update ConfigMap data.x[Mutate] data.z[Mutate]\nspec.tier\n  Update ConfigMap data.x[Mutate]\n",
		},
		"BehindCall": {
			reason:    "any item of the list may be the one",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.zones.filter(z, z != '').first().orValue({}).name}"}}}]`,
			want:      "spec.zones\n  Update ConfigMap data.a\n",
		},
		"Zero": {
			reason: "the API server drops what the Go type omits",
			resources: `[{id: c, template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, spec: {replicas: "${schema.spec.size}",
				minReadySeconds: "${schema.spec.size}", template: {spec: {hostNetwork: "${schema.spec.enabled}",
				containers: [{name: c, image: "x${schema.spec.tier}", env: [{name: e, value: "${schema.spec.text}"}]}]}}}}},
				{id: d, template: {apiVersion: example.org/v1, kind: Thing, metadata: {name: d}, spec: {paused: "${schema.spec.enabled}"}}}]`,
			want: "spec.size\n  Update Deployment spec.minReadySeconds spec.replicas[Mutate]\n" +
				"spec.text\n  Update Deployment spec.template.spec.containers[*].env[*].value\n" +
				"spec.tier\n  Update Deployment spec.template.spec.containers[*].image[Mutate]\n" +
				"spec.enabled\n  Update Deployment spec.template.spec.hostNetwork\n  Update Thing spec.paused[Mutate]\n",
		},
		"EmptyText": {
			reason:    "two expressions may be empty",
			resources: `[{id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "${schema.spec.text}${schema.spec.tier}"}}}]`,
			want:      "spec.text\n  Update ConfigMap data.a\nspec.tier\n  Update ConfigMap data.a\n",
		},
	})
}

// TestDeriveKeys covers KR-18-09: keys of maps and items of lists, in what is read and in what is written.
func TestDeriveKeys(t *testing.T) {
	testDerive(t, map[string]deriveCase{
		"KeyWithDashes": {
			reason:    "the field above it is read",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.labels['a-b']}"}}}]`,
			want:      "spec.labels\n  Update ConfigMap data.a\n",
		},
		"DynamicKey": {
			reason:    "any key, by the value of another field",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.labels[schema.spec.text]}"}}}]`,
			want:      "spec.labels\n  Update ConfigMap data.a\nspec.text\n  Update ConfigMap data.a\n",
		},
		"ListKey": {
			reason: "with another name it is another container",
			resources: `[{id: a, template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [
				{name: "${schema.spec.text}", image: "${schema.spec.tier}"}]}}}}}]`,
			want: "spec.tier\n  Update Deployment spec.template.spec.containers[*].image[Mutate]\n" +
				"spec.text\n  Update Deployment spec.template.spec.containers[*].name[Mutate] spec.template.spec.containers[*][Insert Delete]\n",
		},
		"KeyWithPeriods": {
			reason:    "in brackets",
			resources: `[{id: a, template: {apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {"app.example.org/x": "${schema.spec.text}"}}}}]`,
			want:      "spec.text\n  Update Service spec.selector[app.example.org/x][Mutate]\n",
		},
		"AnyKey": {
			reason:    "the key would be a pattern",
			resources: `[{id: c, template: ` + config + `{"*": "${schema.spec.text}"}}}]`,
			want:      `unknown: resources[0].template.data.*: ${schema.spec.text}: the key "*" would permit every field` + "\n",
		},
		"KeyOfSpec": {
			reason:    "a key that is no name is not known to the inspector",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec['a-b']}"}}}]`,
			want: "spec\n  Update ConfigMap data.a\n" +
				`unknown: resources[0].template.data.a: ${schema.spec["…"]}: it may read any field of the instance: a change of each allows it` + "\n",
		},
		"Escaped": {
			reason:    "kro declares such names escaped",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.a__dash__b}", b: "${schema.spec.__namespace__}"}}}]`,
			want:      "spec.a-b\n  Update ConfigMap data.a\nspec.namespace\n  Update ConfigMap data.b\n",
		},
		"Quoted": {
			reason:    "the field above a key with periods",
			resources: "[{id: c, template: " + config + "{a: \"${schema.spec.labels.`a.b`}\"}}}]",
			want:      "spec.labels\n  Update ConfigMap data.a\n",
		},
	})
}

// TestDeriveFromInstance covers KR-18-09: expressions about more of the instance than a field of its spec.
func TestDeriveFromInstance(t *testing.T) {
	testDerive(t, map[string]deriveCase{
		"WholeSpec": {
			reason:    "any field of the instance, which covers the others",
			resources: `[{id: c, template: ` + config + `{a: "${json.marshal(schema.spec)}", b: "${schema.spec.text}"}}}]`,
			want: "spec\n  Update ConfigMap data.a\nspec.text\n  Update ConfigMap data.b[Mutate]\n" +
				"unknown: resources[0].template.data.a: ${json.marshal(schema.spec)}: it may read any field of the instance: a change of each allows it\n",
		},
		"WholeInstance": {
			reason:    "its metadata and status are no cause",
			resources: `[{id: c, template: ` + config + `{a: "${json.marshal(schema)}"}}}]`,
			want: "spec\n  Update ConfigMap data.a\n" +
				"unknown: resources[0].template.data.a: ${json.marshal(schema)}: it reads the whole instance; its metadata and status are no desired state\n",
		},
		"Name": {
			reason:    "the name of an instance never changes",
			resources: `[{id: c, template: ` + config + `{a: "${schema.metadata.name}.${schema.metadata.namespace}"}}}]`,
		},
		"Labels": {
			reason:    "labels of the instance are no desired state",
			resources: `[{id: c, template: ` + config + `{a: "${schema.metadata.labels['team']}"}}}]`,
			want: `unknown: resources[0].template.data.a: ${schema.metadata.labels["…"]}: ` +
				"metadata.labels.team of the instance is no desired state: a change of it explains none of a resource\n",
		},
		"LabelsOfResource": {
			reason:    "no change of them needs a permission",
			resources: `[{id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: "${schema.spec.text}"}}}}]`,
		},
		"Secret": {
			reason:    "an expression may have the value",
			resources: `[{id: a, template: {apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {x: "hunter2-${schema.metadata.labels['a']}"}}}]`,
			want: `unknown: resources[0].template.stringData.x: …${schema.metadata.labels["…"]}: ` +
				"metadata.labels.a of the instance is no desired state: a change of it explains none of a resource\n",
		},
		"Hidden": {
			reason:    "a variable with the name of the instance hides it from the inspector",
			resources: `[{id: c, template: ` + config + `{a: "${schema.spec.zones.map(schema, schema).join(',')}"}}}]`,
			want: "spec\n  Update ConfigMap data.a\n" +
				`unknown: resources[0].template.data.a: ${schema.spec.zones.map(schema, schema).join("…")}: ` +
				"it reads the whole instance; its metadata and status are no desired state\n",
		},
		"Kind": {
			reason:    "it never changes",
			resources: `[{id: c, template: ` + config + `{a: "${schema.kind}"}}}]`,
		},
	})
}

// TestDeriveFromResources covers KR-18-09: expressions about other resources follow from what those depend on.
func TestDeriveFromResources(t *testing.T) {
	testDerive(t, map[string]deriveCase{
		"Transitive": {
			reason:    "a field of another resource that has an expression",
			resources: `[{id: a, template: ` + config + `{x: "${schema.spec.text}", z: "1"}}}, {id: b, template: ` + config + `{x: "${a.data.x}", z: "${a.data.z}"}}}]`,
			want:      "spec.text\n  Update ConfigMap data.x\n",
		},
		"Status": {
			reason: "what another resource reports follows from all that it has",
			resources: `[{id: a, template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a},
				spec: {replicas: "${schema.spec.size}", paused: "${schema.spec.enabled}"}}},
				{id: b, template: ` + config + `{x: "${string(a.status.readyReplicas)}"}}}]`,
			want: "spec.enabled\n  Update Deployment spec.paused\n  Update ConfigMap data.x\n" +
				"spec.size\n  Update Deployment spec.replicas[Mutate]\n  Update ConfigMap data.x\n",
		},
		"StatusOfStatus": {
			reason: "over several resources, with their conditions",
			resources: `[{id: a, includeWhen: ["${schema.spec.enabled}"],
				template: {apiVersion: v1, kind: Secret, metadata: {name: a}, data: {x: "${schema.spec.text}"}}},
				{id: b, template: {apiVersion: v1, kind: Service, metadata: {name: b}, spec: {externalName: "${a.metadata.uid}"}}},
				{id: d, template: ` + config + `{x: "${b.spec.clusterIP}"}}}]`,
			want: "spec.text\n  Update Secret data.x[Mutate]\n  Update Service spec.externalName\n  Update ConfigMap data.x\n" +
				"spec.enabled\n  Update Service spec.externalName\n  Update ConfigMap data.x\n" +
				"  Create,Delete Secret\n  Create,Delete Service\n  Create,Delete ConfigMap\n",
		},
		"Absent": {
			reason: "a label that the template does not have",
			resources: `[{id: a, template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: "${schema.spec.text}"}}},
				{id: b, template: ` + config + `{x: "${a.metadata.labels.app}", z: "${a.metadata.name}"}}}]`,
			want: "spec.text\n  Update Deployment metadata.name[Mutate]\n  Update ConfigMap data.z\n  Create,Delete Deployment\n" +
				"unknown: resources[1].template.data.x: ${a.metadata.labels.app}: resources[0] has no metadata.labels.app, so nothing of the instance changes it\n",
		},
		"Include": {
			reason: "kro leaves out what reads a resource that is left out",
			resources: `[{id: a, includeWhen: ["${schema.spec.enabled && schema.spec.size > 1}"], template: ` + config + `{x: "1"}}},
				{id: b, template: {apiVersion: v1, kind: Secret, metadata: {name: "${a.metadata.name}"}}}]`,
			want: "spec.enabled\n  Create,Delete ConfigMap\n  Create,Delete Secret\nspec.size\n  Create,Delete ConfigMap\n  Create,Delete Secret\n",
		},
		"Collection": {
			reason: "items come and go with the list, and what reads the collection follows",
			resources: `[{id: a, forEach: [{zone: "${schema.spec.zones}"}, {tier: "${schema.spec.tiers}"}],
				template: {apiVersion: v1, kind: Secret, metadata: {name: "s-${zone}"}, data: {x: "${tier}", z: "${schema.spec.text}"}}},
				{id: b, template: ` + config + `{x: "${a.map(s, s.metadata.name).join(',')}"}}}]`,
			want: "spec.tiers\n  Update Secret data.x\n  Update ConfigMap data.x\n  Create,Delete Secret\n" +
				"spec.text\n  Update Secret data.z[Mutate]\n  Update ConfigMap data.x\n" +
				"spec.zones\n  Update Secret metadata.name[Mutate]\n  Update ConfigMap data.x\n  Create,Delete Secret\n",
		},
		"External": {
			reason: "what it has is not of the instance; its name is",
			resources: `[{id: a, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.text}"}}},
				{id: b, template: ` + config + `{x: "${a.data.x}", z: "${a.metadata.name}"}}}]`,
			want: "spec.text\n  Update ConfigMap data.x data.z\n" +
				"unknown: resources[1].template.data.x: ${a.data.x}: resources[0] is an external object: a change of it explains none of a resource\n",
		},
		"ExternalSelector": {
			reason: "by labels",
			resources: `[{id: a, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchLabels: {team: "${schema.spec.text}"}}}}},
				{id: b, template: ` + config + `{x: "${string(a.size())}"}}}]`,
			want: "spec.text\n  Update ConfigMap data.x\n" +
				"unknown: resources[1].template.data.x: ${string(a.size())}: resources[0] is an external object: a change of it explains none of a resource\n",
		},
		"ConstantLabels": {
			reason: "they are those of the template",
			resources: `[{id: a, template: {apiVersion: v1, kind: Secret, metadata: {name: a, labels: {x: y}}}},
				{id: b, template: ` + config + `{x: "${string(a.metadata.labels)}"}}}]`,
		},
	})
}

// TestDeriveErrors covers KR-18-09: what is wrong with a graph is an error with the place.
func TestDeriveErrors(t *testing.T) {
	testDerive(t, map[string]deriveCase{
		"NoKind":     {reason: "spec.schema", schema: "{apiVersion: v1}", err: "spec.schema: kind and apiVersion are required"},
		"NoTemplate": {reason: "neither form", resources: `[{id: a}]`, err: "spec.resources[0]: it must have one of template and externalRef"},
		"Twice": {reason: "an id", resources: `[{id: a, template: ` + config + `{}}}, {id: a, template: ` + config + `{}}}]`,
			err: `spec.resources[1].id: "a" is already used`},
		"ID": {reason: "no variable", resources: `[{id: a-b, template: ` + config + `{}}}]`, err: "spec.resources[0].id: it must be letters and digits"},
		"Unknown": {reason: "no such resource", resources: `[{id: a, template: ` + config + `{x: "${b.data.x}"}}}]`,
			err: `spec.resources[0].template.data.x: the graph has no resource "b"`},
		"Syntax": {reason: "it does not parse", resources: `[{id: a, template: ` + config + `{x: "${schema.spec.}"}}}]`,
			err: "spec.resources[0].template.data.x: parse error"},
		"Unclosed": {reason: "no expression", resources: `[{id: a, includeWhen: ["schema.spec.enabled"], template: ` + config + `{}}}]`,
			err: "spec.resources[0].includeWhen[0]: it must be an expression in ${…}"},
		"DynamicKind": {reason: "no kind", resources: `[{id: a, template: {apiVersion: v1, kind: "${schema.spec.text}", metadata: {name: a}}}]`,
			err: "spec.resources[0].template: apiVersion and kind must be those of a kind"},
		"Iterators": {
			reason:    "kro has no such collection, and following them would take for ever",
			resources: `[{id: a, forEach: [{x: "${schema.spec.zones}"}, {y1: "${x + x}"}], template: ` + config + `{}}}]`,
			err:       `spec.resources[0].forEach: iterator "y1" reads iterator "x"`,
		},
		"IteratorName": {
			reason:    "it would be two things",
			resources: `[{id: a, forEach: [{schema: "${schema.spec.zones}"}], template: ` + config + `{}}}]`,
			err:       `spec.resources[0].forEach: the name "schema" is already used`,
		},
		"Cycle": {
			reason:    "of two",
			resources: `[{id: a, template: ` + config + `{x: "${b.data.x}"}}}, {id: b, template: ` + config + `{x: "${a.data.x}"}}}]`,
			err:       "spec.resources: a cycle: a reads b reads a",
		},
	})
}

// TestRead: graphs are read from any documents; a file without one is an error.
func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		text, err string
		want      int
	}{
		"Mixed": {text: "apiVersion: v1\nkind: ConfigMap\nspec: 3\n---\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: a}\n---\n",
			want: 1},
		"None":    {text: "apiVersion: v1\nkind: ConfigMap\n", err: "it has no ResourceGraphDefinition (kro.run)"},
		"Empty":   {text: "", err: "it has no ResourceGraphDefinition (kro.run)"},
		"NoYAML":  {text: "a: [", err: "cannot read it: "},
		"Invalid": {text: "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nspec: 3\n", err: "cannot read it: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(strings.NewReader(tc.text))
			if len(got) != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("want %d graphs and error %q, got %d and %v", tc.want, tc.err, len(got), err)
			}
		})
	}
}
