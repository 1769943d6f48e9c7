package expression

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestTrue(t *testing.T) {
	in := func() *Input {
		return &Input{
			Object: map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"jira": "INFRA-1", "allow-recreate": "true"}},
				"spec":     map[string]any{"replicas": int64(3), "list": []any{"a", "b"}, "flag": true},
			},
			OldObject: map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"replicas": int64(2)}},
			Parent:    map[string]any{"kind": "XDatabase"},
			Request:   map[string]any{"user": "hans", "groups": []string{"dev"}, "operation": "UPDATE"},
		}
	}
	for _, tc := range []struct {
		reason, text, err string
		want              bool
	}{
		{reason: "an index with a string, as policies have it", text: "has(object.metadata.annotations['jira'])", want: true},
		{reason: "a key that is not there", text: "has(object.metadata.annotations['other'])"},
		{reason: "nor is the map", text: "has(oldObject.metadata.annotations['jira'])"},
		{reason: "CEL's own form", text: "has(object.spec.replicas)", want: true},
		{reason: "of a variable", text: "has(object['spec'])", want: true},
		{reason: "direction of a change", text: "object.spec.replicas > oldObject.spec.replicas", want: true},
		{reason: "a pattern", text: "object.metadata.annotations['jira'].matches('^INFRA-[0-9]+$')", want: true},
		{reason: "a value that is no type known beforehand", text: "object.spec.flag", want: true},
		{reason: "the other side of an or decides", text: "object.metadata.labels['env'] != 'prod' || has(object.metadata.annotations['jira'])", want: true},
		{reason: "a conversion, whose error has the value (KR-13-26)",
			text: "quantity(object.metadata.annotations['jira']).isInteger()", err: "it cannot be evaluated on this object"},
		{reason: "a key that is computed (KR-13-26)", text: "{'a': true}[object.metadata.annotations['jira']]", err: "it cannot be evaluated on this object"},
		{reason: "nothing there", text: "object.metadata.labels['env'] != 'prod'", err: "no such key: labels"},
		{reason: "the user of the request", text: "request.user == 'hans' && 'dev' in request.groups && request.operation == 'UPDATE'", want: true},
		{reason: "all groups of the request", want: true,
			text: "request.groups == ['dev'] && request.groups.exists(g, g.startsWith('d')) && size(request.groups) == 1"},
		{reason: "a group that the user is not in", text: "'ops' in request.groups || request.groups.all(g, g == 'ops')"},
		{reason: "the parent", text: "parent.kind == 'XDatabase'", want: true},
		{reason: "the Kubernetes libraries", text: "quantity('1Gi').isGreaterThan(quantity('1Mi')) && isURL('https://example.org')", want: true},
		{reason: "no bool in the end", text: "object.spec.replicas", err: "is no true or false but int"},
		{reason: "too much", text: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7," +
			"8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))", err: ErrBudget.Error()},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			p, err := NewCache().Compile(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.True(t.Context(), in())
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if got != tc.want {
				t.Errorf("%s = %v, want %v", tc.text, got, tc.want)
			}
		})
	}
}

// TestNoGroups: a user without groups is in none, and an expression that reads them is no error.
func TestNoGroups(t *testing.T) {
	p, err := NewCache().Compile("size(request.groups) == 0 && !('dev' in request.groups)")
	if err != nil {
		t.Fatal(err)
	}
	if is, err := p.True(t.Context(), &Input{Request: map[string]any{"user": "hans", "groups": []string(nil), "operation": "UPDATE"}}); !is || err != nil {
		t.Errorf("%v, %v; want true", is, err)
	}
}

func TestTrueOfNoObject(t *testing.T) {
	p, err := NewCache().Compile("oldObject == null && parent == null")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := p.True(t.Context(), &Input{Object: map[string]any{}}); err != nil || !ok {
		t.Errorf("got %v, %v, want true", ok, err)
	}
}

// TestBudgetIsShared covers KR-05-54.
// costly expression: about a quarter of what one may cost.
const costly = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6," +
	"7,8,9,10].all(d, a+b+c+d > 0))))"

// exhaust the budget of the policy that an input is for.
func exhaust(t *testing.T, in *Input) {
	t.Helper()
	p, err := NewCache().Compile(costly)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err = p.True(t.Context(), in); err != nil {
			if i == 0 || !errors.Is(err, ErrBudget) {
				t.Fatalf("after %d: %v", i, err)
			}
			return
		}
	}
	t.Error("a thousand expressions of one policy never met its budget")
}

// The expressions of a policy share its budget, those of others have their own, and the
// policies of a Namespace have one together (KR-05-54, KR-13-45).
func TestBudget(t *testing.T) {
	p, err := NewCache().Compile("true")
	if err != nil {
		t.Fatal(err)
	}
	in := &Input{OldObject: map[string]any{}}
	spends := func(namespace, policy string, want bool) {
		t.Helper()
		in.For(namespace, policy)
		for of, in := range map[string]*Input{"input": in, "prerequisites": in.Before()} {
			if _, err := p.True(t.Context(), in); (err == nil) != want || err != nil && !errors.Is(err, ErrBudget) {
				t.Errorf("%s of %s/%s: error %v, want none: %v", of, namespace, policy, err, want)
			}
		}
	}
	in.For("team", "a")
	exhaust(t, in)
	spends("team", "a", false)
	spends("team", "b", true)
	in.For("team", "b")
	exhaust(t, in.Before())
	spends("team", "b", false)
	spends("team", "c", false) // all that the Namespace has is spent
	spends("other", "c", true)
	spends("", "c", true)
}

func TestCompileErrors(t *testing.T) {
	for _, tc := range []struct{ reason, text, want string }{
		{reason: "syntax", text: "object.spec.", want: "line 1, column 13: Syntax error"},
		{reason: "second line", text: "true &&\n nope", want: "line 2, column 2: undeclared reference to 'nope'"},
		{reason: "not a bool", text: "'text'", want: "it must be true or false, and is string"},
		{reason: "has of nothing to have", text: "has(1 + 1)", want: "write has(object.field)"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := NewCache().Compile(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCacheShares(t *testing.T) {
	c := NewCache()
	a, err := c.Compile("object.spec.a == 1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Compile("object.spec.a == 1")
	if err != nil {
		t.Fatal(err)
	}
	if a != b || c.programs.Len() != 1 {
		t.Errorf("one text is two programs, %d in the cache", c.programs.Len())
	}
}

// A cache holds no more programs than its size, so that many policies cannot exhaust the memory.
func TestCacheIsBounded(t *testing.T) {
	c := NewCache()
	for i := range cacheSize + 10 {
		if _, err := c.Compile(fmt.Sprintf("object.spec.size == %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.programs.Len(); n != cacheSize {
		t.Errorf("the cache holds %d programs, want %d", n, cacheSize)
	}
}

func TestRegexp(t *testing.T) {
	re, err := Regexp(`{"data":{"version":".*"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if !re.MatchString(`{"data":{"version":"1.2"}}`) || re.MatchString(`x{"data":{"version":"1.2"}}`) || re.MatchString(`{"data":{"version":"1.2"}}y`) {
		t.Error("an expression matches more or less than the whole")
	}
	if _, err := Regexp(`a|(`); err == nil || strings.Contains(err.Error(), `\A`) {
		t.Errorf("error %v", err)
	}
}
