package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ListTypes is implemented by a World that knows the lists of kinds that CRDs
// define. Kubernetes' own kinds are known without.
type ListTypes interface {
	// Lists of a kind; nil where their items are told apart by index alone.
	Lists(gvk schema.GroupVersionKind) change.Lists
}

// Objects is implemented by a World that can read whole objects. It is asked only
// where a policy's own expression says whether an object initialises.
type Objects interface {
	// Object as it is now, nil where it does not exist.
	Object(ctx context.Context, ref parent.Ref) (map[string]any, error)
}

// governance is what AllowancePolicies have to say about a request, as far as it
// is known.
type governance struct {
	// parents are the policies of the parent's kind; binding those of them that
	// were there when its intent was made.
	parents, binding []*allowance.Compiled
	// entries of the parent that are not consumed; valid where read.
	entries allowance.Entries
	read    bool
	details []change.Detail
	// detailed: details are known.
	detailed bool
	// initializing section and whether it applies; valid where the parent's
	// controller asks.
	initializing     allowance.Section
	whileInitializes bool
	// missing paths that no allowance covers, the one path "" for a creation or
	// deletion; where names the section that left them out.
	missing []string
	where   string
	// external verbs that the change opens the gate for.
	external []string
	// unexcepted are the rules of ApprovalPolicies that could not be evaluated, and
	// why: they approve nothing.
	unexcepted []string
	upgrade    *allowance.Upgrade
	build      *allowance.Build
	input      *expression.Input
}

// policySet in force; nil for none.
func (ev *evaluation) policySet() *allowance.Set {
	if !ev.loaded {
		ev.loaded = true
		if ev.Policies != nil {
			ev.policySnapshot = ev.Policies.Policies()
		}
	}
	return ev.policySnapshot
}

// govern finds the policies of the parent's kind.
func (ev *evaluation) govern() {
	ev.gov.parents = ev.policySet().Of(ev.parentRef.GroupKind())
	ev.gov.binding = allowance.Since(ev.gov.parents, ev.intent.Timestamp.Time)
}

// bound reports whether policies bind who asks: the parent's controller, and
// whoever deletes in consequence of another deletion.
func (ev *evaluation) bound() bool {
	return ev.actor.controller || ev.req.User.IsGarbageCollection()
}

// verb of the request on the child.
func (ev *evaluation) verb() string {
	switch ev.req.Operation {
	case Create:
		return allowance.VerbCreate
	case Delete:
		return allowance.VerbDelete
	}
	return allowance.VerbUpdate
}

// fields that change, as policies look at them.
func (ev *evaluation) fields() []change.Detail {
	if !ev.gov.detailed {
		ev.gov.detailed = true
		if ev.req.Operation == Update {
			ev.gov.details = change.Details(change.Desired(ev.policies.old), change.Desired(ev.policies.new), ev.lists(), ev.req.unstored())
		}
	}
	return ev.gov.details
}

func (ev *evaluation) lists() change.Lists {
	if l := change.BuiltinLists(ev.req.Kind); l != nil {
		return l
	}
	if w, ok := ev.World.(ListTypes); ok {
		return w.Lists(ev.req.Kind)
	}
	return nil
}

// allowances of the parent that are not consumed.
func (ev *evaluation) allowances() allowance.Entries {
	if !ev.gov.read {
		ev.gov.read = true
		all, err := allowance.Parse(ev.parent.Annotations[v1alpha1.AnnotationKeyAllowances])
		if err != nil {
			ev.warn(fmt.Sprintf("%v on %s; they count as absent", err, identity.Describe(ev.parent.Ref)))
		}
		ev.gov.entries = all.Live(ev.settledAt(ev.parent))
	}
	return ev.gov.entries
}

// settledAt is the intent generation that an object settled at; -1 for never.
func (ev *evaluation) settledAt(s *parent.State) int64 {
	if ev.Options.ExpectUntil == ExpectUntilObserved && s.HasObserved {
		return s.ObservedGeneration
	}
	return max(s.SettledGeneration(), ev.World.Settled(s.Ref))
}

// uncovered makes a change drift that no policy allows.
func (ev *evaluation) uncovered(where string, missing []string) (bool, error) {
	ev.gov.where, ev.gov.missing = where, missing
	ev.d.Class = ClassDrift
	return false, nil
}

// deletingSection is what policies say about children of a parent that is being
// deleted.
func (ev *evaluation) deletingSection() (bool, error) {
	s := allowance.Deleting(ev.gov.parents)
	if ev.inside() {
		s = s.Inside()
	}
	if !s.Given || !ev.bound() {
		return ev.allow(ReasonParentDeleted)
	}
	if missing := s.Missing(ev.req.Kind.GroupKind(), ev.verb(), ev.fields()); len(missing) > 0 {
		return ev.uncovered("deleting", missing)
	}
	return ev.allow(ReasonParentDeleted)
}

// initializingSection is what policies say about children of a parent that
// initialises. What it does not allow, an allowance may.
func (ev *evaluation) initializingSection() (bool, error) {
	s, active, warnings := allowance.Initializing(ev.ctx, ev.gov.binding, ev.d.Phase == v1alpha1.PhaseInitializing, ev.parentObject)
	ev.d.Warnings = append(ev.d.Warnings, warnings...)
	if ev.inside() {
		s = s.Inside()
	}
	ev.gov.initializing, ev.gov.whileInitializes = s, active
	if !active {
		return false, nil
	}
	if len(s.Missing(ev.req.Kind.GroupKind(), ev.verb(), ev.fields())) == 0 {
		return ev.allow(ReasonInitializing)
	}
	ev.gov.where = "initializing"
	return false, nil
}

