package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

var allManifests = flag.Bool("equal.all", false, "all manifests of TestEqual, instead of every fourth")

// workloads are the kinds with a Pod template, with the rest of their spec.
const workloads = `
Pod: {apiVersion: v1, kind: Pod}
PodTemplate: {apiVersion: v1, kind: PodTemplate}
ReplicationController: {apiVersion: v1, kind: ReplicationController, spec: {replicas: 0, selector: {app: x}}}
ReplicaSet: {apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 0, minReadySeconds: 0, selector: {matchLabels: {app: x}}}}
Deployment: {apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, paused: false, strategy: {}, selector: {matchLabels: {app: x}}}}
StatefulSet: {apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 0, serviceName: "", podManagementPolicy: "", selector: {matchLabels: {app: x}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1073741824}}}}]}}
DaemonSet: {apiVersion: apps/v1, kind: DaemonSet, spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}, selector: {matchLabels: {app: x}}}}
Job: {apiVersion: batch/v1, kind: Job, spec: {suspend: true, backoffLimit: 0, ttlSecondsAfterFinished: 0}}
CronJob: {apiVersion: batch/v1, kind: CronJob, spec: {schedule: "0 0 1 1 *", suspend: true, concurrencyPolicy: "", successfulJobsHistoryLimit: 0}}
`

// manifests of the table, by the names of their Objects.
func manifests(t *testing.T, namespace string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	raw, err := os.ReadFile("testdata/manifests.yaml")
	require.NoError(t, err)
	raw = bytes.ReplaceAll(raw, []byte("request: CSR"), []byte("request: "+signingRequest(t)))
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(bytes.ReplaceAll(raw, []byte("namespace: NS"), []byte("namespace: "+namespace)))))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		m := map[string]any{}
		require.NoError(t, yaml.Unmarshal(doc, &m), string(doc))
		u := unstructured.Unstructured{Object: m}
		name := strings.ToLower(u.GetKind() + "-" + strings.ReplaceAll(u.GetAPIVersion(), "/", "-") + "-" + u.GetName())
		require.NotContains(t, out, name)
		out[name] = m
	}
	addWorkloads(t, out)
	for _, m := range out {
		metadata := m["metadata"].(map[string]any)
		if metadata["namespace"] == nil && namespaced(m) {
			metadata["namespace"] = namespace
		}
	}
	return out
}

// addWorkloads with each of the Pod specs.
func addWorkloads(t *testing.T, out map[string]map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/podspecs.yaml")
	require.NoError(t, err)
	specs, kinds := map[string]map[string]any{}, map[string]map[string]any{}
	require.NoError(t, yaml.Unmarshal(raw, &specs))
	require.NoError(t, yaml.Unmarshal([]byte(workloads), &kinds))
	for kind, base := range kinds {
		for name, spec := range specs {
			m, pod := runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(spec)
			m["metadata"] = map[string]any{"name": strings.ToLower(kind) + "-" + name}
			if kind == "Job" || kind == "CronJob" {
				pod["restartPolicy"] = "Never"
			}
			metadata := map[string]any{"creationTimestamp": nil, "labels": map[string]any{"app": "x"}}
			template := map[string]any{"metadata": metadata, "spec": pod}
			own, _ := m["spec"].(map[string]any)
			switch kind {
			case "Pod":
				m["spec"] = pod
			case "PodTemplate":
				m["template"] = template
			case "CronJob":
				own["jobTemplate"] = map[string]any{"spec": map[string]any{"template": template}}
			default:
				own["template"] = template
			}
			out[strings.ToLower(kind)+"-"+name] = m
		}
	}
}

var clusterScoped = []string{"PersistentVolume", "Namespace", "Node", "IngressClass", "IPAddress", "ServiceCIDR", "ClusterRole", "ClusterRoleBinding",
	"StorageClass", "CSIDriver", "VolumeAttachment", "VolumeAttributesClass", "PriorityClass", "RuntimeClass", "FlowSchema", "PriorityLevelConfiguration",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"CertificateSigningRequest", "DeviceClass", "CustomResourceDefinition", "APIService"}

func namespaced(m map[string]any) bool { return !slices.Contains(clusterScoped, m["kind"].(string)) }

