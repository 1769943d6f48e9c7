package history

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history/query"
)

// Limits of what is stored.
const (
	// MaxBatch of records that Insert takes at once.
	MaxBatch = 2000
	// Future is how far ahead of the store's clock the time of a record may be.
	Future = 24 * time.Hour
	// MaxKept bounds a record that cannot be read yet, in bytes.
	MaxKept = 16 << 10
	// chunk of rows in one statement. SQLite has at most 32766 parameters.
	chunk = 500
)

// Reasons for which a record is refused for good.
const (
	ReasonInvalid     = "Invalid"
	ReasonFuture      = "Future"
	ReasonOtherSender = "OtherSender"
)

// Delivery is one record as it arrived.
type Delivery struct {
	// Raw is the record as JSON.
	Raw []byte
	// ID by which the transport knows it, for a record that cannot be read.
	ID string
	// Cluster is the UID of the only cluster that this record may be of; empty where the sender alone decides.
	Cluster string
}

// Insert inserts a batch that one sender delivered, in one transaction. sender is the name of its credential; records
// of one cluster come from one (KR-16-39). When it returns without an error, the records are durable,
// but those that the receipt refuses. A record that the store has is not stored again (KR-16-30). After an
// error, as of a full disk, none is stored (KR-16-42).
func (s *Store) Insert(ctx context.Context, sender string, batch []Delivery) (query.Receipt, error) {
	if len(batch) > MaxBatch {
		return query.Receipt{}, fmt.Errorf("cannot store %d records at once, at most %d", len(batch), MaxBatch)
	}
	receipt := query.Receipt{}
	entries, kept := s.sort(sender, batch, &receipt)
	if len(entries) == 0 && len(kept) == 0 {
		return receipt, nil
	}
	attempt := receipt
	err := s.begin(ctx, func(tx *sql.Tx) error {
		attempt = receipt
		attempt.Refused = slices.Clone(receipt.Refused)
		if err := s.keep(ctx, tx, sender, kept, &attempt); err != nil {
			return err
		}
		return s.store(ctx, tx, entries, &attempt)
	})
	if err != nil {
		return query.Receipt{}, fmt.Errorf("cannot store records: %w", err)
	}
	return attempt, nil
}

// sort sorts a batch into records to store, those to keep for a later program, and those that are refused.
func (s *Store) sort(sender string, batch []Delivery, receipt *query.Receipt) (entries []entry, kept []Delivery) {
	limit := s.now().Add(Future)
	refuse := func(id, reason, message string) {
		receipt.Refused = append(receipt.Refused, query.Refusal{ID: id, Reason: reason, Message: message})
	}
	for _, d := range batch {
		r, err := records.Decode(d.Raw)
		later := &records.SchemaError{}
		switch {
		case errors.As(err, &later) && later.Schema != "" && d.ID != "" && len(d.ID) <= 128 && storable(d) && len(d.Raw) <= MaxKept && json.Valid(d.Raw):
			kept = append(kept, d)
		case err != nil:
			refuse(d.ID, ReasonInvalid, err.Error())
		case d.Cluster != "" && d.Cluster != string(r.Cluster.UID):
			refuse(r.ID, ReasonOtherSender, fmt.Sprintf("it came as a record of cluster %s, and is of %s", d.Cluster, r.Cluster.UID))
		case r.Time.After(limit):
			refuse(r.ID, ReasonFuture, fmt.Sprintf("its time, %s, is more than %s ahead of the store's clock", r.Time.UTC().Format(time.RFC3339), Future))
		default:
			entries = append(entries, entry{record: r, raw: d.Raw, sender: sender})
		}
	}
	// In one order, so that two transactions with the same records do not wait for each other, and each id once.
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.record.ID, b.record.ID) })
	n := len(entries)
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.record.ID == b.record.ID })
	receipt.Known += n - len(entries)
	return entries, kept
}

// storable reports whether a record that cannot be read is text for any database.
func storable(d Delivery) bool {
	return utf8.Valid(d.Raw) && !bytes.Contains(d.Raw, []byte{0}) && utf8.ValidString(d.ID) && !strings.Contains(d.ID, "\x00")
}

// keep records that cannot be read yet (KR-16-38).
func (s *Store) keep(ctx context.Context, tx *sql.Tx, sender string, kept []Delivery, receipt *query.Receipt) error {
	for _, d := range kept {
		if _, err := tx.ExecContext(ctx, s.bind("INSERT INTO unread (id, stored, sender, raw) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"),
			d.ID, s.now().UnixMicro(), sender, string(d.Raw)); err != nil {
			return err
		}
		receipt.Kept++
	}
	return nil
}

