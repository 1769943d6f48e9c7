package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/admission/identity"

	"github.com/google/go-cmp/cmp"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// registration of a handler that was called with all there was, or was not yet.
type registration bool

func (r registration) HasSynced() bool { return bool(r) }

// kinds of the tests: a composite and a managed resource of one group, a plain kind
// of it, and a managed resource of another.
var (
	shopApp   = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "App"}
	shopDB    = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Db"}
	shopPlain = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Plain"}
	otherDB   = schema.GroupVersionKind{Group: "other.example.org", Version: "v1", Kind: "Cache"}
)

// covered is a Cluster of these kinds that watches what is guarded, and reaches no
// API server.
func covered(t *testing.T) *Cluster {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	k := &Kinds{byGVK: map[schema.GroupVersionKind]Info{}, legacy: map[schema.GroupKind]bool{}}
	for gvk, role := range map[schema.GroupVersionKind]parent.Role{shopApp: parent.RoleComposite, shopDB: parent.RoleManaged,
		shopPlain: parent.RoleNone, otherDB: parent.RoleManaged} {
		k.byGVK[gvk] = Info{GVK: gvk, GVR: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), Storage: true, Kind: identity.Kind{Role: role}}
	}
	c := &Cluster{Kinds: k, Scope: &Scope{taken: registration(true)}, Policies: &Policies{taken: registration(true), byName: map[string]*v1alpha1.Kausality{}}}
	c.States = NewStates(client, k)
	c.WatchGuarded(nil, func(err error) { t.Log(err) })
	return c
}

// configured sets a configuration with rules GROUP/RESOURCE, of policies or fixed.
func (c *Cluster) configured(policies bool, rules ...string) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if policies {
		o.SetLabels(map[string]string{labelManaged: v1alpha1.ManagerController})
	}
	var list []any
	for _, r := range rules {
		group, resource, _ := strings.Cut(r, "/")
		list = append(list, map[string]any{"apiGroups": []any{group}, "resources": []any{resource}})
	}
	if list != nil {
		o.Object["webhooks"] = []any{map[string]any{"rules": list}}
	}
	c.Scope.set(configurationOf(o))
}

// policy for all of a group, or none.
func (c *Cluster) policy(group string) {
	c.Policies.change(func() bool {
		c.Policies.byName = map[string]*v1alpha1.Kausality{}
		if group != "" {
			k := &v1alpha1.Kausality{}
			k.Name = "one"
			k.Spec.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{group}, Resources: []string{"*"}}}
			c.Policies.byName[k.Name] = k
		}
		return true
	})
}

