package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/internal/await"
)

// fakeGo puts a shell script in front of the go command, which is $GO there, until the test ends, and
// returns the directory of the script. The script counts the builds in a file, builds.
func fakeGo(t *testing.T, script string) string {
	t.Helper()

	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	head := fmt.Sprintf("#!/bin/sh\nGO=%s\ncd %s && { [ \"$1\" != build ] || echo \"$3\" >> builds; }\n", program, dir)

	// Of go build -o OUTPUT, $3 is the output.
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(head+script+"\ncd \"$OLDPWD\"\nexec $GO \"$@\"\n"), 0o700); err != nil { //nolint:gosec // A program.
		t.Fatal(err)
	}

	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))

	return dir
}

// builds returns how many builds a script of fakeGo has seen.
func builds(dir string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "builds"))
	return bytes.Count(data, []byte("\n"))
}

// clone returns the part with its module in another directory.
func clone(t *testing.T, p Part) Part {
	t.Helper()

	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(p.Dir)); err != nil {
		t.Fatal(err)
	}

	p.Dir = dir

	return p
}

// write writes a file of the part's module.
func write(t *testing.T, p Part, name, text string) {
	t.Helper()

	if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mustBuild builds the part and returns what was printed and the path.
func mustBuild(t *testing.T, bin string, p Part) (printed, path string) {
	t.Helper()

	var out strings.Builder

	paths, err := Build(t.Context(), &out, bin, p)
	if err != nil {
		t.Fatal(err)
	}

	if out, err := exec.Command(paths[p.Name]).CombinedOutput(); err != nil || string(out) != "v1.2.3/1/2" {
		t.Errorf("want the version, got %q, %v", out, err)
	}

	return withoutProgress(out.String()), paths[p.Name]
}

// withoutProgress returns the lines that are not about a build that takes more than a second.
func withoutProgress(printed string) string {
	var kept strings.Builder

	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "building ") && !strings.HasPrefix(line, "built ") && !strings.HasPrefix(line, "gave up ") {
			kept.WriteString(line)
		}
	}

	return kept.String()
}

// cacheFiles returns the files in the cache but the locks.
func cacheFiles(t *testing.T) []string {
	t.Helper()

	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(c.dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}

	var files []string

	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), lockSuffix) {
			files = append(files, filepath.Join(c.dir, e.Name()))
		}
	}

	return files
}

// A second clone takes what the first one built.
func TestSecondClone(t *testing.T) {
	p, goDir := module(t, printsVersion), fakeGo(t, "")
	_, first := mustBuild(t, t.TempDir(), p)
	_, second := mustBuild(t, t.TempDir(), clone(t, p))

	if n := builds(goDir); n != 1 {
		t.Errorf("want one build, got %d", n)
	}

	files := cacheFiles(t)
	if len(files) != 1 {
		t.Fatalf("want one file in the cache, got %q", files)
	}

	for _, path := range []string{first, second} {
		if to, err := os.Readlink(path); err != nil || to != files[0] {
			t.Errorf("want a link to %s, got %q, %v", files[0], to, err)
		}
	}
}

