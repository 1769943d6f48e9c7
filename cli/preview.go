package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/cli/preview"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// previewCommand shows what a Composition would change before it is applied.
type previewCommand struct {
	*session
	arguments
	format             format
	functions, program string
	all, exitCode      bool
	most               int
	renderArgs         []string
}

// newPreviewCommand returns `kubectl kausality preview`: package preview renders, and
// package inspect decides about the differences.
func newPreviewCommand(s *session) *cobra.Command {
	c := &previewCommand{session: s}
	cmd := &cobra.Command{
		Use: "preview COMPOSITION.yaml [NAME...]", Short: "Show what a Composition would change on the live composites, before it is applied.",
		Long: "Runs the pipeline of a Composition for each live composite that uses it, with its composed resources as they are, " +
			"and shows what would change, equal changes together, and what Kausality would decide. Nothing is written. The pipeline is run " +
			"by `crossplane render`, version 1.20 to 2.2, which starts the functions with Docker, or connects to where their annotations point. " +
			"Kausality's own steps are left out.",
		Example: `  kubectl kausality preview composition.yaml
  kubectl kausality preview composition.yaml -A

  # With functions that run already; see crossplane render --help
  kubectl kausality preview composition.yaml --functions functions.yaml orders`,
		RunE: runs(c),
	}
	c.format.add(cmd, formatWide, formatJSON, formatYAML)
	fl := cmd.Flags()
	fl.StringVar(&c.functions, "functions", "",
		"File or directory with the Functions of the pipeline, as for crossplane render. By default those of the cluster.")
	fl.StringVar(&c.program, "crossplane", "crossplane", "The crossplane CLI.")
	fl.BoolVarP(&c.all, "all-namespaces", "A", false, "Include composites of all namespaces.")
	fl.BoolVar(&c.exitCode, "exit-code", false, "Exit with 4 if anything would change.")
	fl.IntVar(&c.most, "max", 500, "Render at most this many composites.")
	fl.StringArrayVar(&c.renderArgs, "render-arg", nil,
		"Pass an argument to crossplane render, as in --render-arg=--required-resources=FILE; repeatable.")
	return cmd
}

// validate validates the arguments.
func (c *previewCommand) validate() error {
	if len(c.args) == 0 {
		return usageError{fmt.Errorf("name the file of a Composition; see %s --help", c.cmd.CommandPath())}
	}
	if c.all && len(c.args) > 1 {
		return usageError{errors.New("-A selects all composites; give no names with it")}
	}
	return nil
}

// run renders composite by composite, and prints all of them together: equal
// changes are grouped.
func (c *previewCommand) run(ctx context.Context) error {
	p, err := c.previewer(ctx, c.args[0])
	if err != nil {
		return err
	}
	if c.functions == "" {
		dir, err := os.MkdirTemp("", "kausality-functions-")
		if err != nil {
			return fmt.Errorf("cannot create a temporary directory: %w", err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // What remains is temporary.
		if p.Renderer.Functions, err = c.installed(ctx, p.Composition.Functions, dir); err != nil {
			return err
		}
	}
	if err := c.addComposites(ctx, p, c.args[1:]); err != nil {
		return err
	}
	return c.print(p.Preview())
}

// previewer returns the previewer of a Composition in a file; - is standard input.
func (c *previewCommand) previewer(ctx context.Context, file string) (*preview.Previewer, error) {
	read := os.ReadFile
	if file == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(c.In) }
	}
	raw, err := read(file)
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(file, "/") && !strings.Contains(filepath.Base(file), ".") {
		err = fmt.Errorf("%w; preview takes the file of a Composition. What would happen to a change of an object: "+
			"kubectl kausality explain %s --patch PATCH", err, shellWord(file))
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("cannot read the Composition: %w", err)}
	}
	p := &preview.Previewer{Renderer: preview.Renderer{Functions: c.functions, Args: c.renderArgs}}
	if p.Composition, err = preview.Parse(raw); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", file, err)}
	}
	if p.Renderer.Program, err = exec.LookPath(c.program); err != nil {
		return nil, usageError{fmt.Errorf("cannot find the crossplane CLI, which runs the pipeline: %w; install it, or name it with --crossplane", err)}
	}
	if err := preview.Supported(ctx, p.Renderer.Program); err != nil {
		return nil, usageError{err}
	}
	p.Inspector, err = c.inspector(ctx)
	return p, err
}

