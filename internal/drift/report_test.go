package drift

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// reportedDrift has all that a report is made of.
func reportedDrift() *v1alpha1.Drift {
	d := object(item("0123456789abcdef").Report)
	d.UID = "drift-1"
	since := metav1.NewTime(time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC))
	d.Spec.Operation, d.Spec.Cause, d.Spec.SuggestedApproval = "UPDATE", "controller apps running app:2", "kubectl annotate …"
	d.Spec.Causes = []v1alpha1.HopCause{{Kind: v1alpha1.CauseImage, Name: "app:2"}}
	d.Spec.Difference = []v1alpha1.FieldDifference{{Path: "data.a", Verb: "Mutate", Old: `"1"`, New: `"2"`},
		{Path: "data[b.c]", Verb: "Insert", New: "<redacted>"}}
	d.Spec.Request = &v1alpha1.ReportRequest{User: "apps", Operation: "UPDATE"}
	d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &since, LastSeen: &since, Count: 2, Lacks: "1 of 2 approvals",
		Votes: []v1alpha1.Vote{{User: "anna"}}}
	return d
}

// testAuthor writes about the parent "app" and a ConfigMap.
func testAuthor(o ReportOptions, p *parent.State, conditions ...string) *Author {
	return &Author{
		ReportOptions: o, Objects: memoryObjects{"app": p, "child": {Labels: map[string]string{"tier": "gold"}}},
		Kind: func(schema.GroupVersionKind) identity.Kind { return identity.Kind{} },
		Content: func(context.Context, parent.Ref) (map[string]any, error) {
			return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "child", "managedFields": []any{}},
				"data": map[string]any{"a": "1", "password": "hunter2"}}, nil
		},
		Secrets:     func(parent.Ref, map[string]string) change.SecretFields { return "data.password" },
		Initialized: func(schema.GroupKind) []string { return conditions },
	}
}

func settledApp() *parent.State {
	return &parent.State{
		Ref: item("a1").Report.ParentRef, HasStatus: true, ObservedGeneration: 3, Manager: "app-controller", Labels: map[string]string{"team": "shop"},
		Conditions: []parent.Condition{{Type: "Bound", Status: metav1.ConditionTrue}},
		Annotations: map[string]string{v1alpha1.AnnotationKeyTrace: `[{"apiVersion":"example.org/v1","kind":"App","name":"app","generation":3,` +
			`"user":"hans","timestamp":"2026-01-05T09:00:00Z","labels":{"ticket":"SHOP-17"}}]`},
		Generation: 3,
	}
}

