package kubectl

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

const (
	terminals = 6
	colleague = 24
)

// parallel approvals by several terminals and many more writers lose no entry:
// not each other's, and not the one that GitOps had written, with unknown fields.
func parallel(t *testing.T) {
	db := database(t)
	gitops := `[{"apiVersion":"v1","kind":"ConfigMap","name":"settings","mode":"always","ticket":"SHOP-7"}]`
	require.NoError(t, the.Annotate(t.Context(), story.Hans, story.XDatabases, "orders", v1alpha1.AnnotationKeyApprovals, gitops))
	client, err := the.As(story.Alice)
	require.NoError(t, err)
	w := annotate.Writer{Client: client.Resource(story.XDatabases).Namespace("default"), Name: "orders"}
	var wg sync.WaitGroup
	for n := range terminals {
		wg.Go(func() {
			if r := the.pipe(t, "approve", db, "--digest", digest(n), "--mode", "always"); r.code != 0 {
				t.Errorf("terminal %d: %+v", n, r)
			}
		})
	}
	for n := range colleague {
		wg.Go(func() {
			a := v1alpha1.Approval{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("c%d", n), Mode: v1alpha1.ApprovalAlways}
			if _, err := w.Annotate(t.Context(), v1alpha1.AnnotationKeyApprovals, annotate.AddApproval(a)); err != nil {
				t.Errorf("writer %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	var list []map[string]any
	stored := annotation(t, v1alpha1.AnnotationKeyApprovals)
	require.NoError(t, json.Unmarshal([]byte(stored), &list))
	if len(list) != 1+terminals+colleague {
		t.Errorf("%d entries, want %d: %s", len(list), 1+terminals+colleague, stored)
	}
	want := []string{`"ticket":"SHOP-7"`}
	for n := range terminals {
		want = append(want, digest(n))
	}
	for n := range colleague {
		want = append(want, fmt.Sprintf(`"name":"c%d"`, n))
	}
	for _, s := range want {
		if strings.Count(stored, s) != 1 {
			t.Errorf("%s is stored %d times", s, strings.Count(stored, s))
		}
	}
	require.NoError(t, the.Annotate(t.Context(), story.Hans, story.XDatabases, "orders", v1alpha1.AnnotationKeyApprovals, nil))
}

func digest(n int) string { return fmt.Sprintf("%016x", 0xabc0+n) }
