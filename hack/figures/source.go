package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A file of the product.
type file struct {
	ast *ast.File
	// dir is its directory below the root, with slashes.
	dir string
	// built is set where its build constraints are met; generated where a program wrote it.
	built, generated bool
	// lines of the file; those of code, and those with nothing but a comment.
	lines, code, comments int
}

// load parses the product below root.
func load(fset *token.FileSet, root string) (files []*file, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch base := path.Base(rel); {
		case rel == ".":
		case entry.IsDir():
			if base[0] == '.' || base == "testdata" || slices.Contains([]string{"bin", "_output", "examples", "hack", "test"}, rel) {
				return filepath.SkipDir
			}
		case strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go"):
			f, err := read(fset, name)
			if err != nil {
				return fmt.Errorf("cannot parse %s: %w", rel, err)
			}
			f.dir = path.Dir(rel)
			files = append(files, f)
		}
		return nil
	})
	return files, err
}

// read parses a file and counts its lines.
func read(fset *token.FileSet, name string) (*file, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &file{lines: strings.Count(string(src), "\n")}
	if f.ast, err = parser.ParseFile(fset, name, src, parser.ParseComments); err != nil {
		return nil, err
	}
	f.generated = ast.IsGenerated(f.ast)
	f.count(src)
	f.built, err = build.Default.MatchFile(filepath.Split(name))
	return f, err
}

// count the lines of code and of comments.
func (f *file) count(src []byte) {
	tokens := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(tokens, src, nil, scanner.ScanComments)
	code, comments := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		of := code
		if tok == token.COMMENT {
			of = comments
		}
		for n := range strings.Count(text, "\n") + 1 {
			of[tokens.Line(pos)+n] = true
		}
	}
	for n := range comments {
		if !code[n] {
			f.comments++
		}
	}
	f.code = len(code)
}