// TestReport covers KR-10-17: a report has what who receives it needs to know it again, to route it and to decide.
func TestReport(t *testing.T) {
	o := ReportOptions{Cluster: "prod-1", Links: []string{"console=https://console.example.org/{cluster}/{namespace}/{kind}?name={name}&id={id}"}}
	require.NoError(t, o.Check())
	d := reportedDrift()
	got := testAuthor(o, settledApp(), "Bound").Write(t.Context(), d, v1alpha1.DriftDetected).Spec
	assert.Equal(t, "0123456789abcdef-20260105t093000z-detected", got.ReportID)
	assert.Equal(t, "prod-1", got.Cluster)
	assert.Equal(t, "Detected: unrequested UPDATE of ConfigMap ns/child, by controller apps running app:2", got.Title)
	assert.Equal(t, v1alpha1.ObjectReference{APIVersion: "kausality.io/v1alpha1", Kind: "Drift", Namespace: "ns", Name: d.Name, UID: "drift-1"}, got.Drift)
	assert.Equal(t, d.Spec.Causes, got.Causes)
	assert.Equal(t, d.Spec.Difference, got.Difference)
	assert.Equal(t, d.Status.Votes, got.Votes)
	assert.Equal(t, d.Status.Lacks, got.Lacks)
	assert.Equal(t, d.Spec.Request, got.Request)
	assert.EqualValues(t, 3, got.Parent.ObservedGeneration)
	assert.Equal(t, "app-controller", got.Parent.ControllerManager)
	assert.Equal(t, "Initialized", got.Parent.LifecyclePhase)
	assert.Equal(t, map[string]string{"team": "shop"}, got.Parent.Labels)
	assert.Equal(t, map[string]string{"tier": "gold"}, got.Child.Labels)
	if assert.NotNil(t, got.Parent.Intent) {
		assert.Equal(t, "hans", got.Parent.Intent.User)
		assert.Equal(t, map[string]string{"ticket": "SHOP-17"}, got.Parent.Intent.Labels)
	}
	assert.Equal(t, []v1alpha1.ReportCommand{
		{Name: "approve", Command: "kubectl annotate …"},
		{Name: "reject", Command: `kubectl kausality reject -n ns 0123456789abcdef --reason "TEXT"`},
		{Name: "explain", Command: "kubectl kausality explain -n ns configmap/child"},
		{Name: "trace", Command: "kubectl kausality trace -n ns app.example.org/app"},
	}, got.Commands)
	assert.Equal(t, []v1alpha1.ReportLink{{Name: "console", URL: "https://console.example.org/prod-1/ns/App?name=app&id=0123456789abcdef"}}, got.Links)
	assert.Nil(t, got.OldObject, "by choice only")
	assert.Equal(t, "Initializing", testAuthor(o, settledApp()).Write(t.Context(), d, v1alpha1.DriftDetected).Spec.Parent.LifecyclePhase,
		"by the conditions of its kind (KR-03-09)")

	d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "it was approved"
	over := testAuthor(o, nil).Write(t.Context(), d, v1alpha1.DriftResolved).Spec
	assert.Equal(t, "Resolved: ConfigMap ns/child: it was approved", over.Title)
	assert.Equal(t, "it was approved", over.Resolution)
	assert.Empty(t, over.Parent.LifecyclePhase, "a parent that is gone")
	assert.Nil(t, over.Approval, "it is not known who approved")

	d.Status.Approval = &v1alpha1.HopApproval{Mode: v1alpha1.ApprovalOnce,
		By: []v1alpha1.Vote{{User: "anna", Via: "kubectl-annotate"}, {User: "bot", OnBehalfOf: "bob"}}}
	over = testAuthor(o, nil).Write(t.Context(), d, v1alpha1.DriftResolved).Spec
	assert.Equal(t, d.Status.Approval, over.Approval, "KR-14-63")
	assert.Equal(t, "Resolved: ConfigMap ns/child: it was approved, by anna and bot on behalf of bob", over.Title)
	assert.Nil(t, testAuthor(o, nil).Write(t.Context(), d, v1alpha1.DriftDetected).Spec.Approval, "of an earlier phase that is sent late")
}

// TestReportObjects covers KR-10-18: whole objects are by choice, without what is secret.
func TestReportObjects(t *testing.T) {
	write := func(edit func(*v1alpha1.Drift)) v1alpha1.DriftReportSpec {
		d := reportedDrift()
		edit(d)
		return testAuthor(ReportOptions{Objects: true}, settledApp()).Write(t.Context(), d, v1alpha1.DriftDetected).Spec
	}
	const stored = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child"},"data":{"a":"1","password":"<redacted>"}}`
	got := write(func(*v1alpha1.Drift) {})
	assert.JSONEq(t, stored, string(got.OldObject.Raw))
	assert.JSONEq(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child"},"data":{"a":"2","password":"<redacted>","b.c":"<redacted>"}}`,
		string(got.NewObject.Raw))
	got = write(func(d *v1alpha1.Drift) { d.Spec.Operation = "DELETE" })
	assert.JSONEq(t, stored, string(got.NewObject.Raw))
	got = write(func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = `"cut…` })
	assert.NotNil(t, got.OldObject)
	assert.Nil(t, got.NewObject, "it cannot be made of what is stored")
	got = write(func(d *v1alpha1.Drift) { d.Spec.Operation = "CREATE" })
	assert.Nil(t, got.OldObject)
	assert.Nil(t, got.NewObject)
}

// TestReportOptions: links are checked before anything starts.
func TestReportOptions(t *testing.T) {
	for _, bad := range []string{"https://a", "=https://a", "a=", "a=ftp://b", "a=https://"} {
		assert.ErrorContains(t, ReportOptions{Links: []string{bad}}.Check(), "--drift-webhook-link", bad)
	}
	assert.NoError(t, ReportOptions{Links: []string{"a=https://{cluster}.example.org/{id}"}}.Check())
}
