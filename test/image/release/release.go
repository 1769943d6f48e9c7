package release

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Sums is the name of the file with the checksums of a release.
const Sums = "checksums.txt"

// epoch is the time of everything in an archive.
var epoch = time.Unix(0, 0).UTC()

// version of a release: semantic, with a v in front.
var version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// CheckVersion returns an error for what is not the version of a release, as v0.1.0 or v0.1.0-rc.1.
func CheckVersion(v string) error {
	if !version.MatchString(v) {
		return fmt.Errorf("%q is not the version of a release: set VERSION to one like v0.1.0", v)
	}
	return nil
}

// Layout writes images of one program for several architectures, as tarballs of `docker save`, as an OCI image layout with one
// index in a new directory, from which `crane push` and `skopeo copy` publish it. It returns the digest of the index.
func Layout(dir string, images []string) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, file := range images {
		img, err := tarball.ImageFromPath(file, nil)
		if err != nil {
			return "", fmt.Errorf("cannot read the image %s: %w", file, err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			return "", fmt.Errorf("cannot read the configuration of %s: %w", file, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}}})
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("cannot replace the layout: %w", err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendIndex(index)
	}
	if err != nil {
		return "", fmt.Errorf("cannot write the layout: %w", err)
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// Archive writes files, by their base names, as a gzipped tarball.
func Archive(output string, files []string) error {
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	w := tar.NewWriter(zipped)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("cannot read what to archive: %w", err)
		}
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("cannot read what to archive: %w", err)
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		h := &tar.Header{Name: filepath.Base(file), Mode: mode, Size: int64(len(data)), ModTime: epoch, Format: tar.FormatUSTAR}
		if err := errors.Join(w.WriteHeader(h), ignore(w.Write(data))); err != nil {
			return fmt.Errorf("cannot archive %s: %w", file, err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("cannot write the archive: %w", err)
	}
	return write(output, buf.Bytes())
}

func ignore(_ int, err error) error { return err }

// write a file under another name first: what exists is whole.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("cannot create the directory of %s: %w", path, err)
	}
	part := path + ".part"
	err := os.WriteFile(part, data, 0o644) //nolint:gosec // A release is public.
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot write %s: %w", path, err), os.RemoveAll(part))
	}
	return nil
}

// Plugin of kubectl, as krew installs it.
type Plugin struct {
	// Version of the release.
	Version string
	// URL below which the archives are published.
	URL string
	// Archives of the plugin, named NAME_VERSION_OS_ARCH.tar.gz.
	Archives []string
}

// manifest is the format of krew's index (v1alpha2).
type manifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       spec              `json:"spec"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

const (
	home        = "https://github.com/kausality-io/function-kausality"
	description = `Every change in a Crossplane platform carries its cause; those that have none are stopped.
This plugin shows why an object changed, what waits for a decision and what is not protected, and approves, rejects,
freezes and snoozes changes.
`
)

// Krew writes the manifest of a plugin.
func Krew(output string, p Plugin) error {
	m := manifest{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "kausality"},
		Spec: spec{Version: p.Version, Homepage: home, ShortDescription: "Show and decide why infrastructure changes", Description: description}}
	for _, archive := range p.Archives {
		name := filepath.Base(archive)
		parts := strings.Split(strings.TrimSuffix(name, ".tar.gz"), "_")
		if len(parts) != 4 || parts[1] != p.Version {
			return fmt.Errorf("%s is not named like kubectl-kausality_%s_linux_amd64.tar.gz", name, p.Version)
		}
		sum, err := sum(archive)
		if err != nil {
			return err
		}
		one := platform{URI: strings.TrimSuffix(p.URL, "/") + "/" + p.Version + "/" + name, SHA256: sum, Bin: parts[0]}
		if one.Selector.MatchLabels = map[string]string{"os": parts[2], "arch": parts[3]}; parts[2] == "windows" {
			one.Bin += ".exe"
		}
		m.Spec.Platforms = append(m.Spec.Platforms, one)
	}
	if len(m.Spec.Platforms) == 0 {
		return errors.New("name the archives of the plugin")
	}
	slices.SortFunc(m.Spec.Platforms, func(a, b platform) int { return cmp.Compare(a.URI, b.URI) })
	raw, err := yaml.Marshal(m)
	if err != nil {
		return fmt.Errorf("cannot marshal the manifest: %w", err)
	}
	return write(output, raw)
}

// Checksums writes Sums into a directory: the SHA-256 of each file in it, not of directories, as `sha256sum --check` reads them.
func Checksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read the release: %w", err)
	}
	var b strings.Builder
	for _, e := range entries { // sorted by name
		if e.IsDir() || e.Name() == Sums {
			continue
		}
		sum, err := sum(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, e.Name())
	}
	return write(filepath.Join(dir, Sums), []byte(b.String()))
}

// sum of a file: SHA-256, in hex.
func sum(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read a file of the release: %w", err)
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:]), nil
}
