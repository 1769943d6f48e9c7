package history_test

import (
	"bytes"
	"crypto/ed25519"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/internal/history/storetest"
)

// open a store in a file.
func open(t *testing.T, file string) *history.Store {
	t.Helper()
	s, err := history.Open(t.Context(), file, storetest.Options())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// exec a statement on the file of a store.
func exec(t *testing.T, file, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// TestSQLite: each record once (KR-16-30), found by what it has (KR-16-31), its graph (KR-16-32), retention
// (KR-16-33), forgotten names (KR-16-34), exports (KR-16-35), one sender for each cluster (KR-16-39), and refusals (KR-16-41).
func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *history.Store { return open(t, filepath.Join(t.TempDir(), "sub", "history.db")) })
}

// TestReopen: a store that is opened again has its records, and migrates nothing.
func TestReopen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "with space?.db")
	s := open(t, file)
	_, err := s.Insert(t.Context(), "prod", storetest.Deliveries(t, storetest.Record(1, nil)))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	list, err := open(t, file).Find(t.Context(), query.Filter{}, nil, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// TestLaterSchemaOfStore: a store that a later program wrote is refused (KR-16-37).
func TestLaterSchemaOfStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	require.NoError(t, open(t, file).Close())
	exec(t, file, "INSERT INTO schema_version (version) VALUES (99)")
	_, err := history.Open(t.Context(), file, storetest.Options())
	require.ErrorContains(t, err, "version 99")
}

// TestKeptIsRead: a record that an earlier program could not read is stored by the first that can (KR-16-38).
func TestKeptIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	require.NoError(t, open(t, file).Close())
	d := storetest.Deliveries(t, storetest.Record(1, nil))[0]
	exec(t, file, "INSERT INTO unread (id, stored, sender, raw) VALUES (?, 1, 'prod', ?), ('later', 1, 'prod', '{\"schema\":\"v9\"}')", d.ID, string(d.Raw))
	s := open(t, file)
	got, err := s.Get(t.Context(), d.ID)
	require.NoError(t, err)
	require.NotNil(t, got)
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), stats.Unread)
}

// TestFullDisk: where the disk is full, nothing of a batch is stored and the error is returned; once there is
// room, the same batch is stored (KR-16-42).
func TestFullDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	s := open(t, file)
	history.Limit(t, s, 40)
	stored, full := 0, false
	for n := 0; n < 100 && !full; n++ {
		_, err := s.Insert(t.Context(), "prod", storetest.Deliveries(t, storetest.Record(3*n, nil), storetest.Record(3*n+1, nil), storetest.Record(3*n+2, nil)))
		if full = err != nil; !full {
			stored += 3
		}
	}
	require.True(t, full)
	list, err := s.Find(t.Context(), query.Filter{}, nil, 1000)
	require.NoError(t, err)
	require.Len(t, list, stored, "what was acknowledged is stored, and nothing else")
	history.Limit(t, s, 100_000)
	r, err := s.Insert(t.Context(), "prod", storetest.Deliveries(t, storetest.Record(stored, nil), storetest.Record(stored+1, nil)))
	require.NoError(t, err)
	require.Equal(t, 2, r.Stored)
}

// TestVerify: a record that was changed, deleted or inserted in the store is found (KR-16-35).
func TestVerify(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	s := open(t, file)
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	var all []history.Delivery
	for n := range 5 {
		all = append(all, storetest.Deliveries(t, storetest.Record(n-86400, nil))...)
	}
	_, err = s.Insert(t.Context(), "prod", all[:4])
	require.NoError(t, err)
	var b bytes.Buffer
	_, err = s.Export(t.Context(), &b, "cluster-1", "2026-11-23", "", private)
	require.NoError(t, err)
	e, err := history.ReadExport(&b, private.Public().(ed25519.PublicKey))
	require.NoError(t, err)
	_, err = s.Insert(t.Context(), "prod", all[4:])
	require.NoError(t, err)
	exec(t, file, "UPDATE record SET raw = replace(raw, 'anna', 'eve') WHERE id = ?", all[0].ID)
	exec(t, file, "DELETE FROM record WHERE id = ?", all[1].ID)
	d, err := s.Verify(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, history.Difference{Changed: []string{all[0].ID}, Missing: []string{all[1].ID}, Inserted: []string{all[4].ID}}, d)
	exec(t, file, "UPDATE record SET stored = stored + 10000000 WHERE id = ?", all[4].ID)
	d, err = s.Verify(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, []string{all[4].ID}, d.Late)
}

// TestNoKey: without a key nothing is forgotten or exported, and a store in which names were forgotten is not opened.
func TestNoKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	s, err := history.Open(t.Context(), file, history.Options{})
	require.NoError(t, err)
	_, err = s.Forget(t.Context(), "anna")
	require.ErrorIs(t, err, history.ErrNoKey)
	require.NoError(t, s.Close())
	_, err = open(t, file).Forget(t.Context(), "anna")
	require.NoError(t, err)
	_, err = history.Open(t.Context(), file, history.Options{})
	require.ErrorIs(t, err, history.ErrNoKey)
}
