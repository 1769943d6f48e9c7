package subject

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestUserHash covers KR-02-03.
func TestUserHash(t *testing.T) {
	cases := map[string]struct {
		reason string
		user   User
		want   string
	}{
		"Name": {reason: "the first 5 of base36 of SHA-256 of the name", user: User{Name: "alice"}, want: "13c7u"},
		"NameBeforeUID": {reason: "the UID does not count where there is a name", user: User{Name: "alice", UID: "9b2c1d"},
			want: "13c7u"},
		"ServiceAccount": {reason: "as any other name", user: User{Name: "system:serviceaccount:crossplane-system:crossplane"},
			want: "2m2kc"},
		"UID":     {reason: "the UID stands in for a missing name", user: User{UID: "9b2c1d"}, want: "4xseq"},
		"Unknown": {reason: "an unknown user has no hash, and never equals one", user: User{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.user.Hash(); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

func TestUserHashShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := User{Name: rapid.StringN(1, -1, -1).Draw(t, "name")}.Hash()
		if len(h) != hashLength || strings.Trim(h, "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
			t.Fatalf("not 5 characters of base36: %q", h)
		}
	})
}

func TestParseHashes(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     string
		want   Hashes
	}{
		"Empty":  {reason: "no annotation is no hashes"},
		"One":    {reason: "one", in: "abcde", want: Hashes{"abcde"}},
		"Many":   {reason: "order is kept, newest last", in: "abcde,12345", want: Hashes{"abcde", "12345"}},
		"Spaces": {reason: "it may have been typed by hand", in: " abcde , ,12345,", want: Hashes{"abcde", "12345"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ParseHashes(tc.in)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHashesWith(t *testing.T) {
	full := Hashes{"a", "b", "c", "d", "e"}
	cases := map[string]struct {
		reason string
		have   Hashes
		hash   string
		spare  Hashes
		want   Hashes
	}{
		"First":  {reason: "the newest is last", hash: "a", want: Hashes{"a"}},
		"Append": {reason: "the newest is last", have: Hashes{"a"}, hash: "b", want: Hashes{"a", "b"}},
		"Known": {reason: "taking turns does not change the object for ever", have: Hashes{"a", "b"}, hash: "a",
			want: Hashes{"a", "b"}},
		"Unknown": {reason: "an unknown user leaves no mark", have: Hashes{"a"}, want: Hashes{"a"}},
		"Evict":   {reason: "the oldest goes beyond five", have: full, hash: "f", want: Hashes{"b", "c", "d", "e", "f"}},
		"EvictSpared": {reason: "those of the parent's controllers are spared", have: full, hash: "f", spare: Hashes{"a", "b"},
			want: Hashes{"a", "b", "d", "e", "f"}},
		"EvictAll": {reason: "with all spared the oldest goes all the same, never the newest", have: full, hash: "f", spare: full,
			want: Hashes{"b", "c", "d", "e", "f"}},
		"EvictTooLong": {reason: "a longer list of another version is cut", have: append(append(Hashes{}, full...), "f"), hash: "g",
			want: Hashes{"c", "d", "e", "f", "g"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			have, spare := append(Hashes(nil), tc.have...), append(Hashes(nil), tc.spare...)
			got := tc.have.With(tc.hash, tc.spare)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(have, append(Hashes(nil), tc.have...)); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(spare, append(Hashes(nil), tc.spare...)); diff != "" {
				t.Errorf("%s: spare modified:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(got, got.With(tc.hash, tc.spare)); diff != "" {
				t.Errorf("%s: not idempotent:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHashesWithProperties(t *testing.T) {
	hash := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
	rapid.Check(t, func(t *rapid.T) {
		spare := Hashes(rapid.SliceOfNDistinct(hash, 0, 3, rapid.ID[string]).Draw(t, "spare"))
		var have Hashes
		for _, h := range rapid.SliceOfN(hash, 0, 20).Draw(t, "writers") {
			before := have
			have = have.With(h, spare)
			switch {
			case len(have) > v1alpha1.MaxHashes:
				t.Fatalf("grows: %v", have)
			case !have.Has(h):
				t.Fatalf("%s is missing from %v", h, have)
			}
			for _, s := range spare {
				if before.Has(s) && !have.Has(s) {
					t.Fatalf("spared %s pushed out: %v to %v", s, before, have)
				}
			}
			if diff := cmp.Diff(have, ParseHashes(have.String())); diff != "" {
				t.Fatalf("does not survive its own form:\n%s", diff)
			}
		}
	})
}

func TestKindOfUser(t *testing.T) {
	cases := map[string]struct {
		reason  string
		user    string
		machine bool
		gc      bool
	}{
		"ServiceAccount": {reason: "a controller", user: "system:serviceaccount:kube-system:deployment-controller",
			machine: true},
		"GarbageCollector": {reason: "its deletions follow another user's",
			user: "system:serviceaccount:kube-system:generic-garbage-collector", machine: true, gc: true},
		"NamespaceController": {reason: "its deletions follow another user's",
			user: "system:serviceaccount:kube-system:namespace-controller", machine: true, gc: true},
		"System":  {reason: "a component, not a person", user: "system:kube-controller-manager", machine: true},
		"Person":  {reason: "a person", user: "alice@example.org"},
		"Unknown": {reason: "no machine either"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := User{Name: tc.user}
			if u.IsMachine() != tc.machine || u.IsGarbageCollection() != tc.gc {
				t.Errorf("%s: got machine %t, gc %t", tc.reason, u.IsMachine(), u.IsGarbageCollection())
			}
		})
	}
}

func TestFieldManagers(t *testing.T) {
	type want struct{ composed, claim, machinery bool }
	cases := map[string]struct {
		reason  string
		manager string
		want    want
	}{
		"Composed": {reason: "an apply of a composed resource", manager: "apiextensions.crossplane.io/composed/abc",
			want: want{composed: true}},
		"Claim":     {reason: "the sync of a Claim", manager: "apiextensions.crossplane.io/claim", want: want{claim: true}},
		"Composite": {reason: "resourceRefs", manager: "apiextensions.crossplane.io/composite", want: want{machinery: true}},
		"Binary":    {reason: "compositionRef by update", manager: "crossplane", want: want{machinery: true}},
		"Kubectl":   {reason: "any other client", manager: "kubectl", want: want{}},
		"None":      {reason: "a DELETE has none", want: want{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := want{IsComposedApply(tc.manager), IsClaimSync(tc.manager), IsCrossplaneMachinery(tc.manager)}
			if got != tc.want {
				t.Errorf("%s: want %+v, got %+v", tc.reason, tc.want, got)
			}
		})
	}
}

// Values computed apart from this code, as Crossplane v2.3.3 ComposedFieldOwnerName does.
func TestComposedManager(t *testing.T) {
	cases := map[string]struct {
		reason string
		kind   schema.GroupKind
		want   string
	}{
		"Group": {reason: "sha256 hex of name and Kind.group", kind: schema.GroupKind{Group: "example.org", Kind: "XDatabase"},
			want: "apiextensions.crossplane.io/composed/c409043679162a675a661cf22fd3b40c0527eba0e34d23eec9e78e776fdcf0fd"},
		"NoGroup": {reason: "without a group there is no dot", kind: schema.GroupKind{Kind: "XDatabase"},
			want: "apiextensions.crossplane.io/composed/3c3df65ff8cbde344e10e9c32f6be7d0b4c439c2ab85d8c70ea7cb0049e0939b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if !IsComposer(tc.want, "my-db", tc.kind) || IsComposer(tc.want, "my-db2", tc.kind) || IsComposer("kubectl", "my-db", tc.kind) {
				t.Error("the composer is another one")
			}
			if got := ComposedManager("my-db", tc.kind); got != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}

func FuzzParseHashes(f *testing.F) {
	for _, s := range []string{"", "abcde", "abcde,12345", " , ,", "a,a,a,a,a,a,a,a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		h := ParseHashes(in)
		if diff := cmp.Diff(h, ParseHashes(h.String())); diff != "" {
			t.Errorf("ParseHashes(String()) differs:\n%s", diff)
		}
		if h.Has("") {
			t.Error("holds the hash of an unknown user")
		}
	})
}
