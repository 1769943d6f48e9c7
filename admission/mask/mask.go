package mask

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	o  = v1alpha1.VerbObserve
	c  = v1alpha1.VerbCreate
	u  = v1alpha1.VerbUpdate
	d  = v1alpha1.VerbDelete
	li = v1alpha1.VerbLateInitialize
)

// Runtime is the set of policies that a provider's crossplane-runtime accepts.
type Runtime string

const (
	// RuntimeCurrent is v1.20 and later.
	RuntimeCurrent Runtime = ""
	// RuntimeLegacy is before v1.20: no set with LateInitialize that lacks
	// Create.
	RuntimeLegacy Runtime = "legacy"
)

type set = []v1alpha1.Verb

// legal sets of crossplane-runtime v2.3 (pkg/reconciler/managed/policies.go),
// smallest first; the first that holds what is wanted is taken.
var legal = []set{
	{o},
	{o, u}, {o, d}, {o, c},
	{o, c, u}, {o, c, d}, {o, c, li}, {o, u, li}, {o, li},
	{o, c, u, d}, {o, c, u, li}, {o, c, d, li},
	{o, c, u, d, li},
}

var currentOnly = []set{{o, li}, {o, u, li}}

func legalFor(r Runtime) []set {
	if r == RuntimeCurrent {
		return legal
	}
	return slices.DeleteFunc(slices.Clone(legal), func(s set) bool {
		return slices.ContainsFunc(currentOnly, func(x set) bool { return slices.Equal(s, x) })
	})
}

// Accepts reports whether a runtime accepts a value of spec.managementPolicies that Kausality may
// write as a mask: RuntimeLegacy refuses two of them.
func Accepts(r Runtime, policies []string) bool {
	if r == RuntimeCurrent {
		return true
	}
	return !slices.ContainsFunc(currentOnly, func(s set) bool { return Same(policies, toStrings(s)) })
}

// Refused reports whether the message of a Synced condition is that the provider
// does not know a set of policies, as crossplane-runtime words it
// (v1.12 to v2.3, errFmtManagementPolicyNotSupported).
func Refused(message string) bool {
	return strings.Contains(message, "spec.managementPolicies") && strings.Contains(message, "is not supported")
}

// Expand returns the verbs of the author's value: "*" is all five verbs.
func Expand(author []string) []v1alpha1.Verb {
	if slices.Contains(author, string(v1alpha1.VerbAll)) {
		return []v1alpha1.Verb{o, c, u, d, li}
	}
	out := make([]v1alpha1.Verb, 0, len(author))
	for _, a := range author {
		out = append(out, v1alpha1.Verb(a))
	}
	return out
}

// Gives reports whether the author's value gives a verb.
func Gives(author []string, v v1alpha1.Verb) bool { return slices.Contains(Expand(author), v) }

// Maskable reports whether there is anything to mask: an author who gave
// nothing but Observe, paused with [], or left out Observe, which every legal set
// has, is left alone (KR-08-03).
func Maskable(author []string) bool {
	return Gives(author, o) && slices.ContainsFunc(Expand(author), func(v v1alpha1.Verb) bool { return v == c || v == u || v == d || v == li })
}

// ReApplied reports whether incoming is the author's value, applied again over stored, a mask of it: the author requests nothing by that.
// A mask is never []: a user has paused the object, and requests by the same value that it goes on.
func ReApplied(author, stored, incoming []string) bool {
	return slices.Equal(incoming, author) && Gives(stored, o)
}

// Policies returns the management policies to store: the smallest legal set that holds Observe and those
// of the wanted verbs that the author gave, without any verb the author did not give. Where no legal set
// holds them all (Update and Delete without Create), the one that holds most is taken, Delete before
// Update, since a lost Delete orphans. The author's own value is returned verbatim where it is the same
// set or is not maskable (KR-08-01, KR-08-02).
func Policies(author []string, want []v1alpha1.Verb, runtime Runtime) []string {
	given := Expand(author)
	if !Maskable(author) {
		return author
	}
	wanted := set{o}
	for _, v := range []v1alpha1.Verb{c, u, d, li} {
		if slices.Contains(want, v) && slices.Contains(given, v) {
			wanted = append(wanted, v)
		}
	}
	best := choose(wanted, given, runtime)
	if Same(author, toStrings(best)) {
		return author
	}
	return toStrings(best)
}

