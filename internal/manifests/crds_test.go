package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// holds evaluates an expression of a policy for the deletion of an object, as the API server does.
func holds(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy, expression, name string, annotations map[string]any) bool {
	t.Helper()
	for _, v := range p.Spec.Variables {
		require.Less(t, len(v.Expression), 100_000, "what the API server parses")
		expression = strings.ReplaceAll(expression, "variables."+v.Name+"]", v.Expression+"]")
		expression = strings.ReplaceAll(expression, "variables."+v.Name+",", v.Expression+",")
	}
	kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"}
	old := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Thing",
		"metadata": map[string]any{"name": name, "annotations": annotations}}}
	a := admission.NewAttributesRecord(nil, old, kind, "", "", schema.GroupVersionResource{}, "", admission.Delete, &metav1.DeleteOptions{}, false,
		&user.DefaultInfo{Name: "hans"})
	got := matcher([]admissionregistrationv1.MatchCondition{{Name: "it", Expression: expression}}).Match(t.Context(),
		&admission.VersionedAttributes{Attributes: a, VersionedKind: kind, VersionedOldObject: old}, nil, nil)
	require.NoError(t, got.Error)
	return got.Matches
}

// TestMaskedPolicies: with any number of CRDs and Providers the policies are valid and refuse the deletion of these alone,
// and what they hold can be read back (KR-13-29, KR-13-57).
func TestMaskedPolicies(t *testing.T) {
	for _, n := range []int{0, 1, perVariable, perVariable + 1, 1200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			in := Masked{CRDs: []string{}, Providers: map[string][]string{}}
			for i := range n {
				crd := fmt.Sprintf("databases%04d.a-group-that-is-quite-long.example.org", i)
				in.CRDs = append(in.CRDs, crd)
				provider := fmt.Sprintf("provider-%03d", i/10)
				in.Providers[provider] = append(in.Providers[provider], crd)
			}
			both := MaskedPolicies(in)
			crds, providers := both[0], both[1]
			allowed := crds.Spec.Validations[0].Expression
			assert.True(t, holds(t, crds, allowed, "others.example.org", nil))
			assert.True(t, holds(t, providers, providers.Spec.Validations[0].Expression, "provider-other", nil))
			var out Masked
			out.Read(crds)
			out.Read(providers)
			assert.Equal(t, in.Providers, out.Providers)
			assert.ElementsMatch(t, in.CRDs, out.CRDs)
			if n == 0 {
				return
			}
			last := in.CRDs[n-1]
			assert.False(t, holds(t, crds, allowed, last, nil))
			assert.False(t, holds(t, crds, allowed, last, map[string]any{"kausality.io/allow-deletion": "false"}))
			assert.True(t, holds(t, crds, allowed, last, map[string]any{"kausality.io/allow-deletion": "true"}))
			of := fmt.Sprintf("provider-%03d", (n-1)/10)
			assert.False(t, holds(t, providers, providers.Spec.Validations[0].Expression, of, nil))
			message := providers.Spec.Validations[0].MessageExpression
			assert.True(t, holds(t, providers, `(`+message+`).endsWith("`+last+` kausality.io/allow-deletion=true")`, of, nil))
		})
	}
}
