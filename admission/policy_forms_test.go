package admission

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var (
	hans       = subject.User{Name: "hans@example.com", Groups: []string{"platform-team"}}
	replicaset = subject.User{Name: "system:serviceaccount:kube-system:replicaset-controller"}
)

// child of a parent in steady state, with the annotations that an admitted write
// of its controller leaves.
func child(o *unstructured.Unstructured, of *unstructured.Unstructured, writer, controller subject.User) *unstructured.Unstructured {
	o = o.DeepCopy()
	if of != nil {
		refs := []any{map[string]any{"apiVersion": of.GetAPIVersion(), "kind": of.GetKind(), "name": of.GetName(), "uid": string(of.GetUID()), "controller": true}}
		_ = unstructured.SetNestedSlice(o.Object, refs, "metadata", "ownerReferences")
	}
	a := map[string]string{
		v1alpha1.AnnotationKeyTrace:             trace.Trace{fx.Hop(o, o.GetGeneration(), writer.Name)}.String(),
		v1alpha1.AnnotationKeySettledGeneration: strconv.FormatInt(o.GetGeneration(), 10), v1alpha1.AnnotationKeyPhase: "initialized",
		v1alpha1.AnnotationKeyControllers: controller.Hash(), v1alpha1.AnnotationKeyControllerIDs: controller.ID(),
	}
	if of != nil {
		a[v1alpha1.AnnotationKeyUpdaters] = writer.Hash()
	}
	for k, v := range o.GetAnnotations() {
		a[k] = v
	}
	o.SetAnnotations(a)
	return o
}

