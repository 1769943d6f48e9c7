package campaign

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// repository with a commit that has a product and a document, and the working directory in it.
func repository(t *testing.T) Repository {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_AUTHOR_NAME", "a")
	t.Setenv("GIT_AUTHOR_EMAIL", "a@example.com")
	t.Setenv("GIT_COMMITTER_NAME", "a")
	t.Setenv("GIT_COMMITTER_EMAIL", "a@example.com")
	r := Repository(dir)
	_, err := r.git("init", "--quiet")
	require.NoError(t, err)
	commit(t, r, "fn/fn.go", "1")
	commit(t, r, "docs/page.md", "1")
	t.Chdir(dir)
	return r
}

func commit(t *testing.T, r Repository, file, text string) {
	t.Helper()
	write(t, r, file, text)
	_, err := r.git("add", ".")
	require.NoError(t, err)
	_, err = r.git("commit", "--quiet", "--message", file)
	require.NoError(t, err)
}

func write(t *testing.T, r Repository, file, text string) {
	t.Helper()
	path := filepath.Join(string(r), file)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func open(t *testing.T, path string, resume bool) *Record {
	t.Helper()
	r, err := (&Flags{file: &path, resume: &resume, within: new(time.Duration)}).Open(Product...)
	require.NoError(t, err)
	return r
}

// TestResume: what passed is left out as long as the product is the same, and only then.
func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		resume bool
		then   func(t *testing.T, r Repository, file string)
		want   bool
	}{
		"the same commit":             {resume: true, want: true},
		"without resume":              {},
		"a document has changed":      {resume: true, then: func(t *testing.T, r Repository, _ string) { commit(t, r, "docs/page.md", "2") }, want: true},
		"the product has changed":     {resume: true, then: func(t *testing.T, r Repository, _ string) { commit(t, r, "fn/fn.go", "2") }},
		"the product is being edited": {resume: true, then: func(t *testing.T, r Repository, _ string) { write(t, r, "fn/fn.go", "2") }},
		"the line was interrupted": {resume: true, then: func(t *testing.T, _ Repository, file string) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			lines := strings.SplitAfter(string(raw), "\n")
			require.NoError(t, os.WriteFile(file, []byte(lines[0]+strings.TrimSuffix(lines[1], "\n")), 0o600))
		}},
		"it failed later": {resume: true, then: func(t *testing.T, _ Repository, file string) {
			again := open(t, file, true)
			require.NoError(t, again.Add(Result{Item: "b"}))
			require.NoError(t, again.Close())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			git, file := repository(t), filepath.Join(t.TempDir(), "results", "some.tsv")
			first := open(t, file, false)
			require.NoError(t, first.Add(Result{Item: "a"}))
			require.NoError(t, first.Add(Result{Item: "b", Passed: true, Took: 3 * time.Second, Figures: map[string]string{"memory": "3 MiB", "x": "y"}}))
			_, err := (&Flags{file: &file, resume: new(bool)}).Open(Product...)
			require.ErrorContains(t, err, "another campaign writes")
			require.NoError(t, first.Close())
			if c.then != nil {
				c.then(t, git, file)
			}
			again := open(t, file, c.resume)
			require.Equal(t, c.want, again.Passed("b"))
			require.False(t, again.Passed("a"))
			require.False(t, again.Passed("c"))
			require.NoError(t, again.Add(Result{Item: "c", Passed: true}))
			all, err := Read(file)
			require.NoError(t, err)
			require.Equal(t, "c", all[len(all)-1].Item)
			if !c.resume {
				require.Len(t, all, 1)
			}
			require.NoError(t, again.Close())
		})
	}
}

