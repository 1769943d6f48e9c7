package approval

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func keyed(keys ...string) *Keys {
	k := &Keys{}
	for _, key := range keys {
		k.Use(bytes.Repeat([]byte(key), 32))
	}
	return k
}

var database = Sealed{Kind: schema.GroupKind{Group: "example.org", Kind: "XDatabase"}, Namespace: "shop", Name: "db", UID: "1"}

// TestTrusted covers KR-13-69.
func TestTrusted(t *testing.T) {
	const key = keyApprove + difference
	vote := `{"content":"c","state":"open","generation":7,"at":"2026-01-01T00:00:00Z","digest":"` + difference + `","mode":"once","votes":true,` +
		`"by":[{"user":"bob","at":"2026-01-01T00:00:00Z","groups":["dba"]}]}`
	claims := "[" + vote + "]"
	content := content(v1alpha1.Approval{Digest: difference, Mode: v1alpha1.ApprovalOnce}, nil)
	other := `[{"content":"o","state":"used","at":"2026-01-01T00:00:00Z"}]`
	reviewed := `[{"content":"` + content + `","state":"open","generation":7,"at":"2026-01-01T00:00:00Z","digest":"` + difference + `"}]`
	created, another, unnamed := database, database, database
	created.UID, another.UID, unnamed.UID, unnamed.Name = "", "2", "", ""
	k := keyed("a")
	for name, tc := range map[string]struct {
		reason string
		keys   *Keys
		in     annotations
		// approves: an approval of the difference counts.
		approves bool
	}{
		"Sealed": {reason: "what Kausality stored counts", keys: k, in: annotations{keyClaims: k.Seal(database, claims)}, approves: true},
		"Forged": {reason: "an editor stores a vote while no webhook answers", keys: k, in: annotations{keyClaims: claims}},
		"Appended": {reason: "an editor adds one to sealed claims", keys: k,
			in: annotations{keyClaims: strings.TrimSuffix(k.Seal(database, other), "]") + "," + vote + "]"}},
		"Prepended": {reason: "an editor adds one before sealed claims", keys: k,
			in: annotations{keyClaims: "[" + vote + "," + strings.TrimPrefix(k.Seal(database, other), "[")}},
		"Copied":     {reason: "claims of another object are copied", keys: k, in: annotations{keyClaims: k.Seal(another, claims)}},
		"OtherKey":   {reason: "the key is another one", keys: k, in: annotations{keyClaims: keyed("b").Seal(database, claims)}},
		"Replaced":   {reason: "the key was replaced since", keys: keyed("a", "b"), in: annotations{keyClaims: k.Seal(database, claims)}, approves: true},
		"Created":    {reason: "claims from before it had a UID", keys: k, in: annotations{keyClaims: k.Seal(created, claims)}, approves: true},
		"Generated":  {reason: "claims of any object of its kind that has no name yet", keys: k, in: annotations{keyClaims: k.Seal(unnamed, claims)}},
		"NoKey":      {reason: "without a key all counts", in: annotations{keyClaims: claims}, approves: true},
		"NoKeyYet":   {reason: "and before one is read", keys: &Keys{}, in: annotations{keyClaims: claims}, approves: true},
		"Reviewed":   {reason: "an approval that was reviewed", keys: k, in: annotations{key: "once", keyClaims: k.Seal(database, reviewed)}, approves: true},
		"Unreviewed": {reason: "an approval that was not", keys: k, in: annotations{key: "once"}},
		"BesideOther": {reason: "an approval that was not, beside claims that count", keys: k,
			in: annotations{key: "generation", keyClaims: k.Seal(database, other)}},
		"Removed": {reason: "the record that it was used is removed", keys: k, in: annotations{key: "once", keyClaims: k.Seal(database, other)}},
		"Emptied": {reason: "all records are removed", keys: k, in: annotations{key: "once", keyClaims: "[]"}},
		"Always": {reason: "an approval without claims is a matter of RBAC", keys: k,
			in: annotations{keyApprovals: `[{"kind":"*","name":"*","mode":"always"}]`}, approves: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.in)
			counts := tc.keys.Trusted(database, tc.in, now)
			q := query()
			q.Digests, q.Intent = q.Digests[:0:0], 7
			q.Digests = append(q.Digests, difference)
			set := Parse(counts)
			if _, ok := set.Approved(q); ok != tc.approves {
				t.Errorf("%s: it approves: %t, by %v", tc.reason, ok, counts)
			}
			if diff := cmp.Diff(before, tc.in); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
			if tc.keys.Trusted(database, tc.in, now)[keyClaims] != counts[keyClaims] {
				t.Errorf("%s: it is not the same twice", tc.reason)
			}
			if stored := tc.in[keyClaims]; strings.Contains(counts[keyClaims], sealStart) && Stored(counts[keyClaims]) != stored {
				t.Errorf("%s: the stored claims are %s, not %s", tc.reason, stored, Stored(counts[keyClaims]))
			}
		})
	}
}

