package facts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/world"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// SettledAt returns the intent generation at which an object settled; -1 for none.
func (f *Facts) SettledAt(s *parent.State) int64 {
	if f.Options.ExpectUntil == ExpectUntilObserved && s.HasObserved {
		return s.ObservedGeneration
	}
	return max(s.SettledGeneration(), f.World.Settled(s.Ref))
}

// RequestInput returns the input without the parent. The old object has its status, which an
// expression may read.
func (f *Facts) RequestInput() *expression.Input {
	user, groups := f.Writer()
	in := &expression.Input{Request: map[string]any{"user": user, "groups": groups, "operation": string(f.Req.Operation)}}
	if f.Req.Object != nil {
		in.Object = f.Req.Object.Object
	}
	if f.Req.OldObject != nil {
		in.OldObject = f.Req.Whole().Object
	}
	return in
}

// Facts of a request that do not depend on the state of its parent. They are
// collected once, also for a request that is decided again on the live parent, and
// not modified afterwards.
type Facts struct {
	World    world.World
	Options  *Options
	Policies world.Policies

	Req      *request.Request
	Kind     identity.Kind
	Settings settings.Settings
	// Mode of the object; modeWarnings are about annotations with invalid modes.
	Mode         v1alpha1.Mode
	ModeWarnings []string
	// Manager is the field manager that writes; empty where it is unknown.
	Manager string
	// KeepsAnnotations: an update leaves all annotations as they are stored, as most do.
	KeepsAnnotations bool
	Desired          Desired
	Changes          []change.Change
	// Retarget: the managed resource is pointed at another external resource.
	Retarget bool

	ParentRef parent.Ref
	HasParent bool
	// Member: the parent is an instance of a graph, by the labels of the object.
	Member bool
	// Stale: the composition function recorded as held what its own apply has. That is based on a read from
	// before it (KR-05-60).
	Stale bool

	userHash Memo[string]
	userID   Memo[string]
	set      Memo[*allowance.Set]
	details  Memo[[]change.Detail]
}

// Collect collects the facts of a request. Policies may be nil.
func Collect(ctx context.Context, w world.World, o *Options, p world.Policies, req *request.Request) (*Facts, error) {
	f := &Facts{World: w, Options: o, Policies: p, Req: req, Kind: w.Kind(req.Kind)}
	stored := req.Stored()
	f.Settings = w.Settings(req.Ref(), stored.GetLabels())
	var err error
	if f.Mode, f.ModeWarnings, err = f.ModeOf(ctx, identity.Annotation(stored, v1alpha1.AnnotationKeyMode), req.Namespace, f.Settings); err != nil {
		return nil, err
	}
	f.ModeWarnings = slices.Clip(f.ModeWarnings)
	if f.Manager = req.FieldManager; f.Manager == "" && req.Operation != request.Delete {
		f.Manager = parent.Writer(req.OldObject, req.Object)
	}
	record := recorded(req, f.Manager, req.OldObject) // its apply may be based on a read from before that (KR-05-60)
	if record != nil {
		both := *req
		both.Held = req.Held.And(record)
		req = &both
	}
	f.Req = req
	f.KeepsAnnotations = req.OldObject != nil && req.Object != nil && identity.SameAnnotations(req.OldObject, req.Object)
	f.Desired = readDesired(f)
	f.Changes = f.Secrets().Redact(change.Diff(f.Desired.Old, f.Desired.New, req.Unstored()))
	if f.Retarget = !(f.KeepsAnnotations && len(f.Changes) == 0) && retargeted(req, f.Kind); f.Retarget {
		f.Changes = withExternalName(f.Changes, req)
	}
	f.Stale = record != nil && slices.ContainsFunc(f.Leaves(), record.Has)
	if !f.Settings.TraceOnly { // else each change is of its user's own (KR-07-13)
		f.findParent(stored)
	}
	return f, nil
}

// findParent finds the parent of a request: that of the stored object. Where a user removed it, an apply
// by Crossplane brings the change and the owner together: a composed apply names its composite itself
// (KR-13-03). So does an apply by kro (KR-18-01).
func (f *Facts) findParent(of *unstructured.Unstructured) {
	parentBy(f, of)
	if !f.HasParent && f.Req.Operation == request.Update && (subject.IsComposedApply(f.Manager) || f.Manager == subject.ManagerApplySet) {
		parentBy(f, f.Req.Object)
	}
}

