package changes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// everything that a policy can guard.
var everything = []any{
	map[string]any{"apiGroups": []any{""}, "resources": []any{"pods", "secrets", "configmaps", "services", "serviceaccounts", "namespaces",
		"persistentvolumeclaims", "persistentvolumes", "replicationcontrollers", "limitranges", "resourcequotas", "podtemplates"}},
	map[string]any{"resources": []any{"*"}, "apiGroups": []any{"apps", "batch", "autoscaling", "policy", "node.k8s.io", "scheduling.k8s.io",
		"storage.k8s.io", "networking.k8s.io", "resource.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io",
		"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "shop.example.org"}},
}

// critical is a write that the cluster, or Kausality itself, needs to get up again.
type critical struct {
	user, group, version, resource, namespace string
	object                                    map[string]any
	status                                    string
}

const (
	kubelet   = "system:node:node-1"
	scheduler = "system:kube-scheduler"
	daemons   = "system:serviceaccount:kube-system:daemon-set-controller"
	attacher  = "system:serviceaccount:kube-system:attachdetach-controller"
	loopback  = "system:apiserver"
	admin     = "kubernetes-admin"
)

func named(name string, more map[string]any) map[string]any {
	out := map[string]any{"metadata": map[string]any{"name": name}}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func workload(name string) map[string]any {
	labels := map[string]any{"app": name}
	return named(name, map[string]any{"kind": "Deployment", "spec": map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": containers()}}})
}

// containers that the Pod Security Standard restricted admits.
func containers() map[string]any {
	restricted := map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}, "runAsNonRoot": true,
		"seccompProfile": map[string]any{"type": "RuntimeDefault"}}
	return map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.org/c", "securityContext": restricted}}}
}

func criticals() map[string]critical {
	out := map[string]critical{
		"Node": {user: kubelet, version: "v1", resource: "nodes", object: named("node-1", map[string]any{"kind": "Node"}),
			status: `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"ready"}]}}`},
		"NodeLease": {user: kubelet, group: "coordination.k8s.io", version: "v1", resource: "leases", namespace: "kube-node-lease",
			object: named("node-1", map[string]any{"kind": "Lease", "spec": map[string]any{"holderIdentity": "node-1"}})},
		"ControllerLease": {user: scheduler, group: "coordination.k8s.io", version: "v1", resource: "leases", namespace: "default",
			object: named("a-controller", map[string]any{"kind": "Lease", "spec": map[string]any{"holderIdentity": "a"}})},
		"CSINode": {user: kubelet, group: "storage.k8s.io", version: "v1", resource: "csinodes",
			object: named("node-1", map[string]any{"kind": "CSINode", "spec": map[string]any{"drivers": []any{}}})},
		"VolumeAttachment": {user: attacher, group: "storage.k8s.io", version: "v1", resource: "volumeattachments",
			object: named("volume-1", map[string]any{"kind": "VolumeAttachment", "spec": map[string]any{"attacher": "example.org", "nodeName": "node-1",
				"source": map[string]any{"persistentVolumeName": "pv-1"}}})},
		"ServiceAddress": {user: loopback, group: "networking.k8s.io", version: "v1", resource: "servicecidrs",
			object: named("more", map[string]any{"kind": "ServiceCIDR", "spec": map[string]any{"cidrs": []any{"10.200.0.0/24"}}})},
		"FlowSchema": {user: loopback, group: "flowcontrol.apiserver.k8s.io", version: "v1", resource: "flowschemas",
			object: named("more", map[string]any{"kind": "FlowSchema", "spec": map[string]any{"priorityLevelConfiguration": map[string]any{"name": "exempt"}}})},
		"OwnRole": {user: admin, group: "rbac.authorization.k8s.io", version: "v1", resource: "clusterroles",
			object: named("kausality-more", map[string]any{"kind": "ClusterRole", "rules": []any{}})},
		"OwnSecret": {user: admin, version: "v1", resource: "secrets", namespace: site.Home, object: named("more", map[string]any{"kind": "Secret"})},
		"Event": {user: kubelet, group: "events.k8s.io", version: "v1", resource: "events", namespace: "default",
			object: named("more", map[string]any{"kind": "Event", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.org/k",
				"reportingInstance": "k", "action": "a", "reason": "r", "type": "Normal", "regarding": map[string]any{"namespace": "default"}})},
	}
	for _, ns := range []string{"kube-system", "kube-public", "kube-node-lease", site.Home} {
		out["PodIn-"+ns] = critical{user: daemons, version: "v1", resource: "pods", namespace: ns,
			object: named("critical", map[string]any{"kind": "Pod", "spec": containers()}), status: `{"status":{"phase":"Running"}}`}
		out["DeploymentIn-"+ns] = critical{user: admin, group: "apps", version: "v1", resource: "deployments", namespace: ns, object: workload("critical")}
		out["ConfigMapIn-"+ns] = critical{user: admin, version: "v1", resource: "configmaps", namespace: ns,
			object: named("critical", map[string]any{"kind": "ConfigMap"})}
	}
	return out
}

// play the life of the object: created, changed, its status written, deleted.
func (c critical) play(ctx context.Context) error {
	client, err := dynamic.NewForConfig(the.ConfigAsMaster(c.user))
	if err != nil {
		return err
	}
	gvr := schema.GroupVersionResource{Group: c.group, Version: c.version, Resource: c.resource}
	r := dynamic.ResourceInterface(client.Resource(gvr))
	if c.namespace != "" {
		r = client.Resource(gvr).Namespace(c.namespace)
	}
	o := &unstructured.Unstructured{Object: c.object}
	o.SetAPIVersion(gvr.GroupVersion().String())
	if _, err := r.Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, patch := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"kausality.io/mode":"log"}}}`} {
		if _, err := r.Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	if c.status != "" {
		if _, err := r.Patch(ctx, o.GetName(), types.MergePatchType, []byte(c.status), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return r.Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// TestNothingCriticalIsStopped: with all that a policy can guard guarded in mode enforce, and no webhook that answers, nothing
// that the cluster or Kausality itself needs is refused or delayed (KR-13-55).
func TestNothingCriticalIsStopped(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "uncritical")
	the.Policy(t, "everything", map[string]any{"mode": "enforce", "resources": everything})
	for _, p := range the.Webhooks {
		p.Stop()
	}
	t.Cleanup(func() {
		for _, p := range the.Webhooks {
			require.NoError(t, p.Restart())
			require.NoError(t, p.Await(context.Background()))
		}
	})
	uncritical := critical{user: admin, version: "v1", resource: "configmaps", namespace: ns}
	wait.For(t, "what is guarded to be refused", wait.Patience, func(ctx context.Context) error {
		uncritical.object = named("a", map[string]any{"kind": "ConfigMap"})
		if err := uncritical.play(ctx); !kerrors.IsInternalError(err) {
			return errors.Join(errors.New("it is not"), err)
		}
		return nil
	})
	for name, c := range criticals() {
		t.Run(name, func(t *testing.T) {
			at := time.Now()
			require.NoError(t, c.play(t.Context()))
			require.Less(t, time.Since(at), wait.Patience/10, "it was delayed")
		})
	}
	t.Run("OwnObjects", func(t *testing.T) {
		for _, name := range []string{"kausality-webhook-policies", "kausality-gate-policies"} {
			require.NoError(t, the.Admin.Resource(site.Roles).Delete(t.Context(), name, site.Forget))
			wait.For(t, name+" to be written again", wait.Patience, func(ctx context.Context) error {
				_, err := the.Admin.Resource(site.Roles).Get(ctx, name, metav1.GetOptions{})
				return err
			})
		}
		require.NoError(t, site.Merge(t, the.Admin, site.Definition, "", "drifts.kausality.io", site.Annotate("example.org/note", "x")), "an upgrade of the CRDs")
		require.NoError(t, site.Merge(t, the.Admin, site.Namespaces, "", site.Home, site.Annotate("example.org/note", "x")))
		require.NoError(t, site.Merge(t, the.Admin, site.Deployments, site.Home, "kausality-webhook", site.Annotate("example.org/note", "x")))
		require.NoError(t, the.Admin.Resource(site.Hooks).Delete(t.Context(), "kausality", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
		require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "everything", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	})
}
