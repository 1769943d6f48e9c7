package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseResources(t *testing.T) {
	cases := map[string]struct {
		reason string
		values []string
		want   []group
		err    string
	}{
		"Sorted": {
			reason: "Groups and resources come in alphabetical order, the core group first.",
			values: []string{"statefulsets.apps", " configmaps", "deployments.apps", "*.example.org"},
			want:   []group{{"", []string{"configmaps"}}, {"apps", []string{"deployments", "statefulsets"}}, {"example.org", []string{"*"}}},
		},
		"WildcardSwallows": {
			reason: "What a wildcard holds need not be listed, and no resource is listed twice.",
			values: []string{"databases.example.org", "*.example.org", "secrets", "secrets"},
			want:   []group{{"", []string{"secrets"}}, {"example.org", []string{"*"}}},
		},
		"DeepGroup":     {values: []string{"databases.rds.aws.upbound.io"}, want: []group{{"rds.aws.upbound.io", []string{"databases"}}}},
		"Subresource":   {values: []string{"deployments.apps/status"}, err: `"deployments.apps/status" names a subresource`},
		"Kind":          {values: []string{"Deployment.apps"}, err: `"Deployment.apps" must be RESOURCE.GROUP`},
		"TrailingDot":   {values: []string{"configmaps."}, err: `is no API group`},
		"BadGroup":      {values: []string{"a.b_c"}, err: `"b_c" is no API group`},
		"Everything":    {values: []string{"*.*"}, err: `name the groups one by one`},
		"GroupWildcard": {values: []string{"deployments.*"}, err: `name the groups one by one`},
		"SuffixGroup":   {values: []string{"*.*.example.org"}, err: `name the groups one by one`},
		"WholeCore":     {values: []string{"*"}, err: `name the resources one by one`},
		"Nodes":         {values: []string{"nodes"}, err: `"nodes" cannot be watched`},
		"Events":        {values: []string{"events"}, err: `"events" cannot be watched`},
		"Endpoints":     {values: []string{"endpoints"}, err: `"endpoints" cannot be watched`},
		"Leases":        {values: []string{"leases.coordination.k8s.io"}, err: `"leases.coordination.k8s.io" cannot be watched`},
		"LeaseGroup":    {values: []string{"*.coordination.k8s.io"}, err: `cannot be watched`},
		"NewEvents":     {values: []string{"events.events.k8s.io"}, err: `cannot be watched`},
		"TokenReview":   {values: []string{"tokenreviews.authentication.k8s.io"}, err: `cannot be watched`},
		"AccessReview":  {values: []string{"subjectaccessreviews.authorization.k8s.io"}, err: `cannot be watched`},
		"Webhooks":      {values: []string{"mutatingwebhookconfigurations.admissionregistration.k8s.io"}, err: `cannot be watched`},
		"Own":           {values: []string{"drifts.kausality.io"}, err: `cannot be watched`},
		"Empty":         {values: nil, err: `--resources is missing`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseResources(tc.values)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "--resources") || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("parseResources(%q): want an error with --resources and %q, got %v", tc.values, tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("parseResources(%q): %v", tc.values, err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(group{})); diff != "" {
				t.Errorf("%s\nparseResources(%q): -want, +got:\n%s", tc.reason, tc.values, diff)
			}
		})
	}
}

func FuzzParseResources(f *testing.F) {
	for _, s := range []string{"deployments.apps", "configmaps", "*.example.org", "*.*", "a/b", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		groups, err := parseResources([]string{s})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("parseResources(%q): the error is more than a line: %v", s, err)
			}
			return
		}
		for _, g := range groups {
			if g.name == all || (g.name == "" && g.resources[0] == all) {
				t.Errorf("parseResources(%q): let everything through", s)
			}
		}
	})
}