// Of two clones that build at once, the second waits for the first and takes its program.
func TestClonesAtOnce(t *testing.T) {
	p := module(t, printsVersion)
	goDir := fakeGo(t, "while [ \"$1\" = build ] && [ ! -e goon ]; do sleep 0.05; done")
	waiting := make(chan string, 1)

	build := func(p Part) {
		out := writerFn(func(s string) {
			if strings.HasPrefix(s, "waiting for another process that builds thing v1.2.3") {
				waiting <- s
			}
		})

		if _, err := Build(t.Context(), out, t.TempDir(), p); err != nil {
			t.Error(err)
		}
	}

	var wg sync.WaitGroup

	wg.Go(func() { build(p) })
	wg.Go(func() { build(clone(t, p)) })

	await.Next(t, "a clone that waits for the other one", waiting)

	if err := os.WriteFile(filepath.Join(goDir, "goon"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	wg.Wait()

	if n := builds(goDir); n != 1 {
		t.Errorf("want one build, got %d", n)
	}
}

// A program that is not the one that was built is built again, with one line.
func TestDamaged(t *testing.T) {
	flip := func(data []byte) []byte { data[len(data)/2] ^= 1; return data }
	keep := func(data []byte) []byte { return data }
	cut := func(data []byte) []byte { return data[:len(data)/2] }

	cases := map[string]struct {
		damage    func([]byte) []byte
		without   os.FileMode
		sameClone bool
		thorough  bool
		want      int
	}{
		"ChangedOtherClone": {damage: flip, want: 2},
		"ChangedPrepare":    {damage: flip, sameClone: true, thorough: true, want: 2},
		"ChangedLinked":     {damage: flip, sameClone: true, want: 1}, // A test that starts does not read all programs.
		"ShortLinked":       {damage: cut, sameClone: true, want: 2},
		"ShortOtherClone":   {damage: cut, want: 2},
		"NoProgram":         {damage: keep, without: 0o111, sameClone: true, want: 2},
		"Intact":            {damage: keep, sameClone: true, thorough: true, want: 1},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, bin, goDir := module(t, printsVersion), t.TempDir(), fakeGo(t, "")
			mustBuild(t, bin, p)

			data, err := os.ReadFile(cacheFiles(t)[0])
			if err != nil {
				t.Fatal(err)
			}

			if err := os.WriteFile(cacheFiles(t)[0], tc.damage(data), 0o700); err != nil { //nolint:gosec // A program.
				t.Fatal(err)
			}

			if err := os.Chmod(cacheFiles(t)[0], 0o755&^tc.without); err != nil {
				t.Fatal(err)
			}

			if !tc.sameClone {
				bin = t.TempDir()
			}

			var out strings.Builder

			b, err := newBuilder(&out, bin)
			if err != nil {
				t.Fatal(err)
			}

			b.thorough = tc.thorough

			if _, err := b.ensure(t.Context(), p); err != nil {
				t.Fatal(err)
			}

			if n := builds(goDir); n != tc.want {
				t.Errorf("want %d builds, got %d", tc.want, n)
			}

			printed := withoutProgress(out.String())
			if got := strings.Count(printed, "is damaged"); got != tc.want-1 || strings.Count(printed, "\n") != got {
				t.Errorf("want a line about each damaged program, got %q", printed)
			}

			if tc.want > 1 {
				mustBuild(t, bin, p)
			}
		})
	}
}

// A program that has vanished from the cache is built again.
func TestVanished(t *testing.T) {
	p, bin, goDir := module(t, printsVersion), t.TempDir(), fakeGo(t, "")
	mustBuild(t, bin, p)

	if err := os.Remove(cacheFiles(t)[0]); err != nil {
		t.Fatal(err)
	}

	mustBuild(t, bin, p)

	if n := builds(goDir); n != 2 {
		t.Errorf("want two builds, got %d", n)
	}
}

// Where the cache cannot be written, one line reports it, and the program is built into the directory.
func TestNoCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	const full = `case "$3" in */kausality/parts/*) echo "link: write $3: no space left on device" >&2; exit 1;; esac`

	for name, tc := range map[string]struct{ cache, script, want string }{
		"NoDirectory": {cache: file, want: "not a directory"},
		"Relative":    {cache: "cache", want: "not an absolute path"},
		"FullDisk":    {script: full, want: "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			p, bin := module(t, printsVersion), t.TempDir()
			if tc.cache != "" {
				t.Setenv(envCache, tc.cache)
			}

			goDir := fakeGo(t, tc.script)

			printed, path := mustBuild(t, bin, p)
			if !strings.HasPrefix(printed, errNoCache.Error()+": ") || !strings.Contains(printed, tc.want) ||
				!strings.Contains(printed, bin) || strings.Count(printed, "\n") != 1 {
				t.Errorf("want one line with %q, got %q", tc.want, printed)
			}

			if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
				t.Errorf("want a regular file, got %v, %v", info, err)
			}

			if printed, _ := mustBuild(t, bin, p); printed != "" {
				t.Errorf("a second build: %q", printed)
			}

			prepared := func() int {
				was := builds(goDir)

				b, err := newBuilder(io.Discard, bin)
				if err != nil {
					t.Fatal(err)
				}

				b.thorough = true

				if _, err := b.ensure(t.Context(), p); err != nil {
					t.Fatal(err)
				}

				return builds(goDir) - was
			}
			if n := prepared(); n != 0 {
				t.Errorf("the same source is built again %d times", n)
			}

			write(t, p, "more.go", "package main\n")

			if n := prepared(); n == 0 {
				t.Error("another source is not built")
			}

			if n := prepared(); n != 0 {
				t.Errorf("the other source is built again %d times", n)
			}

			assertFiles(t, bin, ".thing-v1.2.3.source", "thing-v1.2.3")
		})
	}
}

