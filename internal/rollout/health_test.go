package rollout

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestNotReady: the reason names the condition that keeps an object from being healthy (KR-14-54).
func TestNotReady(t *testing.T) {
	condition := func(name string, status metav1.ConditionStatus, reason string) parent.Condition {
		return parent.Condition{Type: name, Status: status, Reason: reason}
	}
	for name, c := range map[string]struct {
		role       parent.Role
		conditions []parent.Condition
		want       string
	}{
		"no condition":     {parent.RoleComposite, nil, "it has no condition Synced"},
		"failed":           {parent.RoleComposite, []parent.Condition{condition("Synced", "False", "ReconcileError")}, "Synced is not True (ReconcileError)"},
		"without a reason": {parent.RoleComposite, []parent.Condition{condition("Synced", "Unknown", "")}, "Synced is not True"},
		"the second": {parent.RoleManaged, []parent.Condition{condition("Synced", "True", "Any"), condition("Ready", "False", "Creating")},
			"Ready is not True (Creating)"},
		"both are true": {parent.RoleManaged, []parent.Condition{condition("Synced", "True", ""), condition("Ready", "True", "")},
			"its status does not report it as current"},
		"another kind":      {parent.RoleNone, []parent.Condition{condition("Ready", "False", "Any")}, "its status does not report it as current"},
		"ready, not synced": {parent.RoleManaged, []parent.Condition{condition("Ready", "True", "Any")}, "it has no condition Synced"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &states.Object{State: &parent.State{Role: c.role, Conditions: c.conditions}}
			require.Equal(t, c.want, notReady(o))
		})
	}
}

// unwatched returns a controller whose watches have nothing yet, as after another replica led. The API server has the objects.
func unwatched(t *testing.T, objects ...runtime.Object) *Controller {
	t.Helper()
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{apps})
	mapper.Add(apps.WithKind("Deployment"), meta.RESTScopeNamespace)
	api := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		apps.WithResource("deployments"):                                                      "DeploymentList",
		{Version: "v1", Resource: "namespaces"}:                                               "NamespaceList",
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
	}, objects...)
	of, err := kinds.New(api, mapper)
	require.NoError(t, err)
	return &Controller{Cluster: &cluster.Cluster{Kinds: of, States: states.New(api, of), Namespaces: policies.NewNamespaces(api)}}
}

func deployment(available bool) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"replicas": int64(1)}}}
	if available {
		o.Object["status"] = map[string]any{"replicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1), "updatedReplicas": int64(1),
			"conditions": []any{map[string]any{"type": "Available", "status": "True"}}}
	}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	o.SetNamespace("team")
	o.SetName("web")
	o.SetUID("web-uid")
	o.SetLabels(map[string]string{"tier": "test"})
	return o
}

// TestUnwatched: what no watch has yet is read. It is neither taken for deleted, which would end its wave without its
// health (KR-14-54), nor left out of a plan.
func TestUnwatched(t *testing.T) {
	of := &v1alpha1.RolloutObject{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "team", Name: "web", UID: "web-uid"}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    v1alpha1.RolloutState
		reason  string
	}{
		"not healthy": {[]runtime.Object{deployment(false)}, v1alpha1.RolloutObjectApproved, "its status does not report it as current"},
		"healthy":     {[]runtime.Object{deployment(true)}, v1alpha1.RolloutObjectDone, ""},
		"gone":        {nil, v1alpha1.RolloutObjectLeftOut, "it does not exist any more"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := unwatched(t, tc.objects...).health(t.Context(), &object{}, of, nil)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.reason, reason)
		})
	}
}

