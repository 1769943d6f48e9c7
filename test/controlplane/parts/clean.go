package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Clean removes what this package has built, in any version: the programs in binDir (empty:
// DefaultBinDir) and the cache of the user. It waits for builds into the cache, with a line to out.
func Clean(ctx context.Context, out io.Writer, binDir string) error {
	b, err := newBuilder(out, binDir)
	if err != nil {
		return err
	}

	for _, p := range All() {
		if err := b.remove(p); err != nil {
			return fmt.Errorf("cannot remove the programs of %s: %w", p.Name, err)
		}
	}

	c, err := openCache()
	if err != nil {
		return err
	}

	return c.clean(ctx, b.out)
}

// remove removes the part from the directory for programs, and the files that a build needs beside it.
func (b *builder) remove(p Part) error {
	name := p.Name
	if !p.ours() {
		name += "-v*"
	}

	dir := quoteGlob(b.binDir)

	programs, err := filepath.Glob(filepath.Join(dir, name))
	if err != nil {
		return err
	}

	others, err := filepath.Glob(filepath.Join(dir, "."+name+".*"))
	if err != nil {
		return err
	}

	for _, file := range slices.Concat(programs, others) {
		if err := os.Remove(file); err != nil {
			return err
		}
	}

	return nil
}
