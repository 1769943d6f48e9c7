package annotate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ApproveKey returns the annotation that approves the one difference with an id.
func ApproveKey(id string) string { return v1alpha1.AnnotationKeyApprovePrefix + id }

// Approve returns an edit that approves the one difference with an id. An existing approval that is valid for
// longer is kept.
func Approve(id string, mode v1alpha1.ApprovalMode) Edit {
	return func(annotations map[string]string) (*string, error) {
		key, set := ApproveKey(id), approval.Parse(annotations)
		value := set.Value(id, mode, intent(annotations))
		if err := approval.Validate(key, value); err != nil {
			return nil, err
		}
		have, ok := annotations[key]
		switch {
		case !ok || value != string(mode) || lasting(have) < lasting(value):
		case have == value && mode != v1alpha1.ApprovalAlways && annotations[v1alpha1.AnnotationKeyTrace] != "" && !set.Knows(key, have):
			value += approval.GivenAgain // no webhook reviewed it: the same value would be no change
		default:
			return &have, nil
		}
		return &value, nil
	}
}

// intent returns the generation of the last intent by the trace of an object; 0 where it has none.
func intent(annotations map[string]string) int64 {
	hops, err := trace.Parse(annotations[v1alpha1.AnnotationKeyTrace])
	if own := hops.Own(); err == nil && own != nil {
		return own.Generation
	}
	return 0
}

// Unless returns an edit that leaves an annotation as it is where a condition is met when it is written.
func Unless(met func(annotations map[string]string) bool, key string, edit Edit) Edit {
	return func(annotations map[string]string) (*string, error) {
		if met(annotations) {
			return stored(annotations, key), nil
		}
		return edit(annotations)
	}
}

// ErrOther is the error of Only.
var ErrOther = errors.New("it has changed since it was shown, and nothing was written; look at it again")

// Only returns an edit that is an error where a condition is not met when it is written.
func Only(met func(annotations map[string]string) bool, edit Edit) Edit {
	return func(annotations map[string]string) (*string, error) {
		if !met(annotations) {
			return nil, ErrOther
		}
		return edit(annotations)
	}
}

// Vote writes a value of the annotation for one difference that is no plain approval: it withdraws one, or breaks the glass.
func Vote(id, value string) Edit {
	return func(map[string]string) (*string, error) {
		if err := approval.Validate(ApproveKey(id), value); err != nil {
			return nil, err
		}
		return &value, nil
	}
}

// lasting orders values by how long their modes are valid; -1 for other values.
func lasting(value string) int {
	mode, _, _ := strings.Cut(value, ":")
	return slices.Index([]string{string(v1alpha1.ApprovalOnce), string(v1alpha1.ApprovalGeneration), string(v1alpha1.ApprovalAlways)}, mode)
}

