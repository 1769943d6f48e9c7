package iam

import (
	"fmt"
	"slices"
	"strings"
)

// operator of a condition.
type operator struct {
	// set is ForAnyValue or ForAllValues; "" for a key with one value.
	set string
	// name without what follows.
	name string
	// not: the condition is met where no value matches.
	not bool
	// ifExists: it is met where the request has no such key.
	ifExists bool
}

const null = "Null"

var matchers = map[string]func(r *Request, pattern, text string) (bool, error){
	"StringEquals":           (*Request).equal,
	"StringEqualsIgnoreCase": (*Request).equalFold,
	"StringLike":             (*Request).like,
	"ArnEquals":              (*Request).arnLike,
	"ArnLike":                (*Request).arnLike,
}

// operatorOf reads the name of an operator, as in ForAnyValue:StringNotEqualsIfExists.
func operatorOf(text string) (o operator, err error) {
	name := text
	if set, of, ok := strings.Cut(text, ":"); ok {
		if o.set, name = set, of; set != "ForAnyValue" && set != "ForAllValues" {
			return o, fmt.Errorf("unknown operator %q", text)
		}
	}
	name, o.ifExists = strings.CutSuffix(name, "IfExists")
	if name == null && text == null {
		o.name = null
		return o, nil
	}
	for _, kind := range []string{"String", "Arn"} {
		if rest, ok := strings.CutPrefix(name, kind+"Not"); ok {
			name, o.not = kind+rest, true
		}
	}
	if o.name = name; matchers[name] == nil {
		return o, fmt.Errorf("unknown operator %q", text)
	}
	return o, nil
}

// Keys of a request, in lower case: names of condition keys have no case. Those with several values need a set operator.
var (
	keys     = []string{"aws:principalarn", "sts:externalid"}
	listKeys = []string{"aws:tagkeys", "sts:transitivetagkeys"}
	tagKeys  = []string{"aws:principaltag/", "aws:requesttag/"}
)

func validateConditions(conditions map[string]map[string]texts) error {
	for operator, keys := range conditions {
		if _, err := operatorOf(operator); err != nil {
			return err
		}
		for key, values := range keys {
			if err := validateKey(operator, key, values); err != nil {
				return err
			}
		}
	}
	return nil
}

func validateKey(operatorName, key string, values texts) error {
	o, err := operatorOf(operatorName)
	if err != nil {
		return err
	}
	name := strings.ToLower(key)
	isTag := slices.ContainsFunc(tagKeys, func(prefix string) bool { return len(name) > len(prefix) && strings.HasPrefix(name, prefix) })
	isList := slices.Contains(listKeys, name)
	switch {
	case !isTag && !isList && !slices.Contains(keys, name):
		return fmt.Errorf("unknown condition key %q", key)
	case o.name != null && isList != (o.set != ""):
		return fmt.Errorf("%s does not fit the condition key %q: a set operator is for keys with several values", operatorName, key)
	case len(values) == 0:
		return fmt.Errorf("the condition key %q has no value", key)
	}
	for _, v := range values {
		if o.name == null && v != "true" && v != "false" {
			return fmt.Errorf("Null of %q must be true or false", key)
		}
		if strings.HasPrefix(o.name, "Arn") && len(strings.SplitN(v, ":", 6)) < 6 {
			return fmt.Errorf("the value %q of %q is no ARN", v, key)
		}
	}
	return nil
}

// condition reports whether a condition is met: the value of one key.
func (r *Request) condition(name, key string, values texts) (bool, error) {
	o, err := operatorOf(name)
	if err != nil {
		return false, err
	}
	of, err := r.values(key)
	if err != nil {
		return false, err
	}
	switch {
	case o.name == null:
		return slices.Contains(values, fmt.Sprint(len(of) == 0)), nil
	case len(of) == 0 && o.ifExists:
		return true, nil
	case len(of) == 0:
		return o.set == "ForAllValues" || o.set == "" && o.not, nil
	}
	met := 0
	for _, v := range of {
		matches := false
		for _, pattern := range values {
			ok, err := matchers[o.name](r, pattern, v)
			if err != nil {
				return false, err
			}
			matches = matches || ok
		}
		if matches != o.not {
			met++
		}
	}
	if o.set == "ForAnyValue" {
		return met > 0, nil
	}
	return met == len(of), nil
}

// equal compares a value that may have variables, and no wildcards.
func (r *Request) equal(value, text string) (bool, error) {
	if strings.ContainsAny(value, "*?") {
		return false, fmt.Errorf("the wildcard of %q needs StringLike", value)
	}
	return r.like(value, text)
}

func (r *Request) equalFold(value, text string) (bool, error) {
	if variable.MatchString(value) {
		return false, fmt.Errorf("unknown form of %q: a variable in StringEqualsIgnoreCase", value)
	}
	return r.equal(strings.ToLower(value), strings.ToLower(text))
}

// arnLike compares the six parts of ARNs one by one: no wildcard matches a colon between them.
func (r *Request) arnLike(pattern, text string) (bool, error) {
	patterns, parts := strings.SplitN(pattern, ":", 6), strings.SplitN(text, ":", 6)
	if len(patterns) != 6 || len(parts) != 6 {
		return false, nil
	}
	for i := range patterns {
		if ok, err := r.like(patterns[i], parts[i]); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
