package operations

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestService: the API server calls the webhook as the policy controller
// configured it, by its Service and under the Service's name, and trusts the
// configured bundle and no other certificate.
func TestService(t *testing.T) {
	if !the.Services {
		t.Skip("nothing can listen at the address of a Service here; the webhook is called by its own")
	}
	ns := the.Namespace(t, "service")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	e, err := the.Entry(t.Context(), "shop.admission.kausality.io")
	require.NoError(t, err)
	config := e["clientConfig"].(map[string]any)
	if got := fmt.Sprint(config["service"], config["url"]); got != "map[name:kausality-webhook namespace:kausality-system path:/mutate port:443] <nil>" {
		t.Errorf("the API server is configured with %s", got)
	}
	const name = "kausality-webhook.kausality-system.svc"
	wait.For(t, "the certificate to verify for the Service", wait.Patience, func(ctx context.Context) error {
		e, err := the.Entry(ctx, "shop.admission.kausality.io") // renewed all the time here
		if err != nil {
			return err
		}
		return handshake(ctx, the.Balancer.Address, e["clientConfig"].(map[string]any)["caBundle"], name)
	})
	if err := handshake(t.Context(), the.Balancer.Address, config["caBundle"], "another.kausality-system.svc"); err == nil {
		t.Error("the certificate verifies for another Service, too")
	}
}

// handshake with who listens at an address, as the API server does it with a
// caBundle and the name of a Service.
func handshake(ctx context.Context, address string, bundle any, name string) error {
	text, _ := bundle.(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return errors.New("the caBundle holds no certificate")
	}
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}
