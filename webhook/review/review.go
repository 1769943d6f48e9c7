package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/internal/onepass"
	"github.com/kausality-io/function-kausality/webhook/serving"
)

const (
	// InitialBuffer is the most that is allocated for a Content-Length before the body arrives, in bytes.
	InitialBuffer = 64 << 10
	// MaxErrorLength is how much of an error goes into the log and the response, in bytes.
	MaxErrorLength = 300
)

// Review is a decoded AdmissionReview (admission.k8s.io/v1).
type Review struct {
	Uid      types.UID
	Kind     string
	Resource schema.GroupVersionResource
	// Req is never nil.
	Req *admission.Request
}

// Answerer answers the body of a review; the response has the review's UID.
type Answerer func(ctx context.Context, body []byte) ctrl.Response

// Served reviews, over HTTP. controller-runtime's handler reads each byte of them several times, which would
// be most of the time that a request waits for us. A review that finds no memory is not answered but with an HTTP
// code, for which the API server applies the failure policy (KR-13-28).
func Served(answer Answerer, limits *Inflight, log logr.Logger) http.Handler {
	busy := func(w http.ResponseWriter, err error) {
		log.Error(err, "too many reviews in flight")
		http.Error(w, err.Error()+"; try again", http.StatusServiceUnavailable)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release, err := limits.take(r.Context(), r)
		if err != nil {
			busy(w, err)
			return
		}
		defer release()
		// The API server sends a review at once. A client that sends slowly takes memory from others. The deadline ends
		// with the body, since the server cancels a request if its connection cannot be read.
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Now().Add(waitFor(r))) // only wrapped writers cannot
		body, code, err := BodyOf(w, r)
		var resp ctrl.Response
		if err != nil {
			resp = Unread(err, code, log)
			resp.UID = UIDIn(body)
		} else {
			_ = connection.SetReadDeadline(time.Now().Add(serving.ReviewTimeout))
			read, err := limits.TakeDense(r.Context(), r, body)
			if err != nil {
				busy(w, err)
				return
			}
			defer read()
			resp = answer(r.Context(), body)
		}
		out := admissionv1.AdmissionReview{Response: &resp.AdmissionResponse}
		out.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		raw, err := json.Marshal(out)
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(raw))) // net/http chunks what is longer than 2 KiB without it
			_, err = w.Write(raw)
		}
		if err != nil { // the connection is gone
			log.Error(err, "cannot answer a review", "uid", string(resp.UID))
		}
	})
}

