package orphans

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

const (
	// markSettles is how long after its review a deletion is stored at the latest: other
	// webhooks and policies may refuse it, or take their time.
	markSettles = 30 * time.Second
	// markRetry is the time until marks that could not be checked are checked again.
	markRetry = 10 * time.Second
	// maxMarked deletions wait at a time; the marks of further ones stay.
	maxMarked = 4096
)

// marked are managed resources that got the mark to be left behind for a deletion.
type marked struct {
	root parent.Ref
	mrs  []parent.Ref
	due  time.Time
}

// Marks that were written for deletions (KR-08-11). Those of a deletion that was not
// stored, since another webhook or policy refused it, are removed again (KR-13-48): a
// later deletion of the managed resource alone would leave its external resource behind
// unrequested. They are kept in memory alone, so that the marks of a replica that ends in
// the meantime stay. It is safe for concurrent use.
type Marks struct {
	cluster *cluster.Cluster
	log     logr.Logger
	now     func() time.Time

	mu      sync.Mutex
	waiting []marked
}

// New Marks; nothing is removed before Start.
func New(c *cluster.Cluster, log logr.Logger) *Marks {
	return &Marks{cluster: c, log: log, now: clock.Now}
}

// writes is how many managed resources are marked at a time: the write of the user waits
// for all of them.
const writes = 16

// Write marks the managed resources whose external resources a policy leaves behind,
// before the deletion of their composite is allowed (KR-08-11): theirs is decided when
// composite and policy may be gone, also while this webhook is down. On failure the
// caller retries. The marks of a deletion that is not stored are removed again (KR-13-48).
func (m *Marks) Write(ctx context.Context, root parent.Ref, mrs []parent.Ref) error {
	m.note(root, mrs)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writes)
	for _, mr := range mrs {
		g.Go(func() error { return write(ctx, m.cluster.States, mr) })
	}
	return g.Wait()
}

// note what is marked for a deletion that is allowed.
func (m *Marks) note(root parent.Ref, mrs []parent.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) < maxMarked {
		m.waiting = append(m.waiting, marked{root: root, mrs: mrs, due: m.now().Add(markSettles)})
	}
}

// Start checks what is due until the context ends.
func (m *Marks) Start(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, time.Second, false, func(ctx context.Context) (bool, error) { // it ends with the context alone
		for _, due := range m.due() {
			if err := m.check(ctx, due); err != nil && ctx.Err() == nil {
				m.log.Error(err, "cannot remove the marks of a deletion that was refused", "deletion", identity.Describe(due.root))
				m.again(due)
			}
		}
		return false, nil
	})
	return nil
}

// NeedLeaderElection is false: each replica checks what it marked.
func (m *Marks) NeedLeaderElection() bool { return false }

// due returns the marks of deletions that are stored by now, or never will be.
func (m *Marks) due() (out []marked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, rest := m.now(), m.waiting[:0:0]
	for _, w := range m.waiting {
		if now.Before(w.due) {
			rest = append(rest, w)
		} else {
			out = append(out, w)
		}
	}
	m.waiting = rest
	return out
}

func (m *Marks) again(w marked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.due = m.now().Add(markRetry)
	m.waiting = append(m.waiting, w)
}

// check one deletion, and remove its marks if it was not stored. One that is stored
// meanwhile gets them back.
func (m *Marks) check(ctx context.Context, w marked) error {
	refused, err := m.refused(ctx, w.root)
	if err != nil || !refused {
		return err
	}
	var removed []parent.Ref
	for _, mr := range w.mrs {
		is, err := m.remove(ctx, mr)
		if err != nil {
			return err
		}
		if is {
			removed = append(removed, mr)
		}
	}
	if refused, err = m.refused(ctx, w.root); err != nil || refused {
		return err
	}
	for _, mr := range removed {
		if err := write(ctx, m.cluster.States, mr); err != nil {
			return err
		}
	}
	return nil
}

// refused reports whether an object still exists and is not being deleted.
func (m *Marks) refused(ctx context.Context, ref parent.Ref) (bool, error) {
	content, err := m.cluster.States.Content(ctx, ref)
	if err != nil || content == nil {
		return false, err
	}
	o := &unstructured.Unstructured{Object: content}
	return o.GetUID() == ref.UID && !identity.IsDeleting(o), nil
}

// remove our mark, and no user's, from a managed resource that is not being deleted.
func (m *Marks) remove(ctx context.Context, ref parent.Ref) (bool, error) {
	r, err := m.cluster.States.Resource(ref)
	if err != nil {
		return false, err
	}
	o, err := r.Get(ctx, ref.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	if o.GetUID() != ref.UID || identity.IsDeleting(o) || !onlyOurs(o, v1alpha1.AnnotationKeyDeletion) {
		return false, nil
	}
	p := states.Patch{Manager: v1alpha1.ManagerWebhook, Annotations: map[string]*string{v1alpha1.AnnotationKeyDeletion: nil}}
	if _, err := p.ApplyTo(ctx, r, o); err != nil && !kerrors.IsNotFound(err) {
		return false, fmt.Errorf("cannot remove the mark of %s: %w", identity.Describe(ref), err)
	}
	return true, nil
}

// onlyOurs reports whether this process is the only field manager of an annotation.
func onlyOurs(o *unstructured.Unstructured, key string) bool {
	ours := false
	for _, e := range o.GetManagedFields() {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.Raw, &fields) != nil {
			continue
		}
		if _, has := fields.Metadata.Annotations["f:"+key]; has && e.Manager != v1alpha1.ManagerWebhook {
			return false
		} else if has {
			ours = true
		}
	}
	return ours
}

// write marks a managed resource to be left behind. One that is gone needs no mark.
func write(ctx context.Context, to *states.States, mr parent.Ref) error {
	patch := states.Patch{Manager: v1alpha1.ManagerWebhook, Annotations: map[string]*string{v1alpha1.AnnotationKeyDeletion: new(v1alpha1.DeletionOrphan)}}
	if err := to.Apply(ctx, mr, patch); err != nil && !kerrors.IsNotFound(err) {
		return fmt.Errorf("cannot mark %s to be left behind: %w", identity.Describe(mr), err)
	}
	return nil
}
