package campaign

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Result of an item. It is stored as a line of six columns, with tabs between them.
type Result struct {
	// Passed, or failed.
	Passed bool
	// Item that was played. It has neither tabs nor line feeds.
	Item string
	// Commit of the repository, and + where files differed from it.
	Commit string
	// At is the time of the end, in seconds.
	At time.Time
	// Took is how long it took, in seconds.
	Took time.Duration
	// Figures by name, such as memory. Neither has any of tab, line feed, = and ;.
	Figures map[string]string
}

const columns = 6

// String is the line, with its line feed.
func (r Result) String() string {
	result := "FAIL"
	if r.Passed {
		result = "pass"
	}
	var figures []string
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		figures = append(figures, name+"="+r.Figures[name])
	}
	return strings.Join([]string{result, r.Item, r.Commit, r.At.UTC().Format(time.RFC3339), strconv.Itoa(int(r.Took.Seconds())),
		strings.Join(figures, ";")}, "\t") + "\n"
}

// parse a line without its line feed.
func parse(line string) (Result, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != columns {
		return Result{}, fmt.Errorf("%q has %d columns, want %d", line, len(fields), columns)
	}
	at, errAt := time.Parse(time.RFC3339, fields[3])
	seconds, errTook := strconv.Atoi(fields[4])
	r := Result{Passed: fields[0] == "pass", Item: fields[1], Commit: fields[2], At: at, Took: time.Duration(seconds) * time.Second}
	var errResult error
	if !r.Passed && fields[0] != "FAIL" {
		errResult = fmt.Errorf("%q is neither pass nor FAIL", fields[0])
	}
	for figure := range strings.SplitSeq(fields[5], ";") {
		if name, value, ok := strings.Cut(figure, "="); ok {
			if r.Figures == nil {
				r.Figures = map[string]string{}
			}
			r.Figures[name] = value
		}
	}
	return r, errors.Join(errAt, errTook, errResult)
}

