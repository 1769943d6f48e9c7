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
		"NoSubject":      {reason: "a policy without subjects grants nothing", user: "hans", below: true},
		"User":           {reason: "a subject that may initiate", subjects: []v1alpha1.PolicySubject{hans}, user: "hans", want: true},
		"OtherUser":      {reason: "no subject", subjects: []v1alpha1.PolicySubject{hans}, user: "alice", below: true},
		"Unknown":        {reason: "an unknown user may be any user", subjects: []v1alpha1.PolicySubject{hans}, want: true},
		"UnknownToStart": {reason: "but no subject may start a chain", subjects: []v1alpha1.PolicySubject{account}},
		"Account": {reason: "there is nothing that it could extend", subjects: []v1alpha1.PolicySubject{account},
			user: "system:serviceaccount:ci:deploy"},
		"AccountBelow": {reason: "there may be", subjects: []v1alpha1.PolicySubject{account},
			user: "system:serviceaccount:ci:deploy", below: true, want: true},
		"Group": {reason: "a user's groups are not known",
			subjects: []v1alpha1.PolicySubject{subject(v1alpha1.SubjectGroup, "", "ops", true)}, user: "alice", want: true},
		"AccountGroup": {reason: "those of a ServiceAccount are",
			subjects: []v1alpha1.PolicySubject{subject(v1alpha1.SubjectGroup, "", "ops", true)}, user: "system:serviceaccount:ci:deploy"},
		"AccountsGroup": {reason: "it is in three",
			subjects: []v1alpha1.PolicySubject{subject(v1alpha1.SubjectGroup, "", "system:serviceaccounts:ci", true)},
			user:     "system:serviceaccount:ci:deploy", want: true},
		"TwoOfThem": {reason: "one is enough", subjects: []v1alpha1.PolicySubject{account, hans}, user: "hans", want: true},
		"TwoOneInitiates": {reason: "and it is that one which must be able to",
			subjects: []v1alpha1.PolicySubject{subject(v1alpha1.SubjectUser, "", "alice", false), hans}, user: "alice"},
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

func TestForAnyUser(t *testing.T) {
	p := &Compiled{Name: "p", subjects: []v1alpha1.PolicySubject{{Subject: v1alpha1.Subject{Kind: v1alpha1.SubjectUser, Name: "hans"}}}}
	open := p.ForAnyUser()
	groups, _ := GroupsOf("alice")
	if initiates, subject := open.subject("alice", groups); !initiates || !subject || open.Name != "p" {
		t.Errorf("alice: initiates %t, subject %t", initiates, subject)
	}
	if _, subject := p.subject("alice", groups); subject {
		t.Error("the policy was modified")
	}
}

func TestLooked(t *testing.T) {
	cases := map[string]struct {
		reason   string
		triggers []string
		want     [][]string
	}{
		"None": {reason: "no rule"},
		"Deep": {reason: "by its first two names", triggers: []string{"spec.a.b.c", "data.x"},
			want: [][]string{{"data", "x"}, {"spec", "a"}}},
		"Wild": {reason: "up to what may be anything", triggers: []string{"spec[*].x", "spec.a[*].b"}, want: [][]string{{"spec"}}},
		"All":  {reason: "every field", triggers: []string{"*", "spec.a"}, want: [][]string{nil}},
		"Twice": {reason: "each once", triggers: []string{"spec.a", "spec.a.b", "spec.b", "spec.a[0]"},
			want: [][]string{{"spec", "a"}, {"spec", "b"}}},
		"Siblings": {reason: "a name that begins alike is another", triggers: []string{"spec.ab", "spec.a"},
			want: [][]string{{"spec", "a"}, {"spec", "ab"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.AllowancePolicySpec{Target: &v1alpha1.PolicyTarget{Kind: "X"}}
			for _, trigger := range tc.triggers {
				spec.Rules = append(spec.Rules, v1alpha1.AllowanceRule{Trigger: trigger,
					Allow: []v1alpha1.AllowedChange{{Relation: v1alpha1.RelationExternal, Verbs: []string{"*"}}}})
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
