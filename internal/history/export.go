package history

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// exportFormat is the version of the format of exports.
const exportFormat = "kausality-export/v1"

// maxLine of an export, in bytes.
const maxLine = 64 << 10

// Header is the first line of an export.
type Header struct {
	Format string `json:"format"`
	// Cluster by its UID.
	Cluster string `json:"cluster"`
	// Day in UTC, as in 2026-11-24.
	Day string `json:"day"`
	// Previous is the root of the export that this one continues; empty for the first.
	Previous string `json:"previous,omitempty"`
}

// link is a line of an export: a record, and the hash over it and all before it.
type link struct {
	Record json.RawMessage `json:"record"`
	Hash   string          `json:"hash"`
}

// Seal is the last line of an export.
type Seal struct {
	Count int `json:"count"`
	// Root is the hash of the last record, or of the header where there is none.
	Root     string    `json:"root"`
	Exported time.Time `json:"exported"`
	// Signature by Ed25519 over header and seal, in base64.
	Signature string `json:"signature"`
}

// last line of an export, so that it differs from a link.
type last struct {
	Seal *Seal `json:"seal"`
}

// signed returns what the signature of an export covers.
func signed(h Header, s Seal) []byte {
	return fmt.Appendf(nil, "%s\n%s\n%s\n%s\n%d\n%s\n%s\n", h.Format, h.Cluster, h.Day, h.Previous, s.Count, s.Root, s.Exported.UTC().Format(time.RFC3339))
}

// first hash of a chain: it binds the chain to its header.
func first(h Header) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n", h.Format, h.Cluster, h.Day, h.Previous))
	return sum[:]
}

// next hash of a chain.
func next(previous, record []byte) []byte {
	h := sha256.New()
	h.Write(previous)
	h.Write(record)
	return h.Sum(nil)
}

// day returns the day in UTC, and the one after it.
func day(s string) (from, to time.Time, err error) {
	if from, err = time.Parse(time.DateOnly, s); err != nil {
		return from, to, fmt.Errorf("%q is no day as in 2026-11-24", s)
	}
	return from, from.AddDate(0, 0, 1), nil
}

// Export exports the records of a cluster and a day, as lines of JSON: a header, each record with keyed hashes in the place of
// names and free texts and with the hash of a chain, and a signed seal (KR-16-35). previous is the root of the export that this
// one continues; empty for the first. It returns the seal.
func (s *Store) Export(ctx context.Context, w io.Writer, cluster, on, previous string, key ed25519.PrivateKey) (Seal, error) {
	if !s.CanForget() {
		return Seal{}, ErrNoKey
	}
	_, end, err := day(on)
	if err != nil {
		return Seal{}, err
	}
	if s.now().Before(end) {
		return Seal{}, fmt.Errorf("cannot export %s: the day is not over, in UTC", on)
	}
	h := Header{Format: exportFormat, Cluster: cluster, Day: on, Previous: previous}
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(h); err != nil {
		return Seal{}, fmt.Errorf("cannot write the export: %w", err)
	}
	hash, seal := first(h), Seal{}
	if err := s.ofDay(ctx, cluster, on, func(record []byte, _ *Found) error {
		seal.Count++
		hash = next(hash, record)
		return lines.Encode(link{Record: record, Hash: hex.EncodeToString(hash)})
	}); err != nil {
		return Seal{}, fmt.Errorf("cannot export %s: %w", on, err)
	}
	seal.Root, seal.Exported = hex.EncodeToString(hash), s.now().UTC().Truncate(time.Second)
	seal.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed(h, seal)))
	if err := errors.Join(lines.Encode(last{Seal: &seal}), out.Flush()); err != nil {
		return Seal{}, fmt.Errorf("cannot write the export: %w", err)
	}
	return seal, nil
}

// ofDay calls f for each record of a cluster and a day, oldest first, with its sealed form.
func (s *Store) ofDay(ctx context.Context, cluster, on string, f func(sealed []byte, r *Found) error) error {
	from, to, err := day(on)
	if err != nil {
		return err
	}
	at, seq := from.UnixMicro(), int64(-1)
	for {
		part, err := s.find(ctx, "SELECT "+columns+" FROM record WHERE cluster = ? AND (at, seq) > (?, ?) AND at < ? ORDER BY at, seq LIMIT ?",
			cluster, at, seq, to.UnixMicro(), chunk)
		if err != nil || len(part) == 0 {
			return err
		}
		for i := range part {
			record, err := sealed(s.key, part[i].Raw)
			if err != nil {
				return err
			}
			if err := f(record, &part[i]); err != nil {
				return err
			}
		}
		at, seq = part[len(part)-1].At, part[len(part)-1].Seq
	}
}

