package policycontroller

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// shopGraph that kro carries out, with a ConfigMap that has a field of an instance.
func shopGraph(name, expression string) *krov1alpha1.ResourceGraphDefinition {
	g := &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-" + "1", Generation: 1}}
	g.Spec.Schema = &krov1alpha1.Schema{Kind: "Shop", APIVersion: "v1", Group: "kro.run", Spec: runtime.RawExtension{Raw: []byte(`{"size":"string"}`)}}
	setExpression(g, expression)
	accept(g, "")
	return g
}

func setExpression(g *krov1alpha1.ResourceGraphDefinition, expression string) {
	g.Spec.Resources = []*krov1alpha1.Resource{{ID: "config", Template: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"size":"` + expression + `"}}`)}}}
}

// accept sets the conditions of kro, with the reason why it refuses the graph.
func accept(g *krov1alpha1.ResourceGraphDefinition, why string) {
	status := metav1.ConditionTrue
	if why != "" {
		status = metav1.ConditionFalse
	}
	g.Status.Conditions = []krov1alpha1.Condition{
		{Type: krov1alpha1.RGDConditionTypeGraphAccepted, Status: status, Message: &why, ObservedGeneration: g.Generation},
		{Type: krov1alpha1.RGDConditionTypeKindReady, Status: metav1.ConditionTrue, ObservedGeneration: g.Generation},
	}
}

// deriving is a deriver on a fake client.
type deriving struct {
	*deriver
	t        *testing.T
	at       time.Time
	events   *events.FakeRecorder
	watched  int
	reported int
}

func newDeriving(t *testing.T, objects ...client.Object) *deriving {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range addToScheme {
		require.NoError(t, add(scheme))
	}
	crd := policyCRD()
	crd.SetName(graphResource.String())
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, crd)...).
		WithStatusSubresource(&v1alpha1.AllowancePolicy{}).Build()
	d := &deriving{t: t, at: time.Unix(1e9, 0), events: events.NewFakeRecorder(16)}
	d.deriver = &deriver{cached: c, direct: c, events: d.events, log: logr.Discard(), now: func() time.Time { return d.at },
		watch: func() error { d.watched++; return nil }, changed: func(context.Context) { d.reported++ },
		written: map[string]*v1alpha1.AllowancePolicySpec{}, failed: map[string]string{}, at: map[string]time.Time{}}
	return d
}

// run a reconcile of all graphs, long after the last one.
func (d *deriving) run() reconcile.Result {
	d.t.Helper()
	d.at = d.at.Add(time.Minute)
	out, err := d.Reconcile(d.t.Context(), reconcile.Request{})
	require.NoError(d.t, err)
	if d.watched == 1 && d.reported == 0 { // the watch lists all
		d.watched++
		out, err = d.Reconcile(d.t.Context(), reconcile.Request{})
		require.NoError(d.t, err)
	}
	return out
}

// policy by name; nil for none.
func (d *deriving) policy(name string) *v1alpha1.AllowancePolicy {
	d.t.Helper()
	out := &v1alpha1.AllowancePolicy{}
	err := d.direct.Get(d.t.Context(), client.ObjectKey{Name: name}, out)
	if kerrors.IsNotFound(err) {
		return nil
	}
	require.NoError(d.t, err)
	return out
}

func (d *deriving) triggers(name string) []string {
	d.t.Helper()
	p := d.policy(name)
	require.NotNil(d.t, p)
	var out []string
	for _, r := range p.Spec.Rules {
		out = append(out, r.Trigger)
	}
	return out
}

func (d *deriving) edit(o client.Object, f func()) {
	d.t.Helper()
	require.NoError(d.t, d.direct.Get(d.t.Context(), client.ObjectKeyFromObject(o), o))
	f()
	require.NoError(d.t, d.direct.Update(d.t.Context(), o))
}

func derivingPolicy() *v1alpha1.Kausality {
	k := shopPolicy()
	k.Spec.DerivePolicies = true
	k.Spec.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{"kro.run"}, Resources: []string{"resourcegraphdefinitions", "shops"}}}
	return k
}

func derived(p *v1alpha1.AllowancePolicy) metav1.Condition {
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDerived); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// TestDerive covers KR-18-11: policies are those of the graph, and stay so.
func TestDerive(t *testing.T) {
	g, k := shopGraph("shop", "${schema.spec.size}"), derivingPolicy()
	d := newDeriving(t, g, k)
	d.run()
	assert.Equal(t, []string{"spec.size"}, d.triggers("shop-policy"))
	p := d.policy("shop-policy")
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "kro.run/v1alpha1", Kind: "ResourceGraphDefinition", Name: "shop", UID: "uid-1"}}, p.OwnerReferences)
	assert.Equal(t, "shop", p.Annotations[v1alpha1.AnnotationKeyDerivedFrom])
	assert.Equal(t, "from generation 1 of ResourceGraphDefinition shop", derived(p).Message)
	assert.Equal(t, metav1.ConditionTrue, derived(p).Status)

	t.Run("Idle", func(t *testing.T) {
		d.run()
		assert.Equal(t, p.ResourceVersion, d.policy("shop-policy").ResourceVersion, "nothing is written twice")
	})
	t.Run("HandEdit", func(t *testing.T) {
		edited := d.policy("shop-policy")
		d.edit(edited, func() {
			edited.Spec.Rules[0].Trigger, edited.Labels, edited.Annotations = "spec", map[string]string{"team": "a"}, nil
		})
		d.run()
		assert.Equal(t, []string{"spec.size"}, d.triggers("shop-policy"))
		assert.Equal(t, "a", d.policy("shop-policy").Labels["team"], "labels of others are theirs")
		assert.Equal(t, v1alpha1.ManagerController, d.policy("shop-policy").Labels[labelManaged])
		assert.Contains(t, <-d.events.Events, "Warning EditReverted An edit was put back: the policy is derived from ResourceGraphDefinition shop")
	})
	t.Run("RateLimit", func(t *testing.T) {
		edited := d.policy("shop-policy")
		d.edit(edited, func() { edited.Spec.Rules = nil })
		out, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "shop"}})
		require.NoError(t, err)
		assert.Equal(t, derivePeriod, out.RequeueAfter)
		assert.Nil(t, d.policy("shop-policy").Spec.Rules, "it is put back later")
		d.run()
		assert.Equal(t, []string{"spec.size"}, d.triggers("shop-policy"))
		<-d.events.Events
	})
	t.Run("Pending", func(t *testing.T) {
		d.edit(g, func() { g.Generation = 2; setExpression(g, "${schema.spec.other}") })
		d.run()
		assert.Equal(t, []string{"spec.size"}, d.triggers("shop-policy"), "kro does not carry it out yet")
	})
	t.Run("Edit", func(t *testing.T) {
		d.edit(g, func() { accept(g, "") })
		d.run()
		assert.Equal(t, []string{"spec.other"}, d.triggers("shop-policy"))
		assert.Equal(t, "from generation 2 of ResourceGraphDefinition shop", derived(d.policy("shop-policy")).Message)
		assert.Empty(t, d.events.Events, "no edit by hand")
	})
	t.Run("Refused", func(t *testing.T) {
		d.edit(g, func() { g.Generation = 3; setExpression(g, "${schema.spec.third}"); accept(g, "no such field") })
		d.run()
		assert.Equal(t, []string{"spec.other"}, d.triggers("shop-policy"), "kro carries out the last one that it accepted")
		c := derived(d.policy("shop-policy"))
		assert.Equal(t, v1alpha1.ReasonInvalidGraph, c.Reason)
		assert.Equal(t, "generation 3 of ResourceGraphDefinition shop: kro does not accept it: no such field; the rules are those of an earlier one", c.Message)
		assert.Equal(t, map[string]string{"shop": "kro does not accept it: no such field"}, d.Failed())
		assert.Positive(t, d.reported)
	})
	t.Run("InPart", func(t *testing.T) {
		d.edit(g, func() { g.Generation = 4; setExpression(g, "${schema.metadata.labels.a}"); accept(g, "") })
		d.run()
		c := derived(d.policy("shop-policy"))
		assert.Equal(t, v1alpha1.ReasonDerivedInPart, c.Reason)
		assert.Contains(t, c.Message, "resources[0].template.data.size: ${schema.metadata.labels.a}: ")
		assert.Empty(t, d.Failed())
	})
	t.Run("OptOut", func(t *testing.T) {
		d.edit(k, func() { k.Spec.DerivePolicies = false })
		d.run()
		assert.Nil(t, d.policy("shop-policy"))
	})
	t.Run("OptIn", func(t *testing.T) {
		d.edit(k, func() { k.Spec.DerivePolicies = true })
		d.run()
		assert.NotNil(t, d.policy("shop-policy"))
		require.NoError(t, d.direct.Delete(t.Context(), g))
		_, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "shop"}})
		require.NoError(t, err)
		assert.Nil(t, d.policy("shop-policy"), "it goes with its graph")
	})
}

// TestDeriveForeign: a policy of that name that was not derived is left alone.
func TestDeriveForeign(t *testing.T) {
	mine := &v1alpha1.AllowancePolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop-policy",
		Annotations: map[string]string{v1alpha1.AnnotationKeyDerivedFrom: "shop"}}}
	d := newDeriving(t, shopGraph("shop", "${schema.spec.size}"), derivingPolicy(), mine)
	d.run()
	assert.Empty(t, d.policy("shop-policy").OwnerReferences)
	assert.Equal(t, map[string]string{"shop": "AllowancePolicy shop-policy exists and was not derived; delete or rename it"}, d.Failed())
	set, _ := (&Controller{}).understand(&v1alpha1.KausalityList{Items: []v1alpha1.Kausality{*derivingPolicy()}})
	c, is := notDerived("shop", set, d.Failed())
	assert.True(t, is)
	assert.Equal(t, v1alpha1.KausalityReasonNotDerived, c.Reason)
	assert.Equal(t, "no AllowancePolicies are derived from shop (AllowancePolicy shop-policy exists and was not derived; delete or rename it)", c.Message)

	require.NoError(t, d.direct.Delete(t.Context(), mine))
	d.run()
	assert.Equal(t, []string{"spec.size"}, d.triggers("shop-policy"))
	assert.Empty(t, d.Failed())
}

// TestDeriveConflict: another writer of the status is no error.
func TestDeriveConflict(t *testing.T) {
	d := newDeriving(t, shopGraph("shop", "${schema.spec.size}"), derivingPolicy())
	d.run()
	conflicts := 1
	d.direct = interceptor.NewClient(d.direct.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string,
		o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if conflicts--; conflicts >= 0 {
			return kerrors.NewConflict(schema.GroupResource{Resource: "allowancepolicies"}, o.GetName(), nil)
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}})
	stale := d.policy("shop-policy")
	stale.Status.Conditions = nil
	require.NoError(t, d.cached.Status().Update(t.Context(), stale))
	d.at = d.at.Add(time.Minute)
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: "shop"}}
	out, err := d.Reconcile(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, conflictRetry, out.RequeueAfter)
	_, err = d.Reconcile(t.Context(), request)
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.ReasonDerived, derived(d.policy("shop-policy")).Reason)
}

// TestDeriveBegins: graphs are watched once policies are to be derived, or are left.
func TestDeriveBegins(t *testing.T) {
	k := derivingPolicy()
	k.Spec.DerivePolicies = false
	d := newDeriving(t, shopGraph("shop", "${schema.spec.size}"), k)
	d.run()
	assert.Zero(t, d.watched)
	_, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "shop"}})
	require.NoError(t, err)
	left := &v1alpha1.AllowancePolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop-policy", Labels: map[string]string{labelManaged: v1alpha1.ManagerController},
		Annotations: map[string]string{v1alpha1.AnnotationKeyDerivedFrom: "shop"}}}
	require.NoError(t, d.direct.Create(t.Context(), left))
	d.run()
	assert.Positive(t, d.watched)
	assert.Nil(t, d.policy("shop-policy"), "what is left of an earlier time is removed")
}
