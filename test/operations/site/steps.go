package site

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Step of the documentation: a command to type, or a manifest for policy.yaml.
type Step struct{ Command, Yaml string }

var (
	blocks  = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```")
	inlines = regexp.MustCompile("`((?:(?:kubectl|helm|kausality|crossplane|terraform|make|go) |[A-Z_]+=\\S+ )[^`]+)`")
	remark  = regexp.MustCompile(` {2,}#.*$`)
)

// Steps of a page in their order: lines of its shell blocks, what follows a prompt
// in others, and commands with arguments in the running text; blocks of YAML.
func (l *Site) Steps(page string) ([]Step, error) {
	raw, err := os.ReadFile(filepath.Join(l.Root, filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	var out []Step
	text := string(raw)
	for {
		at := blocks.FindStringSubmatchIndex(text)
		before := text
		if at != nil {
			before = text[:at[0]]
		}
		for _, m := range inlines.FindAllStringSubmatch(before, -1) {
			if command := strings.Join(strings.Fields(m[1]), " "); isCommand(command) {
				out = append(out, Step{Command: command})
			}
		}
		if at == nil {
			return out, nil
		}
		out = append(out, stepsOf(text[at[2]:at[3]], text[at[4]:at[5]])...)
		text = text[at[1]:]
	}
}

// isCommand and not only the name of one.
func isCommand(text string) bool {
	words := strings.Count(text, " ")
	switch {
	case strings.HasPrefix(text, "kubectl kausality "):
		return words > 2
	case strings.HasPrefix(text, "kubectl ") || strings.HasPrefix(text, "helm "):
		return words > 1
	}
	return strings.Contains(text, " -") || strings.Contains(text, "=")
}

// stepsOf a block in a language.
func stepsOf(language, block string) []Step {
	prompted := false
	switch language {
	case "yaml":
		return []Step{{Yaml: block}}
	case "shell", "sh", "console", "bash":
	case "", "text":
		prompted = true
	default:
		return nil
	}
	var out []Step
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
		line = strings.TrimRight(line, "\n")
		if prompted && !strings.HasPrefix(line, "$ ") {
			continue
		}
		line = strings.TrimPrefix(strings.TrimSpace(remark.ReplaceAllString(line, "")), "$ ")
		if line != "" {
			out = append(out, Step{Command: strings.Join(strings.Fields(line), " ")})
		}
	}
	return out
}
