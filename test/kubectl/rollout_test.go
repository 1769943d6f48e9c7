package kubectl

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// rollouts let a Composition revision reach two composites, one after the other, by the commands of
// docs/rollouts.md (KR-14-50, KR-14-55, KR-14-56).
func rollouts(t *testing.T) {
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": story.XDatabases.GroupVersion().String(), "kind": "XDatabase",
		"metadata": map[string]any{"name": "invoices", "namespace": "default"}, "spec": map[string]any{"size": int64(5)}}}
	_, err = hans.Resource(story.XDatabases).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	tiers(t, "invoices", "gold")
	wait.For(t, "the new composite to settle", wait.Patience, func(context.Context) error {
		if is := stored(t, "invoices", v1alpha1.AnnotationKeySettledGeneration); is != "1" {
			return fmt.Errorf("it is settled at %q", is)
		}
		return nil
	})
	allClosed(t)

	require.NoError(t, the.Compose(t.Context(), story.Composition{Tier: "silver", Kausality: true}))
	revision := ""
	wait.For(t, "the changes of both composites to be listed", wait.Patience, func(context.Context) error {
		var listed v1alpha1.DriftList
		the.structured(t, &listed, "pending")
		of := map[string]bool{}
		for _, d := range listed.Items {
			of[d.Spec.Parent.Name] = d.UID != "" // a Rollout selects Drifts that exist
			if len(d.Spec.Causes) == 1 && d.Spec.Causes[0].Kind == v1alpha1.CauseComposition {
				revision = d.Spec.Causes[0].Name
			}
		}
		if len(listed.Items) != 4 || !of["orders"] || !of["invoices"] || revision == "" {
			return fmt.Errorf("%d changes of %v by revision %q", len(listed.Items), of, revision)
		}
		return nil
	})

	start := []string{"rollout", "start", "silver", "--cause", revision, "--waves", "1,100%", "--after", "1m", "--manual"}
	the.pipe(t, "rollout", "start", "silver").has(t, 2, "--cause is required; kubectl kausality pending --summary lists the keys")
	the.pipe(t, "rollout", "start", "silver", "--cause", revision[:len(revision)-1]).has(t, 1, "did you mean \""+revision+"\"?")
	the.pipe(t, "rollout", "start", "silver", "--cause", revision, "--waves", "1,all").has(t, 2, `as in 1,10%,100%, not "all"`)
	the.pipe(t, "rollout", "start", "silver", "--cause", revision, "--waves", "50%,10%").has(t, 2, "spec.waves[1].percent")
	the.pipe(t, "rollout", "status", "silver").has(t, 1, `cannot read Rollout silver`)

	// Without an approval nothing passes; a stop and its end need none.
	r := the.terminal(t, "n\n", start...)
	r.has(t, 1, "Approve 4 changes of 2 objects? [y/N] n\n")
	r.has(t, 1, "Nothing passes until it is approved: kubectl kausality rollout approve silver\n")
	the.terminal(t, "", "rollout", "status", "silver").golden(t, "rollout-pending", 0)
	the.terminal(t, "", start...).has(t, 1, `"silver" already exists`)
	the.pipe(t, "rollout", "resume", "silver").has(t, 1, "Rollout silver is Pending; there is nothing to resume")
	the.pipe(t, "rollout", "stop", "silver", "-o", "yaml").has(t, 0, "\nkind: Rollout\n")
	the.pipe(t, "rollout", "stop", "silver", "-o", "name").has(t, 0, "rollout.kausality.io/silver\n")
	the.pipe(t, "rollout", "stop", "silver").has(t, 0, "what was let through goes on, nothing more passes until: kubectl kausality rollout resume silver")
	the.pipe(t, "rollout", "approve", "silver").has(t, 2, "give --yes")
	the.terminal(t, "y\n", "rollout", "approve", "silver").has(t, 0, "voted; to follow it: kubectl kausality rollout status silver --watch")
	phase(t, "silver", v1alpha1.RolloutStopped)
	tiers(t, "invoices", "gold")
	tiers(t, "orders", "gold")

	// The first wave, and then the second one by hand.
	r = the.terminal(t, "y\n", "rollout", "resume", "silver")
	r.has(t, 0, "Go on? [y/N] y\n")
	r.has(t, 0, "resumed\x1b[0m silver\n")
	phase(t, "silver", v1alpha1.RolloutPaused)
	tiers(t, "invoices", "silver")
	tiers(t, "orders", "gold")
	the.terminal(t, "", "rollout", "status", "silver").golden(t, "rollout-paused", 0)
	the.pipe(t, "rollout", "resume", "silver", "--yes").has(t, 0, "resumed silver")
	watched := the.terminal(t, "", "rollout", "status", "silver", "--watch")
	watched.has(t, 0, "Rollout silver: Completed")
	if !strings.Contains(watched.out, "\x1b[J") && strings.Count(watched.out, "Rollout silver: ") > 1 {
		t.Errorf("a live view that scrolls:\n%q", watched.out)
	}
	tiers(t, "orders", "silver")
	the.terminal(t, "", "rollout", "status", "silver").golden(t, "rollout-completed", 0)
	is := &v1alpha1.Rollout{}
	the.structured(t, is, "rollout", "status", "silver")
	if is.Status.Done != 2 || len(is.Status.Votes) != 1 || is.Status.Votes[0].User != story.Hans {
		t.Errorf("its status is %+v", is.Status)
	}
	the.pipe(t, "trace", composed(t, "orders"), "-o", "json").has(t, 0, `"via": "rollout"`)

	require.NoError(t, hans.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)).Namespace("default").
		Delete(t.Context(), "silver", metav1.DeleteOptions{}))
	require.Error(t, the.Delete(t.Context(), story.Hans, story.XDatabases, "invoices"), "its database in the cloud would stay")
	wait.For(t, "the deletion to be approved", wait.Patience, func(context.Context) error {
		if r := the.pipe(t, "approve", "xdatabase/invoices", "--yes", "--wait"); r.code != 0 {
			return fmt.Errorf("approve: %s", r.out)
		}
		return nil
	})
	require.NoError(t, the.Delete(t.Context(), story.Hans, story.XDatabases, "invoices"))
	wait.For(t, "the other database to be gone", wait.Patience, func(ctx context.Context) error { _, err := the.MR(ctx); return err })
}

