package parts

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// A Part is a program to build.
type Part struct {
	// Name is the first part of the file name, and what Ensure knows it by.
	Name string

	// Dir is the directory of the Go module to build in: absolute, or relative to the root of the
	// repository.
	Dir string

	// Package to build, an import path or a path relative to Dir. Empty means ".".
	Package string

	// Module is the module in Dir's go.mod whose version the part has. Empty for a part of this
	// repository: it has no version in its file name and is built on every call.
	Module string

	// Ldflags are given to the linker after -s -w. {version} stands for the version (v1.35.4),
	// {major} and {minor} for its first two numbers.
	Ldflags string

	// Added is Go source that is added to the main package, for a setting that the program takes
	// neither from a flag nor from the linker. Empty means none.
	Added string

	// Revision counts the changes of the build, such as other Ldflags, at the same version, and is
	// part of the file name: a program that was built the old way is not taken for the new one. 0
	// and 1 mean the first.
	Revision int

	// CRDDir is the directory in Module that holds the CRDs the part needs. Empty means none.
	CRDDir string

	// Cold is about how long a build takes on two cores with an empty build cache. It is only
	// printed.
	Cold time.Duration
}

// dir returns the absolute directory of the part's module.
func (p Part) dir(root string) string {
	if filepath.IsAbs(p.Dir) {
		return p.Dir
	}

	return filepath.Join(root, p.Dir)
}

// pkg returns the package to build.
func (p Part) pkg() string {
	if p.Package == "" {
		return "."
	}

	return p.Package
}

// ours reports whether the part belongs to this repository, and so is built on every call.
func (p Part) ours() bool { return p.Module == "" }

// fileName returns the name of the built file.
func (p Part) fileName(version string) string {
	if p.ours() {
		return p.Name
	}

	if p.Revision > 1 {
		version += fmt.Sprintf("-r%d", p.Revision)
	}

	return p.Name + "-" + version
}

// label returns what the progress line calls it.
func (p Part) label(version string) string {
	if p.ours() {
		return p.Name
	}

	return p.Name + " " + version
}

// linkerFlags returns the value of -ldflags.
func (p Part) linkerFlags(version string) string {
	flags := "-s -w"
	if p.Ldflags == "" {
		return flags
	}

	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")

	return flags + " " + strings.NewReplacer(
		"{version}", version, "{major}", major, "{minor}", minor).Replace(p.Ldflags)
}

// validate returns an error if p lacks what a build needs.
func (p Part) validate() error {
	if p.Name == "" || p.Dir == "" || strings.ContainsRune(p.Name, filepath.Separator) {
		return fmt.Errorf("cannot build part %q in %q: it needs a plain name and a directory", p.Name, p.Dir)
	}

	return nil
}
