package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// unguardedWorld guards nothing.
type unguardedWorld struct{ *memoryWorld }

func (unguardedWorld) Guarded(*parent.State) bool { return false }

// TestInstance: the instance of a graph is the parent of an object if its labels and the instance's ApplySet agree (KR-18-01), and
// kro is its controller (KR-18-02).
func TestInstance(t *testing.T) {
	const owned, set = "kro.run/instance-", "applyset.kubernetes.io/"
	updaters := fx.Annotate(v1alpha1.AnnotationKeyUpdaters, fx.Alice.Hash())
	unsettled := fx.Unannotate(v1alpha1.AnnotationKeySettledGeneration)
	for name, tc := range map[string]struct {
		reason          string
		instance, child []fx.Mod
		user            subject.User
		manager         string
		op              Operation
		without         bool
		want            outcome.Reason
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
		"Cleared": {reason: "the labels were removed: an apply by kro brings them along", child: []fx.Mod{label(owned+"id", "")},
			want: outcome.ReasonDrift},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			complete := c
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
			req := byCrossplane(tc.op, c, fx.Set("other", "data", "message"))
			if tc.op == Delete {
				req, tc.manager = byCrossplane(tc.op, c), ""
			}
			if name == "Cleared" {
				req.Object.SetLabels(complete.GetLabels())
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
		e := &Evaluator{World: unguardedWorld{w}, Options: enforced()}
		d, err := e.Evaluate(context.Background(), by(byCrossplane(Update, c, fx.Set("other", "data", "message")), kro, subject.ManagerApplySet))
		require.NoError(t, err)
		assert.Equal(t, outcome.ReasonNoParent, d.Reason)
	}
}

// TestInstanceLabels: the labels that name an instance are put back where another user than kro changes them (KR-18-04).
func TestInstanceLabels(t *testing.T) {
	i, c := instanceAndChild()
	other := label("kro.run/instance-id", "other")
	for name, tc := range map[string]struct {
		reason string
		user   subject.User
		mods   []fx.Mod
		mode   v1alpha1.Mode
		back   bool
		warns  bool
	}{
		"Removed":  {reason: "by a user", user: fx.Alice, mods: []fx.Mod{label("kro.run/instance-id", "")}, back: true, warns: true},
		"Pointed":  {reason: "elsewhere", user: fx.Alice, mods: []fx.Mod{other}, back: true, warns: true},
		"Log":      {reason: "in mode log", user: fx.Alice, mods: []fx.Mod{other}, mode: v1alpha1.ModeLog, warns: true},
		"Meant":    {reason: "declared", user: fx.Alice, mods: []fx.Mod{other, fx.Annotate(v1alpha1.AnnotationKeyParent, "other")}},
		"Other":    {reason: "a label of the user's own", user: fx.Alice, mods: []fx.Mod{label("app", "web")}},
		"ByItself": {reason: "kro", user: kro, mods: []fx.Mod{label("kro.run/instance-version", "v1")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.add(i)
			opts := enforced()
			if tc.mode != "" {
				opts.DefaultMode = tc.mode
			}
			manager := "kubectl"
			if tc.user.Name == kro.Name {
				manager = subject.ManagerApplySet
			}
			d, err := (&Evaluator{World: w, Options: opts}).Evaluate(t.Context(), by(byCrossplane(Update, c, tc.mods...), tc.user, manager))
			require.NoError(t, err)
			require.True(t, d.Allowed, tc.reason)
			labels, back := d.Fields["/metadata/labels"].(map[string]any)
			assert.Equal(t, tc.back, back, tc.reason)
			if back {
				assert.Equal(t, "shop-uid", labels["kro.run/instance-id"])
				assert.Equal(t, "shop", labels["app"])
			}
			assert.Equal(t, tc.warns, strings.Contains(strings.Join(d.Warnings, "\n"), "the labels of kro w"), "%v", d.Warnings)
		})
	}
}
