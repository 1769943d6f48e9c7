package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/results"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// look returns what the audit finds on one object.
func (a *auditor) look(o *unstructured.Unstructured, s *parent.State) input.Audited {
	apiVersion, kind := s.ToAPIVersionAndKind()
	t := trace.Of(s.Annotations)
	p := external.ProvenanceOf(t, s.Namespace)
	intent, recorded := trace.Intent(s)
	out := input.Audited{
		APIVersion: apiVersion, Kind: kind, Namespace: s.Namespace, Name: s.Name,
		Phase:     string(settling.Phase(s, a.note(o).Generation, a.configured.Initialized(s.GroupKind())...)),
		Initiator: p.Initiator, Origin: p.Origin, IntentGeneration: intent.Generation,
		Gate: string(mask.ParseGate(s.Annotations).State),
	}
	set := approval.ParseAt(s.Annotations, a.now)
	out.Findings = slices.Concat(
		decisions(set), held(o, s), traced(t, recorded), a.settles(o, s, intent), a.gated(o, s), a.inLogMode(s))
	return out
}

// decisions returns findings about decisions of users that stop changes, and about annotations of users
// that do not parse.
func decisions(set approval.Set) (out []input.Finding) {
	if f := set.Freeze; f != nil {
		message := "no child is changed until it is unfrozen"
		if f.User != "" {
			message += "; frozen by " + f.User
		}
		if f.Message != "" {
			message += ": " + f.Message
		}
		out = append(out, input.Finding{Reason: input.FindingFrozen, Message: message})
	}
	for _, w := range set.Warnings {
		out = append(out, input.Finding{Reason: input.FindingInvalidAnnotation, Message: w})
	}
	return out
}

// held returns findings about changes that are held back: of the object itself, or of what it is
// composed of.
func held(o *unstructured.Unstructured, s *parent.State) (out []input.Finding) {
	if value := s.Annotations[v1alpha1.AnnotationKeyHeld]; value != "" {
		h := v1alpha1.Held{}
		if json.Unmarshal([]byte(value), &h) != nil {
			h.Reason = "unknown"
		}
		out = append(out, input.Finding{
			Reason: input.FindingHeld, Message: fmt.Sprintf("%s of %v is held back: %s", h.Operation, h.Paths, h.Reason), Approve: h.Approve,
		})
	}
	if c := ssa.Condition(o.Object, v1alpha1.ConditionKausality); ssa.Text(c, "status") == "False" {
		out = append(out, input.Finding{Reason: input.FindingHeld, Message: results.Cut(ssa.Text(c, "message"), results.MaxMessage)})
	}
	return out
}

// traced returns findings where the last change of the object is not traced to its cause.
func traced(t trace.Trace, recorded bool) []input.Finding {
	switch {
	case len(t) == 0:
		return []input.Finding{{Reason: input.FindingUntraced, Message: "it has no trace: the cause of its last change is unknown"}}
	case !recorded:
		return []input.Finding{{Reason: input.FindingUnattributed, Message: "it was changed while it was not observed, after the last hop of its trace"}}
	}
	return nil
}

// note returns the note of the last intent of a composite that settled.
func (a *auditor) note(o *unstructured.Unstructured) offline.Note {
	return offline.ConditionNote(o.Object).Later(a.notes[string(o.GetUID())])
}

// settles returns a finding where a composite has not settled: only then can a change of what it is
// composed of be drift.
func (a *auditor) settles(o *unstructured.Unstructured, s *parent.State, intent v1alpha1.Hop) []input.Finding {
	if s.Role != parent.RoleComposite || s.Deleting() || settling.SettledAt(s, intent.Generation, a.note(o).Generation) {
		return nil
	}
	// The function alone counts from the first sight of an intent; Crossplane
	// moves the generation afterwards.
	if n := a.note(o); n.Generation > 0 && !s.IntentTime.After(n.At) {
		return nil
	}
	return []input.Finding{{Reason: input.FindingUnsettled,
		Message: fmt.Sprintf("it has not settled since the intent at generation %d: until then every change of what it is composed of is "+
			"expected", intent.Generation)}}
}

