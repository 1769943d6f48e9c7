package gate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// kept asserts that a refused deletion changed nothing outside.
func (s *fixture) kept(mr string) {
	s.t.Helper()
	if !s.inCloud(mr) {
		s.t.Fatalf("%s is gone from the cloud", mr)
	}
	if o := s.mr(mr); o.GetDeletionTimestamp() != nil {
		s.t.Fatalf("%s is being deleted", mr)
	}
}

// TestDeleteXR in the background and in the foreground: refused until it is
// approved, then the database goes with it (KR-08-14, KR-08-12).
func TestDeleteXR(t *testing.T) {
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(propagation), func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, "delete-xr-"+map[bool]string{true: "bg", false: "fg"}[propagation == metav1.DeletePropagationBackground])
			mr := s.settled("store", 10).GetName()
			del := func(ctx context.Context) error {
				return s.of(s.hans, xstores).Delete(ctx, "store", metav1.DeleteOptions{PropagationPolicy: &propagation})
			}
			err := del(t.Context())
			if !kerrors.IsForbidden(err) {
				t.Fatalf("want a refusal, got %v", err)
			}
			s.kept(mr)
			s.follow(err.Error())
			wait.For(t, "the deletion to be let through", 30*time.Second, func(ctx context.Context) error {
				if err := del(ctx); !kerrors.IsNotFound(err) {
					return err
				}
				return nil
			})
			s.awaitGone(databases, mr)
			s.awaitGone(xstores, "store")
			if s.inCloud(mr) {
				t.Error("the database is left behind")
			}
		})
	}
}

// TestDeleteRefusedToCrossplane: a resource is removed from the Composition. The
// gate repeats the refused deletion once it is approved, without another attempt by
// Crossplane (KR-08-13).
func TestDeleteRefusedToCrossplane(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "removed")
	mr := s.settled("store", 10).GetName()
	err := s.compose(t.Context(), "store", composeAs{without: true})
	if err == nil {
		t.Fatal("the deletion passed")
	}
	s.awaitRepeatFor(mr, crossplane)
	s.kept(mr)
	s.follow(err.Error())
	s.awaitGone(databases, mr)
	if s.inCloud(mr) {
		t.Error("the database is left behind")
	}
}

// TestDeleteRefusedToUser: a user's refused deletion is not repeated by the gate
// (KR-08-09).
func TestDeleteRefusedToUser(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "user")
	mr := s.settled("store", 10).GetName()
	s.follow(s.refusedDelete(s.hans, databases, mr))
	wait.For(t, "the gate to open for Delete", 30*time.Second, func(context.Context) error {
		if g := gateOf(s.mr(mr)); g.State != v1alpha1.GateOpen {
			return fmt.Errorf("gate %+v", g)
		}
		return nil
	})
	s.awaitClosed(mr) // by its deadline
	if g := gateOf(s.mr(mr)); g.Reason != "ExpiredUnconfirmed" {
		t.Errorf("closed as %+v", g)
	}
	s.kept(mr)
}

// awaitRepeatFor a controller, in the Drift of a refused deletion.
func (s *fixture) awaitRepeatFor(name, who string) {
	s.t.Helper()
	wait.For(s.t, "the refused deletion of "+name+" to be remembered", 60*time.Second, func(ctx context.Context) error {
		list, err := s.of(s.hans, drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			child, _, _ := unstructured.NestedString(d.Object, "spec", "child", "name")
			if got, _, _ := unstructured.NestedString(d.Object, "status", "repeatFor"); child == name && got == who {
				return nil
			}
		}
		return fmt.Errorf("%d drifts, none of them", len(list.Items))
	})
}

