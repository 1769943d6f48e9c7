package oci

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const program = "package main\n\nfunc main() {}\n"

// compile a small program for an architecture.
func compile(t *testing.T, arch string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", out, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if raw, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot compile: %v\n%s", err, raw)
	}
	return out
}

func TestBuildAndInspect(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			binary, dir := compile(t, arch), t.TempDir()
			one, two := filepath.Join(dir, "one.tar"), filepath.Join(dir, "two.tar")
			for _, output := range []string{one, two} {
				if _, err := Build(Options{Binary: binary, Arch: arch, Version: "v0.1.0+dirty", Output: output}); err != nil {
					t.Fatal(err)
				}
			}
			a, errA := os.ReadFile(one)
			b, errB := os.ReadFile(two)
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("Build() twice: not the same bytes (%v, %v)", errA, errB)
			}
			r, err := Inspect(one)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "out", "kausality")
			if err := Extract(one, program); err != nil {
				t.Fatal(err)
			}
			want, errW := os.ReadFile(binary)
			got, errG := os.ReadFile(program)
			if errW != nil || errG != nil || !bytes.Equal(want, got) {
				t.Errorf("Extract(): not the program that went in (%v, %v)", errW, errG)
			}
			if got := r.Config.Architecture; got != arch {
				t.Errorf("architecture: want %s, got %s", arch, got)
			}
			if want := "/kausality"; !strings.Contains(r.String(), want) || r.Package != nil {
				t.Errorf("report: want %s and no package, got\n%s", want, r)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		o    Options
		want string
	}{
		"Nothing":     {Options{}, "are all needed"},
		"OtherArch":   {Options{Binary: compile(t, "amd64"), Arch: "arm64", Version: "v", Output: "x"}, "not arm64"},
		"UnknownArch": {Options{Binary: text, Arch: "sparc", Version: "v", Output: "x"}, "--arch must be"},
		"NoProgram":   {Options{Binary: text, Arch: "amd64", Version: "v", Output: "x"}, "no Linux program"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Build(tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Build(): want an error with %q, got %v", tc.want, err)
			}
		})
	}
}

func TestInspectFindsFaults(t *testing.T) {
	binary, dir := compile(t, "amd64"), t.TempDir()
	good := filepath.Join(dir, "good.tar")
	if _, err := Build(Options{Binary: binary, Arch: "amd64", Version: "v1", Output: good}); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(good, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	bad := config.DeepCopy()
	bad.Architecture, bad.Config.Entrypoint, bad.Config.User = "arm64", []string{"/bin/sh"}, "0"
	bad.Config.Cmd = []string{"webhook"}
	if img, err = mutate.ConfigFile(img, bad); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "bad.tar")
	if err := tarball.WriteToFile(file, nil, img); err != nil {
		t.Fatal(err)
	}
	_, err = Inspect(file)
	for _, want := range []string{"entrypoint is", "starts with arguments", `runs as "0"`, "is for EM_X86_64"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Inspect(): want an error with %q, got %v", want, err)
		}
	}
	if _, err := Inspect(binary); err == nil {
		t.Error("Inspect() of a program: want an error")
	}
}

func TestParsePackage(t *testing.T) {
	stream := `---
apiVersion: meta.pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-kausality
spec:
  capabilities: [composition]
  crossplane:
    version: ">=v1.20.0"
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: inputs.kausality.fn.crossplane.io
`
	got, err := parsePackage([]byte(stream))
	if err != nil {
		t.Fatal(err)
	}
	want := &Package{Kind: "Function", Name: "function-kausality", Crossplane: ">=v1.20.0",
		Capabilities: []string{"composition"}, CRDs: []string{"inputs.kausality.fn.crossplane.io"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parsePackage(): -want, +got:\n%s", diff)
	}
	if _, err := parsePackage([]byte("kind: Nothing\n")); err == nil {
		t.Error("parsePackage() without metadata: want an error")
	}
}