// drifts of a controller on the Deployment, one that another controller caused on an object that is not, and one on a kind that no longer is.
func drifts(t *testing.T) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	drift := func(id, controller, kind, name string) *v1alpha1.Drift {
		return &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: id}, Spec: v1alpha1.DriftSpec{
			ID: id, SuggestedApproval: "any", Operation: "UPDATE", Causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseController, Name: controller}},
			Parent: v1alpha1.ObjectReference{APIVersion: "apps/v1", Kind: kind, Namespace: "team", Name: name, UID: types.UID(name + "-uid")},
			Child:  v1alpha1.ObjectReference{APIVersion: "apps/v1", Kind: kind, Namespace: "team", Name: name, UID: types.UID(name + "-uid")},
		}, Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected}}
	}
	return clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(drift("aaaaaaaaaaaaaaaa", "web", "Deployment", "web"),
		drift("bbbbbbbbbbbbbbbb", "other", "Deployment", "unread"), drift("cccccccccccccccc", "web", "Removed", "web")).Build()
}

// TestPendingUnwatched: a plan has what its labels select, also of kinds that no watch has yet. A Drift of a kind that is not served any more
// keeps none from being made, and what the Rollout is not of is not read.
func TestPendingUnwatched(t *testing.T) {
	const web, removed = "aaaaaaaaaaaaaaaa", "cccccccccccccccc"
	for name, tc := range map[string]struct {
		labels  *metav1.LabelSelector
		objects []runtime.Object
		want    []string
	}{
		"no labels":    {nil, nil, []string{web, removed}},
		"selected":     {&metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}, []runtime.Object{deployment(true)}, []string{web}},
		"not selected": {&metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}, []runtime.Object{deployment(true)}, nil},
		"without label": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}},
			[]runtime.Object{deployment(true)}, nil},
		"gone": {&metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := &object{Object: &v1alpha1.Rollout{}, spec: &v1alpha1.RolloutSpec{
				Cause: v1alpha1.RolloutCause{Controller: "web"}, Selector: &v1alpha1.RolloutSelector{Labels: tc.labels}}}
			o.SetNamespace("team")
			c := unwatched(t, tc.objects...)
			var read []string
			c.Cluster.States.OnLiveRead(func(ref parent.Ref) { read = append(read, ref.Name) })
			pending, err := c.pending(t.Context(), o, drifts(t))
			require.NoError(t, err)
			var got []string
			for _, p := range pending {
				got = append(got, p.Drift.Name)
			}
			require.Equal(t, tc.want, got)
			require.NotContains(t, read, "unread")
			require.Equal(t, tc.labels != nil, slices.Contains(read, "web"), "read: %v", read)
		})
	}
}

// TestChangesUnwatched: the rules see the labels and the authors of what no watch has yet. A kind that is not served any more has none.
func TestChangesUnwatched(t *testing.T) {
	o := deployment(true)
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyTrace: `[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","generation":1,"user":"anna"}]`})
	c := unwatched(t, o)
	c.Drifts = drifts(t)
	var got answer
	for kind, drift := range map[string]string{"Deployment": "aaaaaaaaaaaaaaaa", "Removed": "cccccccccccccccc"} {
		of := &v1alpha1.RolloutObject{APIVersion: "apps/v1", Kind: kind, Namespace: "team", Name: "web", UID: "web-uid",
			Differences: []v1alpha1.RolloutDifference{{Namespace: "team", Drift: drift, ID: drift}}}
		require.NoError(t, changesOf(t.Context(), c, of, &got))
	}
	require.Len(t, got.changes, 2)
	for _, change := range got.changes {
		want := map[string]string{"tier": "test"}
		if change.Kind.Kind == "Removed" {
			want = nil
		}
		require.Equal(t, want, change.Labels)
	}
	require.Contains(t, got.authors, "anna")
}

// TestAnswerHolds: who made a change may be known later; an approval that lacks it must not wait for another plan (KR-14-55).
func TestAnswerHolds(t *testing.T) {
	set, other, at := &allowance.Set{}, &allowance.Set{}, time.Now()
	known, unknown := answer{plan: "p", policies: set, authors: []string{"anna"}, at: at}, answer{plan: "p", policies: set, authors: []string{"", "anna"}, at: at}
	require.True(t, known.holds("p", set, at.Add(time.Hour)))
	require.False(t, known.holds("q", set, at))
	require.False(t, known.holds("p", other, at))
	require.True(t, unknown.holds("p", set, at.Add(unknownAuthors/2)))
	require.False(t, unknown.holds("p", set, at.Add(unknownAuthors)))
}
