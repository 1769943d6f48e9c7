package allowance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Intent is a change of an object that may be granted allowances.
type Intent struct {
	Kind schema.GroupKind
	// Name is empty where it is yet to be generated.
	Name string
	// Generation of the object after the change; 0 for kinds without one.
	Generation int64
	User       string
	Groups     []string
	Details    []change.Detail
	// Content of the object after the change, metadata included.
	Content map[string]any
	// Secrets are its fields with secret values, in addition to those of Secrets.
	Secrets change.SecretFields
	Input   *expression.Input
	// From are the live entries of its parent, their traces as this object would
	// carry them; nil where the change is not by the parent's controller.
	From Entries
}

// Grant returns the allowances that policies grant for an intent (KR-06-03). warnings name conditions that could not
// be evaluated, which grant nothing. The same intent is granted the same entries, in the order of policies and rules
// (KR-06-04).
func Grant(ctx context.Context, policies []*Compiled, in Intent) (out Entries, warnings []string) {
	for _, p := range policies {
		initiates, subject := p.subject(in.User, in.Groups)
		if !subject {
			continue
		}
		if in.Input != nil {
			in.Input.For("", "AllowancePolicy/"+p.Name)
		}
		for i := range p.rules {
			granted, err := p.rules[i].grant(ctx, in, initiates)
			if err != nil {
				warnings = append(warnings, fmt.Sprintf("AllowancePolicy %s grants nothing: %v", p.Name, err))
				continue
			}
			out = out.With(granted...)
		}
	}
	return out, warnings
}

// subject reports whether a user is a subject, and may start a chain.
func (p *Compiled) subject(user string, groups []string) (initiates, subject bool) {
	for _, s := range p.subjects {
		if is(s.Subject, user, groups) {
			subject = true
			initiates = initiates || s.MayInitiate
		}
	}
	return initiates, subject
}

// grant returns the entries that one rule grants: for one cause, the first field that triggers it, an entry for each
// change that the rule allows.
func (r *rule) grant(ctx context.Context, in Intent, initiates bool) ([]Entry, error) {
	field, from, ok := r.triggered(in, initiates)
	if !ok {
		return nil, nil
	}
	for _, c := range r.conditions {
		met, err := c.True(ctx, in.Input)
		if err != nil {
			return nil, err
		}
		if !met {
			return nil, nil
		}
	}
	hop := v1alpha1.AllowanceHop{Kind: in.Kind.Kind, Name: in.Name, Generation: in.Generation, Field: field, Attestations: r.attest(in)}
	initiator, trace := in.User, []v1alpha1.AllowanceHop{hop}
	if from != nil {
		initiator, trace = from.Initiator, append(slices.Clone(from.Trace), hop)
	}
	out := make([]Entry, 0, len(r.allow))
	for _, a := range r.allow {
		e := Entry{Allowance: a.entry, allowed: a}
		e.Generation, e.Initiator, e.Trace = in.Generation, initiator, trace
		out = append(out, e)
	}
	return out, nil
}

// triggered returns the field that triggers the rule, the first by its path, and the entry of the parent that the
// chain extends; nil where it starts here. A subject that may not initiate needs an entry of the parent that covers
// the triggering field.
func (r *rule) triggered(in Intent, initiates bool) (field string, from *Entry, ok bool) {
	for _, d := range in.Details {
		for _, t := range r.triggers {
			at, touches := t.Touches(d)
			if !touches {
				continue
			}
			if above := in.From.covering(in.Kind, VerbUpdate, []change.Detail{d}); len(above) > 0 {
				return at, &above[0], true
			}
			if initiates {
				return at, nil, true
			}
		}
	}
	return "", nil, false
}

// maxAttestation is how many bytes of a captured value are kept.
const maxAttestation = 256

// attest returns the values that the rule captures; nil where it captures none. A path with [*] captures each value
// under its concrete path. Secret values are not captured (KR-13-26).
func (r *rule) attest(in Intent) map[string]string {
	if len(r.capture) == 0 {
		return nil
	}
	var out map[string]string
	content := in.Secrets.RedactObject(in.Content)
	for _, p := range r.capture {
		for _, f := range p.Find(content) {
			if out == nil {
				out = map[string]string{}
			}
			key := p.String()
			if p.Wild() {
				key = change.Text(f.At)
			}
			out[key] = text(f.Value)
		}
	}
	return out
}

func text(v any) string {
	s, ok := v.(string)
	if !ok {
		raw, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		s = string(raw)
	}
	if len(s) > maxAttestation {
		s = strings.ToValidUTF8(s[:maxAttestation], "") + "…"
	}
	return s
}

// Extend returns the entries with another hop: that of the object to which they are copied.
func (e Entries) Extend(hop v1alpha1.AllowanceHop) Entries {
	out := make(Entries, 0, len(e))
	for _, entry := range e {
		entry.raw = nil
		entry.Generation = hop.Generation
		entry.Trace = append(slices.Clone(entry.Trace), hop)
		out = append(out, entry)
	}
	return out
}

// Rebase returns the entries with hops for a carrier elsewhere; rebase is called for each hop.
func (e Entries) Rebase(rebase func(v1alpha1.AllowanceHop) v1alpha1.AllowanceHop) Entries {
	out := make(Entries, 0, len(e))
	for _, entry := range e {
		hops := make([]v1alpha1.AllowanceHop, 0, len(entry.Trace))
		for _, h := range entry.Trace {
			hops = append(hops, rebase(h))
		}
		entry.Trace, entry.raw = hops, nil
		out = append(out, entry)
	}
	return out
}
