package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNoKey is returned where names have to be hashed and the store has no key.
var ErrNoKey = errors.New("the store has no key for the hashes of names: give --hash-key-file")

// Forget forgets a person's name: in the records up to now, each text that contains it is replaced by a
// keyed hash, also in those that arrive later. The same name has the same hash, so that what the
// person did stays linked, and hashes of exports stay valid (KR-16-34). It returns how many records it changed.
func (s *Store) Forget(ctx context.Context, name string) (changed int, err error) {
	switch {
	case !s.CanForget():
		return 0, ErrNoKey
	case name == "" || strings.HasPrefix(name, hashed):
		return 0, fmt.Errorf("cannot forget %q: it is no name of a user", name)
	}
	until := s.now()
	if err := s.begin(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.bind("INSERT INTO forgotten (hash, until) VALUES (?, ?) ON CONFLICT (hash) DO UPDATE SET until = EXCLUDED.until"),
			hash(s.key, name), until.UnixMicro())
		return err
	}); err != nil {
		return 0, fmt.Errorf("cannot forget a name: %w", err)
	}
	for after := int64(-1); ; {
		// All records, since the name may be in any text. A JSON string may spell it with escapes: it is compared decoded.
		part, err := s.find(ctx, "SELECT "+columns+" FROM record WHERE seq > ? ORDER BY seq LIMIT ?", after, chunk)
		if err != nil || len(part) == 0 {
			return changed, err
		}
		n, err := s.forgetIn(ctx, part, name, until)
		if err != nil {
			return changed, fmt.Errorf("cannot forget a name: %w", err)
		}
		changed, after = changed+n, part[len(part)-1].Seq
	}
}

// forgetIn a part of the records, in one transaction.
func (s *Store) forgetIn(ctx context.Context, part []Found, name string, until time.Time) (changed int, err error) {
	err = s.begin(ctx, func(tx *sql.Tx) error {
		changed = 0
		for i := range part {
			f := &part[i]
			if f.Record.Time.After(until) {
				continue
			}
			raw, differs, err := without(s.key, f.Raw, name)
			if err == nil && differs {
				changed++
				err = s.replace(ctx, tx, f, raw)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return changed, err
}

// replace replaces the bytes and terms of a record.
func (s *Store) replace(ctx context.Context, tx *sql.Tx, f *Found, raw []byte) error {
	r, err := decodeStored(raw)
	if err != nil {
		return err
	}
	if err := s.removeTerms(ctx, tx, f); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, s.bind("UPDATE record SET raw = ? WHERE seq = ?"), string(raw), f.Seq); err != nil {
		return err
	}
	return s.insertTerms(ctx, tx, []entry{{record: r, raw: raw}}, map[string]int64{r.ID: f.Seq})
}

// forgetNew replaces forgotten names in records that arrive after the name was forgotten, and are from before.
func (s *Store) forgetNew(ctx context.Context, tx *sql.Tx, entries []entry) error {
	if !s.CanForget() {
		return nil
	}
	result, err := tx.QueryContext(ctx, "SELECT hash, until FROM forgotten")
	if err != nil {
		return err
	}
	until := map[string]int64{}
	if err := pairs(result, until); err != nil || len(until) == 0 {
		return err
	}
	for i := range entries {
		if err := s.forgetEntry(&entries[i], until); err != nil {
			return err
		}
	}
	return nil
}

// forgetEntry replaces each text of a record with a word that is a forgotten name. Only hashes of
// names are known: each word is hashed.
func (s *Store) forgetEntry(e *entry, until map[string]int64) error {
	fields, err := decodeRaw(e.raw)
	if err != nil {
		return err
	}
	changed := false
	personal(fields, func(text string) string {
		for _, word := range append(strings.Fields(text), text) {
			for _, w := range []string{word, strings.Trim(word, `.,;:!?()[]{}<>"'`)} {
				if at, ok := until[hash(s.key, w)]; ok && e.record.Time.UnixMicro() <= at {
					changed = true
					return hash(s.key, text)
				}
			}
		}
		return text
	})
	if !changed {
		return nil
	}
	if e.raw, err = encodeRaw(fields); err == nil {
		e.record, err = decodeStored(e.raw)
	}
	return err
}
