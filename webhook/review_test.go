package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// with another value at a path of a review.
func with(t *testing.T, body []byte, value any, path ...string) []byte {
	t.Helper()
	var review map[string]any
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	at := review
	for _, p := range path[:len(path)-1] {
		at = at[p].(map[string]any)
	}
	at[path[len(path)-1]] = value
	out, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecode(t *testing.T) {
	body := update(t, thing(1), thing(2))
	body = with(t, body, "scale", "request", "subResource")
	body = with(t, body, true, "request", "dryRun")
	user := map[string]any{"username": "hans", "uid": "u1", "groups": []string{"a", "b"}, "extra": map[string]any{"scopes": []string{"x", "y"}}}
	body = with(t, body, user, "request", "userInfo")
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	r, err := review.Decode(body, noon)
	if err != nil {
		t.Fatal(err)
	}
	var want admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &want); err != nil {
		t.Fatal(err)
	}
	q, got := want.Request, r.Req
	if r.Uid != q.UID || r.Kind != q.Kind.Kind ||
		r.Resource.Resource != q.Resource.Resource || r.Resource.Group != q.Resource.Group || r.Resource.Version != q.Resource.Version {
		t.Errorf("%+v", r)
	}
	if got.Kind.Group != q.Kind.Group || got.Kind.Version != q.Kind.Version || got.Kind.Kind != q.Kind.Kind || got.Subresource != q.SubResource ||
		got.Name != q.Name || got.Namespace != q.Namespace || got.Operation != admission.Update || !got.DryRun || got.FieldManager != "kubectl" || got.Time != noon {
		t.Errorf("%+v", got)
	}
	if got.User.Name != "hans" || got.User.UID != "u1" || !reflect.DeepEqual(got.User.Groups, q.UserInfo.Groups) ||
		!reflect.DeepEqual(got.User.Extra, map[string][]string{"scopes": {"x", "y"}}) {
		t.Errorf("%+v", got.User)
	}
	for raw, o := range map[string]map[string]any{string(q.Object.Raw): got.Object.Object, string(q.OldObject.Raw): got.OldObject.Object} {
		var content map[string]any
		if err := kjson.Unmarshal([]byte(raw), &content); err != nil || !reflect.DeepEqual(o, content) {
			t.Errorf("%v, %v", o, content)
		}
	}
}

// What a DELETE does to the dependents is read of its options, in both forms.
func TestDecodeOrphans(t *testing.T) {
	for options, want := range map[string]bool{
		`{}`: false, `{"propagationPolicy":"Background"}`: false, `{"propagationPolicy":"Orphan"}`: true,
		`{"orphanDependents":true}`: true, `{"orphanDependents":"x"}`: false,
	} {
		var value map[string]any
		if err := json.Unmarshal([]byte(options), &value); err != nil {
			t.Fatal(err)
		}
		body := with(t, with(t, update(t, thing(1), thing(1)), "DELETE", "request", "operation"), value, "request", "options")
		if r, err := review.Decode(body, time.Now()); err != nil || r.Req.Orphans != want || r.Req.FieldManager != "" {
			t.Errorf("%s: %+v, %v", options, r.Req, err)
		}
	}
}

// What is no review is refused with what is wrong with it, and under its UID where
// that could be read.
// asSent by the API server: a review with its fields in the order of the type.
func asSent(t *testing.T, body []byte) []byte {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNoReview(t *testing.T) {
	h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard()}}
	body := update(t, thing(1), thing(2))
	const uid = "705ab4f5-6393-11e8-b7cc-42010a800002"
	for name, tc := range map[string]struct {
		body        []byte
		contentType string
		code        int32
		uid         string
		message     string
	}{
		"Garbage":       {[]byte("{"), "", 400, "", "cannot decode the review"},
		"OtherVersion":  {with(t, body, "admission.k8s.io/v1beta1", "apiVersion"), "", 400, "", "no AdmissionReview of admission.k8s.io/v1"},
		"OtherKind":     {with(t, body, "Pod", "kind"), "", 400, "", `"Pod" is no AdmissionReview`},
		"NoRequest":     {with(t, body, nil, "request"), "", 400, "", "the review has no request"},
		"NoOldObject":   {with(t, body, nil, "request", "oldObject"), "", 400, uid, "an UPDATE without oldObject"},
		"NoObject":      {with(t, body, nil, "request", "object"), "", 400, uid, "a UPDATE without object"},
		"NothingStored": {with(t, with(t, body, "DELETE", "request", "operation"), nil, "request", "oldObject"), "", 400, uid, "a DELETE without oldObject"},
		"Connect":       {with(t, body, "CONNECT", "request", "operation"), "", 400, uid, `operation "CONNECT" is not handled`},
		"Endless":       {with(t, body, strings.Repeat("CONNECT", 1000), "request", "operation"), "", 400, uid, `operation "CONNECTCONNECT`},
		"HalfAReview":   {asSent(t, body)[:len(body)/2], "", 400, uid, "cannot decode the review"},
		"NoJSON":        {body, "application/yaml", 400, "", `content type is "application/yaml"`},
		"TooLarge":      {bytes.Repeat([]byte(" "), review.MaxReview+1), "", 413, "", "larger than 41943040 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			before := counted()
			for _, answer := range []review.Answerer{h.answer, StatusHandler{h}.answer} {
				resp := post(t, answer, tc.body, tc.contentType)
				if n := len(resp.Result.Message); n > review.MaxErrorLength+3 {
					t.Errorf("%d bytes are answered", n)
				}
				if resp.Allowed || resp.Result.Code != tc.code || string(resp.UID) != tc.uid || !strings.Contains(resp.Result.Message, tc.message) {
					t.Errorf("%+v %+v", resp, resp.Result)
				}
			}
			if after := counted(); after != before {
				t.Error("it was counted as a decision")
			}
		})
	}
}

