package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestTUINewcomer covers KR-17-20, KR-17-22 and KR-17-23: a user who sees the terminal for the first time finds what waits, its cause and its difference,
// approves exactly that, and sees it reach the cloud; nothing is written before it is confirmed. Line by line the rest is approved.
func TestTUINewcomer(t *testing.T) {
	s := newTerminalFixture(t, "tuinewcomer")
	s.settled("orders", "invoices")
	s.revision("tuinewcomer-7f3")
	s.refused("tuinewcomer-7f3", "gold", "orders", "invoices")
	c := tui(t, the.kubeconfigs[hans], 80, 24)
	c.to("tuinewcomer-7f3").awaits("2 changes of 2 objects", alice, `"bronze" → "gold"`, "Changes", "tuinewcomer-")
	c.keys("/" + s.mrName("orders") + enter).awaits("> change Database tuinewcomer/tuinewcomer-orders").keys(enter)
	c.awaits("change Database tuinewcomer/tuinewcomer-orders", "spec.forProvider.tags.tier", "Wanted:", `"gold"`, "Stored:", `"bronze"`, "[a] Approve once")
	c.keys("G").awaits("XStore tuinewcomer/orders", "External resource tuinewcomer-orders", "gate closed")
	c.keys("a").awaits("What it will do", "Exactly the difference below may pass, once.", "Written as you", "annotation kausality.io/approve-",
		"of XStore tuinewcomer/orders: once")
	assert.NotContains(t, s.annotations("orders"), v1alpha1.AnnotationKeyApprovePrefix, "nothing is written before it is confirmed")
	c.keys(enter).awaits("Approved.")
	s.passes("tuinewcomer-7f3", "gold", "orders")
	c.keys("g").awaits("It is over") // it hears of that by itself
	assert.Equal(t, "bronze", s.tier("invoices"))
	mr, err := s.of(s.hans, databases).Get(t.Context(), s.mrName("orders"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Contains(t, mr.GetAnnotations()[v1alpha1.AnnotationKeyTrace], hans, "the trace names who approved it")
	assert.Contains(t, mr.GetAnnotations()[v1alpha1.AnnotationKeyTrace], `"terminal"`, "and by what")
	s.refused("tuinewcomer-7f3", "gold", "invoices")
	c.keys("q")
	assert.Equal(t, ended{}, c.ends())

	p := tui(t, the.kubeconfigs[hans], 200, 60, "--plain", "-n", s.ns, "xstore/invoices")
	p.awaits("XStore tuinewcomer/invoices", "1. change Database tuinewcomer/tuinewcomer-invoices", "q quit:").keys("1\r")
	p.awaits("a: Approve once", "q quit:").keys("a\r").awaits("Type yes to go on: Approve once").keys("yes\r").awaits("Approved.")
	assert.False(t, p.screen.IsAltScreen())
	s.passes("tuinewcomer-7f3", "gold", "invoices")
	p.keys("q\r")
	assert.Equal(t, ended{}, p.ends())
}

// TestTUIVotes covers KR-17-23: an ApprovalRule requires two votes; each user votes in a terminal of their own, and the second vote completes it.
func TestTUIVotes(t *testing.T) {
	s := newTerminalFixture(t, "tuivotes")
	rule := `{apiVersion: kausality.io/v1alpha1, kind: ApprovalRule, metadata: {name: tuivotes}, spec: {match: {namespaces: [tuivotes]}, require: [{count: 2}]}}`
	require.NoError(t, the.Apply(t.Context(), []byte(rule)))
	s.settled("orders")
	wait.For(t, "the rule to be in force", wait.Patience, func(ctx context.Context) error {
		if err := s.compose(ctx, "orders", "tuivotes-7f3", "gold"); err == nil || !strings.Contains(err.Error(), "0 of 2 approvals") {
			return fmt.Errorf("the refusal is: %w", err)
		}
		return nil
	})
	vote := func(user, missing, outcome string) *console {
		t.Helper()
		c := tui(t, the.kubeconfigs[user], 100, 40)
		c.to("tuivotes-7f3").awaits(missing).keys(enter).awaits("[a] Approve once").keys("a")
		c.awaits("It is your vote. Missing so far: "+missing, "Enter Approve once").keys(enter).awaits("Approved. " + outcome)
		return c
	}
	first := vote(hans, "0 of 2 approvals", "The vote counts")
	s.refused("tuivotes-7f3", "gold", "orders")
	first.awaits(hans+", ", "by terminal", "1 of 2 approvals")
	vote(anna, "1 of 2 approvals", "The change is allowed.")
	s.passes("tuivotes-7f3", "gold", "orders")
	first.awaits("It is over")
}

// TestTUIReject covers KR-17-23: a change is rejected with a reason, which Crossplane is answered, and that is withdrawn.
func TestTUIReject(t *testing.T) {
	s := newTerminalFixture(t, "tuireject")
	s.settled("orders")
	s.refused("tuireject-7f3", "gold", "orders")
	c := tui(t, the.kubeconfigs[hans], 100, 40, "--mouse")
	c.to("tuireject-7f3").keys(enter).awaits("[r] Reject").keys("r")
	c.awaits("are refused, with your reason", "annotation kausality.io/rejections of XStore tuireject/orders", "Reason:")
	c.keys(enter).awaits("Nothing was done. Enter a reason.")
	c.keys("not before the audit is over"+enter).awaits("Rejected.", "not before the audit is over")
	wait.For(t, "Crossplane to be refused with the reason", wait.Patience, func(ctx context.Context) error {
		if err := s.compose(ctx, "orders", "tuireject-7f3", "gold"); err == nil || !strings.Contains(err.Error(), "not before the audit is over") {
			return fmt.Errorf("the refusal is: %w", err)
		}
		return nil
	})
	c.awaits("[w] Withdraw").keys("w").awaits("All rejections of Database tuireject/tuireject-orders", "which is removed").keys(enter).awaits("Withdrawn.")
	assert.NotContains(t, s.annotations("orders"), v1alpha1.AnnotationKeyRejections)
	assert.Equal(t, "bronze", s.tier("orders"))
}

// TestTUIHostile covers KR-17-21: a user and a value of 1 MB with escape sequences and wide characters are text, and the difference scrolls to its end.
func TestTUIHostile(t *testing.T) {
	const sequences = "\x1b]0;owned\x07\x1b[31m\x1b[?1002h\u202e漢字 "
	s := newTerminalFixture(t, "tuihostile")
	var err error
	s.hans, err = the.as("\u202e漢字 user") // a header has no control characters
	require.NoError(t, err)
	s.settled("orders")
	s.refused("tuihostile-7f3", sequences+strings.Repeat("漢字x", 140_000), "orders")
	c := tui(t, the.kubeconfigs[hans], 80, 40)
	c.to("tuihostile-7f3").keys("G"+enter).awaits("Difference", "]0;owned", "[31m", "[?1002h漢字", "[a] Approve once")
	c.keys("G").awaits("漢字 user", "XStore tuihostile/orders", "Time line")
	c.keys("a").awaits("What it will do").keys(escape)
	assert.NotContains(t, c.written(), "owned\x07")
	assert.NotContains(t, c.written(), "\x1b[31m\x1b[?1002h")
	assert.NotContains(t, c.written(), "\u202e")
	c.awaits("[a] Approve once").keys("q")
	assert.Equal(t, ended{}, c.ends())
}

// road to the API server, which a test closes and opens again: connections are refused meanwhile.
type road struct {
	to string
	mu sync.Mutex
	at net.Listener
	on []net.Conn
}

// open the road at an address; it returns where it is.
func (r *road) open(t *testing.T, address string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	r.mu.Lock()
	r.at = l
	r.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.to)
			if err != nil {
				in.Close() //nolint:errcheck,gosec // Nothing was sent.
				continue
			}
			r.mu.Lock()
			r.on = append(r.on, in, out)
			r.mu.Unlock()
			go func() { _, _ = io.Copy(in, out) }() // until either is closed
			go func() { _, _ = io.Copy(out, in) }()
		}
	}()
	return l.Addr().String()
}

