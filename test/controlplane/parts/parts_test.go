package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/internal/await"
)

// TestMain keeps the tests out of the user's cache of programs, but lets them use Go's.
func TestMain(m *testing.M) {
	if os.Getenv(builderHelper) != "" {
		buildForever()
	}

	os.Exit(run(m))
}

func run(m *testing.M) int {
	gocache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		panic(err)
	}

	dir, err := os.MkdirTemp("", "parts-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // The tests have ended.

	for name, value := range map[string]string{envCache: dir, "GOCACHE": strings.TrimSpace(string(gocache)), envAssets: "", EnvPrebuilt: ""} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}

	return m.Run()
}

// module writes a Go module with a main package that is the given text, and returns a part of it. The
// test gets an empty cache.
func module(t *testing.T, text string) Part {
	t.Helper()
	t.Setenv(envCache, t.TempDir())

	dir := t.TempDir()

	for name, data := range map[string]string{
		"go.mod":  "module example.org/thing\n\ngo 1.26.0\n\nrequire example.org/dep v1.2.3\n",
		"main.go": text,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return Part{Name: "thing", Dir: dir, Module: "example.org/dep", Ldflags: "-X main.version={version}/{major}/{minor}"}
}

const printsVersion = "package main\n\nvar version string\n\nfunc main() { print(version) }\n"

func TestBuild(t *testing.T) {
	p, bin := module(t, printsVersion), t.TempDir()

	paths, err := Build(t.Context(), nil, bin, p)
	if err != nil {
		t.Fatal(err)
	}

	if want := filepath.Join(bin, "thing-v1.2.3"); paths["thing"] != want {
		t.Fatalf("want %s, got %s", want, paths["thing"])
	}

	out, err := exec.Command(paths["thing"]).CombinedOutput()
	if err != nil || string(out) != "v1.2.3/1/2" {
		t.Errorf("want the version, got %q, %v", out, err)
	}

	// The same version is not built again, which takes no go command.
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())

	if _, err := Build(t.Context(), nil, bin, p); err != nil {
		t.Errorf("a second build: %v", err)
	}

	t.Setenv("PATH", path)

	// A part of this repository is, and keeps the program that worked.
	if err := os.WriteFile(filepath.Join(p.Dir, "main.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}

	ours := Part{Name: "ours", Dir: p.Dir}
	if _, err := Build(t.Context(), nil, bin, ours); err == nil {
		t.Error("want a part of this repository to be built every time")
	}

	assertFiles(t, bin, "thing-v1.2.3")
}

// After Prepare no test compiles a program of this repository that exists; one that is missing is built.
func TestPrebuilt(t *testing.T) {
	p, bin := module(t, printsVersion), t.TempDir()
	ours := Part{Name: "ours", Dir: p.Dir}

	t.Setenv(EnvPrebuilt, "1")

	if _, err := Build(t.Context(), nil, bin, ours); err != nil {
		t.Fatalf("a missing program is not built: %v", err)
	}

	if err := os.WriteFile(filepath.Join(p.Dir, "main.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := Build(t.Context(), nil, bin, ours); err != nil {
		t.Errorf("a program that exists is built again: %v", err)
	}

	t.Setenv(EnvPrebuilt, "")

	if _, err := Build(t.Context(), nil, bin, ours); err == nil {
		t.Error("without the variable the program is not built")
	}
}

// A program that was built another way at the same version has another file name.
func TestRevision(t *testing.T) {
	p := Part{Name: "thing", Module: "example.org/dep"}
	for revision, want := range []string{"thing-v1.2.3", "thing-v1.2.3", "thing-v1.2.3-r2"} {
		p.Revision = revision
		if got := p.fileName("v1.2.3"); got != want {
			t.Errorf("revision %d: want %s, got %s", revision, want, got)
		}
	}
}

func TestBuildFails(t *testing.T) {
	p, bin := module(t, "package main\n\nfunc main() { undefined() }\n"), t.TempDir()

	_, err := Build(t.Context(), nil, bin, p)
	if err == nil {
		t.Fatal("want an error")
	}

	for _, want := range []string{"cannot build thing v1.2.3", p.Dir, "undefined: undefined"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := Build(ctx, nil, bin, p); err == nil || strings.Contains(err.Error(), "undefined") {
		t.Errorf("want an error about the context, got %v", err)
	}

	assertFiles(t, bin)
}

// assertFiles checks what is in dir, apart from lock files.
func assertFiles(t *testing.T, dir string, want ...string) {
	t.Helper()

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	var got []string

	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			got = append(got, e.Name())
		}
	}

	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("want files %q, got %q", want, got)
	}
}

// Of several builders at once, one builds; the others wait and take what it built.
func TestOneBuilds(t *testing.T) {
	p, bin := module(t, printsVersion), t.TempDir()

	unlock, err := lock(t.Context(), io.Discard, filepath.Join(bin, ".thing-v1.2.3.lock"), "thing")
	if err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup

	waiting := make(chan struct{}, 3)

	for range 3 {
		wg.Go(func() {
			out := writerFn(func(string) { waiting <- struct{}{} })
			if _, err := Build(t.Context(), out, bin, p); err != nil {
				t.Errorf("a waiting builder: %v", err)
			}
		})
	}

	for range 3 {
		<-waiting
	}

	// We are the one that builds. What the others would make could not be distinguished from ours, unless
	// they failed.
	if err := goBuild(t.Context(), p, "", "v1.2.3", filepath.Join(bin, "thing-v1.2.3")); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(p.Dir, "main.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}

	unlock()
	wg.Wait()
}

func TestAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(envAssets, dir)

	for _, name := range []string{Etcd, Crossplane} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // A program.
			t.Fatal(err)
		}
	}

	if err := os.WriteFile(filepath.Join(dir, KubeAPIServer), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	var out strings.Builder

	paths, err := Ensure(t.Context(), &out, t.TempDir(), Etcd)
	if err != nil {
		t.Fatal(err)
	}

	if want := filepath.Join(dir, Etcd); paths[Etcd] != want || !strings.Contains(out.String(), want) {
		t.Errorf("want %s, got %s and %q", want, paths[Etcd], out.String())
	}

	missing, err := Missing(t.TempDir(), Etcd, KubeAPIServer, Crossplane)
	if err != nil {
		t.Fatal(err)
	}

	if len(missing) != 2 || missing[0].Name != KubeAPIServer || missing[1].Name != Crossplane {
		t.Errorf("want what is no program, and what is not of Kubernetes, to be missing; got %v", missing)
	}
}

