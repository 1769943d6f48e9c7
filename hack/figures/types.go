package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/kausality-io/function-kausality/"

// typed are the packages of the product, type-checked from source.
type typed struct {
	fset *token.FileSet
	// files of a package by its import path.
	files   map[string][]*ast.File
	checked map[string]*types.Package
	info    types.Info
	// outside imports what is not in the product.
	outside types.Importer
}

// check the types of the files.
func check(fset *token.FileSet, root string, files []*file) (*typed, error) {
	t := &typed{fset: fset, files: map[string][]*ast.File{}, checked: map[string]*types.Package{}, info: types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Uses: map[*ast.Ident]types.Object{},
	}}
	outside := map[string]bool{}
	for _, f := range files {
		if !f.built {
			continue
		}
		t.files[module+f.dir] = append(t.files[module+f.dir], f.ast)
		for _, spec := range f.ast.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && !strings.HasPrefix(path, module) {
				outside[path] = true
			}
		}
	}
	if err := t.export(root, slices.Sorted(maps.Keys(outside))); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(t.files)) {
		if _, err := t.Import(path); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Import implements types.Importer.
func (t *typed) Import(path string) (*types.Package, error) {
	files, ok := t.files[path]
	if !ok {
		return t.outside.Import(path)
	}
	if t.checked[path] == nil {
		config := types.Config{Importer: t}
		p, err := config.Check(path, t.fset, files, &t.info)
		if err != nil {
			return nil, err
		}
		t.checked[path] = p
	}
	return t.checked[path], nil
}

// export makes the go command compile what the product imports, unless it is in the build cache, and reads its types from there.
func (t *typed) export(root string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	var stderr bytes.Buffer
	args := append([]string{"list", "-trimpath", "-export", "-f", "{{.ImportPath}}\t{{.Export}}", "--"}, paths...)
	list := exec.CommandContext(context.Background(), "go", args...)
	list.Dir, list.Env, list.Stderr = root, append(os.Environ(), "CGO_ENABLED=0"), &stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("cannot list what the product imports: %w: %s", err, stderr.Bytes())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = export
	}
	t.outside = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return nil
}

// nameOf returns the name of a type that a package of the product declares, as in admission/gating.Managed, "" for any other.
func nameOf(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil || n.Obj().Parent() != n.Obj().Pkg().Scope() {
		return ""
	}
	if dir, ok := strings.CutPrefix(n.Obj().Pkg().Path(), module); ok {
		return dir + "." + n.Obj().Name()
	}
	return ""
}
