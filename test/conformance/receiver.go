package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/kausality-io/function-kausality/docs"
)

// maxReport is how large a report may be, in bytes.
const maxReport = 1 << 20

// Receiver of DriftReports, over HTTPS, and the later webhook. It is safe for
// concurrent use.
type Receiver struct {
	// URL to send reports to.
	URL string

	server *http.Server
	schema *validate.SchemaValidator
	mu     sync.Mutex
	got    []any
	// invalid reports by the schema, and why.
	invalid []string
}

// Receive DriftReports at an address, HOST:PORT, with the certificate tls.crt
// and tls.key of a directory, until Close.
func Receive(address, certs string) (*Receiver, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot receive reports: %w", err)
	}
	r, err := newReceiver()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	r.URL = "https://" + l.Addr().String()
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		err := r.server.ServeTLS(l, filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key"))
		if !errors.Is(err, http.ErrServerClosed) {
			fmt.Println("cannot receive reports:", err)
		}
	}()
	return r, nil
}

// newReceiver returns a Receiver that is not served.
func newReceiver() (*Receiver, error) {
	schema := &spec.Schema{}
	if err := json.Unmarshal(docs.DriftReportSchema, schema); err != nil {
		return nil, fmt.Errorf("cannot read the schema of reports: %w", err)
	}
	return &Receiver{schema: validate.NewSchemaValidator(schema, nil, "", strfmt.Default)}, nil
}

// Close stops receiving.
func (r *Receiver) Close() error { return r.server.Close() }

// ServeHTTP stores one report, or answers one review of the later webhook.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxReport))
	if err == nil && req.URL.Path == PathLater {
		serveLater(w, raw)
		return
	}
	var report map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &report)
	}
	if err == nil && (req.Method != http.MethodPost || report["kind"] != "DriftReport") {
		err = errors.New("the request is not a POST of a DriftReport")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, report)
	if wrong := r.schema.Validate(report).Errors; len(wrong) > 0 {
		r.invalid = append(r.invalid, fmt.Sprintf("%s: %v", raw, errors.Join(wrong...)))
	}
}

// Invalid reports so far, by docs/driftreport.schema.json (KR-10-17). Each is an error with the report; nil if all are valid.
func (r *Receiver) Invalid() error { return r.invalidIn("") }

// invalidIn are the invalid reports with a text, such as the name of a Namespace.
func (r *Receiver) invalidIn(text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, why := range r.invalid {
		if strings.Contains(why, text) {
			errs = append(errs, fmt.Errorf("a report is not valid by docs/driftreport.schema.json: %s", why))
		}
	}
	return errors.Join(errs...)
}

// all reports so far.
func (r *Receiver) all() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]any(nil), r.got...)
}
