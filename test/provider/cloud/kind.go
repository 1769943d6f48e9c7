package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The collections.
const (
	Databases = "databases"
	Instances = "instances"
)

// DefaultEngine is the engine of a database created without one.
const DefaultEngine = "postgres"

// fields of a resource by their JSON names.
type fields map[string]json.RawMessage

// A kind of resource: the collection it lives in, and how its fields are
// checked and completed.
type kind struct {
	collection string
	normalize  func(fields) (fields, error)
}

// kinds that the cloud knows. A new kind is one entry.
func kinds() []kind {
	return []kind{
		newKind(Databases, func(d *DatabaseFields) error {
			if d.Size < 1 {
				return errors.New("size must be at least 1")
			}
			if d.Engine == "" {
				d.Engine = DefaultEngine
			}
			return nil
		}),
		newKind(Instances, func(i *InstanceFields) error {
			if i.InstanceClass == "" || i.Engine == "" {
				return errors.New("instanceClass and engine must be given")
			}
			return nil
		}),
	}
}

// newKind returns a kind whose fields are those of F, completed by complete.
func newKind[F any](collection string, complete func(*F) error) kind {
	return kind{collection: collection, normalize: func(in fields) (fields, error) {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("cannot encode fields: %w", err)
		}
		f := new(F)
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		if err := dec.Decode(f); err != nil {
			return nil, fmt.Errorf("cannot decode fields: %w", err)
		}
		if err := complete(f); err != nil {
			return nil, err
		}
		if b, err = json.Marshal(f); err != nil {
			return nil, fmt.Errorf("cannot encode fields: %w", err)
		}
		out := fields{}
		if err := json.Unmarshal(b, &out); err != nil {
			return nil, fmt.Errorf("cannot decode fields: %w", err)
		}
		return out, nil
	}}
}

// merge the changes into a copy of the fields. A field is replaced as a whole;
// null removes it.
func merge(base, changes fields) fields {
	out := make(fields, len(base)+len(changes))
	for k, v := range base {
		out[k] = v
	}
	for k, v := range changes {
		if string(v) == "null" {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}
