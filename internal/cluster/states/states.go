package states

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// Object is what is kept of a watched object.
type Object struct {
	*parent.State
	// External is what an MR shows of its external resource; zero for other kinds.
	External gating.Observed
	// ExternalName of an MR, as crossplane.io/external-name has it.
	ExternalName string
	// StatusDigest is that of the status, where States.DigestStatuses selects the object; else 0.
	StatusDigest uint64
}

// GetObjectMeta returns what a watch cache requires, made of the State each time
// rather than kept twice.
func (o *Object) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
}

// Blind returns why external drift of an MR is unknown.
func (o *Object) Blind() gating.UnknownDrift {
	return gating.UnknownDriftOf(o.State, o.External)
}

const (
	// maxDeleted bounds the deleted objects that are remembered: some 2 MiB.
	maxDeleted = 16_384
	// deletedFor is for how long a deletion is remembered: garbage collection of a
	// child whose own deletion waits for something repeats it for as long.
	deletedFor = 24 * time.Hour
)

// States of objects, watched by kind from the first question on. It is safe for
// concurrent use.
type States struct {
	kinds     *kinds.Kinds
	client    dynamic.Interface
	onChange  []func(old, new *Object)
	onUnwatch []func(*Object)
	// deleted are references to objects that were seen being deleted.
	deleted *utilcache.LRUExpireCache
	// Needed reports whether a kind is watched without a request, onRefused is called with
	// those that are not and may not be, and looked reports whether one is watched
	// that is only read by Look; each may be nil.
	Needed, Looked func(kinds.Info) bool
	OnRefused      func(error)

	mu      sync.RWMutex
	watched map[schema.GroupVersionKind]*watched
	refused map[schema.GroupVersionKind]refusal
	start   func(*watched)
	// Terminating reports whether a Namespace is being deleted; nil for never.
	Terminating func(namespace string) bool
	// Claims are the keys that seal claims.
	Claims *approval.Keys
	// digested selects the objects whose status is digested; nil for none.
	digested func(types.UID) bool
	live     func(ref parent.Ref) // counts live reads, for tests and metrics
	Timeout  time.Duration        // of a read past the cache
}

// New returns States that watches nothing until Run.
func New(client dynamic.Interface, of *kinds.Kinds) *States {
	s := &States{kinds: of, client: client, watched: map[schema.GroupVersionKind]*watched{}, Timeout: informer.LiveTimeout,
		refused: map[schema.GroupVersionKind]refusal{}, deleted: utilcache.NewLRUExpireCache(maxDeleted)}
	s.OnChange(s.noteDeletion)
	of.OnChange(func(i kinds.Info) { s.end(i.GVK, endChanged) })
	of.OnGone(func(gvk schema.GroupVersionKind) { s.end(gvk, endGone) })
	return s
}

// noteDeletion of an object, which may be gone when its children are deleted.
func (s *States) noteDeletion(old, new *Object) {
	switch {
	case new == nil:
		s.deleted.Add(deletedKey(old.State.Ref), true, deletedFor)
	case new.Deleting():
		s.deleted.Add(deletedKey(new.State.Ref), true, deletedFor)
	}
}

// deletedKey returns a reference in any version of its kind. The UID alone would not do: the
// UID of any object that was deleted could be that of an owner that never was.
func deletedKey(ref parent.Ref) parent.Ref {
	ref.Version = ""
	return ref
}

// notFound is the error for an object that does not exist: admission.ErrDeleted where
// that very object was seen being deleted, or its Namespace is.
func (s *States) notFound(ref parent.Ref) error {
	if _, seen := s.deleted.Get(deletedKey(ref)); seen && ref.UID != "" || s.Terminating != nil && s.Terminating(ref.Namespace) {
		return admission.ErrDeleted
	}
	return admission.ErrNotFound
}

// OnChange calls f for each change of a watched object: old is nil for a new
// one, new for a deleted one. Call it before Run; f must not block.
func (s *States) OnChange(f func(old, new *Object)) { s.onChange = append(s.onChange, f) }

// OnUnwatch calls f for each object when its watch ends because its kind is not
// needed any more. Call it before Run; f must not block.
func (s *States) OnUnwatch(f func(*Object)) { s.onUnwatch = append(s.onUnwatch, f) }

// OnLiveRead calls f for each read past the cache. Call it before Run.
func (s *States) OnLiveRead(f func(parent.Ref)) { s.live = f }

// DigestStatuses selects the objects that have a StatusDigest, by UID. Call it before Run.
func (s *States) DigestStatuses(of func(types.UID) bool) { s.digested = of }

// statusSeed makes digests unpredictable to those who choose what is digested.
var statusSeed = maphash.MakeSeed()

// StatusDigest of an object: two objects have the same one, within a process, if they have the same status.
func StatusDigest(o map[string]any) uint64 {
	raw, err := json.Marshal(o["status"]) // sorts the keys
	if err != nil {
		return 0 // what was decoded from JSON can be encoded
	}
	return maphash.Bytes(statusSeed, raw)
}

// Sum up an object for the cache. It is called for every event of every watch, so that
// it must keep nothing of the object, which is many times larger. A message of the
// provider that its runtime is an older one is noted here, where all of them pass.
func (s *States) Sum(o *unstructured.Unstructured) *Object {
	kind := s.kinds.Kind(o.GroupVersionKind())
	out := &Object{State: parent.Sum(o, kind.Role)}
	s.Trust(out.State)
	out.Share()
	if s.digested != nil && s.digested(out.State.UID) {
		out.StatusDigest = StatusDigest(o.Object)
	}
	if kind.ManagementPolicies {
		out.External = gating.Observe(o, kind.SecretFields)
		if mask.Refused(out.External.SyncedMessage) && !mask.Accepts(mask.RuntimeLegacy, out.ManagementPolicies) {
			s.kinds.Refuse(o.GroupVersionKind())
		}
		out.ExternalName = o.GetAnnotations()["crossplane.io/external-name"]
	}
	return out
}

