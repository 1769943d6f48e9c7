package webhook

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestDeletedKind: a replica stops requesting a kind whose CRD is deleted, and one
// that is created again is guarded as before.
func TestDeletedKind(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "gone", options{replicas: 1})
	s := newFixture(t, f, "gone")
	s.settled("part")
	for _, plural := range []string{"apps", "parts", "manageds"} {
		require.NoError(t, s.hans.Resource(crds).Delete(t.Context(), f.crd(plural), metav1.DeleteOptions{}))
	}
	for _, plural := range []string{"apps", "parts", "manageds"} {
		wait.For(t, "the CRD to be gone", 30*time.Second, func(ctx context.Context) error {
			_, err := s.hans.Resource(crds).Get(ctx, f.crd(plural), metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("%s still exists", plural)
			}
			return nil
		})
	}
	wait.For(t, "the end of the requests of deleted kinds", wait.Patience, func(context.Context) error {
		before := f.replicas[0].notFound(t)
		wait.Pause(t, 5*time.Second) // a watch that cannot be made is tried again every second or two
		if n := f.replicas[0].notFound(t) - before; n > 0 {
			return fmt.Errorf("it requested a deleted kind %d times", n)
		}
		return nil
	})
	require.NoError(t, the.Define(t.Context(), kindsOf(f.resource("").Group)...))
	wait.For(t, "the kinds to be back", wait.Patience, func(ctx context.Context) error {
		_, err := s.apps(s.hans).List(ctx, metav1.ListOptions{})
		return err
	})
	again := newFixture(t, f, "gone-again")
	again.settled("part")
	mustRefuse(t, again.count(again.ctrl, "part", 1), "Drift")
}

// notFound counts the requests of a replica that the API server answered with 404.
func (r *replica) notFound(t *testing.T) (n int) {
	t.Helper()
	text, err := get(r.metrics)
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "rest_client_requests_total{") && strings.Contains(line, `code="404"`) {
			one, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
			require.NoError(t, err)
			n += one
		}
	}
	return n
}

func (f *fleet) crd(plural string) string { return plural + "." + f.resource("").Group }
