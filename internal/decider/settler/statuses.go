package settler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

const (
	// maxReviewed bounds the objects for which reviewed status writes are remembered, maxUnseen those of them
	// that no watch shows: any client that reaches the port can invent objects, and must not displace others.
	maxReviewed, maxUnseen = 4096, 256
	// maxReviewedWrites are remembered for each object, the latest of them.
	maxReviewedWrites = 16
	// reviewedFor is for how long a write may take from its review until it is stored.
	reviewedFor = 30 * time.Second
)

// statusReview is a status write that was reviewed, and is not known to be stored. A review alone shows
// nothing: it may be forged, and the write may still fail (KR-13-20).
type statusReview struct {
	// user id.
	user string
	// from is the resourceVersion before the write, digest that of the status after it.
	from   string
	digest uint64
	// current: from was the version that a watch showed at the time of the review. What is stored later
	// was not known to the client then.
	current bool
	// unchanged: the write changes nothing, and is never seen in a watch.
	unchanged bool
	// looked: the object was read live for it.
	looked bool
	at     time.Time
}

// statusReviews by UID of the object; the caller holds the lock of Memory.
type statusReviews struct{ seen, unseen *lru.Cache }

func newStatusReviews() statusReviews {
	return statusReviews{seen: lru.New(maxReviewed), unseen: lru.New(maxUnseen)}
}

// of an object, without those that took too long; nil for none.
func (r statusReviews) of(uid types.UID, now time.Time) []statusReview {
	for _, c := range []*lru.Cache{r.seen, r.unseen} {
		if all, ok := c.Get(uid); ok {
			return slices.DeleteFunc(slices.Clone(all.([]statusReview)), func(w statusReview) bool { return now.Sub(w.at) > reviewedFor })
		}
	}
	return nil
}

// set those of an object; seen is whether a watch shows it.
func (r statusReviews) set(uid types.UID, all []statusReview, seen bool) {
	to, other := r.seen, r.unseen
	if _, was := r.seen.Get(uid); !seen && !was {
		to, other = r.unseen, r.seen
	}
	other.Remove(uid)
	if len(all) == 0 {
		to.Remove(uid)
		return
	}
	to.Add(uid, all[max(0, len(all)-maxReviewedWrites):])
}

// StatusReviewed notes a status write that is reviewed; stored is the object as a watch shows it, nil for
// none. It reports whether something is learnt from it at once.
func (m *Memory) StatusReviewed(req *admission.Request, stored *parent.State) (learnt bool) {
	uid, from := req.OldObject.GetUID(), req.OldObject.GetResourceVersion()
	if uid == "" || from == "" || req.Object.GetUID() != uid || stored != nil && stored.UID != uid {
		return false
	}
	w := statusReview{user: req.User.ID(), from: from, digest: states.StatusDigest(req.Object.Object), at: m.now(),
		current: stored != nil && stored.ResourceVersion == from}
	w.unchanged = w.digest == states.StatusDigest(req.OldObject.Object)
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.unchanged && w.current {
		return m.observes(stored, w)
	}
	m.reviews.set(uid, append(m.reviews.of(uid, m.now()), w), stored != nil)
	return false
}

// AwaitsStatus reports whether a status write of an object was reviewed that is not known to be stored.
func (m *Memory) AwaitsStatus(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.reviews.of(uid, m.now())) > 0
}

// looks reports whether the object of a ref is to be read live, since a status write of a user, by id,
// was reviewed; once for each such write.
func (m *Memory) looks(uid types.UID, id string) (is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.reviews.of(uid, m.now())
	for i := range all {
		if w := &all[i]; w.current && !w.looked && !w.unchanged && (id == "" || w.user == id) {
			w.looked, is = true, true
		}
	}
	if is {
		m.reviews.set(uid, all, true)
	}
	return is
}

// StatusStored notes an object that is stored, with the digest of its status (KR-13-20). from is the version
// that it had before, "" where other versions may be between: it was read live, or is new in a watch. A
// status write was stored where the object, after the version that was reviewed, has the status that was
// reviewed. It reports whether something is learnt.
func (m *Memory) StatusStored(from string, s *parent.State, digest uint64) (learnt bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.reviews.of(s.UID, m.now())
	if len(all) == 0 {
		return false
	}
	at := revision(s.ResourceVersion)
	rest := slices.DeleteFunc(all, func(w statusReview) bool {
		switch {
		case w.unchanged && w.from == s.ResourceVersion:
			learnt = m.observes(s, w) || learnt
			return true
		case !w.unchanged && w.digest == digest && (w.from == from || w.current && at > revision(w.from)):
			m.wrote(s, w.user)
			learnt = true
			return true
		}
		return from != "" && revision(w.from) < at // another write took its place
	})
	m.reviews.set(s.UID, rest, true)
	return learnt
}

// wrote: a user has written the status that an object has; the caller holds the lock.
func (m *Memory) wrote(s *parent.State, user string) {
	o := m.at(s.UID)
	o.writers = o.writers.With(user, nil)
	o.written(s)
}

// written: the status that an object has was written at its generation.
func (o *record) written(s *parent.State) {
	o.wrote, o.wroteAt = max(o.wrote, s.Generation), max(o.wroteAt, revision(s.ResourceVersion))
}

// observes: a controller of an object writes the status that it has, and so has observed it. It does not
// make a user a controller who is not recorded as one. The caller holds the lock.
func (m *Memory) observes(s *parent.State, w statusReview) bool {
	o := m.objects[s.UID]
	recorded := subject.ControllersOf(s.Annotations)
	if known := o != nil && o.writers.Has(w.user) || recorded.Has(w.user); known {
		m.wrote(s, w.user)
		return true
	}
	if !recorded.HasHash(subject.HashOf(w.user)) { // which an earlier release recorded
		return false
	}
	m.at(s.UID).written(s)
	return true
}
