package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	outside "github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
	"github.com/kausality-io/function-kausality/test/rights"
)

const xr = "xdatabase/orders"

// database of the XR, as the command line names it.
func database(t *testing.T) string {
	t.Helper()
	mr, err := the.MR(t.Context())
	require.NoError(t, err)
	return "database/" + mr.GetName()
}

// TestPlugin drives the plugin through a day of the story: each part begins
// where the one before ends (KR-10-08, KR-10-09, KR-08-22).
func TestPlugin(t *testing.T) {
	for _, part := range []struct {
		name string
		play func(*testing.T)
	}{
		{name: "Nothing", play: nothing},
		{name: "Trace", play: traces},
		{name: "Explain", play: explains},
		{name: "Coverage", play: covers},
		{name: "Freeze", play: freezes},
		{name: "Snooze", play: snoozes},
		{name: "Reject", play: rejects},
		{name: "DryRun", play: dryRuns},
		{name: "Group", play: groups},
		{name: "Parallel", play: parallel},
		{name: "Crowd", play: crowd},
		{name: "External", play: external},
		{name: "Twice", play: twice},
		{name: "Votes", play: votes},
		{name: "Preview", play: previews},
		{name: "Policies", play: policies},
		{name: "Held", play: held},
		{name: "Rollout", play: rollouts},
		{name: "Approvers", play: approvers},
		{name: "Approvals", play: approvals},
		{name: "Ungate", play: ungates},
		{name: "WithoutFunction", play: withoutFunction},
		{name: "Deletion", play: deletion},
	} {
		if !t.Run(part.name, part.play) {
			return
		}
	}
	rights.Show(t, the.AuditLog())
}

func traces(t *testing.T) {
	db := database(t)
	the.terminal(t, "", "trace", db).golden(t, "trace", 0)
	spellings(t)
	the.terminal(t, "", "trace", xr).golden(t, "trace-xr", 0)
	for _, format := range []string{"wide", "name", "yaml", "json", "mermaid", "dot", "svg"} {
		the.terminal(t, "", "trace", db, "-o", format).golden(t, "trace-"+format, 0)
	}
	if r := the.pipe(t, "trace", db); strings.Contains(r.out, "\x1b") {
		t.Errorf("colours without a terminal:\n%q", r.out)
	}
	the.terminal(t, "", "trace", "configmap/kube-root-ca.crt").golden(t, "trace-forbidden", 1)
	traceIDs(t)
}

// traceIDs lead from what a cloud or Terraform has to the user, and to the objects that have it (KR-12-33).
func traceIDs(t *testing.T) {
	t.Helper()
	mr, err := the.MR(t.Context())
	require.NoError(t, err)
	id := outside.ProvenanceOf(trace.Of(mr.GetAnnotations()), mr.GetNamespace()).TraceID
	the.pipe(t, "trace", id, "-n", "default").has(t, 0, "XDatabase default/orders, generation 1, by "+story.Hans)
	the.pipe(t, "trace", id, "-n", "default", "-o", "name").has(t, 0, "database.cloud.example.org/"+mr.GetName())
	the.pipe(t, "trace", id, "-o", "json").has(t, 5, "Not read, since you may not list them: objects.kubernetes.crossplane.io")
	the.pipe(t, "trace", "0123456789abcdef").has(t, 1, "nothing has trace id 0123456789abcdef")
	the.pipe(t, "trace", "0123456789abcdef").has(t, 1, "which was not searched")
}