// phase of a Rollout, awaited.
func phase(t *testing.T, name string, want v1alpha1.RolloutPhase) {
	t.Helper()
	wait.For(t, "the Rollout to be "+string(want), wait.Patience, func(context.Context) error {
		if r := the.pipe(t, "rollout", "status", name); !regexp.MustCompile("(?m)^Rollout " + name + ": " + string(want)).MatchString(r.out) {
			return fmt.Errorf("it is %s", r.out)
		}
		return nil
	})
}

// composed Database of a composite, as the command line names it.
func composed(t *testing.T, xr string) string {
	t.Helper()
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	list, err := hans.Resource(story.Databases).Namespace("default").List(t.Context(), metav1.ListOptions{LabelSelector: "crossplane.io/composite=" + xr})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	return "database/" + list.Items[0].GetName()
}

// tiers of the database of a composite in the cloud, awaited.
func tiers(t *testing.T, xr, want string) {
	t.Helper()
	wait.For(t, "the database of "+xr+" to have the tier "+want, wait.Patience, func(ctx context.Context) error {
		hans, err := the.As(story.Hans)
		if err != nil {
			return err
		}
		list, err := hans.Resource(story.Databases).Namespace("default").List(ctx, metav1.ListOptions{LabelSelector: "crossplane.io/composite=" + xr})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d databases, expected one", len(list.Items))
		}
		is, err := the.Cloud.Get(ctx, list.Items[0].GetName())
		if err == nil && is.Tags["tier"] != want {
			err = fmt.Errorf("its tags are %v", is.Tags)
		}
		return err
	})
}

// allClosed waits until all gates of Databases are closed.
func allClosed(t *testing.T) {
	t.Helper()
	wait.For(t, "all gates to be closed", wait.Patience, func(ctx context.Context) error {
		hans, err := the.As(story.Hans)
		if err != nil {
			return err
		}
		list, err := hans.Resource(story.Databases).Namespace("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if state := o.GetAnnotations()[v1alpha1.AnnotationKeyGate]; !strings.Contains(state, `"state":"closed"`) {
				return fmt.Errorf("the gate of %s is %s", o.GetName(), state)
			}
		}
		return nil
	})
}
