package cli

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/internal/history/client"
)

const (
	// historyService is where the chart installs the history.
	historyService = "kausality-system/kausality-history"
	// historyToken is the header that server.TokenHeader names. The plugin contains no server.
	historyToken = "X-Kausality-Authorization" //nolint:gosec // It is the name of a header.
)

// errNoImpersonation: what the history returns would be that of another user.
var errNoImpersonation = errors.New("--as: the history cannot impersonate; it shows what you may see")

// historySource is where the history is: behind the API server's proxy of a Service, or at a URL.
type historySource struct{ service, url, caFile string }

// addFlags adds the flags to a command.
func (c *historySource) addFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&c.service, "history-service", historyService, "NAMESPACE/NAME of the history's Service, read through the API server.")
	fl.StringVar(&c.url, "url", "", "https:// URL of the history, instead of --history-service.")
	fl.StringVar(&c.caFile, "url-ca-file", "", "PEM certificates to trust for --url.")
}

// check checks the flags before anything is read.
func (c *historySource) check() error {
	switch {
	case c.url != "" && !strings.HasPrefix(c.url, "https://"):
		return usageError{errors.New("--url must begin with https://: it is sent your credentials")}
	case strings.Count(c.service, "/") != 1:
		return usageError{errors.New("--history-service must be NAMESPACE/NAME")}
	}
	return nil
}

// connect connects to the history.
func (c *historySource) connect(s *session) (*client.Client, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	var base string
	if c.url != "" {
		base = c.url
		config.TLSClientConfig = rest.TLSClientConfig{
			CAFile: c.caFile, CertFile: config.CertFile, KeyFile: config.KeyFile, CertData: config.CertData, KeyData: config.KeyData,
		}
	} else {
		namespace, name, _ := strings.Cut(c.service, "/")
		base = strings.TrimSuffix(config.Host, "/") + "/api/v1/namespaces/" + url.PathEscape(namespace) + "/services/https:" + url.PathEscape(name) + ":https/proxy"
		if !strings.Contains(base, "://") {
			base = "https://" + base
		}
		config.Wrap(passToken)
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("cannot read the URL of the history: %w", err)
	}
	if ip := net.ParseIP(u.Hostname()); c.url != "" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		namespace, name, _ := strings.Cut(c.service, "/") // forwarded to the Service's port
		config.ServerName = name + "." + namespace + ".svc"
	}
	if config.Host = u.Host; c.url != "" {
		config.Host = base
	}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client: %w", err)
	}
	return &client.Client{Base: u, HTTP: h}, nil
}

// passToken copies the user's token to a header that the API server's proxy passes on.
func passToken(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if t := r.Header.Get("Authorization"); t != "" {
			r = r.Clone(r.Context())
			r.Header.Set(historyToken, t)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// explain explains what to do where the user is unknown.
func (c *historySource) explain(err error) error {
	if errors.Is(err, client.ErrUnauthorized) && c.url == "" {
		return fmt.Errorf("%w; the API server's proxy passes on tokens but no certificates: with a certificate run "+
			"kubectl port-forward -n %s service/%s 8443 and give --url https://localhost:8443 with --url-ca-file", err,
			strings.Split(c.service, "/")[0], strings.Split(c.service, "/")[1])
	}
	return err
}
