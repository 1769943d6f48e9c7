package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// envCache names the directory of the caches of all programs, if it is not the system's.
const envCache = "XDG_CACHE_HOME"

// unusedFor is how long the cache keeps a program that no run uses.
const unusedFor = 30 * 24 * time.Hour

// What the names of files end with that are no programs.
const (
	lockSuffix   = ".lock"
	stagedSuffix = ".new"
)

// errNoCache means that the cache cannot be written, so that the program is built into the directory of
// the caller instead.
var errNoCache = errors.New("cannot use the cache of programs")

// A cache holds what was built from other modules, for all clones of a user. A program's file name has
// its key, its size and its SHA-256, so that one rename puts all of them in place:
//
//	etcd-v3.6.5-<source>-<toolchain>-<size>-<sha256>
//
// It can be used by several processes at a time.
type cache struct {
	dir string
}

// openCache returns the cache of the user, which need not exist.
func openCache() (cache, error) {
	dir := os.Getenv(envCache)
	if dir == "" {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return cache{}, fmt.Errorf("%w: %w", errNoCache, err)
		}
	}

	if !filepath.IsAbs(dir) {
		return cache{}, fmt.Errorf("%w: %q is not an absolute path", errNoCache, dir)
	}

	return cache{dir: filepath.Join(dir, "kausality", "parts")}, nil
}

// CacheDir returns the directory of the cache, which need not exist, for what else tests fetch: what is not used for 30 days is removed there.
func CacheDir() (string, error) {
	c, err := openCache()

	return c.dir, err
}

// An entry is a program in the cache.
type entry struct {
	path, sum string
	size      int64
}

// parseEntry returns the entry of that path. ok is false unless its name begins with a key and is one
// that the cache gives.
func parseEntry(path, key string) (e entry, ok bool) {
	rest, ok := strings.CutPrefix(filepath.Base(path), key+"-")
	if !ok {
		return entry{}, false
	}

	fields := strings.Split(rest, "-")
	if len(fields) < 2 {
		return entry{}, false
	}

	size, err := strconv.ParseInt(fields[len(fields)-2], 10, 64)
	e = entry{path: path, sum: fields[len(fields)-1], size: size}

	return e, err == nil && len(e.sum) == 2*sha256.Size
}

// intact reports whether there is a program of the recorded size. That takes no time; verify reads it.
func (e entry) intact() bool {
	info, err := os.Stat(e.path)
	return err == nil && info.Size() == e.size && isProgram(e.path)
}

// verify reports whether the program is the one that was written.
func (e entry) verify() bool {
	if !e.intact() {
		return false
	}

	sum, size, err := checksum(e.path)

	return err == nil && sum == e.sum && size == e.size
}

// use records that the entry is used, so that it is kept. It is of no consequence where that is not
// possible.
func (e entry) use() {
	now := time.Now()
	_ = os.Chtimes(e.path, now, now)
}

// find returns the entries of a key: at most one, unless a process was interrupted.
func (c cache) find(key string) []entry {
	files, _ := os.ReadDir(c.dir) // A directory that cannot be read has none.

	var found []entry

	for _, f := range files {
		if e, ok := parseEntry(filepath.Join(c.dir, f.Name()), key); ok {
			found = append(found, e)
		}
	}

	return found
}

// get returns the entry of a key whose content is verified, and removes those that are damaged, of
// which there may be none.
func (c cache) get(key string) (e entry, damaged []entry) {
	for _, e := range c.find(key) {
		e.use()

		if e.verify() {
			return e, damaged
		}

		damaged = append(damaged, e)
	}

	return entry{}, damaged
}

// lock is held by the process that writes entries of a key. It reports errNoCache where the cache cannot
// be written.
func (c cache) lock(ctx context.Context, out io.Writer, key, what string) (unlock func(), err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCache, err)
	}

	unlock, err = lock(ctx, out, filepath.Join(c.dir, "."+key+lockSuffix), what)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errNoCache, err)
	}

	return unlock, err
}

// put stores what build writes to the file that it is given. The caller holds the lock of the key.
func (c cache) put(key string, build func(file string) error) (entry, error) {
	file, remove, err := stage(c.dir, key)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", errNoCache, err)
	}
	defer remove()

	switch err := build(file); {
	case errors.Is(err, errDiskFull):
		return entry{}, fmt.Errorf("%w: %w", errNoCache, err)
	case err != nil:
		return entry{}, err
	}

	sum, size, err := checksum(file)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", errNoCache, err)
	}

	e := entry{path: filepath.Join(c.dir, fmt.Sprintf("%s-%d-%s", key, size, sum)), sum: sum, size: size}
	if err := install(file, e.path); err != nil {
		return entry{}, fmt.Errorf("%w: %w", errNoCache, err)
	}

	c.expire(time.Now().Add(-unusedFor))

	return e, nil
}

// expire removes, as far as it can, what was last used before.
func (c cache) expire(before time.Time) {
	files, _ := os.ReadDir(c.dir)

	for _, f := range files {
		info, err := f.Info()
		if err == nil && info.ModTime().Before(before) && !strings.HasSuffix(f.Name(), lockSuffix) {
			_ = os.Remove(filepath.Join(c.dir, f.Name()))
		}
	}
}

// clean removes everything, once the builds that are under way have ended.
func (c cache) clean(ctx context.Context, out io.Writer) error {
	locks, err := filepath.Glob(filepath.Join(quoteGlob(c.dir), ".*"+lockSuffix))
	if err != nil {
		return fmt.Errorf("cannot remove the cache of programs: %w", err)
	}

	var unlocks []func()

	defer func() {
		for _, unlock := range unlocks {
			unlock()
		}
	}()

	for _, path := range locks {
		unlock, err := lock(ctx, out, path, strings.TrimSuffix(filepath.Base(path)[1:], lockSuffix))
		if err != nil {
			return err
		}

		unlocks = append(unlocks, unlock)
	}

	files, err := os.ReadDir(c.dir)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot remove the cache of programs: %w", err)
	}

	for _, f := range files { // The directory may be a link to another disk.
		if err := os.RemoveAll(filepath.Join(c.dir, f.Name())); err != nil {
			return fmt.Errorf("cannot remove the cache of programs: %w", err)
		}
	}

	_ = os.Remove(c.dir)

	return nil
}

// checksum returns the SHA-256 of a file, in hexadecimal digits, and its size.
func checksum(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // It was only read.

	h := sha256.New()
	size, err = io.Copy(h, f)

	return hex.EncodeToString(h.Sum(nil)), size, err
}

// stage returns an empty file in dir that a program named base is built into, and what removes it. A
// build that was killed may have left one, and its compiler may still write to it: each build has its
// own. The caller holds the lock of base.
func stage(dir, base string) (file string, remove func(), err error) {
	left, _ := filepath.Glob(filepath.Join(quoteGlob(dir), "."+base+".*"+stagedSuffix))
	for _, file := range left {
		_ = os.Remove(file)
	}

	f, err := os.CreateTemp(dir, "."+base+".*"+stagedSuffix)
	if err != nil {
		return "", nil, err
	}

	return f.Name(), func() { _ = os.Remove(f.Name()) }, f.Close()
}

// install puts a program that was staged in place, once all of it is on the disk.
func install(staged, target string) error {
	f, err := os.Open(staged)
	if err != nil {
		return err
	}

	err = errors.Join(f.Chmod(0o755), f.Sync(), f.Close())
	if err != nil {
		return err
	}

	return os.Rename(staged, target)
}
