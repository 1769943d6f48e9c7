package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Step is one request with expectations of its answer, or one check.
type Step struct {
	// Note for readers.
	Note string `json:"note,omitempty"`
	// As is the actor of the request.
	As *As `json:"as,omitempty"`

	// Exactly one of these.
	Create           map[string]any `json:"create,omitempty"`
	Apply            map[string]any `json:"apply,omitempty"`
	Update           *Change        `json:"update,omitempty"`
	Patch            *Change        `json:"patch,omitempty"`
	Annotate         *Annotate      `json:"annotate,omitempty"`
	Status           *Status        `json:"status,omitempty"`
	Scale            *Scale         `json:"scale,omitempty"`
	Delete           *Deletion      `json:"delete,omitempty"`
	DeleteCollection *Collection    `json:"deletecollection,omitempty"`
	Check            *Check         `json:"check,omitempty"`
	// Use runs a setup here.
	Use string `json:"use,omitempty"`

	// OwnedBy names the owner, KIND/NAME, of what is created or applied:
	// controller: true, with its live UID.
	OwnedBy string `json:"ownedBy,omitempty"`
	// Unforced: an apply fails where another field manager owns a field with another value.
	Unforced bool `json:"unforced,omitempty"`
	// DryRun of the request.
	DryRun bool `json:"dryRun,omitempty"`
	// Within repeats the request until it is answered as expected.
	Within *Duration `json:"within,omitempty"`
	// Expect of the answer; nil expects success.
	Expect *Expect `json:"expect,omitempty"`
	// Save variables after the step; they are expanded at that time.
	Save map[string]string `json:"save,omitempty"`
}

// As names an actor, or describes one.
type As struct {
	// Name of the actor; the other fields replace those of the named actor.
	Name string `json:"actor,omitempty"`
	Actor
}

// UnmarshalJSON reads a name, or an object.
func (a *As) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &a.Name)
	}
	type plain As // without this method
	return decodeStrict(json.RawMessage(raw), (*plain)(a))
}

// Change of an object: a merge patch or a JSON patch.
type Change struct {
	Of    string           `json:"of"`
	Merge map[string]any   `json:"merge,omitempty"`
	JSON  []map[string]any `json:"json,omitempty"`
}

// Annotate sets annotations, null removes them. A key without a slash is one of
// kausality.io; a value that is not a string is written as JSON.
type Annotate struct {
	Of  string         `json:"of"`
	Set map[string]any `json:"set"`
}

