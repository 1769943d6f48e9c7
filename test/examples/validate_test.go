package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// crossplaneImage is what validate would pull Crossplane's own schemas from.
const crossplaneImage = "xpkg.crossplane.io/crossplane/crossplane:v2.2.0"

// validator runs crossplane beta validate with a cache that holds all it would
// pull.
type validator struct {
	cli, cache string
	// schemas of everything that is in no package of the examples.
	schemas string
}

func newValidator(t *testing.T, root, cli string) *validator {
	t.Helper()
	v := &validator{cli: cli, cache: t.TempDir(), schemas: t.TempDir()}
	own := func(parts ...string) []byte { return read(t, filepath.Join(append([]string{root}, parts...)...)) }
	of := func(part string) []byte {
		raw, err := parts.CRDs(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	cached := map[string][]byte{
		crossplaneImage: of(parts.Crossplane),
		"xpkg.crossplane.io/kausality-io/function-kausality:v0.1.0":                  own("package", "input", "kausality.fn.crossplane.io_inputs.yaml"),
		"xpkg.crossplane.io/crossplane-contrib/function-patch-and-transform:v0.10.7": of(parts.PatchAndTransform),
		"xpkg.crossplane.io/crossplane-contrib/function-auto-ready:v0.6.0":           nil, // It takes no input.
	}
	for image, raw := range cached {
		write(t, filepath.Join(v.cache, strings.ReplaceAll(image, ":", "@"), "package.yaml"), raw)
	}
	write(t, filepath.Join(v.schemas, "kubernetes.yaml"), of(parts.ProviderKubernetes))
	write(t, filepath.Join(v.schemas, "providers.yaml"), own("test", "examples", "schemas", "providers.yaml"))
	write(t, filepath.Join(v.schemas, "cloud.yaml"), own("test", "provider", "crds", "cloud.example.org_databases.yaml"))
	write(t, filepath.Join(v.schemas, "policies.yaml"), own("package", "crds", "kausality.io_allowancepolicies.yaml"))
	write(t, filepath.Join(v.schemas, "shared.yaml"), own("examples", "getting-started", "definition.yaml"))
	return v
}

// objectsOf an example: all that is in it, what it renders and what is in
// pipelines included.
func objectsOf(t *testing.T, dir string) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, name := range []string{
		"xr.yaml", "composition.yaml", "functions.yaml", "observed.yaml", "required.yaml", "operation.yaml", "definition.yaml", "expected.yaml",
	} {
		if !exists(dir, name) {
			continue
		}
		for _, o := range decode(t, read(t, filepath.Join(dir, name))) {
			for _, each := range append(inputs(o), o) {
				if checked(each) {
					out = append(out, each)
				}
			}
		}
	}
	return out
}

// validate everything in an example against its schemas. None may be missing.
func (v *validator) validate(t *testing.T, dir string) {
	t.Helper()
	if out, err := v.run(t, dir, objectsOf(t, dir)); err != nil {
		t.Errorf("crossplane beta validate: %v\n%s", err, out)
	}
}

// run crossplane beta validate on objects, with the functions and the definition
// of an example.
func (v *validator) run(t *testing.T, dir string, objects []*unstructured.Unstructured) (string, error) {
	t.Helper()
	resources := t.TempDir()
	for i, o := range objects {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(resources, fmt.Sprintf("%02d.yaml", i)), raw)
	}
	extensions := []string{v.schemas, filepath.Join(dir, "functions.yaml")}
	if exists(dir, "definition.yaml") {
		extensions = append(extensions, filepath.Join(dir, "definition.yaml"))
	}
	cmd := exec.CommandContext(t.Context(), v.cli, "beta", "validate", strings.Join(extensions, ","), resources,
		"--cache-dir="+v.cache, "--crossplane-image="+crossplaneImage, "--error-on-missing-schemas", "--skip-success-results")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if strings.Contains(out.String(), "downloading") {
		t.Errorf("validate wanted to pull something:\n%s", out.String())
	}
	return out.String(), err
}

// checked: all but what render prints of its own, a status, and the CRD that an
// example only names.
func checked(o *unstructured.Unstructured) bool {
	switch {
	case o.GroupVersionKind().Group == "render.crossplane.io", o.GetKind() == "CustomResourceDefinition":
		return false
	case o.GetKind() == "Operation":
		_, has, _ := unstructured.NestedMap(o.Object, "spec")
		return has
	}
	return true
}

// inputs of the steps of a pipeline, as objects.
func inputs(o *unstructured.Unstructured) []*unstructured.Unstructured {
	steps, _, _ := unstructured.NestedSlice(o.Object, "spec", "pipeline")
	var out []*unstructured.Unstructured
	for _, s := range steps {
		step, _ := s.(map[string]any)
		if in, ok := step["input"].(map[string]any); ok {
			u := &unstructured.Unstructured{Object: in}
			u.SetName("input")
			out = append(out, u)
		}
	}
	return out
}

// decode YAML documents; what is rendered may have no name yet.
func decode(t *testing.T, raw []byte) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for doc := range strings.SplitSeq("\n"+string(raw), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("cannot read %q: %v", doc, err)
		}
		if u.Object != nil {
			out = append(out, u)
		}
	}
	return out
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t *testing.T, file string, raw []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
