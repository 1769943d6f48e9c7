package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestForgedReviews: a client that is not the API server reaches a webhook that requires
// no client certificate. Nothing that it sends is learnt, recorded, claimed or
// answered with what a parent holds (KR-13-20, KR-13-21, KR-13-22, KR-13-23).
func TestForgedReviews(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "forged", options{replicas: 1})
	s := newFixture(t, f, "forged")
	s.settled("part")
	for _, tc := range []struct {
		name  string
		forge func(*fixture, *testing.T)
	}{{"Drifts", (*fixture).forgeDrifts}, {"Trace", (*fixture).forgeForTrace}, {"Statuses", (*fixture).forgeStatuses}} {
		t.Run(tc.name, func(t *testing.T) {
			our := *s
			our.t = t
			tc.forge(&our, t)
		})
	}
}

// TestForgedClaims: see TestForgedReviews; an approval is left for whom it is meant.
func TestForgedClaims(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "forgedclaims", options{replicas: 1})
	t.Run("Update", func(t *testing.T) { t.Parallel(); newFixture(t, f, "forged-update").forgeUpdate(t) })
	t.Run("NamelessCreate", func(t *testing.T) { t.Parallel(); newFixture(t, f, "forged-create").forgeCreate(t) })
}

// forgeStatuses: five users who write no status do not displace the controller that does.
func (s *fixture) forgeStatuses(t *testing.T) {
	before := s.get()
	for i := range 5 {
		after := before.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(after.Object, fmt.Sprint("forged ", i), "status", "message"))
		s.forge("/status", fmt.Sprint("forger-", i), "UPDATE", before, after)
		s.forge("/status", fmt.Sprint("copier-", i), "UPDATE", outdated(before), before) // what is stored
	}
	want := before.GetAnnotations()[v1alpha1.AnnotationKeyControllers]
	s.status("True") // a real one, which has the record written if it is to be
	wait.Pause(t, 2*time.Second)
	if got := s.get().GetAnnotations()[v1alpha1.AnnotationKeyControllers]; got != want {
		t.Errorf("after forged reviews the controllers are %q, want %q", got, want)
	}
	mustRefuse(t, s.count(s.ctrl, "part", 77), "Drift")
	forger := the.as(t, "forger-1")
	s.forge("/status", "forger-1", "UPDATE", s.get(), s.get())
	mustRefuse(t, s.count(s.ctrl, "part", 78), "Drift")
	require.NoError(t, s.count(forger, "part", 1), "who is no controller has intents of its own")
}

// forgeDrifts of an object that is another one, or has another version, than what is stored.
func (s *fixture) forgeDrifts(t *testing.T) {
	part := s.read("part")
	gone := part.DeepCopy()
	gone.SetName("no-such-part")
	other := part.DeepCopy()
	other.SetUID("00000000-0000-0000-0000-000000000000")
	stale := outdated(part)
	require.NoError(t, unstructured.SetNestedField(stale.Object, int64(4711), "spec", "count"))
	for _, old := range []*unstructured.Unstructured{gone, other, stale} {
		s.forge("/mutate", controller, "UPDATE", old, s.changed(old, "forged-text"))
		s.forge("/mutate", controller, "DELETE", old, nil)
	}
	wait.Pause(t, 2*time.Second)
	list, err := s.hans.Resource(drifts).Namespace(s.ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, d := range list.Items {
		if raw, _ := json.Marshal(d.Object); strings.Contains(string(raw), "forged-text") || strings.Contains(string(raw), "4711") ||
			strings.Contains(string(raw), "no-such-part") {
			t.Errorf("a forged Drift is recorded: %s", raw)
		}
	}
}

// forgeForTrace: the answer to a review does not hold what a parent holds, such as who made its intent, where the
// review does not name the parent's UID, which only those know who may read it or its children.
func (s *fixture) forgeForTrace(t *testing.T) {
	s.intent(2)
	defer func() { s.observe(); s.awaitLatch() }()
	part := s.read("part")
	part.SetAnnotations(map[string]string{"kausality.io/mode": "log"})
	answered := func(old, o *unstructured.Unstructured) string {
		operation := "UPDATE"
		if old == nil {
			operation = "CREATE"
		}
		answer := s.forge("/mutate", controller, operation, old, o)
		return answer + patchOf(t, answer)
	}
	owned := s.owned(object(s.name, "Part", s.ns, "new", map[string]any{"count": int64(1)}))
	owned.SetAnnotations(part.GetAnnotations())
	if answer := answered(nil, owned); !strings.Contains(answer, hans) {
		t.Errorf("the test shows nothing: %s", answer)
	}
	for _, uid := range []types.UID{"", "00000000-0000-0000-0000-000000000000"} {
		guessed := part.DeepCopy()
		owners := guessed.GetOwnerReferences()
		owners[0].UID = uid
		guessed.SetOwnerReferences(owners)
		created := guessed.DeepCopy()
		created.SetName("new")
		for _, old := range []*unstructured.Unstructured{guessed, nil} {
			if answer := answered(old, s.changed(created, "x")); strings.Contains(answer, hans) {
				t.Errorf("with UID %q the answer is %s", uid, answer)
			}
		}
	}
	app := s.get() // which is watched: an object of another UID is not even decided
	app.SetUID("00000000-0000-0000-0000-000000000000")
	if answer := answered(app, s.changed(app, "x")); !strings.Contains(answer, "try again") {
		t.Errorf("an object of another UID is answered with %s", answer)
	}
}

// patchOf an answer, decoded; "" for none.
func patchOf(t *testing.T, answer string) string {
	t.Helper()
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal([]byte(answer), &review))
	return string(review.Response.Patch)
}

