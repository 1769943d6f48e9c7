package page

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestStale covers KR-17-16 and KR-17-17: between the page and the click Crossplane wants another value, which is not approved with what was shown;
// and a change is over, which is shown, and nothing is written.
func TestStale(t *testing.T) {
	s := newFixture(t, "stale")
	s.settled("orders")
	s.refused("stale-7f3", "gold", "orders")
	b := look(t, hans)
	b.reloads("stale-7f3")
	b.click("stale-7f3")
	b.click("gold")
	b.click("Approve once")
	b.awaits(`"gold"`)
	s.refused("stale-7f3", "platinum", "orders")
	b.click("Approve once")
	b.awaits("Approved.")
	s.refused("stale-7f3", "platinum", "orders")
	assert.Equal(t, "bronze", s.tier("orders"))

	b.click("The cause")
	b.reloads("platinum")
	b.click("platinum")
	id := path.Base(strings.Split(b.address(), "?")[0])
	b.click("Approve once")
	b.awaits(`"platinum"`, v1alpha1.AnnotationKeyApprovePrefix+id)
	s.annotate(anna, v1alpha1.AnnotationKeyApprovePrefix+id, "once")
	s.passes("stale-7f3", "platinum", "orders")
	wait.For(t, "the change to be over", wait.Patience, func(ctx context.Context) error {
		d, err := s.of(s.hans, drifts).Get(ctx, id, metav1.GetOptions{})
		if err == nil && fmt.Sprint(d.Object["status"].(map[string]any)["phase"]) != string(v1alpha1.DriftResolved) {
			return fmt.Errorf("it is %v", d.Object["status"])
		}
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	b.click("Approve once")
	b.awaits("It is over")
	assert.NotContains(t, s.annotations("orders"), v1alpha1.AnnotationKeyApprovePrefix+id)
}

// annotate the XR orders as a user.
func (s *fixture) annotate(user, key, value string) {
	s.t.Helper()
	c, err := the.as(user)
	require.NoError(s.t, err)
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	require.NoError(s.t, err)
	_, err = s.of(c, xstores).Patch(s.t.Context(), "orders", types.MergePatchType, raw, metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// TestOtherFreeze covers KR-17-17: another user freezes an object between the page and the click. That freeze is shown, and is kept.
func TestOtherFreeze(t *testing.T) {
	s := newFixture(t, "frozen")
	s.settled("orders")
	s.refused("frozen-7f3", "gold", "orders")
	b := look(t, hans)
	b.reloads("frozen-7f3")
	b.click("frozen-7f3")
	b.click("frozen-orders")
	b.click("Freeze or unfreeze")
	b.click("Freeze")
	b.awaits("All changes below XStore frozen/orders are refused", "annotation kausality.io/freeze of XStore frozen/orders")
	s.annotate(anna, v1alpha1.AnnotationKeyFreeze, `{"user":"`+anna+`","message":"incident 4711"}`)
	b.enter("audit")
	b.click("Freeze")
	b.awaits("its freeze has changed since it was shown to you", "It is frozen by "+anna, "incident 4711")
	assert.NotContains(t, s.annotations("orders"), "audit")
	b.click("Unfreeze")
	b.awaits("Unfrozen: ")
	assert.NotContains(t, s.annotations("orders"), v1alpha1.AnnotationKeyFreeze+"=")
}

// TestUsedLink covers KR-17-13: a link is good once, for the browser that opened it. The session ends with Leave.
func TestUsedLink(t *testing.T) {
	newFixture(t, "link")
	url := serve(t, hans)
	b := newTab(t, 0)
	b.goTo(url)
	b.awaits("What waits", "Leave")
	other := newTab(t, 0)
	other.goTo(url)
	other.awaits("This link is no longer good")
	other.without("Leave")
	other.goTo(url[:strings.Index(url, "enter?")])
	other.awaits("Your session has ended")
	b.goTo(url)
	b.awaits("What waits", "Leave")
	b.click("Leave")
	b.awaits("You have left")
	b.goTo(url)
	b.awaits("This link is no longer good")
}

// TestHostile covers KR-17-14: a name and a value with markup are text, and a value of 1 MB is cut.
func TestHostile(t *testing.T) {
	const markup = `<script>document.title="owned"</script><img src=x onerror="document.title='owned'">`
	s := newFixture(t, "pagehostile")
	var err error
	s.hans, err = the.as(markup)
	require.NoError(t, err)
	s.settled("orders")
	s.revision("pagehostile-7f3")
	s.refused("pagehostile-7f3", "</pre>"+markup+strings.Repeat("x", 1_000_000), "orders")
	b := look(t, hans)
	b.reloads("pagehostile-7f3")
	unharmed := func() {
		t.Helper()
		var title string
		if b.eval(`document.title`, &title); strings.Contains(title, "owned") {
			t.Errorf("a value was run: the title is %q", title)
		}
		var all struct{ Scripts, Images, Bytes int }
		b.eval(`({Scripts: [...document.scripts].filter(e => !e.src).length, Images: document.images.length,
			Bytes: document.documentElement.outerHTML.length})`, &all)
		assert.Zero(t, all.Scripts, "scripts")
		assert.Zero(t, all.Images, "images")
		assert.Less(t, all.Bytes, 100_000)
	}
	unharmed()
	b.click("pagehostile-7f3")
	unharmed()
	b.click("pagehostile-orders")
	b.awaits(markup, "script", "document.title=")
	unharmed()
	b.click("Approve once")
	b.awaits("What it will do")
	unharmed()
}
