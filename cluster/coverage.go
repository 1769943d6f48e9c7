package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// letGoEvery is how often it is looked whether anything is masked still of what a
// configuration guarded that is gone.
const letGoEvery = 5 * time.Second

// coverage says what is watched for being guarded.
type coverage struct {
	// mu: what is guarded is looked at and followed in one step. A kind that comes
	// back while its watch ends is watched anew.
	mu sync.Mutex
	// also are kinds without a role in Crossplane that are watched; nil for none.
	also func(Info) bool
	// report what cannot be watched; nil where nothing is watched for being guarded.
	report func(error)
}

// WatchCovered watches each guarded kind with a role in Crossplane, or that also
// says, as soon as it appears or comes under guard, and those of which something is
// masked still; and no longer. Call it before Start.
func (c *Cluster) WatchCovered(also func(Info) bool, report func(error)) {
	c.coverage.also, c.coverage.report = also, report
	c.States.needed, c.States.onRefused = c.needs, report
	c.States.looked = func(i Info) bool { return !c.Scope.known() || c.needs(i) }
	c.Kinds.OnChange(func(i Info) {
		c.coverage.mu.Lock()
		defer c.coverage.mu.Unlock()
		c.watch(i)
	})
	c.Scope.OnChange(c.follow)
	c.Policies.OnChange(c.follow)
}

// follow what is guarded: begin watches, and end them. None begins for a policy that
// comes when there is no configuration: access is written before that.
func (c *Cluster) follow() {
	c.coverage.mu.Lock()
	defer c.coverage.mu.Unlock()
	if !c.Scope.Gone() {
		for _, i := range c.Kinds.All() {
			c.watch(i)
		}
	}
	c.States.keep(func(i Info, asked bool) bool {
		return c.needs(i) || asked && c.guardsIn(i.GVR.Group) || !c.Scope.followed() && c.holds(i)
	})
}

// holds reports whether any object of a kind is to be given back. A configuration
// that follows policies says so itself; with a fixed one nobody looks.
func (c *Cluster) holds(i Info) bool { return slices.ContainsFunc(c.States.List(i.GVK), held) }

// watch a kind that is to be.
func (c *Cluster) watch(i Info) {
	if !i.Storage || i.GVK.Group == v1alpha1.Group || !c.needs(i) {
		return
	}
	if _, err := c.States.watch(i.GVK); err != nil {
		c.coverage.report(err)
	}
}

// letGo of what was guarded by a configuration that is gone, once it is given back.
func (c *Cluster) letGo(ctx context.Context) {
	tick := time.NewTicker(letGoEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if c.coverage.report != nil && c.Scope.Gone() {
				c.follow()
			}
		}
	}
}

// needs reports whether a kind is watched whoever asks: one of our own, or one that
// is guarded and has a role.
func (c *Cluster) needs(i Info) bool {
	if i.GVK.Group == v1alpha1.Group {
		return true
	}
	return (i.Role != parent.RoleNone || c.coverage.also != nil && c.coverage.also(i)) && c.Guards(i)
}

// Guards reports whether a kind is guarded, or was and something of it is masked
// still. What a configuration guarded that is gone is guarded while a policy asks
// for it, or the policies are not known; a configuration that no policy stands
// behind is taken to come back.
func (c *Cluster) Guards(i Info) bool {
	r := i.GVR.GroupResource()
	if !c.Scope.Watches(r) {
		return false
	}
	return !c.abandoned(func(s settings.Scope) bool { return s.Covers(r.Group, r.Resource) }) || c.holds(i)
}

// guardsIn reports whether anything of a group is guarded, or no configuration ever
// told: our access to a group goes with that.
func (c *Cluster) guardsIn(group string) bool {
	return !c.Scope.known() || c.Scope.watchesIn(group) && !c.abandoned(func(s settings.Scope) bool { return slices.Contains(s.APIGroups, group) })
}

// abandoned reports whether the configuration is gone, and no policy asks for what
// it guarded.
func (c *Cluster) abandoned(asks func(settings.Scope) bool) bool {
	return c.Scope.Gone() && c.Policies.HasSynced() && !slices.ContainsFunc(c.Policies.Set().Scopes(), asks)
}

// LetGo reports whether a kind was guarded as policies asked for, or may have been,
// and is not any more. It is false where nothing tells.
func (c *Cluster) LetGo(gvk schema.GroupVersionKind) bool {
	i, known := c.Kinds.defined(gvk)
	if !known { // built in, or its CRD is gone: the plural that nearly every kind has
		i.GVR, _ = meta.UnsafeGuessKindToResource(gvk)
	}
	return c.Scope.followed() && !c.Guards(i)
}

// held objects are those that the gate has something to give back to.
func held(o *Object) bool { return Held(o.Annotations) && !o.Deleting() }

// Held reports whether annotations are those of an object that the gate has
// something to give back to: a managed resource under a mask, or an object of an
// external system.
func Held(annotations map[string]string) bool {
	_, masked := annotations[v1alpha1.AnnotationKeyManagementPolicies]
	_, remembered := annotations[v1alpha1.AnnotationKeyExternalAuthor]
	return masked || remembered
}
