package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Settings define how the cloud behaves. The zero value is a fast, synchronous
// cloud where nothing fails.
type Settings struct {
	// Latency of every request to a resource, in real time.
	Latency Duration `json:"latency"`

	// FailWrites is how many of the next writes fail before they have any
	// effect. It counts down; a negative number fails all writes.
	FailWrites int `json:"failWrites"`

	// FailCode is the HTTP status of failed writes. Zero means 500.
	FailCode int `json:"failCode"`

	// Async makes writes return 202 at once and finish later.
	Async bool `json:"async"`

	// AsyncDuration is how long asynchronous operations take by the cloud's
	// clock. Zero means until /_control/finish.
	AsyncDuration Duration `json:"asyncDuration"`

	// IncompleteCreation leaves created resources incomplete until they are
	// updated.
	IncompleteCreation bool `json:"incompleteCreation"`

	// DeleteDuration is how long deletion takes by the cloud's clock, whether
	// or not Async is set.
	DeleteDuration Duration `json:"deleteDuration"`
}

// validate the settings.
func (s Settings) validate() error {
	if s.Latency < 0 || s.AsyncDuration < 0 || s.DeleteDuration < 0 {
		return errors.New("durations must not be negative")
	}
	if s.FailCode != 0 && (s.FailCode < 400 || s.FailCode > 599) {
		return fmt.Errorf("failCode must be an HTTP error status, not %d", s.FailCode)
	}
	return nil
}

// A Duration is a time.Duration that is written like "1m30s" in JSON.
type Duration time.Duration

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a duration from a string.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New(`a duration is a string like "1m30s"`)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("cannot parse duration %q", s)
	}
	*d = Duration(v)
	return nil
}

// A Clock is the cloud's time.
type Clock struct {
	Now time.Time `json:"now"`
}
