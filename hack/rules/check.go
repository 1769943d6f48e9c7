package main

import (
	"fmt"
	"slices"
	"strings"
)

// shown to users: CRDs and manifests, in which a rule's id means nothing.
var shown = []string{"package/", "examples/"}

// Missing are the rules that lack a citation of a kind and do not waive it, as
// sentences.
func Missing(rules []Rule, all []Citation) []string {
	type need struct {
		rule string
		kind Kind
	}
	met := map[need]bool{}
	for _, c := range all {
		met[need{c.Rule, c.Kind}] = true
	}
	var out []string
	for _, r := range rules {
		for _, k := range kinds {
			if !met[need{r.ID, k}] && r.Waived[k] == "" {
				out = append(out, fmt.Sprintf("%s (%s) has no %s", r.ID, r.Title, k))
			}
		}
	}
	return out
}

// Wrong is what is wrong with rules and citations, as sentences: ids that two
// rules share, ids that no rule has, waivers of what is cited, and ids where
// users read.
func Wrong(rules []Rule, all []Citation) []string {
	var out []string
	known := map[string]Rule{}
	for _, r := range rules {
		if _, twice := known[r.ID]; twice {
			out = append(out, fmt.Sprintf("two rules have the id %s", r.ID))
		}
		known[r.ID] = r
	}
	for _, c := range all {
		r, ok := known[c.Rule]
		_, waived := r.Waived[c.Kind]
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("%s cites %s, which is no rule of %s", c.File, c.Rule, specificationFile))
		case waived:
			out = append(out, fmt.Sprintf("%s waives its %s, but %s cites it: remove the waiver", c.Rule, c.Kind, c.File))
		}
		if slices.ContainsFunc(shown, func(prefix string) bool { return strings.HasPrefix(c.File, prefix) }) {
			out = append(out, fmt.Sprintf("%s is for users and cites %s", c.File, c.Rule))
		}
	}
	return out
}
