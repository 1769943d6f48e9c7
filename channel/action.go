package channel

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// Action of a user about a pending change.
type Action string

// The actions.
const (
	// ActionApprove approves exactly the difference that is shown, once.
	ActionApprove Action = "approve"
	// ActionReject forbids unrequested changes of the object, for a reason.
	ActionReject Action = "reject"
	// ActionWithdraw withdraws the user's own approval, else the rejections of the object.
	ActionWithdraw Action = "withdraw"
	// ActionFreeze refuses all changes below an object, and ActionUnfreeze ends that.
	ActionFreeze   Action = "freeze"
	ActionUnfreeze Action = "unfreeze"
	// ActionSnooze silences notifications about what is below the parent, until a time.
	ActionSnooze Action = "snooze"
	// ActionException lets changes like it pass until a time.
	ActionException Action = "exception"
	// ActionOpen shows more of it, and decides nothing.
	ActionOpen Action = "open"
)

// labels of actions, as on buttons.
var labels = map[Action]string{
	ActionApprove: "Approve once", ActionReject: "Reject", ActionWithdraw: "Withdraw", ActionSnooze: "Snooze", ActionFreeze: "Freeze",
	ActionUnfreeze: "Unfreeze", ActionException: "Make an exception", ActionOpen: "Open",
}

// Label returns the label of an action, which is the same in every channel.
func Label(a Action) string { return labels[a] }

// ActionsOf returns the actions of a pending change, in the order in which they are offered. What deletes or replaces an object is not approved by one
// click: it has to be opened first (KR-17-02).
func ActionsOf(d *v1alpha1.Drift, s Ruling) (out []Action) {
	if Open(d) {
		if s.Rejected == nil && d.Spec.SuggestedApproval != "" && !Destroys(d) {
			out = append(out, ActionApprove)
		}
		if s.Rejected == nil && d.Spec.SuggestedApproval != "" {
			out = append(out, ActionReject)
		}
		if s.Rejected != nil || s.Approved || len(d.Status.Votes) > 0 {
			out = append(out, ActionWithdraw)
		}
		out = append(out, ActionSnooze)
	}
	return append(out, ActionOpen)
}

// ActionsOpened returns those of a change whose whole difference is shown, and what it deletes or replaces: that may be approved there, but for a plan,
// which is not shown (KR-17-02).
func ActionsOpened(d *v1alpha1.Drift, s Ruling) []Action {
	out := slices.DeleteFunc(ActionsOf(d, s), func(a Action) bool { return a == ActionOpen })
	if Open(d) && s.Rejected == nil && Destroys(d) && approvable(d, true) {
		out = append([]Action{ActionApprove}, out...)
	}
	return out
}

// approvable reports whether a change can be approved, opened or not.
func approvable(d *v1alpha1.Drift, opened bool) bool {
	plan := slices.ContainsFunc(d.Spec.Difference, func(f v1alpha1.FieldDifference) bool { return strings.Contains(f.Path, pathPlan) })
	return d.Spec.SuggestedApproval != "" && (!Destroys(d) || opened && !plan)
}

// Destroys reports whether a change deletes or replaces the object or what is behind it, or may: a plan of Terraform is known by its name alone.
func Destroys(d *v1alpha1.Drift) bool {
	switch {
	case d.Spec.Operation == string(admission.Delete):
		return true
	case d.Spec.Operation == string(admission.Create) && d.Status.Holder == v1alpha1.HolderFunction:
		return true // of another kind in place of the object
	}
	return slices.ContainsFunc(d.Spec.Difference, func(f v1alpha1.FieldDifference) bool {
		return slices.ContainsFunc(replacing, func(part string) bool { return strings.Contains(f.Path, part) })
	})
}

// replacing are parts of the paths of fields that name the external resource of an object, or what a plan does. exceptionMatch leaves out the same.
var replacing = []string{"crossplane.io/external-name", "providerConfigRef", pathPlan}

// pathPlan is the field with the name of a plan of Terraform.
const pathPlan = "status.plan.pending"

// Click is an action of a user about a change as it was shown.
type Click struct {
	Action Action
	// Shown is the Fingerprint of the change that was shown.
	Shown string
	// Reason of a rejection; Until is the end of a snooze.
	Reason string
	Until  time.Time
	// Opened: the whole difference was shown, and the user confirmed what it deletes or replaces.
	Opened bool
	// At is when, which a freeze records.
	At time.Time
}

