package kubectl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// team of XDatabases beside that of the story, which no controller reconciles.
var team = []string{"blue", "green"}

// stored annotation of an XDatabase; "" where there is none.
func stored(t *testing.T, name, key string) string {
	t.Helper()
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	o, err := hans.Resource(story.XDatabases).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return o.GetAnnotations()[key]
}

// annotated are those of the team that have an annotation.
func annotated(t *testing.T, key string) (out []string) {
	t.Helper()
	for _, name := range team {
		if stored(t, name, key) != "" {
			out = append(out, name)
		}
	}
	return out
}

// groups of objects are changed by one command: it shows the change of each, needs
// one confirmation, and makes the changes that it showed.
func groups(t *testing.T) {
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	for _, name := range team {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": story.XDatabases.GroupVersion().String(), "kind": "XDatabase",
			"spec": map[string]any{"size": int64(1)},
			"metadata": map[string]any{"name": name, "namespace": "default", "labels": map[string]any{"team": "shop"},
				"annotations": map[string]any{"crossplane.io/paused": "true"}}}}
		if _, err := hans.Resource(story.XDatabases).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []struct {
		name string
		play func(*testing.T)
	}{
		{name: "Freeze", play: freezeGroup}, {name: "Meanwhile", play: meanwhile}, {name: "Snooze", play: snoozeGroup}, {name: "Reject",
			play: rejectGroup}, {name: "InAdvance",
			play: advanceGroup},
	} {
		t.Run(part.name, part.play)
	}
	for _, name := range team {
		if err := the.Delete(t.Context(), story.Hans, story.XDatabases, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var freezing = []string{"freeze", "xdatabases", "-l", "team=shop", "-m", "incident 4712"}

func freezeGroup(t *testing.T) {
	// No, no terminal, and dry runs: nothing is written.
	the.terminal(t, "n\n", freezing...).golden(t, "freeze-group-no", 1)
	if r := the.pipe(t, freezing...); r.code != 2 || !strings.Contains(r.out, "kausality.io/freeze: none → ") ||
		!strings.HasSuffix(r.out, "give --yes, or name one object; --dry-run shows what would be written\n") {
		t.Errorf("without a terminal: %+v", r)
	}
	the.terminal(t, "", append(freezing, "--dry-run")...).golden(t, "freeze-group-dry-run", 0)
	the.terminal(t, "", append(freezing, "--dry-run=server")...).golden(t, "freeze-group-dry-run-server", 0)
	var planned []struct{ Before, After, DryRun string }
	the.structured(t, &planned, append(freezing, "--dry-run")...)
	if len(planned) != 2 || planned[0].Before != "" || !strings.Contains(planned[0].After, "incident 4712") || planned[1].DryRun != "client" {
		t.Errorf("planned is %+v", planned)
	}
	if have := annotated(t, v1alpha1.AnnotationKeyFreeze); have != nil {
		t.Fatalf("%v are frozen without a confirmation", have)
	}

	the.terminal(t, "y\n", freezing...).golden(t, "freeze-group", 0)
	if have := annotated(t, v1alpha1.AnnotationKeyFreeze); len(have) != len(team) {
		t.Errorf("only %v are frozen", have)
	}
	// An object that another user froze stays frozen by them, and the others are frozen.
	the.terminal(t, "y\n", "freeze", "xdatabases", "--all", "-m", "all of it").golden(t, "freeze-all", 1)
	if v := stored(t, "blue", v1alpha1.AnnotationKeyFreeze) + stored(t, "orders", v1alpha1.AnnotationKeyFreeze); !strings.Contains(v,
		"4712") || !strings.Contains(v, "all of it") {
		t.Errorf("frozen is %s", v)
	}
	the.terminal(t, "", "unfreeze", xr, "xdatabase/orders").golden(t, "unfreeze", 0) // one object, however often it is named
	the.terminal(t, "y\n", "unfreeze", "xdatabases", "--all").golden(t, "unfreeze-all", 0)
	the.terminal(t, "", "unfreeze", "xdatabases", "--all").golden(t, "unfreeze-all-again", 0)
	the.terminal(t, "", "unfreeze", "xdatabase/blue", "xdatabase/green").golden(t, "unfreeze-names-again", 0)
	the.terminal(t, "", "freeze", "databases", "--all").golden(t, "freeze-databases", 1) // nothing is left to confirm
	var none []any
	if the.structured(t, &none, "unfreeze", "xdatabases", "--all"); len(none) != 0 {
		t.Errorf("nothing is frozen, and it prints %v", none)
	}
}

// meanwhile another user changes the freeze, between the question and the answer:
// that change stays.
func meanwhile(t *testing.T) {
	if r := the.pipe(t, append(freezing, "--yes")...); r.code != 0 {
		t.Fatalf("freeze --yes: %+v", r)
	}
	const alices = `{"user":"alice@example.com","message":"audit"}`
	alice := func() {
		if err := the.Annotate(t.Context(), story.Hans, story.XDatabases, "blue", v1alpha1.AnnotationKeyFreeze, alices); err != nil {
			t.Error(err)
		}
	}
	the.meanwhile(t, alice, "y\n", "unfreeze", "xdatabase/blue", "xdatabase/green").golden(t, "unfreeze-meanwhile", 1)
	if have := stored(t, "blue", v1alpha1.AnnotationKeyFreeze); have != alices {
		t.Errorf("alice's freeze is %q now", have)
	}
	var done []struct{ Annotation, Before, After string }
	the.structured(t, &done, "unfreeze", "xdatabases", "-l", "team=shop", "--yes", "--overwrite")
	if len(done) != 1 || done[0].Before != alices || done[0].After != "" {
		t.Errorf("unfrozen is %+v", done)
	}
}

func snoozeGroup(t *testing.T) {
	names := []string{"xdatabase/blue", "xdatabase/green"}
	require.NoError(t, the.Annotate(t.Context(), story.Hans, story.XDatabases, "blue", v1alpha1.AnnotationKeyLegacySnooze, "2100-01-01T00:00:00Z"))
	the.terminal(t, "y\n", append([]string{"snooze", "--until", "2100-01-05T09:30:00Z"}, names...)...).golden(t, "snooze-group", 0)
	the.terminal(t, "y\n", append([]string{"snooze", "--off"}, names...)...).golden(t, "snooze-group-off", 0)
	for _, key := range []string{v1alpha1.AnnotationKeySnooze, v1alpha1.AnnotationKeyLegacySnooze} {
		if have := annotated(t, key); have != nil {
			t.Errorf("%v still have %s", have, key)
		}
	}
}

func rejectGroup(t *testing.T) {
	setting, err := the.Setting(t.Context())
	require.NoError(t, err)
	list := []string{database(t), "object.kubernetes.m.crossplane.io/" + setting.GetName()}
	the.terminal(t, "y\n", append([]string{"reject", "--reason", "audit"}, list...)...).golden(t, "reject-group", 0)
	if have := annotation(t, v1alpha1.AnnotationKeyRejections); strings.Count(have, `"reason":"audit"`) != 2 {
		t.Errorf("rejected is %s", have)
	}
	the.terminal(t, "", append([]string{"reject", "--reason", "audit"}, list...)...).golden(t, "reject-group-again", 0)
	the.terminal(t, "n\n", "reject", "databases", "-l", "crossplane.io/composite=orders", "--withdraw").golden(t, "reject-selected-no", 1)
	the.terminal(t, "y\n", append([]string{"reject", "--withdraw", "xdatabase/blue"}, list...)...).golden(t, "reject-group-withdraw", 1)
	if have := annotation(t, v1alpha1.AnnotationKeyRejections); have != "" {
		t.Errorf("rejected is still %s", have)
	}
}

// advanceGroup: approving all future changes of several objects needs a
// confirmation, too.
func advanceGroup(t *testing.T) {
	setting, err := the.Setting(t.Context())
	require.NoError(t, err)
	the.terminal(t, "n\n", "approve", database(t), "object.kubernetes.m.crossplane.io/"+setting.GetName(), "--any", "--mode=always").golden(t, "approve-any-no", 1)
	the.terminal(t, "", "approve", "databases", "--any", "--external=Update", "-l", "crossplane.io/composite=orders",
		"--dry-run").golden(t, "approve-any-selected", 0)
	if have := annotation(t, v1alpha1.AnnotationKeyApprovals); have != "" {
		t.Errorf("approved is %s", have)
	}
}
