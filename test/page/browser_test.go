package page

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// soon is enough for a page to arrive.
const soon = 10 * time.Second

// chromium is the path of the program; empty where the machine has none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// startBrowser starts Chromium, and returns what ends it.
func (l *environment) startBrowser(ctx context.Context, program string) (end func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WSURLReadTimeout(time.Minute))
	processes, cancel := chromedp.NewExecAllocator(ctx, options...)
	browser, _ := chromedp.NewContext(processes)
	if err := chromedp.Run(browser); err != nil {
		cancel()
		return nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	l.browser = browser
	return func() {
		if err := chromedp.Cancel(browser); err != nil {
			fmt.Fprintln(os.Stderr, "cannot end Chromium:", err)
		}
		cancel()
	}, nil
}

// pages are numbered, since each is a process with a name.
var pages atomic.Int64

// serve the page of a user by kubectl kausality ui, and return the URL that it prints.
func serve(t *testing.T, user string) (url string) {
	t.Helper()
	name := fmt.Sprintf("ui-%d", pages.Add(1))
	cmd := exec.Command(the.bins[parts.KubectlKausality], "--kubeconfig="+the.kubeconfigs[user], "ui", "--no-browser")
	cmd.Env = append(os.Environ(), "HOME="+the.Dir())
	p, err := the.Run(context.Background(), name, cmd)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	wait.For(t, "kubectl kausality ui to print its URL", wait.Patience, func(context.Context) error {
		out, err := os.ReadFile(filepath.Join(the.Dir(), "logs", name+".log"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "http://127.0.0.1:") {
				url = line
				return nil
			}
		}
		return errors.Join(p.Err(), fmt.Errorf("it has printed %q", out))
	})
	return url
}

// tab of a browser that has no cookies of others.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // A tab of chromedp is a context.
}

// newTab of a size, as of a desktop where it is 0.
func newTab(t *testing.T, width int64) *tab {
	t.Helper()
	if width == 0 {
		width = 1100
	}
	// A window of its own: without one, Chromium opens no tab with cookies of its own (chromedp.WithNewBrowserContext opens none).
	browser := cdp.WithExecutor(the.browser, chromedp.FromContext(the.browser).Browser)
	cookies, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(browser)
	require.NoError(t, err)
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(cookies).WithNewWindow(true).Do(browser)
	require.NoError(t, err)
	ctx, cancel := chromedp.NewContext(the.browser, chromedp.WithTargetID(id))
	t.Cleanup(func() {
		cancel()
		if err := target.DisposeBrowserContext(cookies).Do(browser); err != nil {
			t.Errorf("cannot close the window: %v", err)
		}
	})
	b := &tab{t: t, ctx: ctx}
	// The first Run is without a bound: the tab ends with its context. Each window has the focus, as that of a user.
	require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(width, 844), emulation.SetFocusEmulationEnabled(true)))
	return b
}

// look at the page of a user.
func look(t *testing.T, user string) *tab {
	t.Helper()
	b := newTab(t, 0)
	b.goTo(serve(t, user))
	b.awaits("What waits", "Leave")
	return b
}

// try actions, within a bound. The error may be that the browser is going on to another document meanwhile.
func (b *tab) try(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(b.ctx, wait.Patience)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// run actions that have to succeed.
func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, b.try(actions...))
}

// eval an expression of JavaScript.
func (b *tab) eval(expression string, into any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, into))
}

// goTo a URL.
func (b *tab) goTo(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url))
}

// text that the page shows.
func (b *tab) text() (text string, err error) {
	err = b.try(chromedp.Evaluate(`document.readyState === "loading" || !document.body ? "" : document.body.innerText`, &text))
	return text, err
}

// awaits texts on the page as it is, for as long as it takes to arrive.
func (b *tab) awaits(want ...string) {
	b.t.Helper()
	wait.For(b.t, fmt.Sprintf("the page to show %q", want), soon, func(context.Context) error { return b.lacks(want) })
}

// reloads until the page shows texts: what it lists is read every few seconds.
func (b *tab) reloads(want ...string) {
	b.t.Helper()
	wait.For(b.t, fmt.Sprintf("the page to show %q", want), wait.Patience, func(context.Context) error {
		return errors.Join(b.try(chromedp.Reload()), b.lacks(want))
	})
}

// lacks is an error that names a text which the page does not show; nil for none.
func (b *tab) lacks(want []string) error {
	text, err := b.text()
	if err != nil {
		return err
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			return fmt.Errorf("there is no %q in:\n%s", w, text)
		}
	}
	return nil
}

// without: the page does not show a text.
func (b *tab) without(unwanted string) {
	b.t.Helper()
	text, err := b.text()
	require.NoError(b.t, err)
	assert.NotContains(b.t, text, unwanted)
}

// document identifies the document that is shown: another one has another value.
func (b *tab) document() (origin float64) {
	b.t.Helper()
	b.eval(`performance.timeOrigin`, &origin)
	return origin
}

// leaves waits until the tab shows another document than one.
func (b *tab) leaves(document float64) {
	b.t.Helper()
	wait.For(b.t, "the browser to go on", wait.Patience, func(context.Context) error {
		now := struct {
			Origin float64
			Ready  bool
		}{}
		if err := b.try(chromedp.Evaluate(`({Origin: performance.timeOrigin, Ready: document.readyState === "complete"})`, &now)); err != nil {
			return err
		}
		if now.Origin == document || !now.Ready {
			return fmt.Errorf("it shows the same document, or is not loaded: %w", b.lacks([]string{"anything else"}))
		}
		return nil
	})
}

// click on the first link or button with a text, which has to be where a mouse can reach it. It is found and clicked at once: a live page may change
// in between.
func (b *tab) click(text string) {
	b.t.Helper()
	found, before := "", b.document()
	b.eval(fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll("main a, main button, header button")].find(e => e.textContent.includes(%q));
		if (!e) return "there is none";
		e.scrollIntoView({block: "center", behavior: "instant"});
		const r = e.getClientRects()[0], at = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
		if (!at || !e.contains(at)) return "it is covered";
		e.click();
		return "";
	})()`, text), &found)
	if found != "" {
		b.t.Fatalf("a link or button %q cannot be clicked: %s: %v", text, found, b.lacks([]string{text}))
	}
	b.leaves(before)
}

// enter a reason.
func (b *tab) enter(reason string) {
	b.t.Helper()
	b.run(chromedp.SendKeys("#reason", reason, chromedp.ByQuery))
}

// withoutScript from now on: the browser runs no JavaScript of pages.
func (b *tab) withoutScript() {
	b.t.Helper()
	b.run(emulation.SetScriptExecutionDisabled(true))
}
