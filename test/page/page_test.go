package page

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestNewcomer covers KR-17-12 and KR-17-17: a user who sees the page for the first time finds what waits, its cause and its difference, approves
// exactly that, and sees it reach the cloud. Another change of the same cause still waits.
func TestNewcomer(t *testing.T) {
	s := newFixture(t, "pagenewcomer")
	s.settled("orders", "invoices")
	s.revision("pagenewcomer-7f3")
	s.refused("pagenewcomer-7f3", "gold", "orders", "invoices")
	b := look(t, hans)
	b.reloads("pagenewcomer-7f3", "2 changes", alice, `"bronze" → "gold"`)
	b.click("pagenewcomer-7f3")
	b.awaits("Database pagenewcomer/pagenewcomer-orders", "Database pagenewcomer/pagenewcomer-invoices")
	b.click("pagenewcomer-orders")
	b.awaits("spec.forProvider.tags.tier", `"bronze"`, `"gold"`, "No votes.", "XStore pagenewcomer/orders", hans,
		"External resource pagenewcomer-orders", "gate closed")
	b.click("Approve once")
	b.awaits("What it will do", "Exactly the difference below may pass, once.", "annotation kausality.io/approve-", "of XStore pagenewcomer/orders")
	assert.NotContains(t, s.annotations("orders"), v1alpha1.AnnotationKeyApprovePrefix, "nothing is written before it is confirmed")
	b.click("Approve once")
	b.awaits("Approved.")
	s.passes("pagenewcomer-7f3", "gold", "orders")
	b.reloads("It is over")
	assert.Equal(t, "bronze", s.tier("invoices"))
	s.refused("pagenewcomer-7f3", "gold", "invoices")
	mr, err := s.of(s.hans, databases).Get(t.Context(), s.mrName("orders"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Contains(t, mr.GetAnnotations()[v1alpha1.AnnotationKeyTrace], hans, "the trace names who approved it")
	b.click("The cause")
	b.reloads("1 change", "pagenewcomer-invoices")
	b.without("pagenewcomer-orders")
}

// TestLive covers KR-17-18: an open page shows a change that is held, and that it is over, without being loaded by the user, and keeps the focus.
func TestLive(t *testing.T) {
	s := newFixture(t, "live")
	s.settled("orders")
	s.refused("live-7f3", "gold", "orders")
	b := look(t, hans)
	b.reloads("live-7f3")
	b.click("live-7f3")
	b.awaits("live-orders", "Live")
	document := b.document()
	b.eval(`(() => { [...document.querySelectorAll("main a")].find(e => e.textContent.includes("live-orders")).focus(); })()`, nil)
	s.refused("live-7f3", "platinum", "orders")
	b.awaits("gold", "platinum")
	assert.Contains(t, b.focused().Text, "live-orders", "the focus is kept")
	assert.Equal(t, document, b.document(), "the user has loaded nothing") //nolint:testifylint // It is an identity.
}

// TestReject covers KR-17-17: a change is rejected with a reason, which Crossplane is answered, and that is withdrawn.
func TestReject(t *testing.T) {
	s := newFixture(t, "pagereject")
	s.settled("orders")
	s.refused("pagereject-7f3", "gold", "orders")
	b := look(t, hans)
	b.reloads("pagereject-7f3")
	b.click("pagereject-7f3")
	b.click("pagereject-orders")
	b.click("Reject")
	b.awaits("are refused, with your reason", "annotation kausality.io/rejections of XStore pagereject/orders")
	b.enter("not before the audit is over")
	b.click("Reject")
	b.awaits("Rejected.", "not before the audit is over")
	wait.For(t, "Crossplane to be refused with the reason", wait.Patience, func(ctx context.Context) error {
		if err := s.compose(ctx, "orders", "pagereject-7f3", "gold"); err == nil || !strings.Contains(err.Error(), "not before the audit is over") {
			return fmt.Errorf("the refusal is: %w", err)
		}
		return nil
	})
	b.reloads("Withdraw")
	b.click("Withdraw")
	b.awaits("All rejections of Database pagereject/pagereject-orders")
	b.click("Withdraw")
	b.awaits("Withdrawn.")
	assert.NotContains(t, s.annotations("orders"), v1alpha1.AnnotationKeyRejections)
	assert.Equal(t, "bronze", s.tier("orders"))
}

// TestVotes covers KR-17-12 and KR-17-17: an ApprovalRule requires two votes. Each user votes on a page of their own, and the second vote completes it.
func TestVotes(t *testing.T) {
	s := newFixture(t, "pagevotes")
	rule := `{apiVersion: kausality.io/v1alpha1, kind: ApprovalRule, metadata: {name: pagevotes}, spec: {match: {namespaces: [pagevotes]}, require: [{count: 2}]}}`
	require.NoError(t, the.Apply(t.Context(), []byte(rule)))
	s.settled("orders")
	wait.For(t, "the rule to be in force", wait.Patience, func(ctx context.Context) error {
		if err := s.compose(ctx, "orders", "pagevotes-7f3", "gold"); err == nil || !strings.Contains(err.Error(), "0 of 2 approvals") {
			return fmt.Errorf("the refusal is: %w", err)
		}
		return nil
	})
	vote := func(user, missing, outcome string) *tab {
		t.Helper()
		b := look(t, user)
		b.reloads("pagevotes-7f3", missing)
		b.click("pagevotes-7f3")
		b.click("pagevotes-orders")
		b.click("Approve once")
		b.awaits("It is your vote. Missing so far: " + missing)
		b.click("Approve once")
		b.awaits("Approved. " + outcome)
		return b
	}
	first := vote(hans, "0 of 2 approvals", "The vote counts: 1 of 2 approvals")
	s.refused("pagevotes-7f3", "gold", "orders")
	first.reloads(hans+", ", "by page", "1 of 2 approvals")
	vote(anna, "1 of 2 approvals", "The change is allowed.")
	s.passes("pagevotes-7f3", "gold", "orders")
	first.reloads("It is over")
}

// TestKeyboard covers KR-17-12: all of it takes the keyboard alone, and the element with the focus is marked.
func TestKeyboard(t *testing.T) {
	s := newFixture(t, "keyboard")
	s.settled("orders")
	s.refused("keyboard-7f3", "gold", "orders")
	b := look(t, hans)
	b.reloads("keyboard-7f3")
	b.run(chromedp.KeyEvent(kb.Tab))
	assert.Equal(t, "Skip to the content", b.focused().Text)
	for _, text := range []string{"keyboard-7f3", "keyboard-orders", "Approve once", "Approve once"} {
		b.press(text)
	}
	b.awaits("Approved.")
	s.passes("keyboard-7f3", "gold", "orders")
}

// focus is the element with the focus.
type focus struct {
	Text    string
	Visible bool
}

func (b *tab) focused() (f focus) {
	b.t.Helper()
	b.eval(`(() => { const e = document.activeElement, s = getComputedStyle(e);
		return {Text: e.textContent.trim(), Visible: e === document.body || s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2}; })()`, &f)
	return f
}

// press Tab until a link or button with a text has the focus, and Enter.
func (b *tab) press(text string) {
	b.t.Helper()
	before := b.document()
	for range 80 {
		b.run(chromedp.KeyEvent(kb.Tab))
		f := b.focused()
		assert.True(b.t, f.Visible, "the focus on %q is not visible", f.Text)
		if strings.Contains(f.Text, text) && len(f.Text) < 300 {
			b.run(chromedp.KeyEvent(kb.Enter))
			b.leaves(before)
			return
		}
	}
	b.t.Fatalf("Tab does not reach %q: %v", text, b.lacks([]string{text}))
}

// TestWithoutScript covers KR-17-12: without JavaScript, what was changed in the cloud is found and approved, and the cloud has the wanted value again.
func TestWithoutScript(t *testing.T) {
	s := newFixture(t, "plain")
	s.settled("orders")
	s.changeOutside("orders", 9)
	s.drift("orders")
	b := newTab(t, 0)
	b.withoutScript()
	b.goTo(serve(t, hans))
	b.awaits("What waits", "Leave")
	b.reloads("plain-orders")
	b.click("external")
	b.click("plain-orders")
	b.awaits("spec.forProvider.size", "9", "20")
	b.click("Approve once")
	b.awaits("The provider then overwrites what was changed in the external system.")
	b.click("Approve once")
	b.awaits("Approved.")
	wait.For(t, "the cloud to have the size again", 2*wait.Patience, func(ctx context.Context) error {
		is, err := the.cloud.Get(ctx, s.mrName("orders"))
		if err == nil && is.Size != 20 {
			err = fmt.Errorf("its size is %d", is.Size)
		}
		return err
	})
	b.reloads("It is over")
}
