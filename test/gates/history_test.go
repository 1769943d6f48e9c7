package gates

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

type metav1GVR = schema.GroupVersionResource

// history of all versions of the Databases of a Namespace, as the watch has them,
// across restarts of the API server: it goes on where it was.
type history struct {
	mu       sync.Mutex
	versions map[string][]version
	from     int64 // of the cloud's log
}

type version struct {
	seen   time.Time
	object *unstructured.Unstructured // nil once it is gone
}

func (s *site) record() *history {
	h := &history{versions: map[string][]version{}, from: s.seq()}
	list, err := s.of(s.hans, databases).List(s.t.Context(), metav1.ListOptions{})
	must(s.t, err)
	at, ctx := list.GetResourceVersion(), s.t.Context()
	go func() {
		for ctx.Err() == nil {
			w, err := s.of(s.hans, databases).Watch(ctx, metav1.ListOptions{ResourceVersion: at})
			if err != nil {
				pause := time.NewTimer(50 * time.Millisecond)
				select {
				case <-pause.C:
				case <-ctx.Done():
				}
				continue
			}
			for e := range w.ResultChan() {
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok || e.Type == watch.Error {
					at = s.catchUp(ctx, h)
					break
				}
				at = o.GetResourceVersion()
				h.add(e.Type, o)
			}
			w.Stop()
		}
	}()
	return h
}

// catchUp with what the API server no longer tells by itself after a restart: it
// could not be written to in between.
func (s *site) catchUp(ctx context.Context, h *history) string {
	for ctx.Err() == nil {
		list, err := s.of(s.hans, databases).List(ctx, metav1.ListOptions{})
		if err != nil {
			pause := time.NewTimer(20 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			continue
		}
		here := map[string]bool{}
		for i := range list.Items {
			here[list.Items[i].GetName()] = true
			h.add(watch.Modified, &list.Items[i])
		}
		for name, o := range h.last() {
			if !here[name] && o != nil {
				h.add(watch.Deleted, o)
			}
		}
		return list.GetResourceVersion()
	}
	return ""
}

func (h *history) last() map[string]*unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]*unstructured.Unstructured{}
	for name, all := range h.versions {
		out[name] = all[len(all)-1].object
	}
	return out
}

func (h *history) add(t watch.EventType, o *unstructured.Unstructured) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := version{seen: time.Now(), object: o}
	if t == watch.Deleted {
		v.object = nil
	}
	h.versions[o.GetName()] = append(h.versions[o.GetName()], v)
}

// lag is how old the provider's copy of a managed resource may be when it acts on
// it: the API server may have been away meanwhile.
const lag = 15 * time.Second

// check the cloud's log: every write of the provider was allowed by a version of
// the managed resource that held lately: by its policies, and by a gate that was
// open for it or had not been installed yet, and it wrote what was asked for.
func (h *history) check(t testing.TB, mr string) []string {
	t.Helper()
	log, err := the.cloud.Writes(t.Context(), h.from)
	must(t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	var wrong []string
	for _, e := range log {
		if !strings.HasSuffix(e.Path, "/"+mr) {
			continue
		}
		verb := map[string]v1alpha1.Verb{"PUT": v1alpha1.VerbCreate, "PATCH": v1alpha1.VerbUpdate, "DELETE": v1alpha1.VerbDelete}[e.Method]
		if !slices.ContainsFunc(h.current(mr, e.Time), func(o *unstructured.Unstructured) bool { return allows(o, verb, e.Body) }) {
			wrong = append(wrong, fmt.Sprintf("%s %s %s at %s: no gate was open for it", e.Method, mr, e.Body, e.Time.Format("05.000")))
		}
	}
	return wrong
}

// current versions between lag before a time and the time.
func (h *history) current(mr string, at time.Time) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	all := h.versions[mr]
	for i, v := range all {
		ended := i+1 < len(all) && all[i+1].seen.Before(at.Add(-lag))
		if v.object != nil && !ended && v.seen.Before(at.Add(time.Second)) { // the watch may be late
			out = append(out, v.object)
		}
	}
	return out
}

func allows(o *unstructured.Unstructured, verb v1alpha1.Verb, body json.RawMessage) bool {
	if !mask.Gives(policiesOf(o), verb) || verb == v1alpha1.VerbDelete && o.GetDeletionTimestamp() == nil {
		return false
	}
	g := gateOf(o)
	if _, masked := mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies]); masked && (g.State != v1alpha1.GateOpen || !slices.Contains(g.Verbs, verb)) {
		return false
	}
	if verb == v1alpha1.VerbDelete {
		return true
	}
	wrote := struct {
		Size int64 `json:"size"`
	}{}
	size, _, _ := unstructured.NestedInt64(o.Object, "spec", "forProvider", "size")
	return json.Unmarshal(body, &wrote) == nil && wrote.Size == size
}