// forgeUpdate of a version that is not stored: it does not hold the claim that the
// controller is to have.
func (s *fixture) forgeUpdate(t *testing.T) {
	s.settled("part", "other")
	s.wildcard(1)
	for _, name := range []string{"part", "other", "none"} {
		old := s.read("part")
		old.SetName(name)
		s.forge("/mutate", controller, "UPDATE", outdated(old), s.changed(outdated(old), "forged"))
	}
	if pending := s.claims(v1alpha1.ClaimPending); pending != 0 {
		t.Errorf("forged reviews hold %d claims", pending)
	}
	require.NoError(t, s.count(s.ctrl, "part", 5))
	s.finished(1)
}

// forgeCreate without a name: the claim is returned, and what was approved can be done.
func (s *fixture) forgeCreate(t *testing.T) {
	s.settled("part")
	s.wildcard(1)
	forged := s.owned(object(s.name, "Part", s.ns, "", map[string]any{"count": int64(1)}))
	forged.SetGenerateName("new-")
	s.forge("/mutate", controller, "CREATE", nil, forged)
	wait.For(t, "the claim to be returned", finishing, func(context.Context) error {
		if pending := s.claims(v1alpha1.ClaimPending); pending != 0 {
			return fmt.Errorf("%d claims are pending", pending)
		}
		return nil
	})
	if used := s.claims(v1alpha1.ClaimUsed); used != 0 || s.get().GetAnnotations()[v1alpha1.AnnotationKeyApprovals] == "" {
		t.Fatalf("a forged creation used the approval: %s", s.dump())
	}
	_, err := s.of(s.ctrl).Create(t.Context(), forged, metav1.CreateOptions{})
	require.NoError(t, err)
	s.finished(1)
}

// forge a review of a user's request, past the API server, and return the answer.
func (s *fixture) forge(path, user, operation string, before, after *unstructured.Unstructured) string {
	s.t.Helper()
	o := after
	if o == nil {
		o = before
	}
	gvk := o.GroupVersionKind()
	resource := strings.ToLower(gvk.Kind) + "s"
	request := map[string]any{
		"uid": fmt.Sprint(time.Now().UnixNano()), "operation": operation, "name": o.GetName(), "namespace": o.GetNamespace(),
		"kind":     map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
		"resource": map[string]any{"group": gvk.Group, "version": gvk.Version, "resource": resource},
		"userInfo": map[string]any{"username": user, "groups": []string{"system:authenticated", "system:masters"}},
		"options":  map[string]any{"fieldManager": "forger"},
	}
	if path == "/status" {
		request["subResource"] = "status"
	}
	if before != nil {
		request["oldObject"] = before.Object
	}
	if after != nil {
		request["object"] = after.Object
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	require.NoError(s.t, err)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // As curl -k does.
	}}}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.replicas[0].url+path, bytes.NewReader(raw))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close() //nolint:errcheck // It is read.
	answer, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return string(answer)
}

// read a part.
func (s *fixture) read(name string) *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.of(s.hans).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return o
}

// outdated is an object at a version that it does not have.
func outdated(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetResourceVersion("1")
	return o
}

// changed part: another count, and a text of the client's choice.
func (s *fixture) changed(o *unstructured.Unstructured, text string) *unstructured.Unstructured {
	s.t.Helper()
	o = o.DeepCopy()
	require.NoError(s.t, unstructured.SetNestedField(o.Object, int64(99), "spec", "count"))
	require.NoError(s.t, unstructured.SetNestedField(o.Object, text, "spec", "text"))
	return o
}
