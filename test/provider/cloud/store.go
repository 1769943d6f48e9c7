package cloud

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// An Error is a refusal with its HTTP status.
type Error struct {
	Code    int    `json:"-"`
	Message string `json:"error"`
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

func refuse(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// A store holds the resources of one kind. Not safe for concurrent use. All
// methods take the time by the cloud's clock.
type store struct {
	kind  kind
	items map[string]*item
}

// An item is a stored resource.
type item struct {
	meta    Meta
	fields  fields
	pending *operation // nil if not busy
}

// An operation that has been accepted and not finished.
type operation struct {
	due    time.Time // zero: until a request finishes it
	finish func(*item)
	remove bool // the item goes when the operation is finished
}

func newStore(k kind) *store {
	return &store{kind: k, items: map[string]*item{}}
}

// encode the item as clients see it.
func (i *item) encode() ([]byte, error) {
	b, err := json.Marshal(i.meta)
	if err != nil {
		return nil, fmt.Errorf("cannot encode resource: %w", err)
	}
	all := fields{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("cannot encode resource: %w", err)
	}
	return json.Marshal(merge(all, i.fields))
}

// names of all resources, sorted.
func (s *store) names() []string { return slices.Sorted(maps.Keys(s.items)) }

func (s *store) get(name string) (*item, *Error) {
	i, ok := s.items[name]
	if !ok {
		return nil, refuse(http.StatusNotFound, "%s/%s does not exist", s.kind.collection, name)
	}
	return i, nil
}

// create a resource.
func (s *store) create(name string, f fields, set Settings, now time.Time) (int, *item, *Error) {
	if i, ok := s.items[name]; ok {
		return 0, nil, refuse(http.StatusConflict, "%s/%s already exists and is %s", s.kind.collection, name, i.meta.Status)
	}
	f, err := s.kind.normalize(f)
	if err != nil {
		return 0, nil, refuse(http.StatusUnprocessableEntity, "invalid %s: %s", s.kind.collection, err)
	}
	i := &item{meta: Meta{Name: name, Status: StatusCreating, CreatedAt: now}, fields: f}
	s.items[name] = i
	done := StatusAvailable
	if set.IncompleteCreation {
		done = StatusIncomplete
	}
	code := i.begin(http.StatusCreated, set, now, func(i *item) { i.meta.Status = done })
	return code, i, nil
}

// update the fields given.
func (s *store) update(name string, changes fields, set Settings, now time.Time) (int, *item, *Error) {
	i, refusal := s.get(name)
	if refusal != nil {
		return 0, nil, refusal
	}
	if i.meta.Status.Busy() {
		return 0, nil, refuse(http.StatusConflict, "%s/%s is %s", s.kind.collection, name, i.meta.Status)
	}
	f, err := s.kind.normalize(merge(i.fields, changes))
	if err != nil {
		return 0, nil, refuse(http.StatusUnprocessableEntity, "invalid %s: %s", s.kind.collection, err)
	}
	i.meta.Status, i.meta.Message = StatusUpdating, ""
	code := i.begin(http.StatusOK, set, now, func(i *item) {
		i.fields, i.meta.Status = f, StatusAvailable
	})
	return code, i, nil
}

// remove a resource. Deleting one that is being deleted changes nothing.
func (s *store) remove(name string, set Settings, now time.Time) (int, *Error) {
	i, refusal := s.get(name)
	if refusal != nil {
		return 0, refusal
	}
	if i.meta.Status == StatusDeleting {
		return http.StatusAccepted, nil
	}
	if !set.Async && set.DeleteDuration == 0 {
		delete(s.items, name)
		return http.StatusNoContent, nil
	}
	i.meta.Status, i.meta.Message = StatusDeleting, ""
	i.pending = &operation{due: due(now, set.AsyncDuration), remove: true}
	if set.DeleteDuration > 0 {
		i.pending.due = due(now, set.DeleteDuration)
	}
	return http.StatusAccepted, nil
}
