package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"
)

func TestCheckVersion(t *testing.T) {
	for v, good := range map[string]bool{
		"v0.1.0": true, "v1.2.3-rc.1": true, "": false, "0.1.0": false, "v1": false, "v1.2": false, "v01.2.3": false,
		"596c5dc": false, "v0.1.0-3-g596c5dc-dirty": true, "v1.2.3 ": false,
	} {
		if err := CheckVersion(v); (err == nil) != good {
			t.Errorf("CheckVersion(%q): %v", v, err)
		}
	}
}

func imageFor(t *testing.T, arch string) string {
	t.Helper()
	img, err := random.Image(100, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), arch+".tar")
	if err := tarball.WriteToFile(path, name.MustParseReference("function-kausality:v1"), img); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "image")
	images := []string{imageFor(t, "amd64"), imageFor(t, "arm64")}
	digest, err := Layout(dir, images)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Layout(dir, images)
	if err != nil || again != digest {
		t.Errorf("the same images give %s, then %s: %v", digest, again, err)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Digest.String() != digest {
		t.Fatalf("the layout has %+v, want %s alone: %v", top, digest, err)
	}
	index, err := root.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	of, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range of.Manifests {
		have = append(have, m.Platform.OS+"/"+m.Platform.Architecture)
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if layers, err := img.Layers(); err != nil || len(layers) != 2 {
			t.Errorf("%s has %d layers: %v", have[len(have)-1], len(layers), err)
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, have); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, err := Layout(dir, []string{"/does/not/exist"}); err == nil {
		t.Error("want an error for an image that does not exist")
	}
}

func TestPluginFiles(t *testing.T) {
	dir := t.TempDir()
	program, license := filepath.Join(dir, "src", "kubectl-kausality"), filepath.Join(dir, "src", "LICENSE")
	for path, mode := range map[string]os.FileMode{program: 0o700, license: 0o600} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(filepath.Base(path)), mode)); err != nil {
			t.Fatal(err)
		}
	}
	var archives []string
	for _, target := range []string{"windows_amd64", "linux_arm64"} {
		archive := filepath.Join(dir, "out", "kubectl-kausality_v0.1.0_"+target+".tar.gz")
		if err := Archive(archive, []string{program, license}); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	first, err := os.ReadFile(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(archives[1]); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same files give other archives: %v", err)
	}
	if diff := cmp.Diff(map[string]int64{"kubectl-kausality": 0o755, "LICENSE": 0o644}, modes(t, first)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	krew := filepath.Join(dir, "out", "kausality.yaml")
	if err := Krew(krew, Plugin{Version: "v0.1.0", URL: "https://example.org/download/", Archives: archives}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(krew)
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.UnmarshalStrict(raw, &m); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(first)
	for i, want := range []struct{ os, arch, bin string }{{"linux", "arm64", "kubectl-kausality"}, {"windows", "amd64", "kubectl-kausality.exe"}} {
		got := m.Spec.Platforms[i]
		if l := got.Selector.MatchLabels; l["os"] != want.os || l["arch"] != want.arch || got.Bin != want.bin || got.SHA256 != hex.EncodeToString(digest[:]) ||
			got.URI != "https://example.org/download/v0.1.0/kubectl-kausality_v0.1.0_"+want.os+"_"+want.arch+".tar.gz" {
			t.Errorf("platform %+v, want %+v", got, want)
		}
	}
	if len(m.Spec.ShortDescription) > 50 || strings.Contains(m.Spec.ShortDescription, "kubectl") { // krew's naming guide
		t.Errorf("short description %q", m.Spec.ShortDescription)
	}
	if err := Krew(krew, Plugin{Version: "v0.2.0", Archives: archives}); err == nil {
		t.Error("want an error for archives of another version")
	}
	if err := Krew(krew, Plugin{Version: "v0.2.0"}); err == nil {
		t.Error("want an error without archives")
	}
	for range 2 { // its own checksum is left out the second time, too
		if err := Checksums(filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile(filepath.Join(dir, "out", Sums))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(string(sums)), "\n"); len(lines) != 3 ||
		lines[1] != hex.EncodeToString(digest[:])+"  "+filepath.Base(archives[1]) {
		t.Errorf("checksums %q", lines)
	}
}

// modes of the files of an archive.
func modes(t *testing.T, data []byte) map[string]int64 {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = h.Mode
	}
}
