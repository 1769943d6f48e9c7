package gate

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/policystore"
	"github.com/kausality-io/function-kausality/internal/records"
)

// Options of the gate process.
type Options struct {
	cluster.Process
	DefaultMode v1alpha1.Mode
	// CreationGrace is for how long the gate of a creation stays open after the managed resource is Ready (KR-08-06).
	CreationGrace time.Duration
	// Deadline after which an unconfirmed opening is closed (KR-08-09).
	Deadline time.Duration
	CloseTo  []v1alpha1.Verb
	// Shard of the gated objects that this process reconciles; the zero Shard has
	// all.
	Shard Shard
	// CarryPendingDrift and Ignore as in admission.Options.
	CarryPendingDrift bool
	Provenance        []v1alpha1.Provenance
	Ignore            external.Rules
	Endpoints         drift.Endpoints
	Reports           drift.ReportOptions
	// Records of what is decided; nil where none are kept.
	Records *records.Recorder
}

// Run the gate until the context ends.
func Run(ctx context.Context, o Options) error {
	c, self, err := o.Connect(ctx)
	if err != nil {
		return err
	}
	mgr, err := o.Manager(o.Shard.lease(), cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme)
	if err != nil {
		return err
	}
	for name, values := range map[string]client.IndexerFunc{childIndex: indexChild, deletionIndex: indexDeletion} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Drift{}, name, values); err != nil {
			return fmt.Errorf("cannot index drifts: %w", err)
		}
	}
	ctl, err := o.controller(ctx, mgr, c, self)
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("cluster", func(*http.Request) error { return c.Ready() }); err != nil {
		return err
	}
	if err := metrics.Registry.Register(newCollector(c, ctl)); err != nil {
		return fmt.Errorf("cannot register metrics: %w", err)
	}
	if err := cluster.AddAll(mgr, c, ctl.reporter.drift, ctl); err != nil {
		return err
	}
	o.Log.Info("kausality gate starts", "user", self, "mode", o.DefaultMode)
	return mgr.Start(ctx)
}

// controller with its reporter, its watches and its event handlers, all set up before
// the cluster starts: an event that comes before its handler is lost.
func (o Options) controller(ctx context.Context, mgr manager.Manager, c *cluster.Cluster, self string) (*Controller, error) {
	senders, err := drift.NewSenders(o.Endpoints)
	if err != nil {
		return nil, err
	}
	own := func(i kinds.Info) bool { return systems.For(i.GVK) != nil }
	c.WatchGuarded(own, func(err error) { o.Log.Error(err, "cannot watch a kind") })
	reports, err := drift.ReporterOf(mgr, c.States, senders, v1alpha1.ManagerGate, o.Records, o.Log.WithName("notify"))
	if err != nil {
		return nil, err
	}
	rules, err := policystore.New(c.Dynamic, o.Log.WithName("policies"), v1alpha1.ResourceApprovalRules,
		v1alpha1.ResourceAllowancePolicies) // which external resources of a composite are not deleted with it
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(rules); err != nil {
		return nil, fmt.Errorf("cannot watch approval rules: %w", err)
	}
	decides := &core{options: o, cluster: c, rules: rules, userID: subject.User{Name: self}.ID(), installs: newTurns(), log: o.Log.WithName("gate"),
		scope: &scope{cluster: c, shard: o.Shard, queue: newQueue()},
		reporter: &reporter{drifts: mgr.GetClient(), drift: reports, events: mgr.GetEventRecorder(v1alpha1.ManagerGate), records: o.Records,
			log: o.Log.WithName("gate")}}
	ctl, err := newController(decides)
	if err != nil {
		return nil, err
	}
	if err := drift.AddDeliverer(mgr, reports, senders, drift.AuthorOf(c, o.Reports), v1alpha1.ManagerGate, ctl.recorded); err != nil {
		return nil, fmt.Errorf("cannot start: %w", err)
	}
	return ctl, ctl.listen(ctx, mgr)
}
