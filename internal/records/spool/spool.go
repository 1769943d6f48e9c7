package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

const (
	// MinBytes is the size of a spool at least.
	MinBytes = 1 << 20
	// segments that a full spool has at least: one of them is what is lost at once.
	segments = 16
	// maxSegment is the size of a segment at most, in bytes.
	maxSegment = 16 << 20
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the spool is closed")

// Options of a Spool.
type Options struct {
	// Dir is created where it does not exist. It belongs to the spool alone.
	Dir string
	// Readers by their names, which are parts of file names: what all of them have read is removed. Without any it is
	// kept until the spool is full.
	Readers []string
	// MaxBytes of all segments; at least MinBytes.
	MaxBytes int64
	// Lost is called with the number of records that a reader will never read, and why; nil for nothing. reader is empty
	// where there are none. It must not call the spool.
	Lost func(reader string, records uint64, why Loss)
}

// Loss is why records are lost.
type Loss string

const (
	// LossFull: the spool is full and the reader has not read its oldest records.
	LossFull Loss = "SpoolFull"
	// LossDamaged: the records are damaged on disk.
	LossDamaged Loss = "Damaged"
)

// A Spool of records. It is safe for concurrent use.
type Spool struct {
	Options
	lock *os.File

	mu       sync.Mutex
	segments []segment // by their numbers; the last one is written
	file     *os.File  // of the last segment; nil before the next Append creates one
	readers  map[string]*Reader
	more     chan struct{} // closed with each Append
	closed   bool
}

// Open opens a spool, and repairs what a crash has left.
func Open(o Options) (*Spool, error) {
	if o.MaxBytes < MinBytes {
		return nil, fmt.Errorf("cannot open a spool of %d bytes: it needs at least %d", o.MaxBytes, MinBytes)
	}
	if o.Lost == nil {
		o.Lost = func(string, uint64, Loss) {}
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, cursors), 0o700); err != nil {
		return nil, fmt.Errorf("cannot open the spool: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the spool: %w", err)
	}
	s := &Spool{Options: o, lock: lock, readers: map[string]*Reader{}, more: make(chan struct{})}
	err = s.recover()
	for _, name := range o.Readers {
		if err == nil {
			err = s.addReader(name)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the spool: %w", err), lock.Close())
	}
	return s, nil
}

// recover recovers the segments of a directory. The last one is cut off where it is torn. It is not written any more:
// the next Append begins another one.
func (s *Spool) recover() error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	var firsts []uint64
	for _, e := range entries {
		if first, ok := firstOf(e.Name()); ok {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	for i, first := range firsts {
		seg, damaged, err := scan(fileOf(s.Dir, first), first)
		if err != nil {
			return err
		}
		last := i == len(firsts)-1
		if last && seg.end == seg.first { // created and not written: the next one has its number, and so its name
			if err := os.Remove(seg.path); err != nil {
				return err
			}
			continue
		}
		if damaged && last {
			if err := os.Truncate(seg.path, seg.size); err != nil {
				return err
			}
		}
		s.segments = append(s.segments, seg)
	}
	return nil
}

// next returns the number of the next record; the caller holds the lock.
func (s *Spool) next() uint64 {
	if len(s.segments) == 0 {
		return s.begin()
	}
	return s.segments[len(s.segments)-1].end
}

// begin returns the number of the next record of a spool without segments: what readers have read is not numbered again.
func (s *Spool) begin() uint64 {
	var n uint64
	for _, r := range s.readers {
		n = max(n, r.at)
	}
	p, _ := load(s.beginFile())
	return max(n, p.Next)
}

// Append records in their order. When it returns nil all of them are on disk; on an error none of them is, and the
// same may be appended again (KR-16-04). Records of more than MaxRecord bytes are an error.
func (s *Spool) Append(records ...[]byte) error {
	if len(records) == 0 {
		return nil
	}
	var b []byte
	for _, r := range records {
		if len(r) > MaxRecord {
			return fmt.Errorf("cannot spool a record of %d bytes: %d is the most", len(r), MaxRecord)
		}
		b = frame(b, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.room(int64(len(b))); err != nil {
		return err
	}
	if err := s.write(b); err != nil {
		return err
	}
	last := &s.segments[len(s.segments)-1]
	last.size += int64(len(b))
	last.end += uint64(len(records))
	close(s.more)
	s.more = make(chan struct{})
	return nil
}

// room for n bytes: a segment that is open, and no more bytes than there may be. The caller holds the lock.
func (s *Spool) room(n int64) error {
	if s.file != nil && s.segments[len(s.segments)-1].size >= s.segmentBytes() {
		err := s.file.Close()
		if s.file = nil; err != nil {
			return fmt.Errorf("cannot close a segment: %w", err)
		}
	}
	s.dropRead()
	for s.bytes()+n > s.MaxBytes && len(s.segments) > 0 {
		if len(s.segments) == 1 && s.file != nil { // a batch that fills the spool alone
			_ = s.file.Close() // it is removed
			s.file = nil
		}
		if err := s.dropOldest(); err != nil {
			return err
		}
	}
	if s.file != nil {
		return nil
	}
	return s.create()
}

// segmentBytes from which on another segment begins.
func (s *Spool) segmentBytes() int64 { return min(s.MaxBytes/segments, maxSegment) }

// create creates the next segment.
func (s *Spool) create() error {
	first := s.next()
	path := fileOf(s.Dir, first)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // In a directory that a flag names.
	if err != nil {
		return fmt.Errorf("cannot create a segment: %w", err)
	}
	if _, err = f.WriteString(magic); err == nil {
		err = syncDir(s.Dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot create a segment: %w", err), f.Close(), os.Remove(path))
	}
	s.file = f
	s.segments = append(s.segments, segment{path: path, first: first, end: first, size: int64(len(magic))})
	return nil
}

// write writes bytes and waits until they are on disk. After an error the segment ends where it was whole and another one
// begins: what a failed fsync left in memory is not known to be written by the next one.
func (s *Spool) write(b []byte) error {
	last := s.segments[len(s.segments)-1]
	_, err := s.file.Write(b)
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		return nil
	}
	err = errors.Join(fmt.Errorf("cannot write records: %w", err), s.file.Truncate(last.size), s.file.Close())
	s.file = nil
	if last.end == last.first { // the next one has its number
		s.segments = s.segments[:len(s.segments)-1]
		err = errors.Join(err, os.Remove(last.path))
	}
	return err
}

// bytes returns the bytes of all segments.
func (s *Spool) bytes() int64 {
	var n int64
	for _, seg := range s.segments {
		n += seg.size
	}
	return n
}

// dropRead segments that every reader has read. Without a reader they are kept.
func (s *Spool) dropRead() {
	if len(s.readers) == 0 {
		return
	}
	for len(s.segments) > 0 && !(len(s.segments) == 1 && s.file != nil) {
		end := s.endOf(0)
		for _, r := range s.readers {
			if r.at < end {
				return
			}
		}
		if err := s.remove(); err != nil {
			return // it is tried with the next Append, and counts as full until then
		}
	}
}

// dropOldest segment, with what readers have not read of it (KR-16-05).
func (s *Spool) dropOldest() error {
	seg, end := s.segments[0], s.endOf(0)
	if err := s.remove(); err != nil {
		return err
	}
	if len(s.readers) == 0 && end > seg.first {
		s.Lost("", end-seg.first, LossFull)
	}
	for name, r := range s.readers {
		if r.at < end {
			s.Lost(name, end-max(r.at, seg.first), LossFull)
			r.at = end
		}
	}
	return nil
}

// endOf returns the end of a segment: where the next one begins, also where it is damaged in between.
func (s *Spool) endOf(i int) uint64 {
	if i+1 < len(s.segments) {
		return s.segments[i+1].first
	}
	return s.segments[i].end
}

// remove removes the oldest segment.
func (s *Spool) remove() error {
	if len(s.segments) == 1 { // the number of the next record is stored before the last segment goes
		if err := store(s.beginFile(), position{s.endOf(0)}); err != nil {
			return err
		}
	}
	if err := os.Remove(s.segments[0].path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove a segment: %w", err)
	}
	s.segments = slices.Delete(s.segments, 0, 1)
	return nil
}

// Bytes returns the bytes that the segments have on disk.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes()
}

// Close closes the spool; its readers end.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.more)
	if s.file == nil {
		return s.lock.Close()
	}
	err := errors.Join(s.file.Close(), s.lock.Close())
	s.file = nil
	return err
}

// syncDir waits until the entries of a directory are on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // In a directory that a flag names.
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
