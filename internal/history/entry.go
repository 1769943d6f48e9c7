package history

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
)

// Prefixes of terms. They are stored.
const (
	termObject     = "o/"
	termUID        = "u/"
	termInitiator  = "i/"
	termApprover   = "a/"
	termCause      = "c/"
	termExternal   = "x/"
	termDifference = "d/"
	termCausedBy   = "b/"
)

// entry is a record as it is stored.
type entry struct {
	record records.Record
	raw    []byte
	sender string
}

// decodeStored reads a record that Decode has accepted, as Decode does: fields whose names differ in case alone are
// unknown. Since then hashes in the place of names may have made it longer than Decode accepts.
func decodeStored(raw []byte) (records.Record, error) {
	r := records.Record{}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("cannot read a stored record: %w", err)
	}
	return r, nil
}

// kindOf returns the kind of an object with its group, as in Database.example.org.
func kindOf(o *records.Object) string {
	return schema.GroupKind{Group: o.Group(), Kind: o.Kind}.String()
}

// objectTerm of an object by its reference.
func objectTerm(kind, namespace, name string) string {
	return termObject + kind + "/" + namespace + "/" + name
}

// terms returns the terms that a record is found by, each once (KR-16-31).
func terms(r *records.Record) []string {
	out := make([]string, 0, 12)
	add := func(prefix, value string) {
		if value != "" && !slices.Contains(out, prefix+value) {
			out = append(out, prefix+value)
		}
	}
	for _, o := range []*records.Object{&r.Object, r.Parent} {
		if o != nil && o.Name != "" {
			add("", objectTerm(kindOf(o), o.Namespace, o.Name))
		}
		if o != nil {
			add(termUID, string(o.UID))
		}
	}
	for _, user := range initiators(r) {
		add(termInitiator, user)
	}
	for _, user := range approvers(r) {
		add(termApprover, user)
	}
	for _, c := range r.Causes {
		add(termCause, c.Name)
		add(termCause, causeTerm(c.Kind+"/"+c.Name))
	}
	add(termExternal, r.External)
	for _, d := range r.Differences {
		add(termDifference, d)
	}
	for _, id := range r.CausedBy {
		add(termCausedBy, id)
	}
	return out
}

// causeTerm of KIND/NAME or NAME: kinds are found in any case.
func causeTerm(cause string) string {
	if kind, name, ok := strings.Cut(cause, "/"); ok && !strings.ContainsAny(kind, ".:") {
		return strings.ToLower(kind) + "/" + name
	}
	return cause
}

// initiators returns the initiators of what a record is about: the first of its trace, else who acted, and for whom.
func initiators(r *records.Record) []string {
	if len(r.Trace) > 0 && r.Trace[0].User != "" {
		return []string{r.Trace[0].User}
	}
	if r.Actor != nil {
		return []string{r.Actor.User, r.Actor.OnBehalfOf}
	}
	return nil
}

// approvers returns the approvers of what a record is about, and who decided about it.
func approvers(r *records.Record) (out []string) {
	for _, a := range r.Approvers {
		out = append(out, a.User, a.OnBehalfOf)
	}
	switch r.Type {
	case records.TypeVote, records.TypeRejection, records.TypeBreakGlass:
		if r.Actor != nil {
			out = append(out, r.Actor.User, r.Actor.OnBehalfOf)
		}
	}
	return out
}
