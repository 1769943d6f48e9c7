package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/cli/inspect"
)

type explainOptions struct {
	format   format
	patch    string
	exitCode bool
}

func (c *cli) explainCommand() *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use: "explain TYPE/NAME", Short: "Show what would happen if an object were changed now, and why.",
		Long: "Decides what the webhook would decide if the object's controller, or you, changed it now, or if you deleted it, and " +
			"shows what the decision rests on: its parent and whether that has settled, mode, freeze, snooze, approvals, " +
			"rejections, gate, and what was refused before. Nothing is written and nothing is sent to the webhook.",
		Example: `  # Why is this not changed?
  kubectl kausality explain database/orders-da6cb79af0ff

  # And if its controller set the size to 50?
  kubectl kausality explain database/orders-da6cb79af0ff --patch '{"spec":{"forProvider":{"size":50}}}'`,
		ValidArgsFunction: c.completeObjects,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.explain(cmd, args, o) },
	}
	o.format.add(cmd, formatJSON, formatYAML)
	cmd.Flags().StringVar(&o.patch, "patch", "", "Merge patch in JSON or YAML that the change would be; - reads it from standard input, @FILE from a file.")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "Exit with 4 if the change of the object's controller would be refused.")
	return cmd
}

func (c *cli) explain(cmd *cobra.Command, args []string, o *explainOptions) error {
	if err := o.format.check(); err != nil {
		return err
	}
	patch, err := c.readPatch(o.patch)
	if err != nil {
		return err
	}
	t, err := c.object(cmd, args)
	if err != nil {
		return err
	}
	var patched *unstructured.Unstructured
	if patch != nil {
		if patched, err = patchedBy(t.Unstructured, patch); err != nil {
			return err
		}
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	e, err := i.Explain(cmd.Context(), t.Unstructured, patched)
	if err != nil {
		return err
	}
	if done, err := o.format.structured(c.Out, e); err != nil {
		return err
	} else if !done {
		c.explanation(e).draw(c.Out)
	}
	if o.exitCode && refused(e) {
		return errFound
	}
	return nil
}

// refused reports whether the change of the controller would be.
func refused(e *inspect.Explanation) bool {
	for _, out := range e.Outcomes {
		if out.Attempt == inspect.AttemptController {
			return !out.Allowed
		}
	}
	return false
}

// readPatch as JSON; nil where none is given.
func (c *cli) readPatch(value string) ([]byte, error) {
	if value == "" {
		return nil, nil
	}
	raw := []byte(value)
	var err error
	switch {
	case value == "-":
		raw, err = io.ReadAll(c.In)
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

// patchedBy a merge patch, as the API server would merge it.
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
		return nil, usageError{fmt.Errorf("--patch leaves no object: %w", err)}
	}
	if out.GroupVersionKind() != o.GroupVersionKind() || out.GetName() != o.GetName() || out.GetNamespace() != o.GetNamespace() {
		return nil, usageError{errors.New("--patch must leave kind, name and namespace as they are")}
	}
	return out, nil
}
