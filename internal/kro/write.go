package kro

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	yamlv3 "go.yaml.in/yaml/v3"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Read returns the ResourceGraphDefinitions of YAML or JSON documents, in their order. Objects of other kinds are left out; it is an error
// where there is no graph.
func Read(in io.Reader) ([]krov1alpha1.ResourceGraphDefinition, error) {
	var out []krov1alpha1.ResourceGraphDefinition
	for decoder := k8syaml.NewYAMLOrJSONDecoder(in, 4096); ; {
		var raw []byte
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			raw, err = yaml.Marshal(document)
		}
		var one krov1alpha1.ResourceGraphDefinition
		if err == nil {
			err = yaml.Unmarshal(raw, &one)
		}
		gvk := one.GroupVersionKind()
		switch {
		case err != nil && (gvk.Kind == "" || gvk.Kind == authorship.GraphKind.Kind):
			return nil, fmt.Errorf("cannot read it: %w", err)
		case err == nil && gvk.GroupKind() == authorship.GraphKind.GroupKind():
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no ResourceGraphDefinition (kro.run)")
	}
	return out, nil
}

// Write the policies as YAML documents. What a rule was derived from is a comment above it, and what could not be analysed one above the
// first policy.
func (d *Derived) Write(out io.Writer) error {
	for i := range d.Policies {
		head := ""
		if i == 0 && len(d.Unknown) > 0 {
			head = "Review these lines. No rule explains some of what changes them, or a rule is wider than the line:\n"
			for _, line := range d.Unknown {
				head += "  " + line + "\n"
			}
		}
		if err := writePolicy(out, &d.Policies[i], head); err != nil {
			return fmt.Errorf("cannot encode AllowancePolicy %s: %w", d.Policies[i].Name, err)
		}
	}
	return nil
}

func writePolicy(out io.Writer, p *v1alpha1.AllowancePolicy, head string) error {
	raw, err := yaml.Marshal(struct {
		APIVersion string                       `json:"apiVersion"`
		Kind       string                       `json:"kind"`
		Metadata   map[string]any               `json:"metadata"`
		Spec       v1alpha1.AllowancePolicySpec `json:"spec"`
	}{p.APIVersion, p.Kind, map[string]any{"name": p.Name, "annotations": p.Annotations}, p.Spec})
	if err != nil {
		return err
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(raw, &document); err != nil {
		return err
	}
	commentRules(document.Content[0])
	inOrder(document.Content[0])
	var text bytes.Buffer
	text.WriteString("---\n")
	document.HeadComment = head
	encoder := yamlv3.NewEncoder(&text)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&document); err != nil {
		return err
	}
	_, err = out.Write(text.Bytes())
	return err
}

// commentRules makes comments of the lines that rules of a policy were derived from.
func commentRules(policy *yamlv3.Node) {
	rules := value(value(policy, "spec"), "rules")
	if rules == nil {
		return
	}
	for _, rule := range rules.Content {
		for i := 0; i+1 < len(rule.Content); i += 2 {
			if rule.Content[i].Value != "derivedFrom" {
				continue
			}
			comment := ""
			for _, line := range rule.Content[i+1].Content {
				comment += line.Value + "\n"
			}
			rule.Content = append(rule.Content[:i], rule.Content[i+2:]...)
			rule.HeadComment = comment
			break
		}
	}
}

// order of the keys of a policy for readers; those that are missing go first.
var order = []string{"apiVersion", "kind", "metadata", "namespace", "name", "annotations", "spec", "trigger", "target", "subjects", "relation",
	"verbs", "initializing", "deleting", "rules", "allow", "mutations"}

// inOrder sorts the keys of all mappings.
func inOrder(n *yamlv3.Node) {
	for _, below := range n.Content {
		inOrder(below)
	}
	if n.Kind != yamlv3.MappingNode {
		return
	}
	pairs := slices.Collect(slices.Chunk(slices.Clone(n.Content), 2))
	slices.SortStableFunc(pairs, func(a, b []*yamlv3.Node) int {
		return cmp.Compare(slices.Index(order, a[0].Value), slices.Index(order, b[0].Value))
	})
	n.Content = slices.Concat(pairs...)
}

// value returns the value of a key of a mapping; nil where it has none.
func value(mapping *yamlv3.Node, key string) *yamlv3.Node {
	if mapping == nil {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}
