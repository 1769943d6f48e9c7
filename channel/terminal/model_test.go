package terminal

import (
	"net/http"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
)

// TestScreens covers KR-17-20: what is shown of causes, a cause, a change, an object and a confirmation, in two sizes.
func TestScreens(t *testing.T) {
	for _, size := range []struct {
		name          string
		width, height int
	}{{"80x24", 80, 24}, {"200x60", 200, 60}, {"40x12", 40, 12}} {
		t.Run(size.name, func(t *testing.T) {
			_, o, _ := viewtest.New(t, viewtest.Held(waiting))
			d := drive(t, o, size.width, size.height)
			at := func(name string) { golden(t, size.name+"/"+name, d.screen()) }
			at("causes")
			d.keys("enter")
			at("cause")
			d.keys("G", "enter")
			at("change")
			d.keys("G")
			at("change-end")
			d.keys("a")
			at("approve")
			d.keys("esc", "r")
			at("reject")
			d.keys("esc", "s")
			at("snooze")
			d.keys("esc", "?")
			at("help")
			d.keys("esc", "c")
			at("coverage")
			require.False(t, d.quit)
			d.keys("q")
			assert.True(t, d.quit)
		})
	}
}

// TestDecide covers KR-17-23: what a decision writes is shown before it is written, and it is written as it was shown.
func TestDecide(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	d := drive(t, o, 100, 40)
	key := v1alpha1.AnnotationKeyApprovePrefix + viewtest.HeldID
	d.keys("enter", "enter", "a").shows("Approve once: change Database team/orders-db", "What it will do", "Exactly the difference below may pass, once.",
		"Written as you", "annotation "+key+" of Shop team/orders: once", "Difference", "spec.forProvider.size", "Enter Approve once")
	assert.NotContains(t, s.Annotations(viewtest.ShopPath), key)
	d.keys("esc").shows("[a] Approve once")
	assert.NotContains(t, s.Annotations(viewtest.ShopPath), key, "nothing was confirmed")
	d.keys("a", "enter").shows("Approved.")
	assert.Equal(t, "once", s.Annotations(viewtest.ShopPath)[key])
	assert.Equal(t, FieldManager, s.Manager)

	d.keys("r", "enter").shows("Nothing was done. Enter a reason.")
	d.typed("not before the audit").keys("enter").shows("Rejected.", "rejected on Shop team/orders: not before the audit")
	assert.Contains(t, s.Annotations(viewtest.ShopPath)[v1alpha1.AnnotationKeyRejections], "not before the audit")
	d.keys("w", "enter").shows("Withdrawn.")

	d.keys("s").shows("for 1 hour", "for 8 hours", "until Monday")
	d.keys("right", "enter").shows("Snoozed.", "snoozed until 2026-01-05T18:00:00Z by hans")
}

// TestFreeze covers KR-17-23 for an object: it is frozen with a reason, and unfrozen.
func TestFreeze(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	all := Options{Options: o, Cluster: "prod", Open: &viewtest.Held(nil).Spec.Parent}
	all.complete()
	d := drive(t, o, 100, 40)
	d.m.o = all
	d.run(d.m.open(toObject(*all.Open)))
	d.shows("Shop team/orders", "Waits", "change Database team/orders-db", "[f] Freeze")
	d.keys("f").shows("All changes below Shop team/orders are refused", "annotation kausality.io/freeze of Shop team/orders: {")
	d.typed("incident 4712").keys("enter").shows("Frozen:", "incident 4712", "[u] Unfreeze")
	assert.Contains(t, s.Annotations(viewtest.ShopPath)[v1alpha1.AnnotationKeyFreeze], "incident 4712")
	d.keys("u").shows("It is frozen by hans", "which is removed")
	d.keys("enter").shows("Unfrozen:", "[f] Freeze")
	assert.NotContains(t, s.Annotations(viewtest.ShopPath), v1alpha1.AnnotationKeyFreeze)
}

// TestStale covers KR-17-23 and KR-17-03: what has changed since it was shown is not approved, but shown; what is over is not approved either.
func TestStale(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	d := drive(t, o, 100, 40)
	d.keys("enter", "enter", "a").shows("50")
	s.Put(t, viewtest.Held(func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = "70" }))
	d.keys("enter").shows("Nothing was done: it has changed since it was shown to you.", "Look at it, and decide again.", "70")
	assert.Zero(t, s.Patches)
	s.Put(t, viewtest.Held(func(d *v1alpha1.Drift) {
		d.Spec.Difference[0].New = "70"
		d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "Approved"
	}))
	d.keys("enter").shows("It is over", "Nothing was done.")
	assert.Zero(t, s.Patches)
	d.keys("esc").shows("It is over: Approved")
}

// TestDestroys covers KR-17-02: what deletes is approved where its whole difference was shown, and that was confirmed in a word.
func TestDestroys(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(func(d *v1alpha1.Drift) { d.Spec.Operation, d.Spec.Difference = "DELETE", nil }))
	d := drive(t, o, 100, 40)
	d.keys("enter", "enter").shows("It deletes or replaces the object", "[a] Approve once")
	d.keys("a", "enter").shows("Confirm that it deletes or replaces something.")
	d.typed("y").keys("enter").shows("Confirm that it deletes or replaces something.")
	assert.Zero(t, s.Patches)
	d.typed("yes").keys("enter").shows("Approved.")
}

