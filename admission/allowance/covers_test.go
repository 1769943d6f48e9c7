package allowance

import "testing"

// A policy of a Namespace approves in other Namespaces only what its own
// ServiceAccounts change (KR-13-09).
func TestCovers(t *testing.T) {
	for name, tc := range map[string]struct {
		policy, user, child string
		want                bool
	}{
		"Cluster":            {user: "alice", child: "shop", want: true},
		"Own":                {policy: "shop", user: "system:serviceaccount:other:ctl", child: "shop", want: true},
		"OwnAccount":         {policy: "shop", user: "system:serviceaccount:shop:ctl", child: "other", want: true},
		"Another":            {policy: "shop", user: "system:serviceaccount:other:ctl", child: "other"},
		"AnotherBySimilar":   {policy: "shop", user: "system:serviceaccount:shop-2:ctl", child: "other"},
		"ClusterScoped":      {policy: "shop", user: "alice"},
		"ClusterScopedByOwn": {policy: "shop", user: "system:serviceaccount:shop:ctl", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&Exception{Namespace: tc.policy}).covers(tc.user, tc.child); got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}
