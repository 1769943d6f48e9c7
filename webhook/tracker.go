package webhook

import (
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// maxTracked bounds the objects about which something is remembered.
	maxTracked = 100_000
	// touchedFor is how long an intent that this replica has just admitted, or what
	// people say, prompts live reads (spec 5): the cache will have it by then.
	touchedFor = 10 * time.Second
)

// tracker remembers what requests show before any annotation does. All of it
// can be lost: it is found again in the objects, or seen again.
type tracker struct {
	mu      sync.Mutex
	objects map[types.UID]*tracked
	now     func() time.Time
}

type tracked struct {
	// writers of the status, hashes.
	writers subject.Hashes
	// parent: a child of it was seen.
	parent bool
	// latch: highest intent generation at which it settled.
	latch int64
	// observed: highest observed generation seen (facts 6), and since when the
	// last intent is, where that was seen to happen; looked: there was a look
	// before.
	observed   int64
	observedAt time.Time
	looked     bool
	// wrote: generation it had when its status was last written, and wroteAt the
	// first resourceVersion that may show that write.
	wrote   int64
	wroteAt uint64
	// touched: an intent on it was admitted here, or what people say of its children.
	touched time.Time
	// lacks: since when a record is missing that the leader should have written.
	lacks time.Time
	// scale: who changed it through the scale subresource, last.
	scale *scaling
}

func newTracker() *tracker {
	return &tracker{objects: map[types.UID]*tracked{}, now: time.Now}
}

// at returns the record of an object; the caller holds the lock.
func (t *tracker) at(uid types.UID) *tracked {
	o := t.objects[uid]
	if o == nil {
		if len(t.objects) >= maxTracked {
			for k := range t.objects { // any one: it will be seen again
				delete(t.objects, k)
				break
			}
		}
		o = &tracked{latch: -1}
		t.objects[uid] = o
	}
	return o
}

func (t *tracker) with(uid types.UID, f func(*tracked)) {
	if uid == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.at(uid))
}

func (t *tracker) read(uid types.UID, f func(*tracked)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.objects[uid]; o != nil {
		f(o)
	}
}

func (t *tracker) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects, uid)
}

// sawStatus of an object being written by a user. Admission sees the write before
// it lands, if it does: what the object looks like without it tells nothing about
// the generation that its controller has seen by now.
func (t *tracker) sawStatus(req *admission.Request) {
	at := revision(req.OldObject.GetResourceVersion())
	if !reflect.DeepEqual(req.OldObject.Object["status"], req.Object.Object["status"]) {
		at++
	}
	t.with(req.Object.GetUID(), func(o *tracked) {
		o.parent = o.parent || marked(req.OldObject.GetAnnotations()) // nothing but the status of the other counts
		o.writers = o.writers.With(req.User.Hash(), nil)
		o.wrote, o.wroteAt = max(o.wrote, req.Object.GetGeneration()), max(o.wroteAt, at)
	})
}

// revision of a resourceVersion, which the API server's own are comparable by;
// 0 for one that is no number.
func revision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (t *tracker) writesStatus(ref parent.Ref, hash string) (is bool) {
	t.read(ref.UID, func(o *tracked) { is = o.writers.Has(hash) })
	return is
}

// marked reports whether an object has annotations that only a parent gets: another
// replica was asked about a child of it.
func marked(annotations map[string]string) bool {
	return annotations[v1alpha1.AnnotationKeyControllers] != "" || annotations[v1alpha1.AnnotationKeyPhase] != "" ||
		annotations[v1alpha1.AnnotationKeySettledGeneration] != ""
}

// parental reports whether an object is, or by its kind will be, a parent.
func (t *tracker) parental(s *parent.State) bool {
	return s.Role == parent.RoleComposite || s.Role == parent.RoleClaim || marked(s.Annotations) || t.knownParent(s.UID)
}

// knownParent reports whether this replica heard that an object is a parent.
func (t *tracker) knownParent(uid types.UID) (is bool) {
	t.read(uid, func(o *tracked) { is = o.parent })
	return is
}

// isParent notes that a child of it was seen, and reports whether that is news.
func (t *tracker) isParent(s *parent.State) (news bool) {
	known := t.knownParent(s.UID)
	if !known {
		t.with(s.UID, func(o *tracked) { o.parent = true })
	}
	return !known && s.UID != ""
}

// controllers to record on an object: its annotation with the writers that are
// missing there.
func (t *tracker) controllers(s *parent.State) (value string, missing bool) {
	have := subject.ParseHashes(s.Annotations[v1alpha1.AnnotationKeyControllers])
	next := have
	if !t.parental(s) {
		return next.String(), false
	}
	t.read(s.UID, func(o *tracked) {
		for _, w := range o.writers {
			next = next.With(w, nil)
		}
	})
	return next.String(), len(next) != len(have) || next.String() != have.String()
}

func (t *tracker) settled(ref parent.Ref) int64 {
	latch := int64(-1)
	t.read(ref.UID, func(o *tracked) { latch = o.latch })
	return latch
}

func (t *tracker) latch(uid types.UID, generation int64) {
	t.with(uid, func(o *tracked) { o.latch = max(o.latch, generation) })
}

