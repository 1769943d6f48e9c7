package slack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/drift"
)

const (
	// Component is the name of this process, of its ServiceAccount and of its roles.
	Component = "kausality-slack"
	// roundEvery is the time between two looks at clicks and Drifts.
	roundEvery = time.Second
)

// Options of the process.
type Options struct {
	cluster.Process
	Config *Config
	Tokens Tokens
	// Reread the tokens: others than those in use end the process.
	Reread func() (Tokens, error)
	// Address where requests of Slack are taken, and the directory of its certificate; empty for plain HTTP behind a proxy. They are used where the
	// Tokens have a signing secret.
	Address, CertDir string
	// Namespace of the stored clicks.
	Namespace string
	// URL of the Web API, for tests; empty for Slack's.
	URL string
}

// Check checks that Slack accepts the configuration.
func Check(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, 3*callTimeout)
	defer cancel()
	return newAPI(o.Tokens, o.Config.Channel, o.URL).check(ctx, o.Config)
}

// Run runs until the context ends. A configuration that Slack does not accept is an error at once; one that it ceases to accept is a condition of
// the DriftReceiver and a metric (KR-17-11).
func Run(ctx context.Context, o Options) error {
	for _, w := range o.Config.Warnings() {
		o.Log.Info("warning: " + w)
	}
	if err := Check(ctx, o); err != nil && !passes(err) {
		return fmt.Errorf("slack: %w", err)
	} else if err != nil {
		o.Log.Info("Slack does not answer; it is tried again", "error", err.Error())
	}
	mgr, err := o.Manager(Component, cache.Options{}, v1alpha1.AddToScheme, corev1.AddToScheme)
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil { // what Slack answers is no reason for fewer Pods
		return fmt.Errorf("cannot add the readiness check: %w", err)
	}
	live, err := client.New(o.Process.Config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("cannot create a client: %w", err)
	}
	calls, kept := newAPI(o.Tokens, o.Config.Channel, o.URL), newStore(live, o.Namespace, o.Tokens)
	up := &link{}
	look := renderer{config: o.Config, zone: o.Config.location()}
	post := &poster{
		api: calls, store: kept, drifts: mgr.GetClient(), render: look, link: up, now: clock.Now, log: o.Log,
		owes: drift.NewChannel(live, Component, Receiver, mgr.GetEventRecorder(Component), o.Log),
	}
	work := &worker{api: calls, store: kept, poster: post, live: live, as: actors(o.Process.Config, mgr.GetRESTMapper()), now: clock.Now, log: o.Log,
		directory: &directory{config: o.Config, lookup: calls.client.GetUserInfoContext, now: clock.Now}}
	taken := &interactions{api: calls, store: kept, render: look, drifts: mgr.GetClient(), now: clock.Now, log: o.Log}
	from, err := source(mgr, o, taken, up)
	if err != nil {
		return err
	}
	if err := cluster.AddAll(mgr, from, &leader{post, work, o.Log}, &tokenWatch{o.Tokens, o.Reread, tokensEvery}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// source returns what takes interactions: requests by HTTP where a signing secret is set, else Socket Mode.
func source(mgr manager.Manager, o Options, taken *interactions, up *link) (manager.Runnable, error) {
	if o.Tokens.Signing == "" {
		return &socket{interactions: taken, link: up, pause: reconnectAfter}, nil
	}
	taken.repeatable = true
	l := &listener{requests: newRequests(taken, o.Tokens.Signing), address: o.Address, timeout: readTimeout}
	if o.CertDir == "" {
		return l, nil
	}
	files, err := certwatcher.New(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("--interactivity-cert-dir: %w", err)
	}
	if err := mgr.Add(files); err != nil {
		return nil, err
	}
	l.tls = &tls.Config{GetCertificate: files.GetCertificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	return l, nil
}

// tokensEvery is how often the files of the tokens are read again.
const tokensEvery = 10 * time.Second

// tokenWatch ends the process once there are other tokens, as after one was revoked: the process that is started next uses them.
type tokenWatch struct {
	used  Tokens
	read  func() (Tokens, error)
	every time.Duration
}

// NeedLeaderElection is false.
func (*tokenWatch) NeedLeaderElection() bool { return false }

// Start compares the tokens until the context ends. Files that cannot be read are being written.
func (w *tokenWatch) Start(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if t, err := w.read(); err == nil && t != w.used {
			return errors.New("the tokens have changed: start the process again, as Kubernetes does")
		}
	}
}

// leader works clicks off and keeps messages up to date.
type leader struct {
	*poster
	worker *worker
	log    logr.Logger
}

// NeedLeaderElection is true.
func (*leader) NeedLeaderElection() bool { return true }

// Start rounds until the context ends. After an error of the API server, what is stored is read again.
func (l *leader) Start(ctx context.Context) error {
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	loaded := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := error(nil)
		if !loaded {
			err = l.load(ctx)
		}
		if err == nil {
			err = l.both(ctx)
		}
		if loaded = err == nil; err != nil && ctx.Err() == nil {
			l.log.Error(err, "cannot keep the messages in Slack up to date; it is tried again")
		}
	}
}

// both rounds: clicks first, users wait for them.
func (l *leader) both(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r) // of one object: the others go on
		}
	}()
	if err := l.worker.round(ctx); err != nil {
		return err
	}
	return l.poster.round(ctx)
}