// A full disk and a network that does not work are reported in one line, with the part.
func TestOneLine(t *testing.T) {
	const full = `[ "$1" != build ] || { echo "# example.org/thing"; echo "link: write $3: no space left on device"; exit 1; }`

	t.Run("FullDisk", func(t *testing.T) {
		p, bin := module(t, printsVersion), t.TempDir()
		fakeGo(t, full)
		assertOneLine(t, bin, p, errDiskFull, "cannot build thing v1.2.3: the disk is full: write "+bin)
	})

	t.Run("NoNetwork", func(t *testing.T) {
		p := module(t, "package main\n\nimport _ \"example.org/dep\"\n\nfunc main() {}\n")
		write(t, p, "go.sum", "example.org/dep v1.2.3 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"+
			"example.org/dep v1.2.3/go.mod h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
		t.Setenv("GOPROXY", "http://127.0.0.1:1")
		t.Setenv("GOMODCACHE", t.TempDir())
		assertOneLine(t, t.TempDir(), p, errNoNetwork, "cannot build thing v1.2.3: its modules cannot be downloaded: ")
	})
}

func assertOneLine(t *testing.T, bin string, p Part, is error, prefix string) {
	t.Helper()

	_, err := Build(t.Context(), nil, bin, p)
	if !errors.Is(err, is) {
		t.Fatalf("want %v, got %v", is, err)
	}

	if text := err.Error(); !strings.HasPrefix(text, prefix) || strings.Contains(text, "\n") {
		t.Errorf("want one line that begins with %q, got %q", prefix, text)
	}

	assertFiles(t, bin)

	if files := cacheFiles(t); len(files) > 0 {
		t.Errorf("want an empty cache, got %q", files)
	}
}

// builderHelper names the variable that makes the test binary a process that builds a part: its value
// is the directory for programs and that of the module.
const builderHelper = "PARTS_BUILD"

// buildForever is the process that TestKilled kills.
func buildForever() {
	bin, dir, _ := strings.Cut(os.Getenv(builderHelper), ":")
	p := Part{Name: "thing", Dir: dir, Module: "example.org/dep", Ldflags: "-X main.version={version}/{major}/{minor}"}

	_, err := Build(context.Background(), nil, bin, p)
	fmt.Println("the build has ended:", err)
	os.Exit(1)
}

// What a process leaves that is killed while it builds is not taken for a program, not even when its
// compiler outlives it.
func TestKilled(t *testing.T) {
	p, bin := module(t, printsVersion), t.TempDir()
	goDir := fakeGo(t, `[ "$1" != build ] || [ -e goon ] || {
		printf '#!/bin/sh\n' > "$3"; chmod 755 "$3"; touch half
		while [ ! -e goon ]; do sleep 0.05; done
		printf '#!/bin/sh\n' > "$3"; touch late; exit
	}`)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), builderHelper+"="+bin+":"+p.Dir)

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	waitForFile(t, filepath.Join(goDir, "half"))

	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	left := cacheFiles(t)
	if len(left) != 1 || !strings.HasSuffix(left[0], stagedSuffix) {
		t.Fatalf("want what the killed process left, got %q", left)
	}

	assertFiles(t, bin)

	if err := os.WriteFile(filepath.Join(goDir, "goon"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	mustBuild(t, bin, p)
	waitForFile(t, filepath.Join(goDir, "late"))
	mustBuild(t, t.TempDir(), p)

	if n := builds(goDir); n != 2 {
		t.Errorf("want a build that was killed and one more, got %d", n)
	}
}

// waitForFile waits until there is a file.
func waitForFile(t *testing.T, file string) {
	t.Helper()

	await.Poll(t, file, func() bool {
		_, err := os.Stat(file)

		return err == nil
	})
}

// The key changes with all that determines the program, and with nothing else.
func TestKey(t *testing.T) {
	cases := map[string]struct {
		change func(*testing.T, *Part)
		same   bool
	}{
		"Directory": {change: func(*testing.T, *Part) {}, same: true},
		"Cold":      {change: func(_ *testing.T, p *Part) { p.Cold = time.Hour }, same: true},
		"GoSum":     {change: func(t *testing.T, p *Part) { write(t, *p, "go.sum", "\n") }},
		"GoMod": {change: func(t *testing.T, p *Part) {
			write(t, *p, "go.mod", "module example.org/thing\n\ngo 1.26.0\n\nrequire example.org/dep v1.2.3 // a comment\n")
		}},
		"Main":     {change: func(t *testing.T, p *Part) { write(t, *p, "main.go", printsVersion+"\n") }},
		"Package":  {change: func(_ *testing.T, p *Part) { p.Package = "./cmd" }},
		"Ldflags":  {change: func(_ *testing.T, p *Part) { p.Ldflags += " -X main.other=1" }},
		"Revision": {change: func(_ *testing.T, p *Part) { p.Revision = 2 }},
		"GOARCH":   {change: func(t *testing.T, _ *Part) { t.Setenv("GOARCH", "riscv64") }},
		"GOFLAGS":  {change: func(t *testing.T, _ *Part) { t.Setenv("GOFLAGS", "-tags=other") }},
		"Make":     {change: func(t *testing.T, _ *Part) { t.Setenv("GOFLAGS", strings.Join(compilerFlags, " ")) }, same: true},
		"Go":       {change: func(t *testing.T, _ *Part) { fakeGo(t, "[ \"$1\" != env ] || { echo go1.27.0; exit; }") }},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := module(t, printsVersion)
			before := keyOf(t, p)
			changed := clone(t, p)
			tc.change(t, &changed)

			if after := keyOf(t, changed); (before == after) != tc.same {
				t.Errorf("before %s, after %s", before, after)
			}
		})
	}
}

