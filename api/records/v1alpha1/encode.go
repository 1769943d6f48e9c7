package v1alpha1

import (
	"bytes"
	gojson "encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/json"
)

// ErrInvalid is matched by the error of Encode and Decode for what is no record of this schema.
var ErrInvalid = errors.New("invalid record")

// SchemaError is returned by Decode for a record of another version of the schema, as a later release writes it (KR-16-01). The
// record may be valid: it is to be kept for a reader that knows the version, or left with its sender.
type SchemaError struct {
	// Schema of the record; empty where it has none.
	Schema string
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("cannot decode a record of schema %q: this release knows %s", e.Schema, Schema)
}

// Encode a record as one line of JSON of at most MaxBytes, without a newline. Schema is set, and what does not fit is cut, as Bounded
// does. The same record gives the same bytes. The error matches ErrInvalid.
func Encode(r Record) ([]byte, error) {
	r.Schema = Schema
	r = r.Bounded()
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r.json()
}

// Decode a record that any client may have sent. The error is a *SchemaError, or matches ErrInvalid.
// Unknown fields are ignored. The record is as Bounded leaves it.
func Decode(raw []byte) (Record, error) {
	var version struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if version.Schema != Schema {
		return Record{}, &SchemaError{Schema: version.Schema}
	}
	if !utf8.Valid(raw) {
		return Record{}, fmt.Errorf("%w: it is not UTF-8", ErrInvalid)
	}
	if len(raw) > MaxBytes {
		return Record{}, fmt.Errorf("%w: %d bytes, more than %d", ErrInvalid, len(raw), MaxBytes)
	}
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r = r.Bounded()
	if err := r.validate(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// years that a time may be in: what RFC 3339 can write, and what no occurrence is before.
const (
	minYear = 2000
	maxYear = 9999
)

// validate what stores and readers rely on.
func (r Record) validate() error {
	id, err := uuid.Parse(r.ID)
	switch {
	case err != nil || id.String() != r.ID:
		return fmt.Errorf("%w: id %q is no UUID in its canonical form", ErrInvalid, r.ID)
	case r.Type == "":
		return fmt.Errorf("%w: no type", ErrInvalid)
	case r.Time.Year() < minYear || r.Time.Year() > maxYear:
		return fmt.Errorf("%w: no time between the years %d and %d", ErrInvalid, minYear, maxYear)
	case r.Cluster.UID == "":
		return fmt.Errorf("%w: no cluster.uid", ErrInvalid)
	case r.Object.Kind == "":
		return fmt.Errorf("%w: no object.kind", ErrInvalid)
	}
	return nil
}

// json of the record as it is.
func (r Record) json() ([]byte, error) {
	var b bytes.Buffer
	e := gojson.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// space of the ids of records.
var space = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://kausality.io/records"))

// ID of the record of an occurrence: a UUID of version 5. object counts by group, kind, namespace and name alone, so that
// who knows an object by its reference finds the same id, and at as microseconds in UTC. occurrence distinguishes what
// happens to one object at one time (KR-16-02).
func ID(cluster Cluster, object Object, of Type, at time.Time, occurrence ...string) string {
	name := make([]byte, 0, 256)
	add := func(s string) {
		name = append(append(name, s...), 0)
	}
	add(string(cluster.UID))
	add(object.Group())
	add(object.Kind)
	add(object.Namespace)
	add(object.Name)
	add(string(of))
	add(at.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano))
	for _, o := range occurrence {
		add(o)
	}
	return uuid.NewSHA1(space, name).String()
}
