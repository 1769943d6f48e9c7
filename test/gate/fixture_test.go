package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	hans       = "hans@example.com"
	crossplane = "system:serviceaccount:crossplane-system:crossplane"
	collector  = "system:serviceaccount:kube-system:generic-garbage-collector"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	events     = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	drifts     = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "drifts"}
	databases  = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1alpha1", Resource: "databases"}
	xstores    = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "xstores"}
	buckets    = schema.GroupVersionResource{Group: "other.example.org", Version: "v1", Resource: "buckets"}
	plains     = schema.GroupVersionResource{Group: "other.example.org", Version: "v1", Resource: "plains"}
)

// fixture is a Namespace with the clients of a user and of Crossplane.
type fixture struct {
	t          testing.TB
	ns         string
	hans, ctrl dynamic.Interface
	// changedAt is the point of the cloud's log at which changeOutside was called last; 0 for never.
	changedAt int64
}

func newFixture(t testing.TB, name string) *fixture {
	t.Helper()
	s := &fixture{t: t, ns: name, hans: the.as(t, hans), ctrl: the.as(t, crossplane)}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := s.hans.Resource(namespaces).Create(t.Context(), ns, metav1.CreateOptions{})
	require.NoError(t, err)
	return s
}

func (s *fixture) of(c dynamic.Interface, r schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.Resource(r).Namespace(s.ns)
}

// xr that hans wants, of a size.
func (s *fixture) xr(name string, size int) {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "XStore", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": int64(size)},
	}}
	_, err := s.of(s.hans, xstores).Create(s.t.Context(), o, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// composeAs is a Composition: what it makes of an XR.
type composeAs struct {
	tier   string
	author []any // managementPolicies; none for the default
	// without: the Composition composes nothing any more.
	without bool
}

// compose as Crossplane does: references first, the Database, then the status.
// The error is the refusal, which the status reports, too.
func (s *fixture) compose(ctx context.Context, name string, as composeAs) error {
	xr, err := s.of(s.ctrl, xstores).Get(ctx, name, metav1.GetOptions{})
	if err != nil || xr.GetDeletionTimestamp() != nil {
		return err
	}
	refs := []any{map[string]any{"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database", "name": s.mrName(name)}}
	body, err := json.Marshal(map[string]any{"apiVersion": "example.org/v1", "kind": "XStore", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"crossplane": map[string]any{"resourceRefs": refs}}})
	if err != nil {
		return err
	}
	if xr, err = s.of(s.ctrl, xstores).Patch(ctx, name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: "apiextensions.crossplane.io/composite", Force: new(true)}); err != nil {
		return err
	}
	refused := s.applyComposed(ctx, xr, as)
	if refused != nil && !kerrors.IsInvalid(refused) && !kerrors.IsForbidden(refused) {
		return refused
	}
	return errors.Join(refused, s.reportXR(ctx, xr, refused))
}

func (s *fixture) mrName(xr string) string { return s.ns + "-" + xr }

func (s *fixture) applyComposed(ctx context.Context, xr *unstructured.Unstructured, as composeAs) error {
	name := s.mrName(xr.GetName())
	if as.without {
		err := s.of(s.ctrl, databases).Delete(ctx, name, metav1.DeleteOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	size, _, _ := unstructured.NestedInt64(xr.Object, "spec", "size")
	spec := map[string]any{"forProvider": map[string]any{"size": size, "tags": map[string]any{"tier": as.tier}}}
	if as.author != nil {
		spec["managementPolicies"] = as.author
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"crossplane.io/composition-resource-name": "database"},
			"ownerReferences": []any{map[string]any{"apiVersion": "example.org/v1", "kind": "XStore", "name": xr.GetName(),
				"uid": string(xr.GetUID()), "controller": true, "blockOwnerDeletion": true}}},
		"spec": spec,
	})
	if err != nil {
		return err
	}
	manager := subject.ComposedManager(xr.GetName(), schema.GroupKind{Group: "example.org", Kind: "XStore"})
	_, err = s.of(s.ctrl, databases).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager, Force: new(true)})
	return err
}

// reportXR writes the status that Crossplane writes.
func (s *fixture) reportXR(ctx context.Context, xr *unstructured.Unstructured, refused error) error {
	synced, message := "True", ""
	if refused != nil {
		synced, message = "False", "Unsynced resources: database"
	}
	ready := "True"
	if mr, err := s.of(s.ctrl, databases).Get(ctx, s.mrName(xr.GetName()), metav1.GetOptions{}); err != nil || conditionOf(mr, "Ready") != "True" {
		ready = "False"
	}
	now := time.Now().UTC().Format(time.RFC3339)
	one := func(kind, status, message string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": "R", "message": message, "observedGeneration": xr.GetGeneration(), "lastTransitionTime": now}
	}
	list, _, _ := unstructured.NestedSlice(xr.Object, "status", "conditions")
	next := []any{one("Synced", synced, message), one("Ready", ready, "")}
	for i, e := range next {
		for _, old := range list {
			if o := old.(map[string]any); o["type"] == e.(map[string]any)["type"] && o["status"] == e.(map[string]any)["status"] {
				next[i].(map[string]any)["lastTransitionTime"] = o["lastTransitionTime"]
			}
		}
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": next}})
	if err != nil {
		return err
	}
	_, err = s.of(s.ctrl, xstores).Patch(ctx, xr.GetName(), types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "crossplane"}, "status")
	return err
}

