package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// provide puts a link to the part's program in the cache at target, having built it if need be. Where
// the cache cannot be written, the program is built to target. The caller holds the lock of target.
func (b *builder) provide(ctx context.Context, p Part, version, target string) error {
	e, err := b.cached(ctx, p, version)

	switch {
	case errors.Is(err, errNoCache):
		b.warn(err)

		if err := b.build(ctx, p, version, target); err != nil {
			return err
		}

		return b.stamp(p, version, target)
	case err != nil:
		return err
	}

	if err := link(e.path, target); err != nil {
		return fmt.Errorf("cannot put %s in place: %w", p.Name, err)
	}

	return nil
}

// stamp notes beside a program that was built without a cache what its source was.
func (b *builder) stamp(p Part, version, target string) error {
	source, err := b.sourceKey(p, version)
	if err != nil {
		return err
	}

	if err := os.WriteFile(stampOf(target), []byte(source), 0o600); err != nil {
		return fmt.Errorf("cannot note the source of %s: %w", p.Name, err)
	}

	return nil
}

// stamped reports whether a program that was built without a cache has the part's current source.
func (b *builder) stamped(p Part, version, target string) bool {
	was, err := os.ReadFile(stampOf(target))
	if err != nil {
		return false
	}

	source, err := b.sourceKey(p, version)

	return err == nil && string(was) == source
}

func stampOf(target string) string {
	return filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".source")
}

// cached returns the part's program in the cache, having built it if need be.
func (b *builder) cached(ctx context.Context, p Part, version string) (entry, error) {
	c, err := openCache()
	if err != nil {
		return entry{}, err
	}

	key, err := b.key(ctx, p, version)
	if err != nil {
		return entry{}, err
	}

	if e, _ := c.get(key); e.path != "" {
		return e, nil
	}

	unlock, err := c.lock(ctx, b.out, key, p.label(version))
	if err != nil {
		return entry{}, err
	}
	defer unlock()

	// Another clone may have built it while this one waited for the lock.
	e, damaged := c.get(key)
	if e.path != "" {
		return e, nil
	}

	for _, d := range damaged {
		_, _ = fmt.Fprintf(b.out, "%s in the cache is damaged and is built again: %s\n", p.label(version), d.path)
		_ = os.Remove(d.path)
	}

	return c.put(key, func(file string) error { return b.compile(ctx, p, version, file) })
}

// key identifies the part's program in the cache.
func (b *builder) key(ctx context.Context, p Part, version string) (string, error) {
	source, err := b.sourceKey(p, version)
	if err != nil {
		return "", err
	}

	toolchain, err := b.toolchainKey(ctx, p)
	if err != nil {
		return "", err
	}

	return p.fileName(version) + "-" + source + "-" + toolchain, nil
}

// isCached reports whether the cache has the part's program, without reading it.
func (b *builder) isCached(p Part, version string) bool {
	c, err := openCache()
	if err != nil {
		return false
	}

	key, err := b.key(context.Background(), p, version)

	return err == nil && slices.ContainsFunc(c.find(key), entry.intact)
}

// warn reports once that the cache cannot be used.
func (b *builder) warn(err error) {
	if !b.warned {
		_, _ = fmt.Fprintf(b.out, "%v; building into %s\n", err, b.binDir)
	}

	b.warned = true
}

// link makes target a link to a program, in one step.
func link(program, target string) error {
	staged := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".link")

	_ = os.Remove(staged) // A process that was killed may have left one. The caller holds the lock.

	if err := os.Symlink(program, staged); err != nil {
		return err
	}

	return os.Rename(staged, target)
}
