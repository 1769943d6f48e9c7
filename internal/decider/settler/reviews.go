package settler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// StatusReviewed notes that a status write of an object is reviewed, which counts once it is stored
// (KR-13-20). The watch of a kind that is not watched begins with the first such review.
func (s *Settler) StatusReviewed(req *admission.Request) {
	ref := parent.RefOf(req.OldObject)
	o := s.seen(ref)
	if o == nil {
		watches := s.cluster.States.Watches(ref.GroupKind())
		if !watches {
			o = s.unwatched(ref)
		}
		var stored *parent.State
		if o != nil {
			stored = o.State
		}
		s.memory.StatusReviewed(req, stored)
		if !watches {
			s.queue.Add(ref) // finding the kind may take longer than the request can wait
		}
		return
	}
	o = s.caughtUp(req, ref, o)
	if s.memory.StatusReviewed(req, o.State) {
		s.queue.Add(o.State.Ref)
	}
	if o.State.GroupVersionKind != ref.GroupVersionKind {
		s.queue.AddAfter(ref, otherVersion)
	}
}

// caughtUp waits for the watch, which has an object as o, to show it as it is stored, where a user writes its status who is not known to do
// so: a status that is stored before the watch shows what it was written over does not show by whom (KR-13-20). It returns what the watch
// shows, which still is behind where that takes too long.
func (s *Settler) caughtUp(req *admission.Request, ref parent.Ref, o *states.Object) *states.Object {
	id, from := req.User.ID(), revision(req.OldObject.GetResourceVersion())
	lags := func() bool { return revision(o.State.ResourceVersion) < from }
	if !lags() || s.memory.WritesStatus(ref, id) || subject.ControllersOf(o.State.Annotations).Has(id) {
		return o
	}
	select {
	case s.behind <- struct{}{}:
	default:
		return o
	}
	defer func() { <-s.behind }()
	_ = wait.PollUntilContextTimeout(context.Background(), lagInterval, reviewPatience, false, func(context.Context) (bool, error) {
		o = cmp.Or(s.seen(ref), o)
		return !lags(), nil
	}) // its error is that the time has passed
	return o
}

// Voted notes that a write of an object leaves votes, whose annotations are removed once the watch shows them (KR-14-02). The watch of a kind
// that is not watched begins with the first of them.
func (s *Settler) Voted(ref parent.Ref) {
	if s.cluster.States.Watches(ref.GroupKind()) || s.cluster.Unguarded(ref.GroupVersionKind) { // a review may be forged
		return
	}
	select {
	case s.reading <- struct{}{}:
	default:
		return // the next one begins it
	}
	go func() { // finding the kind may take longer than the request can wait
		defer func() { <-s.reading }()
		defer informer.Recover(name, nil)
		if err := s.cluster.States.Watch(ref.GroupVersionKind); err != nil {
			s.log.Error(err, "cannot watch a kind with votes: their annotations stay", "kind", ref.GroupVersionKind.String())
		}
	}()
}

// unwatched object of a kind whose watch begins with this review, read live; nil where that takes too long. What is stored later than
// that shows that a write was stored, whatever the first list of the watch shows.
func (s *Settler) unwatched(ref parent.Ref) *states.Object {
	select {
	case s.reading <- struct{}{}:
	default:
		return nil
	}
	read := make(chan *states.Object, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error(fmt.Errorf("panic: %v", p), "cannot read an object whose status is reviewed", "object", identity.Describe(ref))
				read <- nil
			}
			<-s.reading
		}()
		o, err := s.states.Get(context.Background(), ref, true) // has a timeout of its own
		if err != nil {
			o = nil
		}
		read <- o
	}()
	select {
	case o := <-read:
		return o
	case <-time.After(reviewPatience):
		return nil
	}
}

// seen object in the watch of any version of its kind; nil where none has it.
func (s *Settler) seen(ref parent.Ref) *states.Object {
	if o := s.states.Cached(ref); o != nil {
		return o
	}
	for _, gvk := range s.cluster.States.Kinds() {
		if gvk.GroupKind() == ref.GroupKind() && gvk != ref.GroupVersionKind {
			of := ref
			of.GroupVersionKind = gvk
			if o := s.states.Cached(of); o != nil {
				return o
			}
		}
	}
	return nil
}

// StatusWriter reports whether a user, by id, writes the status of an object. Where a write was reviewed
// that the watch does not show yet, the object is read live, once.
func (s *Settler) StatusWriter(ref parent.Ref, id string) bool {
	if s.memory.WritesStatus(ref, id) {
		return true
	}
	return s.look(ref, id) && s.memory.WritesStatus(ref, id)
}

// look at an object of which a status write by a user, by id, or by any for "", was reviewed. It reports
// whether that was stored.
func (s *Settler) look(ref parent.Ref, id string) bool {
	if !s.memory.looks(ref.UID, id) {
		return false
	}
	o, err := s.states.Get(context.Background(), ref, true) // has a timeout of its own
	if err != nil {
		s.log.V(1).Info("cannot read an object whose status was reviewed", "object", identity.Describe(ref), "error", err.Error())
		return false
	}
	return s.memory.StatusStored("", o.State, o.StatusDigest)
}
