package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// bootEtcd boots etcd without syncing to disk: a test has nothing to lose.
func (c *ControlPlane) bootEtcd(ctx context.Context) error {
	return c.boot(ctx, program{
		name: parts.Etcd,
		command: func() (*exec.Cmd, error) {
			port, err := FreePort()
			if err != nil {
				return nil, err
			}

			c.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", port)

			return exec.Command(c.paths[parts.Etcd],
				"--data-dir="+filepath.Join(c.dir.path, dirEtcd),
				"--listen-client-urls="+c.etcdURL,
				"--advertise-client-urls="+c.etcdURL,
				"--listen-peer-urls=http://127.0.0.1:0", // It has no peers.
				"--unsafe-no-fsync",
				"--log-level=warn",
			), nil
		},
		ready:  func(ctx context.Context) error { return probe(ctx, http.DefaultClient, c.etcdURL+"/health") },
		within: 30 * time.Second,
	})
}

// Answers returns an error unless a GET of the URL is answered with 200, within two seconds.
func Answers(ctx context.Context, url string) error { return probe(ctx, http.DefaultClient, url) }

// probe returns an error unless a GET of the URL is answered with 200.
func probe(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("cannot probe %s: %w", url, err)
	}

	rsp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer rsp.Body.Close() //nolint:errcheck // Nothing was read.

	if rsp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, rsp.Status)
	}

	return nil
}

// EtcdURL is where etcd serves clients: HTTP on loopback, without authentication.
func (c *ControlPlane) EtcdURL() string { return c.etcdURL }
