package cloud

import "time"

// Status of a resource.
type Status string

// The life of a resource.
const (
	StatusCreating   Status = "creating"   // creation was accepted and is going on
	StatusIncomplete Status = "incomplete" // created, but needs an update to be finished
	StatusAvailable  Status = "available"
	StatusUpdating   Status = "updating" // an update was accepted; the old values still hold
	StatusDeleting   Status = "deleting"
	StatusFailed     Status = "failed" // the last operation failed, see Meta.Message
)

// Busy is true while an operation is going on. The cloud then takes no update.
func (s Status) Busy() bool {
	return s == StatusCreating || s == StatusUpdating || s == StatusDeleting
}

// Meta are the fields that the cloud sets on every resource. Clients cannot set it.
type Meta struct {
	Name      string    `json:"name"`
	Status    Status    `json:"status"`
	Message   string    `json:"message,omitempty"` // why the last operation failed
	CreatedAt time.Time `json:"createdAt"`         // by the cloud's clock, UTC
}

// Info returns m. It gives every resource type that embeds Meta a method by
// which generic code can reach it.
func (m Meta) Info() Meta { return m }

// DatabaseFields are the fields of a database that clients set.
type DatabaseFields struct {
	Size   int64             `json:"size"` // GiB
	Engine string            `json:"engine,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
}

// InstanceFields are the fields of an instance that clients set.
type InstanceFields struct {
	InstanceClass string `json:"instanceClass"`
	Engine        string `json:"engine"`
}

// An Instance as the cloud returns it.
type Instance struct {
	Meta
	InstanceFields
}

// A Database as the cloud returns it.
type Database struct {
	Meta
	DatabaseFields
}
