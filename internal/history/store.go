package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite
)

// connections to a store at most, of those that read SQLite, and of all to PostgreSQL.
const connections = 8

// dialect is what SQLite and PostgreSQL do not share.
type dialect struct {
	name, driver string
	// key of a number that the database gives each row.
	key string
	// clustered ends a table that is stored in the order of its primary key.
	clustered string
	// lock of the schema while it is migrated; empty where a write transaction excludes all others.
	lock string
	// numbered: parameters are $1, $2 …, not ?.
	numbered bool
}

var (
	sqlite = dialect{name: "sqlite", driver: "sqlite", key: "INTEGER PRIMARY KEY AUTOINCREMENT", clustered: "WITHOUT ROWID"}
	// The number of the lock is arbitrary, and the same in all versions.
	postgres = dialect{name: "postgres", driver: "pgx", key: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		lock: "SELECT pg_advisory_xact_lock(1618033988)", numbered: true}
)

// Options of a store.
type Options struct {
	// HashKey of the hashes that replace names; without one nothing can be forgotten or exported.
	HashKey []byte
	// Now is the time; time.Now where nil.
	Now func() time.Time
}

// Store of records. It is safe for concurrent use, also by several processes.
type Store struct {
	dialect
	// read and write are the same for PostgreSQL. SQLite has one writer at a time.
	read, write *sql.DB
	key         []byte
	now         func() time.Time
}

// Open opens a store and brings its schema up to date. location is the path of an SQLite
// file, which is created, or a URL postgres://.
func Open(ctx context.Context, location string, o Options) (*Store, error) {
	s := &Store{key: o.HashKey, now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	if strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://") {
		s.dialect = postgres
		s.write, err = connect(s.dialect, location, connections)
		s.read = s.write
	} else {
		s.dialect = sqlite
		err = s.openFile(location)
	}
	if err == nil {
		err = s.migrate(ctx)
	}
	if err == nil {
		err = s.checkKey(ctx)
	}
	if err == nil {
		err = s.readKept(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the store: %w", err), s.Close())
	}
	return s, nil
}

// checkKey refuses a store in which names were forgotten without the key to forget them by in records
// that arrive later.
func (s *Store) checkKey(ctx context.Context) error {
	n := 0
	if err := s.read.QueryRowContext(ctx, "SELECT COUNT(*) FROM forgotten").Scan(&n); err != nil {
		return err
	}
	if n > 0 && !s.CanForget() {
		return ErrNoKey
	}
	return nil
}

// openFile of SQLite: one connection that writes, others that read what was committed.
// A commit is on disk before it returns: who delivered a record then drops it.
func (s *Store) openFile(path string) (err error) {
	if path == "" {
		return errors.New("no path of a file, and no URL postgres://")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-65536)&_txlock=immediate"
	if s.write, err = connect(sqlite, dsn, 1); err != nil {
		return err
	}
	s.read, err = connect(sqlite, dsn+"&_pragma=query_only(1)", connections)
	return err
}

// connect connects to a database with at most n connections.
func connect(d dialect, dsn string, n int) (*sql.DB, error) {
	db, err := sql.Open(d.driver, dsn)
	if err != nil {
		return nil, errors.New("cannot read the URL of the database") // it may contain a password
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// Close closes the store.
func (s *Store) Close() error {
	var err error
	if s.read != nil && s.read != s.write {
		err = s.read.Close()
	}
	if s.write != nil {
		err = errors.Join(err, s.write.Close())
	}
	return err
}

// Ping reports whether the store answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return s.read.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// CanForget reports whether the store has a key for the hashes of names.
func (s *Store) CanForget() bool { return len(s.key) > 0 }

// begin begins a transaction that writes.
func (s *Store) begin(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		if undone := tx.Rollback(); !errors.Is(undone, sql.ErrTxDone) { // else it was rolled back already
			err = errors.Join(err, undone)
		}
		return err
	}
	return tx.Commit()
}

// bind binds the parameters ? of a statement as the database has them. No statement contains
// a question mark otherwise.
func (d dialect) bind(statement string) string {
	if !d.numbered {
		return statement
	}
	var b strings.Builder
	n := 0
	for {
		before, after, ok := strings.Cut(statement, "?")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		n++
		fmt.Fprintf(&b, "$%d", n)
		statement = after
	}
}

// each calls f for each row of a result, which f scans, and closes the result.
func each(result *sql.Rows, f func() error) (err error) {
	defer func() { err = errors.Join(err, result.Close()) }()
	for result.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return result.Err()
}

// pairs reads a result of two columns into a map, and closes it.
func pairs[K comparable, V any](result *sql.Rows, to map[K]V) error {
	return each(result, func() error {
		var k K
		var v V
		err := result.Scan(&k, &v)
		to[k] = v
		return err
	})
}

// rows returns the rows of parameters, as in (?,?),(?,?).
func rows(n, columns int) string {
	row := "(" + strings.TrimSuffix(strings.Repeat("?,", columns), ",") + ")"
	return strings.TrimSuffix(strings.Repeat(row+",", n), ",")
}
