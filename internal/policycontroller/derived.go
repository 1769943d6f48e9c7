package policycontroller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/kro"
)

const (
	// derivePeriod is how often the policies of one graph are written at most: another writer may put them back as often.
	derivePeriod = 2 * time.Second
	// conflictRetry is how long the cache has to show what another writer wrote.
	conflictRetry = 200 * time.Millisecond
	// maxUnexplained is how many lines of a graph a condition has.
	maxUnexplained = 8
)

// deriver keeps AllowancePolicies in step with graphs of kro (KR-18-11). Its one worker needs no locks but those of what other workers read.
type deriver struct {
	// cached has the policies that were derived, and the graphs; direct everything.
	cached, direct client.Client
	events         events.EventRecorder
	log            logr.Logger
	now            func() time.Time
	// watch the graphs, once they are served; it is called until it succeeds.
	watch func() error
	// changed is called where what Failed returns has changed.
	changed func(context.Context)

	watching bool
	// written are the specs as they were written last, by the policies' names, and at when those of a graph were, by its name.
	written map[string]*v1alpha1.AllowancePolicySpec
	at      map[string]time.Time

	mu     sync.Mutex
	failed map[string]string
}

// Failed returns why no policies could be derived, by the graphs' names. The deriver may be nil.
func (d *deriver) Failed() map[string]string {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.failed)
}

// note why no policies could be derived from a graph, "" where they were.
func (d *deriver) note(ctx context.Context, graph, why string) {
	d.mu.Lock()
	was := d.failed[graph]
	if delete(d.failed, graph); why != "" {
		d.failed[graph] = why
	}
	d.mu.Unlock()
	if was != why {
		d.changed(ctx)
	}
}

// Reconcile the policies of a graph, or of all for the empty name.
func (d *deriver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	out, err := d.reconcile(ctx, req)
	if kerrors.IsConflict(err) { // the webhook writes conditions, too: what it wrote is an event, which the cache may not have yet
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return out, err
}

func (d *deriver) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		return d.all(ctx)
	}
	if !d.watching {
		return reconcile.Result{}, nil
	}
	graph := &krov1alpha1.ResourceGraphDefinition{}
	err := d.cached.Get(ctx, client.ObjectKey{Name: req.Name}, graph)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("cannot read ResourceGraphDefinition %s: %w", req.Name, err)
	}
	wanted := err == nil && graph.DeletionTimestamp == nil
	if wanted {
		if wanted, err = d.wanted(ctx, graph); err != nil {
			return reconcile.Result{}, err
		}
	}
	have, err := d.policiesOf(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !wanted {
		d.note(ctx, req.Name, "")
		delete(d.at, req.Name)
		return reconcile.Result{}, d.remove(ctx, have)
	}
	return d.keep(ctx, graph, have)
}

// all graphs: a Kausality policy changed, or the CRD of graphs. Graphs are watched from the first time on that policies are derived, or are
// left of one.
func (d *deriver) all(ctx context.Context) (out reconcile.Result, err error) {
	if !d.watching {
		return out, d.begin(ctx) // the watch lists all graphs
	}
	graphs := &krov1alpha1.ResourceGraphDefinitionList{}
	if err := d.cached.List(ctx, graphs); err != nil {
		return out, fmt.Errorf("cannot list ResourceGraphDefinitions: %w", err)
	}
	var errs []error
	for i := range graphs.Items {
		again, err := d.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: graphs.Items[i].Name}})
		errs = append(errs, err)
		out.RequeueAfter = max(out.RequeueAfter, again.RequeueAfter)
	}
	return out, errors.Join(errs...)
}

// begin to watch graphs, if they are served and there is something to derive or to remove.
func (d *deriver) begin(ctx context.Context) error {
	policies, err := d.policies(ctx)
	if err != nil {
		return err
	}
	left := &v1alpha1.AllowancePolicyList{}
	if err := d.cached.List(ctx, left); err != nil {
		return fmt.Errorf("cannot list AllowancePolicies: %w", err)
	}
	if len(left.Items) == 0 && !slices.ContainsFunc(policies, func(k *v1alpha1.Kausality) bool { return k.Spec.DerivePolicies }) {
		return nil
	}
	err = d.cached.Get(ctx, client.ObjectKey{Name: graphResource.String()}, partial(crdKind))
	if kerrors.IsNotFound(err) {
		return nil // its event is the next attempt
	}
	if err == nil {
		err = d.watch()
	}
	d.watching = err == nil
	return err
}

