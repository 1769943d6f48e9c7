package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// system is an external system with a gate of its own kind, whose controller the
// test plays: it is idle.
type system struct {
	resource schema.GroupVersionResource
	kind     string
	spec     map[string]any
	// field by which its gate is closed: what its author wrote, nil for nothing,
	// and what closes it.
	field          []string
	author, closed any
	// status of an idle object of a generation.
	status func(o *unstructured.Unstructured) map[string]any
	// subresource that its controller writes the status by.
	subresource []string
}

var systems = map[string]system{
	"ArgoCD": {
		resource: schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}, kind: "Application",
		spec: map[string]any{
			"project": "default", "destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": "shop"},
			"source":     map[string]any{"repoURL": "https://git.example.org/shop.git", "path": "deploy"},
			"syncPolicy": map[string]any{"automated": map[string]any{"prune": true}},
		},
		field: []string{"spec", "syncPolicy", "automated", "enabled"}, closed: false,
		status: func(o *unstructured.Unstructured) map[string]any {
			spec, _ := o.Object["spec"].(map[string]any)
			return map[string]any{"sync": map[string]any{"status": "Synced", "revision": "1111",
				"comparedTo": map[string]any{"source": spec["source"], "destination": spec["destination"]}}}
		},
	},
	"Flux": {
		resource: schema.GroupVersionResource{Group: "infra.contrib.fluxcd.io", Version: "v1alpha2", Resource: "terraforms"}, kind: "Terraform",
		spec:  map[string]any{"approvePlan": "auto", "interval": "10m", "sourceRef": map[string]any{"kind": "GitRepository", "name": "infra"}},
		field: []string{"spec", "approvePlan"}, author: "auto", closed: "",
		status: func(o *unstructured.Unstructured) map[string]any {
			return map[string]any{"observedGeneration": o.GetGeneration(), "conditions": []any{map[string]any{"type": "Ready", "status": "True",
				"reason": "Any", "message": "",
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}}
		},
		subresource: []string{"status"},
	},
}

// installSystems installs their CRDs: Argo CD's own, and the fields of
// tofu-controller's that are used here.
func installSystems(t *testing.T) {
	t.Helper()
	all, err := parts.ArgoCD.CRDs(t.Context())
	require.NoError(t, err)
	for _, doc := range bytes.Split(all, []byte("\n---\n")) {
		if bytes.Contains(doc, []byte("  name: applications.argoproj.io\n")) {
			require.NoError(t, the.Apply(t.Context(), doc))
		}
	}
	own, err := os.ReadFile(filepath.Join(the.Root, "test", "webhook", "external", "testdata", "terraforms.yaml"))
	require.NoError(t, err)
	require.NoError(t, the.Apply(t.Context(), own))
}

// held objects of all systems, of hans, called as their system.
func held(t *testing.T, ns string) {
	t.Helper()
	for name, s := range systems {
		c := the.As(t, site.Hans).Resource(s.resource).Namespace(ns)
		o, err := c.Create(t.Context(), site.Object(s.resource.GroupVersion().String(), s.kind, ns, strings.ToLower(name), s.spec), metav1.CreateOptions{})
		require.NoError(t, err)
		o.Object["status"] = s.status(o)
		if len(s.subresource) > 0 {
			_, err = c.UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
		} else {
			_, err = c.Update(t.Context(), o, metav1.UpdateOptions{})
		}
		require.NoError(t, err)
		wait.For(t, name+" to be held", wait.Patience, func(ctx context.Context) error {
			now, remembered, err := s.stored(ctx, ns, strings.ToLower(name))
			if err == nil && (now != s.closed || !remembered) {
				err = fmt.Errorf("%v is %v, remembered %v", s.field, now, remembered)
			}
			return err
		})
	}
}

// stored value of the field by which an object is held, and whether its author's is
// remembered.
func (s system) stored(ctx context.Context, ns, name string) (value any, remembered bool, err error) {
	o, err := the.Admin.Resource(s.resource).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	value, _, err = unstructured.NestedFieldNoCopy(o.Object, s.field...)
	_, remembered = o.GetAnnotations()[v1alpha1.AnnotationKeyExternalAuthor]
	if _, gated := o.GetAnnotations()[v1alpha1.AnnotationKeyGate]; gated {
		remembered = true
	}
	return value, remembered, err
}

// allRestored: all that was held is as its authors wrote it.
func allRestored(ctx context.Context, ns string) error {
	var failed error
	for name, s := range systems {
		now, remembered, err := s.stored(ctx, ns, strings.ToLower(name))
		if err == nil && (now != s.author || remembered) {
			err = fmt.Errorf("%s: %v is %v, a gate remains: %v", name, s.field, now, remembered)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// TestRestoreBeforeAccessGoes: when kinds are removed from the policy while the
// gate is down, their managed resources and objects of external systems are
// restored before the gate's access to them goes.
func TestRestoreBeforeAccessGoes(t *testing.T) {
	the.Own(t)
	installSystems(t)
	ns := the.Namespace(t, "systems")
	of := func(groups ...any) map[string]any {
		return map[string]any{"mode": "enforce", "resources": []any{map[string]any{"apiGroups": groups, "resources": []any{"*"}}}}
	}
	the.Policy(t, "shop", of("shop.example.org", "argoproj.io", "infra.contrib.fluxcd.io"))
	the.Guarded(t, ns)
	held(t, ns)
	the.Played(t, ns, "kept", nil)
	the.ClosedGate(t, ns, "kept")
	granted := func(ctx context.Context) (bool, error) {
		o, err := the.Admin.Resource(site.Roles).Get(ctx, "kausality-gate-policies", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return strings.Contains(fmt.Sprint(o.Object["rules"]), "argoproj.io"), nil
	}
	the.Gate.Stop() // it would be faster than the policy controller
	require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop", map[string]any{"spec": of("elsewhere.example.org")}))
	the.AwaitPolicy(t, "shop")
	if has, err := granted(t.Context()); err != nil || !has {
		t.Errorf("the gate has access to what it holds: %v, error %v", has, err)
	}
	require.NoError(t, the.Gate.Restart())
	require.NoError(t, the.Gate.Await(t.Context()))
	the.RestoredTo(t, ns, "kept", "*")
	wait.For(t, "everything to be restored", wait.Patience, func(ctx context.Context) error { return allRestored(ctx, ns) })
	wait.For(t, "the gate's access to go", wait.Patience, func(ctx context.Context) error {
		has, err := granted(ctx)
		if err == nil && has {
			err = errors.New("it is still there")
		}
		return err
	})
}
