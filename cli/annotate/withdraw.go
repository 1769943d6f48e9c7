package annotate

import (
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Withdraw returns an edit that withdraws the approval of a user for the one difference with an id. An approval of another user is kept, and that the user
// gave none is an error. One that no webhook recorded is removed.
func Withdraw(id, user string) Edit {
	return func(annotations map[string]string) (*string, error) {
		key, set, known := ApproveKey(id), approval.Parse(annotations), false
		for _, v := range set.VotesFor(change.Digest(id)) {
			if known = true; v.User == user {
				return Vote(id, approval.ValueWithdraw)(annotations)
			}
		}
		if _, written := annotations[key]; written && !known {
			return nil, nil // nil removes it.
		}
		return nil, fmt.Errorf("%s has not approved %s, and nothing was written; kubectl kausality approvals lists who has", user, id)
	}
}

// GivenBy returns the content hashes of the entries of approvals for one difference that a user alone gave.
func GivenBy(annotations map[string]string, id, user string) (contents []string) {
	set := approval.Parse(annotations)
	for _, e := range set.Approvals {
		by := set.By(e)
		if e.Key == v1alpha1.AnnotationKeyApprovals && e.Digest != "" && change.Digest(e.Digest).Is(id) && len(by) == 1 && by[0].User == user {
			contents = append(contents, e.Content)
		}
	}
	return contents
}

// RemoveApprovals returns an edit that removes the entries with these content hashes from the list of approvals.
func RemoveApprovals(contents []string) Edit {
	return func(annotations map[string]string) (*string, error) {
		edits := approval.Remove(annotations, func(e approval.Entry) bool {
			return e.Key == v1alpha1.AnnotationKeyApprovals && slices.Contains(contents, e.Content)
		})
		if next, changed := edits[v1alpha1.AnnotationKeyApprovals]; changed {
			return next, nil
		}
		return stored(annotations, v1alpha1.AnnotationKeyApprovals), nil
	}
}

// WithdrawRejections returns an edit that removes the rejections of one object: all entries that identify it as r does,
// whatever their reason; also without an apiVersion. The others are kept as they are written; an empty list
// is removed.
func WithdrawRejections(r v1alpha1.Rejection) Edit {
	return func(annotations map[string]string) (*string, error) {
		key := v1alpha1.AnnotationKeyRejections
		value, ok := annotations[key]
		if !ok {
			return nil, nil // nil writes nothing.
		}
		if err := approval.Validate(key, value); err != nil {
			return nil, fmt.Errorf("annotation %s does not parse: %w; correct it with kubectl edit", key, err)
		}
		set, list := approval.Parse(annotations), []any{}
		if err := yaml.Unmarshal([]byte(value), &list); err != nil || len(list) != len(set.Rejections) {
			return nil, fmt.Errorf("annotation %s does not parse: %w; correct it with kubectl edit", key, err)
		}
		kept := make([]any, 0, len(list))
		for i, have := range set.Rejections {
			if have.APIVersion != "" && have.APIVersion != r.APIVersion || have.Kind != r.Kind || have.Name != r.Name || have.Resource != r.Resource {
				kept = append(kept, list[i])
			}
		}
		switch len(kept) {
		case len(list):
			return &value, nil
		case 0:
			return nil, nil // nil removes it.
		}
		return encoded(key, kept)
	}
}

// Unfreeze returns an edit that unfreezes a parent. Without overwrite the freeze of another user than this one is kept, and the error is a
// FrozenByOtherError. One that has ended is removed in any case.
func Unfreeze(user string, overwrite bool, now time.Time) Edit {
	return func(annotations map[string]string) (*string, error) {
		if have := approval.ParseAt(annotations, now).Freeze; have != nil && have.User != user && !overwrite {
			return nil, &FrozenByOtherError{Freeze: *have}
		}
		return Remove(annotations)
	}
}

// FrozenByOtherError is the error of Unfreeze for an object that another user has frozen.
type FrozenByOtherError struct{ Freeze v1alpha1.Freeze }

// Error names user, time and message of the freeze.
func (e *FrozenByOtherError) Error() string {
	return "it is frozen" + FrozenBy(e.Freeze) + "; a user with the right to approve may remove it with --overwrite"
}
