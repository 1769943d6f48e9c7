package changes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

var certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}

// TestCertManager installs Kausality where it was before, now with certificates
// from cert-manager, whose own controllers run here. The API server trusts their
// authority, and no call fails during a renewal.
func TestCertManager(t *testing.T) {
	the.Absent(t)
	ns := the.Namespace(t, "certmanager")
	startCertManager(t)
	require.NoError(t, the.Install(t.Context(), the.Chart(), "--set", "certificates.source=cert-manager",
		"--set", "certificates.certificateLifetime=2h", "--set", "certificates.authorityLifetime=24h"))
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	serving, err := the.Admin.Resource(site.Secrets).Namespace(site.Home).Get(t.Context(), "kausality-webhook-tls", metav1.GetOptions{})
	require.NoError(t, err)
	e, err := the.Entry(t.Context(), "shop.admission.kausality.io")
	require.NoError(t, err)
	trusted := e["clientConfig"].(map[string]any)["caBundle"]
	if authority, _, _ := unstructured.NestedString(serving.Object, "data", "ca.crt"); trusted != authority || authority == "" {
		t.Errorf("the API server trusts %v, cert-manager's is %s", trusted, authority)
	}
	if _, err := the.Admin.Resource(site.Secrets).Namespace(site.Home).Get(t.Context(), "kausality-webhook-authority",
		metav1.GetOptions{}); !kerrors.IsNotFound(err) {
		t.Errorf("the policy controller made an authority of its own, error %v", err)
	}
	before, err := servedSerial(t.Context())
	require.NoError(t, err)
	l := startLoad(t, ns)
	renew(t)
	wait.For(t, "another certificate to be served", wait.Patience, func(ctx context.Context) error {
		now, err := servedSerial(ctx)
		if err == nil && now == before {
			err = errors.New("it is the same one")
		}
		return err
	})
	wait.For(t, "some load on it", wait.Patience, func(context.Context) error {
		if n := l.calls.Load(); n < 100 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	l.end()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed, the first with: %v", n, l.calls.Load(), *l.first.Load())
	}
}

// startCertManager with its CRDs.
func startCertManager(t *testing.T) {
	t.Helper()
	tools, err := parts.Ensure(t.Context(), os.Stderr, "", parts.CertManager)
	require.NoError(t, err)
	require.NoError(t, the.InstallCRDs(t.Context(), parts.CertManager))
	kubeconfig, err := the.ServiceAccountKubeconfig(t.Context(), "cert-manager", "cert-manager")
	require.NoError(t, err)
	_, err = the.Serve(context.WithoutCancel(t.Context()), "cert-manager", exec.Command(tools[parts.CertManager], "--kubeconfig="+kubeconfig))
	require.NoError(t, err)
}

// renew the serving certificate, as `cmctl renew` requests it.
func renew(t *testing.T) {
	t.Helper()
	wait.For(t, "the renewal to be requested", wait.Patience, func(ctx context.Context) error {
		c := the.Admin.Resource(certificates).Namespace(site.Home)
		o, err := c.Get(ctx, "kausality-webhook", metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil {
			return err
		}
		list = append(list, map[string]any{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "requested by a test",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
		if err := unstructured.SetNestedSlice(o.Object, list, "status", "conditions"); err != nil {
			return err
		}
		_, err = c.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

// servedSerial is the serial number of the certificate that the webhook serves.
func servedSerial(ctx context.Context) (string, error) {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // Any certificate: it is only read.
	c, err := d.DialContext(ctx, "tcp", the.Balancer.Address)
	if err != nil {
		return "", err
	}
	defer c.Close() //nolint:errcheck // Nothing is left to lose.
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}