// spellings of a type are the same in all commands (KR-12-25); a wrong one is answered
// with the one that was meant (KR-12-24).
func spellings(t *testing.T) {
	t.Helper()
	for _, object := range [][]string{{"xdatabase/orders"}, {"xdatabases/orders"}, {"xdatabases.example.org/orders"}, {"xdatabase.example.org/orders"},
		{"xdatabase.example.org", "orders"}, {"XDatabase/orders"}, {"xdatabases.v1alpha1.example.org/orders"}} {
		for _, command := range [][]string{{"trace"}, {"explain"}, {"pending"}, {"freeze", "--dry-run"}, {"unfreeze", "--dry-run"},
			{"snooze", "--for=1d", "--dry-run"}, {"approve", "--any", "--dry-run"}, {"reject", "--reason=r", "--dry-run"}} {
			r := the.pipe(t, append(command, object...)...)
			if !strings.Contains(r.out, "XDatabase default/orders") && !strings.Contains(r.out, "xdatabase.example.org/orders") {
				t.Errorf("%v %v: exit code %d: %s", command, object, r.code, r.out)
			}
		}
	}
	the.pipe(t, "explain", "xdatabse/orders").has(t, 1, "did you mean \"xdatabase\"?")
	the.pipe(t, "freeze", "xdatabases.exmple.org/orders").has(t, 1, "did you mean \"xdatabases.example.org\"?")
	the.pipe(t, "trace", "xdatabase/ordres").has(t, 1, "did you mean \"xdatabase/orders\"?")
	the.pipe(t, "trace", "database/orders").has(t, 1, "did you mean \""+database(t)+"\"?") // KR-12-31
	the.pipe(t, "trace", "xdatabase", "order").has(t, 1, "did you mean \"xdatabase/orders\"?")
}

func explains(t *testing.T) {
	db := database(t)
	the.terminal(t, "", "explain", db).golden(t, "explain", 0)
	the.terminal(t, "", "explain", xr).golden(t, "explain-xr", 0)
	the.terminal(t, "", "explain", db, "--exit-code", "--patch", `{"spec":{"forProvider":{"size":50}}}`).golden(t, "explain-patch", 4)

	// explain predicts what happens: the same id, the same message.
	r := the.pipe(t, "explain", db, "--patch", "spec: {forProvider: {tags: {tier: gold}}}", "-o", "json")
	e := struct {
		Outcomes []struct {
			Attempt, Message, ID string
			Allowed              bool
		}
	}{}
	if err := json.Unmarshal([]byte(r.out), &e); err != nil {
		t.Fatalf("%v:\n%s", err, r.out)
	}
	o := e.Outcomes[0]
	if o.Attempt != "ControllerChange" || o.Allowed || len(o.ID) != 16 || !strings.HasPrefix(o.Message, "Drift: changing spec.forProvider.tags.tier of Database") {
		t.Errorf("the outcome is %+v", o)
	}
	foreseen = o.ID
}

// foreseen is the id of the difference that the new Composition brings in held,
// as explain printed it before.
var foreseen string

