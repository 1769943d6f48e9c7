package channel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// robot is the user of a controller.
const robot = "system:serviceaccount:robots:scaler"

// byRobot is a change by a controller.
func byRobot(edit func(*v1alpha1.Drift)) *v1alpha1.Drift {
	d := held(edit)
	d.Spec.User = robot
	return d
}

// TestExceptable covers KR-17-19: what there may be an exception for, and what an exception would have let pass.
func TestExceptable(t *testing.T) {
	cases := map[string]struct {
		reason string
		edit   func(*v1alpha1.Drift)
		ruling Ruling
		want   bool
	}{
		"Update":   {reason: "of one field", want: true},
		"Deletion": {reason: "each is approved by itself", edit: func(d *v1alpha1.Drift) { d.Spec.Operation = "DELETE" }},
		"Creation": {reason: "each is approved by itself", edit: func(d *v1alpha1.Drift) { d.Spec.Operation = "CREATE" }},
		"External": {reason: "a policy opens no gate", edit: func(d *v1alpha1.Drift) { d.Spec.Relation = v1alpha1.RelationExternal }},
		"ExternalName": {reason: "it replaces", edit: func(d *v1alpha1.Drift) {
			d.Spec.Difference[0].Path = `metadata.annotations["crossplane.io/external-name"]`
		}},
		"Over":     {reason: "nothing is left to decide", edit: func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved }},
		"Glob":     {reason: "it would be about others, too", edit: func(d *v1alpha1.Drift) { d.Spec.Child.Name = "*" }},
		"NoKind":   {reason: "it would be about others, too", edit: func(d *v1alpha1.Drift) { d.Spec.Child.Kind = "" }},
		"Rejected": {reason: "it refuses all the same", ruling: Ruling{Rejected: &v1alpha1.Rejection{Reason: "no"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, Exceptable(byRobot(tc.edit), tc.ruling), tc.reason)
		})
	}
	assert.False(t, Exceptable(held(nil), Ruling{}), "what the composition function holds has no user")

	d := byRobot(nil)
	another := byRobot(func(d *v1alpha1.Drift) { d.Spec.Child.Name, d.Status.Phase = "invoices-abc", v1alpha1.DriftResolved })
	assert.False(t, Excepted(d, ExceptionObject, another))
	assert.True(t, Excepted(d, ExceptionKind, another), "also what is over")
	assert.False(t, Excepted(d, ExceptionKind, held(nil)), "by another user")
	assert.False(t, Excepted(d, ExceptionKind, byRobot(func(d *v1alpha1.Drift) { d.Spec.Operation = "DELETE" })))
	assert.False(t, Excepted(d, ExceptionKind, byRobot(func(d *v1alpha1.Drift) { d.Spec.Child.Namespace = "other" })))
	assert.False(t, Excepted(d, ExceptionKind, byRobot(func(d *v1alpha1.Drift) { d.Spec.Child.Kind = "Bucket" })))
}

// TestDecideException covers KR-17-03 and KR-17-19: an exception is about what was shown, needs a scope and an end, and has the same name if it is sent twice.
func TestDecideException(t *testing.T) {
	d := byRobot(nil)
	until := time.Date(2026, 1, 5, 10, 0, 59, 0, time.UTC)
	click := Click{Action: ActionException, Shown: Fingerprint(d), Until: until}
	e, refused := DecideException(click, ExceptionObject, d, Ruling{})
	require.Empty(t, refused)
	assert.Equal(t, "ApprovalPolicy", e.Kind())
	assert.Equal(t, "kubectl delete approvalpolicy exception-7642947475a29290-object-20260105t1000 -n shop", e.RemoveCommand())
	o, err := e.Policy()
	require.NoError(t, err)
	rule := o.Object["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)
	assert.Equal(t, "2026-01-05T10:00:00Z", rule["expiry"])
	assert.Equal(t, "orders-abc", rule["name"])
	assert.NotContains(t, o.Object, "status")

	wide, _ := DecideException(click, ExceptionKind, d, Ruling{})
	assert.Empty(t, wide.Spec.Rules[0].Name)
	assert.NotEqual(t, e.Name, wide.Name)
	cluster, _ := DecideException(Click{Shown: Fingerprint(clusterScoped()), Until: until}, ExceptionKind, clusterScoped(), Ruling{})
	assert.Equal(t, "ClusterApprovalPolicy", cluster.Kind())
	assert.Equal(t, "kubectl delete clusterapprovalpolicy "+cluster.Name, cluster.RemoveCommand())

	for _, tc := range []struct {
		reason string
		click  Click
		scope  ExceptionScope
		now    *v1alpha1.Drift
		ruling Ruling
		want   Refusal
	}{
		{reason: "it is gone", click: click, scope: ExceptionObject, want: RefusedGone},
		{reason: "another difference", click: click, scope: ExceptionObject,
			now: byRobot(func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = "5000" }), want: RefusedChanged},
		{reason: "nothing was shown", click: Click{Until: until}, scope: ExceptionObject, now: d, want: RefusedChanged},
		{reason: "rejected meanwhile", click: click, scope: ExceptionObject, now: d, ruling: Ruling{Rejected: &v1alpha1.Rejection{}}, want: RefusedNotOffered},
		{reason: "no end", click: Click{Shown: Fingerprint(d)}, scope: ExceptionObject, now: d, want: RefusedIncomplete},
		{reason: "no scope", click: click, now: d, want: RefusedIncomplete},
		{reason: "all kinds", click: click, scope: "*", now: d, want: RefusedIncomplete},
	} {
		e, got := DecideException(tc.click, tc.scope, tc.now, tc.ruling)
		assert.Equal(t, tc.want, got, tc.reason)
		assert.Nil(t, e, tc.reason)
	}
}

