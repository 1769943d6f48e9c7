package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A finding is a place that is to be rewritten.
type finding struct {
	// file below the root, with slashes; line from 1.
	file string
	line int
	// text of the line, without white space around it.
	text string
	// word that was found, and what to write in its place.
	word, instead string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q: write %s", f.file, f.line, f.word, f.instead)
}

// skipped directories, at any depth: what was built, what other programs wrote
// or expect to read.
var skipped = []string{"bin", "_output", "vendor", "testdata", "node_modules"}

// generated files and directories, from the root, and the list itself.
var generated = []string{
	"LICENSE", "go.sum", "package/crds", "package/input", "package/helm/kausality/files",
	"test/provider/crds", "hack/wordlist",
}

// documents are extensions and names of files that are read line by line.
var documents = []string{".md", ".yaml", ".yml", ".svg", "Makefile", "Dockerfile", "run"}

// scan the files below root/dir; dir is "." for all.
func scan(root, dir string) ([]finding, error) {
	m := compile(rules)
	var out []finding
	err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch base := d.Name(); {
		case slices.ContainsFunc(generated, func(g string) bool { return rel == g || strings.HasPrefix(rel, g+"/") }):
			return skip(d)
		case d.IsDir():
			if rel != "." && (slices.Contains(skipped, base) || strings.HasPrefix(base, ".") && base != ".ci") {
				return filepath.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		found, err := m.file(name, rel)
		out = append(out, found...)
		return err
	})
	return out, err
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return filepath.SkipDir
	}
	return nil
}

// file returns the findings in one file; none in files that are not read.
func (m *matcher) file(name, rel string) ([]finding, error) {
	isGo := path.Ext(rel) == ".go"
	if !isGo && !slices.Contains(documents, path.Ext(rel)) && !slices.Contains(documents, path.Base(rel)) {
		return nil, nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", rel, err)
	}
	r := &reader{matcher: m, rel: rel, lines: strings.Split(string(src), "\n")}
	if !isGo {
		r.text(string(src), 1)
		return r.out, nil
	}
	if err := r.source(name, src); err != nil {
		return nil, err
	}
	return r.out, nil
}

// reader of one file.
type reader struct {
	*matcher
	rel   string
	lines []string
	fset  *token.FileSet
	out   []finding
}

// text that begins on a line of the file.
func (r *reader) text(text string, line int) {
	for _, h := range r.find(text) {
		r.add(h, line+strings.Count(text[:h.at], "\n"))
	}
}

func (r *reader) add(h hit, line int) {
	r.out = append(r.out, finding{
		file: r.rel, line: line, text: strings.TrimSpace(r.lines[line-1]), word: h.word, instead: h.instead,
	})
}

// source is a file of Go: its comments, messages and names.
func (r *reader) source(name string, src []byte) error {
	r.fset = token.NewFileSet()
	file, err := parser.ParseFile(r.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("cannot parse %s: %w", r.rel, err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	for _, group := range file.Comments {
		r.text(commentText(group), r.line(group))
	}
	ast.Inspect(file, r.node)
	return nil
}

func (r *reader) line(n ast.Node) int { return r.fset.Position(n.Pos()).Line }

// commentText is what a group of comments states, a line for each line of it.
func commentText(group *ast.CommentGroup) string {
	lines := make([]string, 0, len(group.List))
	for _, c := range group.List {
		for _, l := range strings.Split(c.Text, "\n") {
			lines = append(lines, strings.TrimLeft(strings.TrimSpace(l), "/*"))
		}
	}
	return strings.Join(lines, "\n")
}

// node of the syntax tree: names that it declares, and messages.
func (r *reader) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.FuncDecl:
		r.name(n.Name)
	case *ast.TypeSpec:
		r.name(n.Name)
	case *ast.ValueSpec:
		r.names(n.Names)
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
				r.name(id)
			}
		}
	case *ast.Field:
		r.names(n.Names)
		if n.Tag != nil {
			ast.Inspect(n.Type, r.node)
			return false
		}
	case *ast.BasicLit:
		r.message(n)
	}
	return true
}

func (r *reader) names(ids []*ast.Ident) {
	for _, id := range ids {
		r.name(id)
	}
}

func (r *reader) name(id *ast.Ident) {
	for _, h := range r.findName(id.Name) {
		r.add(h, r.line(id))
	}
}

// message is a string literal of more than one word.
func (r *reader) message(lit *ast.BasicLit) {
	if lit.Kind != token.STRING || !strings.Contains(lit.Value, " ") {
		return
	}
	if lit.Value[0] == '`' {
		r.text(lit.Value, r.line(lit))
		return
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return // the parser accepted it
	}
	for _, h := range r.find(text) {
		r.add(h, r.line(lit))
	}
}
