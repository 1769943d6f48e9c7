package history

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/storetest"
	"github.com/kausality-io/function-kausality/test/controlplane/postgres"
)

// server of PostgreSQL for a test, which is skipped where the machine has none.
func server(t *testing.T) *postgres.Server {
	t.Helper()
	s, err := postgres.Start(t.Context())
	if errors.Is(err, postgres.ErrNone) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestPostgreSQL: the store does in PostgreSQL what it does in SQLite: each record once (KR-16-30), found by what it
// has (KR-16-31), its graph (KR-16-32), retention (KR-16-33), forgotten names (KR-16-34), exports (KR-16-35), later
// schemas (KR-16-38), one sender for each cluster (KR-16-39), and refusals (KR-16-41).
func TestPostgreSQL(t *testing.T) {
	s := server(t)
	storetest.Run(t, func(t *testing.T) *history.Store {
		url, err := s.Database(t.Context())
		require.NoError(t, err)
		store, err := history.Open(t.Context(), url, storetest.Options())
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return store
	})
}

// TestSchemaAtOnce: of several processes that open an empty store at once one creates its schema, and all use it (KR-16-37).
func TestSchemaAtOnce(t *testing.T) {
	url, err := server(t).Database(t.Context())
	require.NoError(t, err)
	results := make(chan error, 4)
	for range cap(results) {
		go func() {
			s, err := history.Open(t.Context(), url, storetest.Options())
			if err == nil {
				err = s.Close()
			}
			results <- err
		}()
	}
	for range cap(results) {
		require.NoError(t, <-results)
	}
}
