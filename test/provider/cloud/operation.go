package cloud

import (
	"net/http"
	"time"
)

// begin an operation: finish it at once, or later if the cloud is asynchronous.
// It returns the HTTP status.
func (i *item) begin(code int, set Settings, now time.Time, finish func(*item)) int {
	if !set.Async {
		finish(i)
		return code
	}
	i.pending = &operation{due: due(now, set.AsyncDuration), finish: finish}
	return http.StatusAccepted
}

// due is when an operation of this duration ends; never by itself if zero.
func due(now time.Time, d Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(d))
}

// settle finishes the operations that are due.
func (s *store) settle(now time.Time) {
	for _, name := range s.names() {
		if op := s.items[name].pending; op != nil && !op.due.IsZero() && !now.Before(op.due) {
			s.finish(name, "")
		}
	}
}

// finish the resource's operation, with a failure if there is a message. It
// reports whether there was one.
func (s *store) finish(name, failure string) bool {
	i, ok := s.items[name]
	if !ok || i.pending == nil {
		return false
	}
	op := i.pending
	i.pending = nil
	switch {
	case failure != "":
		i.meta.Status, i.meta.Message = StatusFailed, failure
	case op.remove:
		delete(s.items, name)
	default:
		op.finish(i)
	}
	return true
}

// lose a resource, whatever is going on with it.
func (s *store) lose(name string) *Error {
	_, refusal := s.get(name)
	delete(s.items, name)
	return refusal
}

// change a resource, whatever is going on with it.
func (s *store) change(name string, changes fields) *Error {
	i, refusal := s.get(name)
	if refusal != nil {
		return refusal
	}
	f, err := s.kind.normalize(merge(i.fields, changes))
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, "invalid %s: %s", s.kind.collection, err)
	}
	i.fields = f
	return nil
}
