package settler

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

const (
	// maxObjects bounds the objects about which something is remembered.
	maxObjects = 100_000
	// touchedFor is for how long an object is read live, at most, after this replica admitted an intent on it, or
	// a user annotation (KR-05-20): the watch shows the change by then.
	touchedFor = 10 * time.Second
)

// Memory is what requests and watches showed of objects, by UID. It is bounded, and safe for concurrent
// use.
type Memory struct {
	mu      sync.Mutex
	objects map[types.UID]*record
	reviews statusReviews
	now     func() time.Time
}

// record of an object.
type record struct {
	// writers of the status, as user ids.
	writers subject.Hashes
	// parent: a request about a child of it was seen.
	parent bool
	// latch is the highest intent generation at which it settled; -1 for none.
	latch int64
	// observed is the highest observed generation seen (KR-03-01), observedAt is when the last intent
	// became observed; zero if that was before the first look. looked: there was one.
	observed   int64
	observedAt time.Time
	looked     bool
	// wrote is the generation when the status was last written, wroteAt the resourceVersion that shows that
	// write.
	wrote   int64
	wroteAt uint64
	// touched is when an intent or a user annotation was last admitted here, touchedAt the latest revision that one was written over.
	touched   time.Time
	touchedAt uint64
	// missingSince is since when a record is missing that the leader should have written; zero if none is.
	missingSince time.Time
	// phase that waits to be written with something else, and since when; "" for none.
	phase      string
	phaseSince time.Time
	// scale is the last change through /scale that the object does not show yet; nil for none.
	scale *scaling
}

// NewMemory returns a Memory that is empty.
func NewMemory() *Memory {
	return &Memory{objects: map[types.UID]*record{}, reviews: newStatusReviews(), now: clock.Now}
}

// at returns the record of an object; the caller holds the lock.
func (m *Memory) at(uid types.UID) *record {
	o := m.objects[uid]
	if o == nil {
		if len(m.objects) >= maxObjects {
			m.evict()
		}
		o = &record{latch: -1}
		m.objects[uid] = o
	}
	return o
}

// evictTries is how many records are compared to find one of which little is known.
const evictTries = 16

// evict any record: it will be seen again. One of an object of which no request or watch showed that it is a
// parent goes first: a client can invent objects. The caller holds the lock.
func (m *Memory) evict() {
	tries, chosen := evictTries, types.UID("")
	for uid, o := range m.objects {
		if chosen = uid; !o.parent && o.latch < 0 && len(o.writers) == 0 {
			break
		}
		if tries--; tries == 0 {
			break
		}
	}
	delete(m.objects, chosen)
}

// write to the record of an object, which is created if need be. Nothing for an empty UID.
func (m *Memory) write(uid types.UID, f func(*record)) {
	if uid == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.at(uid))
}

// read the record of an object; f is not called without a record.
func (m *Memory) read(uid types.UID, f func(*record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.objects[uid]; o != nil {
		f(o)
	}
}

// Forget an object.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, uid)
}

// Now returns the time by which Memory measures.
func (m *Memory) Now() time.Time { return m.now() }

// revision of a resourceVersion: the API server's are numbers that grow. 0 for one that is no number.
func revision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// WritesStatus reports whether a status that a user, by id, wrote was seen stored on an object.
func (m *Memory) WritesStatus(ref parent.Ref, id string) (is bool) {
	m.read(ref.UID, func(o *record) { is = o.writers.Has(id) })
	return is
}

// marked reports whether an object has annotations that only parents get: another replica had a request
// about a child of it.
func marked(annotations map[string]string) bool {
	return annotations[v1alpha1.AnnotationKeyControllers] != "" || annotations[v1alpha1.AnnotationKeyPhase] != "" ||
		annotations[v1alpha1.AnnotationKeySettledGeneration] != ""
}

// isParent reports whether an object is, or by its kind will be, a parent.
func (m *Memory) isParent(s *parent.State) (is bool) {
	if s.Role == parent.RoleComposite || s.Role == parent.RoleClaim || marked(s.Annotations) {
		return true
	}
	m.read(s.UID, func(o *record) { is = o.parent })
	return is
}

