package carry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxModule is the size of an inline module, in bytes, up to which its variables are read.
const maxModule = 256 << 10

// inputsPrefix is that of the input variables by which a module takes what Kausality writes.
const inputsPrefix = "kausality_"

// Declared returns the input variables of Kausality that the inline module of a Workspace declares, by its spec.forProvider, sorted; nil for
// modules from elsewhere. The error is about a module that cannot be read; such a run fails by itself.
func Declared(forProvider map[string]any) ([]string, error) {
	source, _ := forProvider["source"].(string)
	module, _ := forProvider["module"].(string)
	if source != "Inline" || !strings.Contains(module, inputsPrefix) {
		return nil, nil
	}
	if len(module) > maxModule {
		return nil, fmt.Errorf("the inline module has %d bytes: its variables are read up to %d", len(module), maxModule)
	}
	var all []string
	var err error
	if format, _ := forProvider["inlineFormat"].(string); strings.EqualFold(format, "json") {
		all, err = declaredInJSON(module)
	} else {
		all, err = declaredIn(module)
	}
	if err != nil {
		return nil, fmt.Errorf("the inline module does not parse: %w", err)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, inputsPrefix) })
	slices.Sort(all)
	return slices.Compact(all), nil
}

// declaredIn returns the variables of a module. It reads the tokens alone, since a parser's stack is as deep as what it parses: variable "NAME" {,
// outside of all blocks.
func declaredIn(module string) (out []string, err error) {
	tokens, diags := hclsyntax.LexConfig([]byte(module), "main.tf", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	depth := 0
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenTemplateSeqEnd:
			if depth--; depth < 0 {
				return nil, fmt.Errorf("main.tf:%d: there is a } too many", t.Range.Start.Line)
			}
		case hclsyntax.TokenIdent:
			if depth == 0 && string(t.Bytes) == "variable" {
				out = append(out, label(tokens[i+1:])...)
			}
		}
	}
	if depth > 0 {
		return nil, errors.New("main.tf: a } is missing")
	}
	return out, nil
}

// label returns the label of a block, from the tokens after its type; nil for what is no block with one label.
func label(tokens hclsyntax.Tokens) []string {
	var types []hclsyntax.TokenType
	for _, t := range tokens[:min(len(tokens), 4)] {
		types = append(types, t.Type)
	}
	quoted := []hclsyntax.TokenType{hclsyntax.TokenOQuote, hclsyntax.TokenQuotedLit, hclsyntax.TokenCQuote, hclsyntax.TokenOBrace}
	switch {
	case slices.Equal(types, quoted):
		return []string{string(tokens[1].Bytes)}
	case len(types) > 1 && slices.Equal(types[:2], []hclsyntax.TokenType{hclsyntax.TokenIdent, hclsyntax.TokenOBrace}):
		return []string{string(tokens[0].Bytes)}
	}
	return nil
}

// declaredInJSON returns the variables of a module in JSON: its field variable is an object of them, or a list of such objects.
func declaredInJSON(module string) (out []string, err error) {
	var file struct {
		Variable json.RawMessage `json:"variable"`
	}
	if err := json.Unmarshal([]byte(module), &file); err != nil || file.Variable == nil {
		return nil, err
	}
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(file.Variable, &all); err != nil {
		all = make([]map[string]json.RawMessage, 1)
		if err := json.Unmarshal(file.Variable, &all[0]); err != nil {
			return nil, err
		}
	}
	for _, of := range all {
		for name := range of {
			out = append(out, name)
		}
	}
	return out, nil
}
