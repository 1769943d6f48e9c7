package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Entry is an approval with the annotation that holds it.
type Entry struct {
	v1alpha1.Approval
	// Key of the annotation that holds it.
	Key string
	// Content hash, by which claims know it.
	Content string
	// BreakGlass is the reason for which it is given alone; empty for an ordinary approval.
	BreakGlass string
	// Value of approve-<id> as it is written; empty for an entry of the list.
	Value string
}

// Set of what users decided on one parent.
type Set struct {
	// Approvals that are written as annotations, and those whose votes the claims store.
	Approvals []Entry
	// Withdrawn are the annotations by which users withdraw their votes.
	Withdrawn  []Entry
	Rejections []v1alpha1.Rejection
	// Freeze is nil where the parent is not frozen.
	Freeze *v1alpha1.Freeze
	// Snooze is nil where the parent was never snoozed.
	Snooze *v1alpha1.Snooze
	Claims Claims
	// Warnings name stored annotations that do not parse.
	Warnings []string
}

// Parse reads the annotations of a parent. What does not parse counts as absent
// for approvals and snooze, as present for freeze and rejections, and is named
// in Warnings (KR-02-02, KR-02-01, KR-02-08).
func Parse(annotations map[string]string) Set {
	s := Set{Claims: ParseClaims(annotations[v1alpha1.AnnotationKeyClaims])}
	keys := make([]string, 0, len(annotations))
	for k := range annotations {
		if v1alpha1.IsUser(k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if err := s.read(k, annotations[k]); err != nil {
			s.Warnings = append(s.Warnings, fmt.Sprintf("annotation %s does not parse: %v", k, err))
		}
	}
	s.Approvals = append(s.Approvals, s.Claims.voted(s.Approvals)...)
	return s
}

// WithoutApprovals returns the set without approvals, which allow changes. Freezes and rejections, which forbid them,
// stay.
func (s Set) WithoutApprovals() Set {
	s.Approvals = nil
	return s
}

// read adds one annotation to the set. One that does not parse rejects everything, or freezes, or adds nothing.
func (s *Set) read(key, value string) (err error) {
	switch {
	case key == v1alpha1.AnnotationKeyApprovals:
		var list []Entry
		if list, err = approvals(value); err == nil {
			s.Approvals = append(s.Approvals, list...)
		}
	case v1alpha1.IsApprove(key):
		var e Entry
		switch e, err = approve(key, value); {
		case err != nil:
		case e.Mode == ValueWithdraw:
			s.Withdrawn = append(s.Withdrawn, e)
		default:
			s.Approvals = append(s.Approvals, e)
		}
	case key == v1alpha1.AnnotationKeyRejections:
		if s.Rejections, err = rejections(value); err != nil {
			s.Rejections = []v1alpha1.Rejection{{APIVersion: "*", Kind: "*", Name: "*",
				Reason: fmt.Sprintf("annotation %s does not parse (%v) and counts as rejecting everything", key, err)}}
		}
	case key == v1alpha1.AnnotationKeyFreeze:
		if s.Freeze, err = freeze(value); err != nil {
			s.Freeze = &v1alpha1.Freeze{Message: fmt.Sprintf("annotation %s does not parse (%v) and counts as frozen", key, err)}
		}
	case key == v1alpha1.AnnotationKeySnooze, key == v1alpha1.AnnotationKeyLegacySnooze:
		var n *v1alpha1.Snooze
		if n, err = snooze(value); err == nil && (s.Snooze == nil || n.Expiry.After(s.Snooze.Expiry.Time)) {
			s.Snooze = n
		}
	}
	return err
}

// Validate validates one user annotation that is about to be written. Keys that carry no structure are always valid
// (KR-02-02).
func Validate(key, value string) error {
	if err := annotation.Fits(value, annotation.MaxUser); err != nil {
		return err
	}
	switch m := v1alpha1.Mode(value); {
	case key == v1alpha1.AnnotationKeyMode && m != v1alpha1.ModeLog && m != v1alpha1.ModeEnforce:
		return fmt.Errorf("must be %q or %q, not %q", v1alpha1.ModeLog, v1alpha1.ModeEnforce, value)
	case key == v1alpha1.AnnotationKeyDeletion && value != v1alpha1.DeletionOrphan:
		return fmt.Errorf("must be %q, not %q; remove the annotation for the default", v1alpha1.DeletionOrphan, value)
	}
	return new(Set).read(key, value)
}

// approvals parses the value of the approvals annotation. The entries are validated and have their defaults.
func approvals(value string) ([]Entry, error) {
	list, raw, err := entries(value)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(list))
	for i := range list {
		if err := checkApproval(&list[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		out[i] = Entry{Approval: list[i], Key: v1alpha1.AnnotationKeyApprovals}
		if raw == nil {
			out[i].Content = content(list[i], nil)
		} else {
			out[i].Content = content(list[i], unknown(raw[i]))
		}
	}
	return out, nil
}

// entries returns the entries of the annotation, and all of their fields. raw is nil where all fields are known, as
// they mostly are in JSON that programs write.
func entries(value string) (list []v1alpha1.Approval, raw []map[string]any, err error) {
	if err := annotation.Unmarshal(value, annotation.MaxUser, &list); err != nil {
		return nil, nil, cmp.Or(invalidExpiries(value), err)
	}
	if annotation.HasOnly(value, 2, known) {
		return list, nil, nil
	}
	return list, raw, annotation.Unmarshal(value, annotation.MaxUser, &raw)
}

// known fields of an approval.
var known = fieldsOf(reflect.TypeFor[v1alpha1.Approval]())

// fieldsOf returns the names of the fields of a type in JSON.
func fieldsOf(t reflect.Type) sets.Set[string] {
	out := sets.New[string]()
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out.Insert(name)
	}
	return out
}

// unknown returns the unknown fields of an entry: a ticket, for example.
func unknown(entry map[string]any) map[string]any {
	out := maps.Clone(entry)
	maps.DeleteFunc(out, func(k string, _ any) bool { return known.Has(k) })
	return out
}

// checkApproval sets the defaults of an entry, and returns an error for its first mistake.
func checkApproval(a *v1alpha1.Approval) error {
	a.Mode, a.Relation = cmp.Or(a.Mode, v1alpha1.ApprovalOnce), cmp.Or(a.Relation, v1alpha1.RelationControllerChild)
	if err := checkMode(a.Mode); err != nil {
		return err
	}
	if a.Relation != v1alpha1.RelationControllerChild && a.Relation != v1alpha1.RelationExternal {
		return fmt.Errorf("relation must be %s or %s, not %q", v1alpha1.RelationControllerChild, v1alpha1.RelationExternal, a.Relation)
	}
	if a.Kind == "" && a.Digest == "" {
		return fmt.Errorf("kind is required (%q matches any)", "*")
	}
	if a.Name == "" && a.Resource == "" && a.Digest == "" {
		return fmt.Errorf("name or resource is required (%q matches any)", "*")
	}
	return nil
}

func checkMode(m v1alpha1.ApprovalMode) error {
	switch m {
	case v1alpha1.ApprovalOnce, v1alpha1.ApprovalGeneration, v1alpha1.ApprovalAlways:
		return nil
	}
	return fmt.Errorf("mode must be once, generation or always, not %q", m)
}

const (
	// ValueWithdraw is the value of approve-<id> by which users withdraw their votes.
	ValueWithdraw = "withdraw"
	// ValueBreakGlass begins the value of approve-<id> by which a user approves alone; the reason follows.
	ValueBreakGlass = "break-glass:"
	// maxReason is the length in bytes of the reason.
	maxReason = 512
)

// approve reads the value of approve-<id>: a mode, optionally with a reason, as in "once: INC-4711" (KR-02-07, KR-14-07,
// KR-14-09, KR-05-39).
func approve(key, value string) (Entry, error) {
	e := Entry{Key: key, Value: value}
	e.Digest = strings.TrimPrefix(key, v1alpha1.AnnotationKeyApprovePrefix)
	value, _ = cutMark(value)
	if reason, broken := strings.CutPrefix(value, ValueBreakGlass); broken {
		if e.BreakGlass = strings.TrimSpace(reason); e.BreakGlass == "" || len(e.BreakGlass) > maxReason {
			return Entry{}, fmt.Errorf("%s needs a reason of at most %d bytes, as in \"%s the database is down\"", ValueBreakGlass, maxReason, ValueBreakGlass)
		}
		e.Mode = v1alpha1.ApprovalOnce
		e.Content = content(e.Approval, nil)
		return e, nil
	}
	mode, reason, reasoned := strings.Cut(value, ":")
	e.Mode, e.Reason = v1alpha1.ApprovalMode(strings.TrimSpace(mode)), strings.TrimSpace(reason)
	if e.Mode != ValueWithdraw {
		if err := checkMode(e.Mode); err != nil {
			return Entry{}, err
		}
	}
	if reasoned && (e.Reason == "" || len(e.Reason) > maxReason) {
		return Entry{}, fmt.Errorf("a reason of at most %d bytes must follow the colon, as in \"%s: INC-4711\"", maxReason, e.Mode)
	}
	e.Content = content(e.Approval, nil)
	return e, nil
}

func rejections(value string) ([]v1alpha1.Rejection, error) {
	var list []v1alpha1.Rejection
	if err := annotation.Unmarshal(value, annotation.MaxUser, &list); err != nil {
		return nil, err
	}
	for i, r := range list {
		if r.Kind == "" || (r.Name == "" && r.Resource == "") {
			return nil, fmt.Errorf("entry %d: kind, and name or resource, are required (%q matches any)", i, "*")
		}
		if r.Reason == "" {
			return nil, fmt.Errorf("entry %d: reason is required", i)
		}
	}
	return list, nil
}

// freeze reads the annotation, or its older form "true" or "false"; nil for not
// frozen.
func freeze(value string) (*v1alpha1.Freeze, error) {
	if b, err := strconv.ParseBool(strings.TrimSpace(value)); err == nil {
		if b {
			return &v1alpha1.Freeze{}, nil
		}
		return nil, nil //nolint:nilnil // "false" means not frozen, which is no error.
	}
	f := v1alpha1.Freeze{}
	if err := object(value, &f); err != nil {
		return nil, cmp.Or(invalidExpiry(value), err)
	}
	return &f, nil
}

// snooze reads the annotation, or its older form, a time.
func snooze(value string) (*v1alpha1.Snooze, error) {
	if t, err := time.Parse(time.RFC3339, strings.TrimSpace(value)); err == nil {
		return &v1alpha1.Snooze{Expiry: metav1.NewTime(t)}, nil
	}
	n := v1alpha1.Snooze{}
	if err := object(value, &n); err != nil {
		return nil, cmp.Or(invalidExpiry(value), err)
	}
	if n.Expiry.IsZero() {
		return nil, fmt.Errorf("expiry is required (RFC 3339)")
	}
	return &n, nil
}

// object reads a JSON or YAML object, and nothing else: a bare scalar is valid YAML but no object.
func object(value string, into any) error {
	raw, err := annotation.ToJSON(value, annotation.MaxUser)
	if err != nil {
		return err
	}
	if len(raw) == 0 || raw[0] != '{' {
		return fmt.Errorf("must be a JSON or YAML object")
	}
	return annotation.Brief(json.Unmarshal(raw, into))
}

// contentLength is the number of hex digits of the content hash of an approval.
const contentLength = 16

// content returns the content hash of an approval with its unknown fields. It is independent of the order of keys,
// and of whether defaults are spelled out. With another ticket it is another approval (KR-05-35).
func content(a v1alpha1.Approval, unknown map[string]any) string {
	a.Mode = cmp.Or(a.Mode, v1alpha1.ApprovalOnce)
	if a.Reason != "" { // as before it was a known field: no approval becomes another one by an upgrade
		unknown = maps.Clone(unknown)
		if unknown == nil {
			unknown = map[string]any{}
		}
		unknown["reason"], a.Reason = a.Reason, ""
	}
	if len(unknown) == 0 {
		return annotation.Digest(a, contentLength)
	}
	return annotation.Digest([]any{a, unknown}, contentLength)
}
