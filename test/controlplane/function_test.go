package controlplane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const composed = `
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata:
  name: xthings.fn.example.org
spec:
  scope: Namespaced
  group: fn.example.org
  names: {kind: XThing, plural: xthings}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: xthings}
spec:
  compositeTypeRef: {apiVersion: fn.example.org/v1, kind: XThing}
  mode: Pipeline
  pipeline:
  - step: first
    functionRef: {name: function-test}
---
apiVersion: fn.example.org/v1
kind: XThing
metadata: {name: main}
spec: {}
`

// TestRegisterFunction: a registered function is called over mutual TLS, and Crossplane's package
// manager does not change it.
func TestRegisterFunction(t *testing.T) {
	c := sharedControlPlane(t)
	l := listenTLS(t, c.CA())

	endpoint := fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port)
	if err := c.RegisterFunction(t.Context(), "function-test", endpoint); err != nil {
		t.Fatal(err)
	}

	if err := c.Apply(t.Context(), []byte(composed)); err != nil {
		t.Fatal(err)
	}

	if err := acceptClient(l); err != nil {
		t.Fatalf("cannot accept Crossplane: %v", err)
	}

	// The package manager has handled it when it has noted the pause.
	wait.For(t, "the package manager", 20*time.Second, func(ctx context.Context) error {
		rev, err := revision(ctx, c)
		if err == nil && controlplane.ConditionTrue(rev, "RevisionHealthy") != nil {
			t.Fatalf("it is no longer healthy: %v", rev.Object["status"])
		}

		if err == nil && conditionReason(rev, "Synced") != "ReconcilePaused" {
			err = errors.New("it has not noted the pause")
		}

		return err
	})

	for range 2 {
		if err := c.RegisterFunction(t.Context(), "function-test", "localhost:1", "composition", "operation"); err != nil {
			t.Fatal(err)
		}
	}

	rev, err := revision(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}

	if got, _, _ := unstructured.NestedString(rev.Object, "status", "endpoint"); got != "dns:///localhost:1" {
		t.Errorf("want the new endpoint, got %q", got)
	}
}

func revision(ctx context.Context, c *controlplane.ControlPlane) (*unstructured.Unstructured, error) {
	revisions := schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functionrevisions"}

	return dynamic.NewForConfigOrDie(c.Config()).Resource(revisions).Get(ctx, "function-test-local", metav1.GetOptions{})
}

func conditionReason(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if m := c.(map[string]any); m["type"] == kind {
			return fmt.Sprint(m["reason"])
		}
	}

	return ""
}

// listenTLS listens as a function does: with a certificate of the CA, requiring one of clients.
func listenTLS(t *testing.T, ca *controlplane.CA) net.Listener {
	t.Helper()

	dir := t.TempDir()
	if err := ca.ServingCert(dir); err != nil {
		t.Fatal(err)
	}

	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, controlplane.FileCert), filepath.Join(dir, controlplane.FileKey))
	if err != nil {
		t.Fatal(err)
	}

	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca.Bundle()) {
		t.Fatal("the CA's bundle holds no certificate")
	}

	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = l.Close() })

	return l
}

// acceptClient waits for a client whose certificate is accepted and that speaks first.
func acceptClient(l net.Listener) error {
	accepted := make(chan error, 1)

	go func() {
		conn, err := l.Accept()
		if err != nil {
			accepted <- err
			return
		}
		defer conn.Close() //nolint:errcheck // Nothing was written.

		_, err = conn.Read(make([]byte, 1)) // Includes the handshake.
		accepted <- err
	}()

	var got error

	err := controlplane.Eventually(context.Background(), "a client", 20*time.Second, func(context.Context) error {
		select {
		case got = <-accepted:
			return nil
		default:
			return errors.New("none has connected")
		}
	})

	return errors.Join(err, got)
}
