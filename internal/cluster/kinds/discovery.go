package kinds

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

const (
	// rediscoverAfter bounds the age of what is known of built-in kinds: an
	// aggregated API server comes and goes without an event that we watch.
	rediscoverAfter = 10 * time.Minute
	// rediscoverRetry is the pause after a failed discovery.
	rediscoverRetry = 5 * time.Second
)

// Rediscover the kinds that no CRD defines. It does not block.
func (k *Kinds) Rediscover() {
	select {
	case k.stale <- struct{}{}:
	default: // on its way
	}
}

// RunDiscovery keeps the built-in kinds current until the context ends. It does
// nothing until onDiscovered is set and rediscover was called.
func (k *Kinds) RunDiscovery(ctx context.Context, client discovery.DiscoveryInterface) {
	if k.OnDiscovery == nil || !k.Synced(ctx) {
		return
	}
	next := time.NewTimer(rediscoverAfter)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.stale:
		case <-next.C:
		}
		wait := rediscoverAfter
		if err := k.discover(client); err != nil {
			klog.FromContext(ctx).Error(err, "cannot discover built-in kinds; retrying")
			wait = rediscoverRetry
		}
		next.Reset(wait)
	}
}

// discover which built-in kinds have a status. Groups whose API server does not
// answer keep what is known of them.
func (k *Kinds) discover(client discovery.DiscoveryInterface) error {
	_, served, err := client.ServerGroupsAndResources()
	failed := &discovery.ErrGroupDiscoveryFailed{}
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	found := map[schema.GroupKind]Info{}
	k.mu.RLock()
	for gk, i := range k.builtin {
		if _, stays := failed.Groups[i.GVK.GroupVersion()]; stays {
			found[gk] = i
		}
	}
	k.mu.RUnlock()
	for _, list := range served {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue // of an aggregated API server that breaks the API conventions
		}
		for _, r := range list.APIResources {
			gk := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
			if _, known := found[gk]; known || !strings.HasSuffix(r.Name, "/status") {
				continue
			}
			if i, getErr := k.Get(gv.WithKind(r.Kind)); getErr == nil { // else it is gone since
				found[gk] = i
			}
		}
	}
	k.mu.Lock()
	same := maps.Equal(k.builtin, found)
	k.builtin = found
	k.mu.Unlock()
	if !same {
		k.OnDiscovery()
	}
	return err
}

// Discovered kinds: those with a status that no CRD defines, in the version that
// the API server prefers.
func (k *Kinds) Discovered() []Info {
	k.mu.RLock()
	defer k.mu.RUnlock()
	byCRD := make(map[schema.GroupKind]bool, len(k.byGVK))
	for gvk := range k.byGVK {
		byCRD[gvk.GroupKind()] = true
	}
	var out []Info
	for gk, i := range k.builtin {
		if !byCRD[gk] {
			out = append(out, i)
		}
	}
	return out
}

// HasStatus reports whether a kind has a status subresource; false for a built-in
// one until it is discovered.
func (k *Kinds) HasStatus(i Info) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, builtin := k.builtin[i.GVK.GroupKind()]
	return i.Status || builtin
}
