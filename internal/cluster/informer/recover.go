package informer

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// client-go lets a panic in an event handler or in the transform of an informer end
// the process. All replicas see the same object, and so would end one after the
// other, again after each restart. Here it is an error of the object (KR-13-02).

// Recover makes a panic the error of one object: it is logged with the key of the
// object, and counted with the panics of workers. It has an effect only where it is
// deferred itself, as in defer Recover("settler", o). handler is the name of what
// panicked, for log and metric; o may be nil, a cache.DeletedFinalStateUnknown or
// any object with metadata.
func Recover(handler string, o any) {
	p := recover()
	if p == nil {
		return
	}
	panics().WithLabelValues(handler).Inc()
	klog.Background().Error(fmt.Errorf("panic: %v", p), "cannot handle an object", "handler", handler, "object", keyOf(o), "stack", string(debug.Stack()))
}

// panics is the counter in which controller-runtime counts the panics of its
// workers, by controller: one alert is enough for both. controller-runtime does not
// export it, and the registry returns it to who registers the same metric.
var panics = sync.OnceValue(func() *prometheus.CounterVec {
	own := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "controller_runtime_reconcile_panics_total", Help: "Total number of reconciliation panics per controller",
	}, []string{"controller"})
	registered := prometheus.AlreadyRegisteredError{}
	if errors.As(metrics.Registry.Register(own), &registered) {
		if theirs, ok := registered.ExistingCollector.(*prometheus.CounterVec); ok {
			return theirs
		}
	}
	return own
})

// keyOf an object, NAMESPACE/NAME; "" for what has no metadata.
func keyOf(o any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if err != nil {
		return ""
	}
	return key
}

// Each calls f with each of several objects. A panic is the error of one of them,
// see Recover, and the next one follows.
func Each[T any](handler string, objects []T, f func(T)) {
	for _, o := range objects {
		func() {
			defer Recover(handler, o)
			f(o)
		}()
	}
}

// Handler returns an event handler that calls another one, and for which a panic is
// the error of the object, see Recover. Summaries that could not be made are not
// passed on but in deletions.
func Handler(name string, h cache.ResourceEventHandler) cache.ResourceEventHandler {
	return recovering{name: name, to: h}
}

type recovering struct {
	name string
	to   cache.ResourceEventHandler
}

// OnAdd calls the handler with a new object.
func (r recovering) OnAdd(o any, initial bool) {
	defer Recover(r.name, o)
	if !isUnreadable(o) {
		r.to.OnAdd(o, initial)
	}
}

// OnUpdate calls the handler with both versions of an object; with the new one, as
// if it were added, where there is no summary of the old one.
func (r recovering) OnUpdate(old, o any) {
	defer Recover(r.name, o)
	switch {
	case isUnreadable(o): // an object that changed so that we cannot read it is not gone
	case isUnreadable(old):
		r.to.OnAdd(o, false)
	default:
		r.to.OnUpdate(old, o)
	}
}

// OnDelete calls the handler with the last version of an object.
func (r recovering) OnDelete(o any) {
	defer Recover(r.name, o)
	r.to.OnDelete(o)
}

// unreadable is kept in the place of a summary that could not be made. An informer
// needs something with a key; a transform that fails stops the whole watch.
type unreadable struct{ Meta }

func isUnreadable(o any) bool {
	_, is := o.(*unreadable)
	return is
}

// summaryOf an object by f; an unreadable one where f panics.
func summaryOf(o *unstructured.Unstructured, f func(*unstructured.Unstructured) any) any {
	var summary any = &unreadable{Meta: MetaOf(o)} // where f does not return
	func() {
		defer Recover("watch "+o.GetKind(), o)
		summary = f(o)
	}()
	return summary
}
