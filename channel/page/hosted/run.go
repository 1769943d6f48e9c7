package hosted

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/page"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

const (
	// Component is the name of this process, of its ServiceAccount and of its roles.
	Component = "kausality-page"
	// maxConnections that are open at a time.
	maxConnections = 1024
)

// Options of the process.
type Options struct {
	cluster.Process
	Config *Config
	// KeysDir has the keys of cookies: the file key seals, all files open.
	KeysDir string
	// SecretFile has the secret of the client at the issuer; empty for a public client.
	SecretFile string
	// CAFile has the certificates of the issuer; empty for those of the system.
	CAFile string
	// Address is HOST:PORT; CertDir has tls.crt and tls.key, and is empty behind a proxy that ends TLS.
	Address, CertDir string
	// DefaultMode of the processes in the cluster; where empty it is derived.
	DefaultMode v1alpha1.Mode
	// Now is the time by which sessions and logins end; that of the cluster where it is nil.
	Now func() time.Time
}

// Run serves until the context ends.
func Run(ctx context.Context, o Options) error {
	for _, w := range o.Config.Warnings() {
		o.Log.Info("warning: " + w)
	}
	mgr, err := o.Manager(Component, cache.Options{})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil { // what the issuer answers is no reason for fewer Pods
		return fmt.Errorf("cannot add the readiness check: %w", err)
	}
	h, err := NewHandler(ctx, o, mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	l := &listener{Handler: h, address: o.Address}
	if o.CertDir != "" {
		files, err := certwatcher.New(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
		if err != nil {
			return fmt.Errorf("--cert-dir: %w", err)
		}
		if err := mgr.Add(files); err != nil {
			return err
		}
		l.tls = &tls.Config{GetCertificate: files.GetCertificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if err := mgr.Add(manager.Runnable(l)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// NewHandler returns the handler of one replica. Its pages are live, and its keys of cookies read again, until the context ends.
func NewHandler(ctx context.Context, o Options, mapper meta.RESTMapper) (http.Handler, error) {
	if o.Now == nil {
		o.Now = clock.Now
	}
	at, err := url.Parse(o.Config.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	sealed, err := newSealer(o.KeysDir, o.Config.origin(), o.Now)
	if err != nil {
		return nil, err
	}
	s := &site{cookies: cookies{sealed, o.Config.secure()}, config: o.Config, host: at.Host, log: o.Log,
		pool: &pool{now: o.Now, ctx: ctx, pages: map[string]*pooled{}}}
	if o.Config.OIDC != nil {
		err = s.knowByLogin(o, mapper)
	} else {
		err = s.knowByToken(o, mapper)
	}
	if err != nil {
		return nil, err
	}
	go s.watch(ctx, s.log)
	go s.pool.sweep(ctx)
	return s, nil
}

// knowByLogin has users log in, and the process act as they by impersonation.
func (s *site) knowByLogin(o Options, mapper meta.RESTMapper) error {
	l, err := newLogin(o)
	if err != nil {
		return err
	}
	s.sessions = &sessions{cookies: s.cookies, config: o.Config, login: l, log: o.Log, next: utilcache.NewLRUExpireCacheWithClock(maxRaced, now(o.Now))}
	s.pool.make = func(who Person, _ *atomic.Pointer[string]) (*page.Page, error) {
		as := rest.CopyConfig(o.Process.Config)
		as.Impersonate = rest.ImpersonationConfig{UserName: who.User, Groups: who.Groups}
		as.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &impersonating{next: next, who: who, log: o.Log, seldom: rate.Sometimes{Interval: logEvery}}
		})
		return newPage(o, mapper, as, who, l.leave())
	}
	return nil
}

// now is the clock of a cache.
type now func() time.Time

// Now returns the time.
func (n now) Now() time.Time { return n() }

// knowByToken knows users by the tokens of their requests, with which the process acts.
func (s *site) knowByToken(o Options, mapper meta.RESTMapper) error {
	client, err := kubernetes.NewForConfig(o.Process.Config)
	if err != nil {
		return fmt.Errorf("cannot create a client: %w", err)
	}
	s.bearer = newBearer(o.Config.BearerTokens.Audiences, client.AuthenticationV1().TokenReviews())
	s.pool.make = func(who Person, token *atomic.Pointer[string]) (*page.Page, error) {
		as := rest.AnonymousClientConfig(o.Process.Config)
		as.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearing{next, token} })
		return newPage(o, mapper, as, who, "")
	}
	return nil
}

// newLogin returns the login at the issuer of the configuration.
func newLogin(o Options) (*login, error) {
	client := &http.Client{Timeout: issuerTimeout}
	if o.CAFile != "" {
		raw, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--oidc-ca-file: %s has no certificate", o.CAFile)
		}
		client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	}
	return &login{config: o.Config.OIDC, redirect: o.Config.origin() + callbackPath, client: client, now: o.Now, log: o.Log, secret: func() (string, error) {
		if o.SecretFile == "" {
			return "", nil
		}
		raw, err := os.ReadFile(o.SecretFile) // each time: it rotates
		if err != nil {
			return "", fmt.Errorf("cannot read the secret of the client: %w", err)
		}
		return strings.TrimSpace(string(raw)), nil
	}}, nil
}

// newPage returns the page of a user, as whom a configuration acts. issuer is where the session there ends; empty for nowhere.
func newPage(o Options, mapper meta.RESTMapper, as *rest.Config, who Person, issuer string) (*page.Page, error) {
	left := view.State{Status: http.StatusOK, Title: "You have left", Text: "The session of this page has ended."}
	switch {
	case o.Config.BearerTokens != nil:
		left.Text = "The proxy in front of this page still knows you, and the next request is yours again: log out there."
	case issuer != "":
		left.Text += " The one at the issuer goes on: " + issuer
	}
	return page.New(page.Options{
		Options: view.Options{Config: as, Mapper: mapper, DefaultMode: o.DefaultMode, User: who.User,
			Expired: "Your login, or that of this page, has expired. Load the page again."},
		Cluster: o.Config.ClusterName, Origin: o.Config.origin(), Left: left,
	})
}

// listener serves the page. It implements manager.Runnable.
type listener struct {
	http.Handler
	address string
	// tls of the server; nil behind a proxy that ends TLS.
	tls *tls.Config
}

// NeedLeaderElection is false: every replica answers.
func (*listener) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (l *listener) Start(ctx context.Context) error {
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.address)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	on = netutil.LimitListener(on, maxConnections)
	if l.tls != nil {
		on = tls.NewListener(on, l.tls)
	}
	if err := page.ServeUntil(ctx, on, l.Handler); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
