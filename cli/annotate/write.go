package annotate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	changes "github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/internal/pause"
)

// FieldManager of the writes of this package where a Writer names no other.
const FieldManager = "kubectl-kausality"

// Edit returns the next value of an annotation, given the stored annotations of
// the object; nil removes it, and the stored value leaves it unchanged. It is
// called again after each conflict.
type Edit func(annotations map[string]string) (next *string, err error)

// Writer of one object's annotations.
type Writer struct {
	// Client of the object's resource, in its namespace.
	Client dynamic.ResourceInterface
	// Name of the object; UID, where it is not empty, must be the object's.
	Name string
	UID  types.UID
	// Manager is the field manager of the write; FieldManager where it is empty.
	Manager string
	// DryRun sends nothing (client) or stores nothing (server); "" writes.
	DryRun DryRun
}

// DryRun is the value of --dry-run.
type DryRun string

// The ways of a dry run.
const (
	DryRunNone   DryRun = ""
	DryRunClient DryRun = "client"
	DryRunServer DryRun = "server"
)

// Change that was written.
type Change struct {
	Key string `json:"annotation"`
	// Before and After are the values; nil where there is none.
	Before *string `json:"before,omitempty"`
	After  *string `json:"after,omitempty"`
	// Unchanged: it had the value already.
	Unchanged bool `json:"unchanged,omitempty"`
	// Had and Has are all annotations of the object before and after it, as the API server answered: with what the webhook makes of the change.
	// Has is nil where nothing was sent.
	Had map[string]string `json:"-"`
	Has map[string]string `json:"-"`
}

// attempts of a write that conflicts with others, and the pauses between them:
// some seconds in all. The attempts are counted apart from Backoff, which counts
// its Steps as used up when a pause reaches the cap.
const attempts = 40

var pauses = wait.Backoff{Steps: attempts, Duration: 5 * time.Millisecond, Factor: 1.3, Jitter: 0.5, Cap: 250 * time.Millisecond}

// Annotate writes one annotation. Other writers of the same annotation cause it
// to be edited again; a refusal by the API server is an error (KR-10-09).
func (w Writer) Annotate(ctx context.Context, key string, edit Edit) (Change, error) {
	backoff := pauses
	for attempt := 1; ; attempt++ {
		o, err := w.read(ctx)
		if err != nil {
			return Change{}, err
		}
		c, err := edited(o.GetAnnotations(), key, edit)
		if c.Had = o.GetAnnotations(); c.Unchanged {
			c.Has = c.Had
		}
		if err != nil || c.Unchanged || w.DryRun == DryRunClient {
			return c, err
		}
		c.Has, err = w.patch(ctx, o, c)
		if err == nil {
			return c, nil
		}
		if !kerrors.IsInvalid(err) && !kerrors.IsConflict(err) {
			return c, fmt.Errorf("cannot write annotation %s: %w", key, err)
		}
		// Either the test of the patch failed, or admission refused the value. The
		// API server answers both alike; in the former case the value has changed.
		changed, rerr := w.changed(ctx, c)
		if rerr != nil {
			return c, rerr
		}
		if !changed {
			return c, fmt.Errorf("cannot write annotation %s: %w", key, err)
		}
		if attempt == attempts {
			return c, fmt.Errorf("cannot write annotation %s: too many conflicts; try again", key)
		}
		if !pause.For(ctx, backoff.Step()) {
			return c, ctx.Err()
		}
	}
}

// edited returns the change that an edit makes.
func edited(annotations map[string]string, key string, edit Edit) (Change, error) {
	c := Change{Key: key, Before: stored(annotations, key)}
	next, err := edit(annotations)
	if err != nil {
		return c, err
	}
	c.After, c.Unchanged = next, ptr.Equal(c.Before, next)
	return c, nil
}

// read reads the object. An object of that name with another UID is not the one that
// the user decided about: it is an error, and nothing is written.
func (w Writer) read(ctx context.Context) (*unstructured.Unstructured, error) {
	o, err := w.Client.Get(ctx, w.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", w.Name, err)
	}
	if w.UID != "" && o.GetUID() != w.UID {
		return nil, fmt.Errorf("%s was deleted, and another object has its name now; nothing was written", w.Name)
	}
	return o, nil
}

// changed reports whether the annotation is not the one any more that a change
// is based on.
func (w Writer) changed(ctx context.Context, c Change) (bool, error) {
	o, err := w.read(ctx)
	if err != nil {
		return false, err
	}
	return !ptr.Equal(stored(o.GetAnnotations(), c.Key), c.Before), nil
}

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const annotationsPath = "/metadata/annotations"

// operations returns the operations of a change. They test the UID and the value that the change is
// based on; a test for null is true where there is none (RFC 6902, section 4.6,
// as the API server's library applies it).
func operations(o *unstructured.Unstructured, c Change) []operation {
	ops := []operation{{"test", "/metadata/uid", o.GetUID()}}
	path := changes.Pointer("metadata", "annotations", c.Key)
	switch {
	case c.After == nil:
		return append(ops, operation{"test", path, *c.Before}, operation{"remove", path, nil})
	case c.Before != nil:
		return append(ops, operation{"test", path, *c.Before}, operation{"replace", path, *c.After})
	case len(o.GetAnnotations()) == 0:
		return append(ops, operation{"test", annotationsPath, nil}, operation{"add", annotationsPath, map[string]string{c.Key: *c.After}})
	}
	return append(ops, operation{"test", path, nil}, operation{"add", path, *c.After})
}

// patch patches the object with one change, and returns its annotations then. The error is that of the API server, which the
// caller distinguishes: Invalid and Conflict may be a lost race.
func (w Writer) patch(ctx context.Context, o *unstructured.Unstructured, c Change) (map[string]string, error) {
	raw, err := json.Marshal(operations(o, c))
	if err != nil {
		return nil, fmt.Errorf("cannot encode patch: %w", err)
	}
	opts := metav1.PatchOptions{FieldManager: cmp.Or(w.Manager, FieldManager)}
	if w.DryRun == DryRunServer {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	after, err := w.Client.Patch(ctx, w.Name, types.JSONPatchType, raw, opts)
	if err != nil {
		return nil, err
	}
	return after.GetAnnotations(), nil
}