func clusterScoped() *v1alpha1.Drift {
	return byRobot(func(d *v1alpha1.Drift) { d.Spec.Child.Namespace = "" })
}

// orphaned sets the deletion policy.
func orphaned(o map[string]any) map[string]any {
	o["spec"].(map[string]any)["deletionPolicy"] = "Orphan"
	return o
}

// TestExceptionMatches covers KR-17-19 on the policy as admission reads it: an exception lets updates by the user pass until its end, but none that deletes or
// replaces anything.
func TestExceptionMatches(t *testing.T) {
	d := byRobot(nil)
	until := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	e, refused := DecideException(Click{Shown: Fingerprint(d), Until: until}, ExceptionObject, d, Ruling{})
	require.Empty(t, refused)
	o, err := e.Policy()
	require.NoError(t, err)
	policy := &v1alpha1.ApprovalPolicy{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, policy))
	compiled, faults := allowance.CompileApproval(policy)
	require.Empty(t, faults)
	set := allowance.NewSet(nil, nil, []*allowance.Exception{compiled})
	database := func(size int64, name string, provider any) map[string]any {
		o := map[string]any{"metadata": map[string]any{"name": "orders-abc"}, "spec": map[string]any{"forProvider": map[string]any{"size": size}}}
		if name != "" {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"crossplane.io/external-name": name}
		}
		if provider != nil {
			o["spec"].(map[string]any)["providerConfigRef"] = provider
		}
		return o
	}
	prod := map[string]any{"name": "prod"}
	base := database(9, "db-1", prod)
	for name, tc := range map[string]struct {
		now, was          map[string]any
		operation, user   string
		child             string
		after, wantPassed bool
	}{
		"Update":             {now: database(50, "db-1", prod), was: base, wantPassed: true},
		"UpdateWithoutNames": {now: database(50, "", nil), was: database(9, "", nil), wantPassed: true},
		"NoSpec":             {now: map[string]any{"metadata": map[string]any{}}, was: map[string]any{"metadata": map[string]any{}}, wantPassed: true},
		"Deletion":           {now: base, was: base, operation: "DELETE"},
		"ExternalName":       {now: database(9, "db-2", prod), was: base},
		"NoExternalName":     {now: database(9, "", prod), was: base},
		"ProviderConfig":     {now: database(9, "db-1", map[string]any{"name": "dev"}), was: base},
		"NoProviderConfig":   {now: database(9, "db-1", nil), was: base},
		"DeletionPolicy":     {now: orphaned(database(9, "db-1", prod)), was: base},
		"AnotherUser":        {now: database(50, "db-1", prod), was: base, user: "alice"},
		"AnotherObject":      {now: database(50, "db-1", prod), was: base, child: "invoices-abc"},
		"Expired":            {now: database(50, "db-1", prod), was: base, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			q := allowance.ExceptionQuery{User: robot, Now: until.Add(-time.Second), Desired: tc.now,
				Child: v1alpha1.ClaimChild{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "shop", Name: "orders-abc"}}
			if tc.user != "" {
				q.User = tc.user
			}
			if tc.child != "" {
				q.Child.Name = tc.child
			}
			if tc.after {
				q.Now = until
			}
			operation := "UPDATE"
			if tc.operation != "" {
				operation = tc.operation
			}
			q.Input = &expression.Input{Object: tc.now, OldObject: tc.was, Request: map[string]any{"operation": operation, "user": q.User}}
			found, warnings := set.Excepted(t.Context(), q)
			assert.Empty(t, warnings)
			assert.Equal(t, tc.wantPassed, found != nil)
		})
	}
}
