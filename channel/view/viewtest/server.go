package viewtest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

// served resources of the API server, by group and version.
var served = map[string][]metav1.APIResource{
	"v1":                      {{Name: "namespaces", Kind: "Namespace"}, {Name: "secrets", Kind: "Secret", Namespaced: true}},
	"apiextensions.k8s.io/v1": {{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
	"example.org/v1":          {{Name: "shops", Kind: "Shop", Namespaced: true, Categories: []string{"composite"}}},
	"cloud.example.org/v1":    {{Name: "databases", Kind: "Database", Namespaced: true, Categories: []string{"managed"}}},
	"kausality.io/v1alpha1": {{Name: "drifts", Kind: "Drift", Namespaced: true}, {Name: "kausalities", Kind: "Kausality"},
		{Name: "approvalrules", Kind: "ApprovalRule"}},
	"pkg.crossplane.io/v1":            {{Name: "functionrevisions", Kind: "FunctionRevision"}},
	"admissionregistration.k8s.io/v1": {{Name: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration"}},
}

// Server stores objects by path, and serves GET, lists and JSON patches of them.
type Server struct {
	// Mu guards all fields.
	Mu        sync.Mutex
	Objects   map[string]map[string]any
	Forbidden func(method, path string) bool
	// away: it refuses connections. Patches counts those that were stored, Manager is the field manager of the last.
	away    bool
	Patches int
	Manager string
	// version of what was stored last.
	version int
	// Lists of Drifts, and watches of them that are open, by the path that is watched.
	Lists   int
	watches map[chan []byte]string
	// watching is raised when a watch has begun, and when one has ended.
	watching await.Signal
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	switch o := s.Objects[path]; {
	case s.Forbidden != nil && s.Forbidden(r.Method, path):
		failure(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case strings.HasSuffix(path, "/selfsubjectreviews"):
		reply(w, http.StatusCreated, authv1.SelfSubjectReview{Status: authv1.SelfSubjectReviewStatus{UserInfo: authv1.UserInfo{Username: "hans"}}})
	case r.Method == http.MethodPost:
		s.create(w, r, path)
	case o != nil && r.Method == http.MethodPatch:
		s.patch(w, r, path)
	case o != nil:
		reply(w, http.StatusOK, o)
	case served[path] != nil:
		reply(w, http.StatusOK, metav1.APIResourceList{GroupVersion: path, APIResources: served[path]})
	case r.URL.Path == "/api":
		reply(w, http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		reply(w, http.StatusOK, groups())
	default:
		if strings.HasSuffix(path, "/drifts") {
			s.Lists++
		}
		if list := s.list(path); list != nil {
			reply(w, http.StatusOK, list)
			return
		}
		failure(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// store stores an object at a path; nil removes it. Mu is held.
func (s *Server) store(path string, o map[string]any) {
	if o == nil {
		delete(s.Objects, path)
		return
	}
	s.Objects[path] = o
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone
}

func failure(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	reply(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: string(reason) + " by the test",
	})
}

// patch patches an object.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, path string) {
	raw, _ := io.ReadAll(r.Body)
	have, _ := json.Marshal(s.Objects[path])
	p, err := jsonpatch.DecodePatch(raw)
	if err == nil {
		have, err = p.Apply(have)
	}
	if err != nil {
		failure(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return
	}
	next := map[string]any{}
	_ = json.Unmarshal(have, &next)
	s.store(path, next)
	s.Manager = r.URL.Query().Get("fieldManager")
	s.Patches++
	reply(w, http.StatusOK, next)
}

// list returns the list of a resource; nil where it is not served.
func (s *Server) list(path string) map[string]any {
	for gv, resources := range served {
		for _, r := range resources {
			rest, is := strings.CutPrefix(path, gv+"/")
			if in := strings.SplitN(rest, "/", 3); is && in[0] == "namespaces" && len(in) == 3 {
				rest = in[2]
			}
			if !is || rest != r.Name {
				continue
			}
			items := []any{}
			for p, o := range s.Objects {
				if strings.HasPrefix(p, gv+"/") && o["kind"] == r.Kind && (!strings.Contains(path, "/namespaces/") || strings.HasPrefix(p, path)) {
					items = append(items, o)
				}
			}
			return map[string]any{"apiVersion": gv, "kind": r.Kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
		}
	}
	return nil
}

func groups() metav1.APIGroupList {
	var out metav1.APIGroupList
	for gv := range served {
		if group, version, ok := strings.Cut(gv, "/"); ok {
			v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
			out.Groups = append(out.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
	}
	return out
}

// Put stores a Drift.
func (s *Server) Put(t *testing.T, d *v1alpha1.Drift) {
	t.Helper()
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	require.NoError(t, err)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.version++
	(&unstructured.Unstructured{Object: o}).SetResourceVersion(strconv.Itoa(s.version))
	s.store("kausality.io/v1alpha1/namespaces/"+d.Namespace+"/drifts/"+d.Name, o)
	s.report(t, "MODIFIED", o)
}

// Remove removes a Drift.
func (s *Server) Remove(t *testing.T, d *v1alpha1.Drift) {
	t.Helper()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	path := "kausality.io/v1alpha1/namespaces/" + d.Namespace + "/drifts/" + d.Name
	s.report(t, "DELETED", s.Objects[path])
	s.store(path, nil)
}

// report sends an event of a Drift to the watches. mu is held.
func (s *Server) report(t *testing.T, kind string, o map[string]any) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"type": kind, "object": o})
	require.NoError(t, err)
	for c, path := range s.watches {
		if !strings.Contains(path, "/namespaces/") || strings.Contains(path, "/namespaces/team/") {
			c <- raw
		}
	}
}

// watch watches Drifts; initial events are not served, so that clients list first.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	s.Mu.Lock()
	path := strings.TrimPrefix(r.URL.Path, "/apis/")
	switch {
	case r.URL.Query().Get("sendInitialEvents") != "":
		failure(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		s.Mu.Unlock()
		return
	case s.Forbidden != nil && s.Forbidden(r.Method, path):
		failure(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		s.Mu.Unlock()
		return
	}
	c := make(chan []byte, 100)
	if s.watches == nil {
		s.watches = map[chan []byte]string{}
	}
	s.watches[c] = path
	s.Mu.Unlock()
	s.watching.Raise()
	defer func() {
		s.Mu.Lock()
		delete(s.watches, c)
		s.Mu.Unlock()
		s.watching.Raise()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case raw := <-c:
			if _, err := w.Write(raw); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

// AwaitWatches waits until n watches are open.
func (s *Server) AwaitWatches(t *testing.T, n int) {
	t.Helper()
	s.watching.Until(t, strconv.Itoa(n)+" watches", func() bool {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return len(s.watches) == n
	})
}

// roundTripper refuses requests while the API server is away.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap wraps a transport of its clients.
func (s *Server) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		s.Mu.Lock()
		away := s.away
		s.Mu.Unlock()
		if away {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return next.RoundTrip(r)
	})
}

// Annotations returns the annotations of an object.
func (s *Server) Annotations(path string) map[string]string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return (&unstructured.Unstructured{Object: s.Objects[path]}).GetAnnotations()
}

// Annotate annotates an object.
func (s *Server) Annotate(path, key, value string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	o := &unstructured.Unstructured{Object: s.Objects[path]}
	a := o.GetAnnotations()
	a[key] = value
	o.SetAnnotations(a)
}

// SetAway sets whether the API server is away.
func (s *Server) SetAway(away bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.away = away
}

// create creates an object.
func (s *Server) create(w http.ResponseWriter, r *http.Request, path string) {
	o := map[string]any{}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		failure(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	path += "/" + (&unstructured.Unstructured{Object: o}).GetName()
	if s.Objects[path] != nil {
		failure(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	}
	s.store(path, o)
	s.Manager = r.URL.Query().Get("fieldManager")
	reply(w, http.StatusCreated, o)
}

// Object returns the object at a path.
func (s *Server) Object(path string) map[string]any {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Objects[path]
}
