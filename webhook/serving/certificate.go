package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

var expiry = telemetry.NewGauge("kausality_certificate_expiry_timestamp_seconds") // no sample, not 0, for none

// Get returns the certificate to serve, as tls.Config.GetCertificate.
type Get func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// CheckDir reports what is wrong with the certificate in a directory. The error names the flag.
func CheckDir(dir string) error {
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for _, f := range []string{cert, key} {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("--cert-dir: %s holds no %s; put the serving certificate there", dir, filepath.Base(f))
		}
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("--cert-dir: cannot use the certificate in %s: %w; put a PEM certificate and its key there", dir, err)
	}
	return nil
}

// FromDir returns the certificate of tls.crt and tls.key in a directory, which a manager reads again when
// they change.
func FromDir(mgr manager.Manager, dir string, log logr.Logger) (Get, error) {
	files, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("--cert-dir: %w", err)
	}
	return files.GetCertificate, mgr.Add(cluster.Everywhere(func(ctx context.Context) error {
		if err := files.Start(ctx); err != nil { // what was read is served on
			log.Error(err, "cannot watch the serving certificate", "dir", dir)
		}
		return nil
	}))
}

// Secret is the certificate of a Secret of type kubernetes.io/tls, which is watched.
type Secret struct {
	current atomic.Pointer[tls.Certificate]
	log     logr.Logger
}

// WatchOnly restricts the cache of a manager to the Secret that FromSecret watches.
func WatchOnly(namespace, name string) cache.ByObject {
	only := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", name)}
	return cache.ByObject{Namespaces: map[string]cache.Config{namespace: only}}
}

// FromSecret returns the certificate of a Secret, which a manager watches from its start on. Its cache
// must be restricted to the Secret, see WatchOnly.
func FromSecret(mgr manager.Manager, log logr.Logger) (*Secret, error) {
	s := &Secret{log: log}
	return s, mgr.Add(cluster.Everywhere(func(ctx context.Context) error {
		secrets, err := mgr.GetCache().GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
		if err == nil {
			// Nothing on deletion: the certificate is served until it expires.
			_, err = secrets.AddEventHandler(informer.Handler("serving certificate",
				toolscache.ResourceEventHandlerFuncs{AddFunc: s.read, UpdateFunc: func(_, o any) { s.read(o) }}))
		}
		if err != nil {
			return fmt.Errorf("cannot watch the serving certificate: %w", err)
		}
		return nil
	}))
}

// read a Secret; one without a usable certificate changes nothing.
func (s *Secret) read(o any) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		s.log.Error(err, "cannot use the serving certificate; the previous one is served on", "secret", secret.Name)
		return
	}
	s.current.Store(&pair)
	expiry.WithLabelValues().Set(float64(pair.Leaf.NotAfter.Unix()))
	s.log.Info("serving certificate read", "secret", secret.Name, "until", pair.Leaf.NotAfter)
}

var errNoCertificate = errors.New("the serving certificate is not read yet")

// Get the certificate.
func (s *Secret) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if p := s.current.Load(); p != nil {
		return p, nil
	}
	return nil, errNoCertificate
}

// Ready is a readiness check: there is a certificate to serve.
func (s *Secret) Ready(*http.Request) error {
	_, err := s.Get(nil)
	return err
}
