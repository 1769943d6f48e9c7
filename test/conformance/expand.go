package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// variable as in $(uid App/app).
var variable = regexp.MustCompile(`\$\(([^()]*)\)`)

// expand every string of a tree, keys included. A string that is nothing but the
// variable of a number becomes a number.
func (p *play) expand(ctx context.Context, tree any) (any, error) {
	switch t := tree.(type) {
	case string:
		return p.expandText(ctx, t)
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, v := range t {
			e, err := p.expand(ctx, v)
			if err != nil {
				return nil, err
			}
			k, err := p.expandText(ctx, k)
			if err != nil {
				return nil, err
			}
			out[text(k)] = e
		}
		return out, nil
	case []any:
		out := make([]any, 0, len(t))
		for _, v := range t {
			e, err := p.expand(ctx, v)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	}
	return tree, nil
}

// expandText expands the innermost variables first, so that they may be
// arguments of others.
func (p *play) expandText(ctx context.Context, s string) (any, error) {
	for {
		m := variable.FindStringIndex(s)
		if m == nil {
			return s, nil
		}
		v, err := p.variable(ctx, s[m[0]+2:m[1]-1])
		if err != nil {
			return nil, err
		}
		if m[0] == 0 && m[1] == len(s) {
			return v, nil
		}
		s = s[:m[0]] + text(v) + s[m[1]:]
	}
}

// function that a variable calls, with the number of arguments it takes.
type function struct {
	least, most int
	call        func(p *play, ctx context.Context, args []string) (any, error)
}

var functions = map[string]function{
	"ns":            {0, 0, func(p *play, _ context.Context, _ []string) (any, error) { return p.namespace, nil }},
	"configuration": {0, 0, func(p *play, _ context.Context, _ []string) (any, error) { return p.configuration, nil }},
	"id":            {0, 0, func(p *play, _ context.Context, _ []string) (any, error) { return p.suggestion() }},
	"time":          {0, 1, func(_ *play, _ context.Context, args []string) (any, error) { return instant(args) }},
	"cron":          {0, 1, func(_ *play, _ context.Context, args []string) (any, error) { return schedule(args) }},
	"text":          {1, 1, func(_ *play, _ context.Context, args []string) (any, error) { return filler(args[0]) }},
	"hash":          {1, 1, func(_ *play, _ context.Context, args []string) (any, error) { return userHash(args[0]), nil }},
	"kind":          {1, 1, func(p *play, _ context.Context, args []string) (any, error) { return p.kind(args[0]) }},
	"composed":      {1, 1, func(p *play, _ context.Context, args []string) (any, error) { return p.composedManager(args[0]) }},
	"applyset":      {1, 1, func(p *play, _ context.Context, args []string) (any, error) { return p.applySet(args[0]) }},
	"uid": {1, 1, func(p *play, ctx context.Context, args []string) (any, error) {
		return p.field(ctx, args[0], "metadata.uid")
	}},
	"generation": {1, 1, func(p *play, ctx context.Context, args []string) (any, error) {
		return p.field(ctx, args[0], "metadata.generation")
	}},
	"annotation": {2, 2, func(p *play, ctx context.Context, args []string) (any, error) {
		return p.field(ctx, args[0], "metadata.annotations["+key(args[1])+"]")
	}},
}

// variable by its name and arguments, or one that a step saved.
func (p *play) variable(ctx context.Context, expr string) (any, error) {
	words := strings.Fields(expr)
	if len(words) == 0 {
		return nil, errors.New("a variable has no name")
	}
	name, args := words[0], words[1:]
	if f, ok := functions[name]; ok && len(args) >= f.least && len(args) <= f.most {
		return f.call(p, ctx, args)
	}
	if v, ok := p.saved[name]; ok && len(args) == 0 {
		return v, nil
	}
	return nil, fmt.Errorf("variable $(%s) is not defined", expr)
}

func (p *play) suggestion() (any, error) {
	if p.id == "" {
		return nil, errors.New("$(id): no message has suggested an approval yet")
	}
	return p.id, nil
}

// filler of a length.
func filler(length string) (any, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("$(text): %q is not a length", length)
	}
	return strings.Repeat("x", n), nil
}

// schedule of the first minute that begins at an instant or later, as a cron expression in UTC.
func schedule(args []string) (string, error) {
	t, err := later(args)
	if err != nil {
		return "", err
	}
	return t.Add(time.Minute - time.Nanosecond).Format("4 15 2 1 *"), nil
}

// instant is the current time plus an optional duration.
func instant(args []string) (any, error) {
	t, err := later(args)
	if err != nil {
		return nil, err
	}
	return t.Format(time.RFC3339), nil
}

func later(args []string) (time.Time, error) {
	now := time.Now().UTC()
	if len(args) == 1 {
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return now, fmt.Errorf("not a duration: %w", err)
		}
		now = now.Add(d)
	}
	return now, nil
}

// field of the current object.
func (p *play) field(ctx context.Context, ref, path string) (any, error) {
	o, err := p.get(ctx, ref)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("%s does not exist", ref)
	}
	v := at(o, path)
	if !v.there {
		return nil, fmt.Errorf("%s has no %s", ref, path)
	}
	if n, ok := v.v.(float64); ok {
		return int64(n), nil
	}
	return v.v, nil
}

// userHash of a user name (KR-02-03), computed apart from the product.
func userHash(name string) string {
	sum := sha256.Sum256([]byte(name))
	out := new(big.Int).SetBytes(sum[:]).Text(36)
	return (strings.Repeat("0", max(0, 5-len(out))) + out)[:5]
}

// composedManager is the field manager under which Crossplane applies what it
// composes for an XR (KR-04-01).
func (p *play) composedManager(ref string) (string, error) {
	gvk, name, err := p.gvk(ref)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(name + gvk.GroupKind().String()))
	return "apiextensions.crossplane.io/composed/" + hex.EncodeToString(sum[:]), nil
}

// applySet is the id of the ApplySet of an object (KEP-3659, KR-18-01).
func (p *play) applySet(ref string) (string, error) {
	gvk, name, err := p.gvk(ref)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(name + "." + p.namespace + "." + gvk.Kind + "." + gvk.Group))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1", nil
}

// kind that a short name stands for.
func (p *play) kind(short string) (string, error) {
	gvk, _, err := p.gvk(short)
	return gvk.Kind, err
}

// gvk and name of KIND/NAME.
func (p *play) gvk(ref string) (schema.GroupVersionKind, string, error) {
	kind, name, _ := strings.Cut(ref, "/")
	k, ok := p.suite.Kinds[kind]
	if !ok {
		return schema.GroupVersionKind{}, "", fmt.Errorf("kind %q is not in fixtures.yaml", kind)
	}
	if k.Kind == "" {
		k.Kind = kind
	}
	if k.Copied {
		if p.copy == 0 {
			p.copy = <-p.free
		}
		k.Kind = numbered(k.Kind, p.copy)
	}
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind), name, nil
}

// number of a status field that may be given as a string.
func number(v any) any {
	if s, ok := v.(string); ok {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
	}
	return v
}
