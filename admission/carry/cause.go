package carry

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Cause is what a field carries.
type Cause struct {
	external.Provenance
	// Verbs that the gate is open for, in those of the system (apply, destroy); nil where no gate limits what is done.
	Verbs []string
	// Until when it is open; zero where that is not known.
	Until time.Time
	// Allowances for parts of what the gate is open for, as a list in the form of the annotation; "" where they are for all of it.
	Allowances string
	// Variables that the module of a Workspace declares, by their names.
	Variables []string
}

// Names of the environment variables of a Terraform run.
const (
	VariableTraceID   = "KAUSALITY_TRACE_ID"
	VariableInitiator = "KAUSALITY_INITIATOR"
	VariableOrigin    = "KAUSALITY_ORIGIN"
	// VariableAllowances has the allowances with their targets, where policies limit the run to parts of it.
	VariableAllowances = "KAUSALITY_ALLOWANCES"
	// VariableAllowed has the verbs that the gate is open for, comma-separated: apply, destroy.
	VariableAllowed = "KAUSALITY_ALLOWED"
	// VariableAllowedUntil is when it closes at the latest, RFC 3339 UTC.
	VariableAllowedUntil = "KAUSALITY_ALLOWED_UNTIL"
)

var variableNames = []string{VariableTraceID, VariableInitiator, VariableOrigin, VariableAllowances, VariableAllowed, VariableAllowedUntil}

// inputPrefix makes an environment variable the value of a variable that a module declares, by its name in lower case.
const inputPrefix = "TF_VAR_"

// InputOf returns the environment variable by which a run has the value of another one of Kausality as the input variable of its module:
// TF_VAR_kausality_trace_id for KAUSALITY_TRACE_ID.
func InputOf(variable string) string { return inputPrefix + strings.ToLower(variable) }

// isOurs reports whether an entry of a list, by its name, is one of Kausality.
func isOurs(name string) bool {
	if !strings.Contains(strings.ToLower(name), "kausality") {
		return false
	}
	return slices.Contains(variableNames, name) || slices.Contains(tagNames, name) ||
		slices.ContainsFunc(variableNames, func(v string) bool { return InputOf(v) == name })
}

// Entries returns what a field has of a cause, in a fixed order; nil where its origin is not known.
func (f Field) Entries(c Cause) []Entry {
	p := c.Provenance
	if p == (external.Provenance{}) {
		return nil
	}
	if f.Provenance == v1alpha1.ProvenanceAWSTags {
		return []Entry{{TagTraceID, TagValue(p.TraceID)}, {TagInitiator, TagValue(p.Initiator)}, {TagOrigin, TagValue(p.Origin)}}
	}
	return Variables(c)
}

// Variables returns the environment variables of a run with a cause, in a fixed order; nil where its origin is not known.
func Variables(c Cause) []Entry {
	p := c.Provenance
	if p == (external.Provenance{}) {
		return nil
	}
	out := []Entry{{VariableTraceID, printable(p.TraceID)}, {VariableInitiator, printable(p.Initiator)}, {VariableOrigin, printable(p.Origin)}}
	out = append(out, c.allowed()...)
	return append(out, inputs(out, c.Variables)...)
}

// maxAllowances is the size of KAUSALITY_ALLOWANCES, in bytes; with more of them a run is allowed nothing.
const maxAllowances = 16 << 10

// AllowancesOf returns what limits a run, of the allowances of relation External that open its gate: "" where none has a target.
func AllowancesOf(entries allowance.Entries) string {
	if !slices.ContainsFunc(entries, func(a allowance.Entry) bool { return len(a.ExternalTarget) > 0 }) {
		return ""
	}
	out := make([]v1alpha1.Allowance, 0, len(entries))
	for _, a := range entries {
		out = append(out, v1alpha1.Allowance{Relation: v1alpha1.RelationExternal, Verbs: a.Verbs, ExternalTarget: a.ExternalTarget})
	}
	raw, err := json.Marshal(out)
	if err != nil || len(raw) > maxAllowances {
		return "[]" // it allows nothing: a part must not become all of it
	}
	return string(raw)
}

