package expression

import (
	"strings"
	"testing"
)

// What an expression yields for all objects of a kind that lacks fields (KR-06-27, KR-06-28).
func TestConstant(t *testing.T) {
	lacking := []string{"status.observedGeneration", "spec.jira", "spec.db"}
	lacks := func(path []string) string {
		for i := range path {
			for _, l := range lacking {
				if strings.Join(path[:i+1], ".") == l {
					return l
				}
			}
		}
		return ""
	}
	for _, tc := range []struct {
		text string
		want Outcome
		by   string
	}{
		{text: "!has(object.status.observedGeneration)", want: AlwaysTrue, by: "status.observedGeneration"},
		{text: "!has(object.status) || !has(object.status.observedGeneration)", want: AlwaysTrue, by: "status.observedGeneration"},
		{text: "!has(object.status.conditions)", want: Depends},
		{text: "!has(object.status.observedGeneration) && object.spec.size == 1", want: Depends},
		{text: "has(object.status.observedGeneration) && object.spec.size == 1", want: AlwaysFalse, by: "status.observedGeneration"},
		{text: "object.status.observedGeneration < 1", want: AlwaysFails, by: "status.observedGeneration"},
		{text: "object.status.observedGeneration < 1 || true", want: AlwaysTrue, by: "status.observedGeneration"},
		{text: "object.status.observedGeneration < 1 || object.spec.size == 1", want: Depends},
		{text: "has(object.spec.jira)", want: AlwaysFalse, by: "spec.jira"},
		{text: "has(oldObject.spec.jira)", want: AlwaysFalse, by: "spec.jira"},
		{text: "has(object.spec['jira'])", want: AlwaysFalse, by: "spec.jira"},
		{text: "object.spec['jira'] == 'A-1'", want: AlwaysFails, by: "spec.jira"},
		{text: "has(object.spec.db.name)", want: AlwaysFails, by: "spec.db"},
		{text: "object.spec.jira.matches('^A-[0-9]+$')", want: AlwaysFails, by: "spec.jira"},
		{text: "object.spec.db.all(d, d.size > 1)", want: AlwaysFails, by: "spec.db"},
		{text: "object.spec.list.all(d, d.size > 1)", want: Depends},
		{text: "object.metadata.labels['env'] != 'prod' || has(object.spec.jira)", want: Depends},
		{text: "has(object.spec.jira) ? true : false", want: AlwaysFalse, by: "spec.jira"},
		{text: "object.spec.size > 1 ? has(object.spec.jira) : false", want: AlwaysFalse, by: "spec.jira"},
		{text: "parent.spec.jira == 'A'", want: Depends},
		{text: "request.user == 'hans'", want: Depends},
		{text: "object.spec.size", want: Depends},
		{text: "true", want: AlwaysTrue},
		{text: "!true", want: AlwaysFalse},
	} {
		p, err := NewCache().Compile(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		if got, by := p.Constant(lacks); got != tc.want || by != tc.by {
			t.Errorf("%s is %s by %q, want %s by %q", tc.text, got, by, tc.want, tc.by)
		}
	}
}