// Fingerprint returns the fingerprint of a change as it is shown: of its occurrence and its whole difference, 16 hex digits.
func Fingerprint(d *v1alpha1.Drift) string {
	since := int64(0)
	if d.Status.Since != nil {
		since = d.Status.Since.Unix()
	}
	raw, err := json.Marshal([]any{d.Namespace, d.Name, since, d.Spec.Digest, d.Spec.Operation, d.Spec.Relation, d.Spec.User,
		d.Spec.Child.APIVersion, d.Spec.Child.Kind, d.Spec.Child.Namespace, d.Spec.Child.Name, d.Spec.Parent.UID, d.Spec.Difference})
	if err != nil {
		return "" // which no value is
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Refusal is the reason why a click decides nothing, found before anything is written.
type Refusal string

// The reasons.
const (
	// RefusedGone: the change is over or was never there.
	RefusedGone Refusal = "Gone"
	// RefusedChanged: the change differs from the one that the user was shown.
	RefusedChanged Refusal = "Changed"
	// RefusedNotOffered: the action is not one for this change.
	RefusedNotOffered Refusal = "NotOffered"
	// RefusedIncomplete: the reason or the time is missing.
	RefusedIncomplete Refusal = "Incomplete"
)

// Write of one annotation of the object that holds decisions about a change.
type Write struct {
	Key  string
	Edit annotate.Edit
}

// Decision is what a click means: writes to one object, in their order.
type Decision struct {
	On     v1alpha1.ObjectReference
	Writes []Write
}

// Decide decides what a click of a user means, by the change that is stored now; nil for none. holder are the annotations of its parent. Either there is a
// Refusal, or a Decision with at least one write (KR-17-03).
func Decide(c Click, now *v1alpha1.Drift, holder map[string]string, user string) (Decision, Refusal) {
	switch {
	case now == nil || !Open(now):
		return Decision{}, RefusedGone
	case c.Shown == "" || c.Shown != Fingerprint(now):
		return Decision{}, RefusedChanged
	}
	out := Decision{On: now.Spec.Parent}
	write := func(key string, edit annotate.Edit) { out.Writes = append(out.Writes, Write{Key: key, Edit: edit}) }
	switch c.Action {
	case ActionApprove:
		if !approvable(now, c.Opened) {
			return Decision{}, RefusedNotOffered
		}
		key := annotate.ApproveKey(now.Name)
		write(key, UnlessCarried(now, key, annotate.Approve(now.Name, v1alpha1.ApprovalOnce)))
	case ActionReject:
		r := RejectionOf(now)
		if r.Reason = strings.TrimSpace(c.Reason); r.Reason == "" {
			return Decision{}, RefusedIncomplete
		}
		write(v1alpha1.AnnotationKeyRejections, annotate.AddRejection(r))
	case ActionWithdraw:
		withdraw(now, holder, user, write)
	case ActionSnooze:
		if c.Until.IsZero() {
			return Decision{}, RefusedIncomplete
		}
		s := v1alpha1.Snooze{Expiry: metav1.NewTime(c.Until.UTC().Truncate(time.Second)), User: user}
		write(v1alpha1.AnnotationKeySnooze, annotate.Snooze(s))
	default:
		return Decision{}, RefusedNotOffered
	}
	return out, ""
}

// withdraw withdraws the user's own approval of a change where there is one or nothing is rejected, else the rejections of its object.
func withdraw(d *v1alpha1.Drift, holder map[string]string, user string, write func(string, annotate.Edit)) {
	set := approval.Parse(holder)
	own := slices.ContainsFunc(set.VotesFor(change.Digest(cmp.Or(d.Spec.Digest, d.Name))), func(v v1alpha1.Vote) bool { return v.User == user })
	if _, rejected := holder[v1alpha1.AnnotationKeyRejections]; rejected && !own {
		write(v1alpha1.AnnotationKeyRejections, annotate.WithdrawRejections(RejectionOf(d)))
		return
	}
	write(annotate.ApproveKey(d.Name), annotate.Withdraw(d.Name, user))
	if contents := annotate.GivenBy(holder, d.Name, user); len(contents) > 0 {
		write(v1alpha1.AnnotationKeyApprovals, annotate.RemoveApprovals(contents))
	}
}

// RejectionOf returns the rejection of the object of a change, without a reason.
func RejectionOf(d *v1alpha1.Drift) v1alpha1.Rejection {
	c := d.Spec.Child
	r := v1alpha1.Rejection{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name}
	if r.Name == "" { // a creation under a generated name
		r.Resource = c.Resource
	}
	return r
}

// Snoozes that are offered.
var Snoozes = []string{"1h", "8h", "monday"}

// SnoozeUntil returns the end of one of Snoozes that begins now: "monday" is the next one at 08:00 of the location of now.
func SnoozeUntil(name string, now time.Time) (time.Time, error) {
	switch name {
	case "1h":
		return now.Add(time.Hour), nil
	case "8h":
		return now.Add(8 * time.Hour), nil
	case "monday":
		days := (int(time.Monday) - int(now.Weekday()) + 7) % 7
		at := time.Date(now.Year(), now.Month(), now.Day()+days, 8, 0, 0, 0, now.Location())
		if !at.After(now) {
			at = at.AddDate(0, 0, 7)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("there is no snooze %q", name)
}
