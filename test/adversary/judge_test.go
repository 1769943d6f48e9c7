package adversary

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/figures"
)

// judge the invariants: from the log of the cloud, that each field of each write has an
// intent or an approval, and from the audit log those of the Secrets; from the versions in etcd,
// that each hop is a write that its user made, by the audit log, that an approval is used by the
// object that it was given for alone, that nothing has what is secret, and that
// nothing was left behind outside.
func (r *run) judge() {
	r.t.Helper()
	r.judgeCloud()
	r.judgeSecrets()
	statements := the.ledger.statements(r.ns)
	for g, h := range r.history {
		for _, name := range h.Names() {
			versions, err := h.Versions(name)
			require.NoError(r.t, err)
			for _, v := range versions {
				if v.Object != nil {
					r.judgeHops(statements, v.Object)
					r.judgeApproval(v.Object)
					r.judgeSecrecy(v.Object)
				}
			}
			if g == story.Databases && versions[len(versions)-1].Object == nil {
				r.judgeGone(name)
			}
		}
	}
	r.judgeLedger(statements)
	r.judgeReports()
}

// judgeHops: each hop, also of Crossplane and of providers, is a write that its user made. One that is unattributed has no user: what
// looks like an intent was found beside the object, as a new entry of managedFields that changes nothing (KR-01-10).
func (r *run) judgeHops(statements map[stated]bool, o *unstructured.Unstructured) {
	r.t.Helper()
	hops, err := story.Trace(o)
	if err != nil {
		r.fail("%s %s, version %s: %v", o.GetKind(), o.GetName(), o.GetResourceVersion(), err)
		return
	}
	for _, h := range hops {
		if h.Unattributed && h.User == "" {
			continue
		}
		if !statements[stated{h.User, h.Kind, h.Name, h.Generation}] {
			r.fail("%s %s has a hop of a write that %q did not make: %+v", o.GetKind(), o.GetName(), h.User, h)
		}
	}
}

// judgeSecrecy: nothing that Kausality writes into an object has what is secret.
func (r *run) judgeSecrecy(o *unstructured.Unstructured) {
	r.t.Helper()
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation) // provider-kubernetes writes it
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	raw, err := json.Marshal([]any{o.Object["metadata"], conditions})
	require.NoError(r.t, err)
	if secret(raw) {
		r.fail("%s %s has what is secret: %s", o.GetKind(), o.GetName(), raw)
	}
}

// secret reports whether a text has what is secret.
func secret(raw []byte) bool {
	return bytes.Contains(raw, []byte(kept)) || bytes.Contains(raw, []byte(encoded))
}

// judgeApproval: the approval of scratch's deletion is scratch's, and that of the composite's is used by it and what it is composed of.
func (r *run) judgeApproval(o *unstructured.Unstructured) {
	r.t.Helper()
	for name, approval := range r.approvals {
		if o.GetName() == name || name == composite && o.GetName() != r.scratch() && o.GetName() != r.prod() {
			continue
		}
		for _, key := range []string{v1alpha1.AnnotationKeyClaims, v1alpha1.AnnotationKeyTrace, v1alpha1.AnnotationKeyAllowances,
			v1alpha1.AnnotationKeyGate, v1alpha1.AnnotationKeyUsedApprovals} {
			if strings.Contains(o.GetAnnotations()[key], approval) {
				r.fail("%s %s uses the approval of %s: %s", o.GetKind(), o.GetName(), name, o.GetAnnotations()[key])
			}
		}
	}
}

// judgeGone: what is gone in the cluster is gone in the cloud, as was approved.
func (r *run) judgeGone(name string) {
	r.t.Helper()
	if !r.mayGo(name) {
		r.fail("Database %s is gone, and it was not approved", name)
		return
	}
	if _, err := the.Cloud.Get(r.t.Context(), name); err == nil {
		r.fail("Database %s was left behind in the cloud", name)
	}
}

// judgeReports: nothing that a forged review had is in any object, and nothing secret in what is reported.
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
			if reported := g == story.Drifts || g.Resource == "events"; reported && secret(raw) {
				r.fail("%s %s has what is secret: %s", o.GetKind(), o.GetName(), raw)
			}
		}
	}
}

// maxMemory of a process of Kausality, in KiB.
const maxMemory = 256 << 10

// ours are the processes that are judged.
var ours = []string{"kausality-webhook", "kausality-gate", "function-kausality"}

// judgeProcesses: none used more memory than it has or logs what is secret, and no decision took longer than
// the API server waits. It returns the figures, and whether nothing was wrong.
func judgeProcesses(t *testing.T) (of map[string]string, fine bool) {
	t.Helper()
	of, fine = map[string]string{}, true
	wrong := func(format string, args ...any) {
		t.Helper()
		fine = false
		t.Errorf(format, args...)
	}
	for _, name := range ours {
		kb, err := figures.Memory(of, strings.TrimPrefix(name, "kausality-"), the.Process(name))
		require.NoError(t, err)
		if kb > maxMemory {
			wrong("%s used %d KiB, at most %d are allowed", name, kb, maxMemory)
		}
		if err := the.Process(name).Err(); err != nil {
			wrong("%s: %v", name, err)
		}
		require.NoError(t, the.logs[name].Read(func(line []byte) error {
			if secret(line) {
				wrong("%s logs what is secret: %s", name, line)
			}
			return nil
		}))
	}
	late, err := figures.Decisions(t.Context(), of, the.metrics)
	require.NoError(t, err)
	if late > 0 {
		wrong("%d decisions took longer than %s, for which the API server waits", late, figures.Timeout)
	}
	t.Logf("%v", of)
	return of, fine
}

// answers to a user: neither a refusal nor a warning has what is secret.
type answers struct {
	http.RoundTripper
	run  *run
	user string
}

func (a *answers) RoundTrip(q *http.Request) (*http.Response, error) {
	s, err := a.RoundTripper.RoundTrip(q)
	if err != nil {
		return s, err
	}
	text := []byte(strings.Join(s.Header.Values("Warning"), "\n"))
	if s.StatusCode >= http.StatusBadRequest {
		body, err := io.ReadAll(s.Body)
		if err := errors.Join(err, s.Body.Close()); err != nil {
			return nil, err
		}
		s.Body = io.NopCloser(bytes.NewReader(body))
		text = append(text, body...)
	}
	if secret(text) {
		a.run.fail("%s %s by %s was answered with what is secret: %s", q.Method, q.URL.Path, a.user, text)
	}
	return s, nil
}