// Read the results of a file, in their order. What follows the last line feed is left out: a write was interrupted there.
func Read(path string) ([]Result, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Result
	for line := range strings.Lines(string(raw)) {
		whole, ok := strings.CutSuffix(line, "\n")
		if !ok {
			break
		}
		r, err := parse(whole)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// Last result of each item, in the order of their first results.
func Last(all []Result) []Result {
	at := map[string]int{}
	var out []Result
	for _, r := range all {
		if i, ok := at[r.Item]; ok {
			out[i] = r
			continue
		}
		at[r.Item] = len(out)
		out = append(out, r)
	}
	return out
}

// Flags of a campaign.
type Flags struct {
	file   *string
	resume *bool
	within *time.Duration
}

// Register the flags of a program that plays a campaign.
func Register() *Flags {
	return &Flags{
		file:   flag.String("campaign.file", "", "append a line for each item that was played to this file"),
		resume: flag.Bool("campaign.resume", false, "leave out what passed at this commit, or one with the same product, by the file"),
		within: flag.Duration("campaign.within", 45*time.Minute, "end the program where this long no item has ended; 0 for no limit"),
	}
}

// Record of a campaign that is played. Without a file it keeps nothing. It is safe for concurrent use.
type Record struct {
	commit string
	passed map[string]bool
	// some item was played, or had passed before.
	some atomic.Bool

	mu   sync.Mutex
	file *os.File
	// due are the items without a result that are to be played, in their order.
	due []string
	// hangs is called where no result was added for as long as within.
	hangs  *time.Timer
	within time.Duration
	// recorded are how many results were added.
	recorded int
	// broken is the error of the write that failed: what follows it could not be read.
	broken error
}

// Open the record that the flags name, for the repository with the working directory; one without a file if they name none. Paths are
// those that the results depend on, relative to the root of the repository. Without -campaign.resume it is empty.
func (f *Flags) Open(paths ...string) (*Record, error) {
	if *f.file == "" {
		return &Record{}, nil
	}
	repository, err := At(".")
	if err != nil {
		return nil, err
	}
	r := &Record{passed: map[string]bool{}}
	if r.commit, err = repository.Commit(paths...); err != nil {
		return nil, err
	}
	if *f.resume {
		if err := r.load(*f.file, repository, paths); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(*f.file), 0o750); err != nil {
		return nil, err
	}
	r.file, err = os.OpenFile(*f.file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(r.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another campaign writes to %s: %w", *f.file, err), r.file.Close())
	}
	if r.within = *f.within; r.within > 0 {
		r.hangs = time.AfterFunc(r.within, func() {
			debug.SetTraceback("all")
			panic(r.hanging())
		})
	}
	return r, r.cut(*f.resume)
}

// hanging is what is shown where no item ends.
func (r *Record) hanging() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	const shown = 5
	due := ""
	if len(r.due) > 0 {
		due = ", of " + strings.Join(r.due[:min(len(r.due), shown)], ", ")
	}
	if more := len(r.due) - shown; more > 0 {
		due += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("no item has ended for %s%s; %s", r.within, due, r.progress())
}

// progress is how far the campaign is, and how one goes on that leaves out what has passed.
func (r *Record) progress() string {
	out := fmt.Sprintf("%d results of this run are in %s", r.recorded, r.file.Name())
	if len(r.due) > 0 {
		out += "; RESUME=1 goes on after them"
	}
	return out
}

// load what passed at a commit from which nothing that matters has changed.
func (r *Record) load(path string, repository Repository, paths []string) error {
	all, err := Read(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	same := map[string]bool{}
	for _, result := range Last(all) {
		if _, ok := same[result.Commit]; !ok {
			same[result.Commit] = repository.same(result.Commit, r.commit, paths)
		}
		r.passed[result.Item] = result.Passed && same[result.Commit]
	}
	return nil
}

// cut everything, or the line that was interrupted.
func (r *Record) cut(resume bool) error {
	end := int64(0)
	if resume {
		raw, err := io.ReadAll(r.file)
		if err != nil {
			return err
		}
		end = int64(bytes.LastIndexByte(raw, '\n') + 1)
	}
	if err := r.file.Truncate(end); err != nil {
		return err
	}
	_, err := r.file.Seek(end, io.SeekStart)
	return err
}

// Passed reports whether an item of the campaign need not be played.
func (r *Record) Passed(item string) bool {
	r.some.Store(true)
	if !r.passed[item] {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.due = append(r.due, item)
	}
	return r.passed[item]
}

// Add the result of an item that was played; its commit and time are set. It is stored when Add returns without an error. An item without a
// result is played by the next resume.
func (r *Record) Add(result Result) error {
	r.some.Store(true)
	result.Commit, result.At = r.commit, time.Now()
	line := result.String()
	if read, err := parse(strings.TrimSuffix(line, "\n")); err != nil || read.Item != result.Item {
		return fmt.Errorf("result %q cannot be read again: %w", line, err)
	}
	if r.file == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.broken
	if err == nil {
		_, err = r.file.WriteString(line)
		err = errors.Join(err, r.file.Sync())
	}
	if r.broken = err; err != nil {
		return fmt.Errorf("cannot record %s: %w; %s", result.Item, err, r.progress())
	}
	r.recorded++
	r.due = slices.DeleteFunc(r.due, func(item string) bool { return item == result.Item })
	if r.hangs != nil {
		r.hangs.Reset(r.within)
	}
	return nil
}

// Close the file. It is an error if the campaign had no item: what played nothing has not passed.
func (r *Record) Close() error {
	var errs []error
	if r.hangs != nil {
		r.hangs.Stop()
	}
	if !r.some.Load() {
		errs = append(errs, errors.New("nothing was played: what was selected, by ONLY, SEEDS or FIRST, matches no item of the campaign"))
	}
	if r.file != nil {
		errs = append(errs, r.file.Close())
	}
	return errors.Join(errs...)
}
