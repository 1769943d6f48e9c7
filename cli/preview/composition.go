package preview

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/cli/inspect"
)

// Composition to preview.
type Composition struct {
	*unstructured.Unstructured
	// Composite is the kind it composes for.
	Composite schema.GroupVersionKind
	// Functions that its pipeline names, Kausality's own left out, each once.
	Functions []string
}

// inputGroup is that of the input of Kausality's own step.
const inputGroup = "kausality.fn.crossplane.io/"

// Parse parses a Composition in mode Pipeline from YAML or JSON, and takes Kausality's
// own steps out.
func Parse(raw []byte) (*Composition, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &o.Object); err != nil {
		return nil, fmt.Errorf("it is no YAML: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	if inspect.IsGraph(o) {
		name := o.GetName()
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			name = "NAME"
		}
		return nil, errors.New("it is a graph of kro, and preview renders Compositions alone. To see what an edit of a graph changes, apply it: in mode " +
			"enforce it is held on each instance that has settled, and listed by: kubectl kausality pending resourcegraphdefinition/" + name)
	}
	if o.GetKind() != "Composition" || o.GroupVersionKind().Group != "apiextensions.crossplane.io" || o.GetName() == "" {
		return nil, errors.New("it is no Composition: kind must be Composition of apiextensions.crossplane.io, with a name")
	}
	c := &Composition{Unstructured: o}
	of, _, err := unstructured.NestedStringMap(o.Object, "spec", "compositeTypeRef")
	if err != nil || of["kind"] == "" || of["apiVersion"] == "" {
		return nil, errors.New("spec.compositeTypeRef must name apiVersion and kind")
	}
	c.Composite = schema.FromAPIVersionAndKind(of["apiVersion"], of["kind"])
	steps, found, err := unstructured.NestedSlice(o.Object, "spec", "pipeline")
	if err != nil || !found {
		return nil, errors.New("spec.pipeline is missing: only Compositions in mode Pipeline can be previewed")
	}
	kept := c.without(steps)
	if len(kept) == 0 {
		return nil, errors.New("spec.pipeline has no step that composes anything")
	}
	return c, unstructured.SetNestedSlice(o.Object, kept, "spec", "pipeline")
}

// without returns the steps without those of Kausality.
func (c *Composition) without(steps []any) []any {
	kept := make([]any, 0, len(steps))
	seen := map[string]bool{}
	for _, s := range steps {
		m, _ := s.(map[string]any)
		input, _ := m["input"].(map[string]any)
		if v, _ := input["apiVersion"].(string); strings.HasPrefix(v, inputGroup) {
			continue
		}
		kept = append(kept, s)
		ref, _ := m["functionRef"].(map[string]any)
		if name, _ := ref["name"].(string); name != "" && !seen[name] {
			seen[name] = true
			c.Functions = append(c.Functions, name)
		}
	}
	return kept
}
