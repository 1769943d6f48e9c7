package policycontroller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakemetadata "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/certs"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// policyCRD of which the controller reads the metadata.
func policyCRD() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(crdKind)
	o.SetName(policies.PolicyCRD)
	return o
}

// shopPolicy guards databases in mode enforce.
func shopPolicy() *v1alpha1.Kausality {
	return &v1alpha1.Kausality{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 1},
		Spec: v1alpha1.KausalitySpec{
			Mode:      v1alpha1.ModeEnforce,
			Resources: []v1alpha1.GuardedResources{{APIGroups: []string{"shop.example.org"}, Resources: []string{"databases"}}},
		},
	}
}

// harness is a Controller on fake clients that counts the writes.
type harness struct {
	*Controller
	writes int
}

// newHarness on objects. failing, unless it is nil, is called before each write with
// its verb, and its error is the write's.
func newHarness(t *testing.T, failing func(verb string, o client.Object) error, objects ...client.Object) *harness {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range addToScheme {
		require.NoError(t, add(scheme))
	}
	scheme.AddKnownTypeWithName(crdKind, &metav1.PartialObjectMetadata{})
	scheme.AddKnownTypeWithName(crdKind.GroupVersion().WithKind(crdKind.Kind+"List"), &metav1.PartialObjectMetadataList{})
	h := &harness{}
	write := func(verb string, o client.Object) error {
		h.writes++
		if failing == nil {
			return nil
		}
		return failing(verb, o)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Kausality{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := write("create", o); err != nil {
					return err
				}
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if err := write("update", o); err != nil {
					return err
				}
				return c.Update(ctx, o, opts...)
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if err := write("apply", nil); err != nil {
					return err
				}
				return c.Apply(ctx, o, opts...)
			},
		}).Build()
	list := &metav1.APIResourceList{GroupVersion: "shop.example.org/v1", APIResources: []metav1.APIResource{
		{Name: "databases", Kind: "Database", Verbs: []string{"list"}, Categories: []string{"managed"}},
	}}
	noObjects := fakemetadata.NewSimpleMetadataClient(metadataScheme(t))
	h.Controller = &Controller{
		Options: Options{
			Process:   cluster.Process{Log: logr.Discard()},
			Manifests: manifests.Options{WebhookURL: "https://webhook.example.org:9443"},
			Rotation:  certs.Rotation{Hosts: []string{"webhook.example.org"}},
		},
		Cached: c, Direct: c, Metadata: noObjects, Now: time.Now, applied: map[string]applied{},
		Discovery: &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{list}}},
	}
	return h
}

func metadataScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := fakemetadata.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(s))
	return s
}

func (h *harness) run(t *testing.T) (reconcile.Result, error) {
	t.Helper()
	return h.Reconcile(t.Context(), reconcile.Request{})
}

// ready is the condition of the policy.
func (h *harness) ready(t *testing.T) metav1.Condition {
	t.Helper()
	k := &v1alpha1.Kausality{}
	require.NoError(t, h.Direct.Get(t.Context(), client.ObjectKey{Name: "shop"}, k))
	c := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.KausalityReady)
	require.NotNil(t, c)
	return *c
}

func (h *harness) exists(t *testing.T, o client.Object, namespace, name string) bool {
	t.Helper()
	err := h.Direct.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	require.NoError(t, client.IgnoreNotFound(err))
	return err == nil
}

// TestReconcile: a policy leads to certificates, access and configuration, in the
// status the counts, and to no second write (KR-12-02).
func TestReconcile(t *testing.T) {
	h := newHarness(t, nil, policyCRD(), shopPolicy())
	_, err := h.run(t)
	require.NoError(t, err)
	assert.True(t, h.exists(t, &corev1.Secret{}, manifests.Namespace, manifests.SecretServing))
	assert.True(t, h.exists(t, &rbacv1.ClusterRole{}, "", manifests.RoleGatePolicies))
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.True(t, h.exists(t, live, "", scope.ConfigurationName))
	assert.NotEmpty(t, live.Webhooks[0].ClientConfig.CABundle)
	assert.Equal(t, admissionregistrationv1.Fail, *live.Webhooks[0].FailurePolicy, "the mode is enforce (KR-12-04)")
	assert.Equal(t, metav1.ConditionTrue, h.ready(t).Status)
	k := &v1alpha1.Kausality{}
	require.True(t, h.exists(t, k, "", "shop"))
	assert.EqualValues(t, 1, k.Status.ManagedResources)
	before := h.writes
	_, err = h.run(t)
	require.NoError(t, err)
	assert.Equal(t, before, h.writes, "nothing differs: nothing is written")
}

