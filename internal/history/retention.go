package history

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/kausality-io/function-kausality/internal/history/query"
)

const (
	// DefaultRetention of records.
	DefaultRetention = 90 * 24 * time.Hour
	// deleteAtOnce bounds a transaction of Expire, so that no insert waits long.
	deleteAtOnce = 500
)

// Expire deletes one batch of the records from before a time; more is true if there may be others (KR-16-33).
func (s *Store) Expire(ctx context.Context, before time.Time) (deleted int, more bool, err error) {
	old, err := s.find(ctx, "SELECT "+columns+" FROM record WHERE at < ? ORDER BY at LIMIT ?", before.UnixMicro(), deleteAtOnce)
	if err != nil || len(old) == 0 {
		return 0, false, err
	}
	err = s.begin(ctx, func(tx *sql.Tx) error {
		for i := range old {
			if err := s.remove(ctx, tx, &old[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("cannot delete old records: %w", err)
	}
	return len(old), len(old) == deleteAtOnce, nil
}

// remove removes a record with its terms.
func (s *Store) remove(ctx context.Context, tx *sql.Tx, f *Found) error {
	if err := s.removeTerms(ctx, tx, f); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, s.bind("DELETE FROM record WHERE seq = ?"), f.Seq)
	return err
}

// removeTerms of a record.
func (s *Store) removeTerms(ctx context.Context, tx *sql.Tx, f *Found) error {
	for _, t := range terms(&f.Record) {
		if _, err := tx.ExecContext(ctx, s.bind("DELETE FROM term WHERE term = ? AND at = ? AND seq = ?"), t, f.At, f.Seq); err != nil {
			return err
		}
	}
	return nil
}

// Stats of a store.
type Stats struct {
	// Unread are records of versions that this program cannot read.
	Unread int64
	// Clusters whose records are stored, and names that several of them have.
	Clusters, SharedNames int64
	// Newest is the time at which a record was stored last; zero for none.
	Newest time.Time
}

// Stats reads what metrics show.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	out, newest := Stats{}, int64(0)
	for statement, to := range map[string]*int64{
		"SELECT COUNT(*) FROM unread":  &out.Unread,
		"SELECT COUNT(*) FROM cluster": &out.Clusters,
		"SELECT COUNT(*) FROM (SELECT name FROM cluster WHERE name <> '' GROUP BY name HAVING COUNT(*) > 1) AS shared": &out.SharedNames,
		"SELECT COALESCE(MAX(stored), 0) FROM record":                                                                  &newest,
	} {
		if err := s.read.QueryRowContext(ctx, statement).Scan(to); err != nil {
			return out, fmt.Errorf("cannot read the store's figures: %w", err)
		}
	}
	if newest > 0 {
		out.Newest = time.UnixMicro(newest).UTC()
	}
	return out, nil
}

// Clusters returns the clusters by UID, with their names.
func (s *Store) Clusters(ctx context.Context) (map[string]string, error) {
	result, err := s.read.QueryContext(ctx, "SELECT uid, name FROM cluster")
	if err != nil {
		return nil, fmt.Errorf("cannot list clusters: %w", err)
	}
	out := map[string]string{}
	return out, pairs(result, out)
}

// Page returns the page of what a request selects, without regard of who requests it.
func (s *Store) Page(ctx context.Context, r query.Request) ([]Found, error) {
	after, err := query.DecodeCursor(r.Cursor)
	if err != nil {
		return nil, err
	}
	return s.Find(ctx, r.Filter, after, r.Limit)
}
