package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

var day = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// changed is a change of one object that is held since the beginning of the day.
func changed(n int, namespace string, cause ...v1alpha1.HopCause) v1alpha1.Drift {
	d := v1alpha1.Drift{}
	d.Name, d.Namespace, d.UID, d.CreationTimestamp = fmt.Sprintf("%016x", n), namespace, "u1", metav1.NewTime(day)
	d.Spec = v1alpha1.DriftSpec{
		ID: d.Name, Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE", Causes: cause,
		Parent:     v1alpha1.ObjectReference{Kind: "XDatabase", Namespace: namespace, Name: fmt.Sprintf("db-%d", n)},
		Child:      v1alpha1.ObjectReference{Kind: "Database", Namespace: namespace, Name: fmt.Sprintf("db-%d-abc", n)},
		Difference: []v1alpha1.FieldDifference{{Path: "spec.forProvider.tier", Verb: "Mutate", Old: `"silver"`, New: `"gold"`}},
	}
	return d
}

// many changes: of one revision in three namespaces, of one user, and external drift of
// many objects.
func many() (list []v1alpha1.Drift) {
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3", Author: "alice@example.com"}
	for n := range 300 {
		list = append(list, changed(n, fmt.Sprintf("team-%d", n%3), revision))
	}
	for n := range 40 {
		d := changed(1000+n, "team-0")
		d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, ""
		d.Spec.Cause = "an actor other than Crossplane changed the external resource behind " + d.Spec.Child.Name
		list = append(list, d)
	}
	for n := range 20 {
		list = append(list, changed(2000+n, "team-1", v1alpha1.HopCause{Kind: v1alpha1.CauseUser, Name: fmt.Sprintf("user-%d", n)}))
	}
	return list
}

