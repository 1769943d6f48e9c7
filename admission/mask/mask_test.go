package mask

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// accepted sets, copied from crossplane-runtime v2.3.3 and not from mask.go:
// a set that is not in the list stops the MR.
var accepted = []string{"O", "", "OCUD", "OCUL", "OCU", "OCDL", "OCL", "OCD", "OC", "OD", "OU", "OCUDL", "OL", "OUL"}

var notLegacy = []string{"OL", "OUL"}

func policies(letters string) []string {
	out := []string{}
	for _, l := range letters {
		out = append(out, map[rune]string{'O': "Observe", 'C': "Create", 'U': "Update", 'D': "Delete", 'L': "LateInitialize", '*': "*"}[l])
	}
	return out
}

func letters(p []string) string {
	if slices.Contains(p, "*") {
		return "OCUDL"
	}
	out := ""
	for _, l := range "OCUDL" {
		if slices.Contains(p, policies(string(l))[0]) {
			out += string(l)
		}
	}
	return out
}

func verbsOf(letters string) []v1alpha1.Verb { return Expand(policies(letters)) }

func wantedSets() []string {
	var out []string
	for bits := range 32 {
		s := ""
		for i, l := range "OCUDL" {
			if bits&(1<<i) != 0 {
				s += string(l)
			}
		}
		out = append(out, s)
	}
	return out
}

// What is maskable is what a closed gate takes something from, also of values that no runtime accepts (KR-08-03).
func TestMaskable(t *testing.T) {
	for _, a := range append(wantedSets(), "*") {
		author := policies(a)
		if got, want := Maskable(author), !Same(Policies(author, nil, RuntimeCurrent), author); got != want {
			t.Errorf("%s: want %t, got %t", a, want, got)
		}
		if want := a == "*" || strings.HasPrefix(a, "O") && a != "O"; Maskable(author) != want {
			t.Errorf("%s: want %t", a, want)
		}
	}
}

// Every set of wanted verbs, every legal value of the author's, both runtimes:
// always a legal set of that runtime, within the author's, with Observe; the
// author's own value where nothing is removed (KR-08-01, KR-08-02).
func TestPoliciesExhaustively(t *testing.T) {
	for _, runtime := range []Runtime{RuntimeCurrent, RuntimeLegacy} {
		for _, a := range append([]string{"*"}, accepted...) {
			if runtime == RuntimeLegacy && slices.Contains(notLegacy, a) {
				continue
			}
			author := policies(a)
			for _, want := range wantedSets() {
				before := slices.Clone(author)
				got := Policies(author, verbsOf(want), runtime)
				name := strings.Join([]string{string(runtime), a, want}, "/") + " = " + letters(got)
				if diff := cmp.Diff(before, author); diff != "" {
					t.Fatalf("%s: input modified:\n%s", name, diff)
				}
				check(t, name, runtime, author, want, got)
			}
		}
	}
}

func check(t *testing.T, name string, runtime Runtime, author []string, want string, got []string) {
	t.Helper()
	g, a := letters(got), letters(author)
	if a == "" || a == "O" {
		if diff := cmp.Diff(author, got); diff != "" {
			t.Errorf("%s: an unmaskable author is left alone:\n%s", name, diff)
		}
		return
	}
	if !slices.Contains(accepted, g) || runtime == RuntimeLegacy && slices.Contains(notLegacy, g) {
		t.Errorf("%s: the provider refuses this set", name)
	}
	if !strings.Contains(g, "O") {
		t.Errorf("%s: without Observe nothing is seen", name)
	}
	for _, l := range g {
		switch {
		case !strings.ContainsRune(a, l):
			t.Errorf("%s: adds %c, which the author did not give", name, l)
		case l != 'O' && !strings.ContainsRune(want, l):
			t.Errorf("%s: lets %c through, which is not wanted", name, l)
		}
	}
	if g == a {
		if diff := cmp.Diff(author, got); diff != "" {
			t.Errorf("%s: the author's own value where nothing is removed:\n%s", name, diff)
		}
	}
	best(t, name, runtime, a, want, g)
}

// best reports a legal set that holds more of what is wanted.
func best(t *testing.T, name string, runtime Runtime, author, want, got string) {
	t.Helper()
	within := func(s, of string) bool { return strings.Trim(s, of) == "" }
	for _, s := range accepted {
		if s == "" || runtime == RuntimeLegacy && slices.Contains(notLegacy, s) || !within(s, author) || !within(s, want+"O") {
			continue
		}
		if s != got && within(got, s) {
			t.Errorf("%s: %s holds more of what is wanted", name, s)
		}
	}
}

