package sink

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/internal/outbound"
)

// Kinds of sinks.
const (
	KindCloudEvents = "cloudevents"
	KindOTLP        = "otlp"
	KindNATS        = "nats"
)

// A Config is where to send records, as --record-sink has it.
type Config struct {
	// Kind is cloudevents, otlp or nats.
	Kind string
	// URL to send to. It may be a secret.
	URL *url.URL
	// Options of the client; NATS has those of TLS, and CredsFile.
	outbound.Options
	// CredsFile has the credentials of a NATS user; empty for none.
	CredsFile string
	// Subject is the beginning of NATS subjects.
	Subject string
	// Plain allows a URL without TLS.
	Plain bool
}

// Parse parses KIND=URL[,OPTION=VALUE…]. A comma in the URL is written as %2C.
func Parse(text string) (Config, error) {
	parts := strings.Split(text, ",")
	kind, address, ok := strings.Cut(parts[0], "=")
	if !ok || !slices.Contains([]string{KindCloudEvents, KindOTLP, KindNATS}, kind) {
		return Config{}, fmt.Errorf("%q is no sink: it is KIND=URL with kind cloudevents, otlp or nats", redacted(text))
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return Config{}, fmt.Errorf("the URL of sink %s is invalid", kind)
	}
	c := Config{Kind: kind, URL: u, Subject: "kausality"}
	for _, option := range parts[1:] {
		if err := c.set(option); err != nil {
			return Config{}, fmt.Errorf("sink %s: %w", c.Name(), err)
		}
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("sink %s: %w", c.Name(), err)
	}
	return c, nil
}

// redacted beginning of a text that may have secrets.
func redacted(text string) string {
	kind, _, _ := strings.Cut(text, "=")
	return kind
}

// set sets an option.
func (c *Config) set(option string) error {
	name, value, _ := strings.Cut(option, "=")
	switch {
	case name == "plain":
		c.Plain = value == "true"
	case value == "":
		return fmt.Errorf("option %q has no value", name)
	case name == "creds-file":
		c.CredsFile = value
	case name == "subject":
		c.Subject = value
	case name == "hmac-key-file" || !c.Set(name, value):
		return fmt.Errorf("option %q is unknown", name)
	}
	return nil
}

// schemes of the kinds, with TLS first.
var schemes = map[string][2]string{KindCloudEvents: {"https", "http"}, KindOTLP: {"https", "http"}, KindNATS: {"tls", "nats"}}

// check checks what is given.
func (c Config) check() error {
	of := schemes[c.Kind]
	switch {
	case c.URL.Scheme != of[0] && c.URL.Scheme != of[1]:
		return fmt.Errorf("the scheme of the URL is %q, not %s or %s", c.URL.Scheme, of[0], of[1])
	case c.URL.Scheme == of[1] && !c.Plain && c.Kind != KindNATS:
		return fmt.Errorf("records name users: give a URL with %s, or plain=true", of[0])
	case c.URL.Scheme == of[1] && !c.Plain && c.CAFile == "" && c.CertFile == "":
		return errors.New("records name users: give a URL with tls, ca-file, or plain=true")
	case c.Kind == KindNATS && (c.TokenFile != "" || c.Username != ""), c.Kind != KindNATS && c.CredsFile != "":
		return errors.New("token-file and username are for cloudevents and otlp, creds-file for nats")
	case c.Subject == "" || strings.ContainsAny(c.Subject, " *>\t\r\n"):
		return fmt.Errorf("%q cannot begin a subject", c.Subject)
	}
	if c.CredsFile != "" {
		if _, err := os.Stat(c.CredsFile); err != nil {
			return fmt.Errorf("cannot read a file: %w", err)
		}
	}
	return c.Check() //nolint:wrapcheck // It names the option.
}

// Name returns the name of the sink in metrics, logs and files: its kind and host, and the first 8 hex digits of the SHA-256 of its URL, which may be a
// secret.
func (c Config) Name() string {
	host := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, c.URL.Host)
	return fmt.Sprintf("%s-%.100s-%x", c.Kind, host, sha256.Sum256([]byte(c.URL.String())))[:len(c.Kind)+1+min(len(host), 100)+1+8]
}

// New sink of the configuration. Nothing is connected before the first record.
func New(c Config) (Sink, error) {
	switch c.Kind {
	case KindCloudEvents:
		client, err := c.Client(attemptTimeout)
		if err != nil {
			return nil, err
		}
		return &cloudEvents{url: c.URL.String(), client: client}, nil
	case KindOTLP:
		return newOTLP(c)
	}
	return &jetStream{Config: c}, nil
}

// refuses reports whether an HTTP status means that the same content will never be accepted. Others may have to do with access or
// with the server's state.
func refuses(status int) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}, status)
}
