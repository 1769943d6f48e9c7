package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const (
	// envAssets names a directory with ready-made control plane binaries, as envtest knows it.
	envAssets = "KUBEBUILDER_ASSETS"

	// EnvPrebuilt, set to anything, means that Prepare has just run: the programs of this repository
	// are taken as they are, so that no test compiles.
	EnvPrebuilt = "KAUSALITY_PREBUILT"
)

// Paths maps the name of a part to the absolute path of its program.
type Paths map[string]string

// Ensure makes sure that the named parts exist in binDir (empty: DefaultBinDir) and returns where. It
// builds what is missing there and in the cache, and writes one progress line for each build to out
// (nil: nowhere). What exists costs nothing and prints nothing.
func Ensure(ctx context.Context, out io.Writer, binDir string, names ...string) (Paths, error) {
	ps, err := lookupAll(names)
	if err != nil {
		return nil, err
	}

	return Build(ctx, out, binDir, ps...)
}

// Prepare makes sure that everything that tests run exists: every part of the table but those named
// in without, and the source of the modules whose CRDs tests install. It always builds the programs of
// this repository, whatever EnvPrebuilt is, and verifies the content of programs in the cache.
func Prepare(ctx context.Context, out io.Writer, binDir string, without ...string) error {
	b, err := newBuilder(out, binDir)
	if err != nil {
		return err
	}

	b.prebuilt, b.thorough = false, true

	for _, p := range All() {
		if slices.Contains(without, p.Name) {
			continue
		}

		if _, err := b.ensure(ctx, p); err != nil {
			return err
		}
	}

	for _, p := range append(All(), ArgoCD) {
		if p.CRDDir == "" {
			continue
		}

		if _, err := p.moduleDir(ctx, b.root); err != nil {
			return err
		}
	}

	return nil
}

// Build is Ensure for parts that are not in the table.
func Build(ctx context.Context, out io.Writer, binDir string, ps ...Part) (Paths, error) {
	b, err := newBuilder(out, binDir)
	if err != nil {
		return nil, err
	}

	paths := Paths{}

	for _, p := range ps {
		path, err := b.ensure(ctx, p)
		if err != nil {
			return nil, err
		}

		paths[p.Name] = path
	}

	return paths, nil
}

// Missing returns those of the named parts that Ensure would have to build from their modules, so that
// a caller can report beforehand what a first run costs. Programs of this repository are not counted.
func Missing(binDir string, names ...string) ([]Part, error) {
	ps, err := lookupAll(names)
	if err != nil {
		return nil, err
	}

	b, err := newBuilder(io.Discard, binDir)
	if err != nil {
		return nil, err
	}

	var missing []Part

	for _, p := range ps {
		version, err := p.version(b.root)
		if err != nil {
			return nil, err
		}

		if asset(p.Name) == "" && !p.ours() && !b.done(p, version) && !b.isCached(p, version) {
			missing = append(missing, p)
		}
	}

	return missing, nil
}

// A builder builds parts of one repository into one directory.
type builder struct {
	root, binDir string
	out          io.Writer

	// prebuilt: programs of this repository that exist are up to date.
	prebuilt bool

	// thorough: what is linked to the cache is verified, and built by the current toolchain.
	thorough bool

	// toolchains are the keys of toolchains by the directory of the module.
	toolchains map[string]string

	// warned: it was reported that the cache cannot be used.
	warned bool
}

func newBuilder(out io.Writer, binDir string) (*builder, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}

	if binDir == "" {
		binDir = filepath.Join(root, "bin")
	}

	if binDir, err = filepath.Abs(binDir); err != nil {
		return nil, fmt.Errorf("cannot find the directory for programs: %w", err)
	}

	if out == nil {
		out = io.Discard
	}

	return &builder{
		root: root, binDir: binDir, out: out, prebuilt: os.Getenv(EnvPrebuilt) != "", toolchains: map[string]string{},
	}, nil
}

// done reports whether nothing needs to be done for the part's program, in almost no time.
func (b *builder) done(p Part, version string) bool {
	target := b.target(p, version)
	if p.ours() {
		return b.prebuilt && isProgram(target)
	}

	path, err := os.Readlink(target)
	if err != nil {
		// It was built into the directory, because there was no cache.
		return isProgram(target) && (!b.thorough || b.stamped(p, version, target))
	}

	e, ok := parseEntry(path, p.fileName(version))
	if !ok {
		return isProgram(target) // It is a link of the user.
	}

	return !b.thorough && b.current(p, version, e)
}

// current reports whether a linked entry was built from the part's current source, by any toolchain.
func (b *builder) current(p Part, version string, e entry) bool {
	source, err := b.sourceKey(p, version)
	if err != nil {
		return false
	}

	if _, ok := parseEntry(e.path, p.fileName(version)+"-"+source); !ok || !e.intact() {
		return false
	}

	e.use()

	return true
}

func (b *builder) target(p Part, version string) string {
	return filepath.Join(b.binDir, p.fileName(version))
}

// ensure returns the path of the part's program, having built it if need be.
func (b *builder) ensure(ctx context.Context, p Part) (string, error) {
	if err := p.validate(); err != nil {
		return "", err
	}

	if path := asset(p.Name); path != "" && !p.ours() {
		_, _ = fmt.Fprintf(b.out, "using %s of %s: %s\n", p.Name, envAssets, path)
		return path, nil
	}

	version, err := p.version(b.root)
	if err != nil {
		return "", err
	}

	target := b.target(p, version)
	if b.done(p, version) {
		return target, nil
	}

	if err := os.MkdirAll(b.binDir, 0o755); err != nil {
		return "", fmt.Errorf("cannot create the directory for programs: %w", err)
	}

	unlock, err := lock(ctx, b.out, filepath.Join(b.binDir, "."+filepath.Base(target)+lockSuffix), p.label(version))
	if err != nil {
		return "", err
	}
	defer unlock()

	switch {
	case b.done(p, version): // Another process has built it while this one waited for the lock.
		return target, nil
	case p.ours():
		return target, b.build(ctx, p, version, target)
	default:
		return target, b.provide(ctx, p, version, target)
	}
}

// asset returns the path of a ready-made program in KUBEBUILDER_ASSETS, or nothing. Only the
// Kubernetes parts are taken from there.
func asset(name string) string {
	dir := os.Getenv(envAssets)
	if dir == "" {
		return ""
	}

	switch name {
	case Etcd, KubeAPIServer, KubeControllerManager, Kubectl:
	default:
		return ""
	}

	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil || !isProgram(path) {
		return ""
	}

	return path
}

// isProgram reports whether path is a file that can be run.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