// choose returns the legal set within what the author gave that is best by value; the smaller of two
// that are equal. Observe alone always is legal.
func choose(wanted, given set, runtime Runtime) set {
	best, score := legal[0], -1
	for _, s := range legalFor(runtime) {
		if !subset(s, given) {
			continue
		}
		if n := value(s, wanted); n > score {
			best, score = s, n
		}
	}
	return best
}

// value returns how well a set fits the wanted verbs: each wanted verb it holds counts, Delete most; an
// unwanted verb in it makes it worthless unless no other set has all wanted ones.
func value(s, wanted set) int {
	n := 0
	for _, v := range s {
		switch {
		case v == o:
		case slices.Contains(wanted, v):
			n += weight(v)
		default:
			n -= 128
		}
	}
	return n + 1024
}

// weight returns what a verb that a set holds is worth.
func weight(v v1alpha1.Verb) int {
	switch v {
	case d:
		return 64
	case c:
		return 32
	case u:
		return 16
	case li:
		return 2
	}
	return 0
}

func subset(s, of set) bool {
	return !slices.ContainsFunc(s, func(v v1alpha1.Verb) bool { return !slices.Contains(of, v) })
}

func toStrings(s set) []string {
	out := make([]string, 0, len(s))
	for _, v := range s {
		out = append(out, string(v))
	}
	return out
}

// Same reports whether two values are the same set of verbs; "*" is all five.
func Same(a, b []string) bool {
	x, y := Expand(a), Expand(b)
	return subset(x, y) && subset(y, x)
}

// Masks reports whether policies could be a mask over the author's value: they hold
// Observe, and no verb that the author did not give.
func Masks(policies, author []string) bool {
	return Gives(policies, o) && subset(Expand(policies), Expand(author))
}

// everything is the annotation of an author who left the policies at their
// default, as nearly all do.
const everything = `["*"]`

// ParseAuthor reads the management-policies annotation.
func ParseAuthor(value string) ([]string, bool) {
	if value == everything {
		return []string{string(v1alpha1.VerbAll)}, true
	}
	var out []string
	if value == "" || json.Unmarshal([]byte(value), &out) != nil || out == nil {
		return nil, false
	}
	for _, v := range out {
		switch v1alpha1.Verb(v) {
		case o, c, u, d, li, v1alpha1.VerbAll:
		default:
			return nil, false
		}
	}
	return out, true
}

// FormatAuthor returns the value of the management-policies annotation.
func FormatAuthor(author []string) string {
	switch {
	case author == nil:
		author = []string{}
	case len(author) == 1 && author[0] == string(v1alpha1.VerbAll):
		return everything
	}
	return annotation.MustMarshal(author)
}

// ParseGate reads the gate annotation; the zero Gate where it is not set.
func ParseGate(annotations map[string]string) v1alpha1.Gate {
	var g v1alpha1.Gate
	if v := annotations[v1alpha1.AnnotationKeyGate]; v == "" || json.Unmarshal([]byte(v), &g) != nil {
		return v1alpha1.Gate{}
	}
	return g
}

// Opened returns the gate after a write, by the annotations before and after it; false where the write does not open it.
func Opened(before, after map[string]string) (v1alpha1.Gate, bool) {
	is := ParseGate(after)
	return is, Opens(ParseGate(before), is)
}

// Opens reports whether a gate is open that was not, or not by this opening.
func Opens(was, is v1alpha1.Gate) bool {
	return is.State == v1alpha1.GateOpen && (was.State != is.State || !was.At.Equal(&is.At) || !slices.Equal(was.Verbs, is.Verbs))
}

// FormatGate returns the value of the gate annotation.
func FormatGate(g v1alpha1.Gate) string { return annotation.MustMarshal(g) }

// AuthorOf returns what the author of a managed resource wrote: the remembered
// value while it is masked, else the stored one (KR-08-16).
func AuthorOf(annotations map[string]string, stored []string) []string {
	if author, ok := ParseAuthor(annotations[v1alpha1.AnnotationKeyManagementPolicies]); ok {
		return author
	}
	return stored
}