// TestLines: a result is read as it was written, and what is none is an error.
func TestLines(t *testing.T) {
	want := Result{Passed: true, Item: "webhook/kill -9/Fail", Commit: "0123456789ab+", At: time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC),
		Took: 61 * time.Second, Figures: map[string]string{"memory": "3 MiB", "slowest": "25 ms"}}
	got, err := parse(strings.TrimSuffix(want.String(), "\n"))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got))
	for _, line := range []string{"", "pass\ta\tb", "PASS\ta\tb\t2026-11-29T01:02:03Z\t1\t", "pass\ta\tb\tyesterday\t1\t",
		"pass\ta\tb\t2026-11-29T01:02:03Z\tx\t"} {
		_, err := parse(line)
		require.Error(t, err, line)
	}
	_, err = Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("pass\n"), 0o600))
	_, err = Read(bad)
	require.ErrorContains(t, err, bad)
}

// TestFullDisk: a result that cannot be stored is an error with how far the campaign is, and how it goes on.
func TestFullDisk(t *testing.T) {
	disk, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	r := &Record{commit: "0123456789ab", file: disk, recorded: 3, due: []string{"seed 4", "seed 5"}}
	err = r.Add(Result{Item: "seed 4", Passed: true})
	require.ErrorContains(t, err, "cannot record seed 4")
	require.Error(t, r.Add(Result{Item: "seed 5", Passed: true}), "what follows half a line")
	require.ErrorContains(t, err, "3 results of this run are in /dev/full; RESUME=1 goes on after them")
	r.due = nil // as of the soak
	require.Regexp(t, "3 results of this run are in /dev/full$", r.hanging())
}

// TestHang: an item that does not end ends the program, which names it and how the campaign goes on; what has ended is in the file.
func TestHang(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some.tsv")
	if os.Getenv("CAMPAIGN_HANGS") != "" {
		file, limit := os.Getenv("CAMPAIGN_HANGS"), 2*time.Second
		r, err := (&Flags{file: &file, resume: new(bool), within: &limit}).Open()
		require.NoError(t, err)
		for n := range 8 {
			require.False(t, r.Passed(fmt.Sprintf("seed %d", n)))
		}
		require.NoError(t, r.Add(Result{Item: "seed 0", Passed: true}))
		<-t.Context().Done() // as an item that does not end
	}
	repository(t)
	hangs := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHang$") //nolint:gosec // It is this program.
	hangs.Env = append(os.Environ(), "CAMPAIGN_HANGS="+file)
	out, err := hangs.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "no item has ended for 2s, of seed 1, seed 2, seed 3, seed 4, seed 5 and 2 more; "+
		"1 results of this run are in "+file+"; RESUME=1 goes on after them")
	all, err := Read(file)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// TestNothingPlayed: a campaign of which no item was selected has not passed, with a file or without; one of which all had passed has.
func TestNothingPlayed(t *testing.T) {
	repository(t)
	file := filepath.Join(t.TempDir(), "some.tsv")
	require.ErrorContains(t, open(t, "", false).Close(), "nothing was played")
	require.ErrorContains(t, open(t, file, false).Close(), "matches no item")
	first := open(t, file, false)
	require.NoError(t, first.Add(Result{Item: "a", Passed: true}))
	require.NoError(t, first.Close())
	again := open(t, file, true)
	require.True(t, again.Passed("a"))
	require.NoError(t, again.Close())
}

// TestNothingKept: without a file nothing is kept.
func TestNothingKept(t *testing.T) {
	r, err := (&Flags{file: new(string), resume: new(bool), within: new(time.Duration)}).Open()
	require.NoError(t, err)
	require.NoError(t, r.Add(Result{Item: "a", Passed: true}))
	require.False(t, r.Passed("a"))
	require.NoError(t, r.Close())
	require.ErrorContains(t, (&Record{}).Add(Result{Item: "a\tb"}), "cannot be read again")
}

// TestSince counts the commits that change the paths.
func TestSince(t *testing.T) {
	r := repository(t)
	at, err := r.Commit(Product...)
	require.NoError(t, err)
	commit(t, r, "fn/fn.go", "2")
	commit(t, r, "docs/page.md", "2")
	commit(t, r, "gate/gate.go", "1")
	n, err := r.Since(at, Product...)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = r.Since("0123456789ab", Product...)
	require.Error(t, err)
	_, err = At(t.TempDir())
	require.ErrorContains(t, err, "not a git repository")
}
