package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// Options of a receiver. Files with secrets are read again for each request or connection, since they are rotated; CAFile once.
type Options struct {
	// TokenFile has a bearer token; empty for none.
	TokenFile string
	// Username for basic authentication, with the password in PasswordFile; empty for none.
	Username, PasswordFile string
	// HMACKeyFile has the key that requests are signed with, see Sign; empty for none.
	HMACKeyFile string
	// CAFile has PEM certificates to trust; empty for those of the system.
	CAFile string
	// CertFile and KeyFile are the client's certificate; empty for none.
	CertFile, KeyFile string
}

// Set an option by its name, as flags have it; false for one that does not exist.
func (o *Options) Set(name, value string) bool {
	fields := map[string]*string{
		"token-file": &o.TokenFile, "username": &o.Username, "password-file": &o.PasswordFile, "hmac-key-file": &o.HMACKeyFile,
		"ca-file": &o.CAFile, "cert-file": &o.CertFile, "key-file": &o.KeyFile,
	}
	field := fields[name]
	if field != nil {
		*field = value
	}
	return field != nil
}

// Check that options belong together, and that files can be read.
func (o Options) Check() error {
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("cert-file and key-file belong together")
	case (o.Username == "") != (o.PasswordFile == ""):
		return errors.New("username and password-file belong together")
	case o.Username != "" && o.TokenFile != "":
		return errors.New("username and token-file exclude each other")
	}
	for _, file := range []string{o.TokenFile, o.PasswordFile, o.CAFile, o.CertFile, o.KeyFile} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("cannot read a file: %w", err)
		}
	}
	if o.HMACKeyFile != "" {
		if _, err := key(o.HMACKeyFile); err != nil {
			return err
		}
	}
	return nil
}

// TLS configuration of a client.
func (o Options) TLS() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read a file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			return &cert, err
		}
	}
	return out, nil
}

// Client for HTTP. It follows no redirection: what is sent, and the credentials, are for the host that is configured, and a page for signing in
// accepts nothing.
func (o Options) Client(timeout time.Duration) (*http.Client, error) {
	config, err := o.TLS()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConns: 2, MaxIdleConnsPerHost: 2,
		IdleConnTimeout: 90 * time.Second,
	}
	return &http.Client{Transport: authenticated{transport, o}, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}, nil
}

// authenticated requests.
type authenticated struct {
	http.RoundTripper
	Options
}

// RoundTrip with the credentials.
func (a authenticated) RoundTrip(r *http.Request) (*http.Response, error) {
	file := a.TokenFile
	if a.Username != "" {
		file = a.PasswordFile
	}
	if file == "" {
		return a.RoundTripper.RoundTrip(r)
	}
	raw, err := os.ReadFile(file) //nolint:gosec // The operator names the file.
	if err != nil {
		return nil, fmt.Errorf("cannot read the credentials: %w", err)
	}
	r = r.Clone(r.Context())
	if secret := strings.TrimSpace(string(raw)); a.Username != "" {
		r.SetBasicAuth(a.Username, secret)
	} else {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return a.RoundTripper.RoundTrip(r)
}
