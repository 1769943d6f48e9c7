package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

const (
	// phone is the width of a phone in CSS pixels.
	phone = 390
	// maxImage of a screenshot in bytes.
	maxImage = 150 << 10
)

// screenshots of pages, by the name of the page and how it is shown.
var screenshots = map[string]string{
	"first/light": "page-first.png", "change/light": "page-change.png", "confirm/dark": "page-confirm.png", "change/phone": "page-phone.png",
}

// TestLook covers KR-17-12: each page fits a phone, and has no violation of WCAG 2.2 AA that axe-core finds, in dark and in light.
func TestLook(t *testing.T) {
	s := newFixture(t, "shop")
	s.settled("orders", "invoices")
	s.revision("xstores-7f3")
	s.refused("xstores-7f3", "gold", "orders", "invoices")
	b := look(t, hans)
	b.reloads("xstores-7f3", "2 changes")
	check := axe(t)
	b.shown(check, "first")
	b.click("xstores-7f3")
	b.shown(check, "cause")
	b.click("shop-orders")
	b.shown(check, "change")
	change := b.address()
	for _, action := range []string{"Approve once", "Reject", "Snooze"} {
		b.click(action)
		b.shown(check, map[string]string{"Approve once": "confirm"}[action])
		b.goTo(change)
	}
	b.click("Freeze or unfreeze")
	b.shown(check, "object")
	b.click("Freeze")
	b.shown(check, "freeze")
	b.goTo(strings.Replace(change, "/change/", "/change/x", 1))
	b.awaits("There is no such change")
	b.shown(check, "state")
	b.click("Leave")
	b.shown(check, "left")
}

// address of the page.
func (b *tab) address() (url string) {
	b.t.Helper()
	b.eval(`location.href`, &url)
	return url
}

// shown checks a page in each form: it fits, and axe-core finds nothing. With -update it writes the screenshots.
func (b *tab) shown(check func(b *tab, form string), page string) {
	b.t.Helper()
	for _, form := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1100}, {"dark", "dark", 1100}, {"phone", "light", phone}, {"dark phone", "dark", phone}} {
		b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: form.scheme}}),
			chromedp.EmulateViewport(form.width, 844))
		var wide struct{ Content, Window int }
		b.eval(`({Content: document.documentElement.scrollWidth, Window: window.innerWidth})`, &wide)
		assert.LessOrEqual(b.t, wide.Content, wide.Window, "page %s, %s: it is wider than the window", page, form.name)
		var back string
		b.eval(`getComputedStyle(document.body).backgroundColor`, &back)
		assert.Equal(b.t, form.scheme == "light", back == "rgb(255, 255, 255)", "page %s, %s: its background is %s", page, form.name, back)
		check(b, fmt.Sprintf("page %s, %s", page, form.name))
		if file := screenshots[page+"/"+form.name]; file != "" {
			b.screenshot(file)
		}
	}
	b.run(chromedp.EmulateViewport(1100, 844))
}

// screenshot of the page in docs/images: written with -update; otherwise there is one.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	root, err := parts.Root()
	require.NoError(b.t, err)
	file := filepath.Join(root, "docs", "images", name)
	if *update {
		var raw []byte
		b.run(chromedp.FullScreenshot(&raw, 100))
		require.NoError(b.t, os.WriteFile(file, raw, 0o644)) //nolint:gosec // It is committed and public.
	}
	info, err := os.Stat(file)
	require.NoError(b.t, err, "to write it: go test -C test ./page -run TestLook -args -update")
	assert.Less(b.t, info.Size(), int64(maxImage), name)
}
