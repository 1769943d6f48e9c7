package page

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const approveKey = v1alpha1.AnnotationKeyApprovePrefix + heldID

// TestApprove covers KR-17-17: what an action will do is shown before, and it is written as the user.
func TestApprove(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	b := open(t, o)
	before, after := b.take(b.change("approve"), nil)
	shows(t, before, "What it will do", "Exactly the difference below may pass, once.", "annotation "+approveKey+" of Shop team/orders",
		"spec.forProvider.size", "Cancel")
	shows(t, after, `role="status">Approved.`, "An approval is stored.", "Withdraw")
	assert.Equal(t, "once", s.Annotations(shopPath)[approveKey])
	assert.Equal(t, FieldManager, s.Manager)
	assert.NotContains(t, b.get(b.change("")).body, "Approved.", "it is shown once")
	b.take(b.change("approve"), nil)
	assert.Equal(t, 2, s.Patches, "no webhook has reviewed the first, so it is written again")
}

// TestActions covers KR-17-17: reject with a reason, snooze, and withdraw.
func TestActions(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	b := open(t, o)
	before, after := b.take(b.change("reject"), url.Values{"reason": {"not before\u202e the audit"}})
	shows(t, before, "Unrequested changes of Database team/orders-db are refused", `maxlength="1000" required`)
	shows(t, after, "Rejected.", "not before the audit")
	assert.JSONEq(t, `[{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-db","reason":"not before the audit"}]`,
		s.Annotations(shopPath)[v1alpha1.AnnotationKeyRejections])

	before, after = b.take(b.change("withdraw"), nil)
	shows(t, before, "All rejections of Database team/orders-db on Shop team/orders are removed")
	shows(t, after, "Withdrawn.", "Approve once")
	assert.NotContains(t, s.Annotations(shopPath), v1alpha1.AnnotationKeyRejections)

	before, after = b.take(b.change("snooze"), url.Values{"until": {"8h"}})
	shows(t, before, "No decision changes.", "2026-01-05T11:00:00Z", "2026-01-05T18:00:00Z", "2026-01-12T08:00:00Z")
	shows(t, after, "Snoozed.", "snoozed until 2026-01-05T18:00:00Z by hans")
	assert.Contains(t, s.Annotations(shopPath)[v1alpha1.AnnotationKeySnooze], `"2026-01-05T18:00:00Z"`)
}

// TestFreeze covers KR-17-17: an object is frozen with a reason, and the freeze that was shown is ended, also that of another user.
func TestFreeze(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	b := open(t, o)
	path := func(action string) string {
		return b.page.base + "/object/" + action + "?apiVersion=example.org%2Fv1&kind=Shop&namespace=team&name=orders"
	}
	before, after := b.take(path("freeze"), url.Values{"reason": {"incident 4711"}})
	shows(t, before, "All changes below Shop team/orders are refused")
	shows(t, after, "Frozen:", "Unfreeze", "incident 4711")
	assert.Contains(t, s.Annotations(shopPath)[v1alpha1.AnnotationKeyFreeze], `"user":"hans"`)

	unfreeze := b.get(path("unfreeze"))
	shows(t, unfreeze, "It is frozen by hans since 2026-01-05T10:00:00Z (incident 4711)")
	s.Annotate(shopPath, v1alpha1.AnnotationKeyFreeze, `{"user":"alice","message":"another one"}`)
	stale := b.send(path("unfreeze"), filled(unfreeze.body, nil), nil)
	assert.Equal(t, http.StatusConflict, stale.code)
	assert.Contains(t, stale.body, "another one")
	assert.Contains(t, s.Annotations(shopPath)[v1alpha1.AnnotationKeyFreeze], "another one")
	shows(t, b.send(path("unfreeze"), filled(stale.body, nil), nil), "Unfrozen:")
	assert.NotContains(t, s.Annotations(shopPath), v1alpha1.AnnotationKeyFreeze)
	assert.Equal(t, http.StatusConflict, b.get(path("unfreeze")).code, "nothing to end")
	frozen := b.get(path("freeze"))
	assert.Equal(t, http.StatusUnprocessableEntity, b.send(path("freeze"), filled(frozen.body, nil), nil).code, "no reason")
}

// TestStale covers KR-17-03 and KR-17-16: another difference than was shown is not approved, but shown, and so is one that is over.
func TestStale(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	b := open(t, o)
	shown := b.get(b.change("approve"))
	s.Put(t, held(func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = "5000" }))
	stale := b.send(b.change("approve"), filled(shown.body, nil), nil)
	assert.Equal(t, http.StatusConflict, stale.code)
	assert.Contains(t, stale.body, "it has changed since it was shown to you")
	assert.Contains(t, stale.body, "5000")
	assert.Zero(t, s.Patches)
	s.Put(t, held(func(d *v1alpha1.Drift) {
		d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "the intent was reverted"
	}))
	over := b.send(b.change("approve"), filled(stale.body, nil), nil)
	assert.Equal(t, http.StatusConflict, over.code)
	assert.Contains(t, over.body, "the intent was reverted")
	shows(t, b.get(b.change("")), "It is over: the intent was reverted")
	assert.Zero(t, s.Patches)
}

// TestDestroys covers KR-17-02: what deletes is approved only where it is shown, and confirmed.
func TestDestroys(t *testing.T) {
	s, o, _ := newServer(t, held(func(d *v1alpha1.Drift) { d.Spec.Operation, d.Spec.Difference = "DELETE", nil }))
	b := open(t, o)
	shows(t, b.get(b.change("")), "It deletes or replaces", "Approve once")
	before, after := b.take(b.change("approve"), nil)
	shows(t, before, "I have read that it deletes")
	assert.Equal(t, http.StatusUnprocessableEntity, after.code)
	assert.Zero(t, s.Patches)
	shows(t, b.send(b.change("approve"), filled(after.body, url.Values{"opened": {"yes"}}), nil), "Approved.")
	s.Put(t, held(func(d *v1alpha1.Drift) { d.Spec.Difference[0].Path = "status.plan.pending" }))
	plan := b.get(b.change(""))
	shows(t, plan, "It is not approved on this page", "kubectl kausality approve -n team "+heldID)
	assert.Equal(t, http.StatusConflict, b.get(b.change("approve")).code)
}

// TestRefused covers KR-17-17 and KR-17-16: a user without the right is informed which, and incomplete forms do nothing.
func TestRefused(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	b := open(t, o)
	_, after := b.take(b.change("reject"), url.Values{"reason": {"   "}})
	assert.Equal(t, http.StatusUnprocessableEntity, after.code)
	_, after = b.take(b.change("snooze"), url.Values{"until": {"forever"}})
	assert.Equal(t, http.StatusUnprocessableEntity, after.code)
	s.Mu.Lock()
	s.Forbidden = func(method, _ string) bool { return method == http.MethodPatch }
	s.Mu.Unlock()
	_, after = b.take(b.change("reject"), url.Values{"reason": {"not before the audit"}})
	assert.Equal(t, http.StatusForbidden, after.code)
	assert.Contains(t, after.body, "the verb approve on its subresource approval")
	assert.Contains(t, after.body, ">not before the audit</textarea>", "what was entered is kept")
	assert.Zero(t, s.Patches)
	for _, action := range []string{"open", "freeze", "explode", strings.Repeat("x", 100)} {
		assert.Equal(t, http.StatusConflict, b.get(b.change(action)).code, action)
	}
}
