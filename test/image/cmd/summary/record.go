package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Loads of a package: what it starts, and whether it runs at all.
const (
	// loadPlane is a control plane, or less.
	loadPlane = "plane"
	// loadInstallation is a control plane with a whole installation, such as Crossplane, its providers, webhook and gate.
	loadInstallation = "installation"
	// loadAlone is one that measures time, beside which nothing runs.
	loadAlone = "alone"
	// loadMore is an installation that is left to make test-more.
	loadMore = "more"
	// loadWhole likewise, and the whole package runs then: a test of it needs what all others did.
	loadWhole = "whole"
)

// subtestsAlone follows the load of a package whose subtests build on nothing that others leave: one that fails is repeated without them.
const subtestsAlone = "subtests"

var loads = []string{loadPlane, loadInstallation, loadAlone, loadMore, loadWhole}

// left reports whether the load is left to make test-more.
func left(load string) bool { return load == loadMore || load == loadWhole }

// slow is how many times its record a package takes at least to be named.
const slow = 1.5

// recorded is what is known of a package from earlier runs.
type recorded struct {
	seconds float64
	load    string
	// subtests that fail are repeated by themselves.
	subtests bool
}

// record of packages, by their import paths.
type record map[string]recorded

// readRecord reads lines "package TAB seconds TAB load", maybe with "TAB subtests" in the end, or "package#TestA|TestB TAB …"
// for tests that run by themselves; an empty path is an empty record. Lines that begin with # are comments.
func readRecord(path string) (record, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the record of packages: %w", err)
	}
	defer func() { _ = f.Close() }()
	r := record{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		subtests := len(fields) == 4 && fields[3] == subtestsAlone
		if len(fields) != 3 && !subtests || !slices.Contains(loads, fields[2]) {
			return nil, fmt.Errorf("%s:%d: want package, seconds, one of %s, and maybe %s, separated by tabs", path, n, strings.Join(loads, ", "), subtestsAlone)
		}
		seconds, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %q is not a number of seconds", path, n, fields[1])
		}
		r[fields[0]] = recorded{seconds: seconds, load: fields[2], subtests: subtests}
	}
	return r, lines.Err()
}

// of returns what is recorded of a package. One that is not recorded is taken for an
// installation that takes longest.
func (r record) of(pkg string) recorded {
	if have, ok := r[pkg]; ok {
		return have
	}
	return recorded{seconds: 1e6, load: loadInstallation}
}

// shardsOf returns the keys of tests of a package that run by themselves.
func (r record) shardsOf(pkg string) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if strings.HasPrefix(key, pkg+"#") {
			keys = append(keys, key)
		}
	}
	return keys
}

// compare what packages took with their record, and return a line for each that took at least
// slow times as long.
func (r record) compare(seconds map[string]float64) []string {
	var lines []string
	for _, pkg := range slices.Sorted(maps.Keys(seconds)) {
		have, ok := r[pkg]
		if took := seconds[pkg]; ok && took >= slow*have.seconds {
			lines = append(lines, fmt.Sprintf("%s: took %.0fs, %.1f times its record of %.0fs", pkg, took, took/have.seconds, have.seconds))
		}
	}
	return lines
}

// writeDurations writes what each package took in the form of a record, to a file that is created with its directory as needed.
func (r record) writeDurations(path string, seconds map[string]float64) error {
	var b strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(seconds)) {
		load := loadPlane
		if have, ok := r[pkg]; ok {
			load = have.load
			if have.subtests {
				load += "\t" + subtestsAlone
			}
		}
		_, _ = fmt.Fprintf(&b, "%s\t%.1f\t%s\n", pkg, seconds[pkg], load)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(b.String()), 0o600)); err != nil {
		return fmt.Errorf("cannot write durations: %w", err)
	}
	return nil
}
