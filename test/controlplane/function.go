package controlplane

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const functionAPI = "pkg.crossplane.io/v1"

// RegisterFunction announces a composition function to Crossplane as a package manager would: a
// Function of that name with an active FunctionRevision whose endpoint is the given one, a host and
// port or a gRPC target (localhost:9443 stands for dns:///localhost:9443). Crossplane speaks mutual
// TLS to it: the function must serve a certificate from CA() for the host, and accept clients from
// there. No capabilities means "composition".
//
// Both objects are paused, so that Crossplane does not look for a package. Calling it again changes
// endpoint and capabilities.
func (c *ControlPlane) RegisterFunction(ctx context.Context, name, endpoint string, capabilities ...string) error {
	if !strings.Contains(endpoint, ":///") {
		endpoint = "dns:///" + endpoint
	}

	if len(capabilities) == 0 {
		capabilities = []string{"composition"}
	}

	image := "local.invalid/" + name + ":v0.0.0"
	fn := paused("Function", name, map[string]any{"package": image})
	rev := paused("FunctionRevision", name+"-local", map[string]any{
		"image": image, "desiredState": "Active", "revision": int64(1),
	})
	rev.SetLabels(map[string]string{"pkg.crossplane.io/package": name})

	stored, err := c.applier.applyOne(ctx, fn)
	if err != nil {
		return err
	}

	rev.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(stored, stored.GroupVersionKind())})

	if _, err := c.applier.applyOne(ctx, rev); err != nil {
		return err
	}

	if err := c.applier.applyStatus(ctx, withStatus(rev, map[string]any{
		"endpoint":     endpoint,
		"capabilities": anySlice(capabilities),
		"conditions":   c.conditions("RevisionHealthy", "RuntimeHealthy"),
	})); err != nil {
		return err
	}

	return c.applier.applyStatus(ctx, withStatus(fn, map[string]any{
		"currentRevision": rev.GetName(),
		"conditions":      c.conditions("Installed", "Healthy"),
	}))
}

// paused returns an object of the package API that Crossplane's package manager does not reconcile.
func paused(kind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(functionAPI)
	u.SetKind(kind)
	u.SetName(name)
	u.SetAnnotations(map[string]string{"crossplane.io/paused": "true"})

	return u
}

// withStatus returns an object with nothing but its identity and a status.
func withStatus(o *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetAPIVersion(o.GetAPIVersion())
	u.SetKind(o.GetKind())
	u.SetName(o.GetName())

	return u
}

// conditions returns conditions that are True since the control plane was started, so that applying
// them again changes nothing.
func (c *ControlPlane) conditions(types ...string) []any {
	cs := make([]any, 0, len(types))
	for _, t := range types {
		cs = append(cs, map[string]any{
			"type": t, "status": "True", "reason": "External",
			"lastTransitionTime": c.started.UTC().Format(time.RFC3339),
		})
	}

	return cs
}

func anySlice(in []string) []any {
	out := make([]any, 0, len(in))
	for _, s := range in {
		out = append(out, s)
	}

	return out
}
