package webhook

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// derivedFleet is the one whose group the API server logs with objects.
const derivedFleet = "derived"

// TestDerivedPolicies: what is derived from the API server's audit log of mode log lets the same pass under enforce, gates included
// (KR-06-32); without its entries for external resources, policy test names the gates that stay closed (KR-06-33).
func TestDerivedPolicies(t *testing.T) {
	t.Parallel()
	f := startFleet(t, derivedFleet, options{replicas: 1, args: []string{"--default-mode=log"}})
	s := newFixture(t, f, "derived-log")
	s.external("one")
	s.settled("part")
	s.consequences()
	s.observe()
	s.awaitLatch()
	s.deleteAll()

	dir := t.TempDir()
	log, policies := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policies.yaml")
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), the.kausality, args...).CombinedOutput()
		return string(out), err
	}
	var derived string
	wait.For(t, "the log to have the deletions", wait.Patience, func(context.Context) error {
		raw, err := os.ReadFile(the.AuditLog())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(log, raw, 0o600))
		derived, err = run("policy", "derive", "--events="+log)
		if err != nil || !strings.Contains(derived, "deleting:") || strings.Count(derived, "relation: External") < 2 {
			return fmt.Errorf("%w: derived:\n%s", err, derived)
		}
		return nil
	})
	require.NoError(t, os.WriteFile(policies, []byte(derived), 0o600))
	out, err := run("policy", "test", policies, "--events="+log)
	if err != nil || !strings.Contains(out, " 0 refused") || strings.Contains(out, "stays closed") {
		t.Errorf("under what was derived: %v\n%s\n%s", err, out, derived)
	}

	t.Run("Closed", func(t *testing.T) {
		objects := decoded(t, derived)
		require.NoError(t, withoutExternal(objects[0]))
		raw, err := objects[0].MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(policies, raw, 0o600))
		out, err := run("policy", "test", policies, "--events="+log)
		if err == nil || !strings.Contains(out, "the gate of Managed derived-log/one stays closed: no allowance with relation External covers the change") {
			t.Errorf("without relation External: %v\n%s", err, out)
		}
	})
	t.Run("Enforced", func(t *testing.T) { enforcesDerived(t, f, decoded(t, derived)) })
}

// withoutExternal removes what the rules of a policy allow external resources.
func withoutExternal(o *unstructured.Unstructured) error {
	rules, _, err := unstructured.NestedSlice(o.Object, "spec", "rules")
	if err != nil {
		return err
	}
	for _, r := range rules {
		rule := r.(map[string]any)
		var kept []any
		for _, a := range rule["allow"].([]any) {
			if a.(map[string]any)["relation"] != "External" {
				kept = append(kept, a)
			}
		}
		rule["allow"] = kept
	}
	return unstructured.SetNestedSlice(o.Object, rules, "spec", "rules")
}

// enforcesDerived plays the same again, under enforce and what was derived.
func enforcesDerived(t *testing.T, f *fleet, policies []*unstructured.Unstructured) {
	s := newFixture(t, f, "derived-enforce")
	s.external("one")
	s.settled("part")
	for _, o := range policies {
		write(t, allowancePolicies, o)
		inForce(t, allowancePolicies, o.GetName())
	}
	_, err := the.as(t, hans).Resource(namespaces).Patch(t.Context(), s.ns, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kausality.io/mode":"enforce"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	wait.For(t, "the Namespace to enforce", wait.Patience, func(context.Context) error {
		if err := s.count(s.ctrl, "part", 99, metav1.DryRunAll); !refused(err, "Drift") {
			return fmt.Errorf("it is answered with %w", err)
		}
		return nil
	})
	s.consequences()
	for name, verb := range map[string]string{"one": "Update", "two": "Create"} {
		o, err := s.managedOf(s.hans).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		gate := o.GetAnnotations()[v1alpha1.AnnotationKeyGate]
		if !strings.Contains(gate, `"state":"open"`) || !strings.Contains(gate, verb) {
			t.Errorf("the gate of %s is %s", name, gate)
		}
	}
	_, err = s.managedOf(s.ctrl).Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"forProvider":{"engine":"other"}}}`), metav1.PatchOptions{})
	mustRefuse(t, err, "AllowanceMissing")
}

func (s *fixture) managedOf(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(s.resource("manageds")).Namespace(s.ns)
}

// managed resource as the controller creates it; the App waits for it when it is deleted.
func (s *fixture) external(name string) {
	s.t.Helper()
	o := s.owned(object(s.name, "Managed", s.ns, name, map[string]any{"managementPolicies": []any{"*"}, "forProvider": map[string]any{"size": int64(1)}}))
	owners := o.GetOwnerReferences()
	yes := true
	owners[0].BlockOwnerDeletion = &yes
	o.SetOwnerReferences(owners)
	_, err := s.managedOf(s.ctrl).Create(s.t.Context(), o, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// consequences of a larger App: its controller changes both children, and makes another one.
func (s *fixture) consequences() {
	s.t.Helper()
	s.intent(2)
	require.NoError(s.t, s.count(s.ctrl, "part", 2))
	_, err := s.managedOf(s.ctrl).Patch(s.t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"forProvider":{"size":2}}}`), metav1.PatchOptions{})
	require.NoError(s.t, err)
	s.external("two")
}

// deleteAll: the App with what is below it, which the garbage collector deletes first.
func (s *fixture) deleteAll() {
	s.t.Helper()
	foreground := metav1.DeletePropagationForeground
	require.NoError(s.t, s.apps(s.hans).Delete(s.t.Context(), "app", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	wait.For(s.t, "the App to be deleted", wait.Patience, func(ctx context.Context) error {
		if _, err := s.apps(s.hans).Get(ctx, "app", metav1.GetOptions{}); !kerrors.IsNotFound(err) {
			return fmt.Errorf("it is answered with %w", err)
		}
		return nil
	})
}
