package page

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
)

// scaled is a change by a controller.
func scaled(edit func(*v1alpha1.Drift)) *v1alpha1.Drift {
	return held(func(d *v1alpha1.Drift) {
		d.Spec.User = "system:serviceaccount:robots:scaler"
		if edit != nil {
			edit(d)
		}
	})
}

const exceptionPath = "kausality.io/v1alpha1/namespaces/team/approvalpolicies/exception-" + heldID + "-"

// withExceptions is a page whose cluster serves ApprovalPolicies.
func withExceptions(t *testing.T, drifts ...*v1alpha1.Drift) (*viewtest.Server, *browser, *viewtest.Clock) {
	t.Helper()
	s, o, clock := newServer(t, drifts...)
	mapper, ok := o.Mapper.(*meta.DefaultRESTMapper)
	assert.True(t, ok)
	mapper.AddSpecific(v1alpha1.GroupVersion.WithKind(v1alpha1.KindApprovalPolicy), v1alpha1.GroupVersion.WithResource("approvalpolicies"),
		schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "approvalpolicy"}, meta.RESTScopeNamespace)
	return s, open(t, o), clock
}

// TestException covers KR-17-19: what an exception will let pass is shown before it is made; it is made once, as the user.
func TestException(t *testing.T) {
	s, b, clock := withExceptions(t, scaled(nil), scaled(func(d *v1alpha1.Drift) {
		d.Name, d.Spec.Child.Name, d.Status.Phase = "00000000000000aa", "invoices-db", v1alpha1.DriftResolved
	}))
	shows(t, b.get(b.change("")), "Make an exception…")
	before, after := b.take(b.change("exception"), url.Values{"scope": {"kind"}, "until": {"8h"}})
	shows(t, before, "updates by system:serviceaccount:robots:scaler pass without an approval", "Its deletion is held as before",
		"of Database team/orders-db alone",
		"of each Database of cloud.example.org/v1 in Namespace team", "It would have let pass, too:", "invoices-db", "No other change is known",
		"kind: ApprovalPolicy", "mode: always", "2026-01-05T11:00:00Z",
		"exception-"+heldID+"-object-20260105t1100")
	shows(t, after, "There is an exception until 2026-01-05T18:00:00Z", "kubectl delete approvalpolicy exception-"+heldID+"-kind-20260105t1800 -n team")
	policy := s.Object(exceptionPath + "kind-20260105t1800")
	if assert.NotNil(t, policy) {
		rule := policy["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)
		assert.Equal(t, "2026-01-05T18:00:00Z", rule["expiry"])
		assert.NotContains(t, rule, "name")
	}
	assert.Equal(t, FieldManager, s.Manager)
	clock.Move(2 * time.Minute)
	twice := b.send(b.change("exception"), filled(before.body, url.Values{"scope": {"kind"}, "until": {"8h"}}), nil)
	shows(t, twice, "There is an exception until")
	policy["spec"].(map[string]any)["rules"] = []any{}
	other := b.send(b.change("exception"), filled(before.body, url.Values{"scope": {"kind"}, "until": {"8h"}}), nil)
	assert.Equal(t, http.StatusUnprocessableEntity, other.code)
	assert.Contains(t, other.body, "another ApprovalPolicy has the name")
	clock.Move(2 * time.Hour)
	late := b.send(b.change("exception"), filled(before.body, url.Values{"scope": {"object"}, "until": {"1h"}}), nil)
	shows(t, late, "There is an exception until 2026-01-05T13:02:00Z")
	s.Put(t, scaled(func(d *v1alpha1.Drift) { d.Spec.Child.Namespace = "" }))
	assert.Equal(t, http.StatusConflict, b.get(b.change("exception")).code, "the kind has Namespaces: it would be about all of them")
}

// TestExceptionRefused covers KR-17-16 and KR-17-19: incomplete and stale forms make nothing, nor does a user without the right; what was entered is kept.
func TestExceptionRefused(t *testing.T) {
	s, b, _ := withExceptions(t, scaled(nil))
	path := b.change("exception")
	_, after := b.take(path, url.Values{"scope": {"object"}, "until": {"forever"}})
	assert.Equal(t, http.StatusUnprocessableEntity, after.code)
	assert.Contains(t, after.body, "Choose what it is about, and until when.")
	_, after = b.take(path, url.Values{"scope": {"*"}, "until": {"1h"}})
	assert.Equal(t, http.StatusUnprocessableEntity, after.code)
	assert.Contains(t, after.body, "Choose what it is about, and until when.")

	shown := b.get(path)
	s.Put(t, scaled(func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = "5000" }))
	chosen := url.Values{"scope": {"kind"}, "until": {"monday"}}
	stale := b.send(path, filled(shown.body, chosen), nil)
	assert.Equal(t, http.StatusConflict, stale.code)
	shows(t, response{code: http.StatusOK, body: stale.body}, "it has changed since it was shown to you", "5000", `value="kind" checked`, `value="monday" checked`)

	s.Mu.Lock()
	s.Forbidden = func(method, path string) bool {
		return method == http.MethodPost && path == "kausality.io/v1alpha1/namespaces/team/approvalpolicies"
	}
	s.Mu.Unlock()
	refused := b.send(path, filled(stale.body, chosen), nil)
	assert.Equal(t, http.StatusForbidden, refused.code)
	shows(t, response{code: http.StatusOK, body: refused.body}, "you may not do that", "the verbs create and get on approvalpolicies", `value="monday" checked`)

	s.SetAway(true)
	away := b.send(path, filled(refused.body, chosen), nil)
	assert.Equal(t, http.StatusServiceUnavailable, away.code)
	assert.Contains(t, away.body, `name="scope" value="kind"`)
	s.SetAway(false)
	s.Mu.Lock()
	s.Forbidden = nil
	s.Mu.Unlock()
	shows(t, b.send(path, filled(away.body, nil), nil), "There is an exception until 2026-01-12T08:00:00Z")
	assert.NotNil(t, s.Object(exceptionPath+"kind-20260112t0800"), "what was entered was kept")

	s.Put(t, held(nil))
	assert.Equal(t, http.StatusConflict, b.get(path).code, "it has no user")
	assert.NotContains(t, b.get(b.change("")).body, "Make an exception")
}
