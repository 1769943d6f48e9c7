package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	leasePath  = "coordination.k8s.io/v1/namespaces/kausality-system/leases/kausality-webhook-heartbeat"
	rulePath   = "kausality.io/v1alpha1/approvalrules/production"
	policyPath = "networking.k8s.io/v1/namespaces/kausality-system/networkpolicies/kausality-webhook"
)

// TestInstallation: coverage has first what the installation does not protect, with what to do, and what is unknown with the command that
// shows it (KR-12-29).
func TestInstallation(t *testing.T) {
	reports := func(what string, age time.Duration) func(t *testing.T, s *storedServer) {
		return func(t *testing.T, s *storedServer) {
			s.put(t, leasePath, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kausality-webhook-heartbeat, namespace: kausality-system,
  annotations: {kausality.io/protection: '`+what+`'}}, spec: {renewTime: "`+time.Now().Add(-age).UTC().Format("2006-01-02T15:04:05.000000Z")+`"}}`)
		}
	}
	allows := func(ingress string) func(t *testing.T, s *storedServer) {
		return func(t *testing.T, s *storedServer) {
			s.put(t, policyPath, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: kausality-webhook, namespace: kausality-system},
  spec: {ingress: [`+ingress+`]}}`)
		}
	}
	rule := func(t *testing.T, s *storedServer) {
		s.put(t, rulePath, `{apiVersion: kausality.io/v1alpha1, kind: ApprovalRule, metadata: {name: production}}`)
	}
	forbid := func(path string) func(*testing.T, *storedServer) {
		return func(_ *testing.T, s *storedServer) { s.forbidden = path }
	}
	const (
		open   = `{"clientCertificates":false,"approverRBAC":"false"}`
		closed = `{"clientCertificates":true,"approverRBAC":"true"}`
		loose  = `{"clientCertificates":true,"approverRBAC":"resource"}`
		probes = `, {ports: [{port: 8081, protocol: TCP}]}`
	)
	type change = func(*testing.T, *storedServer)
	for name, tc := range map[string]struct {
		reason  string
		changes []change
		want    []Finding
	}{
		"Protected": {reason: "nothing is open", changes: []change{reports(closed, 0), rule}},
		"Open": {reason: "no certificates, and no NetworkPolicy", changes: []change{reports(open, 0)},
			want: []Finding{{Weakness: WeakClients, Message: "and there is no NetworkPolicy kausality-webhook"}}},
		"AnyAddress": {reason: "the chart's NetworkPolicy by default", changes: []change{reports(open, 0), allows(`{ports: [{port: 9443}]}` + probes)},
			want: []Finding{{Weakness: WeakClients, Message: "lets every address reach it. Set webhook.clientCASecretName"}}},
		"AnyPort": {reason: "a rule without ports", changes: []change{reports(open, 0), allows(`{}`)},
			want: []Finding{{Weakness: WeakClients, Message: "lets every address reach it"}}},
		"Listed": {reason: "the API servers are listed",
			changes: []change{reports(open, 0), allows(`{ports: [{port: 9443}], from: [{ipBlock: {cidr: 10.0.0.7/32}}]}` + probes)},
			want:    []Finding{{Weakness: WeakClients, Partly: true, Message: "which holds if the network of the cluster enforces it"}}},
		"NetworkForbidden": {reason: "the user may not read it", changes: []change{reports(open, 0), forbid("networking.k8s.io/")},
			want: []Finding{{Weakness: WeakClients, Message: "get networkpolicy kausality-webhook -o yaml"}}},
		"Rules": {reason: "rules without approver RBAC", changes: []change{reports(open, 0), rule},
			want: []Finding{{Weakness: WeakClients, Message: "without a certificate"}, {Weakness: WeakApprovers, Message: "(production), and approver RBAC is off"}}},
		"RulesByResource": {reason: "the verb on the resource", changes: []change{reports(loose, 0), rule},
			want: []Finding{{Weakness: WeakApprovers, Message: "kubectl kausality approvers --lost"}}},
		"RulesForbidden": {reason: "the user may not list rules", changes: []change{reports(loose, 0), forbid("kausality.io/v1alpha1/approvalrules")},
			want: []Finding{{Weakness: WeakApprovers, Unknown: true, Message: "Run: kubectl get approvalrules"}}},
		"Unreported": {reason: "a webhook of an earlier release", changes: []change{rule},
			want: []Finding{{Weakness: WeakClients, Unknown: true, Message: "get deployment kausality-webhook"},
				{Weakness: WeakApprovers, Unknown: true, Message: "no replica of the webhook reports it"}}},
		"Old": {reason: "no replica runs", changes: []change{reports(closed, time.Minute)},
			want: []Finding{{Weakness: WeakClients, Unknown: true, Message: "no replica of the webhook reports it"}}},
		"Forbidden": {reason: "the user may not read the Lease", changes: []change{reports(closed, 0), forbid("coordination.k8s.io/")},
			want: []Finding{{Weakness: WeakClients, Unknown: true, Message: "Run: kubectl -n kausality-system"}}},
		"FailsOpen": {reason: "failurePolicy Ignore", changes: []change{reports(closed, 0), func(_ *testing.T, s *storedServer) {
			hooks, _ := s.objects[webhookPath].Object["webhooks"].([]any)
			hooks[0].(map[string]any)["failurePolicy"] = "Ignore" //nolint:errcheck // It panics.
		}}, want: []Finding{{Weakness: WeakOutage, Message: "of *.cloud.example.org, *.example.org. Where"}}},
		"ConfigurationForbidden": {reason: "the user may not read it", changes: []change{reports(closed, 0), forbid("admissionregistration.k8s.io/")},
			want: []Finding{{Weakness: WeakOutage, Unknown: true, Message: "Run: kubectl get mutatingwebhookconfiguration kausality"}}},
		"NotInstalled": {reason: "nothing is guarded", changes: []change{func(_ *testing.T, s *storedServer) { delete(s.objects, webhookPath) }}},
	} {
		t.Run(name, func(t *testing.T) {
			i, _ := inspectorOf(t, func(s *storedServer) {
				for _, c := range tc.changes {
					c(t, s)
				}
			})
			c, err := i.Coverage(t.Context(), "")
			require.NoError(t, err)
			require.Len(t, c.Installation, len(tc.want), "%s: %+v", tc.reason, c.Installation)
			for n, want := range tc.want {
				got := c.Installation[n]
				assert.Contains(t, got.Message, want.Message, tc.reason)
				assert.False(t, strings.Contains(got.Message, "\n"), "one line")
				got.Message, want.Message = "", ""
				assert.Equal(t, want, got, tc.reason)
			}
		})
	}
}
