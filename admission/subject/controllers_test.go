package subject

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestUserID covers KR-13-40.
func TestUserID(t *testing.T) {
	for name, tc := range map[string]struct {
		user User
		want string
	}{
		"Name":          {user: User{Name: "alice"}, want: "2bd806c97f0e00af1a1fc3328fa763a9"},
		"NameBeforeUID": {user: User{Name: "alice", UID: "9b2c1d"}, want: "2bd806c97f0e00af1a1fc3328fa763a9"},
		"Unknown":       {},
	} {
		if got := tc.user.ID(); got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}

// TestHashOfID: the hash of a user follows from the id, so that both annotations are compared entry by entry.
func TestHashOfID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := User{Name: rapid.StringN(1, -1, -1).Draw(t, "name")}
		if got := HashOf(u.ID()); got != u.Hash() {
			t.Fatalf("of %q: want %s, got %s", u.Name, u.Hash(), got)
		}
	})
	for _, id := range []string{"", "13c7u", "zz", "2bd806c97f0e00af1a1fc3328fa763a9ff"} {
		if got := HashOf(id); got != "" {
			t.Errorf("%q is no id: got %s", id, got)
		}
	}
}

// Two ServiceAccounts with the same hash; it takes seconds to find such a name.
var (
	twin  = User{Name: "system:serviceaccount:crossplane-system:crossplane"}
	other = User{Name: "system:serviceaccount:default:ci-1426837"}
)

// TestControllers covers KR-13-40 and KR-13-41.
func TestControllers(t *testing.T) {
	if twin.Hash() != other.Hash() || twin.ID() == other.ID() {
		t.Fatalf("their hashes are %s and %s", twin.Hash(), other.Hash())
	}
	alice := User{Name: "alice"}
	recorded := Controllers{}.With(alice.ID()).With(twin.ID())
	old := Controllers{hashes: alice.Hash() + ", " + twin.Hash()}
	for name, tc := range map[string]struct {
		reason      string
		record      Controllers
		user        User
		has, hashed bool
	}{
		"Nothing":      {reason: "no user is recorded", user: twin},
		"Recorded":     {reason: "by the id", record: recorded, user: twin, has: true},
		"First":        {reason: "of several", record: recorded, user: alice, has: true},
		"SameHash":     {reason: "another user is not recorded", record: recorded, user: other},
		"Old":          {reason: "an earlier release recorded the hash", record: old, user: twin, hashed: true},
		"OldSameHash":  {reason: "of which it is unknown whose it is", record: old, user: other, hashed: true},
		"Since":        {reason: "who wrote since is recorded by the id", record: old.With(twin.ID()), user: twin, has: true},
		"SinceOther":   {reason: "then no other user has the hash", record: old.With(twin.ID()), user: other},
		"SinceStill":   {reason: "the others are recorded as before", record: old.With(twin.ID()), user: alice, hashed: true},
		"UnknownUser":  {reason: "a user without name and UID equals none", record: Controllers{hashes: ",", ids: ","}, user: User{}},
		"TypedByHand":  {reason: "white space does not count", record: Controllers{ids: " " + twin.ID() + " ,"}, user: twin, has: true},
		"HashIsNoID":   {reason: "a hash in the place of an id grants nothing", record: Controllers{ids: twin.Hash()}, user: twin},
		"IDIsNoHash":   {reason: "nor does an id in the place of a hash", record: Controllers{hashes: twin.ID()}, user: twin},
		"OtherRelease": {reason: "unknown entries stay", record: Controllers{ids: "v2:abc"}.With(twin.ID()), user: twin, has: true},
	} {
		t.Run(name, func(t *testing.T) {
			has, hashed := tc.record.Has(tc.user.ID()), tc.record.HasHash(tc.user.Hash())
			if has != tc.has || hashed != tc.hashed {
				t.Errorf("%s: want %t, by hash %t, got %t, %t", tc.reason, tc.has, tc.hashed, has, hashed)
			}
		})
	}
}

// TestControllersMissing: what is to be written is what is not there, and nothing after it was written.
func TestControllersMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})
		have := map[string]string{v1alpha1.AnnotationKeyControllers: User{Name: name.Draw(t, "recorded")}.Hash(), "x": "y"}
		for _, n := range rapid.SliceOfN(name, 0, 9).Draw(t, "writers") {
			next := ControllersOf(have).With(User{Name: n}.ID())
			for k, v := range next.Missing(have) {
				have[k] = v
			}
			if d := cmp.Diff(map[string]string{}, next.Missing(have)); d != "" {
				t.Fatalf("not written once:\n%s", d)
			}
			got := ControllersOf(have)
			if !got.Has(User{Name: n}.ID()) || len(got.Hashes()) > v1alpha1.MaxHashes || len(ParseHashes(got.ids)) > v1alpha1.MaxHashes {
				t.Fatalf("after %s: %v", n, have)
			}
		}
	})
}