// close the road, and all connections.
func (r *road) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at.Close() //nolint:errcheck,gosec // It accepts nothing from then on.
	for _, c := range r.on {
		c.Close() //nolint:errcheck,gosec // It may be closed already.
	}
	r.on = nil
}

// TestTUIAway covers KR-17-22: an API server that goes away is shown, with what was known, and what waits is live again when it is back.
func TestTUIAway(t *testing.T) {
	s := newTerminalFixture(t, "tuiaway")
	s.settled("orders")
	s.refused("tuiaway-7f3", "gold", "orders")
	config, err := clientcmd.LoadFromFile(the.kubeconfigs[hans])
	require.NoError(t, err)
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	r := &road{to: strings.TrimPrefix(cluster.Server, "https://")}
	address := r.open(t, "127.0.0.1:0")
	defer r.close()
	cluster.Server = "https://" + address
	file := the.kubeconfigs[hans] + "-tuiaway"
	require.NoError(t, clientcmd.WriteToFile(*config, file))

	c := tui(t, file, 100, 40)
	c.awaits("live").to("tuiaway-7f3")
	r.close()
	c.awaits("not connected since", "retrying", "The API server does not answer.", "tuiaway-7f3")
	c.keys(enter).awaits("The API server does not answer").keys(escape)
	r.open(t, address)
	s.refused("tuiaway-7f3", "platinum", "orders")
	c.awaits("live", `"bronze" → "platinum"`)
	assert.NotContains(t, c.text(), "not connected")
	c.keys("q")
	assert.Equal(t, ended{}, c.ends())
}

