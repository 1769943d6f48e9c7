package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	// argocd owns the spec of composites and their labels, in one entry.
	argocd = "system:serviceaccount:argocd:application-controller"
	// crossplane makes Parts of composites.
	crossplane = "system:serviceaccount:crossplane-system:crossplane"
)

// composite is one XR with a composed Part, in a namespace of its own.
type composite struct {
	*fleet
	t      *testing.T
	ns     string
	gitops dynamic.Interface
	xp     dynamic.Interface
	xr     *unstructured.Unstructured
}

// newComposite of Argo CD that Crossplane composed a Part for, settled at
// generation 1 longer ago than what could pass for a part of that intent.
func newComposite(t *testing.T, f *fleet, ns string) *composite {
	t.Helper()
	c := &composite{fleet: f, t: t, ns: f.namespace(ns, true), gitops: the.as(t, argocd), xp: the.as(t, crossplane)}
	c.author(map[string]any{"spec": map[string]any{"size": int64(1)}})
	c.xr = c.get()
	c.machinery("rev-1")
	require.NoError(t, c.compose(1))
	c.status()
	wait.For(t, "the composite to have settled long ago", 45*time.Second, func(context.Context) error {
		if err := latched(c.get()); err != nil {
			return err
		}
		return c.aged()
	})
	return c
}

func (c *composite) all(as dynamic.Interface) dynamic.ResourceInterface {
	return as.Resource(c.resource("composites")).Namespace(c.ns)
}

// apply as a field manager, which then owns what it applied and nothing else.
func (c *composite) apply(r dynamic.ResourceInterface, kind, name, manager string, content map[string]any) error {
	o := object(c.name, kind, c.ns, name, nil)
	delete(o.Object, "spec")
	for k, v := range content {
		if k == "metadata" {
			for mk, mv := range v.(map[string]any) {
				require.NoError(c.t, unstructured.SetNestedField(o.Object, mv, k, mk))
			}
			continue
		}
		o.Object[k] = v
	}
	_, err := r.Apply(c.t.Context(), name, o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}

// author applies all fields that Argo CD owns.
func (c *composite) author(content map[string]any) {
	c.t.Helper()
	require.NoError(c.t, c.apply(c.all(c.gitops), "Composite", "xr", "argocd-controller", content))
}

// machinery: Crossplane sets the revision, which increments the generation.
func (c *composite) machinery(revision string) {
	c.t.Helper()
	ref := map[string]any{"apiVersion": c.name + groupSuffix + "/v1", "kind": "Part", "name": "part"}
	machinery := map[string]any{"compositionRevisionRef": map[string]any{"name": revision}, "resourceRefs": []any{ref}}
	require.NoError(c.t, c.apply(c.all(c.xp), "Composite", "xr", "apiextensions.crossplane.io/composite",
		map[string]any{"spec": map[string]any{"crossplane": machinery}}))
}

// compose the Part.
func (c *composite) compose(count int) error {
	yes := true
	o := c.xr.DeepCopy()
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID(), Controller: &yes}})
	owners, _, err := unstructured.NestedSlice(o.Object, "metadata", "ownerReferences")
	require.NoError(c.t, err)
	return c.apply(c.xp.Resource(c.parts()).Namespace(c.ns), "Part", "part", subject.ComposedManager("xr", o.GroupVersionKind().GroupKind()),
		map[string]any{"metadata": map[string]any{"ownerReferences": owners}, "spec": map[string]any{"count": int64(count)}})
}

