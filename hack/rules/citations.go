package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Citation of a rule.
type Citation struct {
	Rule string
	Kind Kind
	// File by its path in the repository.
	File string
	// In names the function, type, variable or scenario; empty where the
	// citation is in none, as in the comment of a package.
	In string
}

// skipped directories hold nothing that cites rules: what is built, and this
// program, whose tests make rules up.
var skipped = []string{".git", "bin", "_output", "hack/rules"}

// cites are the suffixes of the files that are read.
var cites = []string{".go", ".md", ".yaml", ".yml"}

// Citations in all files of a repository, in the order of their paths. The
// specification and the page that is written from it do not count.
func Citations(root fs.FS) ([]Citation, error) {
	var out []Citation
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, name):
			return fs.SkipDir
		case d.IsDir(), !slices.Contains(cites, path.Ext(name)), name == specificationFile, name == pageFile:
			return nil
		}
		raw, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if !idPattern.Match(raw) {
			return nil
		}
		found, err := inFile(name, raw)
		out = append(out, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read citations: %w", err)
	}
	return out, nil
}

func inFile(name string, raw []byte) ([]Citation, error) {
	switch {
	case path.Ext(name) == ".go":
		return inGo(name, raw)
	case path.Dir(name) == "test/conformance/scenarios":
		return inScenarios(name, string(raw)), nil
	}
	return citations(Citation{Kind: Text, File: name}, string(raw)), nil
}

// citations of all ids in a text; at is its place.
func citations(at Citation, text string) []Citation {
	var out []Citation
	for _, id := range idPattern.FindAllString(text, -1) {
		at.Rule = id
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// kindOf a Go file's citations.
func kindOf(name string) Kind {
	test := strings.HasSuffix(name, "_test.go")
	switch {
	case strings.HasPrefix(name, "test/conformance/"): // the scenarios count, not their runner
		return Text
	case strings.HasPrefix(name, "test/") && test:
		return Integration
	case strings.HasPrefix(name, "test/"), strings.HasPrefix(name, "hack/"):
		return Text
	case test:
		return Unit
	}
	return Code
}

// inGo finds the ids in comments of a Go file and, of a test, in strings.
func inGo(name string, raw []byte) ([]Citation, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, raw, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	kind := kindOf(name)
	var out []Citation
	add := func(n ast.Node, text string) {
		for _, c := range citations(Citation{Kind: kind, File: name, In: declared(file, n.Pos(), n.End())}, text) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			add(c, c.Text)
		}
	}
	if kind == Unit || kind == Integration {
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				add(lit, lit.Value)
			}
			return true
		})
	}
	return out, nil
}

// declared is the name of what is declared around a position, or right after it
// where the position is in a doc comment; empty for neither.
func declared(file *ast.File, from, to token.Pos) string {
	for _, d := range file.Decls {
		start, doc := d.Pos(), docOf(d)
		if doc != nil {
			start = doc.Pos()
		}
		if start <= from && to <= d.End() {
			return nameOf(d, from)
		}
	}
	return ""
}

func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// nameOf a declaration: of the one at a position where it is a group of several.
func nameOf(d ast.Decl, at token.Pos) string {
	if f, ok := d.(*ast.FuncDecl); ok {
		return methodName(f)
	}
	g, _ := d.(*ast.GenDecl)
	first := ""
	for _, spec := range g.Specs {
		name := ""
		switch s := spec.(type) {
		case *ast.TypeSpec:
			name = s.Name.Name
		case *ast.ValueSpec:
			name = s.Names[0].Name
		}
		if first == "" {
			first = name
		}
		if at <= spec.End() && at >= g.Pos() {
			return name
		}
	}
	return first
}

// methodName of a function: RECEIVER.NAME for a method.
func methodName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

var (
	scenarioName  = regexp.MustCompile(`^- name: (\S+)`)
	scenarioRules = regexp.MustCompile(`^  rules: \[(.*)\]`)
)

// inScenarios finds the rules of conformance scenarios, and ids elsewhere in
// their file.
func inScenarios(name, text string) []Citation {
	var out []Citation
	file := strings.TrimSuffix(path.Base(name), ".yaml")
	scenario := ""
	for line := range strings.SplitSeq(text, "\n") {
		if m := scenarioName.FindStringSubmatch(line); m != nil {
			scenario = file + "/" + m[1]
		}
		if scenarioRules.MatchString(line) {
			out = append(out, citations(Citation{Kind: Integration, File: name, In: scenario}, line)...)
			continue
		}
		out = append(out, citations(Citation{Kind: Text, File: name, In: scenario}, line)...)
	}
	return out
}
