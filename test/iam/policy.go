package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Policy is a document of IAM.
type Policy struct {
	Version   string
	Statement []Statement
}

// Statement of a Policy. A trust policy has principals and no resources, any other has resources alone.
type Statement struct {
	Sid       string                      `json:",omitempty"`
	Effect    Effect                      `json:",omitempty"`
	Principal *Principal                  `json:",omitempty"`
	Action    texts                       `json:",omitempty"`
	NotAction texts                       `json:",omitempty"`
	Resource  texts                       `json:",omitempty"`
	Condition map[string]map[string]texts `json:",omitempty"`
}

// Effect of a Statement.
type Effect string

// Effects.
const (
	Allow Effect = "Allow"
	Deny  Effect = "Deny"
)

// Principal lists roles, by their ARNs.
type Principal struct{ AWS texts }

// texts is a text or a list of them.
type texts []string

// UnmarshalJSON reads both forms.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*t = make(texts, 1)
		return json.Unmarshal(raw, &(*t)[0])
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// Version of the language in which policies have variables.
const version = "2012-10-17"

var (
	// action has a wildcard in its name alone.
	action = regexp.MustCompile(`^(\*|[a-z0-9-]+:[A-Za-z0-9*?]+)$`)
	// roleARN is the one form of a principal.
	roleARN = regexp.MustCompile(`^arn:aws:iam::\d{12}:role/[\w+=,.@/-]+$`)
)

// Parse reads a policy. trust: it is the trust policy of a role.
func Parse(raw []byte, trust bool) (*Policy, error) {
	p := &Policy{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("cannot read policy: %w", err)
	}
	if d.More() {
		return nil, errors.New("cannot read policy: there is more than one")
	}
	if p.Version != version || len(p.Statement) == 0 {
		return nil, fmt.Errorf("cannot read policy: want version %s and a statement", version)
	}
	for i := range p.Statement {
		if err := p.Statement[i].validate(trust); err != nil {
			return nil, fmt.Errorf("statement %d (%s): %w", i, p.Statement[i].Sid, err)
		}
	}
	return p, nil
}

func (s *Statement) validate(trust bool) error {
	switch {
	case s.Effect != Allow && s.Effect != Deny:
		return fmt.Errorf("unknown effect %q", s.Effect)
	case (len(s.Action) == 0) == (len(s.NotAction) == 0):
		return errors.New("want one of Action and NotAction")
	case trust != (s.Principal != nil) || trust != (len(s.Resource) == 0):
		return errors.New("a trust policy has principals, any other policy has resources")
	}
	for _, a := range slices.Concat(s.Action, s.NotAction) {
		if !action.MatchString(a) {
			return fmt.Errorf("unknown form of the action %q", a)
		}
	}
	if trust {
		return errors.Join(s.Principal.validate(), validateConditions(s.Condition))
	}
	for _, r := range s.Resource {
		if parts := strings.SplitN(r, ":", 6); r != "*" && (len(parts) < 6 || parts[0] != "arn") {
			return fmt.Errorf("the resource %q is no ARN", r)
		}
	}
	return validateConditions(s.Condition)
}

func (p *Principal) validate() error {
	if len(p.AWS) == 0 {
		return errors.New("no principal")
	}
	for _, arn := range p.AWS {
		if !roleARN.MatchString(arn) {
			return fmt.Errorf("unknown form of the principal %q", arn)
		}
	}
	return nil
}

// matches reports whether a statement is about an action of a request.
func (s *Statement) matches(act string, r *Request) (bool, error) {
	if s.Principal != nil && !slices.Contains(s.Principal.AWS, r.principal()) {
		return false, nil
	}
	listed, err := r.any(slices.Concat(s.Action, s.NotAction), strings.ToLower(act), true)
	if err != nil || listed == (len(s.NotAction) > 0) {
		return false, err
	}
	if s.Principal == nil {
		if about, err := r.any(s.Resource, r.resource(), false); err != nil || !about {
			return false, err
		}
	}
	for operator, keys := range s.Condition {
		for key, values := range keys {
			if ok, err := r.condition(operator, key, values); err != nil || !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// any reports whether one of some patterns matches a text.
func (r *Request) any(patterns []string, text string, fold bool) (bool, error) {
	for _, p := range patterns {
		if fold {
			p = strings.ToLower(p)
		}
		ok, err := r.like(p, text)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// like reports whether a pattern with * and ? matches a text. A variable is replaced by its value, in which neither is a wildcard; a pattern with a variable
// that has no value matches nothing.
func (r *Request) like(pattern, text string) (bool, error) {
	expression, rest := "(?s)^", pattern
	for rest != "" {
		at := variable.FindStringIndex(rest)
		if at == nil {
			at = []int{len(rest), len(rest)}
		}
		expression += strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(rest[:at[0]]))
		if at[0] < at[1] {
			values, err := r.values(rest[at[0]+2 : at[1]-1])
			if err != nil || len(values) != 1 {
				return false, err
			}
			expression += regexp.QuoteMeta(values[0])
		}
		rest = rest[at[1]:]
	}
	return regexp.MustCompile(expression + "$").MatchString(text), nil
}