// withoutCRDs runs the terminal before the cluster serves Drifts.
func (l *environment) withoutCRDs(ctx context.Context) error {
	file, err := l.Kubeconfig("bare", "") // an administrator
	if err != nil {
		return err
	}
	c, err := newConsole(ctx, file, 80, 24)
	if err != nil {
		return err
	}
	l.bare, err = c.end()
	return err
}

// TestTUIRefused covers KR-17-24: without CRDs, rights, or a terminal that is wide enough it ends with one line that has what to do, and its own code.
func TestTUIRefused(t *testing.T) {
	t.Parallel()
	one := func(e ended, code int, want ...string) {
		t.Helper()
		assert.Equal(t, code, e.code, e.stderr)
		assert.Equal(t, 1, strings.Count(e.stderr, "\n"), e.stderr)
		for _, w := range want {
			assert.Contains(t, e.stderr, w)
		}
	}
	one(the.bare, 1, "error: cannot list drifts", "is Kausality installed?", "kausality manifests --crds-only")
	one(tui(t, the.kubeconfigs[mallory], 80, 24).ends(), 5, "error: cannot list drifts", mallory, "kausality-viewer")
	one(tui(t, the.kubeconfigs[mallory], 80, 24, "--plain").ends(), 5, "error: cannot list drifts", mallory, "kausality-viewer")
	one(tui(t, the.kubeconfigs[hans], 20, 24).ends(), 2, "error: the terminal has 20 columns", "at least 40", "--plain")

	cmd := exec.CommandContext(t.Context(), the.bins[parts.KubectlKausality], "--kubeconfig="+the.kubeconfigs[hans], "tui")
	cmd.Env = append(os.Environ(), "HOME="+the.Dir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	exit := &exec.ExitError{}
	require.True(t, errors.As(cmd.Run(), &exit))
	one(ended{exit.ExitCode(), stderr.String()}, 2, "error: tui takes a terminal", "use kubectl kausality pending")
}
