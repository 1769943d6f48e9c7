package page

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// axe-core as its authors publish it. Tests alone use it.
const (
	axeVersion = "4.14.1"
	axeSHA512  = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns the check of a page by axe-core. Where the machine has no npm, or npm cannot fetch it, it checks nothing, and that is logged.
func axe(t *testing.T) (check func(b *tab, form string)) {
	t.Helper()
	archive, err := fetchAxe(t.Context())
	if err != nil {
		t.Logf("SKIPPED: no page is checked with axe-core: %v", err)
		return func(*tab, string) {}
	}
	sum := sha512.Sum512(archive)
	require.Equal(t, axeSHA512, base64.StdEncoding.EncodeToString(sum[:]), "axe-core-%s.tgz is another one", axeVersion)
	program, err := unpack(archive, "package/axe.min.js")
	require.NoError(t, err)
	return func(b *tab, form string) {
		b.t.Helper()
		b.run(chromedp.Evaluate(string(program)+"; true", nil))
		var found []string
		b.run(chromedp.Evaluate(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r =>
			r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html + ": " + n.failureSummary)))`, &found,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for _, f := range found {
			b.t.Errorf("%s: axe-core finds %s", form, f)
		}
	}
}

// fetchAxe returns the archive of axe-core from the cache of the parts or, for the first time, by npm pack.
func fetchAxe(ctx context.Context) ([]byte, error) {
	dir, err := parts.CacheDir()
	if err != nil {
		return nil, err
	}
	name := "axe-core-" + axeVersion + ".tgz"
	kept := filepath.Join(dir, name)
	if raw, err := os.ReadFile(kept); err == nil {
		return raw, nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return nil, fmt.Errorf("there is no npm on this machine: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	staged, err := os.MkdirTemp(dir, ".axe-core.*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(staged) //nolint:errcheck // A later run of the cache removes it.
	if out, err := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", staged, "axe-core@"+axeVersion).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w: %s", err, out)
	}
	if err := os.Rename(filepath.Join(staged, name), kept); err != nil {
		return nil, err
	}
	return os.ReadFile(kept)
}

// unpack a file of an archive.
func unpack(archive []byte, name string) ([]byte, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(zipped); ; {
		file, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("cannot find %s: %w", name, err)
		}
		if file.Name == name {
			return io.ReadAll(io.LimitReader(files, file.Size))
		}
	}
}