// readKept stores what an earlier program could not read, as far as this one can.
func (s *Store) readKept(ctx context.Context) error {
	return s.begin(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id, sender, raw FROM unread ORDER BY id")
		if err != nil {
			return err
		}
		var entries []entry
		receipt := query.Receipt{}
		if err := each(rows, func() error {
			d, sender := Delivery{}, ""
			err := rows.Scan(&d.ID, &sender, &d.Raw)
			if err == nil {
				read, _ := s.sort(sender, []Delivery{d}, &receipt)
				entries = append(entries, read...)
			}
			return err
		}); err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := tx.ExecContext(ctx, s.bind("DELETE FROM unread WHERE id = ?"), e.record.ID); err != nil {
				return err
			}
		}
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.record.ID, b.record.ID) })
		return s.store(ctx, tx, entries, &receipt)
	})
}

// store stores entries, sorted by id, each id once.
func (s *Store) store(ctx context.Context, tx *sql.Tx, entries []entry, receipt *query.Receipt) error {
	entries, err := s.ofSender(ctx, tx, entries, receipt)
	if err != nil {
		return err
	}
	if err := s.forgetNew(ctx, tx, entries); err != nil {
		return err
	}
	for part := range slices.Chunk(entries, chunk) {
		numbers, err := s.insertRecords(ctx, tx, part)
		if err != nil {
			return err
		}
		receipt.Stored += len(numbers)
		receipt.Known += len(part) - len(numbers)
		if err := s.insertTerms(ctx, tx, part, numbers); err != nil {
			return err
		}
	}
	return nil
}

// ofSender returns the entries of clusters whose records come from their sender, and of new clusters.
func (s *Store) ofSender(ctx context.Context, tx *sql.Tx, entries []entry, receipt *query.Receipt) ([]entry, error) {
	owners := map[string]string{}
	out := make([]entry, 0, len(entries))
	for _, e := range entries {
		uid := string(e.record.Cluster.UID)
		if _, ok := owners[uid]; !ok {
			owner, err := s.owner(ctx, tx, e)
			if err != nil {
				return nil, err
			}
			owners[uid] = owner
		}
		if owners[uid] != e.sender {
			receipt.Refused = append(receipt.Refused, query.Refusal{ID: e.record.ID, Reason: ReasonOtherSender,
				Message: "the records of cluster " + uid + " come with another credential"})
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

// owner returns the sender of a cluster's records: the first one.
func (s *Store) owner(ctx context.Context, tx *sql.Tx, e entry) (owner string, err error) {
	name := ""
	row := tx.QueryRowContext(ctx, s.bind("SELECT sender, name FROM cluster WHERE uid = ?"), e.record.Cluster.UID)
	switch err = row.Scan(&owner, &name); {
	case errors.Is(err, sql.ErrNoRows):
		_, err = tx.ExecContext(ctx, s.bind("INSERT INTO cluster (uid, name, sender) VALUES (?, ?, ?) ON CONFLICT (uid) DO NOTHING"),
			e.record.Cluster.UID, e.record.Cluster.Name, e.sender)
		return e.sender, err
	case err == nil && owner == e.sender && name != e.record.Cluster.Name:
		_, err = tx.ExecContext(ctx, s.bind("UPDATE cluster SET name = ? WHERE uid = ?"), e.record.Cluster.Name, e.record.Cluster.UID)
	}
	return owner, err
}

// insertRecords that the store has not, and return their numbers by id.
func (s *Store) insertRecords(ctx context.Context, tx *sql.Tx, part []entry) (map[string]int64, error) {
	const columns = 8
	args, stored := make([]any, 0, len(part)*columns), s.now().UnixMicro()
	for _, e := range part {
		r := &e.record
		args = append(args, r.ID, r.Time.UnixMicro(), stored, string(r.Cluster.UID), string(r.Type), kindOf(&r.Object), r.Object.Namespace, string(e.raw))
	}
	inserted, err := tx.QueryContext(ctx, s.bind("INSERT INTO record (id, at, stored, cluster, type, kind, namespace, raw) VALUES "+
		rows(len(part), columns)+" ON CONFLICT (id) DO NOTHING RETURNING id, seq"), args...)
	if err != nil {
		return nil, err
	}
	numbers := make(map[string]int64, len(part))
	return numbers, pairs(inserted, numbers)
}

// insertTerms of the records that have a number.
func (s *Store) insertTerms(ctx context.Context, tx *sql.Tx, part []entry, numbers map[string]int64) error {
	const columns = 3
	args := make([]any, 0, chunk*columns*2)
	for _, e := range part {
		seq, ok := numbers[e.record.ID]
		if !ok {
			continue
		}
		for _, t := range terms(&e.record) {
			args = append(args, t, e.record.Time.UnixMicro(), seq)
		}
	}
	for a := range slices.Chunk(args, 2*chunk*columns) {
		if _, err := tx.ExecContext(ctx, s.bind("INSERT INTO term (term, at, seq) VALUES "+rows(len(a)/columns, columns)), a...); err != nil {
			return err
		}
	}
	return nil
}