// TestCrossplaneReads: the webhook configuration reports whether the ClusterRole exists by which Crossplane reads the policies, so that the
// function requires nothing that it may not read (KR-09-08).
func TestCrossplaneReads(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: manifests.RoleCrossplane,
		Labels: map[string]string{labelName: nameKausality, manifests.LabelCrossplane: "true"}}}
	unlabelled := role.DeepCopy()
	delete(unlabelled.Labels, manifests.LabelCrossplane)
	for name, tc := range map[string]struct {
		role *rbacv1.ClusterRole
		want string
	}{"Exists": {role: role, want: v1alpha1.CrossplaneReadsAll}, "Missing": {want: v1alpha1.CrossplaneReadsNone},
		"NotAggregated": {role: unlabelled, want: v1alpha1.CrossplaneReadsNone}} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{policyCRD(), shopPolicy()}
			if tc.role != nil {
				objects = append(objects, tc.role)
			}
			h := newHarness(t, nil, objects...)
			_, err := h.run(t)
			require.NoError(t, err)
			live := &admissionregistrationv1.MutatingWebhookConfiguration{}
			require.True(t, h.exists(t, live, "", scope.ConfigurationName))
			assert.Equal(t, tc.want, live.Annotations[v1alpha1.AnnotationKeyCrossplaneReads])
			if tc.role == nil {
				return
			}
			require.NoError(t, h.Direct.Delete(t.Context(), tc.role))
			_, err = h.run(t)
			require.NoError(t, err)
			require.True(t, h.exists(t, live, "", scope.ConfigurationName))
			assert.Equal(t, v1alpha1.CrossplaneReadsNone, live.Annotations[v1alpha1.AnnotationKeyCrossplaneReads], "it was deleted")
		})
	}
}

// TestReconcileWithoutCRD: policies that are gone with their CRD are no reason to
// write anything.
func TestReconcileWithoutCRD(t *testing.T) {
	deleted := policyCRD()
	now := metav1.Now()
	deleted.SetDeletionTimestamp(&now)
	deleted.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
	for name, objects := range map[string][]client.Object{"Gone": nil, "Deleting": {deleted}} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil, objects...)
			result, err := h.run(t)
			require.NoError(t, err)
			assert.Equal(t, retryWithout, result.RequeueAfter)
			assert.Zero(t, h.writes)
		})
	}
}

// TestReconcileFails: what cannot be written is an error, which is retried, and is in
// the status of the policy as soon as that can be read. No certificate is served
// whose authority the configuration does not have (KR-12-06).
func TestReconcileFails(t *testing.T) {
	boom := errors.New("boom")
	conflict := kerrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "authority", boom)
	for name, tc := range map[string]struct {
		reason  string
		failing func(verb string, o client.Object) error
		is      func(error) bool
		// reported: the status has the error.
		reported bool
	}{
		"Apply": {
			reason:  "the API server refuses an object",
			failing: func(verb string, _ client.Object) error { return onlyFor(verb == "apply", boom) },
			is:      func(err error) bool { return errors.Is(err, boom) }, reported: true,
		},
		"Conflict": {
			reason: "another replica was the leader a moment ago",
			failing: func(_ string, o client.Object) error {
				return onlyFor(o != nil && o.GetName() == manifests.SecretAuthority, conflict)
			},
			is: kerrors.IsConflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, tc.failing, policyCRD(), shopPolicy())
			_, err := h.run(t)
			assert.True(t, tc.is(err), "%s: got %v", tc.reason, err)
			assert.False(t, h.exists(t, &corev1.Secret{}, manifests.Namespace, manifests.SecretServing), "the certificate before its authority")
			if tc.reported {
				assert.Equal(t, v1alpha1.KausalityReasonNotWritten, h.ready(t).Reason)
			}
		})
	}
}

func onlyFor(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// TestReconcileInvalid: a policy that guards what must never wait for a webhook has no
// effect, and its status is the reason; the others have theirs.
func TestReconcileInvalid(t *testing.T) {
	invalid := shopPolicy()
	invalid.Name = "invalid"
	invalid.Spec.Resources[0].APIGroups = []string{"coordination.k8s.io"}
	h := newHarness(t, nil, policyCRD(), shopPolicy(), invalid)
	_, err := h.run(t)
	require.NoError(t, err)
	assert.Equal(t, metav1.ConditionTrue, h.ready(t).Status)
	k := &v1alpha1.Kausality{}
	require.True(t, h.exists(t, k, "", "invalid"))
	c := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.KausalityReady)
	require.NotNil(t, c)
	assert.Equal(t, v1alpha1.KausalityReasonNotUnderstood, c.Reason)
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.True(t, h.exists(t, live, "", scope.ConfigurationName))
	for _, w := range live.Webhooks {
		for _, r := range w.Rules {
			assert.NotContains(t, r.APIGroups, "coordination.k8s.io")
		}
	}
}

// TestReconcilePrunes: what no policy requires any more is removed, what another
// controller made, or what it has no access to, is not (KR-12-09, KR-13-44).
func TestReconcilePrunes(t *testing.T) {
	binding := func(name, by string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{labelName: nameKausality, labelManaged: by}}}
	}
	h := newHarness(t, nil, policyCRD(), shopPolicy(), binding("kausality-annotation-protection-7", v1alpha1.ManagerController),
		binding("other", v1alpha1.ManagerController), binding("chart", "Helm"))
	_, err := h.run(t)
	require.NoError(t, err)
	assert.False(t, h.exists(t, binding("", ""), "", "kausality-annotation-protection-7"))
	assert.True(t, h.exists(t, binding("", ""), "", "other"))
	assert.True(t, h.exists(t, binding("", ""), "", "chart"))
}
