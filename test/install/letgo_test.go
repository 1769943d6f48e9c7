package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const shopGroup = "shop.example.org"

// asked by our components about the resources of a group since a moment: the
// watches that were opened, each once, and what was refused.
func asked(t *testing.T, group string, since time.Time) (watches, refused []string) {
	t.Helper()
	audited(t, func(e request) {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		if !strings.HasPrefix(path, "/apis/"+group+"/") || e.RequestReceivedTimestamp.Before(since) || !e.looks() {
			return
		}
		component := strings.TrimPrefix(e.User.Username, "system:serviceaccount:"+home+":kausality-")
		what := component + " " + path[strings.LastIndex(path, "/")+1:]
		switch {
		case e.ResponseStatus.Code == 403:
			refused = append(refused, what)
		case e.Verb == "watch" && e.ResponseStatus.Code == 200 && !slices.Contains(watches, what):
			watches = append(watches, what)
		}
	})
	slices.Sort(watches)
	return watches, refused
}

// watched waits until webhook and gate have opened their watches of a group.
func watched(t *testing.T, group string, since time.Time, want ...string) {
	t.Helper()
	eventually(t, "what is guarded to be watched", func(context.Context) error {
		if open, _ := asked(t, group, since); !slices.Equal(open, want) { // a role may take a moment to come through
			return fmt.Errorf("watched are %v", open)
		}
		return nil
	})
}

// without access of ours to a group.
func without(t *testing.T, group string) {
	t.Helper()
	for _, role := range []string{"kausality-gate-policies", "kausality-webhook-policies"} {
		eventually(t, "the access of "+role+" to go", func(ctx context.Context) error {
			o, err := the.admin.Resource(roles).Get(ctx, role, metav1.GetOptions{})
			if kerrors.IsNotFound(err) {
				return nil
			}
			if err == nil && strings.Contains(fmt.Sprint(o.Object["rules"]), group) {
				err = fmt.Errorf("it still is %v", o.Object["rules"])
			}
			return err
		})
	}
}

// TestLetGo: what no policy covers any more is watched no more, and nobody goes on
// asking for what they may not see; with a policy the watches come again. The line
// is cut to see it: a watch that is there still is asked for again.
func TestLetGo(t *testing.T) {
	cases := map[string]struct {
		reason string
		leave  func(t *testing.T)
	}{
		"LastPolicy": {"with the last policy the configuration goes, too", func(t *testing.T) {
			must(t, the.admin.Resource(kausality).Delete(t.Context(), "shop", forget))
		}},
		"OtherStays": {"another group is guarded still", func(t *testing.T) {
			must(t, merge(t, the.admin, kausality, "", "shop", elsewhere))
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns, since := namespace(t, "letgo-"+strings.ToLower(name)), time.Now()
			policy(t, "shop", map[string]any{"mode": "enforce"})
			guarded(t, ns)
			owner, err := app(t, ns, "owner")
			must(t, err)
			played(t, ns, "orders", owner)
			closedGate(t, ns, "orders")
			all := []string{"gate apps", "gate databases", "webhook apps", "webhook databases"}
			the.line.cut()
			watched(t, shopGroup, since, all...)
			tc.leave(t)
			restoredTo(t, ns, "orders", "*")
			without(t, shopGroup)
			pause(t, 2*time.Second) // for the authorizer to take it up, and each process
			quiet(t, tc.reason)

		})
	}
}

// quiet where nobody asks for what is not guarded any more, whatever ends.
func quiet(t *testing.T, reason string) {
	t.Helper()
	cut := time.Now()
	the.line.cut()
	pause(t, 6*time.Second) // what is refused is tried again after a second, and more
	if open, refused := asked(t, shopGroup, cut); len(open) > 0 || len(refused) > 0 {
		t.Errorf("%s: watched still are %v, refused was %v", reason, open, refused)
	}
}

// pause where nothing tells that nothing comes.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
