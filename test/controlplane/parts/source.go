package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// addedFile is the name of the file that has Part.Added.
const addedFile = "zz_kausality.go"

// addSource copies the source of the part's module into dir, adds Part.Added to its main package, and returns
// a go.mod for -modfile that replaces the module by the copy: files in the module cache are not changed, and
// cannot be overlaid.
func (p Part) addSource(ctx context.Context, root, dir string) (modFile string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot add to the source of %s: %w", p.Name, err)
		}
	}()

	source, err := p.moduleDir(ctx, root)
	if err != nil {
		return "", err
	}

	copied := filepath.Join(dir, "source")
	if err := os.CopyFS(copied, os.DirFS(source)); err != nil {
		return "", err
	}

	main := filepath.Join(copied, filepath.FromSlash(strings.TrimPrefix(p.Package, p.Module)))
	if err := os.WriteFile(filepath.Join(main, addedFile), []byte(p.Added), 0o600); err != nil {
		return "", err
	}

	return p.replaceModule(root, dir, copied)
}

// replaceModule writes go.mod and go.sum of the part to dir, with its module replaced by a directory.
func (p Part) replaceModule(root, dir, by string) (modFile string, err error) {
	sums, err := os.ReadFile(filepath.Join(p.dir(root), "go.sum"))
	if err != nil {
		return "", err
	}

	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		return "", err
	}

	path := filepath.Join(p.dir(root), "go.mod")

	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}

	f, err := modfile.Parse(path, data, nil)
	if err != nil {
		return "", err
	}

	if err := f.AddReplace(p.Module, "", by, ""); err != nil {
		return "", err
	}

	if data, err = f.Format(); err != nil {
		return "", err
	}

	modFile = filepath.Join(dir, "go.mod")

	return modFile, os.WriteFile(modFile, data, 0o600)
}