// covers lists one object for each gap that can occur here, and none where there is
// no gap.
func covers(t *testing.T) {
	wait.For(t, "the settings to be gated", 60*time.Second, func(ctx context.Context) error {
		s, err := the.Setting(ctx)
		if err == nil && !strings.Contains(s.GetAnnotations()[v1alpha1.AnnotationKeyGate], `"state":"closed"`) {
			err = fmt.Errorf("the gate is %q", s.GetAnnotations()[v1alpha1.AnnotationKeyGate])
		}
		return err
	})
	the.terminal(t, "", "coverage", "--exit-code").golden(t, "coverage-none", 4)
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	paused := map[string]any{"crossplane.io/paused": "true"}
	gaps := map[schema.GroupVersionResource]map[string]map[string]any{
		story.Databases:  {"loose": {"crossplane.io/paused": "true", v1alpha1.AnnotationKeyMode: "log"}, "paused": paused},
		story.XDatabases: {"starting": {"crossplane.io/paused": "true", v1alpha1.AnnotationKeyApprovals: `[{"kind":"Database","name":"*","mode":"always"}]`}},
	}
	kinds := map[schema.GroupVersionResource]string{story.Databases: "Database", story.XDatabases: "XDatabase"}
	specs := map[schema.GroupVersionResource]map[string]any{
		story.Databases: {"forProvider": map[string]any{"size": int64(1)}}, story.XDatabases: {"size": int64(1)},
	}
	for r, list := range gaps {
		for name, annotations := range list {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(), "kind": kinds[r], "spec": specs[r],
				"metadata": map[string]any{"name": name, "namespace": "default", "annotations": annotations}}}
			if _, err := hans.Resource(r).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	the.terminal(t, "", "coverage", "-A", "--exit-code", "-o", "wide").golden(t, "coverage", 5) // hans may not list two kinds (KR-12-19)
	require.NoError(t, the.Annotate(t.Context(), story.Hans, story.Databases, "paused", v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan))
	for r, list := range gaps {
		for name := range list {
			if err := the.Delete(t.Context(), story.Hans, r, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	wait.For(t, "nothing to wait any more", 60*time.Second, func(context.Context) error {
		if r := the.pipe(t, "pending", "--exit-code"); r.code != 0 {
			return fmt.Errorf("pending: %s", r.out)
		}
		return nil
	})
}

func freezes(t *testing.T) {
	the.terminal(t, "", "freeze", xr, "-m", "incident 4711").golden(t, "freeze", 0)
	the.terminal(t, "", "pending", xr).golden(t, "pending-frozen", 0) // KR-12-36
	the.terminal(t, "", "freeze", xr, "-m", "another").golden(t, "freeze-again", 1)
	the.terminal(t, "", "freeze", database(t)).golden(t, "freeze-database", 1)
	the.terminal(t, "", "explain", database(t)).golden(t, "explain-frozen", 0)
	if err := the.Patch(t.Context(), story.Hans, story.Databases, strings.TrimPrefix(database(t), "database/"), sized(21)); err == nil ||
		!strings.Contains(err.Error(), "incident 4711") {
		t.Errorf("a change of what is frozen: %v", err)
	}
	the.terminal(t, "", "unfreeze", xr).golden(t, "unfreeze", 0)
	the.terminal(t, "", "unfreeze", xr).golden(t, "unfreeze-again", 0)
}

func sized(n int64) map[string]any {
	return map[string]any{"spec": map[string]any{"forProvider": map[string]any{"size": n}}}
}

func snoozes(t *testing.T) {
	the.terminal(t, "", "snooze", xr, "--for", "24h", "-m", "known").golden(t, "snooze", 0)
	s := v1alpha1.Snooze{}
	require.NoError(t, json.Unmarshal([]byte(annotation(t, v1alpha1.AnnotationKeySnooze)), &s))
	if left := time.Until(s.Expiry.Time); left < 23*time.Hour || left > 24*time.Hour || s.User != story.Hans || s.Message != "known" {
		t.Errorf("the snooze is %+v", s)
	}
	the.terminal(t, "", "snooze", xr, "--off").golden(t, "snooze-off", 0)
	if annotation(t, v1alpha1.AnnotationKeySnooze) != "" {
		t.Error("the snooze was not removed")
	}
}

func annotation(t *testing.T, key string) string {
	t.Helper()
	o, err := the.XR(t.Context())
	require.NoError(t, err)
	return o.GetAnnotations()[key]
}

func rejects(t *testing.T) {
	db := database(t)
	the.terminal(t, "", "reject", db, "--reason", "not before the audit is over", "--until-next-intent").golden(t, "reject", 0)
	the.terminal(t, "", "explain", db).golden(t, "explain-rejected", 0)
	the.terminal(t, "", "reject", db, "--withdraw").golden(t, "reject-withdraw", 0)
	the.terminal(t, "", "reject", db, "--withdraw").golden(t, "reject-withdraw-again", 0)
	if annotation(t, v1alpha1.AnnotationKeyRejections) != "" {
		t.Error("the rejection was not removed")
	}
}

// dryRuns print the same and store nothing.
func dryRuns(t *testing.T) {
	before, err := the.XR(t.Context())
	require.NoError(t, err)
	for _, dry := range []string{"client", "server"} {
		the.terminal(t, "", "approve", database(t), "--any", "--mode", "generation", "--dry-run="+dry).golden(t, "dry-run-"+dry, 0)
		the.terminal(t, "", "freeze", xr, "--dry-run="+dry).golden(t, "dry-run-freeze-"+dry, 0)
	}
	after, err := the.XR(t.Context())
	require.NoError(t, err)
	for k, v := range after.GetAnnotations() {
		if before.GetAnnotations()[k] != v {
			t.Errorf("a dry run wrote %s=%s", k, v)
		}
	}
}

// external drift: it is listed, explained, approved, and gone.
func external(t *testing.T) {
	db := database(t)
	name := strings.TrimPrefix(db, "database/")
	the.terminal(t, "", "pending").golden(t, "pending-none", 0)
	require.NoError(t, the.ChangeOutside(t.Context(), client.Fields{"size": 9}))
	wait.For(t, "the drift to be listed", 60*time.Second, func(context.Context) error {
		if r := the.pipe(t, "pending", "--exit-code"); r.code != 4 {
			return fmt.Errorf("exit code %d: %s", r.code, r.out)
		}
		return nil
	})
	the.terminal(t, "", "pending").golden(t, "pending-external", 0)
	the.pipe(t, "approve", "--all").has(t, 1, "Left out, since they are about external resources: 1 change.") // KR-12-22
	the.pipe(t, "approve", "--cause", "external", "--dry-run").has(t, 0, "change the external resource of Database")
	the.terminal(t, "", "explain", db).golden(t, "explain-external", 0)
	id := strings.TrimPrefix(strings.TrimSpace(the.pipe(t, "pending", xr, "-o", "name").out), "drift.kausality.io/")
	the.pipe(t, "trace", id).has(t, 1, "did you mean: kubectl kausality explain -n default database.cloud.example.org/"+name) // KR-12-33
	the.pipe(t, "approve", id, "--dry-run").has(t, 0, "(dry run)\n  Whether that is enough is known once it is sent")         // KR-14-44
	the.terminal(t, "", "reject", id, "--reason", "no").golden(t, "reject-external", 0)
	the.terminal(t, "", "pending").golden(t, "pending-rejected", 0)
	the.terminal(t, "", "approve", id, "--dry-run=server").golden(t, "approve-rejected", 6)
	if r := the.pipe(t, "reject", id, "--withdraw"); r.code != 0 {
		t.Errorf("the rejection cannot be withdrawn: %+v", r)
	}
	the.terminal(t, "n\n", "approve", db).golden(t, "approve-no", 1)
	the.terminal(t, "", "approve", id, "--wait").golden(t, "approve-external", 0)
	wait.For(t, "the cloud to have the size again", 60*time.Second, func(ctx context.Context) error {
		is, err := the.Cloud.Get(ctx, name)
		if err == nil && is.Size != 20 {
			err = fmt.Errorf("its size is %d", is.Size)
		}
		return err
	})
	the.terminal(t, "", "approve", id).golden(t, "approve-again", 1)
}

// gatedIsNoChange: a transition of the gate was the last change of the generation of the database, and Crossplane has written what is held since.
// explain names neither as a change (KR-12-32).
func gatedIsNoChange(t *testing.T) {
	t.Helper()
	mr, err := the.MR(t.Context())
	require.NoError(t, err)
	gate, last := mask.ParseGate(mr.GetAnnotations()).Generation, trace.Of(mr.GetAnnotations()).Own()
	require.NotNil(t, last)
	require.NotEmpty(t, mr.GetAnnotations()[v1alpha1.AnnotationKeyHeld])
	require.Equal(t, mr.GetGeneration(), gate)
	require.Less(t, last.Generation, gate)
	explained := struct {
		Last *v1alpha1.Hop `json:"last"`
	}{}
	if the.structured(t, &explained, "explain", database(t)); explained.Last != nil {
		t.Errorf("explain names %+v as the last change; it was %+v", explained.Last, last)
	}
}

// held by the function, of which the webhook writes Drifts: listed and approved as any other.
func held(t *testing.T) {
	require.NoError(t, the.Compose(t.Context(), story.Composition{Tier: "gold", Kausality: true}))
	wait.For(t, "what is held to be listed", 60*time.Second, func(context.Context) error {
		if r := the.pipe(t, "pending", "-o", "name"); strings.Count(r.out, "drift.kausality.io/") != 2 {
			return fmt.Errorf("pending: %s", r.out)
		}
		return nil
	})
	the.terminal(t, "", "pending").golden(t, "pending-held", 0)
	listed := v1alpha1.DriftList{}
	the.structured(t, &listed, "pending", database(t)) // -o name lists no change without a Drift (KR-12-16)
	if len(listed.Items) != 1 || listed.Items[0].Name != foreseen {
		t.Fatalf("explain foresaw %s, held is %v", foreseen, listed.Items)
	}
	gatedIsNoChange(t)
	the.terminal(t, "", "pending", "-A", "--summary").golden(t, "pending-summary", 0)
	revision := listed.Items[0].Spec.Causes[0].Name
	the.terminal(t, "", "explain", xr).golden(t, "explain-held", 0)
	the.terminal(t, "", "explain", xr, "--patch", `{"spec":{"size":60}}`).golden(t, "explain-held-patch", 0)
	if r := the.pipe(t, "approve", xr); r.code != 2 {
		t.Errorf("a group without a terminal and without --yes: %+v", r)
	}
	the.terminal(t, "", "approve", "xdatabases", "-l", "!team", "--dry-run").golden(t, "approve-group-dry-run", 0)
	the.terminal(t, "n\n", "reject", "--all", "--reason", "not in this release").golden(t, "reject-all-no", 1)
	byCause(t, revision)
	r := the.terminal(t, "y\n", "approve", "-A", "--cause", revision, "--reason", "SHOP-17: after the sale", "--wait")
	r.has(t, 0, "Approve these 2 changes (once)? [y/N] y\n")
	if strings.Count(r.out, ": it was approved\n") != 2 || !strings.Contains(r.out, `"reason":"SHOP-17: after the sale"}]`) {
		t.Errorf("approved:\n%s", r.out) // the first approval may be used before the second is written
	}
	wait.For(t, "the cloud to have the tier", 60*time.Second, func(ctx context.Context) error {
		is, err := the.Cloud.Get(ctx, strings.TrimPrefix(database(t), "database/"))
		if err == nil && is.Tags["tier"] != "gold" {
			err = fmt.Errorf("its tags are %v", is.Tags)
		}
		return err
	})
	// The reason stays with the change (KR-12-23).
	wait.For(t, "the approval to show in the trace", 60*time.Second, func(context.Context) error {
		const because = ", by hans@example.com, because: SHOP-17: after the sale"
		if r := the.pipe(t, "trace", database(t)); !strings.Contains(r.out, "approved (once): difference "+foreseen+because) {
			return fmt.Errorf("trace: %s", r.out)
		}
		return nil
	})
	the.terminal(t, "", "trace", database(t)).golden(t, "trace-approved", 0)
}

// byCause selects what a cause holds, in dry runs, and leaves out the rest (KR-12-20,
// KR-12-21, KR-12-22).
func byCause(t *testing.T, revision string) {
	t.Helper()
	the.pipe(t, "approve", "--cause", revision, "--limit", "1", "--dry-run").has(t, 0, "1 more are left, since --limit is 1")
	the.pipe(t, "approve", "-A", "-l", "!team", "--dry-run").has(t, 0, "kausality.io/approve-"+foreseen+": none → once")
	the.pipe(t, "approve", "-A", "-l", "team=shop", "--dry-run").has(t, 1, "nothing waits for approval in any namespace below objects with labels team=shop")
	the.pipe(t, "approve", "--cause", revision[:len(revision)-1], "--dry-run").has(t, 1, "did you mean \""+revision+"\"?")
	the.pipe(t, "snooze", "-A", "--cause", revision, "--for", "1d", "--reason", "later", "--dry-run").has(t, 0, "XDatabase default/orders")
	the.pipe(t, "reject", xr, "--reason", "no", "--dry-run").has(t, 0, "kausality.io/rejections: none → ") // KR-12-25
	the.pipe(t, "reject", "--cause", revision, "--reason", "no", "--dry-run").has(t, 0, "kausality.io/rejections: none → ")
}

var drifts = v1alpha1.GroupVersion.WithResource("drifts")

// crowd is hundreds of Drifts of three causes in two namespaces. Their objects do not exist, so that they are resolved
// one after the other.
func crowd(t *testing.T) {
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	spaces := []string{"default", "kube-public"}
	for n := range 300 {
		id := fmt.Sprintf("c0de%012x", n)
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "Drift",
			"metadata": map[string]any{"name": id, "namespace": spaces[n%2]},
			"spec": map[string]any{"id": id, "relation": "ControllerChild", "operation": "UPDATE",
				"parent": map[string]any{"apiVersion": story.XDatabases.GroupVersion().String(), "kind": "XDatabase", "name": fmt.Sprint("crowd-", n),
					"namespace": "default"},
				"child":      map[string]any{"apiVersion": story.Databases.GroupVersion().String(), "kind": "Database", "name": id, "namespace": "default"},
				"difference": []any{map[string]any{"path": "spec.forProvider.size", "verb": "Mutate", "old": "20", "new": "30"}},
				"cause":      "composition revision crowd-1",
				"causes":     []any{map[string]any{"kind": "CompositionRevision", "name": fmt.Sprint("crowd-", n%3), "author": "alice@example.com"}}}}}
		_, err := hans.Resource(drifts).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	r := the.pipe(t, "pending", "-A")
	if n := strings.Count(r.out, "\n"); n > 60 {
		t.Errorf("%d lines:\n%s", n, r.out)
	}
	for n := range 3 {
		r.has(t, 0, fmt.Sprintf(" more; to list them: kubectl kausality pending -A --cause crowd-%d --limit 0\n", n))
		r.has(t, 0, fmt.Sprintf("In waves: kubectl kausality rollout start NAME --cluster --cause crowd-%d\n", n))
	}
	listed := v1alpha1.DriftList{}
	the.structured(t, &listed, "pending", "-A", "--cause", "crowd-1")
	if len(listed.Items) < 20 {
		t.Errorf("%d changes of one cause", len(listed.Items))
	}
	all := the.pipe(t, "pending", "-A", "--cause", "crowd-1", "--limit", "0")
	if n := strings.Count(all.out, "change Database default/c0de"); n < 20 {
		t.Errorf("%d changes are listed without a limit", n)
	}
	for n := range 300 {
		err := hans.Resource(drifts).Namespace(spaces[n%2]).Delete(t.Context(), fmt.Sprintf("c0de%012x", n), metav1.DeleteOptions{})
		require.NoError(t, ignoreNotFound(err))
	}
}

func ignoreNotFound(err error) error {
	if kerrors.IsNotFound(err) {
		return nil
	}
	return err
}

func gateClosed(t *testing.T) {
	t.Helper()
	wait.For(t, "the gate to be closed", 60*time.Second, func(ctx context.Context) error {
		mr, err := the.MR(ctx)
		if err == nil && !strings.Contains(mr.GetAnnotations()[v1alpha1.AnnotationKeyGate], `"state":"closed"`) {
			err = fmt.Errorf("the gate is %s", mr.GetAnnotations()[v1alpha1.AnnotationKeyGate])
		}
		return err
	})
}

// deletion that would orphan: refused, approved, and then it passes.
func deletion(t *testing.T) {
	name := strings.TrimPrefix(database(t), "database/")
	gateClosed(t)
	if err := deleteDecided(t, name); !kerrors.IsForbidden(err) {
		t.Fatalf("the deletion was not refused: %v", err)
	}
	wait.For(t, "the deletion to be listed", 60*time.Second, func(context.Context) error {
		if r := the.pipe(t, "pending", "--exit-code"); r.code != 4 {
			return fmt.Errorf("exit code %d: %s", r.code, r.out)
		}
		return nil
	})
	the.terminal(t, "", "pending").golden(t, "pending-deletion", 0)
	the.terminal(t, "y\n", "approve", database(t), "--wait").golden(t, "approve-deletion", 0)
	if err := deleteDecided(t, name); err != nil {
		t.Errorf("approve --wait reported that it can be deleted: %v", err)
	}
}

// deleteDecided deletes a Database, again where the webhook could not decide in time, as on a busy machine (KR-05-04).
func deleteDecided(t *testing.T, name string) (err error) {
	t.Helper()
	wait.For(t, "the deletion of "+name+" to be decided", wait.Patience, func(ctx context.Context) error {
		if err = the.Delete(ctx, story.Hans, story.Databases, name); kerrors.IsInternalError(err) {
			return err
		}
		return nil
	})
	return err
}
