package stored

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

// ErrNotStored is the error for a review of an object that is not stored as the review has it. Either it
// was changed at this moment, and the client tries again, or the review is forged.
var ErrNotStored = errors.New("the object has changed; try again")

// Known requires that the object which a review changes is the one that is stored, by its UID, before
// anything that others hold is read for it: an answer must not reveal it to a client that knows no more than
// names (KR-13-23). It costs a look into a cache, and a read where the cache has another object. Objects of
// kinds that are not watched find their parent by its UID alone.
func Known(ctx context.Context, c *cluster.Cluster, req *admission.Request) error {
	if req.OldObject == nil || c == nil {
		return nil
	}
	ref := req.Ref()
	if cached, watched := c.States.Seen(ref); !watched || cached != nil && cached.State.UID == req.OldObject.GetUID() {
		return nil
	}
	content, err := c.States.Content(ctx, ref)
	if err != nil {
		return err
	}
	if content == nil || field(content, "uid") != string(req.OldObject.GetUID()) {
		return fmt.Errorf("cannot decide about %s: %w", identity.Describe(ref), ErrNotStored)
	}
	return nil
}

// Verify that the object which a request changes is stored, live and in the version of the request, before an
// approval is used for it (KR-13-21). A write of any other version fails with a conflict, so that none is refused
// by this that would be stored. Nothing is stored before a CREATE: an object of its name must not exist,
// and one without a name has nothing to compare; its claim is released if it does not appear.
func Verify(ctx context.Context, c *cluster.Cluster, req *admission.Request) error {
	if req.Operation == admission.Create && req.Name == "" {
		return nil
	}
	ref := req.Ref()
	content, err := c.States.Content(ctx, ref)
	if err != nil {
		return err
	}
	changed := content != nil
	if old := req.OldObject; old != nil {
		changed = content == nil || field(content, "uid") != string(old.GetUID()) || field(content, "resourceVersion") != old.GetResourceVersion()
	}
	if changed {
		return fmt.Errorf("cannot use an approval for %s: %w", identity.Describe(ref), ErrNotStored)
	}
	return nil
}

// Still returns what finds out, before a Drift of a request is written, whether it is about an object that
// is stored (KR-13-22); nil where that is known. It must have the desired state that was refused to change or, where
// the request passed, may have any later one. Of a CREATE nothing is stored, nor of a DELETE that passed: their
// parent is, which was read live by its UID. It may be called after the request, when the caller has changed the objects.
func Still(c *cluster.Cluster, req *admission.Request, allowed bool) func(context.Context) (bool, error) {
	old := req.OldObject
	if old == nil || c == nil {
		return nil
	}
	ref, uid := req.Ref(), string(old.GetUID())
	if o := c.States.Cached(ref); o != nil && string(o.State.UID) == uid && o.ResourceVersion == old.GetResourceVersion() {
		return nil
	}
	var desired map[string]any
	if !allowed {
		desired = runtime.DeepCopyJSON(change.Desired(old.Object))
	}
	deletes := req.Operation == admission.Delete
	return func(ctx context.Context) (bool, error) {
		content, err := c.States.Content(ctx, ref)
		switch {
		case err != nil:
			return false, err
		case content == nil:
			return allowed && deletes, nil
		case field(content, "uid") != uid:
			return false, nil
		}
		return allowed || len(change.Diff(desired, content, false)) == 0, nil
	}
}

// field of an object's metadata; "" if it has none.
func field(content map[string]any, name string) string {
	meta, _ := content["metadata"].(map[string]any)
	value, _ := meta[name].(string)
	return value
}
