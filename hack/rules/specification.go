package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// specificationFile defines the rules.
const specificationFile = "docs/specification.md"

// Kind of a citation.
type Kind int

const (
	// Code is a comment in product code.
	Code Kind = iota
	// Unit is a test beside product code.
	Unit
	// Integration is a conformance scenario, or a test below test/.
	Integration
	// Text is a document or any other file: its ids must exist, nothing else.
	Text
)

// kinds that every rule is cited by, unless it waives one.
var kinds = []Kind{Code, Unit, Integration}

func (k Kind) String() string {
	return [...]string{"code", "unit test", "scenario"}[k]
}

// Rule of the specification.
type Rule struct {
	// ID as in KR-05-13.
	ID string
	// Title is what the rule is about, in a few words.
	Title string
	// Section is the heading of the section that the rule is in.
	Section string
	// Waived kinds of citations, each with the reason; nil for none.
	Waived map[Kind]string
}

var (
	idPattern = regexp.MustCompile(`KR-\d\d-\d\d`)
	// rulePattern is the beginning of a rule: its id in bold, and its title.
	rulePattern = regexp.MustCompile(`^\*\*(KR-\d\d-\d\d)\*\* ([^:]+): `)
	// waiverPattern is a line in italics: "*No unit test: why not.*".
	waiverPattern = regexp.MustCompile(`^\*No (code|unit test|scenario): ([^*]+)\*$`)
)

// Specification parses the rules of a specification, in their order. A waiver
// that follows no rule is an error.
func Specification(text string) ([]Rule, error) {
	var rules []Rule
	section := ""
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		paragraph = strings.Join(strings.Fields(paragraph), " ")
		if heading, ok := strings.CutPrefix(paragraph, "## "); ok {
			section = heading
			continue
		}
		if m := rulePattern.FindStringSubmatch(paragraph); m != nil {
			rules = append(rules, Rule{ID: m[1], Title: m[2], Section: section})
			continue
		}
		m := waiverPattern.FindStringSubmatch(paragraph)
		if m == nil {
			continue
		}
		if len(rules) == 0 {
			return nil, fmt.Errorf("cannot read %s: %q follows no rule", specificationFile, paragraph)
		}
		rules[len(rules)-1].waive(m[1], m[2])
	}
	return rules, nil
}

func (r *Rule) waive(kind, reason string) {
	for _, k := range kinds {
		if k.String() == kind {
			if r.Waived == nil {
				r.Waived = map[Kind]string{}
			}
			r.Waived[k] = reason
		}
	}
}

// readSpecification of a repository.
func readSpecification(root fs.FS) ([]Rule, error) {
	raw, err := fs.ReadFile(root, specificationFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the rules: %w", err)
	}
	return Specification(string(raw))
}
