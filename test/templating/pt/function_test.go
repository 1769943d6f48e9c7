package pt

import (
	"context"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
)

// message reads a protobuf message from YAML.
func message[M proto.Message](t *testing.T, doc string, into M) M {
	t.Helper()
	j, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		t.Fatalf("cannot parse the test's YAML: %v", err)
	}
	if err := protojson.Unmarshal(j, into); err != nil {
		t.Fatalf("cannot parse the test's message: %v", err)
	}
	return into
}

// newRequest with an observed composite and the supplied resources of the input.
func newRequest(t *testing.T, more string) *fnv1.RunFunctionRequest {
	t.Helper()
	return message(t, `
meta: {tag: t}
observed:
  composite:
    resource:
      apiVersion: example.org/v1alpha1
      kind: XDatabase
      metadata: {name: hans-db, namespace: default}
      spec: {size: 20, tier: gold, on: true, ratio: 1.5}
`+more, &fnv1.RunFunctionRequest{})
}

const inputHead = `
input:
  apiVersion: pt.fn.crossplane.io/v1beta1
  kind: Resources
  resources:
`

const observedDB = `
  resources:
    db:
      resource:
        apiVersion: cloud.example.org/v1alpha1
        kind: Database
        metadata: {name: hans-db-x1, namespace: default}
        spec: {forProvider: {size: 10}}
        status: {atProvider: {state: available}, conditions: [{type: Ready, status: "True", reason: A, lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`

