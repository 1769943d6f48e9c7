package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// pluginSettings are those of the flags of configurations, by configuration.
var pluginSettings = map[string]map[string]any{
	DefaultConfiguration: {"defaultMode": "enforce"},
	"log":                {"defaultMode": "log"},
	"user-hash":          {"defaultMode": "enforce", "identifyController": "user-hash"},
	"field-manager":      {"defaultMode": "enforce", "identifyController": "field-manager"},
	"approver-rbac":      {"defaultMode": "enforce", "approverRBAC": "true"},
	"alternatives": {"defaultMode": "enforce", "expectUntil": "observed", "composedRefusalStatus": 403,
		"controllerUsers": "robot-.*"},
}

// embed the plugin of one configuration in the API server. DriftReports are received at an address that is known before.
func (l *environment) embed(o *controlplane.Options) error {
	ca, err := controlplane.NewCA("conformance receiver")
	if err != nil {
		return err
	}
	if l.certs, err = os.MkdirTemp("", "conformance-certs-"); err != nil {
		return err
	}
	if err := ca.ServingCert(l.certs); err != nil {
		return err
	}
	if l.receiver, err = Receive("127.0.0.1:0", l.certs); err != nil {
		return err
	}
	settings := map[string]any{
		"apiVersion": "apiserver.kausality.io/v1alpha1", "kind": "KausalityConfiguration", "resources": guarded, "settleGrace": "800ms",
		"claimsKey": home + "/" + claimsKey, "namespaceSelector": metav1.LabelSelector{MatchLabels: map[string]string{ConfigurationLabel: *configuration}},
		"objectSelector": metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: UnguardedLabel, Operator: metav1.LabelSelectorOpDoesNotExist}}},
		"reports": map[string]any{"urls": []string{l.receiver.URL}, "caFile": filepath.Join(l.certs, "ca.crt"), "clusterName": "conformance", "objects": true},
	}
	for k, v := range pluginSettings[*configuration] {
		settings[k] = v
	}
	o.APIServer, o.AdmissionPlugins = parts.KubeAPIServerKausality, map[string]any{"Kausality": settings}
	return nil
}

// installPlugin installs the CRDs and ValidatingAdmissionPolicies, without any webhook.
func (l *environment) installPlugin(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, l.kausality, "manifests", "--embedded", "--resources="+strings.Join(guarded, ","),
		configurations[*configuration][0]).Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	return l.applyManifests(ctx, *configuration, out)
}
