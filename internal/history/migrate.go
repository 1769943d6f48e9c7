package history

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate migrates the schema, in one transaction. Of several processes that start at once one
// does it. A schema that a newer program wrote is refused: this one would not
// write what that one relies on (KR-16-37).
func (s *Store) migrate(ctx context.Context) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	return s.begin(ctx, func(tx *sql.Tx) error {
		if s.lock != "" {
			if _, err := tx.ExecContext(ctx, s.lock); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)"); err != nil {
			return err
		}
		have := 0
		if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM schema_version").Scan(&have); err != nil {
			return err
		}
		if have > len(files) {
			return fmt.Errorf("its schema is version %d, and this program knows %d: run the program that wrote it, or a newer one", have, len(files))
		}
		for n := have; n < len(files); n++ {
			if err := s.apply(ctx, tx, "migrations/"+files[n].Name(), n+1); err != nil {
				return fmt.Errorf("cannot migrate its schema to version %d: %w", n+1, err)
			}
		}
		return nil
	})
}

// apply applies one migration.
func (s *Store) apply(ctx context.Context, tx *sql.Tx, file string, version int) error {
	raw, err := migrations.ReadFile(file)
	if err != nil {
		return err
	}
	text := strings.NewReplacer("SERIAL_KEY", s.dialect.key, "CLUSTERED", s.clustered).Replace(withoutComments(string(raw)))
	for statement := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, s.bind("INSERT INTO schema_version (version) VALUES (?)"), version)
	return err
}

// withoutComments of a migration, which may contain semicolons.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}