// Export is an export that was read, with an intact chain and a valid signature.
type Export struct {
	Header Header
	Seal   Seal
	// digests of the records by id.
	digests map[string][sha256.Size]byte
}

// ReadExport checks the chain of an export and its signature. The error names the first line that is wrong.
func ReadExport(r io.Reader, key ed25519.PublicKey) (*Export, error) {
	e := &Export{digests: map[string][sha256.Size]byte{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, maxLine), maxLine)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &e.Header) != nil || e.Header.Format != exportFormat {
		return nil, errors.Join(fmt.Errorf("line 1 is no header of %s", exportFormat), lines.Err())
	}
	hash := first(e.Header)
	for n := 2; lines.Scan(); n++ {
		l, end := link{}, last{}
		if json.Unmarshal(lines.Bytes(), &end) == nil && end.Seal != nil {
			e.Seal = *end.Seal
			if lines.Scan() {
				return nil, fmt.Errorf("line %d is after the seal", n+1)
			}
			return e, e.check(hash, key)
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d is no record: %w", n, err)
		}
		id, err := idOf(l.Record)
		if err != nil {
			return nil, fmt.Errorf("line %d is no record: %w", n, err)
		}
		if hash = next(hash, l.Record); hex.EncodeToString(hash) != l.Hash {
			return nil, fmt.Errorf("line %d, record %s: its hash does not continue the chain: it was changed, or a line was inserted, removed or moved before it", n, id)
		}
		if _, twice := e.digests[id]; twice {
			return nil, fmt.Errorf("line %d: record %s occurs twice", n, id)
		}
		e.digests[id] = sha256.Sum256(l.Record)
	}
	return nil, errors.Join(errors.New("the export has no seal: it is cut"), lines.Err())
}

// check checks the seal of a chain with a root.
func (e *Export) check(root []byte, key ed25519.PublicKey) error {
	signature, err := base64.StdEncoding.DecodeString(e.Seal.Signature)
	switch {
	case e.Seal.Count != len(e.digests) || e.Seal.Root != hex.EncodeToString(root):
		return fmt.Errorf("the seal is of %d records with another root: lines were changed, inserted or removed", e.Seal.Count)
	case err != nil || !ed25519.Verify(key, signed(e.Header, e.Seal), signature):
		return errors.New("the signature is not by this key, or what it covers was changed")
	}
	return nil
}

// idOf returns the id of a record.
func idOf(record []byte) (string, error) {
	r := struct {
		ID string `json:"id"`
	}{}
	err := json.Unmarshal(record, &r)
	if err == nil && r.ID == "" {
		err = errors.New("it has no id")
	}
	return r.ID, err
}

// Difference between an export and a store, by the ids of records.
type Difference struct {
	// Changed records differ. Missing ones are in the export alone, Inserted ones in the store alone: those that arrived after
	// the export are in Late.
	Changed, Missing, Inserted, Late []string
}

// None reports whether the store has what was exported, and what arrived since.
func (d Difference) None() bool { return len(d.Changed)+len(d.Missing)+len(d.Inserted) == 0 }

// Verify verifies the records of an export's cluster and day in the store (KR-16-35).
func (s *Store) Verify(ctx context.Context, e *Export) (Difference, error) {
	out := Difference{}
	if !s.CanForget() {
		return out, ErrNoKey
	}
	left := make(map[string]bool, len(e.digests))
	for id := range e.digests {
		left[id] = true
	}
	err := s.ofDay(ctx, e.Header.Cluster, e.Header.Day, func(record []byte, f *Found) error {
		id := f.Record.ID
		digest, ok := e.digests[id]
		sum := sha256.Sum256(record)
		switch {
		case ok && !bytes.Equal(sum[:], digest[:]):
			out.Changed = append(out.Changed, id)
		case !ok && f.Stored > e.Seal.Exported.UnixMicro():
			out.Late = append(out.Late, id)
		case !ok:
			out.Inserted = append(out.Inserted, id)
		}
		delete(left, id)
		return nil
	})
	out.Missing = slices.AppendSeq(out.Missing, maps.Keys(left))
	slices.Sort(out.Missing)
	return out, err
}