// unspent refuses an approval that would have no effect because the same one was
// used before: the claims still record it (KR-05-35).
func unspent(annotations map[string]string, entries []approval.Entry) error {
	for _, e := range entries {
		for _, c := range approval.ParseClaims(annotations[v1alpha1.AnnotationKeyClaims]) {
			if c.Content == e.Content && e.Mode != v1alpha1.ApprovalAlways && c.Spent() {
				return fmt.Errorf("the same approval was %s at %s and would have no effect; "+
					"approve the difference by its id when it is reported again, or use another --mode",
					c.State, c.At.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}

// AddApproval returns an edit that adds an approval to the list of approvals.
func AddApproval(a v1alpha1.Approval) Edit {
	return func(annotations map[string]string) (*string, error) {
		key := v1alpha1.AnnotationKeyApprovals
		one, err := encoded(key, []any{a})
		if err != nil {
			return nil, err
		}
		want := approval.Parse(map[string]string{key: *one}).Approvals
		have := approval.Parse(map[string]string{key: annotations[key]}).Approvals
		if slices.ContainsFunc(have, func(e approval.Entry) bool { return e.Content == want[0].Content }) {
			return stored(annotations, key), nil
		}
		if err := unspent(annotations, want); err != nil {
			return nil, err
		}
		return appended(annotations, key, a)
	}
}

// AddRejection returns an edit that adds a rejection to the list of rejections.
func AddRejection(r v1alpha1.Rejection) Edit {
	return func(annotations map[string]string) (*string, error) {
		key := v1alpha1.AnnotationKeyRejections
		if _, err := encoded(key, []any{r}); err != nil {
			return nil, err
		}
		set := approval.Parse(map[string]string{key: annotations[key]})
		if len(set.Warnings) == 0 && slices.ContainsFunc(set.Rejections, func(have v1alpha1.Rejection) bool { return covers(have, r) }) {
			return stored(annotations, key), nil
		}
		return appended(annotations, key, r)
	}
}

// covers reports whether a rejection is about the object of another one, for the same reason, and for as long.
func covers(have, r v1alpha1.Rejection) bool {
	lasts := have.Generation == 0 || r.Generation != 0 && have.Generation >= r.Generation
	have.Generation = r.Generation
	return lasts && have == r
}

// stored value of an annotation; nil where it has none.
func stored(annotations map[string]string, key string) *string {
	if v, ok := annotations[key]; ok {
		return &v
	}
	return nil
}

// appended returns a list annotation with one more entry. The others are kept as they
// are written, with unknown fields. A value that does not parse is an error: it
// may be another user's.
func appended(annotations map[string]string, key string, entry any) (*string, error) {
	var list []any
	if value, ok := annotations[key]; ok {
		err := approval.Validate(key, value)
		if err == nil {
			err = yaml.Unmarshal([]byte(value), &list)
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s does not parse: %w; correct it first, with kubectl edit", key, err)
		}
	}
	raw, err := json.Marshal(append(list, entry))
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", key, err)
	}
	return new(string(raw)), nil
}

// AlreadyFrozenError is the error of Freeze for an object that is frozen.
type AlreadyFrozenError struct{ Freeze v1alpha1.Freeze }

// Error names user, time and message of the freeze.
func (e *AlreadyFrozenError) Error() string {
	by := ""
	if e.Freeze.User != "" {
		by = " by " + e.Freeze.User
	}
	return "it is frozen already" + by + since(e.Freeze) + "; unfreeze it first, or give --overwrite"
}

// FrozenBy returns the user of a freeze, since when it exists, and its message, as the end of a clause.
func FrozenBy(f v1alpha1.Freeze) string { return " by " + cmp.Or(f.User, "an unknown user") + since(f) }

// since returns since when a freeze exists, and its message, as the end of a clause.
func since(f v1alpha1.Freeze) (out string) {
	if f.At != nil {
		out += " since " + f.At.UTC().Format(time.RFC3339)
	}
	if f.Message != "" {
		out += " (" + f.Message + ")"
	}
	return out
}

// Freeze returns an edit that freezes a parent. Without overwrite an existing freeze is kept, and the error is
// an AlreadyFrozenError.
func Freeze(f v1alpha1.Freeze, overwrite bool) Edit {
	return func(annotations map[string]string) (*string, error) {
		have := approval.Parse(annotations).Freeze
		if f.At != nil && have != nil && approval.Ended(have.Expiry, f.At.Time) {
			have = nil
		}
		if have != nil && !overwrite {
			return nil, &AlreadyFrozenError{Freeze: *have}
		}
		return encoded(v1alpha1.AnnotationKeyFreeze, f)
	}
}

// Snooze returns an edit that snoozes notifications about a parent.
func Snooze(s v1alpha1.Snooze) Edit {
	return func(map[string]string) (*string, error) { return encoded(v1alpha1.AnnotationKeySnooze, s) }
}

// encoded value of an annotation, in the form that the webhook accepts; an error where
// it would refuse it.
func encoded(key string, v any) (*string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", key, err)
	}
	return new(string(raw)), approval.Validate(key, string(raw))
}

// Remove removes an annotation.
func Remove(map[string]string) (*string, error) { return nil, nil } // nil removes it.
