package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

type metav1GVR = schema.GroupVersionResource

// history of all versions of the Databases of a Namespace, as etcd has them: the
// API server's own watches skip versions when it restarts.
type history struct {
	mu       sync.Mutex
	versions map[string][]version
	broken   error // error that ended the record early
	from     int64 // of the cloud's log
}

type version struct {
	seen   time.Time
	object *unstructured.Unstructured // nil where it is gone
}

func (s *fixture) record() *history {
	s.t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{the.EtcdURL()}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	require.NoError(s.t, err)
	ctx, prefix := s.t.Context(), "/registry/"+databases.Group+"/"+databases.Resource+"/"+s.ns+"/"
	got, err := etcd.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(s.t, err)
	h := &history{versions: map[string][]version{}, from: s.seq()}
	changes := etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(got.Header.Revision+1))
	go func() {
		defer func() { _ = etcd.Close() }()
		for r := range changes {
			h.add(r, prefix)
		}
	}()
	return h
}

func (h *history) add(r clientv3.WatchResponse, prefix string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = errors.Join(h.broken, r.Err())
	for _, e := range r.Events {
		name, v := strings.TrimPrefix(string(e.Kv.Key), prefix), version{seen: time.Now()}
		if e.Type == clientv3.EventTypePut {
			v.object = &unstructured.Unstructured{}
			h.broken = errors.Join(h.broken, v.object.UnmarshalJSON(e.Kv.Value))
		}
		h.versions[name] = append(h.versions[name], v)
	}
}

// lag is how old the provider's copy of a managed resource may be when it acts on
// it: the API server may have been away meanwhile.
const lag = 15 * time.Second

// check the cloud's log: every write of the provider was allowed by a recent
// version of the managed resource: by its policies, and by a gate that was open
// for it or had not been installed yet; and it wrote the desired values.
func (h *history) check(t testing.TB, mr string) []string {
	t.Helper()
	log, err := the.cloud.Writes(t.Context(), h.from)
	require.NoError(t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.NoError(t, h.broken)
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
	if _, masked := mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies]); masked &&
		(g.State != v1alpha1.GateOpen || !slices.Contains(g.Verbs, verb)) {
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
