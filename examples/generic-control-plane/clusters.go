package main

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/apiserver"
)

// A server has several logical clusters: requests for /clusters/NAME/… are in cluster NAME, all others in cluster root. Each has its own
// objects. They share the definitions of kinds.

const (
	clustersPrefix = "/clusters/"
	rootCluster    = "root"
)

type clusterKey struct{}

// clusterOf the request that a context is of.
func clusterOf(ctx context.Context) string {
	if name, ok := ctx.Value(clusterKey{}).(string); ok {
		return name
	}
	return rootCluster
}

// withCluster puts the cluster of a request in its context.
func withCluster(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, clustersPrefix)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		name, path, _ := strings.Cut(rest, "/")
		if name == "" || strings.ContainsAny(name, ".:") {
			http.NotFound(w, r)
			return
		}
		r = r.Clone(context.WithValue(r.Context(), clusterKey{}, name))
		r.URL.Path, r.URL.RawPath, r.RequestURI = "/"+path, "", "/"+path
		next.ServeHTTP(w, r)
	})
}

// clusters for Kausality: its clients of a cluster use its path.
var clusters = &apiserver.Clusters{Of: clusterOf, Config: func(loopback *rest.Config, name string) *rest.Config {
	loopback.Host = strings.TrimSuffix(loopback.Host, "/") + clustersPrefix + name
	return loopback
}}

// byCluster stores the objects of each cluster below a prefix of its own.
type byCluster struct{ generic.RESTOptionsGetter }

// GetRESTOptions is that of generic.RESTOptionsGetter.
func (b byCluster) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := b.RESTOptionsGetter.GetRESTOptions(resource, example)
	o.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), object, list func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := generic.UndecoratedStorage(config, prefix, key, object, list, attrs, trigger, indexers)
		return prefixed{Interface: s, prefix: prefix}, destroy, err
	}
	return o, err
}

// prefixed is storage in which the cluster follows the prefix of the resource.
type prefixed struct {
	storage.Interface
	prefix string
}

func (p prefixed) key(ctx context.Context, key string) string {
	return p.prefix + "/" + clusterOf(ctx) + strings.TrimPrefix(key, p.prefix)
}

func (p prefixed) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return p.Interface.Create(ctx, p.key(ctx, key), obj, out, ttl)
}

func (p prefixed) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc,
	cached runtime.Object, o storage.DeleteOptions) error {
	return p.Interface.Delete(ctx, p.key(ctx, key), out, pre, validate, cached, o)
}

func (p prefixed) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	return p.Interface.Watch(ctx, p.key(ctx, key), o)
}

func (p prefixed) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	return p.Interface.Get(ctx, p.key(ctx, key), o, out)
}

func (p prefixed) GetList(ctx context.Context, key string, o storage.ListOptions, out runtime.Object) error {
	return p.Interface.GetList(ctx, p.key(ctx, key), o, out)
}

func (p prefixed) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, pre *storage.Preconditions,
	update storage.UpdateFunc, cached runtime.Object) error {
	return p.Interface.GuaranteedUpdate(ctx, p.key(ctx, key), out, ignoreNotFound, pre, update, cached)
}
