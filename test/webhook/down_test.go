package webhook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestDownInLogMode: with failurePolicy Ignore everything passes while the
// webhook is down, but for the deletion of a masked managed resource (KR-08-15).
func TestDownInLogMode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "lenient", options{replicas: 1, ignore: true, resources: []string{"/secrets"}})
	s := newFixture(t, f, "lenient")
	s.settled("part")
	mrs := s.hans.Resource(f.resource("manageds")).Namespace(s.ns)
	real := s.managed(mrs, "real", "", "*")
	if p, _, _ := unstructured.NestedStringSlice(real.Object, "spec", "managementPolicies"); slices.Contains(p, "*") || slices.Contains(p, "Delete") {
		t.Fatalf("the webhook left %v of a new managed resource", p)
	}
	f.crash(0)
	masked := s.managed(mrs, "masked", `["*"]`, "Observe")
	s.managed(mrs, "orphan", `["*"]`, "Observe")
	s.managed(mrs, "open", `["*"]`, "Observe", "Delete")
	s.managed(mrs, "starred", `["*"]`, "*")
	s.managed(mrs, "looking", `["Observe"]`, "Observe")
	s.managed(mrs, "legacy", `["*"]`, "Observe")
	s.managed(mrs, "unmasked", "", "Observe")

	_, err := mrs.Patch(t.Context(), "orphan", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kausality.io/deletion":"orphan"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = mrs.Patch(t.Context(), "legacy", types.MergePatchType, []byte(`{"spec":{"deletionPolicy":"Orphan"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	for name, dryRun := range map[string][]string{"real": nil, "masked": {metav1.DryRunAll}} {
		err = mrs.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dryRun})
		if !kerrors.IsForbidden(err) || !strings.Contains(err.Error(), "kausality.io/deletion=orphan") {
			t.Fatalf("deleting %s: want a refusal with what to do, got %v", name, err)
		}
	}
	err = mrs.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=masked"})
	if !kerrors.IsForbidden(err) {
		t.Errorf("deleting a collection with a masked resource: want a refusal, got %v", err)
	}
	if now, err := mrs.Get(t.Context(), "masked", metav1.GetOptions{}); err != nil || now.GetUID() != masked.GetUID() || now.GetDeletionTimestamp() != nil {
		t.Errorf("the masked resource is %v, %v", now, err)
	}
	for _, name := range []string{"orphan", "open", "starred", "looking", "legacy", "unmasked"} {
		if err := mrs.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
	// Other objects are never refused, with whatever annotations.
	require.NoError(t, s.count(s.ctrl, "part", 1))
	s.observe()
	require.NoError(t, s.of(s.ctrl).Delete(t.Context(), "part", metav1.DeleteOptions{}))
	require.NoError(t, s.apps(s.hans).Delete(t.Context(), "app", metav1.DeleteOptions{}))
	s.secretComesAndGoes()
}

// managed resource as the gate left it: the author's value remembered, the mask
// in its place.
func (s *fixture) managed(mrs dynamic.ResourceInterface, name, author string, policies ...any) *unstructured.Unstructured {
	s.t.Helper()
	o := object(s.name, "Managed", s.ns, name, map[string]any{"managementPolicies": policies, "forProvider": map[string]any{"size": int64(1)}})
	if author != "" {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyManagementPolicies: author})
	}
	made, err := mrs.Create(s.t.Context(), o, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return made
}

// secretComesAndGoes with the annotation that only managed resources have.
func (s *fixture) secretComesAndGoes() {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "plain", "namespace": s.ns}, "stringData": map[string]any{"a": "b"},
	}}
	_, err := s.hans.Resource(secrets).Namespace(s.ns).Create(s.t.Context(), o, metav1.CreateOptions{})
	require.NoError(s.t, err)
	require.NoError(s.t, s.hans.Resource(secrets).Namespace(s.ns).Delete(s.t.Context(), "plain", metav1.DeleteOptions{}))
}

// TestDownInEnforceMode: writes fail closed with an error that names the
// webhook, a status passes, and everything is as before when it is back (KR-12-04).
func TestDownInEnforceMode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "fallen", options{replicas: 1})
	s := newFixture(t, f, "fallen")
	s.settled("part")
	// A first status that is reviewed before the kind is watched shows no controller.
	wait.For(t, "the controller to be recorded", wait.Patience, func(context.Context) error {
		s.observe()
		if s.get().GetAnnotations()[v1alpha1.AnnotationKeyControllers] == "" {
			return errors.New("it is not")
		}
		return nil
	})
	f.crash(0)
	for name, write := range map[string]func() error{
		"update": func() error { return s.count(s.hans, "part", 1) },
		"create": func() error {
			_, err := s.of(s.hans).Create(t.Context(), object(f.name, "Part", s.ns, "other", map[string]any{}), metav1.CreateOptions{})
			return err
		},
		"delete": func() error { return s.of(s.hans).Delete(t.Context(), "part", metav1.DeleteOptions{}) },
	} {
		if err := write(); !kerrors.IsInternalError(err) || !strings.Contains(err.Error(), "admission.kausality.io") {
			t.Errorf("%s while the webhook is down: want an internal error that names it, got %v", name, err)
		}
	}
	s.observe()
	// A write of neither desired state nor our annotations does not need the webhook.
	_, err := s.of(s.hans).Patch(t.Context(), "part", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	f.restart(0)
	wait.For(t, "writes to pass again", wait.Patience, func(context.Context) error { return s.count(s.hans, "part", 1) })
	mustRefuse(t, s.count(s.ctrl, "part", 2), "Drift")
}