// signingRequest of a key that is made for it.
func signingRequest(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x"}}, key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
}

// TestEqual has provider-kubernetes manage manifests of all built-in kinds in odd
// spellings: no gate stays open, no drift shows, and the next change of a user arrives (KR-08-44).
func TestEqual(t *testing.T) {
	ctx, e := story.StartTest(t, story.Options{Webhook: true})
	equal(ctx, t, e)
}

// equal plays the table on an Env.
func equal(ctx context.Context, t *testing.T, e *story.Env) {
	t.Helper()
	y := newScenario(ctx, t, e, "equal")
	for _, ns := range []string{"equal-limits", "equal-quota"} {
		newScenario(ctx, t, e, ns)
	}
	table := manifests(t, y.ns)
	require.GreaterOrEqual(t, len(table), 150)
	names := slices.Sorted(maps.Keys(table))
	if !*allManifests {
		var some []string
		for i := 0; i < len(names); i += 4 {
			some = append(some, names[i])
		}
		names = some
	}
	for _, name := range names {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubernetes.m.crossplane.io/v1alpha1", "kind": "Object",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{
				"providerConfigRef": map[string]any{"kind": "ClusterProviderConfig", "name": "default"},
				"forProvider":       map[string]any{"manifest": table[name]},
			}}}
		_, err := y.hans.Resource(story.Settings).Namespace(y.ns).Create(y.ctx, o, metav1.CreateOptions{})
		require.NoError(t, err, name)
	}
	y.allEqual(names, "")
	y.looksEqual(names)
	// The provider's patch replaces whole lists, with what admission added to a Pod, which the API server refuses.
	names = slices.DeleteFunc(names, func(name string) bool { return table[name]["kind"] == "Pod" })
	for _, name := range names {
		labels := map[string]any{"manifest": map[string]any{"metadata": map[string]any{"labels": map[string]any{"changed": "once"}}}}
		require.NoError(t, y.merge(y.hans, story.Settings, name, map[string]any{"spec": map[string]any{"forProvider": labels}}), name)
	}
	y.allEqual(names, "once")
	y.looksEqual(names)
}

// allEqual waits until all gates are closed, as confirmed, and the manifests have a label.
func (y *scenario) allEqual(names []string, label string) {
	y.t.Helper()
	var wrong []string
	err := controlplane.Eventually(y.ctx, fmt.Sprintf("all %d gates to be closed", len(names)), patience, func(ctx context.Context) error {
		list, err := y.admin.Resource(story.Settings).Namespace(y.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		wrong = nil
		for i := range list.Items {
			o := &list.Items[i]
			if !slices.Contains(names, o.GetName()) {
				continue
			}
			g := gateOf(o)
			if have := at(o, "status", "atProvider", "manifest", "metadata", "labels", "changed"); g.State != v1alpha1.GateClosed ||
				g.Reason != v1alpha1.GateReasonConfirmed || have != label {
				wrong = append(wrong, fmt.Sprintf("%s: gate %s %s, label %q, %s", o.GetName(), g.State, g.Reason, have, conditions(o)))
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%d are not", len(wrong))
		}
		return nil
	})
	if err != nil {
		y.looksEqual(names)
		y.t.Fatalf("%v:\n%s", err, strings.Join(wrong, "\n"))
	}
}

func conditions(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var out []string
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["status"] != "True" {
			out = append(out, fmt.Sprintf("%v=%v: %v", c["type"], c["status"], c["message"]))
		}
	}
	return strings.Join(out, "; ")
}

// looksEqual asserts that there is no external drift.
func (y *scenario) looksEqual(names []string) {
	y.t.Helper()
	list, err := y.admin.Resource(story.Drifts).Namespace(y.ns).List(y.ctx, metav1.ListOptions{})
	require.NoError(y.t, err)
	for i := range list.Items {
		d := &list.Items[i]
		if slices.Contains(names, at(d, "spec", "child", "name")) {
			difference, _, _ := unstructured.NestedSlice(d.Object, "spec", "difference")
			y.t.Errorf("drift of %s: %v", at(d, "spec", "child", "name"), difference)
		}
	}
}