// parentBy finds the parent that one version of the object names. Labels that name an object which is no instance of a graph, by its
// kind, name nothing: to read it would begin a watch of any kind.
func parentBy(f *Facts, o *unstructured.Unstructured) {
	f.ParentRef, f.HasParent = parent.Of(o, f.Kind.Role)
	f.Member = f.HasParent && parent.IsMember(o, f.Kind.Role)
	if f.Member && f.World.Kind(f.ParentRef.GroupVersionKind).Role != parent.RoleInstance {
		f.ParentRef, f.HasParent, f.Member = parent.Ref{}, false, false
	}
}

// ParentOfApply makes the instance that an apply by kro names the parent, where the stored labels name another one: the caller found that
// those make no parent, as after the restore of a backup, which gives the instance another UID. False where it names no other one.
func (f *Facts) ParentOfApply() bool {
	if !f.Member || f.Req.Operation != request.Update || f.Manager != subject.ManagerApplySet || !parent.IsMember(f.Req.Object, f.Kind.Role) {
		return false
	}
	was := f.ParentRef
	if parentBy(f, f.Req.Object); !f.HasParent {
		f.ParentRef, f.HasParent, f.Member = was, true, true
	}
	return f.ParentRef != was
}

// ErrNotLinked is the outcome for a Claim that exists and does not reference the composite: it is not its parent (KR-01-03). Nor is an
// instance of a graph whose ApplySet does not contain the object (KR-18-01).
var ErrNotLinked = errors.New("it does not reference the object in turn")

// ReadParent reads the parent that the object names; live past every cache. The error is ErrNotLinked for one that does not reference the
// object in turn, and where labels alone name a parent.
func ReadParent(ctx context.Context, f *Facts, live bool) (*parent.State, error) {
	p, err := f.World.Parent(ctx, f.ParentRef, live)
	// Nothing passes for a Claim that was bound, or an instance that was created, a moment ago.
	if !live && (err == nil && !f.Linked(p) || f.Member && errors.Is(err, world.ErrNotFound)) {
		p, err = f.World.Parent(ctx, f.ParentRef, true)
	}
	// The webhook has no right to read a kind that is not guarded.
	if err == nil && !f.Linked(p) || f.Member && (errors.Is(err, world.ErrNotFound) || err != nil && !f.World.MayGuard(f.ParentRef)) {
		return nil, ErrNotLinked
	}
	return p, err
}

// ModeOf returns the mode of an object by precedence (KR-05-21), and warnings. An annotation with an
// invalid mode counts as absent, and a warning names it. While Kausality is being removed, and where the
// policy is suspended or only traces, the mode is log.
func (f *Facts) ModeOf(ctx context.Context, own, namespace string, s settings.Settings) (v1alpha1.Mode, []string, error) {
	if f.World.Removing() || s.Suspended || s.TraceOnly {
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
		ns, err := f.World.Namespace(ctx, namespace, false)
		if err != nil {
			return "", fmt.Errorf("cannot read mode of namespace %s: %w", namespace, err)
		}
		check("namespace "+namespace, ns.Mode)
		return ns.Mode, nil
	}, s.Mode, f.Options.DefaultMode)
	return mode, invalid, err
}

// CloseTo returns the verbs of a closed gate beside Observe.
func (f *Facts) CloseTo() []v1alpha1.Verb {
	if f.Settings.HasCloseTo {
		return f.Settings.CloseTo
	}
	return f.Options.CloseTo
}

// Writer returns the user who makes the request, or under whose name the write will be made, and the
// groups.
func (f *Facts) Writer() (user string, groups []string) {
	if f.Req.User.Name != "" || f.Req.Controller == "" {
		return f.Req.User.Name, f.Req.User.Groups
	}
	groups, _ = allowance.GroupsOf(f.Req.Controller)
	return f.Req.Controller, groups
}

// Hash returns the hash of the user who makes the request.
func (f *Facts) Hash() string { return *f.userHash.Get(f.Req.User.Hash) }

// ID returns the id of the user who makes the request.
func (f *Facts) ID() string { return *f.userID.Get(f.Req.User.ID) }

