package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// falsified statuses of the test provider, by the scenario that plays each, in a Namespace of its name (KR-08-48).
const falsified = "false-ahead=ahead,false-stale=stale,false-flapping=flapping"

// shortDeadline is a policy with the shortest deadline that there may be.
const shortDeadline = `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: %[1]s}
spec:
  mode: enforce
  namespaces: {names: [%[1]s]}
  resources: [{apiGroups: [cloud.example.org], resources: [databases]}]
  gate: {deadline: 1m}
`

// falseAhead: the generation that the provider claims to have observed is no evidence; the reconcile that it was requested is.
func falseAhead(y *scenario) { y.falselyReported(v1alpha1.GateReasonConfirmed) }

// falseFlapping: a change is confirmed whatever Ready is; a creation once it is True.
func falseFlapping(y *scenario) { y.falselyReported(v1alpha1.GateReasonConfirmed) }

// falseStale: a change that never shows is not confirmed, and its gate closes at its deadline.
func falseStale(y *scenario) { y.falselyReported(v1alpha1.GateReasonExpired) }

// falselyReported plays a Database whose provider reports what is not true: the external resource is created, and changed as
// requested, and by nothing else; and what cannot be known is reported.
func (y *scenario) falselyReported(closes string) {
	require.NoError(y.t, y.e.Apply(y.ctx, fmt.Appendf(nil, shortDeadline, y.ns)))
	name := y.ns
	databases := y.hans.Resource(story.Databases).Namespace(y.ns)
	_, err := databases.Create(y.ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"forProvider": map[string]any{"engine": "postgres", "size": int64(10)}}}},
		metav1.CreateOptions{})
	require.NoError(y.t, err)
	y.awaitClosed(story.Databases, name)
	require.NoError(y.t, y.merge(y.hans, story.Databases, name, map[string]any{"spec": map[string]any{"forProvider": map[string]any{"size": int64(20)}}}))
	y.until("the change to arrive", func(ctx context.Context) error {
		db, err := y.e.Cloud.Get(ctx, name)
		if err == nil && db.Size != 20 {
			err = fmt.Errorf("its size is %d", db.Size)
		}
		return err
	})
	y.awaitClosed(story.Databases, name)
	if got := gateOf(y.get(story.Databases, name)).Reason; got != closes {
		y.t.Errorf("the gate closed by %s, want %s", got, closes)
	}
	require.NoError(y.t, y.e.Cloud.Change(y.ctx, name, client.Fields{"size": 99}))
	since, err := y.e.Cloud.LastSeq(y.ctx)
	require.NoError(y.t, err)
	y.until("the provider to have looked", func(ctx context.Context) error {
		looks, err := y.e.Cloud.Reads(ctx, since, name)
		if err == nil && looks < 3 {
			err = fmt.Errorf("it looked %d times", looks)
		}
		return err
	})
	y.until("the difference to be reported", func(ctx context.Context) error {
		list, err := y.admin.Resource(story.Drifts).Namespace(y.ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is no Drift")
		}
		return err
	})
	writes, err := y.e.Cloud.Writes(y.ctx, 0)
	require.NoError(y.t, err)
	var methods []string
	for _, w := range writes {
		if strings.HasSuffix(w.Path, "/"+name) || strings.Contains(string(w.Body), `"`+name+`"`) {
			methods = append(methods, w.Method)
		}
	}
	if len(methods) != 2 || !slices.Contains(methods, "PATCH") {
		y.t.Errorf("external writes %v, want the creation and one change", methods)
	}
}
