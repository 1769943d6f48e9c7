package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A file of the repository that no program generated.
type file struct {
	// path below the root, with slashes.
	path string

	// test is set for _test.go, everything below test/ and hack/, and packages of fixtures.
	test bool

	ast  *ast.File
	fset *token.FileSet
	kind []line

	// lines in all; those with nothing but a comment (licence headers left out); those with code;
	// those of more than wideLine characters.
	lines, comments, code, wide int
}

// A line is blank, a comment or code.
type line int

const (
	blank line = iota
	comment
	code
)

// load parses every Go file below root.
func load(root string) ([]*file, error) {
	var files []*file

	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if base := d.Name(); name != root && (strings.HasPrefix(base, ".") || slices.Contains([]string{"bin", "_output", "testdata", "vendor"}, base)) {
				return filepath.SkipDir
			}

			return nil
		case filepath.Ext(name) != ".go":
			return nil
		}

		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}

		f, err := read(name, filepath.ToSlash(rel))
		if f != nil {
			files = append(files, f)
		}

		return err
	})

	return files, err
}

// read returns the file, nil if it is generated.
func read(name, rel string) (*file, error) {
	src, err := os.ReadFile(name) //nolint:gosec // A file of the repository.
	if err != nil {
		return nil, err
	}

	f := &file{path: rel, fset: token.NewFileSet()}
	f.test = isTest(rel)

	if f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments); err != nil {
		return nil, fmt.Errorf("cannot parse %s: %w", rel, err)
	}

	if ast.IsGenerated(f.ast) {
		return nil, nil
	}

	f.count(src)

	return f, nil
}

// fixtures are packages that only tests import: see TestFixturesAreTests.
var fixtures = []string{"admission/internal/fixture"}

// isTest reports whether a file, by its path, is no part of the product.
func isTest(rel string) bool {
	return strings.HasSuffix(rel, "_test.go") || strings.HasPrefix(rel, "test/") || strings.HasPrefix(rel, "hack/") ||
		slices.Contains(fixtures, path.Dir(rel))
}

// count classifies the lines of the source.
func (f *file) count(src []byte) {
	text := bytes.Split(bytes.TrimSuffix(src, []byte("\n")), []byte("\n"))
	f.lines = len(text)
	f.kind = make([]line, len(text)+1)

	for _, l := range text {
		if utf8.RuneCount(l) > wideLine {
			f.wide++
		}
	}

	var s scanner.Scanner

	tf := token.NewFileSet().AddFile(f.path, -1, len(src))
	s.Init(tf, src, nil, scanner.ScanComments)

	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}

		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}

		kind := code
		if tok == token.COMMENT {
			kind = comment
		}

		first := tf.Line(pos)
		for n := first; n <= first+strings.Count(lit, "\n"); n++ {
			f.kind[n] = max(f.kind[n], kind)
		}
	}

	f.licence()

	for _, kind := range f.kind {
		switch kind {
		case comment:
			f.comments++
		case code:
			f.code++
		case blank:
		}
	}
}

// licence makes the lines of a licence header blank.
func (f *file) licence() {
	for _, g := range f.ast.Comments {
		if g.Pos() > f.ast.Package || !isLicence(g.Text()) {
			continue
		}

		for n := f.fset.Position(g.Pos()).Line; n <= f.fset.Position(g.End()).Line; n++ {
			f.kind[n] = blank
		}
	}
}

func isLicence(text string) bool {
	return strings.Contains(text, "SPDX-License-Identifier") || strings.Contains(text, "Licensed under the Apache License") ||
		strings.HasPrefix(text, "Copyright ")
}

// in returns the files of the package in dir, without those of packages below it.
func in(files []*file, dir string) []*file {
	var of []*file

	for _, f := range files {
		if path.Dir(f.path) == dir {
			of = append(of, f)
		}
	}

	return of
}

// below returns the files below any of the directories.
func below(files []*file, dirs ...string) []*file {
	var of []*file

	for _, f := range files {
		if first, _, _ := strings.Cut(f.path, "/"); slices.Contains(dirs, first) {
			of = append(of, f)
		}
	}

	return of
}

// A function and its lines, from func to the closing brace.
type function struct {
	name  string
	lines int
}

// functions of the files, the longest first.
func functions(files []*file) []function {
	var all []function

	for _, f := range files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				all = append(all, function{name: nameOf(f, fn), lines: f.span(fn)})
			}
		}
	}

	slices.SortStableFunc(all, func(a, b function) int { return b.lines - a.lines })

	return all
}

func nameOf(f *file, fn *ast.FuncDecl) string {
	name := fn.Name.Name
	if of := receiver(fn); of != "" {
		name = of + "." + name
	}

	return path.Dir(f.path) + "." + name
}

// span returns the lines from func to the closing brace.
func (f *file) span(fn *ast.FuncDecl) int {
	return f.fset.Position(fn.Body.Rbrace).Line - f.fset.Position(fn.Pos()).Line + 1
}
