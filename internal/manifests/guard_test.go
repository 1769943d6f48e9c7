package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func kausality(name string, edit func(*v1alpha1.KausalitySpec)) *v1alpha1.Kausality {
	k := &v1alpha1.Kausality{ObjectMeta: metav1.ObjectMeta{Name: name}}
	k.Spec.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{"example.org"}, Resources: []string{"*"}}}
	edit(&k.Spec)
	return k
}

func scopesOf(t *testing.T, policies ...*v1alpha1.Kausality) []settings.Scope {
	t.Helper()
	set, errs := settings.Compile(policies)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return set.Scopes()
}

func service() Options {
	return Options{CABundle: []byte(certificate), Service: &admissionregistrationv1.ServiceReference{Namespace: Namespace, Name: "kausality-webhook"}}
}

// TestGuardGolden: a policy for everything, one for a named Namespace, one by
// labels, an override, an exclusion (KR-12-02); with the policy for CRDs (KR-13-29).
func TestGuardGolden(t *testing.T) {
	scopes := scopesOf(t,
		kausality("all", func(s *v1alpha1.KausalitySpec) {
			s.Mode, s.Resources[0].Excluded = v1alpha1.ModeEnforce, []string{"caches"}
			s.Overrides = []v1alpha1.ModeOverride{{Namespaces: []string{"team-b"}, Mode: v1alpha1.ModeLog}}
		}),
		kausality("team-a", func(s *v1alpha1.KausalitySpec) {
			s.Namespaces = &v1alpha1.GuardedNamespaces{Names: []string{"team-a"}}
		}),
		kausality("gold", func(s *v1alpha1.KausalitySpec) {
			s.Namespaces = &v1alpha1.GuardedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}, Excluded: []string{"sandbox"}}
			s.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
		}),
	)
	g, err := Guard(service(), scopes, []string{"old.legacy.example.org"},
		Masked{CRDs: []string{"dbs.example.org"}, Providers: map[string][]string{"provider-example": {"dbs.example.org"}}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	objects := []any{g.Configuration, g.PolicyCheck, g.Rollouts}
	for _, r := range g.Roles {
		objects = append(objects, r)
	}
	for _, p := range g.Policies {
		objects = append(objects, p)
	}
	for _, b := range g.Bindings {
		objects = append(objects, b)
	}
	for _, o := range objects {
		if err := write(&out, o); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join("testdata", "policies.yaml")
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestRolesOfTraced: to what all policies only trace nothing is written (KR-07-13).
func TestRolesOfTraced(t *testing.T) {
	traced := func(name, group string, only bool) *v1alpha1.Kausality {
		return kausality(name, func(s *v1alpha1.KausalitySpec) {
			s.TraceOnly, s.Resources = only, []v1alpha1.GuardedResources{{APIGroups: []string{group}, Resources: []string{"things"}}}
		})
	}
	g, err := Guard(service(), scopesOf(t, traced("a", "traced.example.org", true), traced("b", "both.example.org", true), traced("c", "both.example.org", false)),
		nil, Masked{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range g.Roles[:2] {
		for _, rule := range r.Rules {
			if writes := slices.Contains(rule.Verbs, "patch"); writes == slices.Contains(rule.APIGroups, "traced.example.org") {
				t.Errorf("%s: %v", r.Name, rule)
			}
		}
		if len(r.Rules) != 2 {
			t.Errorf("%s has %d rules", r.Name, len(r.Rules))
		}
	}
}

// TestOnePolicyNeedsNoCondition: the common case costs nothing more.
func TestOnePolicyNeedsNoCondition(t *testing.T) {
	scopes := scopesOf(t, kausality("one", func(s *v1alpha1.KausalitySpec) {
		s.Resources = append(s.Resources, v1alpha1.GuardedResources{APIGroups: []string{"apps"}, Resources: []string{"deployments"}})
	}))
	g, err := Guard(service(), scopes, nil, Masked{})
	if err != nil {
		t.Fatal(err)
	}
	hooks := g.Configuration.Webhooks
	if len(hooks) != 3 || hooks[0].Name != "one.admission.kausality.io" || len(hooks[0].MatchConditions) != 1 {
		t.Errorf("got %d webhooks, the first %s with %d conditions", len(hooks), hooks[0].Name, len(hooks[0].MatchConditions))
	}
}

func TestGuardNothing(t *testing.T) {
	if g, err := Guard(service(), nil, nil, Masked{}); g != nil || err != nil {
		t.Errorf("want nothing, got %v, %v", g, err)
	}
	if _, err := Guard(Options{CABundle: []byte(certificate)}, scopesOf(t, kausality("a", func(*v1alpha1.KausalitySpec) {})), nil, Masked{}); err == nil {
		t.Error("there is no webhook to call, and that is no error")
	}
}

// TestRefused: what the CRD does not let through is not guarded either, should
// it come from an older CRD.
func TestRefused(t *testing.T) {
	for group := range deniedGroups {
		err := Refused(scopesOf(t, kausality("a", func(s *v1alpha1.KausalitySpec) { s.Resources[0].APIGroups = []string{group} })))
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", group, err)
		}
	}
	for resource := range deniedCore {
		if Refused(scopesOf(t, kausality("a", func(s *v1alpha1.KausalitySpec) {
			s.Resources[0] = v1alpha1.GuardedResources{APIGroups: []string{""}, Resources: []string{resource}}
		}))) == nil {
			t.Errorf("%s can be guarded", resource)
		}
	}
	if err := Refused(scopesOf(t, kausality("a", func(*v1alpha1.KausalitySpec) {}))); err != nil {
		t.Error(err)
	}
}

// TestDeniedInCRD: the CRD refuses what is denied here.
func TestDeniedInCRD(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "package", "crds", "kausality.io_kausalities.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(string(raw)), "")
	for group := range deniedGroups {
		if !strings.Contains(flat, "'"+group+"'") {
			t.Errorf("the CRD lets group %s through", group)
		}
	}
	for resource := range deniedCore {
		if !strings.Contains(flat, "'"+resource+"'") {
			t.Errorf("the CRD lets %s through", resource)
		}
	}
}
