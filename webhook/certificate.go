package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/cluster"
)

// certificate that is served, from a Secret of type kubernetes.io/tls. It is
// watched rather than mounted: a new one is served at once and not when a
// kubelet comes round to it.
type certificate struct {
	informer cache.SharedIndexInformer
	current  atomic.Pointer[tls.Certificate]
	log      logr.Logger
}

func newCertificate(client kubernetes.Interface, namespace, name string, log logr.Logger) (*certificate, error) {
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	secrets := client.CoreV1().Secrets(namespace)
	c := &certificate{log: log}
	c.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return secrets.Watch(ctx, o)
		},
	}, &corev1.Secret{}, 0, cache.Indexers{})
	if err := c.informer.SetWatchErrorHandlerWithContext(cluster.WatchFailed); err != nil {
		return nil, fmt.Errorf("cannot watch secret %s: %w", name, err)
	}
	// Nothing on deletion: what is served stays good until it expires.
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.learn, UpdateFunc: func(_, o any) { c.learn(o) }})
	if err != nil {
		return nil, fmt.Errorf("cannot watch secret %s: %w", name, err)
	}
	return c, nil
}

func (c *certificate) learn(o any) {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		c.log.Error(err, "cannot use the serving certificate; the one before stays", "secret", s.Name)
		return
	}
	c.current.Store(&pair)
	if pair.Leaf != nil {
		certificateExpiry.WithLabelValues().Set(float64(pair.Leaf.NotAfter.Unix()))
		c.log.Info("serving certificate read", "secret", s.Name, "until", pair.Leaf.NotAfter)
	}
}

// Start the watch; it returns when the context ended.
func (c *certificate) Start(ctx context.Context) error { c.informer.RunWithContext(ctx); return nil }

// NeedLeaderElection is false: every replica serves.
func (*certificate) NeedLeaderElection() bool { return false }

var errNoCertificate = errors.New("the serving certificate is not read yet")

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if p := c.current.Load(); p != nil {
		return p, nil
	}
	return nil, errNoCertificate
}

// ready once there is a certificate to serve.
func (c *certificate) ready(*http.Request) error {
	if c.current.Load() == nil {
		return errNoCertificate
	}
	return nil
}
