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
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	// Entrypoint of the image; it takes no arguments.
	Entrypoint = "/kausality"
	// User and group of the image: nonroot, as in distroless images.
	User = "65532:65532"

	repository = "function-kausality"
	passwd     = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	groups     = "root:x:0:\nnonroot:x:65532:\n"
	nonroot    = 65532
)

// epoch is the time of everything in the image, so that the same binary gives
// the same image.
var epoch = time.Unix(0, 0).UTC()

// Options of Build.
type Options struct {
	// Binary is a static program for Linux.
	Binary string
	// Arch is the architecture in Go's name.
	Arch string
	// Version of the product.
	Version string
	// Output is the tarball to write.
	Output string
}

// Build writes the image of a binary as a tarball that `docker load` and
// `crossplane xpkg build --embed-runtime-image-tarball` read, and returns the
// image's digest.
func Build(o Options) (string, error) {
	if o.Binary == "" || o.Arch == "" || o.Version == "" || o.Output == "" {
		return "", errors.New("cannot build the image: --binary, --arch, --version and --output are all needed")
	}
	if err := checkBinary(o.Binary, o.Arch); err != nil {
		return "", err
	}
	img, err := image(o)
	if err != nil {
		return "", err
	}
	tag, err := name.NewTag(repository + ":" + tagOf(o.Version))
	if err != nil {
		return "", fmt.Errorf("cannot tag the image: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(o.Output), 0o750); err != nil {
		return "", fmt.Errorf("cannot create the directory of the image: %w", err)
	}
	if err := writeTarball(o.Output, tag, img); err != nil {
		return "", err
	}
	digest, err := img.Digest()
	return digest.String(), err
}

// writeTarball under another name first: what exists is whole.
func writeTarball(path string, tag name.Tag, img v1.Image) error {
	part := path + ".part"
	f, err := os.Create(part)
	if err != nil {
		return fmt.Errorf("cannot create the image tarball: %w", err)
	}
	err = errors.Join(tarball.Write(tag, img, f), f.Close())
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the image tarball: %w", errors.Join(err, os.Remove(part)))
	}
	return nil
}

func image(o Options) (v1.Image, error) {
	binary, err := os.ReadFile(o.Binary)
	if err != nil {
		return nil, fmt.Errorf("cannot read the program: %w", err)
	}
	base, err := layer(
		directory("etc/", 0o755, 0), file("etc/passwd", 0o644, []byte(passwd)), file("etc/group", 0o644, []byte(groups)),
		directory("home/", 0o755, 0), directory("home/nonroot/", 0o700, nonroot), directory("tmp/", 0o1777, 0),
	)
	if err != nil {
		return nil, err
	}
	program, err := layer(file(Entrypoint[1:], 0o755, binary))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(empty.Image,
		mutate.Addendum{Layer: base, History: v1.History{CreatedBy: "users", Created: v1.Time{Time: epoch}}},
		mutate.Addendum{Layer: program, History: v1.History{CreatedBy: Entrypoint, Created: v1.Time{Time: epoch}}},
	)
	if err != nil {
		return nil, fmt.Errorf("cannot put the layers together: %w", err)
	}
	return configure(img, o)
}

func configure(img v1.Image, o Options) (v1.Image, error) {
	have, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("cannot read the image's configuration: %w", err)
	}
	c := have.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", o.Arch, v1.Time{Time: epoch}
	c.Config = v1.Config{
		Entrypoint: []string{Entrypoint}, User: User, WorkingDir: "/",
		Env: []string{"PATH=/"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    repository,
			"org.opencontainers.image.version":  o.Version,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/kausality-io/function-kausality",
		},
	}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		return nil, fmt.Errorf("cannot configure the image: %w", err)
	}
	return img, nil
}

// machines by architecture.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkBinary: an image without a libc runs nothing but static programs.
func checkBinary(path, arch string) error {
	machine, ok := machines[arch]
	if !ok {
		return fmt.Errorf("cannot build an image for %q: --arch must be amd64 or arm64", arch)
	}
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("cannot use %s: it is no Linux program: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if f.Machine != machine {
		return fmt.Errorf("cannot use %s: it is for %s, not %s", path, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("cannot use %s: it is not static; build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}

// tagOf turns a version into a tag: a + is legal in one and not in the other.
func tagOf(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("-")))
}

type entry struct {
	header tar.Header
	data   []byte
}

func file(path string, mode int64, data []byte) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(data)), ModTime: epoch}, data}
}

func directory(path string, mode int64, owner int) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: path, Mode: mode, Uid: owner, Gid: owner, ModTime: epoch}, nil}
}

func layer(entries ...entry) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, fmt.Errorf("cannot write a layer: %w", err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("cannot write a layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot write a layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a layer: %w", err)
	}
	return l, nil
}
