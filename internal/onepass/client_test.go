package onepass

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var things = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}

// clients of a server that answers every request with a body: client-go's and ours.
func clients(t *testing.T, status int, body string) (theirs, ours dynamic.Interface) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		for _, part := range []string{body[:len(body)/2], body[len(body)/2:]} { // frames end anywhere
			_, _ = w.Write([]byte(part))
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(srv.Close)
	config := &rest.Config{Host: srv.URL}
	theirs, err := dynamic.NewForConfigAndClient(config, srv.Client())
	require.NoError(t, err)
	ours, err = NewClient(config, srv.Client())
	require.NoError(t, err)
	return theirs, ours
}

const (
	full   = `{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"a","labels":{},"generation":3},"spec":{"size":1.5,"items":null}}`
	failed = `{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Failure","message":"it is too old","reason":"Expired","code":410}`
)

// TestWatch: events, and how a stream ends, are as client-go has them.
func TestWatch(t *testing.T) {
	long := strings.Replace(full, `"a"`, `"`+strings.Repeat("n", 40_000)+`"`, 1)
	for name, stream := range map[string]string{
		"Events": `{"type":"ADDED","object":` + full + "}\n" + `{"object":` + long + `,"type":"MODIFIED"}{"type":"DELETED","object":` + full + `}`,
		"Bookmark": `{"type":"BOOKMARK","object":{"kind":"Thing","apiVersion":"example.org/v1","metadata":{"resourceVersion":"7",` +
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		"Error":         `{"type":"ERROR","object":` + failed + `}`,
		"OtherFields":   `{"more":[{}],"t\u0079pe":"ADDED","object":` + full + `}`,
		"FieldsAfter":   `{"type":"ADDED","object":` + full + `,"more":{}}`,
		"EscapedType":   `{"type":"ADD\u0045D","object":` + full + `}`,
		"NotTheType":    `{"type":"ADDED","more":{"a":"","object":1},"object":` + full + `}`,
		"Pretty":        "{\n  \"type\": \"ADDED\",\n  \"object\": " + full + "\n}\n",
		"Empty":         ``,
		"Ends":          `{"type":"ADDED","object":` + full + "}\n" + `{"type":"ADDED","object":{"apiVersion":"exa`,
		"UnknownType":   `{"type":"RENAMED","object":` + full + `}`,
		"NoObject":      `{"type":"ADDED"}`,
		"NoKind":        `{"type":"ADDED","object":{"apiVersion":"example.org/v1"}}`,
		"NoVersion":     `{"type":"ADDED","object":{"kind":"Thing"}}`,
		"CoreKind":      `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}}`,
		"List":          `{"type":"ADDED","object":{"apiVersion":"example.org/v1","kind":"Thing","items":[]}}`,
		"ObjectNoMap":   `{"type":"ADDED","object":[1]}`,
		"NoEvent":       `[1]`,
		"TypeNoText":    `{"type":1,"object":` + full + `}`,
		"InvalidObject": `{"type":"ADDED","object":{"apiVersion":"example.org/v1","kind":"Thing","n":1e999}}`,
	} {
		t.Run(name, func(t *testing.T) {
			theirs, ours := clients(t, http.StatusOK, stream)
			require.Equal(t, watched(t, theirs), watched(t, ours))
		})
	}
}

// TestWatchNoJSON: a stream that is no JSON ends with an error, after the events before that.
func TestWatchNoJSON(t *testing.T) {
	_, ours := clients(t, http.StatusOK, `{"type":"ADDED","object":`+full+`}{"type":}`)
	got := watched(t, ours)
	require.Len(t, got, 2)
	require.Equal(t, "ERROR", got[1].kind)
	require.Contains(t, got[1].object.(*metav1.Status).Message, "unable to decode an event from the watch stream: jsontext: invalid character '}'")
}

// seen is an event.
type seen struct {
	kind   string
	object any
}

// watched events until the stream ends.
func watched(t *testing.T, c dynamic.Interface) (out []seen) {
	t.Helper()
	w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer w.Stop()
	for e := range w.ResultChan() {
		out = append(out, seen{kind: string(e.Type), object: e.Object})
	}
	return out
}

// TestResponses: objects, lists and errors are as client-go has them, and no part of an object is shared.
func TestResponses(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
	}{
		"Object": {status: http.StatusOK, body: full},
		"List":   {status: http.StatusOK, body: `{"apiVersion":"example.org/v1","kind":"ThingList","metadata":{"resourceVersion":"7"},"items":[` + full + `]}`},
		"Error":  {status: http.StatusGone, body: failed},
		"Status": {status: http.StatusOK, body: strings.Replace(failed, "Failure", "Success", 1)},
		"NoKind": {status: http.StatusOK, body: `{"apiVersion":"example.org/v1"}`},
		"NoJSON": {status: http.StatusOK, body: `{"apiVersion":"example.org/v1",`},
	} {
		t.Run(name, func(t *testing.T) {
			theirs, ours := clients(t, tc.status, tc.body)
			require.Equal(t, answers(t, theirs), answers(t, ours))
		})
	}
	_, ours := clients(t, http.StatusOK, `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{},"annotations":{}}}`)
	o, err := ours.Resource(things).Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(o.Object, "x", "metadata", "labels", "x"))
	require.Empty(t, o.GetAnnotations())
}

// answers to requests of each kind.
func answers(t *testing.T, c dynamic.Interface) (out []string) {
	t.Helper()
	r := c.Resource(things)
	got, err := r.Get(t.Context(), "a", metav1.GetOptions{})
	out = append(out, fmt.Sprintf("%#v %v", got, err))
	list, err := r.List(t.Context(), metav1.ListOptions{})
	out = append(out, fmt.Sprintf("%#v %v", list, err))
	got, err = r.Patch(t.Context(), "a", "application/merge-patch+json", []byte(`{}`), metav1.PatchOptions{})
	out = append(out, fmt.Sprintf("%#v %v", got, err))
	return append(out, fmt.Sprint(r.Delete(t.Context(), "a", metav1.DeleteOptions{})))
}