// installed Functions of the cluster, as a file for render.
func (c *previewCommand) installed(ctx context.Context, names []string, dir string) (string, error) {
	conn, err := c.connection()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	functions := schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functions"}
	for _, name := range names {
		f, err := conn.Resource(functions).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("cannot read Function %s of the pipeline: %w; give its definition with --functions", name, err)
		}
		f.SetManagedFields(nil)
		unstructured.RemoveNestedField(f.Object, "status")
		raw, err := yaml.Marshal(f.Object)
		if err != nil {
			return "", fmt.Errorf("cannot encode Function %s: %w", name, err)
		}
		b.WriteString("---\n" + string(raw))
	}
	file := filepath.Join(dir, "functions.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", file, err)
	}
	return file, nil
}

// addComposites adds the composites that are named, or all that use the Composition.
func (c *previewCommand) addComposites(ctx context.Context, p *preview.Previewer, names []string) error {
	r, err := c.composites(p)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return c.addAll(ctx, p, r)
	}
	for _, name := range names {
		xr, err := r.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cannot read %s %s: %w", p.Composition.Composite.Kind, name, err)
		}
		if err := p.Add(ctx, xr); err != nil {
			return err
		}
	}
	return nil
}

// addAll adds all composites that use the Composition, up to --max.
func (c *previewCommand) addAll(ctx context.Context, p *preview.Previewer, r dynamic.ResourceInterface) error {
	added := 0
	for xr, err := range informer.Items(ctx, r, compositePage) {
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", p.Composition.Composite.Kind, err)
		}
		if preview.Setting(xr, "compositionRef", "name") != p.Composition.GetName() {
			continue
		}
		if added++; added > c.most {
			fmt.Fprintf(c.ErrOut, "warning: there are more than %d composites; the others were not rendered (--max)\n", c.most)
			return nil
		}
		if err := p.Add(ctx, xr); err != nil {
			return err
		}
	}
	return nil
}

// compositePage is the page size of lists of composites: rendering those of one page
// takes minutes, after which the API server may have forgotten the list.
const compositePage = 100

// composites returns the client of the kind that the Composition is for.
func (c *previewCommand) composites(p *preview.Previewer) (dynamic.ResourceInterface, error) {
	conn, err := c.connection()
	if err != nil {
		return nil, err
	}
	kind := p.Composition.Composite
	m, err := conn.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("cannot find the resource of kind %s: %w", kind.GroupKind(), err)
	}
	return inspect.ClientOf(conn, m, conn.in(c.all)), nil
}

// print prints the preview. A composite that cannot be rendered is an error after that.
func (c *previewCommand) print(found *preview.Preview) error {
	done, err := c.format.structured(c.Out, found)
	if err != nil {
		return err
	}
	if !done {
		c.view.preview(found, c.format.value == formatWide).draw(c.Out)
	}
	if len(found.Failed) > 0 {
		return fmt.Errorf("cannot render %d of %s", len(found.Failed), channel.Plural(found.Composites, "composite"))
	}
	return foundIf(c.exitCode && len(found.Groups) > 0)
}

// preview returns the preview as a tree.
func (v view) preview(found *preview.Preview, wide bool) *node {
	top := &node{text: fmt.Sprintf("%s, %d unchanged", channel.Plural(found.Composites, "composite"), found.Unchanged)}
	for _, g := range found.Groups {
		n := top.addf("%s %s %q on %d: %s", channel.OperationVerb(string(g.Operation)), v.bold(g.Kind), g.Resource, len(g.Changes), v.verdict(g.Allowed, g.Reason))
		n.lines = append(n.lines, lists.Map(g.Difference, channel.Field)...)
		if g.Lacks != "" {
			n.lines = append(n.lines, "lacks: "+g.Lacks)
		}
		for i, ch := range g.Changes {
			if i == maxShown && !wide {
				n.addf("and %d more", len(g.Changes)-maxShown)
				break
			}
			text := channel.Describe(ch.Composite)
			if ch.Child.Name != "" {
				text += ": " + channel.Describe(ch.Child)
			}
			if ch.Manual {
				text += ", once its revision is selected (compositionUpdatePolicy Manual)"
			}
			if wide {
				text += ", difference " + ch.ID
			}
			n.add(text)
		}
	}
	for _, f := range found.Failed {
		top.add(v.red(channel.Describe(f.Composite)+" could not be rendered: ") + f.Error)
	}
	return top
}