// Status to write.
type Status struct {
	Of string `json:"of"`
	// Observed is status.observedGeneration.
	Observed any `json:"observed,omitempty"`
	// Conditions by type: a status, or an object of further fields.
	Conditions map[string]any `json:"conditions,omitempty"`
	// Merge is the rest of the status.
	Merge map[string]any `json:"merge,omitempty"`
	// Metadata to merge in the same request; built-in kinds store it.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Scale through the subresource.
type Scale struct {
	Of       string `json:"of"`
	Replicas int    `json:"replicas"`
}

// Deletion of an object.
type Deletion struct {
	Of          string `json:"of"`
	Propagation string `json:"propagation,omitempty"`
}

// Collection to delete at once.
type Collection struct {
	Kind     string `json:"kind"`
	Selector string `json:"selector,omitempty"`
}

// Expect of an answer. Fields that are not given are not checked; the verdict
// always is.
type Expect struct {
	// Allowed; by default true, unless a reason or a code from 400 on is given.
	Allowed *bool `json:"allowed,omitempty"`
	// Code of the HTTP answer.
	Code int `json:"code,omitempty"`
	// Reason of the refusal: that of the first cause.
	Reason string `json:"reason,omitempty"`
	// StatusReason is the reason of the Status as a whole.
	StatusReason string `json:"statusReason,omitempty"`
	// Message must contain all of these texts.
	Message []Text `json:"message,omitempty"`
	// Warnings must contain all of these texts; an empty list allows no warning.
	Warnings *[]Text `json:"warnings,omitempty"`
	Looks
	// Audit annotations by name, without the webhook's prefix.
	Audit map[string]Matcher `json:"audit,omitempty"`
}

// Looks are expectations of an object.
type Looks struct {
	// Annotations by key; one without a slash is one of kausality.io.
	Annotations map[string]Matcher `json:"annotations,omitempty"`
	// Fields by path, as in spec.items[0].name.
	Fields map[string]Matcher `json:"fields,omitempty"`
	// Trace hop by hop, each by its fields.
	Trace []map[string]Matcher `json:"trace,omitempty"`
}

func (l Looks) empty() bool {
	return len(l.Annotations) == 0 && len(l.Fields) == 0 && len(l.Trace) == 0
}

// Check the stored objects repeatedly, until the expectation is met.
type Check struct {
	// Object as KIND/NAME.
	Object string `json:"object,omitempty"`
	// Exists is true by default.
	Exists *bool `json:"exists,omitempty"`
	Looks
	// Drifts of a child.
	Drifts *Reports `json:"drifts,omitempty"`
	// Reports that were received.
	Reports *Reports `json:"reports,omitempty"`
	// Within a time, 15 seconds by default.
	Within *Duration `json:"within,omitempty"`
}

// Reports or Drift objects about a child.
type Reports struct {
	// Child as KIND/NAME.
	Child string `json:"child"`
	// Count of those that have all Fields; 1 by default.
	Count  *int               `json:"count,omitempty"`
	Fields map[string]Matcher `json:"fields,omitempty"`
}

func (s *Step) verbs() []string {
	var out []string
	for verb, given := range map[string]bool{
		"create": s.Create != nil, "apply": s.Apply != nil, "update": s.Update != nil, "patch": s.Patch != nil,
		"annotate": s.Annotate != nil, "status": s.Status != nil, "scale": s.Scale != nil, "delete": s.Delete != nil,
		"deletecollection": s.DeleteCollection != nil, "check": s.Check != nil, "use": s.Use != "",
	} {
		if given {
			out = append(out, verb)
		}
	}
	return out
}

func (s *Step) check() error {
	verbs := s.verbs()
	if len(verbs) != 1 {
		return fmt.Errorf("a step does one thing, this one %d: %s", len(verbs), strings.Join(verbs, ", "))
	}
	switch verb := verbs[0]; {
	case verb == "use":
		return nil
	case verb == "check":
		return s.Check.valid(s)
	case s.As == nil:
		return errors.New("as is missing: name the actor")
	case s.OwnedBy != "" && verb != "create" && verb != "apply":
		return errors.New("ownedBy is for create and apply")
	case s.Unforced && verb != "apply":
		return errors.New("unforced is for apply")
	case s.Patch != nil && (s.Patch.Merge == nil) == (s.Patch.JSON == nil):
		return errors.New("a patch is either merge or json")
	case s.Update != nil && s.Update.JSON != nil:
		return errors.New("an update merges")
	case s.Expect != nil:
		return s.Expect.valid()
	}
	return nil
}

func (e *Expect) valid() error {
	refused := e.Reason != "" || e.Code >= 400 || len(e.Message) > 0 || e.StatusReason != ""
	if e.Allowed != nil && *e.Allowed && refused {
		return errors.New("expect: an allowed request has no reason, message or code from 400 on")
	}
	if e.refused() && !e.empty() {
		return errors.New("expect: a refusal returns no object")
	}
	return nil
}

// refused reports whether a refusal is expected.
func (e *Expect) refused() bool {
	if e.Allowed != nil {
		return !*e.Allowed
	}
	return e.Reason != "" || e.Code >= 400 || len(e.Message) > 0 || e.StatusReason != ""
}

// compares reports whether the object is compared with its state before the step.
func (l Looks) compares() bool {
	same := func(m Matcher) bool { return m.Same }
	return slices.ContainsFunc(slices.Collect(maps.Values(l.Annotations)), same) || slices.ContainsFunc(slices.Collect(maps.Values(l.Fields)), same)
}

func (c *Check) valid(s *Step) error {
	n := 0
	for _, given := range []bool{c.Object != "", c.Drifts != nil, c.Reports != nil} {
		if given {
			n++
		}
	}
	switch {
	case n != 1:
		return errors.New("a check is about an object, drifts or reports")
	case s.Expect != nil || s.As != nil || s.OwnedBy != "" || s.DryRun || s.Within != nil:
		return errors.New("a check is alone in its step")
	case c.Object == "" && (!c.empty() || c.Exists != nil):
		return errors.New("annotations, fields, trace and exists need an object")
	case c.Exists != nil && !*c.Exists && !c.empty():
		return errors.New("an object that does not exist has no annotations, fields or trace")
	}
	return nil
}
