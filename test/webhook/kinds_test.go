package webhook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

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
		all, before := requests(t, f.resource("").Group)
		require.NotZero(t, all, "requests in the log of the API server")
		wait.Pause(t, 5*time.Second) // a watch that cannot be made is tried again every second or two
		_, after := requests(t, f.resource("").Group)
		if n := after - before; n > 0 {
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

// requests of webhooks for the objects of an API group, counted: all that the API server answered, and those with 404.
func requests(t *testing.T, group string) (all, notFound int) {
	t.Helper()
	log, err := os.Open(the.AuditLog())
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	for in := bufio.NewReader(log); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, notFound // the last line is being written
		}
		require.NoError(t, err)
		var e auditv1.Event
		if !bytes.Contains(line, []byte(`"/apis/`+group+`/`)) {
			continue
		}
		require.NoError(t, json.Unmarshal(line, &e))
		if e.User.Username != "system:serviceaccount:"+home+":kausality-webhook" || e.ResponseStatus == nil {
			continue
		}
		all++
		if e.ResponseStatus.Code == http.StatusNotFound {
			notFound++
		}
	}
}

func (f *fleet) crd(plural string) string { return plural + "." + f.resource("").Group }