func TestPolicies(t *testing.T) {
	cases := map[string]struct {
		reason  string
		author  string
		want    string
		runtime Runtime
		expect  string
	}{
		"Closed":           {reason: "looks only", author: "*", runtime: RuntimeCurrent, expect: "O"},
		"ClosedLate":       {reason: "by choice", author: "*", want: "L", runtime: RuntimeCurrent, expect: "OL"},
		"ClosedLateLegacy": {reason: "an old runtime refuses it", author: "*", want: "L", runtime: RuntimeLegacy, expect: "O"},
		"Update":           {reason: "the smallest set", author: "*", want: "U", runtime: RuntimeCurrent, expect: "OU"},
		"Create": {reason: "creation, its update and late initialisation", author: "*", want: "CUL",
			runtime: RuntimeCurrent, expect: "OCUL"},
		"CreateNoLate": {reason: "LateInitialize only if the author gave it", author: "OCUD", want: "CUL",
			runtime: RuntimeCurrent, expect: "OCU"},
		"Delete": {reason: "the smallest set", author: "*", want: "D", runtime: RuntimeCurrent, expect: "OD"},
		"UpdateDelete": {reason: "no legal set holds both without Create: a lost Delete orphans", author: "*", want: "UD",
			runtime: RuntimeCurrent, expect: "OD"},
		"UpdateDeleteCreate": {reason: "with Create there is one", author: "*", want: "CUD", runtime: RuntimeCurrent, expect: "OCUD"},
		"UpdateLateLegacy": {reason: "an old runtime has no O,U,LI: Update matters", author: "*", want: "UL",
			runtime: RuntimeLegacy, expect: "OU"},
		"All":         {reason: "nothing taken: verbatim", author: "*", want: "OCUDL", runtime: RuntimeCurrent, expect: "*"},
		"ObserveOnly": {reason: "nothing to take", author: "O", want: "CUD", runtime: RuntimeCurrent, expect: "O"},
		"Paused":      {reason: "nothing to take", want: "CUD", runtime: RuntimeCurrent},
		"AuthorNoDelete": {reason: "never a verb the author did not give", author: "OCU", want: "D", runtime: RuntimeCurrent,
			expect: "O"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(policies(tc.expect), Policies(policies(tc.author), verbsOf(tc.want), tc.runtime)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	// Verbatim means verbatim: order and spelling stay the author's.
	author := []string{"Delete", "Update", "Observe", "Create"}
	if diff := cmp.Diff(author, Policies(author, verbsOf("CUD"), RuntimeCurrent)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// An older runtime refuses exactly the sets that newer ones added.
func TestAccepts(t *testing.T) {
	for _, s := range accepted {
		if !Accepts(RuntimeCurrent, policies(s)) {
			t.Errorf("%s is refused by a current runtime", s)
		}
		if got, want := Accepts(RuntimeLegacy, policies(s)), !slices.Contains(notLegacy, s); got != want {
			t.Errorf("%s on an older runtime: %t, want %t", s, got, want)
		}
	}
}

// TestRefused covers KR-08-02.
func TestRefused(t *testing.T) {
	for message, want := range map[string]bool{
		"`spec.managementPolicies` is set to a value([Observe LateInitialize]) which is not supported. Check docs for supported policies": true,
		"observe failed: external resource does not exist": false,
		"the region is not supported":                      false,
		"":                                                 false,
	} {
		if got := Refused(message); got != want {
			t.Errorf("%q: %t", message, got)
		}
	}
}

func TestAuthorOf(t *testing.T) {
	key := v1alpha1.AnnotationKeyManagementPolicies
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		stored      []string
		want        []string
	}{
		"Unmasked": {reason: "what is stored is the author's", stored: []string{"*"}, want: []string{"*"}},
		"Masked": {reason: "what is remembered is the author's", annotations: map[string]string{key: `["*"]`},
			stored: []string{"Observe"}, want: []string{"*"}},
		"Paused": {reason: "an empty list is a value", annotations: map[string]string{key: `[]`}, stored: []string{"Observe"},
			want: []string{}},
		"Garbage": {reason: "what cannot be read is not remembered", annotations: map[string]string{key: `*`},
			stored: []string{"Observe"}, want: []string{"Observe"}},
		"Null": {reason: "null is no value", annotations: map[string]string{key: `null`}, stored: []string{"Observe"},
			want: []string{"Observe"}},
		"NoVerb": {reason: "only verbs", annotations: map[string]string{key: `["Destroy"]`}, stored: []string{"Observe"},
			want: []string{"Observe"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, AuthorOf(tc.annotations, tc.stored)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestGateForm(t *testing.T) {
	g := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{u}, Generation: 4,
		At: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Paths: []string{"spec.forProvider.size"}}
	if diff := cmp.Diff(g, ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: FormatGate(g)})); diff != "" {
		t.Errorf("does not survive its own form:\n%s", diff)
	}
	for _, bad := range []string{"", "{", "[]", `{"generation":"x"}`} {
		if diff := cmp.Diff(v1alpha1.Gate{}, ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: bad})); diff != "" {
			t.Errorf("%q must be no gate:\n%s", bad, diff)
		}
	}
}

func TestFormatAuthor(t *testing.T) {
	for _, v := range [][]string{{}, {"*"}, {"Delete", "Observe"}} {
		if got, ok := ParseAuthor(FormatAuthor(v)); !ok || !cmp.Equal(v, got) {
			t.Errorf("%v does not survive its own form: %v", v, got)
		}
	}
}

func FuzzParseAuthor(f *testing.F) {
	for _, s := range []string{"", "[]", "null", `["*"]`, `["Observe","Delete"]`, `["observe"]`, `[null]`, `{}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		author, ok := ParseAuthor(in)
		if !ok {
			return
		}
		if again, ok := ParseAuthor(FormatAuthor(author)); !ok || !cmp.Equal(author, again) {
			t.Errorf("%v does not survive its own form", author)
		}
		for _, v := range Policies(author, []v1alpha1.Verb{u, d}, RuntimeCurrent) {
			if !Gives(author, v1alpha1.Verb(v)) {
				t.Errorf("adds %s to %v", v, author)
			}
		}
	})
}

func FuzzParseGate(f *testing.F) {
	for _, s := range []string{"", "{}", "null", `{"state":"open","verbs":["Update"],"generation":3,"at":"2026-01-02T03:04:05Z"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		g := ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: in})
		if FormatGate(ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: FormatGate(g)})) != FormatGate(g) {
			t.Errorf("%q is not stable", in)
		}
	})
}
