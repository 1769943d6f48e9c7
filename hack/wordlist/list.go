package main

import (
	"regexp"
	"strings"
)

// A rule is a word, or a group of words, that readers outside of this project
// do not use for what is meant here.
type rule struct {
	// bad is a regular expression, without case; a space is any white space.
	bad string
	// fine is a regular expression of what begins like bad and may stay; empty
	// for none.
	fine string
	// instead is what to write.
	instead string
	// names: the words are discouraged in identifiers, too.
	names bool
}

// rules in the order in which they are tried at each place: one place is
// reported once.
var rules = []rule{
	// Citations of documents that are not in the repository.
	{bad: `specs? \d+(?:\.\d+)?`, instead: "a rule id of docs/specification.md, as in KR-05-13, or nothing"},
	{bad: `facts?2? \d+`, instead: "the source of Kubernetes or Crossplane, with its version"},
	{bad: `seeds? 0\d\d|the seeds?|seeds?' \w+|the seeds'|00\d's`, fine: `the seeds? (?:of|for)`,
		instead: "a rule id of docs/specification.md, or nothing"},
	{bad: `rows? \d+|rows? [a-z]\d`, instead: "a rule id of docs/specification.md"},
	{bad: `(?:house|review|facts2?|gaps|threats|tried|issue|spec)\.md`, instead: "a document of this repository"},

	// Verbs of speech for programs and data.
	{bad: `told|tells?|telling`, instead: "reports, identifies, distinguishes, declares", names: true},
	{bad: `says?|said|saying`, instead: "declares, states, reports, shows", names: true},
	{bad: `unasked|nobody asked(?: for)?`, instead: "unrequested", names: true},
	{bad: `asked|asks?|asking`, fine: `asks? for confirmation|asked for confirmation`,
		instead: "requests, calls, queries; requested, required"},
	{bad: `by whose word|(?:whose|nobody's|somebody's|author's|client's|user's) word|(?:its|their|our|his|her) word|the word of`,
		instead: "decision, value, annotation"},
	{bad: `(?:in|into|put in|puts? into) (?:\w+'s? )?words?(?: of)?|own words`, instead: "in the terms of; the message"},

	// Verbs of posture for data.
	{bad: `stands?|stood|standing`, fine: `stand-ins?|stands? (?:in )?for|standing for|standalone|stand-alone`,
		instead: "is, exists, is stored"},
	{bad: `lies`, instead: "is, is stored"},
	{bad: `(?:is|are|was|were|be|been) there(?: already)?|already there|there already`, instead: "exists, is present", names: true},

	// Persons without a role.
	{bad: `people|people's`, instead: "users, callers, approvers, readers", names: true},
	{bad: `whoever|whosoever`, instead: "the user who, the caller", names: true},
	{bad: `somebody(?: else)?(?:'s)?|someone(?: else)?(?:'s)?`, instead: "a user, another user, a client", names: true},
	{bad: `nobody(?: else)?(?:'s)?`, instead: "no user, no client; \"unrequested\"", names: true},
	{bad: `anybody(?: else)?(?:'s)?|anyone(?: else)?(?:'s)?`, instead: "any user, any client", names: true},
	{bad: `everybody(?: else)?(?:'s)?|everyone(?: else)?(?:'s)?`, instead: "every user, all clients", names: true},

	// Phrases that have a plainer form.
	{bad: `again and again`, instead: "repeatedly"},
	{bad: `anew`, instead: "again; re-create, restart", names: true},
	{bad: `lets? go(?: of)?|letting go`, instead: "unwatch, release, drop", names: true},
	{bad: `g(?:ive|ives|ave|iven|iving)(?: \w+)? back`, instead: "restore, return, release"},
	{bad: `t(?:ake|akes|aken|aking|ook)(?: \w+)? (?:back|along)`, instead: "remove, undo, delete; include"},
	{bad: `carr(?:y|ies|ied|ying)(?: \w+)? along`, instead: "include, apply as well"},
	{bad: `besides`, instead: "also, in addition to", names: true},
	{bad: `mend(?:s|ed|ing)?`, instead: "fix, repair"},
	{bad: `by (?:turns)`, instead: "alternately"},
	{bad: `counts? for nothing`, instead: "is ignored"},
	{bad: `in (?:anybody|anyone|nobody|somebody)'s eyes`, instead: "to any client"},
	{bad: `not? looked at|looked at`, instead: "observed, compared, read; unobserved"},

	// Metaphors.
	{bad: `hearsay|rumou?rs?`, instead: "candidate kinds", names: true},
	{bad: `litter|littered`, instead: "garbage", names: true},
	{bad: `yards?|desks?`, instead: "what it is: fixture, cluster, harness", names: true},
	{bad: `the world`, instead: "the cluster, the stored state; World only for the interface"},
}

// A matcher finds the words of all rules in a text.
type matcher struct {
	all   *regexp.Regexp
	rules []*regexp.Regexp
	names *regexp.Regexp
	byBad map[*regexp.Regexp]rule
}

// compile the rules. It panics where one of them is no regular expression,
// which their test finds.
func compile(list []rule) *matcher {
	m := &matcher{byBad: map[*regexp.Regexp]rule{}}
	var all, names []string
	for _, r := range list {
		bad, fine := spaces(r.bad), spaces(r.fine)
		all = append(all, bad)
		if r.names {
			names = append(names, bad)
		}
		text := `(?i)\b(?:(` + bad + `))\b`
		if fine != "" {
			text = `(?i)\b(?:(?:` + fine + `)|(` + bad + `))\b`
		}
		re := regexp.MustCompile(text)
		m.rules, m.byBad[re] = append(m.rules, re), r
	}
	m.all = regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
	m.names = regexp.MustCompile(`(?i)\b(?:` + strings.Join(names, "|") + `)\b`)
	return m
}

func spaces(re string) string { return strings.ReplaceAll(re, " ", `\s+`) }

// A hit is a discouraged word at an offset of a text, in bytes.
type hit struct {
	at            int
	word, instead string
}

// find the discouraged words of a text, in the order of the rules; what two
// rules match is a hit of the first.
func (m *matcher) find(text string) []hit {
	if !m.all.MatchString(text) {
		return nil // most texts
	}
	var out []hit
	var taken [][2]int
	for _, re := range m.rules {
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			from, to := at[2], at[3]
			if from < 0 || overlaps(taken, from, to) {
				continue
			}
			taken = append(taken, [2]int{from, to})
			word := strings.Join(strings.Fields(text[from:to]), " ")
			out = append(out, hit{at: from, word: word, instead: m.byBad[re].instead})
		}
	}
	return out
}

func overlaps(taken [][2]int, from, to int) bool {
	for _, t := range taken {
		if from < t[1] && t[0] < to {
			return true
		}
	}
	return false
}

// findName finds the discouraged words of an identifier, as in rumourAge. Names
// of two words match rules of two words: thereAlready.
func (m *matcher) findName(name string) []hit {
	text := strings.Join(wordsOf(name), " ")
	if !m.names.MatchString(text) {
		return nil
	}
	var out []hit
	for _, h := range m.find(text) {
		if m.names.MatchString(h.word) {
			out = append(out, hit{word: name, instead: h.instead})
		}
	}
	return out
}

// parts of an identifier: a run of capitals with what follows, or of lower case.
var parts = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

func wordsOf(name string) []string { return parts.FindAllString(name, -1) }