// gated returns findings about the gate of an MR: whether anything controls the writes from it to its
// external resource.
func (a *auditor) gated(o *unstructured.Unstructured, s *parent.State) (out []input.Finding) {
	if s.Role != parent.RoleManaged || s.Deleting() {
		return nil
	}
	_, masked := mask.ParseAuthor(s.Annotations[v1alpha1.AnnotationKeyManagementPolicies])
	gate := mask.ParseGate(s.Annotations)
	author := mask.AuthorOf(s.Annotations, s.ManagementPolicies)
	switch {
	case !masked && (len(s.ManagementPolicies) == 0 || mask.Maskable(author) && mask.Gives(author, v1alpha1.VerbUpdate)):
		out = append(out, input.Finding{Reason: input.FindingUngated,
			Message: "nothing keeps the provider from changing its external resource: webhook and gate, or gate.managementPolicies: Managed in " +
				"the function's Input, would"})
	case a.gating(o, s).Expired(gate):
		out = append(out, input.Finding{Reason: input.FindingUnconfirmed,
			Message: fmt.Sprintf("its gate has been open since %s, and the provider has not confirmed the change", gate.At.UTC().Format(time.RFC3339))})
	case gate.State == v1alpha1.GateClosed && gate.Reason == v1alpha1.GateReasonExpired:
		out = append(out, input.Finding{Reason: input.FindingUnconfirmed, Message: "its gate closed at the deadline: the provider never confirmed the change"})
	}
	return append(out, a.outside(o, s, masked)...)
}

// gating returns what package gating needs to decide about the gate of an MR, whatever the mode is.
func (a *auditor) gating(o *unstructured.Unstructured, s *parent.State) gating.Managed {
	kind := identity.Kind{Role: parent.RoleManaged, ManagementPolicies: true}
	configured := a.configured.Settings(s.Ref, s.Labels)
	g := gating.Of(s, kind, gating.Observe(o, configured.SecretFields), configured, gating.Defaults{})
	g.Mode, g.Now, g.Holders = v1alpha1.ModeEnforce, a.now, []identity.Holder{{State: s, Kind: kind}}
	if p := a.states[string(s.Parent.UID)]; p != nil {
		g.Holders = append(g.Holders, identity.Holder{State: p, Kind: identity.Kind{Role: p.Role}})
	}
	return g
}

// outside returns findings about what is outside of Kubernetes: the external resource as the provider
// reports it (KR-08-01).
func (a *auditor) outside(o *unstructured.Unstructured, s *parent.State, masked bool) []input.Finding {
	g := a.gating(o, s)
	diff := g.Difference
	if len(diff) == 0 && !g.Comparable {
		return []input.Finding{{Reason: input.FindingExternalUnknown,
			Message: "spec.forProvider and status.atProvider cannot be compared, so a change of the external resource goes unnoticed"}}
	}
	if len(diff) == 0 {
		return nil
	}
	if d := g.Decide().Drift; d != nil && masked {
		return []input.Finding{{Reason: input.FindingExternalDrift, Message: gating.ExplainDifference(d.Difference), Approve: d.SuggestedApproval}}
	}
	return []input.Finding{{Reason: input.FindingExternalDrift,
		Message: fmt.Sprintf("the external resource differs in %v; the provider may be about to change it", change.Paths(diff))}}
}

// inLogMode returns a finding where the object's own annotation overrides the Input's mode with log.
func (a *auditor) inLogMode(s *parent.State) []input.Finding {
	if a.mode != v1alpha1.ModeEnforce || s.Annotations[v1alpha1.AnnotationKeyMode] != string(v1alpha1.ModeLog) {
		return nil
	}
	return []input.Finding{{Reason: input.FindingLogMode, Message: "its mode is log: unrequested changes pass"}}
}