func TestTable(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}

	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			version, err := p.Version()
			if err != nil {
				t.Fatal(err)
			}

			if p.ours() {
				if _, err := os.Stat(filepath.Join(p.dir(root), p.Package)); err != nil {
					t.Error(err)
				}

				return
			}

			if !strings.HasPrefix(version, "v") || strings.Contains(p.linkerFlags(version), "{") {
				t.Errorf("version %q, flags %q", version, p.linkerFlags(version))
			}

			if p.CRDDir == "" {
				return
			}

			crds, err := CRDs(t.Context(), p.Name)
			if err != nil {
				t.Fatal(err)
			}

			if !strings.Contains(string(crds), "kind: CustomResourceDefinition") {
				t.Error("there is no CustomResourceDefinition")
			}
		})
	}

	if _, err := Ensure(t.Context(), nil, "", "kube-scheduler"); err == nil || !strings.Contains(err.Error(), KubeAPIServer) {
		t.Errorf("want an error with the parts that exist, got %v", err)
	}

	if _, err := CRDs(t.Context(), Etcd); err == nil {
		t.Error("want an error for a part without CRDs")
	}
}

// TestProgress: a build of some time is shown as it begins and ends, a quick one is not.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out []string
		show := writerFn(func(s string) { out = append(out, s) })

		p := startProgress(show, "thing v1", time.Minute)
		await.Sleep(quiet + time.Second/10)
		p.done()

		p = startProgress(show, "thing v1", 0)
		p.done()

		assert.Equal(t, []string{"building thing v1 (about 1m0s with a cold cache)\n", "built thing v1 in 1.1s\n"}, out)
	})
}

func TestTail(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "go: downloading m v%d\nline %d\n", i, i)
	}

	got := tail(b.String())
	if n := len(strings.Split(got, "\n")); n != tailLines || strings.Contains(got, "downloading") || !strings.HasSuffix(got, "line 39") {
		t.Errorf("got %d lines: %s", n, got)
	}
}

type writerFn func(string)

func (f writerFn) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}