// Get an object: from the watch of its kind, which the first question starts,
// or live where live is requested or the watch does not have it (yet). It
// returns admission.ErrNotFound for an object that does not exist or has
// another UID.
func (s *States) Get(ctx context.Context, ref parent.Ref, live bool) (*Object, error) {
	if live {
		return s.read(ctx, ref)
	}
	if o := s.Cached(ref); o != nil && sameUID(o, ref) {
		return o, nil
	}
	if err := s.Watch(ref.GroupVersionKind); err != nil {
		return nil, err
	}
	return s.read(ctx, ref)
}

// Content of an object as it is now, whole; nil where it does not exist.
func (s *States) Content(ctx context.Context, ref parent.Ref) (map[string]any, error) {
	o, err := s.get(ctx, ref, informer.LiveTimeout)
	if errors.Is(err, admission.ErrNotFound) {
		return nil, nil // nil is an object that does not exist.
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	return o.Object, nil
}

// get an object from the API server; admission.ErrNotFound where it does not exist.
func (s *States) get(ctx context.Context, ref parent.Ref, timeout time.Duration) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := s.Resource(ref)
	if err != nil {
		return nil, err
	}
	o, err := r.Get(ctx, ref.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return nil, s.notFound(ref)
	}
	return o, err
}

// Look at an object that is the parent of nothing: from the watch of its kind where
// the kind has a role in Crossplane and is guarded, or is watched anyway, else
// live.
func (s *States) Look(ctx context.Context, ref parent.Ref) (*Object, error) {
	if s.kinds.Kind(ref.GroupVersionKind).Role != parent.RoleNone && s.isLooked(ref.GroupVersionKind) || s.Cached(ref) != nil {
		return s.Get(ctx, ref, false)
	}
	return s.fetch(ctx, ref)
}

// Cached object, nil where the watches do not have it.
func (s *States) Cached(ref parent.Ref) *Object {
	w := s.of(ref.GroupVersionKind)
	if w == nil || !w.informer.HasSynced() {
		return nil
	}
	o, ok, err := w.informer.GetStore().GetByKey(key(w.info, ref))
	if err != nil || !ok {
		return nil
	}
	return object(o)
}

// Seen returns an object from the watch of its kind; nil if the watch does not have it. watched is false where there is no
// watch of that version, or it is not filled yet.
func (s *States) Seen(ref parent.Ref) (o *Object, watched bool) {
	w := s.of(ref.GroupVersionKind)
	if w == nil || !w.informer.HasSynced() {
		return nil, false
	}
	return s.Cached(ref), true
}

// key of an object in the store of its watch.
func key(i kinds.Info, ref parent.Ref) string {
	if i.Namespaced {
		return ref.Namespace + "/" + ref.Name
	}
	return ref.Name
}

// sameUID reports whether an object is the one that a reference names; a reference
// without UID names any.
func sameUID(o *Object, ref parent.Ref) bool { return ref.UID == "" || ref.UID == o.UID }

// read an object past the cache, and count that: the counter shows how often requests
// wait for the API server.
func (s *States) read(ctx context.Context, ref parent.Ref) (*Object, error) {
	if s.live != nil {
		s.live(ref)
	}
	return s.fetch(ctx, ref)
}

// fetch an object past the watches, on no request's account.
func (s *States) fetch(ctx context.Context, ref parent.Ref) (*Object, error) {
	u, err := s.get(ctx, ref, s.Timeout)
	if err != nil {
		return nil, err
	}
	o := s.Sum(u)
	if !sameUID(o, ref) {
		return nil, s.notFound(ref)
	}
	return o, nil
}

// Resource client for an object's kind and namespace.
func (s *States) Resource(ref parent.Ref) (dynamic.ResourceInterface, error) {
	info, err := s.kinds.Get(ref.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	return informer.ResourceOf(s.client, info.GVR, info.Namespaced, ref.Namespace), nil
}

// List the cached objects of a kind.
func (s *States) List(gvk schema.GroupVersionKind) []*Object {
	w := s.of(gvk)
	if w == nil {
		return nil
	}
	return summaries(w)
}

// parentIndex finds objects by the kind and name of their parent: a claimRef has no UID.
const parentIndex = "parent"

// indexParent is the index function for parentIndex.
func indexParent(o any) ([]string, error) {
	if o := object(o); o != nil && o.Parent.Name != "" {
		return []string{parentKey(o.Parent)}, nil
	}
	return nil, nil
}

func parentKey(ref parent.Ref) string { return ref.Kind + "." + ref.Group + "/" + ref.Name }

// ListBelow returns the cached objects of a kind that name an object as their parent, by its kind and name.
func (s *States) ListBelow(gvk schema.GroupVersionKind, of parent.Ref) []*Object {
	w := s.of(gvk)
	if w == nil {
		return nil
	}
	list, err := w.informer.GetIndexer().ByIndex(parentIndex, parentKey(of))
	if err != nil {
		return nil // it has that index
	}
	return objects(list)
}

// summaries that a watch has, without those that could not be made.
func summaries(w *watched) []*Object { return objects(w.informer.GetStore().List()) }

// objects of a store, without those that could not be summarized.
func objects(list []any) []*Object {
	out := make([]*Object, 0, len(list))
	for _, e := range list {
		if o := object(e); o != nil {
			out = append(out, o)
		}
	}
	return out
}
