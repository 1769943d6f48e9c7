package changes

import (
	"context"
	"flag"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/internal/certs"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

var years = flag.Float64("rotation.years", 0,
	"let TestRotationAndRestarts rotate as often as this many years at the default lifetimes do, a minute or so for each")

// Lifetimes that stand for the defaults in TestRotationAndRestarts, in their
// proportions. They are bounded from below by the time that all processes have to
// observe a step, a twelfth of a certificate's life: an API server takes up to a
// second to use another bundle, and a replica has read a Secret by then.
const (
	yearsServing   = 15 * time.Second
	yearsAuthority = yearsServing * 17520 / 2160 // as certs.DefaultAuthorityLife to certs.DefaultServingLife, in hours
)

// rotated is what was seen of the certificates, by their text.
type rotated struct {
	mu               sync.Mutex
	bundles, serving map[string]bool
}

func (r *rotated) counts() (bundles, serving int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bundles), len(r.serving)
}

// look at what the API server trusts and the replicas serve.
func (r *rotated) look(ctx context.Context) error {
	e, err := the.Entry(ctx, "shop.admission.kausality.io")
	if err != nil {
		return err
	}
	bundle, _, _ := unstructured.NestedString(e, "clientConfig", "caBundle")
	s, err := the.Admin.Resource(site.Secrets).Namespace(site.Home).Get(ctx, "kausality-webhook-tls", metav1.GetOptions{})
	if err != nil {
		return err
	}
	cert, _, _ := unstructured.NestedString(s.Object, "data", "tls.crt")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bundles[bundle], r.serving[cert] = true, true
	return nil
}

// watchRotation until the test ends.
func watchRotation(t *testing.T) *rotated {
	t.Helper()
	r := &rotated{bundles: map[string]bool{}, serving: map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(250 * time.Millisecond) // a step lasts longer
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := r.look(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("cannot see the certificates: %v", err)
				return
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return r
}

// rotations that a time at the default lifetimes makes, the first included.
func rotations(t *testing.T, during time.Duration) (bundles, serving int) {
	t.Helper()
	r := certs.Rotation{Hosts: []string{"kausality-webhook"}}
	seen := rotated{bundles: map[string]bool{}, serving: map[string]bool{}}
	var state certs.State
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for now := start; now.Before(start.Add(during)); {
		next, again, err := r.Step(state, now)
		require.NoError(t, err)
		state, now = next, now.Add(again)
		cert, _, err := state.Serving.Encode()
		require.NoError(t, err)
		seen.bundles[string(state.Bundle())], seen.serving[string(cert)] = true, true
	}
	return seen.counts()
}

// lifetimes of what the controller makes from now on, for the length of a test.
func lifetimes(t *testing.T, serving, authority time.Duration) {
	t.Helper()
	set := func(serving, authority string) error {
		ctx := context.WithoutCancel(t.Context())
		if _, err := the.RunHelm(ctx, "upgrade", "kausality", the.Release, "--reuse-values",
			"--set", "certificates.certificateLifetime="+serving, "--set", "certificates.authorityLifetime="+authority); err != nil {
			return err
		}
		the.Controller.Stop()
		next, err := the.StartComponent(ctx, "controller", 1)
		if err != nil {
			return err
		}
		the.Controller = next
		return next.Await(ctx)
	}
	require.NoError(t, set(fmt.Sprintf("%.0fs", serving.Seconds()), fmt.Sprintf("%.0fs", authority.Seconds())))
	t.Cleanup(func() {
		if err := set(site.QuickServing, site.QuickAuthority); err != nil {
			t.Error(err)
		}
	})
}

// TestRotationAndRestarts: certificates and authorities are renewed and replicas
// restarted in turn, under load, and no call fails (KR-12-06).
func TestRotationAndRestarts(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "load")
	wantBundles, wantServing, within := 4, 4, 3*time.Minute
	if *years > 0 {
		during := time.Duration(*years * 365.25 * 24 * float64(time.Hour))
		wantBundles, wantServing = rotations(t, during)
		if want := certs.DefaultAuthorityLife.Seconds() / certs.DefaultServingLife.Seconds(); math.Abs(yearsAuthority.Seconds()/yearsServing.Seconds()-want) > 0.001 {
			t.Fatalf("the lifetimes are not in the proportions of the defaults, 1 to %f", want)
		}
		within = 2*time.Minute + 2*time.Duration(during.Hours()/certs.DefaultServingLife.Hours()*float64(yearsServing))
		lifetimes(t, yearsServing, yearsAuthority)
	}
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	seen := watchRotation(t)
	l, start := startLoad(t, ns), time.Now()
	bundles, serving, restarts := 0, 0, 0
	for l.failed.Load() == 0 && time.Since(start) < within && (bundles < wantBundles || serving < wantServing || restarts < 6) {
		p := the.Webhooks[restarts%2]
		p.Signal(syscall.SIGTERM)
		wait.Receive(t, "the replica to end", 20*time.Second, p.Done())
		require.NoError(t, p.Restart())
		require.NoError(t, p.Await(t.Context()))
		restarts++
		bundles, serving = seen.counts()
	}
	l.end()
	t.Logf("%d calls in %s, %d restarts, %d bundles, %d serving certificates; wanted were %d and %d", l.calls.Load(),
		time.Since(start).Round(time.Second), restarts, bundles, serving, wantBundles, wantServing)
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed, the first with: %v", n, l.calls.Load(), *l.first.Load())
	}
	if l.calls.Load() < 200 || bundles < wantBundles || serving < wantServing {
		t.Error("too little happened to show anything")
	}
}