// Otherwise what make test compiles before the parts would be compiled again for them.
func TestMakefileHasTheFlags(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}

	data, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}

	if want := "BUILD_FLAGS    := " + strings.Join(compilerFlags, " ") + "\n"; !strings.Contains(string(data), want) {
		t.Errorf("the Makefile does not have %q", want)
	}
}

func keyOf(t *testing.T, p Part) string {
	t.Helper()

	b, err := newBuilder(nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	key, err := b.key(t.Context(), p, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}

	return key
}

// A clone whose go.sum changes does not keep its program; the other clone's stays in the cache.
func TestChangedModule(t *testing.T) {
	p, bin, goDir := module(t, printsVersion), t.TempDir(), fakeGo(t, "")
	mustBuild(t, bin, p)
	write(t, p, "go.sum", "\n")
	mustBuild(t, bin, p)

	if n := builds(goDir); n != 2 || len(cacheFiles(t)) != 2 {
		t.Errorf("want two programs, got %d builds and %q", n, cacheFiles(t))
	}
}

// What no run has used for 30 days is removed when something else is built; a use counts from now.
func TestExpire(t *testing.T) {
	p, bin := module(t, printsVersion), t.TempDir()
	mustBuild(t, bin, p)

	first, longAgo := cacheFiles(t)[0], time.Now().Add(-unusedFor-time.Hour)
	age := func() {
		if err := os.Chtimes(first, longAgo, longAgo); err != nil {
			t.Fatal(err)
		}
	}

	age()
	mustBuild(t, bin, p)
	write(t, p, "go.sum", "\n")
	mustBuild(t, bin, p)

	if files := cacheFiles(t); len(files) != 2 {
		t.Fatalf("a program that was used is removed: %q", files)
	}

	age()
	write(t, p, "go.sum", "\n\n")
	mustBuild(t, bin, p)

	if files := cacheFiles(t); len(files) != 2 || strings.Contains(strings.Join(files, " "), first) {
		t.Errorf("want %s to be removed, got %q", first, files)
	}
}

// A link of the user to a program of their own is taken as it is.
func TestLinkOfUser(t *testing.T) {
	p, bin := module(t, printsVersion), t.TempDir()
	_, path := mustBuild(t, bin, p)

	other := filepath.Join(t.TempDir(), "mine")
	if err := os.Link(cacheFiles(t)[0], other); err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(os.Remove(path), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}

	mustBuild(t, bin, p)

	if to, err := os.Readlink(path); err != nil || to != other {
		t.Errorf("want a link to %s, got %q, %v", other, to, err)
	}
}

// Clean removes what was built, and nothing else.
func TestClean(t *testing.T) {
	p, bin := module(t, printsVersion), t.TempDir()
	p.Name = Helm
	mustBuild(t, bin, p)

	beside := filepath.Join(os.Getenv(envCache), "kausality", "other")

	for _, file := range []string{beside, filepath.Join(bin, "helmsman"), filepath.Join(bin, Kausality)} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 { // There may be nothing to remove.
		if err := Clean(t.Context(), nil, bin); err != nil {
			t.Fatal(err)
		}
	}

	assertFiles(t, bin, "helmsman")

	if _, err := os.Stat(filepath.Join(filepath.Dir(beside), "parts")); !os.IsNotExist(err) {
		t.Errorf("the cache is still there: %v", err)
	}

	if _, err := os.Stat(beside); err != nil {
		t.Errorf("what is beside the cache was removed: %v", err)
	}

	mustBuild(t, bin, p)
}

// Clean waits for a build, and a builder that waits for Clean does not take a lock that was removed.
func TestCleanWaits(t *testing.T) {
	module(t, printsVersion)

	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}

	unlock, err := c.lock(t.Context(), nil, "thing-v1.2.3-key", "thing v1.2.3")
	if err != nil {
		t.Fatal(err)
	}

	waiting, cleaned := make(chan string, 1), make(chan error, 1)

	go func() { cleaned <- Clean(t.Context(), writerFn(func(s string) { waiting <- s }), t.TempDir()) }()

	if got, want := <-waiting, "waiting for another process that builds thing-v1.2.3-key\n"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}

	unlock()

	if err := <-cleaned; err != nil {
		t.Fatal(err)
	}

	if files, err := os.ReadDir(c.dir); !os.IsNotExist(err) {
		t.Errorf("want no cache, got %v, %v", files, err)
	}
}
