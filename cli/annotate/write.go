package annotate

import (
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

	changes "github.com/kausality-io/function-kausality/admission/change"
)

// FieldManager of what is written here.
const FieldManager = "kubectl-kausality"

// Edit makes the next value of an annotation from the stored annotations of the
// object; nil removes it. The stored value again means that nothing is to do. It
// is called once more for each time somebody else was faster.
type Edit func(annotations map[string]string) (next *string, err error)

// Writer of one object's annotations.
type Writer struct {
	// Client of the object's resource, in its namespace.
	Client dynamic.ResourceInterface
	// Name of the object, and its UID where only that one is meant.
	Name string
	UID  types.UID
	// DryRun: nothing is sent ("client"), or nothing stored ("server"); "" for
	// neither.
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
	// Unchanged: it stood there already.
	Unchanged bool `json:"unchanged,omitempty"`
}

// attempts of a write that other writers are faster than, and the pauses between them: some seconds in
// all. The pauses stay at their cap, where Backoff takes Steps for used up.
const attempts = 40

var pauses = wait.Backoff{Steps: attempts, Duration: 5 * time.Millisecond, Factor: 1.3, Jitter: 0.5, Cap: 250 * time.Millisecond}

// Annotate writes one annotation as edit makes it of what is stored (KR-10-09).
func (w Writer) Annotate(ctx context.Context, key string, edit Edit) (Change, error) {
	backoff := pauses
	for attempt := 1; ; attempt++ {
		o, err := w.read(ctx)
		if err != nil {
			return Change{}, err
		}
		c, err := change(o.GetAnnotations(), key, edit)
		if err != nil || c.Unchanged || w.DryRun == DryRunClient {
			return c, err
		}
		err = w.patch(ctx, o, c)
		if err == nil {
			return c, nil
		}
		if !kerrors.IsInvalid(err) && !kerrors.IsConflict(err) {
			return c, fmt.Errorf("cannot write annotation %s: %w", key, err)
		}
		// The test of the patch failed, or what was written was refused: told
		// apart by whether the value is still the same.
		faster, rerr := w.moved(ctx, c)
		if rerr != nil {
			return c, rerr
		}
		if !faster {
			return c, fmt.Errorf("cannot write annotation %s: %w", key, err)
		}
		if attempt == attempts {
			return c, fmt.Errorf("cannot write annotation %s: others write it all the time; try again", key)
		}
		select {
		case <-ctx.Done():
			return c, ctx.Err()
		case <-time.After(backoff.Step()):
		}
	}
}

func change(annotations map[string]string, key string, edit Edit) (Change, error) {
	c := Change{Key: key}
	if v, ok := annotations[key]; ok {
		c.Before = &v
	}
	next, err := edit(annotations)
	if err != nil {
		return c, err
	}
	c.After = next
	c.Unchanged = same(c.Before, c.After)
	return c, nil
}

func same(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

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

// moved reports whether the annotation is another one than a change was made
// from.
func (w Writer) moved(ctx context.Context, c Change) (bool, error) {
	o, err := w.read(ctx)
	if err != nil {
		return false, err
	}
	var now *string
	if v, ok := o.GetAnnotations()[c.Key]; ok {
		now = &v
	}
	return !same(now, c.Before), nil
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const annotationsPath = "/metadata/annotations"

// operations of a change of an object: its UID and the stored value are tested.
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

func (w Writer) patch(ctx context.Context, o *unstructured.Unstructured, c Change) error {
	raw, err := json.Marshal(operations(o, c))
	if err != nil {
		return fmt.Errorf("cannot encode patch: %w", err)
	}
	opts := metav1.PatchOptions{FieldManager: FieldManager}
	if w.DryRun == DryRunServer {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	_, err = w.Client.Patch(ctx, w.Name, types.JSONPatchType, raw, opts)
	return err
}