// lacking remembers since when a record of an object is missing; not any more
// where missing is false.
func (t *tracker) lacking(uid types.UID, missing bool) (since time.Time) {
	t.with(uid, func(o *tracked) {
		switch {
		case !missing:
			o.lacks = time.Time{}
		case o.lacks.IsZero():
			o.lacks = t.now()
		}
		since = o.lacks
	})
	return since
}

// observed generation of an object: the highest one seen. A kind that reports
// none has observed the generation it had when its status was last written.
// since is when the last intent was seen to become observed, zero where that was
// before the first look.
func (t *tracker) observed(s *parent.State) (generation int64, known bool, since time.Time) {
	intent, _ := trace.Intent(s)
	t.with(s.UID, func(o *tracked) {
		if s.HasObserved {
			if o.looked && o.observed < intent.Generation && s.ObservedGeneration >= intent.Generation {
				o.observedAt = t.now()
			}
			o.observed = max(o.observed, s.ObservedGeneration)
		}
		o.looked = true
		generation, since = o.observed, o.observedAt
		if !s.HasObserved && o.observed == 0 && s.HasStatus && revision(s.ResourceVersion) >= o.wroteAt {
			generation = o.wrote
		}
	})
	return generation, generation > 0, since
}

// touch an object whose intent was just admitted, or what people say of its
// children.
func (t *tracker) touch(uid types.UID) {
	t.with(uid, func(o *tracked) { o.touched = t.now() })
}

func (t *tracker) touched(uid types.UID) (is bool) {
	t.read(uid, func(o *tracked) { is = !o.touched.IsZero() && t.now().Sub(o.touched) < touchedFor })
	return is
}

// sawScale of an object: an intent, whose hop and allowances the writer adds once
// it landed.
func (t *tracker) sawScale(req *admission.Request, d admission.Decision) {
	wanted, found, err := unstructured.NestedInt64(req.Object.Object, "spec", "replicas")
	if err != nil || !found || !slices.ContainsFunc(d.Changes, func(c change.Change) bool { return c.Path == "spec.replicas" }) {
		wanted = -1 // the kind has its replicas elsewhere
	}
	c := &scaling{user: req.User.Name, at: approval.Stamp(t.now()), from: req.OldObject.GetResourceVersion(),
		generation: req.OldObject.GetGeneration() + 1, replicas: wanted, later: d.Later}
	if own := d.Trace.Own(); own != nil {
		c.above, c.approval = d.Trace[:len(d.Trace)-1], own.Approval
	}
	t.with(req.Object.GetUID(), func(o *tracked) {
		o.scale = c
		o.touched = t.now()
	})
}

// scales reports whether a change through /scale was admitted here and is not
// recorded yet.
func (t *tracker) scales(uid types.UID) (is bool) {
	t.read(uid, func(o *tracked) { is = o.scale != nil })
	return is
}

// scaling through /scale that was admitted here. The API server gives the
// managedFields entry of a built-in kind's /scale no time (1.35), so that memory
// alone tells when it was.
type scaling struct {
	user string
	at   metav1.Time
	// from is the resourceVersion before it, generation the one after it,
	// replicas what was asked for; -1 where the request does not say.
	from       string
	generation int64
	replicas   int64
	// above are the hops of what caused it, approval is that of its own hop.
	above    trace.Trace
	approval *v1alpha1.HopApproval
	// later are the annotations to write with the hop; nil values remove.
	later map[string]*string
}

// landed reports whether a state is one after the scaling.
func (c *scaling) landed(s *parent.State) bool {
	return s.ResourceVersion != c.from && s.Generation >= c.generation &&
		(s.Replicas < 0 || c.replicas < 0 || s.Replicas == c.replicas)
}

// recorded the intent through /scale: from now on the object tells.
func (t *tracker) recorded(uid types.UID) {
	t.with(uid, func(o *tracked) { o.scale = nil })
}

// scaled returns the state with the trace of an intent through /scale filled in,
// and the allowances it was granted, where the object itself only shows that
// there was one.
func (t *tracker) scaled(s *parent.State) *parent.State {
	var scale *scaling
	t.read(s.UID, func(o *tracked) { scale = o.scale })
	if scale == nil || !scale.landed(s) {
		return s
	}
	hop, recorded := trace.Intent(s)
	switch {
	case hop.Unattributed && (!recorded || hop.Timestamp.Time.Equal(s.ScaleTime)): // another replica may have recorded it
		hop.User, hop.Unattributed = scale.user, scale.user == ""
	case recorded && hop.Generation < scale.generation: // else a later change has recorded it with its own
		at, labels := scale.at.Time, hop.Labels
		if s.ScaleTime.After(at) {
			at = s.ScaleTime
		}
		hop = trace.Hop(s.Ref, s.Generation, scale.user, at)
		hop.Labels = labels
	default:
		return s
	}
	c := *s
	c.Annotations = map[string]string{}
	for k, v := range s.Annotations {
		c.Annotations[k] = v
	}
	for k, v := range scale.later {
		if v == nil {
			delete(c.Annotations, k)
		} else {
			c.Annotations[k] = *v
		}
	}
	hop.Approval = scale.approval
	c.Annotations[v1alpha1.AnnotationKeyTrace] = append(slices.Clone(scale.above), hop).String()
	return &c
}