// NoteParent notes that there was a request about a child of an object. It reports whether that is new.
func (m *Memory) NoteParent(s *parent.State) (news bool) {
	m.write(s.UID, func(o *record) { news, o.parent = !o.parent, true })
	return news
}

// controllers to record on an object: those of its annotations that lack a writer, by key, as they
// should be (KR-02-04). Nothing is recorded on an object that is no parent.
func (m *Memory) controllers(s *parent.State) (missing map[string]string) {
	if !m.isParent(s) {
		return nil
	}
	next := subject.ControllersOf(s.Annotations)
	m.read(s.UID, func(o *record) {
		for _, w := range o.writers {
			next = next.With(w)
		}
	})
	return next.Missing(s.Annotations)
}

// Settled returns the highest intent generation at which an object settled; -1 for none that is known here.
func (m *Memory) Settled(ref parent.Ref) int64 {
	latch := int64(-1)
	m.read(ref.UID, func(o *record) { latch = o.latch })
	return latch
}

// latch a generation at which an object settled. A lower one changes nothing.
func (m *Memory) latch(uid types.UID, generation int64) {
	m.write(uid, func(o *record) { o.latch = max(o.latch, generation) })
}

// FirstSeen latches a parent that settled before this replica knew of it.
func (m *Memory) FirstSeen(s *parent.State) {
	in := settling.Observation{Parent: s, Now: m.now()}
	in.Observed, in.Known, in.ObservedSince = m.observed(s)
	if generation, settled := in.FirstSeen(); settled {
		m.latch(s.UID, generation)
	}
}

// missing notes whether a record of an object is missing, and returns since when one is; zero if none.
func (m *Memory) missing(uid types.UID, is bool) (since time.Time) {
	m.write(uid, func(o *record) {
		switch {
		case !is:
			o.missingSince = time.Time{}
		case o.missingSince.IsZero():
			o.missingSince = m.now()
		}
		since = o.missingSince
	})
	return since
}

// waiting returns the phase of an object that was noted last; "" for none.
func (m *Memory) waiting(uid types.UID) (phase string) {
	m.read(uid, func(o *record) { phase = o.phase })
	return phase
}

// waits notes the phase of an object that is to be written, "" for none, and returns since when it is that one.
func (m *Memory) waits(uid types.UID, phase string) (since time.Time) {
	m.write(uid, func(o *record) {
		if o.phase != phase {
			o.phase, o.phaseSince = phase, m.now()
		}
		since = o.phaseSince
	})
	return since
}

// observed generation of an object: the highest one seen. A kind that reports none has observed the
// generation it had when its status was last written (KR-03-02). since is when the last intent became
// observed; zero if that was before the first look (KR-03-01).
func (m *Memory) observed(s *parent.State) (generation int64, known bool, since time.Time) {
	m.write(s.UID, func(o *record) {
		if s.HasObserved {
			if o.looked && o.observed < s.ObservedGeneration && passes(s, o.observed) {
				o.observedAt = m.now()
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

// passes reports whether the observed generation of an object is the first since one that its last intent is
// observed at.
func passes(s *parent.State, since int64) bool {
	intent, _ := trace.Intent(s)
	return since < intent.Generation && intent.Generation <= s.ObservedGeneration
}

// Touch an object on which an intent or a user annotation was admitted; stored is the object as it was before that write. A review that is
// forged cannot make it an earlier one.
func (m *Memory) Touch(stored *unstructured.Unstructured) {
	m.write(stored.GetUID(), func(o *record) { o.touch(m.now(), stored.GetResourceVersion()) })
}

// touch notes a write over a version, at a time.
func (o *record) touch(at time.Time, over string) {
	o.touched, o.touchedAt = at, max(o.touchedAt, revision(over))
}

// Touched reports whether an object was touched so recently that its watch, which has it as cached, may not show it yet (KR-05-20). The
// version after the one that was written over has that write: otherwise the API server had it reviewed again.
func (m *Memory) Touched(uid types.UID, cached *states.Object) (is bool) {
	m.read(uid, func(o *record) {
		is = !o.touched.IsZero() && m.now().Sub(o.touched) < touchedFor && (cached == nil || revision(cached.ResourceVersion) <= o.touchedAt)
	})
	return is
}
