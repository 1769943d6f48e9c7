package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// maxAside is the size of a file of records that were set aside, in bytes. There are two of each sink: the older one is
// replaced when the newer one is full.
const maxAside = 4 << 20

// Aside is the file of records that a sink will never accept: JSON lines with record, reason and time. One goroutine at a time uses it.
type Aside struct {
	path  string
	limit int64
}

// NewAside in a directory, for the sink of a name.
func NewAside(dir, name string) (*Aside, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the directory of records that are set aside: %w", err)
	}
	return &Aside{path: filepath.Join(dir, name+".jsonl"), limit: maxAside}, nil
}

// Path returns the path of the file.
func (a *Aside) Path() string { return a.path }

// Add adds a record, with why.
func (a *Aside) Add(record []byte, why error) error {
	line := struct {
		At     time.Time `json:"at"`
		Error  string    `json:"error"`
		Record any       `json:"record"`
	}{At: time.Now().UTC(), Error: why.Error(), Record: string(record)}
	if json.Valid(record) {
		line.Record = json.RawMessage(record)
	}
	raw, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("cannot encode a record: %w", err)
	}
	if info, err := os.Stat(a.path); err == nil && info.Size()+int64(len(raw)) > a.limit {
		if err := os.Rename(a.path, a.path+".old"); err != nil {
			return fmt.Errorf("cannot set a record aside: %w", err)
		}
	}
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.Write(append(raw, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot set a record aside: %w", err)
	}
	return nil
}