// counted kinds of decisions.
func counted() int {
	all, _ := metrics.Registry.Gather()
	for _, f := range all {
		if f.GetName() == "kausality_decisions_total" {
			return len(f.GetMetric())
		}
	}
	return 0
}

// The length that a client announces takes no memory.
func TestForeseen(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mutate", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = review.MaxReview
	body, _, err := review.BodyOf(httptest.NewRecorder(), r)
	if err != nil || string(body) != "{}" || cap(body) > 2*review.InitialBuffer {
		t.Errorf("%q in %d bytes, error %v", body, cap(body), err)
	}
}

// panicking is a World that fails wherever a kind is read, also where a decision is counted.
type panicking struct{ emptyWorld }

func (panicking) Kind(schema.GroupVersionKind) identity.Kind { panic("oops") }

// An internal error, wherever it is, is answered as the mode requires (KR-13-02).
func TestPanics(t *testing.T) {
	for mode, want := range map[v1alpha1.Mode]int32{v1alpha1.ModeEnforce: 500, v1alpha1.ModeLog: 200} {
		h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: panicking{}, Options: admission.Options{DefaultMode: mode}},
			Memory: settler.NewMemory(), Log: logr.Discard()}}
		resp := post(t, h.answer, update(t, thing(1), thing(2)), "")
		if resp.UID == "" || resp.Allowed != (want == 200) || resp.Result.Code != want {
			t.Errorf("%s: %+v %+v", mode, resp, resp.Result)
		}
		if resp := post(t, StatusHandler{h}.answer, update(t, thing(1), thing(1)), ""); !resp.Allowed || resp.UID == "" {
			t.Errorf("%+v", resp)
		}
	}
}

// Whatever happens to what is noted, the status is written (KR-05-26, KR-13-02).
func TestStatusAlways(t *testing.T) {
	h := &Handler{&decider.Decider{
		Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard(),
		StatusReviewed: func(*admission.Request) { panic("oops") },
	}}
	if resp := post(t, StatusHandler{h}.answer, update(t, thing(1), thing(1)), ""); !resp.Allowed || resp.UID == "" {
		t.Errorf("%+v", resp)
	}
}

// What a write of a status changes of our metadata is restored, in a dry-run too, and
// whatever happens to what is noted (KR-13-16).
func TestStatusRestores(t *testing.T) {
	h := &Handler{&decider.Decider{
		Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard(),
		StatusReviewed: func(*admission.Request) { panic("oops") },
	}}
	stored, incoming := thing(1), thing(1)
	annotations := func(o map[string]any) map[string]any { return review.Child(review.Child(o, "metadata"), "annotations") }
	annotations(stored)["kausality.io/claims"], annotations(incoming)["kausality.io/freeze"] = "[]", "true"
	const want = `[{"op":"add","path":"/metadata/annotations/kausality.io~1claims","value":"[]"},` +
		`{"op":"remove","path":"/metadata/annotations/kausality.io~1freeze"}]`
	for _, dryRun := range []bool{false, true} {
		body := with(t, update(t, stored, incoming), dryRun, "request", "dryRun")
		if resp := post(t, StatusHandler{h}.answer, body, ""); !resp.Allowed || string(resp.Patch) != want {
			t.Errorf("dry-run %t: allowed %t, patch %s", dryRun, resp.Allowed, resp.Patch)
		}
	}
}

// post a review; the answer is what the API server reads.
func post(t *testing.T, answer review.Answerer, body []byte, contentType string) *admissionv1.AdmissionResponse {
	t.Helper()
	if contentType == "" {
		contentType = "application/json"
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mutate", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	review.Served(answer, review.NewInflight(), logr.Discard()).ServeHTTP(w, r)
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(w.Body).Decode(&review); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusOK || review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Response == nil {
		t.Fatalf("%d %+v", w.Code, review)
	}
	return review.Response
}

// A change is answered with the patch that writes the trace.
func TestServed(t *testing.T) {
	h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard()}}
	resp := post(t, h.answer, update(t, thing(1), thing(2)), "")
	if !resp.Allowed || resp.UID == "" || *resp.PatchType != admissionv1.PatchTypeJSONPatch ||
		!bytes.Contains(resp.Patch, []byte("kausality.io~1trace")) || resp.AuditAnnotations["class"] != string(outcome.ClassNewOrigin) {
		t.Errorf("%+v", resp)
	}
}

// TestSlowDecision: the deadline of a body is none of the decision, which has the time
// that the API server gives it (KR-13-28).
func TestSlowDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: review.Served(func(ctx context.Context, _ []byte) ctrl.Response {
			select {
			case <-ctx.Done():
				return ctrl.Denied("it was cancelled")
			case <-time.After(review.MaxWait + 200*time.Millisecond): //nolint:forbidigo // The time of a bubble.
				return ctrl.Allowed("")
			}
		}, review.NewInflight(), logr.Discard())}
		l := pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		client := l.dial()
		_, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		require.NoError(t, err)
		answer, err := io.ReadAll(client)
		require.NoError(t, err)
		assert.Contains(t, string(answer), `"allowed":true`)
		require.NoError(t, server.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}
