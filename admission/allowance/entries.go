package allowance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Entry of an allowances annotation.
type Entry struct {
	v1alpha1.Allowance
	// raw is the entry as it is in the annotation: what this version does not know
	// is kept. Empty for one that is new.
	raw     json.RawMessage
	allowed allowed
}

// Entries of an allowances annotation, in its order.
type Entries []Entry

// stored is an entry with the older forms.
type stored struct {
	v1alpha1.Allowance
	Mutation string `json:"mutation,omitempty"`
}

// Parse parses the value of an allowances annotation; "" has no entries. An entry that does not parse is an error for
// all of them: only Kausality writes them.
func Parse(value string) (Entries, error) {
	if value == "" {
		return nil, nil
	}
	var raws []json.RawMessage
	if err := annotation.Unmarshal(value, annotation.MaxSystem, &raws); err != nil {
		return nil, fmt.Errorf("cannot parse allowances: %w", err)
	}
	out := make(Entries, 0, len(raws))
	for i, raw := range raws {
		var s stored
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("cannot parse allowances: entry %d: %w", i, err)
		}
		e := Entry{Allowance: s.Allowance, raw: raw}
		if s.Mutation != "" {
			e.Mutations = append(e.Mutations, v1alpha1.AllowedMutation{JSONPath: s.Mutation})
		}
		if err := e.understand(); err != nil {
			return nil, fmt.Errorf("cannot parse allowances: entry %d: %w", i, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// understand sets the permissions of an entry that was read. It also accepts the older forms: mutations that are
// verbs, and mutations without the verb Update.
func (e *Entry) understand() error {
	switch e.Relation {
	case "", v1alpha1.RelationChild:
		e.Relation = v1alpha1.RelationControllerChild
	}
	e.allowed = allowed{target: anyKind, external: e.Relation == v1alpha1.RelationExternal, entry: e.Allowance}
	if e.Kind != "" {
		e.allowed.target.kind = e.Kind
	}
	if e.APIVersion != "" {
		gv, err := schema.ParseGroupVersion(e.APIVersion)
		if err != nil {
			return fmt.Errorf("cannot read apiVersion: %w", err)
		}
		e.allowed.target.group, e.allowed.target.anyGroup = gv.Group, false
	}
	e.allowed.verbs = slices.Clone(e.Verbs)
	for _, m := range e.Mutations {
		switch {
		case e.allowed.external, m.JSONPath == "create", m.JSONPath == "delete":
			e.allowed.verbs = append(e.allowed.verbs, verbOf(m.JSONPath))
			continue
		}
		p, err := change.ParsePattern(m.JSONPath)
		if err != nil {
			return err
		}
		e.allowed.mutations = append(e.allowed.mutations, mutation{path: p, verbs: m.Verbs})
	}
	if len(e.Verbs) == 0 && len(e.allowed.mutations) > 0 {
		e.allowed.verbs = append(e.allowed.verbs, VerbUpdate)
	}
	return nil
}

// verbOf returns the verb for a mutation of the older forms, which spell two of the verbs in lower case.
func verbOf(text string) string {
	switch text {
	case "create":
		return VerbCreate
	case "delete":
		return VerbDelete
	}
	return text
}

// String returns the annotation's value: single-line JSON. Entries that were read and not changed are written as they
// were, up to white space.
func (e Entries) String() string {
	raws := make([]json.RawMessage, 0, len(e))
	for _, entry := range e {
		raw := entry.raw
		if len(raw) == 0 {
			raw = json.RawMessage(annotation.MustMarshal(entry.Allowance))
		}
		raws = append(raws, raw)
	}
	return annotation.MustMarshal(raws)
}

// own returns the carrier's own hop in the trace of an entry; the zero hop where the entry has no trace.
func (e *Entry) own() v1alpha1.AllowanceHop {
	if len(e.Trace) == 0 {
		return v1alpha1.AllowanceHop{}
	}
	return e.Trace[len(e.Trace)-1]
}

// Live returns the entries that a carrier has not consumed. The carrier settled at generation settled, negative where
// it never did (KR-06-08).
func (e Entries) Live(settled int64) Entries {
	return slices.DeleteFunc(slices.Clone(e), func(entry Entry) bool { return entry.Generation != 0 && entry.Generation <= settled })
}

// Since returns the entries that were granted after a generation of the carrier.
func (e Entries) Since(generation int64) Entries {
	return slices.DeleteFunc(slices.Clone(e), func(entry Entry) bool { return entry.Generation <= generation })
}

// Missing returns the paths of a change that no entry covers, sorted; the one path "" where a creation or deletion is
// not covered as such. verb is Create, Update or Delete (KR-06-07).
func (e Entries) Missing(child schema.GroupKind, verb string, details []change.Detail) []string {
	return coverage{allowed: e.permissions()}.missing(child, verb, details)
}

// Inside returns the entries about children that represent nothing outside of the cluster: those that are not
// External.
func (e Entries) Inside() Entries {
	return slices.DeleteFunc(slices.Clone(e), func(entry Entry) bool { return entry.allowed.external })
}

func (e Entries) permissions() []allowed {
	out := make([]allowed, 0, len(e))
	for i := range e {
		out = append(out, e[i].allowed)
	}
	return out
}

// covering returns the entries that cover a change, or a part of it, sorted by kind, name and field of the carrier's
// hop. The first is chosen where one must be (KR-06-04, KR-06-05).
func (e Entries) covering(child schema.GroupKind, verb string, details []change.Detail) Entries {
	var out Entries
	for _, entry := range e {
		one := coverage{allowed: []allowed{entry.allowed}}
		if verb != VerbUpdate {
			if one.whole(child, verb) {
				out = append(out, entry)
			}
			continue
		}
		f := one.fields(child)
		if slices.ContainsFunc(details, func(d change.Detail) bool { return f.touch(&d) }) {
			out = append(out, entry)
		}
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	return out
}

func (e *Entry) sortKey() string {
	h := e.own()
	return h.Kind + "/" + h.Name + "/" + h.Field
}

// External returns the External entries that apply to a covered change of a child: those that the same change of the
// carrier granted. A permission of one cause does not permit the effects of another. For a creation it returns all of
// them (KR-06-11).
func (e Entries) External(child schema.GroupKind, verb string, details []change.Detail) Entries {
	causes := map[string]bool{}
	for _, entry := range e.covering(child, verb, details) {
		causes[cause(&entry)] = true
	}
	return slices.DeleteFunc(slices.Clone(e), func(entry Entry) bool {
		return !entry.allowed.external || !entry.allowed.target.has(child) || !causes[cause(&entry)] && verb != VerbCreate
	})
}

// cause returns the cause of an entry: the field that changed at a generation of its carrier.
func cause(e *Entry) string { return fmt.Sprintf("%d %s", e.Generation, e.own().Field) }

// Verbs returns the verbs of all entries for a child kind, in their order, each once. Those of relation External are
// Crossplane's verbs (KR-08-49).
func (e Entries) Verbs(child schema.GroupKind) []string {
	var out []string
	for _, entry := range e {
		for _, v := range entry.allowed.verbsFor(child) {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// With returns the entries with new ones added. A new entry that permits the same as an older one replaces it:
// otherwise a carrier that is changed often and never settles would fill up (KR-06-06).
func (e Entries) With(more ...Entry) Entries {
	out := slices.Clone(e)
	for _, m := range more {
		if i := slices.IndexFunc(out, func(have Entry) bool { return have.permits() == m.permits() }); i >= 0 {
			out[i] = m
			continue
		}
		out = append(out, m)
	}
	return out
}

// permits returns a key of the permission of an entry and of its cause. It leaves out the generation, the initiator
// and the trace.
func (e *Entry) permits() string {
	bare := e.Allowance
	bare.Generation, bare.Initiator, bare.Trace = 0, "", nil
	return annotation.MustMarshal(bare) + e.own().Field
}
