package site

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var probes = &http.Client{Timeout: 2 * time.Second}

// Probe fails where what a component serves at an address is no 200.
func Probe(address, path string) error {
	_, err := Fetch(address, path)
	return err
}

// Fetch what a component serves at an address.
func Fetch(address, path string) (string, error) {
	resp, err := probes.Get("http://" + address + "/" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // Nothing is left to lose.
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s/%s answers %s: %s", address, path, resp.Status, raw)
	}
	return string(raw), err
}

// Served metrics of a process, each as the beginning of a line.
func Served(t *testing.T, p *Process, lines ...string) {
	t.Helper()
	for _, want := range lines {
		wait.For(t, p.Name()+" to serve "+want, wait.Patience, func(context.Context) error {
			text, err := Fetch(p.Metrics, "metrics")
			if err == nil && !strings.Contains(text, "\n"+want) {
				err = fmt.Errorf("it serves %s", ours(text))
			}
			return err
		})
	}
}

// ours are the lines about Kausality.
func ours(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "kausality_") && !strings.Contains(line, "_bucket") {
			out.WriteString(line)
		}
	}
	return out.String()
}
