package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// issuer of ServiceAccount tokens.
const issuer = "https://kubernetes.default.svc"

// bootAPIServer boots kube-apiserver with its default admission plugins and RBAC.
func (c *ControlPlane) bootAPIServer(ctx context.Context) error {
	if err := c.boot(ctx, program{
		name: parts.KubeAPIServer, command: c.apiServerCommand, ready: c.apiServerReady, within: time.Minute,
	}); err != nil {
		return err
	}

	var err error
	c.applier, err = NewApplier(c.quiet(), "controlplane")

	return err
}

func (c *ControlPlane) apiServerCommand() (*exec.Cmd, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}

	c.admin = &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", port),
		BearerToken:     c.tokens[userAdmin],
		TLSClientConfig: rest.TLSClientConfig{CAData: c.cluster.Bundle()},
		QPS:             -1, // No limit.
	}

	args := c.apiServerArgs(port)
	if c.opts.AuditLog {
		args = append(args, "--audit-policy-file="+c.pki(fileAudit), "--audit-log-path="+c.AuditLog(), "--audit-log-maxbackup=5")
	}

	return exec.Command(c.paths[c.opts.APIServer], args...), nil
}

// apiServerArgs are the flags of an API server on the port, but for the audit log.
func (c *ControlPlane) apiServerArgs(port int) []string {
	return []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		// Endpoints of the Service kubernetes must not be loopback addresses, and no client uses them.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + c.opts.ServiceRange,
		"--tls-cert-file=" + c.pki(fileServingCrt),
		"--tls-private-key-file=" + c.pki(fileServingKey),
		"--client-ca-file=" + c.pki(fileClusterCA),
		"--token-auth-file=" + c.pki(fileTokens),
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + c.pki(fileSAPub),
		"--service-account-signing-key-file=" + c.pki(fileSAKey),
		"--authorization-mode=RBAC",
		"--admission-control-config-file=" + c.pki(fileAdmission),
	}
}

// SecondAPIServer runs another API server on the same etcd, with further flags and without an audit log, until ctx ends. Its users and
// their tokens are those of the first. It returns the URL once it is ready.
func (c *ControlPlane) SecondAPIServer(ctx context.Context, name string, flags ...string) (url string, err error) {
	port, err := FreePort()
	if err != nil {
		return "", err
	}

	cmd := exec.Command(c.paths[c.opts.APIServer], append(c.apiServerArgs(port), flags...)...)
	cmd.Env = collectingLess(cmd.Environ())

	p, err := c.Run(ctx, name, cmd)
	if err != nil {
		return "", err
	}

	cfg := c.quiet()
	cfg.Host = fmt.Sprintf("https://127.0.0.1:%d", port)

	return cfg.Host, p.await(ctx, func(ctx context.Context) error { return readyz(ctx, cfg) }, time.Minute)
}

// apiServerReady reads /readyz, which includes the bootstrap of RBAC.
func (c *ControlPlane) apiServerReady(ctx context.Context) error { return readyz(ctx, c.quiet()) }

// readyz returns an error unless the API server is ready.
func readyz(ctx context.Context, cfg *rest.Config) error {
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	return cs.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}
