package history

import (
	"fmt"
	"testing"
)

// Limit the file of a store to some pages, as a full disk does: SQLite then returns the same error, SQLITE_FULL.
func Limit(t *testing.T, s *Store, pages int) {
	t.Helper()
	if _, err := s.write.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
		t.Fatal(err)
	}
}
