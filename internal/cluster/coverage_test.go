package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSync: watches begin and end with what is guarded, and with nothing else.
func TestSync(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     func(t *testing.T, c *cached)
		late   bool
		want   string
	}{
		"Guarded": {reason: "kinds with a role are", do: func(*testing.T, *cached) {}, want: "App Db Plain"},
		"Rewritten": {reason: "nothing changes where the configuration stays the same",
			do: func(_ *testing.T, c *cached) { c.configured(true, "shop.example.org/*") }, want: "App Db Plain"},
		"GroupLeaves": {reason: "with a group go the parents that were requested",
			do: func(_ *testing.T, c *cached) { c.configured(true, "other.example.org/*") }, want: "Cache"},
		"KindLeaves": {reason: "parents may be requested as long as the group exists",
			do: func(_ *testing.T, c *cached) { c.configured(true, "shop.example.org/dbs") }, want: "Db Plain"},
		"MaskedStill": {reason: "the status is reviewed: it is kept",
			do: func(_ *testing.T, c *cached) { c.configured(true, "shop.example.org/dbs/status") }, want: "Db Plain"},
		"Emptied": {reason: "a user emptied it", do: func(_ *testing.T, c *cached) { c.configured(false) },
			want: "App Db Plain"},
		"Emergency": {reason: "a user deleted it, and the policy exists",
			do: func(_ *testing.T, c *cached) { c.Scope.Lose() }, want: "App Db Plain"},
		"LastPolicy": {reason: "it went with the last policy", do: func(_ *testing.T, c *cached) { c.Scope.Lose(); c.covering("") }},
		"PolicyFirst": {reason: "in whatever order that is seen",
			do: func(_ *testing.T, c *cached) { c.covering(""); c.Scope.Lose() }},
		"OtherPolicy": {reason: "the policy is about something else",
			do: func(_ *testing.T, c *cached) { c.Scope.Lose(); c.covering("other.example.org") }},
		"PolicyAlone": {reason: "the configuration defines what is guarded", do: func(_ *testing.T, c *cached) { c.covering("") },
			want: "App Db Plain"},
		"PoliciesLate": {reason: "policies that are not read yet end nothing", late: true,
			do: func(_ *testing.T, c *cached) { c.covering(""); c.Scope.Lose() }, want: "App Db Plain"},
		"Fixed": {reason: "a fixed one follows no policy", do: func(_ *testing.T, c *cached) {
			c.configured(false, "shop.example.org/*")
			c.covering("")
			c.Scope.Lose()
		}, want: "App Db Plain"},
		"Held": {reason: "what is masked is restored first", do: func(t *testing.T, c *cached) {
			c.has(t, shopDB, true)
			c.Scope.Lose()
			c.covering("")
		}, want: "Db"},
		"FixedHolds": {reason: "with a fixed one it is not checked whether anything is masked", do: func(t *testing.T, c *cached) {
			c.has(t, shopDB, true)
			c.configured(false, "other.example.org/*")
		}, want: "Cache Db"},
		"GivenBack": {reason: "then it goes", do: func(t *testing.T, c *cached) {
			c.has(t, shopDB, true)
			c.Scope.Lose()
			c.covering("")
			c.has(t, shopDB, false)
			c.sync()
		}},
		"PolicyBackFirst": {reason: "access is written after the policy, and before the configuration",
			do: func(_ *testing.T, c *cached) {
				c.covering("")
				c.Scope.Lose()
				c.covering("shop.example.org")
			}},
		"Back": {reason: "it comes back", do: func(_ *testing.T, c *cached) {
			c.covering("")
			c.Scope.Lose()
			c.covering("shop.example.org")
			c.configured(true, "shop.example.org/*")
		}, want: "App Db"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := covered(t, fixture{late: tc.late})
			c.covering("shop.example.org")
			c.configured(true, "shop.example.org/*")
			if err := c.States.Watch(shopPlain); err != nil {
				t.Fatal(err)
			}
			tc.do(t, c)
			if got := c.watching(); got != tc.want {
				t.Errorf("%s: watched are %q, want %q", tc.reason, got, tc.want)
			}
			c.sync()
			if got := c.watching(); got != tc.want {
				t.Errorf("%s: done again, watched are %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestNoConfiguration: where none ever defined what is guarded, the API server calls by
// another one, and what it sends stays watched.
func TestNoConfiguration(t *testing.T) {
	c := covered(t, fixture{})
	if err := c.States.Watch(shopPlain); err != nil {
		t.Fatal(err)
	}
	looked := func(gvk schema.GroupVersionKind) bool {
		i, err := c.Kinds.Get(gvk)
		require.NoError(t, err)
		return c.States.Looked(i)
	}
	c.covering("other.example.org")
	c.configured(false)
	if got := c.watching(); got != "Plain" || !looked(shopDB) {
		t.Errorf("watched are %q; watched for Look: %v", got, looked(shopDB))
	}
	if c.configured(true, "other.example.org/*"); c.watching() != "Cache" || looked(shopDB) || !looked(otherDB) {
		t.Errorf("once it has rules, watched are %q", c.watching())
	}
	if err := c.States.Watch(shopPlain); err != nil { // access to which another role gave
		t.Fatal(err)
	}
	if c.configured(true, "other.example.org/*"); c.watching() != "Cache Plain" {
		t.Errorf("written again with the same rules, watched are %q", c.watching())
	}
}

// TestUnguarded: a kind is known to be unguarded where policies followed that, and
// not where that is unknown (KR-12-09).
func TestUnguarded(t *testing.T) {
	c := covered(t, fixture{})
	seen := map[string]bool{}
	look := func(step string) { seen[step] = c.Unguarded(shopDB) }
	look("Nothing")
	c.configured(false, "shop.example.org/*")
	c.configured(false, "other.example.org/*")
	look("Fixed")
	c.covering("shop.example.org")
	c.configured(true, "shop.example.org/*")
	look("Guarded")
	c.Scope.Lose()
	look("Emergency")
	c.covering("")
	look("LastPolicy")
	c.configured(true, "other.example.org/*")
	look("Other")
	want := map[string]bool{"Nothing": false, "Fixed": false, "Guarded": false, "Emergency": false, "LastPolicy": true, "Other": true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
