package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// auditLog of an API server, read as it grows. It keeps the annotations of
// webhooks.
type auditLog struct {
	path string

	mu     sync.Mutex
	offset int64
	seen   map[string]map[string]string
}

// annotations of the request with an audit ID, by their names without the
// webhook's; nil while the log does not contain it.
func (l *auditLog) annotations(id string) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return nil, fmt.Errorf("cannot read the audit log: %w", err)
	}
	return l.seen[id], nil
}

// read what was appended. An incomplete line is read the next time.
func (l *auditLog) read() error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // The file was only read.
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return err
	}
	if l.seen == nil {
		l.seen = map[string]map[string]string{}
	}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.offset += int64(len(line))
		if err := l.event(line); err != nil {
			return err
		}
	}
}

func (l *auditLog) event(line []byte) error {
	var e struct {
		AuditID     string            `json:"auditID"`
		Stage       string            `json:"stage"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if e.Stage != "ResponseComplete" {
		return nil
	}
	own := map[string]string{}
	for k, v := range e.Annotations {
		webhook, name, ok := strings.Cut(k, "/")
		if ok && strings.HasSuffix(webhook, "kausality.io") {
			own[name] = v
		}
	}
	l.seen[e.AuditID] = own
	return nil
}
