package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// explainCommand explains what would happen to a change of an object.
type explainCommand struct {
	*session
	arguments
	format format
	patch  string
	// edit is the content of the patch; nil for none.
	edit     []byte
	exitCode bool
}

// newExplainCommand returns `kubectl kausality explain`: the decision of the webhook,
// made here from what the user may read.
func newExplainCommand(s *session) *cobra.Command {
	c := &explainCommand{session: s}
	cmd := &cobra.Command{
		Use: "explain TYPE/NAME", Short: "Show what would happen if an object were changed now, and why.",
		Long: "Decides as the webhook would if the object's controller, or you, changed it now, or if you deleted it, and shows what the " +
			"decision depends on: its parent and whether that has settled, mode, freeze, snooze, approvals, rejections, gate, and earlier " +
			"refusals. Nothing is written and nothing is sent to the webhook. Exits with 5 where you may not read what decisions depend on.",
		Example: `  # Why is this not changed?
  kubectl kausality explain database/orders-da6cb79af0ff

  # And if its controller set the size to 50?
  kubectl kausality explain database/orders-da6cb79af0ff --patch '{"spec":{"forProvider":{"size":50}}}'`,
		ValidArgsFunction: completer{s}.object,
		RunE:              runs(c),
	}
	c.format.add(cmd, formatJSON, formatYAML)
	cmd.Flags().StringVar(&c.patch, "patch", "", "The change to explain, as a merge patch in JSON or YAML; - reads it from standard input, @FILE from a file.")
	cmd.Flags().BoolVar(&c.exitCode, "exit-code", false, "Exit with 4 if the change of the object's controller would be refused.")
	return cmd
}

// complete completes the patch, which may be in a file.
func (c *explainCommand) complete(cmd *cobra.Command, args []string) (err error) {
	if c.edit, err = readPatch(c.In, c.patch); err != nil {
		return err
	}
	return c.arguments.complete(cmd, args)
}

// run explains one object. The patch is checked first: it may come from standard
// input.
func (c *explainCommand) run(ctx context.Context) error {
	t, err := c.object(c.cmd, c.args)
	if err != nil {
		return err
	}
	var patched *unstructured.Unstructured
	if c.edit != nil {
		if patched, err = patchedBy(t.Unstructured, c.edit); err != nil {
			return err
		}
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	e, err := i.Explain(ctx, t.Unstructured, patched)
	if err != nil {
		return err
	}
	if done, err := c.format.structured(c.Out, e); err != nil {
		return err
	} else if !done {
		c.view.explanation(e).draw(c.Out)
	}
	if e.Undecided != "" {
		return errUnread
	}
	return foundIf(c.exitCode && refused(e))
}

// readPatch reads the patch of the flag as JSON; nil where it is empty.
func readPatch(in io.Reader, value string) ([]byte, error) {
	if value == "" {
		return nil, nil
	}
	raw := []byte(value)
	var err error
	switch {
	case value == "-":
		raw, err = io.ReadAll(in)
	case value[0] == '@':
		raw, err = os.ReadFile(value[1:])
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--patch: cannot read it: %w", err)}
	}
	out, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return nil, usageError{fmt.Errorf("--patch is no JSON or YAML: %w", err)}
	}
	if m := (map[string]any{}); json.Unmarshal(out, &m) != nil || len(m) == 0 {
		return nil, usageError{errors.New(`--patch must be an object, as in {"spec":{"size":50}}`)}
	}
	return out, nil
}

// patchedBy returns an object after a merge patch (RFC 7396), as the API server merges it.
func patchedBy(o *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	raw, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", o.GetName(), err)
	}
	merged, err := jsonpatch.MergePatch(raw, patch)
	if err != nil {
		return nil, usageError{fmt.Errorf("--patch cannot be applied: %w", err)}
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(merged); err != nil {
		return nil, usageError{fmt.Errorf("--patch does not give an object: %w", err)}
	}
	if out.GroupVersionKind() != o.GroupVersionKind() || out.GetName() != o.GetName() || out.GetNamespace() != o.GetNamespace() {
		return nil, usageError{errors.New("--patch must not change kind, name or namespace")}
	}
	return out, nil
}
