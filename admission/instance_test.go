package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var kro = subject.User{Name: "system:serviceaccount:kro-system:kro", Groups: []string{"system:serviceaccounts"}}

// instanceAndChild of a graph, as kro v0.9.3 writes them (test/kro): a settled Shop, and its ConfigMap.
func instanceAndChild() (*unstructured.Unstructured, *unstructured.Unstructured) {
	const set = "applyset-Ff_MDGH9n74jV8DO-Y-gXOZL2NbpR_aIP0HZv_x1640-v1"
	i := fx.Object(`
apiVersion: kro.run/v1alpha1
kind: Shop
metadata:
  name: db
  namespace: team
  uid: shop-uid
  generation: 1
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels: {applyset.kubernetes.io/id: ` + set + `, kro.run/resource-graph-definition-name: shop}
  annotations:
    applyset.kubernetes.io/additional-namespaces: "other,more"
    applyset.kubernetes.io/contains-group-kinds: "ConfigMap,Deployment.apps"
    applyset.kubernetes.io/tooling: kro/v0.9.3
spec: {message: hello}
status:
  state: ACTIVE
  conditions:
  - {type: InstanceManaged, status: "True", observedGeneration: 1}
  - {type: Ready, status: "True", observedGeneration: 1}
`)
	c := fx.Object(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: db
  namespace: team
  uid: child-uid
  labels:
    app: shop
    app.kubernetes.io/managed-by: kro
    applyset.kubernetes.io/part-of: ` + set + `
    kro.run/instance-group: kro.run
    kro.run/instance-id: shop-uid
    kro.run/instance-kind: Shop
    kro.run/instance-name: db
    kro.run/instance-namespace: team
    kro.run/instance-version: v1alpha1
    kro.run/node-id: config
    kro.run/owned: "true"
data: {message: hello}
`)
	i = fx.With(i, fx.Controllers(kro), fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "1", v1alpha1.AnnotationKeyPhase, "initialized"))
	return i, fx.With(c, fx.Annotate(v1alpha1.AnnotationKeyUpdaters, kro.Hash()))
}

// label sets a label; "" removes it.
func label(key, value string) fx.Mod {
	return func(o *unstructured.Unstructured) {
		labels := o.GetLabels()
		if labels[key] = value; value == "" {
			delete(labels, key)
		}
		o.SetLabels(labels)
	}
}

// unguardedWorld guards nothing; or, with some, objects with labels that cannot be known without reading them.
type unguardedWorld struct {
	*memoryWorld
	some bool
}

func (unguardedWorld) Guarded(*parent.State) bool { return false }
func (w unguardedWorld) MayGuard(parent.Ref) bool { return w.some }

// member has the labels as kro applies them to the child.
func member(o *unstructured.Unstructured) {
	_, c := instanceAndChild()
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, c.GetLabels())
	o.SetLabels(labels)
}

// TestInstance: the instance of a graph is the parent of an object if its labels and the instance's ApplySet agree (KR-18-01), and
// kro is its controller (KR-18-02).
func TestInstance(t *testing.T) {
	const owned, set = "kro.run/instance-", "applyset.kubernetes.io/"
	updaters := fx.Annotate(v1alpha1.AnnotationKeyUpdaters, fx.Alice.Hash())
	unsettled := fx.Unannotate(v1alpha1.AnnotationKeySettledGeneration)
	for name, tc := range map[string]struct {
		reason          string
		instance, child []fx.Mod
		// change in the request, beside that of the data.
		change  fx.Mod
		user    subject.User
		manager string
		op      Operation
		without bool
		want    outcome.Reason
	}{
		"Drift":      {reason: "the instance settled", want: outcome.ReasonDrift},
		"Unsettled":  {reason: "an intent is carried out", instance: []fx.Mod{unsettled}, want: outcome.ReasonExpected},
		"Pruned":     {reason: "a node was dropped from the graph; a DELETE has no field manager", op: Delete, want: outcome.ReasonDrift},
		"Created":    {reason: "a node was added", op: Create, want: outcome.ReasonDrift},
		"Adopted":    {reason: "another user wrote it last: the manager shows kro", child: []fx.Mod{updaters}, want: outcome.ReasonDrift},
		"Unrecorded": {reason: "kro may write the status", instance: []fx.Mod{fx.Controllers()}, want: outcome.ReasonDrift},
		"User":       {reason: "any other user", user: fx.Alice, manager: "kubectl", want: outcome.ReasonNewOrigin},
		"Forger":     {reason: "the manager is a claim", user: fx.Alice, manager: subject.ManagerApplySet, want: outcome.ReasonNewOrigin},
		"Machine":    {reason: "a ServiceAccount that is not recorded", user: fx.ArgoCD, manager: subject.ManagerApplySet, want: outcome.ReasonNewOrigin},
		"Deleted":    {reason: "kro deletes what it had created", instance: []fx.Mod{fx.Deleting}, op: Delete, want: outcome.ReasonParentDeleted},
		"Namespace": {reason: "a namespace of the ApplySet", child: []fx.Mod{func(o *unstructured.Unstructured) { o.SetNamespace("more") }},
			want: outcome.ReasonDrift},

		"OtherNamespace": {reason: "not one of its namespaces", child: []fx.Mod{func(o *unstructured.Unstructured) { o.SetNamespace("mor") }},
			want: outcome.ReasonNoParent},
		"OtherUID":   {reason: "an instance that is gone", child: []fx.Mod{label(owned+"id", "other")}, want: outcome.ReasonNoParent},
		"Gone":       {reason: "there is no such instance", without: true, want: outcome.ReasonNoParent},
		"OtherSet":   {reason: "the labels do not agree", child: []fx.Mod{label(set+"part-of", "applyset-other-v1")}, want: outcome.ReasonNoParent},
		"OtherName":  {reason: "the labels do not agree", child: []fx.Mod{label(owned+"name", "web")}, want: outcome.ReasonNoParent},
		"NoApplySet": {reason: "labels alone", child: []fx.Mod{label(set+"part-of", "")}, want: outcome.ReasonNoParent},
		"NoLabels": {reason: "a part of an ApplySet, as of kubectl apply --prune", child: []fx.Mod{label(owned+"id", "")}, manager: "kubectl",
			want: outcome.ReasonNoParent},
		"NotASet":     {reason: "the instance is no ApplySet", instance: []fx.Mod{label(set+"id", "")}, want: outcome.ReasonNoParent},
		"KubectlsSet": {reason: "the ApplySet is of kubectl", instance: []fx.Mod{fx.Annotate(set+"tooling", "kubectl/v1.35")}, want: outcome.ReasonNoParent},
		"OtherKinds": {reason: "its ApplySet has no ConfigMaps", instance: []fx.Mod{fx.Annotate(set+"contains-group-kinds", "ConfigMap.apps")},
			want: outcome.ReasonNoParent},
		"Cleared": {reason: "the labels were removed: an apply by kro brings them along", child: []fx.Mod{label(owned+"id", "")}, change: member,
			want: outcome.ReasonDrift},
		"Stale": {reason: "the stored labels name an instance that is gone, as after a restore", child: []fx.Mod{label(owned+"id", "other")},
			change: member, want: outcome.ReasonDrift},
		"Bogus": {reason: "the stored labels agree with each other, and name no instance", change: member, want: outcome.ReasonDrift,
			child: []fx.Mod{label(owned+"name", "web"), label(set+"part-of", "applyset-8ev_o4lPJFsXWW3epaSy1qkMSXs-AIwLnpcu01apYwc-v1")}},
		"BogusKind": {reason: "or an object that is no instance", change: member, want: outcome.ReasonDrift,
			child: []fx.Mod{label(owned+"kind", "Deployment"), label(set+"part-of", "applyset-OKowCLHgEvet6QY4oLReLOapo2NcGLE6AImFoGK3Tlg-v1")}},
		"StaleForger": {reason: "nothing is refused to another user by it", child: []fx.Mod{label(owned+"id", "other")}, change: member,
			user: fx.Alice, want: outcome.ReasonNewOrigin},
		"Owned": {reason: "an owner counts before labels", child: []fx.Mod{owners(owner("x", "x", true))}, want: outcome.ReasonParentNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			i, c = fx.With(i, tc.instance...), fx.With(c, tc.child...)
			w := newWorld()
			if !tc.without {
				w.add(i)
			}
			if tc.user.Name == "" {
				tc.user = kro
			}
			if tc.op == "" {
				tc.op = Update
			}
			if tc.manager == "" {
				tc.manager = subject.ManagerApplySet
			}
			change := []fx.Mod{fx.Set("other", "data", "message")}
			if tc.change != nil {
				change = append(change, tc.change)
			}
			req := byCrossplane(tc.op, c, change...)
			if tc.op == Delete {
				req, tc.manager = byCrossplane(tc.op, c), ""
			}
			d := decide(t, w, enforced(), by(req, tc.user, tc.manager))
			assert.Equal(t, tc.want, d.Reason, "%s: %s", tc.reason, d.Message)
		})
	}
}

// TestInstanceUnguarded: nothing is held by the labels of an instance that is not guarded (KR-18-01), whether it can be read or not.
func TestInstanceUnguarded(t *testing.T) {
	for _, err := range []error{nil, fmt.Errorf("forbidden")} {
		i, c := instanceAndChild()
		w := newWorld()
		w.add(i)
		w.err = err
		e := &Evaluator{World: unguardedWorld{memoryWorld: w}, Options: enforced()}
		d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, c, fx.Set("other", "data", "message")), kro, subject.ManagerApplySet))
		require.NoError(t, err)
		assert.Equal(t, outcome.ReasonNoParent, d.Reason)
	}
}

// TestInstanceUnread: an instance that cannot be read may be one that is guarded, by labels that are not known then (KR-05-04).
func TestInstanceUnread(t *testing.T) {
	_, c := instanceAndChild()
	w := newWorld()
	w.err = assert.AnError
	e := &Evaluator{World: unguardedWorld{w, true}, Options: enforced()}
	d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, c, fx.Set("other", "data", "message")), kro, subject.ManagerApplySet))
	require.NoError(t, err)
	assert.Equal(t, outcome.ReasonParentUnreadable, d.Reason)
	assert.False(t, d.Allowed)
}

// TestInstanceOrClaim: labels do not take a composite away from its Claim, nor make an object an instance whose kind kro did not
// define (KR-01-03, KR-18-01).
func TestInstanceOrClaim(t *testing.T) {
	i, _ := instanceAndChild()
	claim := fx.Object(`
apiVersion: example.org/v1
kind: Database
metadata: {name: c, namespace: team, uid: c-uid, generation: 2, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {kausality.io/freeze: "true"}}
spec: {resourceRef: {apiVersion: example.org/v1, kind: XDatabase, name: db}}`)
	bound := fx.Set(map[string]any{"apiVersion": "example.org/v1", "kind": "Database", "namespace": "team", "name": "c"}, "spec", "claimRef")
	w := newWorld()
	w.add(i)
	w.add(claim)
	req := byCrossplane(Update, fx.With(fx.Composite(), bound, member), fx.Set("l", "spec", "size"))
	d := decide(t, w, enforced(), by(req, fx.Crossplane, "apiextensions.crossplane.io/claim"))
	assert.Equal(t, outcome.ReasonFrozen, d.Reason, d.Message)

	_, c := instanceAndChild()
	w.kinds = map[schema.GroupKind]identity.Kind{}
	w.add(i)
	d = decide(t, w, enforced(), by(byCrossplane(Update, c, fx.Set("other", "data", "message")), kro, subject.ManagerApplySet))
	assert.Equal(t, outcome.ReasonNoParent, d.Reason, d.Message)

	// A read would begin a watch of any kind that labels name.
	w.cachedReads, w.liveReads = 0, 0
	decide(t, w, enforced(), by(byCrossplane(Update, fx.With(c, fx.Set(map[string]any{"a": "b"}, "metadata", "labels")), member), fx.Alice, "kubectl"))
	decide(t, w, enforced(), by(byCrossplane(Update, c, fx.Set("other", "data", "message")), fx.Alice, "kubectl"))
	assert.Zero(t, w.cachedReads+w.liveReads)
}

// TestInstanceLabels: what takes a child away from its instance is put back, and what makes an object its child is left out, unless kro
// writes the labels or the user means it (KR-18-04).
func TestInstanceLabels(t *testing.T) {
	other, owned := label("kro.run/instance-id", "other"), owners(owner("x", "x", true))
	deployed := owners(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "x", "controller": true})
	set := func(mods ...fx.Mod) []fx.Mod { return mods }
	bare := func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "shop"}) }
	for name, tc := range map[string]struct {
		reason string
		user   subject.User
		// manager; kubectl where it is empty, and that of kro for kro.
		manager   string
		was       []fx.Mod
		mods      []fx.Mod
		instance  []fx.Mod
		unguarded bool
		mode      v1alpha1.Mode
		// the fields that are edited, and the UID of the instance that the labels name then
		edits []string
		uid   any
		warns string
	}{
		"Removed": {reason: "by a user", user: fx.Alice, mods: set(label("kro.run/instance-id", "")), edits: []string{labelsPointer}, uid: "shop-uid",
			warns: "the labels of kro were put back: Shop team/db is the parent of ConfigMap team/db by its labels and exists; " +
				"to change that, set annotation kausality.io/parent=none in the same write"},
		"Pointed": {reason: "elsewhere", user: fx.Alice, mods: set(other), edits: []string{labelsPointer}, uid: "shop-uid",
			warns: "set annotation kausality.io/parent=other in"},
		"Log": {reason: "in mode log", user: fx.Alice, mods: set(other), mode: v1alpha1.ModeLog, warns: "the labels of kro would be put back"},
		"Frozen": {reason: "a freeze holds in mode log, too", user: fx.Alice, mods: set(other), mode: v1alpha1.ModeLog,
			instance: set(fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")),
			edits:    []string{labelsPointer}, uid: "shop-uid", warns: "were put back"},
		"Meant": {reason: "declared", user: fx.Alice, mods: set(other, fx.Annotate(v1alpha1.AnnotationKeyParent, "other"))},
		"Label": {reason: "a label of the user's own", user: fx.Alice, mods: set(label("app", "web"))},
		"ByKro": {reason: "kro", user: kro, mods: set(label("kro.run/instance-version", "v1"))},
		"Owner": {reason: "a controller reference would count instead", user: fx.Alice, mods: set(owned), edits: []string{ownersPointer},
			warns: "the ownerReference with controller: true was left out: Shop team/db is the parent of ConfigMap team/db by its labels"},
		"OwnerByKro": {reason: "the graph's author may have one in a template", user: kro, mods: set(deployed), edits: []string{ownersPointer}, warns: "left out"},
		"OwnerMeant": {reason: "declared", user: fx.Alice, mods: set(owned, fx.Annotate(v1alpha1.AnnotationKeyParent, "x"))},
		"Both":       {reason: "both", user: fx.Alice, mods: set(owned, other), edits: []string{labelsPointer, ownersPointer}, uid: "shop-uid", warns: "put back"},
		"Added": {reason: "to an object that was none of kro's", user: fx.Alice, was: set(bare), mods: set(member), edits: []string{labelsPointer},
			warns: "only kro may make Shop team/db the parent of ConfigMap team/db"},
		"AddedLog": {reason: "in mode log", user: fx.Alice, was: set(bare), mods: set(member), mode: v1alpha1.ModeLog,
			warns: "the labels of kro would be left out"},
		"AddedMeant": {reason: "declared", user: fx.Alice, was: set(bare), mods: set(member, fx.Annotate(v1alpha1.AnnotationKeyParent, "shop-uid"))},
		"AddedByKro": {reason: "kro takes the object over", user: kro, was: set(bare), mods: set(member)},
		"AddedBogus": {reason: "of no instance", user: fx.Alice, was: set(bare), mods: set(member, other)},
		"AddedElse": {reason: "of an object that is no instance", user: fx.Alice, was: set(bare), mods: set(member,
			label("kro.run/instance-kind", "Deployment"), label("applyset.kubernetes.io/part-of", "applyset-OKowCLHgEvet6QY4oLReLOapo2NcGLE6AImFoGK3Tlg-v1"))},
		"AddedLater": {reason: "of an instance that has no ConfigMaps now", user: fx.Alice, was: set(bare), mods: set(member),
			instance: set(fx.Annotate("applyset.kubernetes.io/contains-group-kinds", "Deployment.apps")), edits: []string{labelsPointer}, warns: "only kro"},
		"AddedUnguarded": {reason: "of an instance that is not guarded", user: fx.Alice, was: set(bare), mods: set(member), unguarded: true},
		"NotASet": {reason: "nor where the instance is no ApplySet for a moment", user: fx.Alice, mods: set(other), edits: []string{labelsPointer},
			instance: set(fx.Unannotate("applyset.kubernetes.io/tooling")), uid: "shop-uid", warns: "put back"},
		"Unguarded": {reason: "the instance is not guarded", user: fx.Alice, mods: set(other), unguarded: true},
		"AdoptedByNone": {reason: "an owner that does not exist", user: fx.ArgoCD, mods: set(owners(map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "name": "none", "uid": "none", "controller": true})), edits: []string{ownersPointer}, warns: "left out"},
		"Adopted":  {reason: "by the controller of another owner", user: fx.ArgoCD, mods: set(deployed)},
		"Repaired": {reason: "kro brings back what another user had changed", user: kro, was: set(other), mods: set(member)},
		"RepairedByForger": {reason: "under whatever field manager", user: fx.Alice, manager: subject.ManagerApplySet, was: set(other), mods: set(member),
			edits: []string{labelsPointer}, uid: "other", warns: "were left out: only kro"},
		"RepairedByAlice": {reason: "which that user may not", user: fx.Alice, was: set(other), mods: set(member), edits: []string{labelsPointer}, uid: "other",
			warns: "only kro"},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			w := newWorld()
			w.add(fx.With(i, tc.instance...))
			w.add(fx.Object("{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, namespace: team, uid: x}}"))
			opts := enforced()
			if tc.mode != "" {
				opts.DefaultMode = tc.mode
			}
			manager := cmp.Or(tc.manager, "kubectl")
			if tc.user.Name == kro.Name {
				manager = subject.ManagerApplySet
			}
			c = fx.With(c, append(tc.was, fx.Annotate(v1alpha1.AnnotationKeyTrace, `[{"kind":"ConfigMap","name":"db","user":"hans"}]`))...)
			var world World = w
			if tc.unguarded {
				world = unguardedWorld{memoryWorld: w}
			}
			d, err := (&Evaluator{World: world, Options: opts}).Evaluate(t.Context(), by(byCrossplane(Update, c, tc.mods...), tc.user, manager))
			require.NoError(t, err)
			require.True(t, d.Allowed, tc.reason)
			assert.ElementsMatch(t, tc.edits, slices.Collect(maps.Keys(d.Fields)), tc.reason)
			if labels, is := d.Fields[labelsPointer].(map[string]any); is {
				assert.Equal(t, tc.uid, labels["kro.run/instance-id"])
				assert.Equal(t, "shop", labels["app"])
			}
			warnings := strings.Join(d.Warnings, "\n")
			if tc.warns == "" {
				assert.Empty(t, warnings, tc.reason)
			}
			assert.Contains(t, warnings, tc.warns, tc.reason)
		})
	}
}

// TestInstanceDeletion: the policies of the instance that the labels of a managed resource name let its external resource be deleted where
// the instance contains it and is being deleted (KR-08-10, KR-18-01).
func TestInstanceDeletion(t *testing.T) {
	policies := policySet(t, `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {apiGroup: kro.run, apiVersion: v1alpha1, kind: Shop},
  deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}, {relation: External, verbs: [Delete]}]}}}`)
	for name, tc := range map[string]struct {
		kinds    string
		deleted  bool // the instance is gone
		approves bool
	}{
		"Contained": {kinds: "ConfigMap,Instance.aws.example.org", approves: true},
		"Other":     {kinds: "ConfigMap"},
		"Deleted":   {kinds: "ConfigMap,Instance.aws.example.org", deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			mr := fx.With(fx.Instance(), owners(), fx.Set("team", "metadata", "namespace"))
			mr.SetLabels(c.GetLabels())
			w := setting{}.world()
			w.add(fx.With(i, fx.Deleting, fx.Annotate("applyset.kubernetes.io/contains-group-kinds", tc.kinds)))
			var world World = w
			if tc.deleted {
				world = deletedWorld{w}
			}
			e := &Evaluator{World: world, Options: enforced(), Policies: policies}
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Delete, mr), fx.Collector, ""))
			require.NoError(t, err)
			assert.Equal(t, outcome.ReasonExternalDeletion, d.Reason, d.Message)
			assert.Equal(t, tc.approves, d.Approve != nil, "the deletion is approved, and the gate opens for it")
		})
	}
}

// TestNestedInstance: kro is the controller of an instance and of that which contains it, too. One that cannot be read lets nothing pass
// (KR-04-07, KR-05-04).
func TestNestedInstance(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want outcome.Reason
	}{"Read": {want: outcome.ReasonDrift}, "Unread": {err: assert.AnError, want: outcome.ReasonParentUnreadable}} {
		i, c := instanceAndChild()
		inner := fx.With(i, fx.Set("inner", "metadata", "name"), fx.Set("inner-uid", "metadata", "uid"))
		inner.SetLabels(c.GetLabels())
		w := newWorld()
		w.add(fx.With(i, fx.Annotate("applyset.kubernetes.io/contains-group-kinds", "Shop.kro.run")))
		w.err = tc.err
		d := decide(t, w, enforced(), by(byCrossplane(Update, inner, fx.Set("other", "spec", "message")), kro, subject.ManagerApplySet))
		assert.Equal(t, tc.want, d.Reason, "%s: %s", name, d.Message)
	}
}
