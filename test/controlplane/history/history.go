package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A History has the versions of the custom resources of one kind in one Namespace,
// from Record on. It is safe for concurrent use.
type History struct {
	mu       sync.Mutex
	versions map[string][]Version
	err      error // that ended the record early
}

// A Version of an object.
type Version struct {
	// Seen is when the watch showed it, by the clock of this process.
	Seen time.Time
	// Revision at which etcd stored it: that orders the versions of all objects.
	Revision int64
	// Object as stored; nil where it is gone.
	Object *unstructured.Unstructured
}

// Record the objects of a resource in a Namespace until the context ends. Objects that
// exist already have no version until they change.
func Record(ctx context.Context, etcdURL string, r schema.GroupVersionResource, namespace string) (*History, error) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{etcdURL}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("cannot connect to etcd: %w", err)
	}
	prefix := "/registry/" + r.Group + "/" + r.Resource + "/" + namespace + "/"
	got, err := etcd.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read from etcd: %w", err), etcd.Close())
	}
	h := &History{versions: map[string][]Version{}}
	changes := etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(got.Header.Revision+1))
	go func() {
		defer func() { _ = etcd.Close() }()
		for r := range changes {
			h.add(r, prefix)
		}
	}()
	return h, nil
}

func (h *History) add(r clientv3.WatchResponse, prefix string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, r.Err())
	for _, e := range r.Events {
		name, v := strings.TrimPrefix(string(e.Kv.Key), prefix), Version{Seen: time.Now(), Revision: e.Kv.ModRevision}
		if e.Type == clientv3.EventTypePut {
			v.Object = &unstructured.Unstructured{}
			h.err = errors.Join(h.err, v.Object.UnmarshalJSON(e.Kv.Value))
		}
		h.versions[name] = append(h.versions[name], v)
	}
}

// Names of the objects that have versions, sorted.
func (h *History) Names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.versions))
}

// Versions of an object, oldest first, and whether the record is whole.
func (h *History) Versions(name string) ([]Version, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.versions[name]), h.err
}

// Current versions of an object at a time, as a client could have read them whose
// cache is older by at most lag.
func (h *History) Current(name string, at time.Time, lag time.Duration) ([]*unstructured.Unstructured, error) {
	all, err := h.Versions(name)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i, v := range all {
		ended := i+1 < len(all) && all[i+1].Seen.Before(at.Add(-lag))
		if v.Object != nil && !ended && v.Seen.Before(at.Add(time.Second)) { // the watch may be late
			out = append(out, v.Object)
		}
	}
	return out, nil
}
