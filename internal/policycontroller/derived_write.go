package policycontroller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// owned returns a policy as it is written: by us, and gone with its graph.
func owned(p *v1alpha1.AllowancePolicy, graph *krov1alpha1.ResourceGraphDefinition) *v1alpha1.AllowancePolicy {
	out := p.DeepCopy()
	out.Labels = ownLabels()
	out.OwnerReferences = []metav1.OwnerReference{{APIVersion: authorship.GraphKind.GroupVersion().String(), Kind: authorship.GraphKind.Kind,
		Name: graph.Name, UID: graph.UID}}
	return out
}

// is reports whether a policy is as it is wanted. Labels and annotations of other writers are ignored.
func is(have, want *v1alpha1.AllowancePolicy) bool {
	return equality.Semantic.DeepEqual(have.Spec, want.Spec) && equality.Semantic.DeepEqual(have.OwnerReferences, want.OwnerReferences) &&
		includes(have.Labels, want.Labels) && includes(have.Annotations, want.Annotations)
}

func includes(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

// differ reports whether something is to be written.
func differ(want []v1alpha1.AllowancePolicy, have map[string]*v1alpha1.AllowancePolicy, graph *krov1alpha1.ResourceGraphDefinition) bool {
	if len(want) != len(have) {
		return true
	}
	return slices.ContainsFunc(want, func(p v1alpha1.AllowancePolicy) bool {
		return have[p.Name] == nil || !is(have[p.Name], owned(&p, graph))
	})
}

// foreignError is the error of a policy of that name that was not derived.
type foreignError struct{ name string }

func (e *foreignError) Error() string {
	return "AllowancePolicy " + e.name + " exists and was not derived; delete or rename it"
}

// write a policy if it is not as wanted, and return it. The API server decides what exists: the cache may be late.
func (d *deriver) write(ctx context.Context, want *v1alpha1.AllowancePolicy, have map[string]*v1alpha1.AllowancePolicy) (*v1alpha1.AllowancePolicy, error) {
	graph := derivedFrom(want)
	if live := have[want.Name]; live != nil && is(live, want) {
		d.written[want.Name] = want.Spec.DeepCopy()
		return live, nil
	}
	d.at[graph] = d.now()
	live := &v1alpha1.AllowancePolicy{}
	err := d.direct.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case kerrors.IsNotFound(err):
		live = want
		err = d.direct.Create(ctx, live, client.FieldOwner(v1alpha1.ManagerController))
	case err != nil:
	case derivedFrom(live) != graph:
		return nil, &foreignError{want.Name}
	case is(live, want):
		return live, nil
	default:
		edited := d.written[want.Name] != nil && equality.Semantic.DeepEqual(*d.written[want.Name], want.Spec)
		live.Spec, live.OwnerReferences = *want.Spec.DeepCopy(), want.OwnerReferences
		live.Labels, live.Annotations = merged(live.Labels, want.Labels), merged(live.Annotations, want.Annotations)
		err = d.direct.Update(ctx, live, client.FieldOwner(v1alpha1.ManagerController))
		if err == nil && edited {
			d.emit(live, corev1.EventTypeWarning, "EditReverted", "An edit was put back: the policy is derived from ResourceGraphDefinition "+graph+
				"; edit the graph, or write a policy of another name")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write AllowancePolicy %s: %w", want.Name, err)
	}
	d.written[want.Name] = want.Spec.DeepCopy()
	writes.WithLabelValues("AllowancePolicy").Inc()
	d.log.Info("derived", "policy", want.Name, "graph", graph)
	return live, nil
}

// emit an event about a policy.
func (d *deriver) emit(p *v1alpha1.AllowancePolicy, kind, reason, text string) {
	d.events.Eventf(p, nil, kind, reason, "Derive", "%s", text)
}

func merged(have, more map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

// remove policies that are not wanted any more.
func (d *deriver) remove(ctx context.Context, surplus map[string]*v1alpha1.AllowancePolicy) error {
	for name, p := range surplus {
		if p.DeletionTimestamp != nil {
			continue
		}
		if err := d.direct.Delete(ctx, p, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cannot remove AllowancePolicy %s: %w", name, err)
		}
		delete(d.written, name)
		writes.WithLabelValues("AllowancePolicy").Inc()
		d.log.Info("removed", "policy", name)
	}
	return nil
}

// condition of policies about what they were derived from.
func (d *deriver) condition(ctx context.Context, policies []*v1alpha1.AllowancePolicy, c metav1.Condition) error {
	c.Type = v1alpha1.ConditionDerived
	for _, p := range policies {
		next := p.DeepCopy()
		c.ObservedGeneration = p.Generation
		if !meta.SetStatusCondition(&next.Status.Conditions, c) {
			continue
		}
		patch := client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{}) // others write conditions, too
		err := d.direct.Status().Patch(ctx, next, patch, client.FieldOwner(v1alpha1.ManagerController))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cannot write the status of AllowancePolicy %s: %w", p.Name, err)
		}
	}
	return nil
}
