package install

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file comes last: its tests look back on the others, and end the
// installation.

// TestForbidden: in all of this no component was refused anything: it has the
// access that it needs. An API server that has just started knows no roles yet,
// and refuses everybody.
func TestForbidden(t *testing.T) {
	file, err := os.Open(the.AuditLog())
	must(t, err)
	defer file.Close() //nolint:errcheck // It was only read.
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	n := 0
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"username":"system:serviceaccount:`+home+`:kausality-`)) {
			continue
		}
		n++
		var e struct {
			Verb, RequestURI         string
			RequestReceivedTimestamp time.Time
			User                     struct{ Username string }
			ResponseStatus           struct {
				Code    int
				Message string
			}
		}
		must(t, json.Unmarshal(lines.Bytes(), &e))
		since := e.RequestReceivedTimestamp.Sub(the.restarted)
		if e.ResponseStatus.Code == 403 && (since < 0 || since > 15*time.Second) {
			t.Errorf("%s cannot %s %s: %s", e.User.Username, e.Verb, e.RequestURI, e.ResponseStatus.Message)
		}
	}
	must(t, lines.Err())
	if n < 100 {
		t.Errorf("only %d requests of ours were looked at", n)
	}
}

// TestUninstall is the last: when the release goes, nothing stays behind that
// anybody would wait for.
func TestUninstall(t *testing.T) {
	ns := namespace(t, "uninstalled")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	for _, p := range append([]*process{the.controller, the.gate}, the.webhooks...) {
		p.Stop()
	}
	for _, o := range the.chart {
		if k := o.GetKind(); k == "ClusterRole" || k == "ClusterRoleBinding" {
			r, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
			must(t, the.admin.Resource(r).Delete(t.Context(), o.GetName(), forget))
		}
	}
	policies := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	gone(t, map[schema.GroupVersionResource][]string{
		hooks: {"kausality"}, policies: {"kausality-orphan-protection", "kausality-annotation-protection"},
		bindings: {"kausality-orphan-protection", "kausality-annotation-protection-shop"},
		roles:    {"kausality-webhook-policies", "kausality-gate-policies", "kausality-controller-policies"},
	})
	eventually(t, "the certificates to go", func(ctx context.Context) error {
		list, err := the.admin.Resource(secrets).Namespace(home).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=kausality-controller"})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d Secrets are there", len(list.Items))
		}
		return err
	})
	_, err := app(t, ns, "free")
	must(t, err)
}
