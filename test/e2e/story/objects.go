package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// The users of the story.
const (
	Hans  = "hans@example.com"
	Alice = "alice@example.com"
)

// Resources of the story.
var (
	XDatabases = schema.GroupVersionResource{Group: "example.org", Version: "v1alpha1", Resource: "xdatabases"}
	Databases  = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1alpha1", Resource: "databases"}
	Settings   = schema.GroupVersionResource{Group: "kubernetes.m.crossplane.io", Version: "v1alpha1", Resource: "objects"}
	Drifts     = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "drifts"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

const (
	namespace = "default"
	xrName    = "orders"
)

func (e *Env) established(ctx context.Context, crd string) error {
	o, err := e.admin.Resource(crds).Get(ctx, crd, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return controlplane.ConditionTrue(o, "Established")
}

// XR of the story.
func (e *Env) XR(ctx context.Context) (*unstructured.Unstructured, error) {
	return e.admin.Resource(XDatabases).Namespace(namespace).Get(ctx, xrName, metav1.GetOptions{})
}

// MR is the one Database of the XR.
func (e *Env) MR(ctx context.Context) (*unstructured.Unstructured, error) {
	return e.only(ctx, Databases)
}

// Setting is the one Object of the XR.
func (e *Env) Setting(ctx context.Context) (*unstructured.Unstructured, error) {
	return e.only(ctx, Settings)
}

var errNone = errors.New("there is none")

func (e *Env) only(ctx context.Context, r schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	list, err := e.admin.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 0:
		return nil, errNone
	case 1:
		return &list.Items[0], nil
	}
	return nil, fmt.Errorf("%d %s, expected one", len(list.Items), r.Resource)
}

// Policies of an MR as stored.
func Policies(mr *unstructured.Unstructured) []string {
	p, _, _ := unstructured.NestedStringSlice(mr.Object, "spec", "managementPolicies")
	return p
}

func closed(mr *unstructured.Unstructured) error {
	if p := Policies(mr); !slices.Equal(p, []string{"Observe"}) {
		return fmt.Errorf("managementPolicies are %v", p)
	}
	return nil
}

func integer(o *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// condition of an object: status, reason, message.
func condition(o *unstructured.Unstructured, kind string) (status, reason, message string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			status, _ = m["status"].(string)
			reason, _ = m["reason"].(string)
			message, _ = m["message"].(string)
		}
	}
	return status, reason, message
}

// Composition to install: a revision of examples/getting-started.
type Composition struct {
	// Tier of database and settings.
	Tier string
	// Kausality: the pipeline ends with our function.
	Kausality bool
	// Without is the name of a resource that is not composed; empty for none.
	Without string
}

// Compose installs a revision of the Composition.
func (e *Env) Compose(ctx context.Context, c Composition) error {
	raw, err := Example("composition.yaml")
	if err != nil {
		return err
	}
	o := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(raw), "tier: bronze", "tier: "+c.Tier)), &o); err != nil {
		return err
	}
	if e.Options.WithoutObjects {
		if err := without(o, "settings"); err != nil {
			return err
		}
	}
	if err := without(o, c.Without); err != nil {
		return err
	}
	if !c.Kausality {
		steps, _, err := unstructured.NestedSlice(o, "spec", "pipeline")
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(o, steps[:len(steps)-1], "spec", "pipeline"); err != nil {
			return err
		}
	}
	out, err := yaml.Marshal(o)
	if err != nil {
		return err
	}
	return e.Apply(ctx, out)
}

// without removes a resource from a Composition.
func without(o map[string]any, name string) error {
	steps, _, err := unstructured.NestedSlice(o, "spec", "pipeline")
	if err != nil || len(steps) == 0 {
		return fmt.Errorf("the Composition has no steps: %w", err)
	}
	first, _ := steps[0].(map[string]any)
	resources, _, err := unstructured.NestedSlice(first, "input", "resources")
	if err != nil {
		return err
	}
	resources = slices.DeleteFunc(resources, func(r any) bool { m, _ := r.(map[string]any); return m["name"] == name })
	if err := unstructured.SetNestedSlice(first, resources, "input", "resources"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(o, steps, "spec", "pipeline")
}

// Patch an object as a user, with a merge patch.
func (e *Env) Patch(ctx context.Context, user string, r schema.GroupVersionResource, name string, patch map[string]any) error {
	c, err := e.As(user)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.Resource(r).Namespace(namespace).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

// Annotate an object as a user; nil removes.
func (e *Env) Annotate(ctx context.Context, user string, r schema.GroupVersionResource, name, key string, value any) error {
	return e.Patch(ctx, user, r, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// Delete an object as a user.
func (e *Env) Delete(ctx context.Context, user string, r schema.GroupVersionResource, name string) error {
	c, err := e.As(user)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return c.Resource(r).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
}

// drift that is open, with a relation, for a kind.
func (e *Env) drift(ctx context.Context, relation, kind, operation string) (*unstructured.Unstructured, error) {
	list, err := e.admin.Resource(Drifts).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if text(d, "spec", "relation") == relation && text(d, "spec", "child", "kind") == kind &&
			text(d, "spec", "operation") == operation && text(d, "status", "phase") == "Detected" {
			return d, nil
		}
	}
	return nil, errNone
}

// until waits for a condition to hold.
func until(ctx context.Context, what string, f func(context.Context) error) error {
	return controlplane.Eventually(ctx, what, patience, f)
}

// patience with one step of controllers that are not ours.
const patience = 60 * time.Second

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }
