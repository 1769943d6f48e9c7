package main

import "strings"

// An exception is a finding that may stay.
type exception struct {
	// file, or a directory with a slash at its end; empty for all.
	file string
	// text that the line holds.
	text string
	// reason for which it may stay.
	reason string
}

// exceptions. One that excuses nothing fails the test.
var exceptions = []exception{
	{file: "api/v1alpha1/approvalrule_types.go", text: "People", reason: "ApprovalRules distinguish people from machines and agents"},
	{file: "docs/", text: "people", reason: "the field people of ApprovalRules"},
	{file: "docs/", text: "People", reason: "the field people of ApprovalRules"},
	{file: "test/conformance/scenarios/votes.yaml", text: "people: false", reason: "the field people of ApprovalRules"},
}

// excused removes the findings that may stay. unused are the exceptions that
// excuse nothing.
func excused(findings []finding, list []exception) (rest []finding, unused []exception) {
	used := make([]bool, len(list))
	for _, f := range findings {
		stays := false
		for i, e := range list {
			if e.covers(f) {
				used[i], stays = true, true
			}
		}
		if !stays {
			rest = append(rest, f)
		}
	}
	for i, e := range list {
		if !used[i] {
			unused = append(unused, e)
		}
	}
	return rest, unused
}

func (e exception) covers(f finding) bool {
	inFile := e.file == "" || e.file == f.file || strings.HasSuffix(e.file, "/") && strings.HasPrefix(f.file, e.file)
	return inFile && strings.Contains(f.text, e.text)
}