// TestDeleteAfterOwner: the owner is gone already, the garbage collector is
// refused, and the gate repeats the deletion once it is approved on the Database
// itself.
func TestDeleteAfterOwner(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "orphaned-owner")
	mr := s.settled("store", 10).GetName()
	// An XR that is deleted without a review: its own webhook was down, or it was
	// deleted with the gates in log mode.
	s.annotate(databases, mr, v1alpha1.AnnotationKeyMode, "log")
	s.awaitUnmasked(mr)
	orphan := metav1.DeletePropagationOrphan
	require.NoError(t, s.of(s.hans, xstores).Delete(t.Context(), "store", metav1.DeleteOptions{PropagationPolicy: &orphan}))
	s.awaitGone(xstores, "store")
	gone := `{"metadata":{"annotations":{"kausality.io/mode":null},"ownerReferences":[{"apiVersion":"example.org/v1","kind":"XStore",` +
		`"name":"store","uid":"00000000-0000-0000-0000-000000000000"}]}}`
	_, err := s.patch(s.hans, databases, mr, gone)
	require.NoError(t, err)
	s.awaitRepeatFor(mr, collector)
	s.kept(mr)
	s.annotate(databases, mr, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Database","name":"*","relation":"External","verbs":["Delete"]}]`)
	s.awaitGone(databases, mr)
	if s.inCloud(mr) {
		t.Error("the database is left behind")
	}
}