func TestRunFunction(t *testing.T) {
	const composite = `composite: {resource: {apiVersion: example.org/v1alpha1, kind: XDatabase}}`
	cases := map[string]struct {
		reason  string
		request string
		want    string
	}{
		"Patches": {
			reason: "values are copied, transformed and combined; integers stay integers",
			request: inputHead + `
  - name: db
    base: {apiVersion: cloud.example.org/v1alpha1, kind: Database, spec: {forProvider: {size: 1, tags: {team: a}}}}
    patches:
    - {fromFieldPath: spec.size, toFieldPath: spec.forProvider.size, transforms: [{type: math, math: {type: Multiply, multiply: 2}}]}
    - {fromFieldPath: spec.tier, toFieldPath: "spec.forProvider.tags[tier]", transforms: [{type: map, map: {gold: premium}}]}
    - {fromFieldPath: spec.size, toFieldPath: spec.forProvider.label, transforms: [{type: string, string: {type: Format, fmt: "size-%d"}}]}
    - {fromFieldPath: spec.size, toFieldPath: spec.forProvider.text, transforms: [{type: convert, convert: {toType: string}}]}
    - {fromFieldPath: spec.absent, toFieldPath: spec.forProvider.absent}
    - {type: CombineFromComposite, toFieldPath: metadata.name, combine: {strategy: string, variables: [{fromFieldPath: metadata.name}, {fromFieldPath: spec.size}], string: {fmt: "%s-%d"}}}
    - {type: ToCompositeFieldPath, fromFieldPath: status.atProvider.state, toFieldPath: status.state}
`,
			want: `
desired:
  ` + composite + `
  resources:
    db:
      resource: {apiVersion: cloud.example.org/v1alpha1, kind: Database, metadata: {name: hans-db-20}, spec: {forProvider: {size: 40, label: size-20, text: "20", tags: {team: a, tier: premium}}}}
`,
		},
		"Observed": {
			reason: "an observed resource keeps its name, patches the composite and is ready by its condition",
			request: observedDB + inputHead + `
  - name: db
    base: {apiVersion: cloud.example.org/v1alpha1, kind: Database}
    patches:
    - {type: ToCompositeFieldPath, fromFieldPath: status.atProvider.state, toFieldPath: status.state}
`,
			want: `
desired:
  composite: {resource: {apiVersion: example.org/v1alpha1, kind: XDatabase, status: {state: available}}}
  resources:
    db:
      resource: {apiVersion: cloud.example.org/v1alpha1, kind: Database, metadata: {name: hans-db-x1, namespace: default}}
      ready: READY_TRUE
`,
		},
		"NotReady": {
			reason: "a check that does not hold leaves readiness unspecified",
			request: observedDB + inputHead + `
  - name: db
    base: {apiVersion: cloud.example.org/v1alpha1, kind: Database}
    readinessChecks: [{type: MatchString, fieldPath: status.atProvider.state, matchString: creating}]
`,
			want: `
desired:
  ` + composite + `
  resources:
    db: {resource: {apiVersion: cloud.example.org/v1alpha1, kind: Database, metadata: {name: hans-db-x1, namespace: default}}}
`,
		},
		"RequiredMissing": {
			reason: "a resource that does not exist yet is not created without its required source; the others are",
			request: inputHead + `
  - name: db
    base: {apiVersion: v1, kind: A}
    patches: [{fromFieldPath: spec.absent, policy: {fromFieldPath: Required}}]
  - name: other
    base: {apiVersion: v1, kind: B}
`,
			want: `
desired:
  ` + composite + `
  resources: {other: {resource: {apiVersion: v1, kind: B}}}
results: [{severity: SEVERITY_WARNING, target: TARGET_COMPOSITE, message: 'composed resource "db": not created yet because the FromCompositeFieldPath patch at index 0 requires its source: spec.absent: no such field'}]
`,
		},
		"RequiredMissingButExists": {
			reason: "a resource that exists must not be deleted because a source is missing",
			request: observedDB + inputHead + `
  - name: db
    base: {apiVersion: v1, kind: A}
    patches: [{fromFieldPath: spec.absent, policy: {fromFieldPath: Required}}]
    readinessChecks: [{type: None}]
`,
			want: `
desired:
  ` + composite + `
  resources: {db: {resource: {apiVersion: v1, kind: A, metadata: {name: hans-db-x1, namespace: default}}, ready: READY_TRUE}}
results: [{severity: SEVERITY_WARNING, target: TARGET_COMPOSITE, message: 'composed resource "db": FromCompositeFieldPath patch at index 0 requires its source, but its destination already exists: spec.absent: no such field'}]
`,
		},
		"EarlierSteps": {
			reason: "what earlier steps composed is patched where a template names it and passed on otherwise, readiness included",
			request: `
desired:
  composite: {resource: {status: {earlier: true}}, ready: READY_FALSE}
  resources:
    db: {resource: {apiVersion: v1, kind: A, spec: {keep: 1}}}
    untouched: {resource: {apiVersion: v1, kind: C}, ready: READY_TRUE}
` + inputHead + `
  - name: db
    patches: [{fromFieldPath: spec.size}]
`,
			want: `
desired:
  composite: {resource: {apiVersion: example.org/v1alpha1, kind: XDatabase, status: {earlier: true}}, ready: READY_FALSE}
  resources:
    db: {resource: {apiVersion: v1, kind: A, spec: {keep: 1, size: 20}}}
    untouched: {resource: {apiVersion: v1, kind: C}, ready: READY_TRUE}
`,
		},
		"NoBase": {
			reason:  "nothing to patch is fatal, and the desired state stays that of the earlier steps",
			request: inputHead + "  - name: db\n",
			want: `
results: [{severity: SEVERITY_FATAL, target: TARGET_COMPOSITE, message: 'cannot render composed resource "db": it has no base, and no earlier step of the pipeline composed it'}]
`,
		},
		"TransformFails": {
			reason: "a value that does not fit is fatal and names patch and transform",
			request: inputHead + `
  - name: db
    base: {apiVersion: v1, kind: A}
    patches: [{fromFieldPath: spec.tier, toFieldPath: spec.x, transforms: [{type: convert, convert: {toType: int64}}]}]
`,
			want: `
results: [{severity: SEVERITY_FATAL, target: TARGET_COMPOSITE, message: 'cannot render composed resource "db": FromCompositeFieldPath patch at index 0: convert transform at index 0: cannot convert to int64: strconv.ParseInt: parsing "gold": invalid syntax'}]
`,
		},
		"Wildcard": {
			reason: "a wildcard writes to every element that has the field, as in the original",
			request: inputHead + `
  - name: db
    base: {apiVersion: v1, kind: A, spec: {list: [{a: 1, size: 0}, {a: 2, size: 0}]}}
    patches: [{fromFieldPath: spec.size, toFieldPath: "spec.list[*].size"}]
`,
			want: `
desired:
  ` + composite + `
  resources: {db: {resource: {apiVersion: v1, kind: A, spec: {list: [{a: 1, size: 20}, {a: 2, size: 20}]}}}}
`,
		},
		"WildcardMatchesNothing": {
			reason: "a destination that does not exist is fatal, unlike a source",
			request: inputHead + `
  - name: db
    base: {apiVersion: v1, kind: A}
    patches: [{fromFieldPath: spec.size, toFieldPath: "spec.list[*].size"}]
`,
			want: `
results: [{severity: SEVERITY_FATAL, target: TARGET_COMPOSITE, message: 'cannot render composed resource "db": FromCompositeFieldPath patch at index 0: cannot write spec.list[*].size: nothing matches it'}]
`,
		},
		"UnknownField": {
			reason:  "input the stand-in does not understand is fatal",
			request: inputHead + "  - {name: db, connectionDetails: []}\n",
			want: `
results: [{severity: SEVERITY_FATAL, target: TARGET_COMPOSITE, message: 'cannot use input: unknown field "resources[0].connectionDetails"'}]
`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req := newRequest(t, tc.request)
			before := proto.Clone(req)
			want := message(t, "meta: {tag: t, ttl: 60s}\n"+tc.want, &fnv1.RunFunctionResponse{})
			f := NewFunction(logging.NewNopLogger())

			for range 2 { // The same input gives the same output.
				got, err := f.RunFunction(context.Background(), req)
				if err != nil {
					t.Fatalf("\n%s\nunexpected error: %v", tc.reason, err)
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
				}
			}
			if diff := cmp.Diff(before, req, protocmp.Transform()); diff != "" {
				t.Errorf("\n%s\nthe request was modified:\n%s", tc.reason, diff)
			}
		})
	}
}
