package channel

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// KeyExternal is the key of all external drift: what other actors changed in external systems.
const KeyExternal = "external"

// CauseKey names the cause of a pending change on a command line (KR-12-20): the name of a
// Composition revision, KIND/NAME of another single cause, external for external drift, and
// a digest of 8 hex digits where there is no such name.
func CauseKey(d *v1alpha1.Drift) string {
	if IsExternalDrift(d) {
		return KeyExternal
	}
	if len(d.Spec.Causes) == 1 {
		c, key := d.Spec.Causes[0], d.Spec.Causes[0].Name
		if c.Kind != v1alpha1.CauseComposition {
			key = strings.ToLower(string(c.Kind)) + "/" + c.Name
		}
		if plainKey.MatchString(key) && key != KeyExternal {
			return key
		}
	}
	text := []string{d.Spec.Cause}
	if len(d.Spec.Causes) > 0 {
		text = lists.Map(d.Spec.Causes, func(c v1alpha1.HopCause) string { return string(c.Kind) + "/" + c.Name })
	}
	slices.Sort(text)
	sum := sha256.Sum256([]byte(strings.Join(text, "\n")))
	return hex.EncodeToString(sum[:4])
}

// plainKey is a key that no shell interprets and that is short enough to be typed.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,79}$`)

// causeTitle returns what a cause is, as the beginning of a sentence.
func causeTitle(d *v1alpha1.Drift) string {
	if IsExternalDrift(d) {
		return "external drift: external resources differ from what Crossplane wants"
	}
	return cmp.Or(strings.Join(lists.Map(d.Spec.Causes, causeName), " or "), d.Spec.Cause, "unknown cause")
}

// causeAs is what a cause is, as a noun.
var causeAs = map[v1alpha1.CauseKind]string{
	v1alpha1.CauseComposition: "composition revision", v1alpha1.CauseFunction: "function revision", v1alpha1.CauseGraph: "graph revision",
	v1alpha1.CauseImage: "image", v1alpha1.CauseController: "controller", v1alpha1.CauseUser: "user", v1alpha1.CauseEdit: "edit by",
}

// causeName returns what a cause is, with its name.
func causeName(c v1alpha1.HopCause) string {
	return cmp.Or(causeAs[c.Kind], string(c.Kind)) + " " + c.Name
}

// CauseLines returns a line for each of some causes that cannot be distinguished, with its author.
func CauseLines(causes []v1alpha1.HopCause) []string {
	label := "cause: "
	if len(causes) > 1 {
		label = "possible cause: "
	}
	return lists.Map(causes, func(c v1alpha1.HopCause) string { return label + causeName(c) + AuthorOf(c) })
}

// AuthorOf returns the author of a cause, as the end of a sentence; empty where it is unknown (KR-07-11).
func AuthorOf(c v1alpha1.HopCause) string {
	switch {
	case c.Author != "" && c.Claimed:
		return ", by " + c.Author + " (a claim)"
	case c.Author != "":
		return ", by " + c.Author
	case c.Manager != "":
		return ", by field manager " + c.Manager + ", a claim"
	}
	return ""
}

// UserOf returns who made the change of a hop. A change that the webhook did not see is unattributed (KR-07-04).
func UserOf(h v1alpha1.Hop) string {
	switch {
	case h.Unattributed && h.User == "":
		return "an unknown user (unobserved)"
	case h.User == "":
		return "an unknown user"
	}
	return h.User
}

// IsExternal reports whether a pending change is one of an external resource: external
// drift, or a deletion.
func IsExternal(d *v1alpha1.Drift) bool { return d.Spec.Relation == v1alpha1.RelationExternal }

// IsExternalDrift reports whether an external resource was changed by another actor.
func IsExternalDrift(d *v1alpha1.Drift) bool {
	return IsExternal(d) && d.Spec.Operation != string(admission.Delete)
}

// isEdit reports whether a pending change reverts an edit by a user.
func isEdit(d *v1alpha1.Drift) bool {
	return slices.ContainsFunc(d.Spec.Causes, func(c v1alpha1.HopCause) bool { return c.Kind == v1alpha1.CauseEdit })
}
