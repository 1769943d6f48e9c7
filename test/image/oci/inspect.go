package oci

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"
)

const (
	// packageLabel, with a layer's digest after it, marks the layer that holds
	// a package's metadata in Crossplane's packages.
	packageLabel = "io.crossplane.xpkg:"
	packageBase  = "base"
	packageFile  = "package.yaml"
)

// Report on an image.
type Report struct {
	File   string
	Digest string
	Config v1.ConfigFile
	Layers []Layer
	// Package is nil where the image is no Crossplane package.
	Package *Package
}

// Layer of an image.
type Layer struct {
	Digest string
	// Size compressed, in bytes.
	Size int64
	// Holds is "package" for package metadata; else the files.
	Holds string
}

// Package is the metadata of a Crossplane package.
type Package struct {
	Kind         string
	Name         string
	Crossplane   string
	Capabilities []string
	// CRDs by name.
	CRDs []string
}

// Inspect an image tarball or a package. The Report is nil where the file is
// neither; the error joins everything that is wrong with it, a line each.
func Inspect(path string) (*Report, error) {
	r, program, err := load(path)
	if err != nil {
		return r, err
	}
	var wrong error
	for _, problem := range append(r.checkConfig(), r.checkProgram(program)...) {
		wrong = errors.Join(wrong, fmt.Errorf("%s: %s", path, problem))
	}
	return r, wrong
}

// Extract the program that an image starts into an executable file, so that
// what is tested is what is shipped.
func Extract(path, output string) error {
	_, program, err := load(path)
	if err != nil {
		return err
	}
	if program == nil {
		return fmt.Errorf("%s: there is no %s in it", path, Entrypoint)
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	return os.WriteFile(output, program.data, 0o755) //nolint:gosec // It is to be run.
}

// load an image; program is what its entrypoint starts, nil where it is missing.
func load(path string) (*Report, *entry, error) {
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: cannot read it as an image: %w", path, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: cannot read the image's configuration: %w", path, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: cannot compute the image's digest: %w", path, err)
	}
	r := &Report{File: path, Digest: digest.String(), Config: *config}
	program, err := r.read(img)
	if err != nil {
		return r, nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, program, nil
}

// read the layers; program is what the entrypoint starts, nil where it is
// missing.
func (r *Report) read(img v1.Image) (program *entry, err error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("cannot read the layers: %w", err)
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return nil, fmt.Errorf("cannot read a layer: %w", err)
		}
		size, err := l.Size()
		if err != nil {
			return nil, fmt.Errorf("cannot read layer %s: %w", digest, err)
		}
		files, err := filesOf(l)
		if err != nil {
			return nil, fmt.Errorf("cannot read layer %s: %w", digest, err)
		}
		kind := r.Config.Config.Labels[packageLabel+digest.String()]
		r.Layers = append(r.Layers, Layer{Digest: digest.String(), Size: size, Holds: holds(kind, files)})
		if kind == packageBase {
			if r.Package, err = parsePackage(files[packageFile].data); err != nil {
				return nil, err
			}
			continue
		}
		if e, ok := files[strings.TrimPrefix(Entrypoint, "/")]; ok {
			program = &e
		}
	}
	return program, nil
}

func holds(kind string, files map[string]entry) string {
	if kind != "" {
		return "package " + kind
	}
	var names []string
	for n := range files {
		names = append(names, "/"+n)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func filesOf(l v1.Layer) (map[string]entry, error) {
	rc, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = rc.Close() }()
	files := map[string]entry{}
	for r := tar.NewReader(rc); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "/")] = entry{*h, data}
	}
}

// parsePackage reads the stream of YAML documents in a package.
func parsePackage(stream []byte) (*Package, error) {
	p := &Package{}
	for doc := range strings.SplitSeq("\n"+string(stream), "\n---") {
		var o struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				Capabilities []string `json:"capabilities"`
				Crossplane   struct {
					Version string `json:"version"`
				} `json:"crossplane"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return nil, fmt.Errorf("the package's %s does not parse: %w", packageFile, err)
		}
		switch {
		case strings.HasPrefix(o.APIVersion, "meta.pkg.crossplane.io/"):
			p.Kind, p.Name, p.Crossplane, p.Capabilities = o.Kind, o.Metadata.Name, o.Spec.Crossplane.Version, o.Spec.Capabilities
		case o.Kind == "CustomResourceDefinition":
			p.CRDs = append(p.CRDs, o.Metadata.Name)
		}
	}
	if p.Name == "" {
		return nil, errors.New("the package holds no metadata of meta.pkg.crossplane.io")
	}
	return p, nil
}

func (r *Report) checkConfig() []string {
	var wrong []string
	c := r.Config.Config
	if r.Config.OS != "linux" {
		wrong = append(wrong, fmt.Sprintf("is for %q, not linux", r.Config.OS))
	}
	if !slices.Equal(c.Entrypoint, []string{Entrypoint}) {
		wrong = append(wrong, fmt.Sprintf("entrypoint is %q, not %q", c.Entrypoint, []string{Entrypoint}))
	}
	if len(c.Cmd) > 0 {
		wrong = append(wrong, fmt.Sprintf("starts with arguments %q: the function is what runs without any", c.Cmd))
	}
	if c.User != User {
		wrong = append(wrong, fmt.Sprintf("runs as %q, not as %s", c.User, User))
	}
	if r.Package != nil && (r.Package.Kind != "Function" || r.Package.Name != repository) {
		wrong = append(wrong, fmt.Sprintf("is %s %s, not Function %s", r.Package.Kind, r.Package.Name, repository))
	}
	return wrong
}

func (r *Report) checkProgram(program *entry) []string {
	if program == nil {
		return []string{Entrypoint + " is missing"}
	}
	if program.header.Mode&0o111 != 0o111 {
		return []string{fmt.Sprintf("%s cannot be run: its mode is %#o", Entrypoint, program.header.Mode)}
	}
	f, err := elf.NewFile(bytes.NewReader(program.data))
	if err != nil {
		return []string{fmt.Sprintf("%s is no Linux program: %v", Entrypoint, err)}
	}
	if f.Machine != machines[r.Config.Architecture] {
		return []string{fmt.Sprintf("%s is for %s, the image for %q", Entrypoint, f.Machine, r.Config.Architecture)}
	}
	return nil
}

// String shows the report to users.
func (r *Report) String() string {
	var b strings.Builder
	c := r.Config.Config
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "  %-13s "+format+"\n", append([]any{key}, args...)...)
	}
	fmt.Fprintf(&b, "%s\n", r.File)
	line("digest", "%s", r.Digest)
	line("platform", "%s/%s", r.Config.OS, r.Config.Architecture)
	line("entrypoint", "%q, arguments %q, user %s", c.Entrypoint, c.Cmd, c.User)
	line("version", "%s", c.Labels["org.opencontainers.image.version"])
	if p := r.Package; p != nil {
		line("package", "%s %s, Crossplane %s, capabilities %s", p.Kind, p.Name, p.Crossplane, strings.Join(p.Capabilities, ","))
		line("CRDs", "%s", strings.Join(p.CRDs, " "))
	}
	for _, l := range r.Layers {
		line("layer", "%.19s %9d bytes  %s", l.Digest, l.Size, l.Holds)
	}
	return b.String()
}