// allowed returns the entries about what the gate is open for.
func (c Cause) allowed() (out []Entry) {
	if c.Allowances != "" {
		out = append(out, Entry{VariableAllowances, c.Allowances})
	}
	if len(c.Verbs) > 0 {
		out = append(out, Entry{VariableAllowed, strings.Join(c.Verbs, ",")})
		if !c.Until.IsZero() {
			out = append(out, Entry{VariableAllowedUntil, c.Until.UTC().Format(time.RFC3339)})
		}
	}
	return out
}

// inputs returns the entries that have the values of others for the variables that a module declares.
func inputs(of []Entry, declared []string) (out []Entry) {
	for _, e := range of {
		if slices.Contains(declared, strings.ToLower(e.Name)) {
			out = append(out, Entry{InputOf(e.Name), e.Value})
		}
	}
	return out
}

// Allowed returns what a run may do while a gate is open, in the verbs of the system.
func Allowed(gk schema.GroupKind, gate v1alpha1.Gate) []string {
	verbs := gate.Verbs
	if gate.Destroys {
		verbs = append(slices.Clone(verbs), v1alpha1.VerbDelete)
	}
	return verb.Of(gk).Names(verbs)
}

// Open returns the field of a Workspace, by its spec.forProvider, with what its gate is open for and until when, in place of what it had of that; changed: by a
// change, whose allowances stay. The origin stays, and where it is not known nothing is added.
func Open(gk schema.GroupKind, forProvider map[string]any, gate v1alpha1.Gate, until time.Time, changed bool) (value any, err error) {
	f := Of(gk, forProvider, nil)
	taken := f.Taken(forProvider[f.Name])
	c := Cause{Verbs: Allowed(gk, gate), Until: until}
	var out []Entry
	for _, e := range taken {
		switch e.Name {
		case VariableTraceID, VariableInitiator, VariableOrigin:
			out = append(out, e)
		case VariableAllowances:
			if changed {
				c.Allowances = e.Value
			}
		}
	}
	if len(out) == 0 {
		return forProvider[f.Name], nil
	}
	out = append(out, c.allowed()...)
	c.Variables, _ = Declared(forProvider) // the decision warns about a module that does not parse
	return f.With(forProvider[f.Name], append(out, inputs(out, c.Variables)...))
}

// OpenedBy returns the field of a managed resource, by its content, that carries its cause, and the value with what a gate is open for: for a
// gate that is opened by other means than a change. name is "" where there is none, nothing is recorded, or the value is as it is.
func OpenedBy(o *unstructured.Unstructured, s settings.Settings, byDefault []v1alpha1.Provenance, gate v1alpha1.Gate, until time.Time) (
	name string, value any, warnings []string) {
	gk := o.GroupVersionKind().GroupKind()
	f := Of(gk, ForProvider(o.Object), nil)
	if f.Name == "" || !s.Records(f.Provenance, byDefault) {
		return "", nil, nil
	}
	w := Write{Field: f, Object: o.Object, Old: o.Object, Records: true, Reached: true, Cause: Cause{
		Provenance: external.ProvenanceOf(trace.Of(o.GetAnnotations()), o.GetNamespace()), Verbs: Allowed(gk, gate), Until: until,
	}}
	value, changed, warnings := w.Edit()
	if !changed {
		return "", nil, warnings
	}
	return f.Name, value, warnings
}

// Carried returns the Provenance that was written to spec.forProvider of a managed resource. It is the zero Provenance where none was.
func Carried(content map[string]any) (p external.Provenance) {
	forProvider := ForProvider(content)
	for _, f := range []Field{{Name: fieldTags}, {Name: fieldTags, key: "key", value: "value"}, {Name: fieldEnv, key: "name", value: "value"}} {
		for _, e := range f.Taken(forProvider[f.Name]) {
			switch e.Name {
			case TagTraceID, VariableTraceID:
				p.TraceID = e.Value
			case TagInitiator, VariableInitiator:
				p.Initiator = e.Value
			case TagOrigin, VariableOrigin:
				p.Origin = e.Value
			}
		}
	}
	return p
}
