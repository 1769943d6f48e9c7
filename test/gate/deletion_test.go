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
	wait.For(t, "the mask to be lifted", 30*time.Second, func(context.Context) error {
		if a := s.mr(mr).GetAnnotations(); a[v1alpha1.AnnotationKeyManagementPolicies] != "" {
			return fmt.Errorf("it remembers %s", a[v1alpha1.AnnotationKeyManagementPolicies])
		}
		return nil
	})
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
