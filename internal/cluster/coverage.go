package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// orphanedCheckInterval is how often a process checks whether objects of a deleted
// webhook configuration are still masked.
const orphanedCheckInterval = 5 * time.Second

// coverage decides which kinds are watched because they are guarded.
type coverage struct {
	// mu makes reading what is guarded and starting or ending watches one step: a
	// kind that is guarded again while its watch ends gets a new watch.
	mu sync.Mutex
	// also selects kinds without a role in Crossplane; nil for none.
	also func(kinds.Info) bool
	// parents: every guarded kind with a status may be a parent, and is watched.
	parents bool
	// report is called with the error of a watch that cannot start; nil where
	// nothing is watched for being guarded.
	report func(error)
}

// WatchGuarded watches each guarded kind that has a role in Crossplane or that also
// selects, from when it appears or is guarded until it is gone or, where it is not
// guarded any more, none of its objects is masked. Call it before Start. report
// must be safe for concurrent use.
func (c *Cluster) WatchGuarded(also func(kinds.Info) bool, report func(error)) {
	c.coverage.also, c.coverage.report = also, report
	c.States.Needed, c.States.OnRefused = c.mustWatch, report
	c.States.Looked = func(i kinds.Info) bool { return !c.Scope.Known() || c.mustWatch(i) }
	c.Kinds.OnChange(func(i kinds.Info) {
		c.coverage.mu.Lock()
		defer c.coverage.mu.Unlock()
		c.watch(i)
	})
	c.Scope.OnChange(c.sync)
	c.Policies.OnChange(c.sync)
}

// WatchParents is WatchGuarded for all kinds whose objects may be parents, built-in
// ones included: those whose status the API server sends for review. A replica
// sees the controllers of a parent only in its status requests and the need for
// them only in its children's requests, and the API server may send the two to
// different replicas.
func (c *Cluster) WatchParents(report func(error)) {
	c.coverage.parents = true
	c.WatchGuarded(nil, report)
	c.Scope.OnChange(c.Kinds.Rediscover)
	c.Kinds.OnDiscovery = c.sync
}

// sync the watches with what is guarded. None starts while the configuration is
// gone: the access to a kind is written before the configuration.
func (c *Cluster) sync() {
	c.coverage.mu.Lock()
	defer c.coverage.mu.Unlock()
	if !c.Scope.Gone() {
		for _, i := range c.Kinds.All() {
			c.watch(i)
		}
		for _, i := range c.Kinds.Discovered() {
			c.watch(i)
		}
	}
	c.States.Keep(func(i kinds.Info, requested bool) bool {
		return c.mustWatch(i) || requested && c.guardsIn(i.GVR.Group) || !c.Scope.Followed() && c.hasMasked(i)
	})
}

// hasMasked reports whether any object of a kind is masked. A configuration that
// follows policies includes such kinds by itself (KR-12-09); a fixed one does not.
func (c *Cluster) hasMasked(i kinds.Info) bool {
	return slices.ContainsFunc(c.States.List(i.GVK), masked)
}

// watch a kind if it must be.
func (c *Cluster) watch(i kinds.Info) {
	if !i.Storage || i.GVK.Group == v1alpha1.Group || !c.mustWatch(i) {
		return
	}
	if err := c.States.Guard(i.GVK); err != nil {
		c.coverage.report(err)
	}
}

// unwatchOrphaned ends the watches of kinds that a deleted configuration guarded,
// once none of their objects is masked.
func (c *Cluster) unwatchOrphaned(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, orphanedCheckInterval, false, func(context.Context) (bool, error) { // it ends with the context alone
		if c.coverage.report != nil && c.Scope.Gone() {
			c.sync()
		}
		return false, nil
	})
}

// mustWatch reports whether a kind is watched independently of requests about it:
// one of our own group, or a guarded one that coverage selects.
func (c *Cluster) mustWatch(i kinds.Info) bool {
	if i.GVK.Group == v1alpha1.Group {
		return true
	}
	return c.selected(i) && c.Guards(i)
}

// selected reports whether objects of a kind are needed at all: those with a role in
// Crossplane, those that the process selects, and possible parents.
func (c *Cluster) selected(i kinds.Info) bool {
	switch {
	case i.Role != parent.RoleNone:
		return true
	case c.coverage.also != nil && c.coverage.also(i):
		return true
	}
	return c.coverage.parents && c.Kinds.HasStatus(i) && c.Scope.ReviewsStatus(i.GVR.GroupResource())
}

// Guards reports whether a kind is guarded, or was and one of its objects is still
// masked. What a deleted configuration guarded counts as guarded while a policy
// covers it, or the policies are unknown; a configuration that did not follow
// policies is expected to come back.
func (c *Cluster) Guards(i kinds.Info) bool {
	r := i.GVR.GroupResource()
	if !c.Scope.Watches(r) {
		return false
	}
	return !c.orphanedConfiguration(func(s settings.Scope) bool { return s.Covers(r.Group, r.Resource) }) || c.hasMasked(i)
}

// guardsIn reports whether anything of a group is guarded, or there never was a
// configuration: access is granted by group.
func (c *Cluster) guardsIn(group string) bool {
	return !c.Scope.Known() || c.Scope.WatchesIn(group) &&
		!c.orphanedConfiguration(func(s settings.Scope) bool { return slices.Contains(s.APIGroups, group) })
}

// orphanedConfiguration reports whether the configuration is gone and no policy
// covers what it guarded.
func (c *Cluster) orphanedConfiguration(covers func(settings.Scope) bool) bool {
	return c.Scope.Gone() && c.Policies.HasSynced() && !slices.ContainsFunc(c.Policies.Set().Scopes(), covers)
}

// Unguarded reports whether policies covered a kind, or may have, and do not any
// more. It is false where that is unknown.
func (c *Cluster) Unguarded(gvk schema.GroupVersionKind) bool {
	i, known := c.Kinds.Defined(gvk)
	if !known { // built in, or its CRD is gone: guess the plural
		i.GVR, _ = meta.UnsafeGuessKindToResource(gvk)
	}
	return c.Scope.Followed() && !c.Guards(i)
}

// masked reports whether the gate has something to restore on an object.
func masked(o *states.Object) bool { return Masked(o.Annotations) && !o.Deleting() }

// Masked reports whether the annotations show an author's value that the gate has
// to restore: on a managed resource under a mask, or on an object of an external
// system that is closed.
func Masked(annotations map[string]string) bool {
	_, policies := annotations[v1alpha1.AnnotationKeyManagementPolicies]
	_, system := annotations[v1alpha1.AnnotationKeyExternalAuthor]
	return policies || system
}
