package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keyDigits is how many hexadecimal digits of a hash a key has.
const keyDigits = 16

// A part's program is determined by its source and by the toolchain. sourceKey identifies the first
// without running a program: the module, which pins all others, and how it is built.
func (b *builder) sourceKey(p Part, version string) (string, error) {
	dir := p.dir(b.root)

	// Some parts have a main package of their own beside go.mod and go.sum.
	files, err := filepath.Glob(filepath.Join(quoteGlob(dir), "*.go"))
	if err != nil {
		return "", fmt.Errorf("cannot identify the source of %s: %w", p.Name, err)
	}

	h := sha256.New()

	for _, name := range append([]string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")}, files...) {
		data, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) { // A module without dependencies has no go.sum.
			return "", fmt.Errorf("cannot identify the source of %s: %w", p.Name, err)
		}

		add(h, filepath.Base(name), string(data))
	}

	add(h, p.buildArgs(version)...)
	add(h, goSettings...)
	add(h, fmt.Sprint(p.Revision), p.Added)

	return digits(h), nil
}

// toolchainVariables are the settings of the go command that a program depends on.
var toolchainVariables = []string{"GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFIPS140", "GOFLAGS"}

// toolchainKey identifies the toolchain that builds the part's module, and its settings.
func (b *builder) toolchainKey(ctx context.Context, p Part) (string, error) {
	dir := p.dir(b.root)
	if key := b.toolchains[dir]; key != "" {
		return key, nil
	}

	out, err := goOutput(ctx, dir, append([]string{"env"}, toolchainVariables...)...)
	if err != nil {
		return "", fmt.Errorf("cannot identify the toolchain of %s: %w", p.Name, err)
	}

	h := sha256.New()
	add(h, string(out))

	b.toolchains[dir] = digits(h)

	return b.toolchains[dir], nil
}

// add adds strings to a hash, so that no two lists look the same.
func add(h hash.Hash, all ...string) {
	for _, s := range all {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(s), s)
	}
}

func digits(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil))[:keyDigits] }

// quoteGlob returns a pattern that matches the path only.
func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// compilerFlags are those that the Makefile gives to every go command, so that each package is compiled once on a
// machine. The linker leaves debugging information out, which takes a seventh of the time to write.
var compilerFlags = []string{"-trimpath", "-gcflags=all=-dwarf=false"}

// buildArgs returns the arguments of go build but the output. Programs are the same in every clone and
// commit that has their source; make build and make image add the commit to the product's.
func (p Part) buildArgs(version string) []string {
	return append(slices.Clone(compilerFlags), "-ldflags", p.linkerFlags(version), "-buildvcs=false", p.pkg())
}
