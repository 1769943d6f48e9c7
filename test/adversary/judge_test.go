package adversary

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// judge the invariants: from the log of the cloud, that each write has an intent or
// an approval; from the versions in etcd, that no hop names a user who did not do it,
// that an approval is used by the object that it was given for alone, and that
// nothing was left behind outside.
func (r *run) judge() {
	r.t.Helper()
	r.judgeCloud()
	for g, h := range r.history {
		for _, name := range h.Names() {
			versions, err := h.Versions(name)
			require.NoError(r.t, err)
			for _, v := range versions {
				if v.Object != nil {
					r.judgeHops(v.Object)
					r.judgeApproval(v.Object)
				}
			}
			if g == story.Databases && versions[len(versions)-1].Object == nil {
				r.judgeGone(name)
			}
		}
	}
	r.judgeReports()
}

// judgeCloud: the writes that the provider sent since the adversaries began.
func (r *run) judgeCloud() {
	r.t.Helper()
	log, err := the.Cloud.Writes(r.t.Context(), r.from)
	require.NoError(r.t, err)
	for _, e := range log {
		if name := path.Base(e.Path); strings.HasPrefix(name, r.ns+"-") || name == r.managed {
			r.judgeWrite(name, e)
		}
	}
}

func (r *run) judgeWrite(name string, e cloud.Entry) {
	r.t.Helper()
	what := fmt.Sprintf("%s %s %s at %s", e.Method, name, e.Body, e.Time.Format("05.000"))
	if e.Method == http.MethodDelete {
		if !r.approved || name != r.scratch() {
			r.fail("%s: no approval was given for it", what)
		}
		return
	}
	var body struct {
		Size int64 `json:"size"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		r.fail("%s: %v", what, err)
		return
	}
	user, known := r.sizes[body.Size]
	switch {
	case !known:
		r.fail("%s: it was not requested by any user", what)
	case user == story.Hans && r.loud && (r.carried(name, mallory, body.Size, e.Time) || r.carried(name, r.ci(), body.Size, e.Time)):
		// An intent of one of them let through what Crossplane composes by now.
	case user == story.Hans:
		r.fail("%s: hans requested it before, and did not again", what)
	case !r.carried(name, user, body.Size, e.Time):
		r.fail("%s: %s requested it, and no version of the managed resource names that user", what, user)
	}
}

// lag is how old the provider's copy of a managed resource may be.
const lag = 10 * time.Second

// carried reports whether a managed resource for an external name had a size at a
// time, with a trace that names a user.
func (r *run) carried(external, user string, size int64, at time.Time) bool {
	h := r.history[story.Databases]
	for _, name := range h.Names() {
		versions, err := h.Current(name, at, lag)
		require.NoError(r.t, err)
		for _, o := range versions {
			n, _, _ := unstructured.NestedInt64(o.Object, "spec", "forProvider", "size")
			if o.GetAnnotations()["crossplane.io/external-name"] != external || n != size {
				continue
			}
			if hops, err := story.Trace(o); err == nil && slices.ContainsFunc(hops, func(h v1alpha1.Hop) bool { return h.User == user }) {
				return true
			}
		}
	}
	return false
}

// judgeHops: each hop of a user is a write that this user made.
func (r *run) judgeHops(o *unstructured.Unstructured) {
	r.t.Helper()
	hops, err := story.Trace(o)
	if err != nil {
		r.fail("%s %s, version %s: %v", o.GetKind(), o.GetName(), o.GetResourceVersion(), err)
		return
	}
	for _, h := range hops {
		switch {
		case strings.HasPrefix(h.User, "system:serviceaccount:crossplane-system:") && !strings.Contains(h.User, forgery):
		case !slices.Contains(r.ledger, entry{h.User, h.Kind, h.Name, h.Generation}):
			r.fail("%s %s has a hop of a write that %q did not make: %+v", o.GetKind(), o.GetName(), h.User, h)
		}
	}
}

// judgeApproval: the approval of scratch's deletion is scratch's.
func (r *run) judgeApproval(o *unstructured.Unstructured) {
	r.t.Helper()
	if r.approval == "" || o.GetName() == r.scratch() {
		return
	}
	for _, key := range []string{v1alpha1.AnnotationKeyClaims, v1alpha1.AnnotationKeyTrace, v1alpha1.AnnotationKeyAllowances} {
		if strings.Contains(o.GetAnnotations()[key], r.approval) {
			r.fail("%s %s uses the approval of another: %s", o.GetKind(), o.GetName(), o.GetAnnotations()[key])
		}
	}
}

// judgeGone: what is gone in the cluster is gone in the cloud, as was approved.
func (r *run) judgeGone(name string) {
	r.t.Helper()
	if !r.approved || name != r.scratch() {
		r.fail("Database %s is gone, and it was not approved", name)
		return
	}
	if _, err := the.Cloud.Get(r.t.Context(), name); err == nil {
		r.fail("Database %s was left behind in the cloud", name)
	}
}

// judgeReports: nothing that a forged review had is in any object.
func (r *run) judgeReports() {
	r.t.Helper()
	for _, g := range []schema.GroupVersionResource{story.Drifts, story.XDatabases, story.Databases, {Version: "v1", Resource: "events"}} {
		list, err := r.of("", g).List(r.t.Context(), metav1.ListOptions{})
		require.NoError(r.t, err)
		for _, o := range list.Items {
			raw, err := o.MarshalJSON()
			require.NoError(r.t, err)
			if strings.Contains(string(raw), forgery) {
				r.fail("%s %s has what a forged review had: %s", o.GetKind(), o.GetName(), raw)
			}
		}
	}
}

const (
	// maxMemory of a process of Kausality, in KiB.
	maxMemory = 256 << 10
	// timeout of the webhook configuration. On a busy machine processes wait for a
	// processor, and it counts as controlplane.Patience has it.
	timeout = 2 * time.Second
)

var decided = regexp.MustCompile(`^kausality_decision_seconds_(bucket\{le="([^"]+)"\}|count) (\d+)`)

// judgeProcesses: none used more memory than it has, and no decision took longer than
// the API server waits.
func judgeProcesses(t *testing.T) {
	t.Helper()
	for _, name := range []string{"kausality-webhook", "kausality-gate"} {
		kb := peak(t, the.Process(name).Pid())
		t.Logf("%s used at most %d MiB", name, kb>>10)
		if kb > maxMemory {
			t.Errorf("%s used %d KiB, at most %d are allowed", name, kb, maxMemory)
		}
		require.NoError(t, the.Process(name).Err())
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, the.metrics, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // The body was only read.
	var within, all int64
	limit := controlplane.Patience(timeout / 2) // which is twice as long on an idle machine
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		m := decided.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		n, err := strconv.ParseInt(m[3], 10, 64)
		require.NoError(t, err)
		if le, err := strconv.ParseFloat(m[2], 64); err == nil && le <= limit.Seconds() {
			within = n
		}
		all = n
	}
	t.Logf("%d decisions, %d of them within %s", all, within, limit)
	if all == 0 {
		t.Error("there are no decisions")
	}
	if within != all {
		t.Errorf("%d of %d decisions took longer than %s", all-within, all, limit)
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func peak(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	m := highWater.FindSubmatch(raw)
	require.NotNil(t, m, "%s", raw)
	kb, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return kb
}