// TestPendingMany prints hundreds of changes of many causes on some tens of lines, and how
// to see the rest; JSON, YAML and names have all of them (KR-12-20, KR-17-01).
func TestPendingMany(t *testing.T) {
	list := many()
	out, _ := printed(t, formatTable, list)
	if n := strings.Count(out.String(), "\n"); n > 60 {
		t.Errorf("%d lines:\n%s", n, out)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if len(line) > 250 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
	for _, want := range []string{
		"Composition revision xdatabases-7f3: 300 changes of 300 objects in 3 namespaces, since 60m\n",
		"  cause: composition revision xdatabases-7f3, by alice@example.com\n",
		"  spec.forProvider.tier: \"silver\" → \"gold\", 300 times\n",
		"  290 more; to list them: kubectl kausality pending -n team --cause xdatabases-7f3 --limit 0\n",
		"  To approve: kubectl kausality approve -n team --cause xdatabases-7f3\n",
		"External drift: external resources differ from what Crossplane wants: 40 changes of 40 objects, since 60m\n",
		"  To approve: kubectl kausality approve -n team --cause external\n",
		"  To approve: kubectl kausality approve -n team-1 00000000000007d0\n",
		"17 changes of 17 causes more; to list the causes: kubectl kausality pending -n team --summary\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	names, _ := printed(t, formatName, list)
	if n := strings.Count(names.String(), "\n"); n != len(list) {
		t.Errorf("%d names of %d", n, len(list))
	}
	all, _ := printed(t, formatJSON, list)
	if n := strings.Count(all.String(), `"suggestedApproval"`) + strings.Count(all.String(), `"id": `); n != len(list) {
		t.Errorf("%d of %d in JSON", n, len(list))
	}
}

// TestPendingSummary prints one line for each cause (KR-12-20).
func TestPendingSummary(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := pendingCommand{session: &session{IOStreams: streams}, summary: true}
	c.view.now = func() time.Time { return day.Add(time.Hour) }
	require.NoError(t, c.print(many(), scope{}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+1+1+20 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	want := []string{"xdatabases-7f3", "300", "300", "3", "60m", "composition", "revision", "xdatabases-7f3,", "by", "alice@example.com"}
	if have := strings.Fields(lines[1]); !slices.Equal(have, want) {
		t.Errorf("the first cause is %q", have)
	}
}

// TestCauseKeys distinguish causes, and are the same for all changes of one (KR-12-20).
func TestCauseKeys(t *testing.T) {
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3"}
	user := v1alpha1.HopCause{Kind: v1alpha1.CauseUser, Name: "hans@example.com"}
	external, deletion, text := changed(1, "a"), changed(2, "a"), changed(3, "a")
	external.Spec.Relation, external.Spec.Operation = v1alpha1.RelationExternal, ""
	deletion.Spec.Relation, deletion.Spec.Operation, deletion.Spec.Cause = v1alpha1.RelationExternal, "DELETE", "deletion by hans@example.com"
	text.Spec.Cause = "deletion by hans@example.com"
	long := v1alpha1.HopCause{Kind: v1alpha1.CauseImage, Name: strings.Repeat("x", 200)}
	for name, c := range map[string]struct {
		drift v1alpha1.Drift
		want  string
	}{
		"Revision": {changed(4, "a", revision), "xdatabases-7f3"},
		"User":     {changed(5, "a", user), "user/hans@example.com"},
		"External": {external, "external"},
		"Deletion": {deletion, channel.CauseKey(&text)},
		"Several":  {changed(6, "a", revision, user), channel.CauseKey(ptr(changed(7, "b", user, revision)))},
		"Long":     {changed(8, "a", long), channel.CauseKey(ptr(changed(9, "b", long)))},
		"Shell":    {changed(10, "a", v1alpha1.HopCause{Kind: v1alpha1.CauseUser, Name: "a b"}), ""},
	} {
		have := channel.CauseKey(&c.drift)
		if c.want == "" && !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(have) || c.want != "" && have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestWithCause selects the changes of one cause, and suggests a key for one that is
// unknown (KR-12-21).
func TestWithCause(t *testing.T) {
	list := many()
	found, err := withCause(list, "xdatabases-7f3")
	if err != nil || len(found) != 300 {
		t.Errorf("%d, error %v", len(found), err)
	}
	if _, err := withCause(list, "xdatabase-7f3"); err == nil || !strings.HasSuffix(err.Error(), `; did you mean "xdatabases-7f3"?`) {
		t.Errorf("error %v", err)
	}
	if _, err := withCause(list, "zzz"); err == nil || !strings.Contains(err.Error(), "; there are: external, user/user-0") {
		t.Errorf("error %v", err)
	}
	if _, err := withCause(nil, "zzz"); err == nil {
		t.Error("no error without changes")
	}
}

// TestWithoutExternal leaves out what is about external resources, and prints how to decide
// about it (KR-12-22).
func TestWithoutExternal(t *testing.T) {
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	f := driftFinder{&session{IOStreams: streams}}
	kept := f.withoutExternal(many(), &cobra.Command{Use: "approve"}, scope{args: " -A"})
	if len(kept) != 320 {
		t.Errorf("%d are kept", len(kept))
	}
	want := "Left out, since they are about external resources: 40 changes. To decide about them, name their cause:\n" +
		"  approve -A --cause external (40 changes)\n"
	if errOut.String() != want {
		t.Errorf("it prints %q", errOut)
	}
}

func printed(t *testing.T, format string, list []v1alpha1.Drift) (out, errOut *bytes.Buffer) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	c := pendingCommand{session: &session{IOStreams: streams}, limit: defaultListed}
	c.view.now = func() time.Time { return day.Add(time.Hour) }
	c.format.value = format
	require.NoError(t, c.print(list, scope{where: "in namespace team", args: " -n team"}))
	return out, errOut
}

// TestPendingNone prints an empty list as kubectl get does: [] and never null (KR-12-16).
func TestPendingNone(t *testing.T) {
	for format, want := range map[string]string{formatJSON: `"items": []`, formatYAML: "items: []"} {
		if out, _ := printed(t, format, nil); !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s, want %s in it", format, out, want)
		}
	}
}

// TestPendingNames prints no name of a Drift that does not exist (KR-12-16).
func TestPendingNames(t *testing.T) {
	drift, held := v1alpha1.Drift{}, v1alpha1.Drift{}
	drift.Name, drift.UID = "0123456789abcdef", "u1"
	held.Name = "fedcba9876543210"
	out, errOut := printed(t, formatName, []v1alpha1.Drift{held, drift})
	if want := "drift.kausality.io/0123456789abcdef\n"; out.String() != want {
		t.Errorf("names: %q, want %q", out, want)
	}
	if want := "Not listed: 1 change that"; !strings.HasPrefix(errOut.String(), want) {
		t.Errorf("standard error: %q, want %q", errOut, want)
	}
}