// parentObject for an expression: whole where the World can read it, else what is
// known of it.
func (ev *evaluation) parentObject() (map[string]any, error) {
	if w, ok := ev.World.(Objects); ok {
		o, err := w.Object(ev.ctx, ev.parent.Ref)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ev.parent.Ref), err)
		}
		return o, nil
	}
	return summary(ev.parent), nil
}

// summary of an object as expressions see it where it is not at hand: identity,
// Kausality's annotations, Crossplane's labels, observed generation, conditions.
func summary(s *parent.State) map[string]any {
	apiVersion, kind := s.ToAPIVersionAndKind()
	meta := map[string]any{"name": s.Name, "uid": string(s.UID), "generation": s.Generation}
	if s.Namespace != "" {
		meta["namespace"] = s.Namespace
	}
	for key, values := range map[string]map[string]string{"annotations": s.Annotations, "labels": s.Labels} {
		if len(values) > 0 {
			m := make(map[string]any, len(values))
			for k, v := range values {
				m[k] = v
			}
			meta[key] = m
		}
	}
	out := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	if !s.HasStatus {
		return out
	}
	status := map[string]any{}
	if s.HasObserved && !s.Crossplane() { // Crossplane's kinds have it in conditions alone
		status["observedGeneration"] = s.ObservedGeneration
	}
	var conditions []any
	for _, c := range slices.SortedFunc(slices.Values(s.Conditions), func(a, b parent.Condition) int { return strings.Compare(a.Type, b.Type) }) {
		conditions = append(conditions, map[string]any{"type": c.Type, "status": string(c.Status), "reason": c.Reason})
	}
	status["conditions"] = conditions
	out["status"] = status
	return out
}

// inside reports whether the object stands for nothing outside of the cluster: it
// is no managed resource, and none of an external system.
func (ev *evaluation) inside() bool {
	return !ev.kind.ManagementPolicies && ev.kind.Role != parent.RoleManaged && external.MaskPath(ev.req.Kind.GroupKind()) == nil
}

// allowed reports whether an expected change needs no allowance or has one for
// every field; else it is drift.
func (ev *evaluation) allowed() bool {
	if len(ev.gov.binding) == 0 {
		return true
	}
	entries := ev.allowances()
	if ev.inside() {
		entries = entries.Inside()
	}
	missing := entries.Missing(ev.req.Kind.GroupKind(), ev.verb(), ev.fields())
	if len(missing) == 0 {
		return true
	}
	_, _ = ev.uncovered(ev.gov.where, missing)
	return false
}

// missing allowances as a refusal.
func (ev *evaluation) missing(r refusal) refusal {
	r.reason = ReasonAllowanceMissing
	names := make([]string, 0, len(ev.gov.parents))
	for _, p := range ev.gov.parents {
		names = append(names, p.Name)
	}
	what := ev.describeMissing()
	switch policies := strings.Join(names, ", "); ev.gov.where {
	case "deleting":
		r.why = fmt.Sprintf("%s is being deleted, and section deleting of AllowancePolicy %s does not allow %s", identity.Describe(ev.parent.Ref), policies, what)
	case "initializing":
		r.why = fmt.Sprintf("%s initializes, and neither section initializing of AllowancePolicy %s nor an allowance on it allows %s", identity.Describe(ev.parent.Ref), policies, what)
	default:
		r.why = fmt.Sprintf("no allowance on %s covers %s (AllowancePolicy %s)", identity.Describe(ev.parent.Ref), what, policies)
	}
	return r
}

const maxMissingPaths = 10

func (ev *evaluation) describeMissing() string {
	paths := ev.gov.missing
	if len(paths) == 0 || paths[0] == "" {
		return strings.ToLower(ev.verb())
	}
	more := ""
	if n := len(paths) - maxMissingPaths; n > 0 {
		paths, more = paths[:maxMissingPaths], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(paths, ", ") + more
}

// variables of expressions about this request.
func (ev *evaluation) variables() *expression.Input {
	if ev.gov.input != nil {
		return ev.gov.input
	}
	groups := make([]any, 0, len(ev.req.User.Groups))
	for _, g := range ev.req.User.Groups {
		groups = append(groups, g)
	}
	in := &expression.Input{Request: map[string]any{"user": ev.req.User.Name, "groups": groups, "operation": string(ev.req.Operation)}}
	if ev.req.Object != nil {
		in.Object = ev.req.Object.Object
	}
	if ev.req.OldObject != nil {
		in.OldObject = ev.req.whole().Object
	}
	if ev.parent != nil {
		in.Parent = summary(ev.parent)
	}
	ev.gov.input = in
	return in
}

// rebased entries of the parent, as they stand on this object.
func (ev *evaluation) inherited() allowance.Entries {
	if ev.parent == nil || !ev.actor.controller {
		return nil
	}
	from, to := ev.parent.Namespace, ev.req.Namespace
	return ev.allowances().Rebase(func(h v1alpha1.AllowanceHop) v1alpha1.AllowanceHop {
		at := trace.Rebase(v1alpha1.Hop{Namespace: h.Namespace, ClusterScoped: h.ClusterScoped}, from, to)
		h.Namespace, h.ClusterScoped = at.Namespace, at.ClusterScoped
		return h
	})
}
