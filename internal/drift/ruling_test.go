package drift

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestRulings covers KR-10-21: an open Drift has the rejection and the snooze of its parent, each written once.
func TestRulings(t *testing.T) {
	rejection := func(name, reason string) string {
		return `[{"apiVersion":"*","kind":"*","name":"` + name + `","reason":"` + reason + `"}]`
	}
	expiry := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		annotations      map[string]string
		external         bool
		rejected, snooze string
	}{
		"Rejected": {annotations: map[string]string{v1alpha1.AnnotationKeyRejections: rejection("db", "not now")}, rejected: "not now"},
		"External": {annotations: map[string]string{v1alpha1.AnnotationKeyRejections: rejection("db", "not now")}, rejected: "not now", external: true},
		"Other":    {annotations: map[string]string{v1alpha1.AnnotationKeyRejections: rejection("cache", "not now")}},
		"Long": {annotations: map[string]string{v1alpha1.AnnotationKeyRejections: rejection("db", strings.Repeat("ü", 1000))},
			rejected: strings.Repeat("ü", maxRuling/2)},
		"Snoozed": {snooze: "hans: later", annotations: map[string]string{
			v1alpha1.AnnotationKeySnooze: `{"expiry":"` + expiry.Format(time.RFC3339Nano) + `","user":"hans","message":"later"}`}},
		"Expired":    {annotations: map[string]string{v1alpha1.AnnotationKeySnooze: `{"expiry":"2026-01-01T00:00:00Z","user":"hans"}`}},
		"Unreadable": {annotations: map[string]string{v1alpha1.AnnotationKeySnooze: `{`}},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			d := openDrift("a1", "app", "db")
			if tc.external {
				d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, ""
			}
			c := driftClient(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption) error {
				writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}}, d)
			app := &parent.State{Ref: parent.Ref{Name: "app"}, Annotations: tc.annotations}
			r := testResolver(t, c, memoryObjects{"app": app, "db": {Ref: parent.Ref{Name: "db"}}}, logr.Discard())
			for range 3 {
				require.NoError(t, r.round(t.Context()))
			}
			got := rulingOf(t, c)
			if tc.rejected == "" {
				assert.Nil(t, got.Rejected)
			} else if assert.NotNil(t, got.Rejected) {
				assert.Equal(t, tc.rejected, got.Rejected.Reason)
			}
			if tc.snooze == "" {
				assert.Nil(t, got.Snooze)
			} else if assert.NotNil(t, got.Snooze) {
				assert.Equal(t, tc.snooze, got.Snooze.User+": "+got.Snooze.Message)
				assert.True(t, got.Snooze.Expiry.Equal(new(got.Snooze.Expiry.Rfc3339Copy())))
			}
			if tc.rejected+tc.snooze == "" {
				assert.Zero(t, writes)
				return
			}
			assert.Equal(t, 1, writes, "what has not changed is not written")
			app.Annotations = nil
			require.NoError(t, r.round(t.Context()))
			after := get(t, c, "ns", "a1").Status
			assert.Nil(t, after.Ruling, "withdrawn, or ended")
			assert.Equal(t, v1alpha1.DriftDetected, after.Phase)
		})
	}
}

// TestRulingsOfResolved: a Drift that is over has no ruling.
func TestRulingsOfResolved(t *testing.T) {
	d := openDrift("a1", "app", "db")
	d.Status.Ruling = &v1alpha1.DriftRuling{Rejected: &v1alpha1.Rejection{Reason: "not now"}, Snooze: &v1alpha1.Snooze{User: "hans"}}
	c := driftClient(t, interceptor.Funcs{}, d)
	r := testResolver(t, c, memoryObjects{}, logr.Discard())
	require.NoError(t, r.round(t.Context()))
	got := get(t, c, "ns", "a1").Status
	assert.Equal(t, v1alpha1.DriftResolved, got.Phase)
	assert.Nil(t, got.Ruling)
}

// rulingOf the drift a1; the zero value for none.
func rulingOf(t *testing.T, c client.Client) v1alpha1.DriftRuling {
	t.Helper()
	if r := get(t, c, "ns", "a1").Status.Ruling; r != nil {
		return *r
	}
	return v1alpha1.DriftRuling{}
}
