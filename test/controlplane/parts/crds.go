package parts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// CRDs returns the CustomResourceDefinitions that come with the part, as one stream of YAML
// documents, exactly as its module has them. A part without any is an error.
func CRDs(ctx context.Context, name string) ([]byte, error) {
	p, err := Lookup(name)
	if err != nil {
		return nil, err
	}

	return p.CRDs(ctx)
}

// CRDs returns the manifests that come with the part, in the table or not, as the function CRDs
// does.
func (p Part) CRDs(ctx context.Context) ([]byte, error) {
	if p.CRDDir == "" {
		return nil, fmt.Errorf("cannot read the CRDs of %s: it has none", p.Name)
	}

	root, err := Root()
	if err != nil {
		return nil, err
	}

	dir, err := p.moduleDir(ctx, root)
	if err != nil {
		return nil, err
	}

	return readManifests(filepath.Join(dir, p.CRDDir))
}

// readManifests joins the YAML files of a directory, in the order of their names.
func readManifests(dir string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("cannot read manifests: %s has no *.yaml", dir)
	}

	var all bytes.Buffer

	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("cannot read manifests: %w", err)
		}

		all.WriteString("\n---\n")
		all.Write(data)
	}

	return all.Bytes(), nil
}