func deployment() *unstructured.Unstructured {
	return child(fx.Object(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: foo, namespace: default, uid: d-uid, generation: 6, labels: {env: dev}, annotations: {jira: INFRA-23232, approved-by: alice@example.com}}
spec: {replicas: 2, template: {spec: {containers: [{name: app, image: "app:1"}, {name: proxy, image: "proxy:1"}]}}}
status: {observedGeneration: 6, replicas: 2}
`), nil, hans, fx.Deployer)
}

func replicaSet(d *unstructured.Unstructured) *unstructured.Unstructured {
	return child(fx.Object(`
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: foo-abc, namespace: default, uid: rs-uid, generation: 13}
spec: {replicas: 2, template: {spec: {containers: [{name: app, image: "app:1"}, {name: proxy, image: "proxy:1"}]}}}
status: {observedGeneration: 13, replicas: 2}
`), d, fx.Deployer, replicaset)
}

func pod(rs *unstructured.Unstructured, name string) *unstructured.Unstructured {
	return child(fx.Object(`
apiVersion: v1
kind: Pod
metadata: {name: `+name+`, namespace: default, uid: `+name+`-uid, generation: 1}
spec: {containers: [{name: app, image: "app:1"}]}
status: {phase: Running}
`), rs, replicaset, subject.User{Name: "system:node:a"})
}

const deploymentPolicy = `
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata: {name: deployment-policy}
spec:
  target: {apiGroup: apps, apiVersion: v1, kind: Deployment}
  subjects:
  - {kind: Group, name: platform-team, mayInitiate: true}
  - {kind: ServiceAccount, name: deployment-controller, namespace: kube-system}
  initializing:
    when: "!has(object.status.observedGeneration)"
    allow: [{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*", verbs: [Insert, Mutate]}]}]
  deleting:
    allow: [{relation: ControllerChild, verbs: ["*"]}]
  rules:
  - trigger: "spec.replicas"
    capture: ["metadata.annotations[jira]", "metadata.annotations[approved-by]"]
    allow:
    - target: {apiGroup: apps, apiVersion: v1, kind: ReplicaSet}
      relation: ControllerChild
      verbs: [Update, Delete]
      mutations: [{jsonPath: "spec.replicas", verbs: [Mutate]}]
  - trigger: "spec.template.spec.containers[*].image"
    conditions:
    - "object.metadata.labels['env'] != 'prod'"
    - "has(object.metadata.annotations['jira'])"
    capture: ["metadata.annotations[jira]", "metadata.annotations[approved-by]"]
    allow:
    - target: {apiGroup: apps, apiVersion: v1, kind: ReplicaSet}
      relation: ControllerChild
      verbs: [Update]
      mutations: [{jsonPath: "spec.template.spec.containers[*]", verbs: [Insert, Delete, Mutate]}]
`

const replicaSetPolicy = `
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata: {name: replicaset-policy}
spec:
  match: {kind: ReplicaSet, fields: ["spec.replicas"]}
  subjects: [{kind: ServiceAccount, name: deployment-controller, namespace: kube-system}]
  allow: [{kind: Pod, relation: Child, mutations: [delete, create]}]
`

// TestDeploymentReplicaSetPod is a chain of two grants in the shorthand form.
func TestDeploymentReplicaSetPod(t *testing.T) {
	d := deployment()
	rs := replicaSet(d)
	p := newPlay(t, policySet(t, deploymentPolicy, replicaSetPolicy), d, rs, pod(rs, "foo-abc-1"), pod(rs, "foo-abc-2"))

	p.want(p.remove(replicaset, "foo-abc-2"), outcome.ReasonDrift) // it was not scaled
	p.want(p.update(hans, "kubectl", "foo", fx.Set(int64(1), "spec", "replicas")), outcome.ReasonNoParent)
	p.holds("foo", `
- apiVersion: apps/v1
  kind: ReplicaSet
  relation: ControllerChild
  verbs: [Update, Delete]
  mutations: [{jsonPath: spec.replicas, verbs: [Mutate]}]
  generation: 7
  initiator: hans@example.com
  trace:
  - kind: Deployment
    name: foo
    generation: 7
    field: spec.replicas
    attestations: {"metadata.annotations[jira]": INFRA-23232, "metadata.annotations[approved-by]": alice@example.com}
`)
	p.want(p.update(fx.Deployer, "", "foo-abc", fx.Set("app:evil", "spec", "template", "note")), outcome.ReasonAllowanceMissing)
	p.want(p.update(fx.Deployer, "", "foo-abc", fx.Set(int64(1), "spec", "replicas")), outcome.ReasonExpected)
	p.holds("foo-abc", `
- kind: Pod
  relation: ControllerChild
  verbs: [Delete, Create]
  generation: 14
  initiator: hans@example.com
  trace:
  - kind: Deployment
    name: foo
    generation: 7
    field: spec.replicas
    attestations: {"metadata.annotations[jira]": INFRA-23232, "metadata.annotations[approved-by]": alice@example.com}
  - {kind: ReplicaSet, name: foo-abc, generation: 14, field: spec.replicas}
`)
	p.want(p.remove(replicaset, "foo-abc-2"), outcome.ReasonExpected)
	p.want(p.update(replicaset, "", "foo-abc-1", fx.Set("x", "spec", "note")), outcome.ReasonAllowanceMissing)

	// Settled, they are consumed; the next write prunes them.
	p.settle("foo", "foo-abc")
	p.want(p.remove(replicaset, "foo-abc-1"), outcome.ReasonDrift)
	p.want(p.update(hans, "kubectl", "foo", fx.Set("app:2", "spec", "template", "spec", "note")), outcome.ReasonNoParent)
	p.holds("foo", `null`)
}

// TestImagesByIndex: what triggers is recorded with its concrete index, and an item
// that comes at the front is one insertion (KR-06-06).
func TestImagesByIndex(t *testing.T) {
	d := deployment()
	p := newPlay(t, policySet(t, deploymentPolicy), d, replicaSet(d))
	containers := func(images ...string) fx.Mod {
		var list []any
		for _, i := range images {
			name, _, _ := strings.Cut(i, ":")
			list = append(list, map[string]any{"name": name, "image": i})
		}
		return fx.Set(list, "spec", "template", "spec", "containers")
	}
	p.want(p.update(hans, "kubectl", "foo", containers("app:1", "proxy:2")), outcome.ReasonNoParent)
	entries := p.objects["foo"].GetAnnotations()[v1alpha1.AnnotationKeyAllowances]
	if !strings.Contains(entries, `"field":"spec.template.spec.containers[1].image"`) {
		t.Errorf("no concrete index: %s", entries)
	}
	p.want(p.update(fx.Deployer, "", "foo-abc", containers("init:1", "app:1", "proxy:2")), outcome.ReasonExpected)
	dec := p.update(fx.Deployer, "", "foo-abc", containers("init:1", "app:1", "proxy:3"), fx.Set("x", "spec", "strategy"))
	p.want(dec, outcome.ReasonAllowanceMissing)
	if !strings.Contains(dec.Message, "no allowance on Deployment default/foo covers spec.strategy (AllowancePolicy deployment-policy)") {
		t.Errorf("message: %s", dec.Message)
	}
}

// TestConditionThatIsNotMet covers KR-06-03.
func TestConditionThatIsNotMet(t *testing.T) {
	d := fx.With(deployment(), func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"env": "prod"}) })
	p := newPlay(t, policySet(t, deploymentPolicy), d, replicaSet(d))
	p.want(p.update(hans, "kubectl", "foo", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"name": "app", "image": "app:2"}, map[string]any{"name": "proxy",
			"image": "proxy:1"}}, "spec", "template", "spec", "containers")
	}), outcome.ReasonNoParent)
	p.holds("foo", `null`)
	d = fx.With(deployment(), func(o *unstructured.Unstructured) { o.SetLabels(nil) })
	p.store(d)
	dec := p.update(hans, "kubectl", "foo", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"name": "app", "image": "app:2"}, map[string]any{"name": "proxy",
			"image": "proxy:1"}}, "spec", "template", "spec", "containers")
	})
	if len(dec.Warnings) != 1 || !strings.Contains(dec.Warnings[0], "AllowancePolicy deployment-policy grants nothing") {
		t.Errorf("warnings %q", dec.Warnings)
	}
	p.holds("foo", `null`)
}

// A chain of three objects: a Claim, its composite, a managed resource.

func claim() *unstructured.Unstructured {
	return child(fx.Object(`
apiVersion: example.com/v1alpha1
kind: DatabaseClaim
metadata: {name: my-database, namespace: team, uid: claim-uid, generation: 4, annotations: {jira: DB-1}}
spec: {size: small, engine: postgres, resourceRef: {apiVersion: example.com/v1alpha1, kind: XDatabase, name: my-database-xyz}}
status: {conditions: [{type: Synced, status: "True"}, {type: Ready, status: "True"}]}
`), nil, hans, fx.Crossplane)
}

func xdatabase() *unstructured.Unstructured {
	return child(fx.Object(`
apiVersion: example.com/v1alpha1
kind: XDatabase
metadata: {name: my-database-xyz, uid: xdb-uid, generation: 11}
spec:
  size: small
  engine: postgres
  claimRef: {apiVersion: example.com/v1alpha1, kind: DatabaseClaim, namespace: team, name: my-database}
  resourceRefs: [{apiVersion: rds.aws.crossplane.io/v1alpha1, kind: RDSInstance, name: my-database-xyz-rds}]
status: {conditions: [{type: Synced, status: "True", observedGeneration: 11}, {type: Ready, status: "True"}]}
`), nil, fx.Crossplane, fx.Crossplane)
}

func rdsInstance(xr *unstructured.Unstructured) *unstructured.Unstructured {
	return child(fx.Object(`
apiVersion: rds.aws.crossplane.io/v1alpha1
kind: RDSInstance
metadata:
  name: my-database-xyz-rds
  uid: rds-uid
  generation: 7
  annotations:
    kausality.io/management-policies: '["*"]'
    kausality.io/gate: '{"state":"closed","generation":3,"at":"2026-01-02T11:00:00Z","reason":"Confirmed"}'
spec: {managementPolicies: [Observe], forProvider: {instanceClass: db.t3.medium, engine: postgres}}
status: {atProvider: {instanceClass: db.t3.medium, engine: postgres},
  conditions: [{type: Synced, status: "True", observedGeneration: 7}, {type: Ready, status: "True"}]}
`), xr, fx.Crossplane, fx.Provider)
}

const managerXR = "apiextensions.crossplane.io/claim"

var managerMR = subject.ComposedManager("my-database-xyz", xdatabase().GroupVersionKind().GroupKind())

var shorthand = []string{`
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata: {name: database-claim-to-xr}
spec:
  match:
    kind: DatabaseClaim
    fields: ["spec.size", "spec.engine"]
    cel: ["has(object.metadata.annotations['jira'])"]
    capture: ["metadata.annotations[jira]"]
  subjects: [{kind: Group, name: platform-team, mayInitiate: true}]
  allow: [{kind: XDatabase, relation: Child, mutations: ["spec.size", "spec.engine"]}]
`, `
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata: {name: xdatabase-to-rds}
spec:
  match: {kind: XDatabase, fields: ["spec.size"]}
  subjects: [{kind: ServiceAccount, name: crossplane, namespace: crossplane-system}]
  allow:
  - {kind: RDSInstance, relation: Child, mutations: ["spec.forProvider.instanceClass"]}
  - {relation: External, mutations: ["Update"]}
`, `
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata: {name: xdatabase-to-rds-destructive}
spec:
  match:
    kind: XDatabase
    fields: ["spec.engine"]
    cel: ["object.metadata.annotations['allow-recreate'] == 'true'"]
  subjects: [{kind: ServiceAccount, name: crossplane, namespace: crossplane-system}]
  allow:
  - {kind: RDSInstance, relation: Child, mutations: ["spec.forProvider.engine"]}
  - {relation: External, mutations: ["Delete", "Create"]}
`}

var full = []string{`
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata: {name: database-claim-policy}
spec:
  target: {apiGroup: example.com, apiVersion: v1alpha1, kind: DatabaseClaim}
  subjects: [{kind: Group, name: platform-team, mayInitiate: true}]
  initializing: # without the usual when, which never ends for Crossplane's kinds
    allow: [{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*", verbs: [Insert, Mutate]}]}]
  deleting:
    allow:
    - {relation: ControllerChild, verbs: ["*"]}
    - {relation: External, externalTarget: {provider: provider-aws}, verbs: [Delete]}
  rules:
  - trigger: "spec.size"
    conditions: ["has(object.metadata.annotations['jira'])"]
    capture: ["metadata.annotations[jira]"]
    allow:
    - target: {apiGroup: example.com, apiVersion: v1alpha1, kind: XDatabase}
      relation: ControllerChild
      verbs: [Update]
      mutations: [{jsonPath: "spec.size", verbs: [Mutate]}]
  - trigger: "spec.engine"
    conditions: ["has(object.metadata.annotations['jira'])"]
    capture: ["metadata.annotations[jira]"]
    allow:
    - target: {apiGroup: example.com, apiVersion: v1alpha1, kind: XDatabase}
      relation: ControllerChild
      verbs: [Update]
      mutations: [{jsonPath: "spec.engine", verbs: [Mutate]}]
`, `
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata: {name: xdatabase-policy}
spec:
  target: {apiGroup: example.com, apiVersion: v1alpha1, kind: XDatabase}
  subjects: [{kind: ServiceAccount, name: crossplane, namespace: crossplane-system}]
  initializing:
    allow:
    - {relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*", verbs: [Insert, Mutate]}]}
    - {relation: External, externalTarget: {provider: provider-aws}, verbs: [Create]}
  deleting:
    allow:
    - {relation: ControllerChild, verbs: ["*"]}
    - {relation: External, externalTarget: {provider: provider-aws}, verbs: [Delete]}
  rules:
  - trigger: "spec.size"
    allow:
    - target: {apiGroup: rds.aws.crossplane.io, apiVersion: v1alpha1, kind: RDSInstance}
      relation: ControllerChild
      verbs: [Update]
      mutations: [{jsonPath: "spec.forProvider.instanceClass", verbs: [Mutate]}]
    - {relation: External, externalTarget: {provider: provider-aws, kind: RDSInstance}, verbs: [Update]}
  - trigger: "spec.engine"
    conditions: ["object.metadata.annotations['allow-recreate'] == 'true'"]
    allow:
    - target: {apiGroup: rds.aws.crossplane.io, apiVersion: v1alpha1, kind: RDSInstance}
      relation: ControllerChild
      verbs: [Update]
      mutations: [{jsonPath: "spec.forProvider.engine", verbs: [Mutate]}]
    - {relation: External, externalTarget: {provider: provider-aws, kind: RDSInstance}, verbs: [Delete, Create]}
`}

// TestClaimToCloud covers KR-08-04, KR-06-11.
func TestClaimToCloud(t *testing.T) {
	for name, policies := range map[string][]string{"shorthand": shorthand, "full": full} {
		t.Run(name, func(t *testing.T) {
			xr := xdatabase()
			p := newPlay(t, policySet(t, policies...), claim(), xr, rdsInstance(xr))

			p.want(p.update(hans, "kubectl", "my-database", fx.Set("large", "spec", "size")), outcome.ReasonNoParent)
			if name == "full" { // one rule of the shorthand allows both
				p.want(p.update(fx.Crossplane, managerXR, "my-database-xyz", fx.Set("large", "spec", "size"), fx.Set("mysql", "spec", "engine")),
					outcome.ReasonAllowanceMissing)
			}
			p.want(p.update(fx.Crossplane, managerXR, "my-database-xyz", fx.Set("large", "spec", "size")), outcome.ReasonExpected)
			p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("mysql", "spec", "forProvider", "engine")), outcome.ReasonAllowanceMissing)
			d := p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("db.t3.large", "spec", "forProvider", "instanceClass"))
			p.want(d, outcome.ReasonExpected)
			external := `
- relation: External
  verbs: [Update]
  generation: 8
  initiator: hans@example.com
  trace:
  - {kind: DatabaseClaim, name: my-database, namespace: team, generation: 5, field: spec.size, attestations: {"metadata.annotations[jira]": DB-1}}
  - {kind: XDatabase, name: my-database-xyz, generation: 12, field: spec.size}
  - {kind: RDSInstance, name: my-database-xyz-rds, generation: 8, field: spec.forProvider.instanceClass}
`
			if name == "full" {
				external += "  externalTarget: {provider: provider-aws, kind: RDSInstance}\n"
			}
			p.holds("my-database-xyz-rds", external)
			if diff := cmp.Diff([]string{"Observe", "Update"}, d.ManagementPolicies); diff != "" || d.Gate == nil || d.Gate.State != v1alpha1.GateOpen {
				t.Errorf("gate %+v, policies %s", d.Gate, diff)
			}
		})
	}
}

// TestEngineStopsWithoutAllowRecreate is the case of a destructive
// change stops: between the composite and the managed resource.
func TestEngineStopsWithoutAllowRecreate(t *testing.T) {
	for name, policies := range map[string][]string{"shorthand": shorthand, "full": full} {
		t.Run(name, func(t *testing.T) {
			xr := xdatabase()
			p := newPlay(t, policySet(t, policies...), claim(), xr, rdsInstance(xr))
			engine := fx.Set("mysql", "spec", "forProvider", "engine")

			p.want(p.update(hans, "kubectl", "my-database", fx.Set("mysql", "spec", "engine")), outcome.ReasonNoParent)
			p.want(p.update(fx.Crossplane, managerXR, "my-database-xyz", fx.Set("mysql", "spec", "engine")), outcome.ReasonExpected)
			p.holds("my-database-xyz", `null`)
			p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", engine), outcome.ReasonAllowanceMissing)

			p = newPlay(t, policySet(t, policies...), claim(), fx.With(xr, fx.Annotate("allow-recreate", "true")), rdsInstance(xr))
			p.want(p.update(hans, "kubectl", "my-database", fx.Set("mysql", "spec", "engine")), outcome.ReasonNoParent)
			p.want(p.update(fx.Crossplane, managerXR, "my-database-xyz", fx.Set("mysql", "spec", "engine")), outcome.ReasonExpected)
			d := p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", engine)
			p.want(d, outcome.ReasonExpected)
			if d.Gate == nil || !cmp.Equal(d.Gate.Verbs, []v1alpha1.Verb{"Create", "Delete"}) {
				t.Errorf("gate %+v", d.Gate)
			}
			p.want(p.remove(fx.Crossplane, "my-database-xyz-rds"), outcome.ReasonExpected) // permits deleting it ...
			created := fx.With(rdsInstance(xr), fx.Policies("*"), engine, func(o *unstructured.Unstructured) {
				o.SetAnnotations(nil)
				o.SetUID("")
				o.SetGeneration(0)
				o.SetName("my-database-xyz-2")
			})
			d = p.create(fx.Crossplane, managerMR, created) // ... and its creation again
			p.want(d, outcome.ReasonExpected)
			if d.Gate == nil || d.Gate.State != v1alpha1.GateOpen {
				t.Errorf("gate of the new one %+v", d.Gate)
			}
		})
	}
}

// TestConsumedOutside: an External allowance is consumed once the gate of its
// managed resource closed again: the closing takes it away, or the next change.
// A write that changes nothing leaves it where it is (KR-06-08).
func TestConsumedOutside(t *testing.T) {
	const entry = `[{"relation":"External","verbs":["Update"],"generation":7,"initiator":"hans@example.com"}]`
	instance := func(gate string) *unstructured.Unstructured {
		return fx.With(rdsInstance(xdatabase()), fx.Annotate(v1alpha1.AnnotationKeyAllowances, entry, v1alpha1.AnnotationKeyGate, gate),
			fx.Unannotate(v1alpha1.AnnotationKeySettledGeneration))
	}
	const (
		open   = `{"state":"open","verbs":["Update"],"generation":7,"at":"2026-01-02T11:00:00Z","reason":"Changed"}`
		closed = `{"state":"closed","generation":8,"at":"2026-01-02T11:00:00Z","reason":"Confirmed"}`
		held   = `{"state":"closed","generation":7,"at":"2026-01-02T11:00:00Z","reason":"ExternalDriftPending"}`
	)
	change, note := fx.Set("mysql", "spec", "forProvider", "engine"), fx.Annotate("note", "x")
	for _, tc := range []struct {
		reason, gate string
		write        fx.Mod
		gone         bool
	}{
		{reason: "a change after the gate closed", gate: closed, write: change, gone: true},
		{reason: "a change while it is open", gate: open, write: change},
		{reason: "a change while it is held", gate: held, write: change},
		{reason: "a note after it closed", gate: closed, write: note},
		{reason: "a note while it is open", gate: open, write: note},
	} {
		p := newPlay(t, policySet(t, full...), claim(), xdatabase(), instance(tc.gate))
		if d := p.update(hans, "kubectl", "my-database-xyz-rds", tc.write); !d.Allowed {
			t.Errorf("%s: %s", tc.reason, d.Message)
		}
		want := entry
		if tc.gone {
			want = ""
		}
		if have := p.objects["my-database-xyz-rds"].GetAnnotations()[v1alpha1.AnnotationKeyAllowances]; have != want {
			t.Errorf("%s: it carries %q", tc.reason, have)
		}
	}

	for gate, gone := range map[string]bool{open: true, held: false} {
		mr := instance(gate)
		g := gating.Managed{MR: parent.Sum(mr, parent.RoleManaged), Kind: identity.Kind{Role: parent.RoleManaged, ManagementPolicies: true},
			Mode: v1alpha1.ModeEnforce, Now: fx.Noon, Deadline: time.Minute}
		d := g.Decide()
		edit, edits := d.Annotations[v1alpha1.AnnotationKeyAllowances]
		if edits != gone || edit != nil {
			t.Errorf("the gate controller, %s: %s %v", gate, d.Action, d.Annotations)
		}
	}
}