// What was not reviewed is given by a person who writes it again, and the annotation goes with the next write in any case. A machine
// that writes it again, as GitOps does for ever, gives nothing.
func TestGivenAgain(t *testing.T) {
	k, p := keyed("a"), newParent()
	p.held = func(id string) (Known, bool) { return Known{Named: id == difference, Since: 7}, id == difference }
	p.annotations[keyApprove+difference] = "once"
	approves := func() bool {
		q := query()
		q.Digests, q.Intent = append(q.Digests[:0:0], difference), 7
		_, ok := Parse(p.annotations).Approved(q)
		return ok
	}
	trusted := func() { p.annotations = k.Trusted(database, p.annotations, now) }
	trusted()
	if suggested := Parse(p.annotations).Value(difference, v1alpha1.ApprovalOnce, 7); approves() || suggested != "once: given again" {
		t.Errorf("what was not reviewed approves, or the same again is suggested: %s", suggested)
	}
	p.write("hans", true, map[string]string{"example.org/a": "b"})
	if value, is := p.annotations[keyApprove+difference]; is || approves() {
		t.Errorf("it stays: %s, %s", value, p.annotations[keyClaims])
	}
	write := func(user string, person bool) {
		p.annotations[keyClaims] = k.Seal(database, p.annotations[keyClaims])
		p.write(user, person, map[string]string{keyApprove + difference: "once"})
		p.annotations[keyClaims] = k.Seal(database, p.annotations[keyClaims])
		trusted()
	}
	if write("gitops", false); approves() {
		t.Errorf("a machine that writes it again approves: %v", p.annotations)
	}
	p.write("gitops", false, map[string]string{keyApprove + difference: ""})
	if write("hans", true); !approves() {
		t.Errorf("a person who writes it again does not approve: %v", p.annotations)
	}
}

// An approval in Git that was used does not count again where the record that it was used is not proven: of another key, as after an upgrade.
func TestUsedUnproven(t *testing.T) {
	for name, tc := range map[string]struct{ key, value string }{
		"Annotation": {keyApprove + difference, "once"},
		"List":       {keyApprovals, `[{"digest":"` + difference + `","mode":"once"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			k, p := keyed("a"), newParent()
			p.write("gitops", false, map[string]string{tc.key: tc.value})
			q := query()
			q.Digests, q.Intent = append(q.Digests[:0:0], difference), 7
			_, ok := Parse(p.annotations).Approved(q)
			if !ok {
				t.Fatal("it does not approve at first")
			}
			claims := ParseClaims(p.annotations[keyClaims])
			claims[0].State, claims[0].ID = v1alpha1.ClaimUsed, "drift-1"
			p.annotations[keyClaims] = keyed("b").Seal(database, claims.String())
			for range 2 { // it stays used over the writes that follow, and over those of GitOps
				p.annotations = k.Trusted(database, p.annotations, now)
				if _, ok := Parse(p.annotations).Approved(q); ok {
					t.Errorf("used, it approves again: %v", p.annotations)
				}
				p.write("gitops", false, map[string]string{tc.key: tc.value, "example.org/a": "b"})
				p.annotations[keyClaims] = k.Seal(database, p.annotations[keyClaims])
			}
			if c := ParseClaims(p.annotations[keyClaims])[0]; c.State != v1alpha1.ClaimUsed || c.ID != "drift-1" {
				t.Errorf("the record is %+v", c)
			}
		})
	}
}

// TestWritten: what Kausality approves for a policy counts, also where an editor wrote the same while nothing reviewed it.
func TestWritten(t *testing.T) {
	k, at := keyed("a"), Stamp(now)
	const key, other = keyApprove + difference, keyApprove + "aaaabbbbccccdddd"
	in := k.Trusted(database, annotations{key: "once", other: "once"}, now)
	before := maps.Clone(in)
	after := annotation.Apply(Written(in, key, "once"), Admit(Written(in, key, "once"), 7, 7, now, nil, nil))
	want := Claims{{Digest: "aaaabbbbccccdddd", State: v1alpha1.ClaimPruned, At: at}, {Digest: difference, State: v1alpha1.ClaimOpen, Generation: 7, At: at}}
	got := ParseClaims(after[keyClaims])
	for i := range got {
		got[i].Content = ""
	}
	if diff := cmp.Diff(want, got); diff != "" || after[key] != "once" {
		t.Errorf("annotations %v, claims -want, +got:\n%s", after, diff)
	}
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("input modified:\n%s", diff)
	}
}

// TestSeal: whatever the claims, a seal leaves them as they are, seals them as they are, and is replaced by the next.
func TestSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var claims Claims
		for _, text := range rapid.SliceOfN(rapid.StringMatching(`[a-z"\\},\]{:]{0,12}|seal`), 1, 4).Draw(t, "claims") {
			claims = append(claims, v1alpha1.Claim{Content: "x" + text, State: v1alpha1.ClaimOpen, Reason: sealStart + text + sealEnd + "]"})
		}
		k, value := keyed("a"), claims.String()
		sealed := k.Seal(database, value)
		if diff := cmp.Diff(claims.String(), ParseClaims(sealed).String()); diff != "" {
			t.Fatalf("-want, +got:\n%s", diff)
		}
		if !Same(sealed, value) || Stored(sealed) != sealed || k.Seal(database, sealed) != sealed || !k.sealed(database, sealed) {
			t.Fatalf("the seal of %s is %s", value, sealed)
		}
		other := []byte(sealed)
		at := rapid.IntRange(0, len(other)-1).Draw(t, "changed")
		other[at] ^= 1
		if !slices.Equal(other, []byte(sealed)) && k.sealed(database, string(other)) {
			t.Fatalf("changed at %d, %s is sealed", at, other)
		}
	})
}