func conditionOf(o *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

// settled XR with a closed gate.
func (s *fixture) settled(name string, size int) *unstructured.Unstructured {
	s.t.Helper()
	s.xr(name, size)
	s.settles(name, composeAs{tier: "bronze"})
	return s.mr(s.mrName(name))
}

func (s *fixture) settles(name string, as composeAs) {
	s.t.Helper()
	composed, next := errors.New("it was not composed"), time.Time{}
	wait.For(s.t, "XR "+name+" to settle with a closed gate", 90*time.Second, func(ctx context.Context) error {
		if time.Now().After(next) { // no faster than Crossplane
			composed, next = s.compose(ctx, name, as), time.Now().Add(time.Second)
		}
		if composed != nil {
			return composed
		}
		xr, err := s.of(s.hans, xstores).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] == "" {
			mr := s.mr(s.mrName(name))
			return fmt.Errorf("it has not settled: %v, its Database %v %v %v", xr.Object["status"], mr.Object["status"], mr.Object["spec"], mr.GetAnnotations())
		}
		return s.closed(ctx, s.mrName(name))
	})
}

func (s *fixture) mr(name string) *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.of(s.hans, databases).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return o
}

// lone Database of hans's, without a parent.
func (s *fixture) lone(name string, size int, policies ...any) string {
	s.t.Helper()
	spec := map[string]any{"forProvider": map[string]any{"size": int64(size)}}
	if len(policies) > 0 {
		spec["managementPolicies"] = policies
	}
	full := s.ns + "-" + name
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database",
		"metadata": map[string]any{"name": full}, "spec": spec}}
	_, err := s.of(s.hans, databases).Create(s.t.Context(), o, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return full
}

func (s *fixture) awaitClosed(name string) {
	s.t.Helper()
	wait.For(s.t, "the gate of "+name+" to be closed", 60*time.Second, func(ctx context.Context) error { return s.closed(ctx, name) })
}

func (s *fixture) closed(ctx context.Context, name string) error {
	o, err := s.of(s.hans, databases).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if g := gateOf(o); g.State != v1alpha1.GateClosed || !slices.Equal(policiesOf(o), []string{"Observe"}) {
		return fmt.Errorf("gate %+v, policies %v", g, policiesOf(o))
	}
	return nil
}

func gateOf(o *unstructured.Unstructured) v1alpha1.Gate { return mask.ParseGate(o.GetAnnotations()) }

func policiesOf(o *unstructured.Unstructured) []string {
	p, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "managementPolicies")
	return p
}

// patch an object with a client.
func (s *fixture) patch(c dynamic.Interface, r schema.GroupVersionResource, name, body string) (*unstructured.Unstructured, error) {
	return s.of(c, r).Patch(s.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
}

// annotate as hans; a value of nil removes.
func (s *fixture) annotate(r schema.GroupVersionResource, name, key string, value any) {
	s.t.Helper()
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	require.NoError(s.t, err)
	wait.For(s.t, "annotation "+key+" to be taken", wait.Patience, func(context.Context) error {
		// By the manager of kubectl annotate: a label or annotation by the manager that wrote the spec moves the time of both.
		_, err := s.of(s.hans, r).Patch(s.t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl-annotate"})
		return err
	})
}

var command = regexp.MustCompile(`kubectl annotate (?:-n (\S+) )?(\S+) (\S+) (kausality\.io/[^=\s]+)=(\S+)`)

// follow the first command of a text as hans.
func (s *fixture) follow(text string) {
	s.t.Helper()
	m := command.FindStringSubmatch(text)
	if m == nil {
		s.t.Fatalf("no command in: %s", text)
	}
	r := map[string]schema.GroupVersionResource{"xstores.example.org": xstores, "databases.cloud.example.org": databases}[m[2]]
	s.annotate(r, m[3], m[4], m[5])
}

// refusedDelete asserts that a deletion is refused, and returns the message.
func (s *fixture) refusedDelete(c dynamic.Interface, r schema.GroupVersionResource, name string) string {
	s.t.Helper()
	err := s.of(c, r).Delete(s.t.Context(), name, metav1.DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "ExternalDeletionNotAllowed") {
		s.t.Fatalf("deleting %s: want a refusal, got %v", name, err)
	}
	return err.Error()
}

// awaitGone waits until an object does not exist.
func (s *fixture) awaitGone(r schema.GroupVersionResource, name string) {
	s.t.Helper()
	wait.For(s.t, name+" to be gone", 90*time.Second, func(ctx context.Context) error {
		_, err := s.of(s.hans, r).Get(ctx, name, metav1.GetOptions{})
		return still(err)
	})
}

func (s *fixture) inCloud(name string) bool {
	s.t.Helper()
	all, err := the.cloud.Databases().List(s.t.Context())
	require.NoError(s.t, err)
	for _, d := range all {
		if d.Info().Name == name {
			return true
		}
	}
	return false
}

// eventCounts of an object's gate, by reason. Equal events are one with a series.
func (s *fixture) eventCounts(name string) map[string]int64 {
	s.t.Helper()
	list, err := s.of(s.hans, events).List(s.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	require.NoError(s.t, err)
	out := map[string]int64{}
	for _, e := range list.Items {
		if by, _, _ := unstructured.NestedString(e.Object, "reportingComponent"); by != "kausality-gate" {
			continue
		}
		reason, _, _ := unstructured.NestedString(e.Object, "reason")
		count, more, _ := unstructured.NestedInt64(e.Object, "series", "count")
		if !more {
			count = 1
		}
		out[reason] += count
	}
	return out
}
