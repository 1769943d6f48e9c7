package preview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Renderer runs `crossplane render`.
type Renderer struct {
	// Program is the path of the crossplane CLI.
	Program string
	// Functions is the file or directory with the Functions of the pipeline, as
	// `crossplane render` takes it.
	Functions string
	// Args are passed to it.
	Args []string
}

// render returns the composed resources that the pipeline desires for a composite.
func (r Renderer) render(
	ctx context.Context, c *Composition, xr *unstructured.Unstructured, observed []*unstructured.Unstructured,
) ([]*unstructured.Unstructured, error) {
	dir, err := os.MkdirTemp("", "kausality-preview-")
	if err != nil {
		return nil, fmt.Errorf("cannot create a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // What remains is temporary.
	args := []string{"render"}
	for name, objects := range map[string][]*unstructured.Unstructured{"xr.yaml": {xr}, "composition.yaml": {c.Unstructured}, "observed.yaml": observed} {
		if err := write(filepath.Join(dir, name), objects); err != nil {
			return nil, err
		}
	}
	args = append(args, filepath.Join(dir, "xr.yaml"), filepath.Join(dir, "composition.yaml"), r.Functions)
	if len(observed) > 0 {
		args = append(args, "--observed-resources="+filepath.Join(dir, "observed.yaml"))
	}
	var out, failed bytes.Buffer
	cmd := exec.CommandContext(ctx, r.Program, append(args, r.Args...)...)
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("crossplane render: %s", plain(failed.String(), err))
	}
	return rendered(&out)
}

// plain returns the error output of a program on one line, else the error.
func plain(output string, err error) string {
	if text := strings.Join(strings.Fields(output), " "); text != "" {
		return text
	}
	return err.Error()
}

// write writes objects to a file as YAML documents, readable by this user alone: they may
// hold connection details.
func write(file string, objects []*unstructured.Unstructured) error {
	var b bytes.Buffer
	for _, o := range objects {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("cannot encode %s: %w", o.GetName(), err)
		}
		b.WriteString("---\n")
		b.Write(raw)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	return nil
}

// rendered composed resources: all but the composite, which comes first.
func rendered(r io.Reader) ([]*unstructured.Unstructured, error) {
	d := kyaml.NewYAMLOrJSONDecoder(r, 4096)
	var out []*unstructured.Unstructured
	for first := true; ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read what crossplane render printed: %w", err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if !first {
			out = append(out, o)
		}
		first = false
	}
}