// Once this replica knows kinds and modes, reviews are served by next. A review that comes too early is not answered but with an HTTP code, for
// which the API server applies the failure policy: that has the mode (KR-13-76).
func Once(known func(context.Context) error, next http.Handler, log logr.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := known(r.Context()); err != nil {
			log.Error(err, "cannot decide yet")
			http.Error(w, err.Error()+"; try again", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// BodyOf a request; an error comes with what was read and the HTTP code to answer.
func BodyOf(w http.ResponseWriter, r *http.Request) (body []byte, code int32, err error) {
	if t := r.Header.Get("Content-Type"); t != "application/json" {
		return nil, http.StatusBadRequest, fmt.Errorf("content type is %q, want application/json", t)
	}
	var buffer bytes.Buffer
	buffer.Grow(int(min(max(r.ContentLength, 0)+bytes.MinRead, InitialBuffer)))
	_, err = buffer.ReadFrom(http.MaxBytesReader(w, r.Body, MaxReview))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return buffer.Bytes(), http.StatusRequestEntityTooLarge, fmt.Errorf("larger than %d bytes", tooLarge.Limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return buffer.Bytes(), http.StatusBadRequest, err
	}
	return buffer.Bytes(), 0, nil
}

// Unread returns the response to a review that cannot be read. The error is logged.
func Unread(err error, code int32, log logr.Logger) ctrl.Response {
	if text := err.Error(); len(text) > MaxErrorLength {
		err = errors.New(strings.ToValidUTF8(text[:MaxErrorLength], "") + "…")
	}
	log.Error(err, "cannot read a review")
	return ctrl.Errored(code, err)
}

// Complete a response with the UID of the request and the encoded patch.
func Complete(resp ctrl.Response, uid types.UID) ctrl.Response {
	if err := resp.Complete(ctrl.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: uid}}); err != nil {
		resp = ctrl.Errored(http.StatusInternalServerError, fmt.Errorf("cannot encode the patch: %w", err))
		resp.UID = uid
	}
	return resp
}

// uidField of a request is its first, as the API server writes it.
var uidField = regexp.MustCompile(`"request":\s*\{\s*"uid":\s*"([-0-9A-Za-z]{1,64})"`)

// UIDIn the beginning of a review that cannot be read; empty where it is not found.
func UIDIn(body []byte) types.UID {
	if m := uidField.FindSubmatch(body[:min(len(body), MaxErrorLength)]); m != nil {
		return types.UID(m[1])
	}
	return ""
}

// Decode a review. With an error it returns what could be read, never nil.
func Decode(body []byte, now time.Time) (*Review, error) {
	r := &Review{Req: &admission.Request{Time: now}}
	content, err := onepass.Review(body)
	if err != nil {
		r.Uid = UIDIn(body)
		return r, fmt.Errorf("cannot decode the review: %w", err)
	}
	if v, k := text(content, "apiVersion"), text(content, "kind"); v != admissionv1.SchemeGroupVersion.String() || k != "AdmissionReview" {
		return r, fmt.Errorf("%q, %q is no AdmissionReview of %s", v, k, admissionv1.SchemeGroupVersion)
	}
	request := Child(content, "request")
	if request == nil {
		return r, errors.New("the review has no request")
	}
	kind, resource := Child(request, "kind"), Child(request, "resource")
	r.Uid, r.Kind = types.UID(text(request, "uid")), text(kind, "kind")
	r.Resource = schema.GroupVersionResource{Group: text(resource, "group"), Version: text(resource, "version"), Resource: text(resource, "resource")}
	dryRun, _ := request["dryRun"].(bool)
	*r.Req = admission.Request{
		Operation: admission.Operation(text(request, "operation")), Subresource: text(request, "subResource"),
		Namespace: text(request, "namespace"), Name: text(request, "name"), Time: now, DryRun: dryRun,
		Kind: schema.GroupVersionKind{Group: text(kind, "group"), Version: text(kind, "version"), Kind: r.Kind},
		User: userOf(Child(request, "userInfo")), Object: objectOf(request, "object"), OldObject: objectOf(request, "oldObject"),
	}
	options := Child(request, "options")
	if r.Req.Operation == admission.Delete {
		old, _ := options["orphanDependents"].(bool)
		r.Req.Orphans = old || text(options, "propagationPolicy") == string(metav1.DeletePropagationOrphan)
	} else {
		r.Req.FieldManager = text(options, "fieldManager")
	}
	return r, check(r.Req)
}

// check that a request has the objects of its operation, and drop the others.
func check(req *admission.Request) error {
	switch req.Operation {
	case admission.Create:
		req.OldObject = nil
	case admission.Update:
		if req.OldObject == nil {
			return errors.New("an UPDATE without oldObject")
		}
	case admission.Delete:
		req.Object = nil
		if req.OldObject == nil {
			return errors.New("a DELETE without oldObject")
		}
		return nil
	default:
		return fmt.Errorf("operation %q is not handled", req.Operation)
	}
	if req.Object == nil {
		return fmt.Errorf("a %s without object", req.Operation)
	}
	return nil
}

// userOf a review's userInfo.
func userOf(info map[string]any) subject.User {
	u := subject.User{Name: text(info, "username"), UID: text(info, "uid"), Groups: texts(info["groups"])}
	for k, v := range Child(info, "extra") {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[k] = texts(v)
	}
	return u
}

// objectOf returns an object of a review; nil if the review has no such object.
func objectOf(request map[string]any, key string) *unstructured.Unstructured {
	if content := Child(request, key); content != nil {
		return &unstructured.Unstructured{Object: content}
	}
	return nil
}

// Child returns the object in a field; nil if the field has no object.
func Child(m map[string]any, key string) map[string]any {
	out, _ := m[key].(map[string]any)
	return out
}

// text returns the string in a field; "" if the field has no string.
func text(m map[string]any, key string) string {
	out, _ := m[key].(string)
	return out
}

// texts returns the strings in a list, without its other elements.
func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
