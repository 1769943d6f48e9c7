package spool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// cursors is the directory of what readers have read.
const cursors = "cursors"

// position that is stored: the number of the next record.
type position struct {
	Next uint64 `json:"next"`
}

// A Reader reads a spool at its own pace. One goroutine at a time may use it.
type Reader struct {
	spool *Spool
	name  string
	// at is the number of the next record to acknowledge; Spool.mu guards it.
	at uint64
	// known is where a record begins; the zero place is unknown.
	known place
}

// A place in a segment: a record's number, and its offset in the file.
type place struct {
	path   string
	at     uint64
	offset int64
}

// Reader returns the reader of a name; nil for none of Options.Readers. It goes on after what it has acknowledged before, also by an earlier
// process; the first time it begins with the oldest record. A cursor that cannot be read is one that never was: records are read again.
func (s *Spool) Reader(name string) *Reader { return s.readers[name] }

// addReader while the spool is opened.
func (s *Spool) addReader(name string) error {
	if name == "" || name != filepath.Base(name) || name[0] == '.' {
		return fmt.Errorf("%q is no name of a reader: it is no file name", name)
	}
	if s.readers[name] != nil {
		return fmt.Errorf("two readers have the name %q", name)
	}
	p, ok := load(filepath.Join(s.Dir, cursors, name))
	r := &Reader{spool: s, name: name, at: p.Next}
	first, next := s.next(), s.next()
	if len(s.segments) > 0 {
		first = s.segments[0].first
	}
	if r.at < first && ok {
		s.Lost(name, first-r.at, LossFull) // while it was not read
	}
	if r.at < first || r.at > next { // the latter is of another spool in the same place
		r.at = first
	}
	s.readers[name] = r
	return nil
}

// Batch of records in their order.
type Batch struct {
	Records [][]byte
	// next is the number of the record after the last one, and after where that begins.
	next  uint64
	after place
}

// Next batch of at most n records. It waits until there is one, and returns the same records until they are acknowledged. The error is
// that of the context, ErrClosed, or one of reading the disk.
func (r *Reader) Next(ctx context.Context, n int) (Batch, error) {
	for {
		b, more, err := r.try(n)
		if err != nil || len(b.Records) > 0 {
			return b, err
		}
		select {
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		case <-more:
		}
	}
}

// try to read a batch; more is closed when there may be one.
func (r *Reader) try(n int) (Batch, <-chan struct{}, error) {
	s := r.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Batch{}, nil, ErrClosed
	}
	for i, seg := range s.segments {
		end := s.endOf(i)
		if r.at >= end {
			continue
		}
		records, after, err := read(seg, r.at, int(min(uint64(n), end-r.at)), r.known)
		if err != nil {
			return Batch{}, nil, fmt.Errorf("cannot read records: %w", err)
		}
		if len(records) > 0 {
			return Batch{records, after.at, after}, nil, nil
		}
		s.Lost(r.name, end-r.at, LossDamaged)
		r.at = end
	}
	return Batch{}, s.more, nil
}

// read reads at most n records of a segment from a number on; fewer where it ends or is damaged. known is a place to begin at, if it
// is not beyond that number.
func read(seg segment, from uint64, n int, known place) (out [][]byte, after place, err error) {
	f, err := os.Open(seg.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, after, nil // removed by another program: damaged
	}
	if err != nil {
		return nil, after, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	after = place{seg.path, seg.first, int64(len(magic))}
	if known.path == seg.path && known.at <= from {
		after = known
	} else if !isSegment(f) {
		return nil, after, nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, after.offset, seg.size-after.offset), 1<<16)
	for len(out) < n {
		record, err := readFrame(r)
		if errors.Is(err, errDamaged) || errors.Is(err, io.EOF) {
			return out, after, nil
		}
		if err != nil {
			return nil, after, err
		}
		if after.at >= from {
			out = append(out, record)
		}
		after.at++
		after.offset += int64(header + len(record))
	}
	return out, after, nil
}

// Ack a batch: it is not read again, also by a later process.
func (r *Reader) Ack(b Batch) error {
	s := r.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if b.next > r.at { // else the spool was full and has lost them
		r.at, r.known = b.next, b.after
	}
	s.dropRead()
	return store(filepath.Join(s.Dir, cursors, r.name), position{r.at})
}

// Pending returns how many records the reader has not acknowledged.
func (r *Reader) Pending() uint64 {
	s := r.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.next(), r.at) - r.at
}

// beginFile has the number of the next record of a spool without segments.
func (s *Spool) beginFile() string { return filepath.Join(s.Dir, cursors, ".begin") }

// load loads a position; false where there is none that can be read.
func load(path string) (position, bool) {
	var p position
	raw, err := os.ReadFile(path) //nolint:gosec // In a directory that a flag names.
	if err != nil || json.Unmarshal(raw, &p) != nil {
		return position{}, false
	}
	return p, true
}

// store stores a position. A reader finds the old one or the new one, whenever the process ends.
func store(path string, p position) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("cannot encode a cursor: %w", err)
	}
	if err = os.WriteFile(path+".new", raw, 0o600); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("cannot store a cursor: %w", err)
	}
	return nil
}