// TestDeleteThatWasNotStored: an approved deletion passes its review, and a policy that is evaluated later refuses it. Then the mask
// is installed, so that the object has another version, and the manager of its spec has annotated it since (KR-01-10). The approval is
// not lost: the gate opens by it, and the next attempt deletes (KR-05-36).
func TestDeleteThatWasNotStored(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "not-stored")
	mr := s.lone("alone", 5)
	s.awaitClosed(mr)
	late := s.mr(mr).GetCreationTimestamp().Add(trace.Tolerance + 2*time.Second)
	wait.For(t, "the intent to be more than the tolerated time ago", wait.Patience, func(context.Context) error {
		if left := time.Until(late); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	_, err := s.patch(s.hans, databases, mr, `{"metadata":{"annotations":{"kausality.io/mode":"log"}}}`)
	require.NoError(t, err)
	s.awaitUnmasked(mr)
	s.keepAll()
	s.annotate(databases, mr, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Database","name":"*","relation":"External","verbs":["Delete"]}]`)
	if err := s.of(s.hans, databases).Delete(t.Context(), mr, metav1.DeleteOptions{}); !kept(err) {
		t.Fatalf("want the policy's refusal, got %v", err)
	}
	if claims := approval.ParseClaims(s.mr(mr).GetAnnotations()[v1alpha1.AnnotationKeyClaims]); len(claims) != 1 || claims[0].State != v1alpha1.ClaimPending {
		t.Fatalf("the review claimed nothing: %+v", claims)
	}
	s.annotate(databases, mr, v1alpha1.AnnotationKeyMode, nil)
	wait.For(t, "the gate to open for Delete", 25*time.Second, func(context.Context) error {
		if o := s.mr(mr); gateOf(o).State != v1alpha1.GateOpen {
			return fmt.Errorf("generation %d, %v", o.GetGeneration(), o.GetAnnotations())
		}
		return nil
	})
	require.NoError(t, s.hans.Resource(bindings).Delete(t.Context(), s.ns, metav1.DeleteOptions{}))
	wait.For(t, "the deletion to pass", 30*time.Second, func(ctx context.Context) error {
		return s.of(s.hans, databases).Delete(ctx, mr, metav1.DeleteOptions{})
	})
	s.awaitGone(databases, mr)
	if s.inCloud(mr) {
		t.Error("the database is left behind")
	}
}

var (
	policies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindings = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

// keepAll has a policy refuse all deletions of Databases in the Namespace.
func (s *fixture) keepAll() {
	s.t.Helper()
	for r, body := range map[schema.GroupVersionResource]string{
		policies: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: %[1]s}, spec: {
			validations: [{expression: "false", message: kept}], matchConstraints: {resourceRules: [
				{apiGroups: [cloud.example.org], apiVersions: ["*"], resources: [databases], operations: [DELETE]}]}}}`,
		bindings: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %[1]s}, spec: {
			policyName: %[1]s, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}}}`,
	} {
		o := map[string]any{}
		require.NoError(s.t, yaml.Unmarshal(fmt.Appendf(nil, body, s.ns), &o))
		_, err := s.hans.Resource(r).Create(s.t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = s.hans.Resource(r).Delete(context.Background(), s.ns, metav1.DeleteOptions{}) })
	}
	probe := s.lone("probe", 5)
	s.awaitClosed(probe)
	s.annotate(databases, probe, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Database","name":"*","relation":"External","verbs":["Delete"]}]`)
	wait.For(s.t, "the policy to refuse deletions", 30*time.Second, func(ctx context.Context) error {
		err := s.of(s.hans, databases).Delete(ctx, probe, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if !kept(err) {
			return fmt.Errorf("the answer is %v", err) //nolint:errorlint // nil is an answer, too.
		}
		return nil
	})
}

func kept(err error) bool { return kerrors.IsInvalid(err) && strings.Contains(err.Error(), "kept") }

// awaitUnmasked waits until the mask of a managed resource is lifted.
func (s *fixture) awaitUnmasked(mr string) {
	s.t.Helper()
	wait.For(s.t, "the mask to be lifted", 30*time.Second, func(context.Context) error {
		if a := s.mr(mr).GetAnnotations(); a[v1alpha1.AnnotationKeyManagementPolicies] != "" {
			return fmt.Errorf("it remembers %s", a[v1alpha1.AnnotationKeyManagementPolicies])
		}
		return nil
	})
}

// TestDeleteNamespace: the deletion is pending while a database would be orphaned, and the
// Namespace has the command that approves it; approved on the XR, everything is deleted
// (KR-13-56).
func TestDeleteNamespace(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "leaving")
	mr := s.settled("store", 10).GetName()
	alone := s.lone("alone", 5)
	s.awaitClosed(alone)
	why := s.refusedDelete(s.hans, xstores, "store")
	require.NoError(t, s.hans.Resource(namespaces).Delete(t.Context(), s.ns, metav1.DeleteOptions{}))
	wait.For(t, "the Namespace to report why it remains", 60*time.Second, func(ctx context.Context) error {
		ns, err := s.hans.Resource(namespaces).Get(ctx, s.ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if conditionOf(ns, "NamespaceDeletionContentFailure") != "True" {
			return fmt.Errorf("its conditions are %v", ns.Object["status"])
		}
		list, _, _ := unstructured.NestedSlice(ns.Object, "status", "conditions")
		if text := fmt.Sprint(list); !command.MatchString(text) || !strings.Contains(text, "left behind") {
			return fmt.Errorf("its conditions name no command: %s", text)
		}
		return nil
	})
	s.kept(mr)
	s.kept(alone)
	s.follow(why)
	s.annotate(databases, alone, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Database","name":"*","relation":"External","verbs":["Delete"]}]`)
	s.awaitGone(databases, mr)
	s.awaitGone(databases, alone)
	s.awaitGone(xstores, "store")
	if s.inCloud(mr) || s.inCloud(alone) {
		t.Error("a database is left behind")
	}
	wait.For(t, "the Namespace to be gone", 90*time.Second, func(ctx context.Context) error {
		_, err := s.hans.Resource(namespaces).Get(ctx, s.ns, metav1.GetOptions{})
		return still(err)
	})
}

// TestOrphanByAnnotation: with the deletion annotation orphan, the external
// resource remains and an event reports it.
func TestOrphanByAnnotation(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "orphan")
	mr := s.lone("alone", 5)
	s.awaitClosed(mr)
	s.refusedDelete(s.hans, databases, mr)
	s.annotate(databases, mr, v1alpha1.AnnotationKeyDeletion, "orphan")
	require.NoError(t, s.of(s.hans, databases).Delete(t.Context(), mr, metav1.DeleteOptions{}))
	s.awaitGone(databases, mr)
	if !s.inCloud(mr) {
		t.Error("the database is gone")
	}
	wait.For(t, "an event that names what is left behind", wait.Patience, func(ctx context.Context) error {
		list, err := s.of(s.hans, events).List(ctx, metav1.ListOptions{FieldSelector: "reason=ExternalOrphaned"})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Object["message"] == fmt.Sprintf("External resource %q was orphaned: annotation kausality.io/deletion requests it.", mr) {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(list.Items))
	})
}