// TestAway covers KR-17-22: an API server that goes away is shown with since when, what was known stays, and it is live again by itself.
func TestAway(t *testing.T) {
	s, o, clock := viewtest.New(t, viewtest.Held(nil))
	d := drive(t, o, 100, 40)
	d.keys("enter", "enter", "a")
	s.SetAway(true)
	clock.Move(10e9)
	d.list()
	d.shows("not connected since 10:00:10Z, retrying", "The API server does not answer.", "Approve once")
	d.keys("enter").shows("Nothing was written, and what you have entered is still here")
	d.keys("esc", "esc").shows("change Database team/orders-db")
	s.SetAway(false)
	clock.Move(10e9)
	d.list()
	assert.NotContains(t, d.screen(), "not connected")
	d.keys("enter", "a", "enter").shows("Approved.")
}

// TestUnread covers KR-17-22: what the user may not read is shown as such.
func TestUnread(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	s.Forbidden = func(_, path string) bool { return path == viewtest.ShopPath || path == viewtest.DatabasePath }
	d := drive(t, o, 100, 40)
	d.shows("Not read", "Whether changes are rejected, frozen or snoozed is unknown where the parent cannot be read")
	d.keys("enter", "enter").shows("The object is not shown", "The parent is not shown")
	s.Mu.Lock()
	s.Forbidden = func(method, _ string) bool { return method == http.MethodPatch }
	s.Mu.Unlock()
	d.keys("R", "a", "enter").shows("Nothing was done: you may not do that", "verbs get and patch")
}

// TestForbidden covers KR-17-24: without the right to list changes it ends with the error of the cluster.
func TestForbidden(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	s.Forbidden = func(_, path string) bool { return strings.Contains(path, "drifts") || path == "v1/namespaces" }
	d := drive(t, o, 100, 40)
	assert.True(t, d.quit)
	require.ErrorContains(t, d.m.ended, "kausality-viewer grants that")
}

// TestFilter covers KR-17-20: a list is filtered by what its changes are about.
func TestFilter(t *testing.T) {
	_, o, _ := viewtest.New(t, viewtest.Held(nil), viewtest.Held(func(d *v1alpha1.Drift) {
		d.Name, d.Spec.ID, d.Spec.Child.Name = "00000000000000aa", "00000000000000aa", "bills"
	}))
	d := drive(t, o, 100, 40).keys("enter").shows("bills", "orders-db")
	d.keys("/").typed("bill").shows("bills", "Filter: bill").keys("enter")
	assert.NotContains(t, d.screen(), "team/orders-db")
	d.keys("enter").shows("change Database team/bills").keys("esc")
	d.keys("/", "esc").shows("bills", "orders-db")
}

// TestKept covers KR-17-22: a screen that is read again stays where it was scrolled to, and what was selected stays so.
func TestKept(t *testing.T) {
	_, o, _ := viewtest.New(t, viewtest.Held(waiting))
	for _, keys := range [][]string{{"G"}, {"j", "j", "j"}, strings.Split("jjjjjjjjjjjjjj", ""), {"pgdown"}, {"pgdown", "pgdown", "k"}} {
		d := drive(t, o, 80, 20).keys("enter", "G", "enter")
		before := d.keys(keys...).screen()
		for range 3 {
			d.run(d.m.load(d.m.top()))
			d.list()
			assert.Equal(t, before, d.screen(), keys)
		}
	}
}

// TestMouse covers KR-17-20: where it is chosen, the wheel scrolls, a click selects, and another one opens.
func TestMouse(t *testing.T) {
	_, o, _ := viewtest.New(t, viewtest.Held(waiting))
	d := drive(t, o, 80, 14)
	assert.Equal(t, tea.MouseModeNone, d.m.View().MouseMode)
	d.m.o.Mouse = true
	assert.Equal(t, tea.MouseModeCellMotion, d.m.View().MouseMode)
	click := func(text string) {
		t.Helper()
		for y, row := range strings.Split(d.screen(), "\n") {
			if strings.Contains(row, text) {
				d.send(tea.MouseClickMsg{X: 4, Y: y, Button: tea.MouseLeft})
				return
			}
		}
		require.Fail(t, "it is not on the screen", d.screen())
	}
	click("Composition revision")
	d.shows("What waits > Cause").keys("G")
	click("change Database team/orders-db")
	d.shows("What waits > Change", "> The cause")
	click("Freeze or unfreeze")
	d.shows("> Freeze or unfreeze").send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	assert.NotContains(t, d.screen(), "cause: composition", "it has scrolled")
	d.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	click("Freeze or unfreeze")
	d.shows("What waits > Object", "Shop team/orders")
}

// TestSmall covers KR-17-24: a terminal that is made too small shows that alone, and works again when it is large enough.
func TestSmall(t *testing.T) {
	require.Error(t, Small(39, 24))
	require.Error(t, Small(80, 9))
	require.NoError(t, Small(MinWidth, minHeight))
	_, o, _ := viewtest.New(t, viewtest.Held(nil))
	d := drive(t, o, 20, 5)
	assert.Contains(t, d.m.View().Content, "the terminal has")
	d.m.width, d.m.height = 80, 24
	d.shows("Composition revision shops-7f3")
}