// policies of Kausality.
func (d *deriver) policies(ctx context.Context) ([]*v1alpha1.Kausality, error) {
	list := &v1alpha1.KausalityList{}
	if err := d.cached.List(ctx, list); err != nil {
		return nil, fmt.Errorf("cannot list policies: %w", err)
	}
	var all []*v1alpha1.Kausality
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// wanted reports whether a Kausality policy covers a graph and has policies derived from it.
func (d *deriver) wanted(ctx context.Context, graph *krov1alpha1.ResourceGraphDefinition) (bool, error) {
	all, err := d.policies(ctx)
	if err != nil {
		return false, err
	}
	set, _ := settings.Compile(all)
	return set.For(settings.Target{Group: graphResource.Group, Resource: graphResource.Resource, Labels: graph.Labels}).DerivePolicies, nil
}

// policiesOf a graph that were derived here, by name.
func (d *deriver) policiesOf(ctx context.Context, graph string) (map[string]*v1alpha1.AllowancePolicy, error) {
	list := &v1alpha1.AllowancePolicyList{}
	if err := d.cached.List(ctx, list); err != nil {
		return nil, fmt.Errorf("cannot list AllowancePolicies: %w", err)
	}
	out := map[string]*v1alpha1.AllowancePolicy{}
	for i := range list.Items {
		if p := &list.Items[i]; derivedFrom(p) == graph {
			out[p.Name] = p
		}
	}
	return out, nil
}

// derivedFrom returns the graph that a policy was derived from here; "" for another policy. A single edit does not hide the graph: its owner
// reference names it, and so do its annotation and label together.
func derivedFrom(p *v1alpha1.AllowancePolicy) string {
	for _, o := range p.OwnerReferences {
		if o.Kind == authorship.GraphKind.Kind && strings.HasPrefix(o.APIVersion, authorship.GraphKind.Group+"/") {
			return o.Name
		}
	}
	if p.Labels[labelManaged] == v1alpha1.ManagerController {
		return p.Annotations[v1alpha1.AnnotationKeyDerivedFrom]
	}
	return ""
}

// keep the policies in step with a graph.
func (d *deriver) keep(ctx context.Context, graph *krov1alpha1.ResourceGraphDefinition, have map[string]*v1alpha1.AllowancePolicy) (reconcile.Result, error) {
	state, why := acceptance(graph)
	if state == pending {
		return reconcile.Result{}, nil // its status is an event
	}
	var derived *kro.Derived
	if state == accepted {
		var err error
		if derived, err = kro.Derive(graph, kro.DefaultServiceAccount); err != nil {
			why = err.Error()
		}
	}
	if derived == nil { // the last rules stay: kro carries out the last revision that it accepted
		d.note(ctx, graph.Name, why)
		return reconcile.Result{}, d.condition(ctx, slices.Collect(maps.Values(have)), metav1.Condition{Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonInvalidGraph, Message: fmt.Sprintf("generation %d of ResourceGraphDefinition %s: %s; the rules are those of an earlier one",
				graph.Generation, graph.Name, why)})
	}
	if wait := d.at[graph.Name].Add(derivePeriod).Sub(d.now()); wait > 0 && differ(derived.Policies, have, graph) {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	var kept []*v1alpha1.AllowancePolicy
	for i := range derived.Policies {
		p, err := d.write(ctx, owned(&derived.Policies[i], graph), have)
		if foreign := (*foreignError)(nil); errors.As(err, &foreign) {
			d.note(ctx, graph.Name, err.Error())
			return reconcile.Result{}, nil // an event of that policy does not concern the graph
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		kept = append(kept, p)
		delete(have, p.Name)
	}
	d.note(ctx, graph.Name, "")
	if err := d.remove(ctx, have); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, d.condition(ctx, kept, explained(graph, derived.Unknown))
}

// explained returns the condition of policies with the rules of a graph.
func explained(graph *krov1alpha1.ResourceGraphDefinition, unknown []string) metav1.Condition {
	c := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDerived,
		Message: fmt.Sprintf("from generation %d of ResourceGraphDefinition %s", graph.Generation, graph.Name)}
	if len(unknown) > 0 {
		c.Reason = v1alpha1.ReasonDerivedInPart
		c.Message += "; review these lines, of which no rule explains some changes, or a rule is wider:\n" +
			strings.Join(unknown[:min(len(unknown), maxUnexplained)], "\n")
		if more := len(unknown) - maxUnexplained; more > 0 {
			c.Message += fmt.Sprintf("\nand %d more", more)
		}
	}
	return c
}

// Whether kro carries out the current generation of a graph.
const (
	pending = iota
	accepted
	refused
)

// acceptance returns whether kro carries out the current generation of a graph, and why not (v0.9.3, api/v1alpha1, GraphAccepted and
// KindReady). Of two graphs that define one kind it carries out the one that made the CRD.
func acceptance(graph *krov1alpha1.ResourceGraphDefinition) (state int, why string) {
	for _, kind := range []krov1alpha1.ConditionType{krov1alpha1.RGDConditionTypeGraphAccepted, krov1alpha1.RGDConditionTypeKindReady} {
		i := slices.IndexFunc(graph.Status.Conditions, func(c krov1alpha1.Condition) bool { return c.Type == kind })
		switch {
		case i < 0 || graph.Status.Conditions[i].ObservedGeneration != graph.Generation || graph.Status.Conditions[i].Status == metav1.ConditionUnknown:
			return pending, ""
		case graph.Status.Conditions[i].Status == metav1.ConditionFalse:
			message := "no reason given"
			if m := graph.Status.Conditions[i].Message; m != nil {
				message = *m
			}
			return refused, "kro does not accept it: " + message
		}
	}
	return accepted, ""
}
