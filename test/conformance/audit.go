package conformance

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/kausality-io/function-kausality/test/auditlog"
)

// auditLog of an API server, read as it grows. It keeps the annotations of
// webhooks.
type auditLog struct {
	mu   sync.Mutex
	tail *auditlog.Tail
	seen map[string]map[string]string
}

func newAuditLog(path string) *auditLog {
	return &auditLog{tail: auditlog.NewTail(path), seen: map[string]map[string]string{}}
}

// annotations of the request with an audit ID, by their names without the
// webhook's; nil while the log does not contain it.
func (l *auditLog) annotations(id string) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.tail.Read(l.event); err != nil {
		return nil, err
	}
	return l.seen[id], nil
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