// status of a composite that Crossplane has reconciled.
func (c *composite) status() {
	c.t.Helper()
	now, at := c.get(), time.Now().UTC().Format(time.RFC3339)
	body := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Synced","status":"True","reason":"Any","observedGeneration":%d,"lastTransitionTime":%q},
{"type":"Ready","status":"True","reason":"Any","lastTransitionTime":%q}]}}`, now.GetGeneration(), at, at)
	_, err := c.all(c.xp).Patch(c.t.Context(), "xr", types.MergePatchType, body, metav1.PatchOptions{}, "status")
	require.NoError(c.t, err)
}

func (c *composite) get() *unstructured.Unstructured {
	c.t.Helper()
	o, err := c.all(c.gitops).Get(c.t.Context(), "xr", metav1.GetOptions{})
	require.NoError(c.t, err)
	return o
}

// aged: the last intent is old enough to be distinguished from a later one
// (trace.Intent).
func (c *composite) aged() error {
	hop, err := hopOf(c.get())
	if age := time.Since(hop.Timestamp.Time); err == nil && age < 7*time.Second {
		err = fmt.Errorf("the last intent is %s old", age)
	}
	return err
}

// forget the state at which it settled, as if a release had latched it that
// recorded none.
func (c *composite) forget(user, manager string) error {
	_, err := c.all(the.as(c.t, user)).Patch(c.t.Context(), "xr", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AnnotationKeySettledState), metav1.PatchOptions{FieldManager: manager})
	return err
}

func (c *composite) state() string {
	return c.get().GetAnnotations()[v1alpha1.AnnotationKeySettledState]
}

// labelled: the same spec with another label, and a generation that Crossplane
// incremented.
func (c *composite) labelled(size int) {
	c.t.Helper()
	was := c.get().GetGeneration()
	c.author(map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}, "spec": map[string]any{"size": int64(size)}})
	c.machinery("rev-2")
	c.status()
	if now := c.get(); now.GetGeneration() == was {
		c.t.Fatalf("the generation stayed %d", was)
	}
}

// TestRestartLabelled: what happened to a composite while the webhook was down is
// known from the first request on, whichever state it was in before. While it is
// down, every change passes.
func TestRestartLabelled(t *testing.T) {
	t.Parallel()
	require.NoError(t, the.Define(t.Context(), controlplane.Kind{Group: "labelled" + groupSuffix, Kind: "Composite", Categories: []string{"composite"}}))
	f := startFleet(t, "labelled", options{replicas: 1, ignore: true})
	settled, changed, there, older := newComposite(t, f, "labelled"), newComposite(t, f, "labelled-changed"), newComposite(t, f,
		"labelled-there"), newComposite(t, f, "labelled-older")
	there.author(map[string]any{"spec": map[string]any{"size": int64(2)}})
	wait.For(t, "the recorded intent to be old enough", wait.Patience, func(context.Context) error { return there.aged() })
	f.crash(0)
	settled.labelled(1)
	changed.author(map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}, "spec": map[string]any{"size": int64(2)}})
	there.author(map[string]any{"spec": map[string]any{"size": int64(1)}})
	if err := older.forget(argocd, "argocd-controller"); !kerrors.IsForbidden(err) && !kerrors.IsInvalid(err) {
		t.Errorf("removing the record while the webhook is down: want a refusal, got %v", err)
	}
	require.NoError(t, older.forget("system:serviceaccount:"+home+":kausality-webhook", "kausality-webhook"))
	f.restart(0)

	// Only a label: the composition moved, and that was not requested.
	mustRefuse(t, settled.compose(2), "Drift")
	// Another intent, or a recorded one undone: it is carried out, then settles.
	for _, c := range []*composite{changed, there} {
		require.NoError(t, c.compose(2))
		c.status()
		wait.For(t, "the intent without a review to settle", wait.Patience, func(context.Context) error {
			hop, err := hopOf(c.get())
			if err == nil && !hop.Unattributed {
				err = fmt.Errorf("the hop is %+v", hop)
			}
			if err != nil {
				return err
			}
			return latched(c.get())
		})
		mustRefuse(t, c.compose(3), "Drift")
	}
	// An older release recorded no state: it is recorded now, for the next restart.
	wait.For(t, "the state to be recorded", wait.Patience, func(context.Context) error {
		if older.state() == "" {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	f.crash(0)
	older.labelled(1)
	f.restart(0)
	for _, c := range []*composite{older, settled} {
		mustRefuse(t, c.compose(2), "Drift")
		if hop, err := hopOf(c.get()); err != nil || hop.Unattributed || hop.Generation != 1 {
			t.Errorf("the last intent of %s is %+v, %v", c.ns, hop, err)
		}
	}
}