// Resource returns the composition resource name of the object, by which approvals name it; empty where it is not composed.
// Crossplane's own apply has it in the request. One that is stored may be another user's (KR-13-65); of any other writer it is that
// one, so that one request cannot give itself another (KR-04-12).
func (f *Facts) Resource() string {
	if f.Req.Object != nil && (f.Req.Actor == request.ActorParentController ||
		subject.IsComposedApply(f.Manager) && f.World.MayControl(f.Req.User, parent.RoleComposite)) {
		return identity.Annotation(f.Req.Object, v1alpha1.AnnotationKeyCompositionResourceName)
	}
	return f.Req.Resource()
}

// DifferenceDigest returns the digest of the request as a change of a child of p (KR-10-02). changes are those
// of an update; a creation or deletion is one change as a whole.
func (f *Facts) DifferenceDigest(p *parent.State, changes []change.Change) change.Digest {
	if f.Req.Operation != request.Update {
		changes = nil
	}
	child := identity.Of(f.Req.Ref(), f.Resource())
	child.External = string(parent.ExternalOf(f.Req.Stored())) // a change of it is one of the changes
	return change.DigestOf(v1alpha1.RelationControllerChild, string(f.Req.Operation), identity.OfParent(p), child, changes)
}

// DesiredChange reports whether the request changes the desired state.
func (f *Facts) DesiredChange() bool {
	return f.Req.Operation != request.Update || len(f.Changes) > 0
}

// PolicySet returns the policies in force; nil where there are no policies. One decision uses one
// set.
func (f *Facts) PolicySet() *allowance.Set {
	return *f.set.Get(func() *allowance.Set {
		if f.Policies == nil {
			return nil
		}
		return f.Policies.Policies()
	})
}

// Verb returns the verb of the request on the child, as policies name it.
func (f *Facts) Verb() string {
	switch f.Req.Operation {
	case request.Create:
		return allowance.VerbCreate
	case request.Delete:
		return allowance.VerbDelete
	}
	return allowance.VerbUpdate
}

// Fields returns the fields that an update changes, as policies see them; nil for other operations.
func (f *Facts) Fields() []change.Detail {
	return *f.details.Get(func() []change.Detail {
		if f.Req.Operation != request.Update {
			return nil
		}
		details := change.Details(change.Desired(f.Desired.Old), change.Desired(f.Desired.New), f.lists(), f.Req.Unstored())
		for _, c := range f.Changes {
			if c.Path == PathExternalName {
				at := []change.Segment{{Key: "metadata"}, {Key: "annotations"}, {Key: v1alpha1.AnnotationKeyExternalName}}
				details = append([]change.Detail{{Change: c, At: at}}, details...)
			}
		}
		return details
	})
}

// lists returns the list types of the object's kind: built-in kinds are known, others by their schema.
func (f *Facts) lists() change.Lists {
	if l := change.BuiltinLists(f.Req.Kind); l != nil {
		return l
	}
	return f.World.Lists(f.Req.Kind)
}

// Inside reports whether the object has nothing outside the cluster: it is neither
// a managed resource nor an object of an external system.
func (f *Facts) Inside() bool {
	return !f.Kind.ManagementPolicies && f.Kind.Role != parent.RoleManaged && external.MaskPath(f.Req.Kind.GroupKind()) == nil
}

// Relevant returns the differences of the external resource that no rule ignores.
func (f *Facts) Relevant(object map[string]any) []change.Change {
	return f.Settings.Relevant(f.Options.Ignore.Filter(f.Req.Kind.GroupKind(), f.Kind.SecretFields.Redact(external.Difference(object))))
}

// Secrets returns the fields of the object with secret values, by its schema and its policy
// (KR-13-26).
func (f *Facts) Secrets() change.SecretFields {
	return f.Kind.SecretFields.And(f.Settings.SecretFields)
}

// KindOf returns what is known about the kind of an object.
func (f *Facts) KindOf(s *parent.State) identity.Kind { return f.World.Kind(s.GroupVersionKind) }

// Linked reports whether a parent references the object in turn, where it must. An instance that the labels of the object name must be
// guarded as well: any user can write labels (KR-18-01).
func (f *Facts) Linked(p *parent.State) bool {
	return parent.Linked(p, f.Req.Ref(), f.Member) && (!f.Member || f.World.Guarded(p))
}
