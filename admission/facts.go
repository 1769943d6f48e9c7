package admission

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// facts of a request that do not depend on the state of its parent. They are
// collected once, also for a request that is decided again on the live parent, and
// not modified afterwards.
type facts struct {
	*Evaluator
	req      *Request
	kind     identity.Kind
	settings settings.Settings
	// mode of the object; modeWarnings are about annotations with invalid modes.
	mode         v1alpha1.Mode
	modeWarnings []string
	// manager is the field manager that writes; empty where it is unknown.
	manager  string
	policies policies
	changes  []change.Change
	// retarget: the managed resource is pointed at another external resource.
	retarget bool
	// maskMoves: the mask alone increments the generation.
	maskMoves bool

	parentRef parent.Ref
	hasParent bool
	// stale: what is held was recorded by the composition function, whose own apply may be
	// based on a read from before that (KR-05-60).
	stale bool

	userHash memo[string]
	userID   memo[string]
	set      memo[*allowance.Set]
	details  memo[[]change.Detail]
}

// collect the facts of a request.
func (e *Evaluator) collect(ctx context.Context, req *Request) (*facts, error) {
	f := &facts{Evaluator: e, req: req, kind: e.World.Kind(req.Kind)}
	stored := req.Stored()
	f.settings = e.World.Settings(req.Ref(), stored.GetLabels())
	var err error
	if f.mode, f.modeWarnings, err = e.modeOf(ctx, identity.Annotation(stored, v1alpha1.AnnotationKeyMode), req.Namespace, f.settings); err != nil {
		return nil, err
	}
	f.modeWarnings = slices.Clip(f.modeWarnings)
	if f.manager = req.FieldManager; f.manager == "" && req.Operation != Delete {
		f.manager = parent.Writer(req.OldObject, req.Object)
	}
	given := req
	req = recorded(req, f.manager)
	f.req, f.stale = req, req != given
	f.policies = readPolicies(req, f.kind, f.manager, f.closeTo())
	f.changes = f.secrets().Redact(change.Diff(f.policies.old, f.policies.new, req.Unstored()))
	if f.retarget = retargeted(req, f.kind); f.retarget {
		f.changes = withExternalName(f.changes, req)
	}
	if !f.settings.TraceOnly { // else each change is of its user's own (KR-07-13)
		f.parentRef, f.hasParent = f.parentOf(stored)
	}
	return f, nil
}

// parentOf a request: that of the stored object. Where a user removed it, an apply by
// Crossplane brings the change and the owner together: a composed apply names its
// composite itself (KR-13-03).
func (f *facts) parentOf(stored *unstructured.Unstructured) (parent.Ref, bool) {
	ref, ok := parent.Of(stored, f.kind.Role)
	if !ok && f.req.Operation == Update && subject.IsComposedApply(f.manager) {
		ref, ok = parent.Of(f.req.Object, f.kind.Role)
	}
	return ref, ok
}

// modeOf an object by precedence (KR-05-21). An annotation with an invalid mode
// counts as absent, and a warning names it. While Kausality is being removed, and where
// the policy is suspended or only traces, the mode is log.
func (e *Evaluator) modeOf(ctx context.Context, own, namespace string, s settings.Settings) (v1alpha1.Mode, []string, error) {
	if e.World.Removing() || s.Suspended || s.TraceOnly {
		return v1alpha1.ModeLog, nil, nil
	}
	var invalid []string
	check := func(on string, m v1alpha1.Mode) {
		if m != "" && !settings.ValidMode(m) {
			invalid = append(invalid, fmt.Sprintf("annotation %s of %s is %q, which is neither log nor enforce; it is ignored",
				v1alpha1.AnnotationKeyMode, on, m))
		}
	}
	check("the object", v1alpha1.Mode(own))
	mode, err := settings.ModeOf(own, func() (v1alpha1.Mode, error) {
		if namespace == "" {
			return "", nil
		}
		ns, err := e.World.Namespace(ctx, namespace, false)
		if err != nil {
			return "", fmt.Errorf("cannot read mode of namespace %s: %w", namespace, err)
		}
		check("namespace "+namespace, ns.Mode)
		return ns.Mode, nil
	}, s.Mode, e.Options.DefaultMode)
	return mode, invalid, err
}

// closeTo are the verbs of a closed gate beside Observe.
func (f *facts) closeTo() []v1alpha1.Verb {
	if f.settings.HasCloseTo {
		return f.settings.CloseTo
	}
	return f.Options.CloseTo
}

// writer is the user who makes the request, or under whose name the write will be
// made, and the groups.
func (f *facts) writer() (user string, groups []string) {
	if f.req.User.Name != "" || f.req.Controller == "" {
		return f.req.User.Name, f.req.User.Groups
	}
	groups, _ = allowance.GroupsOf(f.req.Controller)
	return f.req.Controller, groups
}

// hash of the user who makes the request.
func (f *facts) hash() string { return *f.userHash.get(f.req.User.Hash) }

// id of the user who makes the request.
func (f *facts) id() string { return *f.userID.get(f.req.User.ID) }

// desiredChange reports whether the request changes the desired state.
func (f *facts) desiredChange() bool {
	return f.req.Operation != Update || len(f.changes) > 0
}

// policySet in force; nil for none. One decision uses one set.
func (f *facts) policySet() *allowance.Set {
	return *f.set.get(func() *allowance.Set {
		if f.Policies == nil {
			return nil
		}
		return f.Policies.Policies()
	})
}

// verb of the request on the child, as policies name it.
func (f *facts) verb() string {
	switch f.req.Operation {
	case Create:
		return allowance.VerbCreate
	case Delete:
		return allowance.VerbDelete
	}
	return allowance.VerbUpdate
}

// fields that an update changes, as policies see them; nil for other operations.
func (f *facts) fields() []change.Detail {
	return *f.details.get(func() []change.Detail {
		if f.req.Operation != Update {
			return nil
		}
		details := change.Details(change.Desired(f.policies.old), change.Desired(f.policies.new), f.lists(), f.req.Unstored())
		for _, c := range f.changes {
			if c.Path == PathExternalName {
				at := []change.Segment{{Key: "metadata"}, {Key: "annotations"}, {Key: v1alpha1.AnnotationKeyExternalName}}
				details = append([]change.Detail{{Change: c, At: at}}, details...)
			}
		}
		return details
	})
}

// lists of the kind: built-in kinds are known, others by their schema.
func (f *facts) lists() change.Lists {
	if l := change.BuiltinLists(f.req.Kind); l != nil {
		return l
	}
	return f.World.Lists(f.req.Kind)
}

// inside reports whether the object has nothing outside the cluster: it is neither
// a managed resource nor an object of an external system.
func (f *facts) inside() bool {
	return !f.kind.ManagementPolicies && f.kind.Role != parent.RoleManaged && external.MaskPath(f.req.Kind.GroupKind()) == nil
}

// relevant differences of the external resource: those that no rule ignores.
func (f *facts) relevant(object map[string]any) []change.Change {
	return f.settings.Relevant(f.Options.Ignore.Filter(f.req.Kind.GroupKind(), f.kind.SecretFields.Redact(external.Difference(object))))
}

// secrets are the fields of the object with secret values, by its schema and its policy (KR-13-26).
func (f *facts) secrets() change.SecretFields {
	return f.kind.SecretFields.And(f.settings.SecretFields)
}

// kindOf an object.
func (f *facts) kindOf(s *parent.State) identity.Kind { return f.World.Kind(s.GroupVersionKind) }