// has an object, masked or not, seen by the watch of its kind.
func (c *Cluster) has(t *testing.T, gvk schema.GroupVersionKind, masked bool) {
	t.Helper()
	o := &Object{State: &parent.State{Ref: parent.Ref{GroupVersionKind: gvk, Name: "one", UID: "1"}}}
	if masked {
		o.Annotations = map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`}
	}
	if err := c.States.of(gvk).informer.GetStore().Update(o); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) watching() string {
	var out []string
	for gvk := range c.States.watched {
		out = append(out, gvk.Kind)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestSync: watches begin and end with what is guarded, and with nothing else.
func TestSync(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     func(t *testing.T, c *Cluster)
		want   string
	}{
		"Guarded": {reason: "kinds with a role are", do: func(*testing.T, *Cluster) {}, want: "App Db Plain"},
		"Rewritten": {reason: "nothing changes where the configuration stays the same",
			do: func(_ *testing.T, c *Cluster) { c.configured(true, "shop.example.org/*") }, want: "App Db Plain"},
		"GroupLeaves": {reason: "with a group go the parents that were requested",
			do: func(_ *testing.T, c *Cluster) { c.configured(true, "other.example.org/*") }, want: "Cache"},
		"KindLeaves": {reason: "parents may be requested as long as the group exists",
			do: func(_ *testing.T, c *Cluster) { c.configured(true, "shop.example.org/dbs") }, want: "Db Plain"},
		"MaskedStill": {reason: "the status is reviewed: it is kept",
			do: func(_ *testing.T, c *Cluster) { c.configured(true, "shop.example.org/dbs/status") }, want: "Db Plain"},
		"Emptied": {reason: "a user emptied it", do: func(_ *testing.T, c *Cluster) { c.configured(false) },
			want: "App Db Plain"},
		"Emergency": {reason: "a user deleted it, and the policy exists",
			do: func(_ *testing.T, c *Cluster) { c.Scope.lose() }, want: "App Db Plain"},
		"LastPolicy": {reason: "it went with the last policy", do: func(_ *testing.T, c *Cluster) { c.Scope.lose(); c.policy("") }},
		"PolicyFirst": {reason: "in whatever order that is seen",
			do: func(_ *testing.T, c *Cluster) { c.policy(""); c.Scope.lose() }},
		"OtherPolicy": {reason: "the policy is about something else",
			do: func(_ *testing.T, c *Cluster) { c.Scope.lose(); c.policy("other.example.org") }},
		"PolicyAlone": {reason: "the configuration defines what is guarded", do: func(_ *testing.T, c *Cluster) { c.policy("") },
			want: "App Db Plain"},
		"PoliciesLate": {reason: "policies that are not read yet end nothing",
			do: func(_ *testing.T, c *Cluster) { c.Policies.taken = registration(false); c.policy(""); c.Scope.lose() }, want: "App Db Plain"},
		"Fixed": {reason: "a fixed one follows no policy", do: func(_ *testing.T, c *Cluster) {
			c.configured(false, "shop.example.org/*")
			c.policy("")
			c.Scope.lose()
		}, want: "App Db Plain"},
		"Held": {reason: "what is masked is restored first", do: func(t *testing.T, c *Cluster) {
			c.has(t, shopDB, true)
			c.Scope.lose()
			c.policy("")
		}, want: "Db"},
		"FixedHolds": {reason: "with a fixed one it is not checked whether anything is masked", do: func(t *testing.T, c *Cluster) {
			c.has(t, shopDB, true)
			c.configured(false, "other.example.org/*")
		}, want: "Cache Db"},
		"GivenBack": {reason: "then it goes", do: func(t *testing.T, c *Cluster) {
			c.has(t, shopDB, true)
			c.Scope.lose()
			c.policy("")
			c.has(t, shopDB, false)
			c.sync()
		}},
		"PolicyBackFirst": {reason: "access is written after the policy, and before the configuration",
			do: func(_ *testing.T, c *Cluster) {
				c.policy("")
				c.Scope.lose()
				c.policy("shop.example.org")
			}},
		"Back": {reason: "it comes back", do: func(_ *testing.T, c *Cluster) {
			c.policy("")
			c.Scope.lose()
			c.policy("shop.example.org")
			c.configured(true, "shop.example.org/*")
		}, want: "App Db"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := covered(t)
			c.policy("shop.example.org")
			c.configured(true, "shop.example.org/*")
			if err := c.States.Watch(shopPlain); err != nil {
				t.Fatal(err)
			}
			before := maps.Clone(c.States.watched)
			tc.do(t, c)
			if got := c.watching(); got != tc.want {
				t.Errorf("%s: watched are %q, want %q", tc.reason, got, tc.want)
			}
			if name == "Back" {
				return
			}
			for gvk, w := range c.States.watched {
				if was := before[gvk]; was != nil && was != w {
					t.Errorf("%s: the watch of %s began again", tc.reason, gvk.Kind)
				}
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
	c := covered(t)
	if err := c.States.Watch(shopPlain); err != nil {
		t.Fatal(err)
	}
	c.policy("other.example.org")
	c.configured(false)
	if got := c.watching(); got != "Plain" || !c.States.isLooked(shopDB) {
		t.Errorf("watched are %q; watched for Look: %v", got, c.States.isLooked(shopDB))
	}
	if c.configured(true, "other.example.org/*"); c.watching() != "Cache" || c.States.isLooked(shopDB) || !c.States.isLooked(otherDB) {
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
	c := covered(t)
	seen := map[string]bool{}
	look := func(step string) { seen[step] = c.Unguarded(shopDB) }
	look("Nothing")
	c.configured(false, "shop.example.org/*")
	c.configured(false, "other.example.org/*")
	look("Fixed")
	c.policy("shop.example.org")
	c.configured(true, "shop.example.org/*")
	look("Guarded")
	c.Scope.lose()
	look("Emergency")
	c.policy("")
	look("LastPolicy")
	c.configured(true, "other.example.org/*")
	look("Other")
	want := map[string]bool{"Nothing": false, "Fixed": false, "Guarded": false, "Emergency": false, "LastPolicy": true, "Other": true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestRefusedWatch: a kind that is watched for questions about it and that may not be
// watched is unwatched, and not tried again at once; one that is guarded is.
func TestRefusedWatch(t *testing.T) {
	c := covered(t)
	c.configured(true, "shop.example.org/dbs")
	forbidden := kerrors.NewForbidden(schema.GroupResource{Group: "shop.example.org", Resource: "plains"}, "", nil)
	ask := func() *watched {
		t.Helper()
		if err := c.States.Watch(shopPlain); err != nil {
			t.Fatal(err)
		}
		return c.States.of(shopPlain)
	}
	first := ask()
	c.States.failed(first)(t.Context(), nil, forbidden)
	if got := c.watching(); got != "Db" {
		t.Errorf("watched are %s", got)
	}
	if ask() != nil {
		t.Error("it was tried again at once")
	}
	c.configured(true, "shop.example.org/dbs", "shop.example.org/apps")
	second := ask()
	if second == nil {
		t.Fatal("it is not tried again when access may have changed")
	}
	c.States.failed(first)(t.Context(), nil, forbidden)
	if c.States.of(shopPlain) != second {
		t.Error("a watch that is over ended another one")
	}
	if db := c.States.of(shopDB); db == nil || !c.States.needed(db.info) {
		t.Error("what is guarded must be tried for again")
	}
	c.States.refuse(second)
	one := c.States.refused[shopPlain].wait
	c.States.watched[shopPlain] = second
	second.over = make(chan struct{})
	c.States.refuse(second)
	if two := c.States.refused[shopPlain].wait; one != refusedFirst || two != 2*refusedFirst {
		t.Errorf("it waits %s, then %s", one, two)
	}
}

// TestEnded: those that use an object are called when it is unwatched, unless it is
// again; that it is gone is reported with its kind alone.
func TestEnded(t *testing.T) {
	for why, want := range map[ending]string{endChanged: "", endGone: "gone", endUnneeded: "unwatched"} {
		c := covered(t)
		var calls []string
		c.States.OnChange(func(_, new *Object) {
			if new == nil {
				calls = append(calls, "gone")
			}
		})
		c.States.OnUnwatch(func(*Object) { calls = append(calls, "unwatched") })
		c.configured(true, "shop.example.org/*")
		c.has(t, shopDB, false)
		w := c.States.of(shopDB)
		c.States.end(shopDB, why)
		c.States.ended(w)
		if got := strings.Join(calls, ", "); got != want {
			t.Errorf("%d: reported %q, want %q", why, got, want)
		}
		calls = nil
		if c.sync(); why == endUnneeded {
			if c.States.ended(w); len(calls) > 0 {
				t.Errorf("it is watched again, and reported %v", calls)
			}
		}
	}
}
