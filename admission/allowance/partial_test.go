package allowance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func TestMayGrant(t *testing.T) {
	subject := func(kind, namespace, name string, initiates bool) v1alpha1.PolicySubject {
		return v1alpha1.PolicySubject{Subject: v1alpha1.Subject{Kind: kind, Namespace: namespace, Name: name}, MayInitiate: initiates}
	}
	hans := subject(v1alpha1.SubjectUser, "", "hans", true)
	account := subject(v1alpha1.SubjectServiceAccount, "ci", "deploy", false)
	cases := map[string]struct {
		reason   string
		subjects []v1alpha1.PolicySubject
		user     string
		below    bool
		want     bool
	}{
		"NoSubject":       {"a policy without subjects grants nothing", nil, "hans", true, false},
		"User":            {"a subject that may initiate", []v1alpha1.PolicySubject{hans}, "hans", false, true},
		"OtherUser":       {"no subject", []v1alpha1.PolicySubject{hans}, "alice", true, false},
		"Unknown":         {"an unknown user may be any user", []v1alpha1.PolicySubject{hans}, "", false, true},
		"UnknownToStart":  {"but no subject may start a chain", []v1alpha1.PolicySubject{account}, "", false, false},
		"Account":         {"there is nothing that it could extend", []v1alpha1.PolicySubject{account}, "system:serviceaccount:ci:deploy", false, false},
		"AccountBelow":    {"there may be", []v1alpha1.PolicySubject{account}, "system:serviceaccount:ci:deploy", true, true},
		"Group":           {"a user's groups are not known", []v1alpha1.PolicySubject{subject(v1alpha1.SubjectGroup, "", "ops", true)}, "alice", false, true},
		"AccountGroup":    {"those of a ServiceAccount are", []v1alpha1.PolicySubject{subject(v1alpha1.SubjectGroup, "", "ops", true)}, "system:serviceaccount:ci:deploy", false, false},
		"AccountsGroup":   {"it is in three", []v1alpha1.PolicySubject{subject(v1alpha1.SubjectGroup, "", "system:serviceaccounts:ci", true)}, "system:serviceaccount:ci:deploy", false, true},
		"TwoOfThem":       {"one is enough", []v1alpha1.PolicySubject{account, hans}, "hans", false, true},
		"TwoOneInitiates": {"and it is that one which must be able to", []v1alpha1.PolicySubject{subject(v1alpha1.SubjectUser, "", "alice", false), hans}, "alice", false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &Compiled{subjects: tc.subjects}
			if got := p.MayGrant(tc.user, tc.below); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

func TestLooked(t *testing.T) {
	cases := map[string]struct {
		reason   string
		triggers []string
		want     [][]string
	}{
		"None":     {"no rule", nil, nil},
		"Deep":     {"by its first two names", []string{"spec.a.b.c", "data.x"}, [][]string{{"data", "x"}, {"spec", "a"}}},
		"Wild":     {"up to what may be anything", []string{"spec[*].x", "spec.a[*].b"}, [][]string{{"spec"}}},
		"All":      {"every field", []string{"*", "spec.a"}, [][]string{nil}},
		"Twice":    {"each once", []string{"spec.a", "spec.a.b", "spec.b", "spec.a[0]"}, [][]string{{"spec", "a"}, {"spec", "b"}}},
		"Siblings": {"a name that begins alike is another", []string{"spec.ab", "spec.a"}, [][]string{{"spec", "a"}, {"spec", "ab"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.AllowancePolicySpec{Target: &v1alpha1.PolicyTarget{Kind: "X"}}
			for _, trigger := range tc.triggers {
				spec.Rules = append(spec.Rules, v1alpha1.AllowanceRule{Trigger: trigger, Allow: []v1alpha1.AllowedChange{{Relation: v1alpha1.RelationExternal, Verbs: []string{"*"}}}})
			}
			p, faults := Compile(&v1alpha1.AllowancePolicy{Spec: spec})
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if d := cmp.Diff(tc.want, Looked([]*Compiled{p, p})); d != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, d)
			}
		})
	}
}
