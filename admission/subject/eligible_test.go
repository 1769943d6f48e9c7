package subject

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEligible covers KR-13-62: who may be a controller of Crossplane's kinds.
func TestEligible(t *testing.T) {
	e := Eligible{Namespaces: []string{"crossplane-system"}, Named: func(name string) bool { return name == "robot" }}
	for name, want := range map[string][2]bool{ // of Crossplane's kinds, of others
		"system:serviceaccount:crossplane-system:provider-aws": {true, true},
		"system:serviceaccount:crossplane-system:":             {false, true},
		"system:serviceaccount:crossplane-system":              {false, true},
		"system:serviceaccount:crossplane-system-2:crossplane": {false, true},
		"system:serviceaccount:default:crossplane-system":      {false, true},
		"system:serviceaccounts:crossplane-system:crossplane":  {false, true},
		"system:kube-controller-manager":                       {false, true},
		"system:serviceaccount:default:ci":                     {false, true},
		"alice":                                                {false, false},
		"x:system:serviceaccount:crossplane-system:provider":   {false, false},
		"robot": {true, true},
		"":      {false, false},
	} {
		assert.Equal(t, want, [2]bool{e.Has(User{Name: name}, true), e.Has(User{Name: name}, false)}, name)
	}
	assert.False(t, Eligible{}.Has(User{Name: "system:serviceaccount:crossplane-system:provider-aws"}, true), "no Namespace is configured")
}
