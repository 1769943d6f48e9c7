package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// Gap is a way in which something is not protected.
type Gap string

// The gaps, worst first.
const (
	// GapUnread: the user may not read them, or what their protection depends on.
	GapUnread Gap = "Unread"
	// GapUnguarded: the webhook does not see changes of them.
	GapUnguarded Gap = "Unguarded"
	// GapLog: mode log allows drift.
	GapLog Gap = "ModeLog"
	// GapFailOpen: mode enforce does not hold while the webhook does not answer.
	GapFailOpen Gap = "FailOpen"
	// GapInitializing: changes by the controller of a parent that was never ready
	// are allowed (KR-05-07).
	GapInitializing Gap = "Initializing"
	// GapUnsettled: changes by the controller of a parent that has not settled since
	// its last intent are expected (KR-04-08).
	GapUnsettled Gap = "Unsettled"
	// GapApproved: an approval of mode always allows any change.
	GapApproved Gap = "ApprovedAlways"
	// GapUngated: a managed resource is not masked.
	GapUngated Gap = "Ungated"
	// GapOpen: a gate is open.
	GapOpen Gap = "GateOpen"
	// GapBlind: external drift of a managed resource cannot be seen.
	GapBlind Gap = "Blind"
	// GapPaused: a managed resource is paused, so that its provider observes
	// nothing.
	GapPaused Gap = "Paused"
)

var gapOrder = []Gap{GapUnread, GapUnguarded, GapLog, GapFailOpen, GapInitializing, GapUnsettled, GapApproved, GapUngated, GapOpen, GapBlind, GapPaused}

// Explained is a sentence about the objects that have a gap.
var Explained = map[Gap]string{
	GapUnread:    "You may not read them, or what their protection depends on: it is unknown.",
	GapUnguarded: "The webhook does not see their changes: any change is allowed and not traced.",
	GapLog:       "Mode log: drift is allowed, with a warning and a report.",
	GapFailOpen: "While the webhook does not answer, all changes are allowed: the API server does not know that they are in mode enforce, " +
		"or has no room for their Namespace. Enforce by a policy.",
	GapInitializing: "Never ready so far: changes by their controllers are allowed.",
	GapUnsettled:    "Not settled since the last intent: changes by their controllers are allowed.",
	GapApproved:     "An approval of mode always allows changes below them for ever.",
	GapUngated:      "No gate: their providers may change the external resources.",
	GapOpen:         "The gate is open until the provider has confirmed the change, or the deadline.",
	GapBlind:        "External drift is unknown, or whether the external resource exists.",
	GapPaused:       "Paused: their providers observe nothing.",
}

// Coverage of a cluster: what is not protected.
type Coverage struct {
	// Installation is what is not protected whatever the objects are; nil where nothing is installed.
	Installation []Finding `json:"installation,omitempty"`
	// Kinds that were read: those with a role in Crossplane.
	Kinds int `json:"kinds"`
	// Objects that were read, and Protected ones among them.
	Objects   int `json:"objects"`
	Protected int `json:"protected"`
	// Installed: there is a webhook configuration.
	Installed bool `json:"installed"`
	// Unanswered is why no webhook answers now, as a clause; empty where one does, or that is unknown.
	Unanswered string `json:"unanswered,omitempty"`
	// Gaps, worst first, then by kind.
	Gaps []KindGap `json:"gaps"`
	// InForce is what was decided about parents: which are frozen or snoozed.
	InForce []KindRuling `json:"inForce,omitempty"`
	// Undecided is why nothing counts as protected: the user may not read what is guarded, or the policies. Gaps of guarding and
	// modes are not among Gaps then. Empty where both were read.
	Undecided string `json:"undecided,omitempty"`
	// Unread are sentences about what else could not be read.
	Unread []string `json:"unread,omitempty"`
}

// UnreadKinds returns how many of the kinds could not be listed.
func (c *Coverage) UnreadKinds() (n int) {
	for _, g := range c.Gaps {
		if g.Gap == GapUnread && g.Count == 0 {
			n++
		}
	}
	return n
}

// KindGap is a gap of objects of one kind.
type KindGap struct {
	Gap Gap `json:"gap"`
	// Resource with group, as in xdatabases.example.org.
	Resource string      `json:"resource"`
	Role     parent.Role `json:"role"`
	Sample
}

// Sample of objects.
type Sample struct {
	// Count of objects, 0 where they could not be listed, and at most MaxExamples of them.
	Count    int       `json:"count"`
	Examples []Example `json:"examples,omitempty"`
}

// add adds an object, with why as a clause.
func (s *Sample) add(o *unstructured.Unstructured, why string) {
	s.Count++
	if len(s.Examples) < MaxExamples {
		s.Examples = append(s.Examples, Example{Namespace: o.GetNamespace(), Name: o.GetName(), Why: why})
	}
}

// What was decided about parents.
const (
	RulingFrozen  = "Frozen"
	RulingSnoozed = "Snoozed"
)

// KindRuling is what was decided about parents of one kind.
type KindRuling struct {
	// Ruling is Frozen or Snoozed.
	Ruling   string `json:"ruling"`
	Resource string `json:"resource"`
	// Sample of one object at least, each with the reason.
	Sample
}

// Example of a gap or a ruling.
type Example struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Why as a clause, where it differs between objects.
	Why string `json:"why,omitempty"`
}

// MaxExamples bounds the examples of one gap and kind.
const MaxExamples = 5

// crdPage is the page size of lists of CRDs: some have hundreds of KiB.
const crdPage = 50

// Coverage returns the coverage of the kinds with a role in Crossplane, in a namespace, or, where it is
// empty, in all namespaces and of cluster-scoped objects. Objects are read in
// pages; only counts and examples are kept.
func (i *Inspector) Coverage(ctx context.Context, namespace string) (*Coverage, error) {
	out := &Coverage{Installed: i.Installed}
	var err error
	if why := i.undecidable(ctx); why != nil {
		out.Undecided, out.Installed = why.Error(), true // as far as is known
	} else if out.Unanswered, err = i.Direct.Unanswered(ctx); err != nil {
		return nil, err
	}
	if out.Installed {
		out.Installation = i.installation(ctx)
	}
	err = i.Direct.EachKind(ctx, crdPage, func(info kinds.Info) error {
		if info.Role == parent.RoleNone || namespace != "" && !info.Namespaced {
			return nil
		}
		out.Kinds++
		return i.coverKind(ctx, out, info, namespace)
	})
	if err != nil {
		return nil, err
	}
	out.Unread = i.Direct.Unread()
	slices.SortFunc(out.Gaps, func(a, b KindGap) int {
		return cmp.Or(cmp.Compare(slices.Index(gapOrder, a.Gap), slices.Index(gapOrder, b.Gap)), cmp.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

// coverKind adds the objects of one kind to the coverage. A kind that the user may not
// list is a gap of its own, any other error ends the command.
func (i *Inspector) coverKind(ctx context.Context, out *Coverage, info kinds.Info, namespace string) error {
	found := map[Gap]*KindGap{}
	frozen, snoozed := KindRuling{Ruling: RulingFrozen, Resource: info.Resource}, KindRuling{Ruling: RulingSnoozed, Resource: info.Resource}
	read, err := EachObject(ctx, i.Direct, info, namespace, func(o *unstructured.Unstructured) error {
		gaps, err := i.gaps(ctx, out, info, o)
		if kerrors.IsForbidden(err) { // as of its Namespace
			gaps, err = map[Gap]string{GapUnread: err.Error()}, nil
		}
		if err != nil {
			return err
		}
		if err := i.rule(ctx, o, &frozen, &snoozed); err != nil {
			return err
		}
		out.Objects++
		if len(gaps) == 0 && out.Undecided == "" {
			out.Protected++
		}
		for gap, why := range gaps {
			note(found, gap, info, o, why)
		}
		return nil
	})
	if kerrors.IsForbidden(read) {
		out.Gaps = append(out.Gaps, KindGap{Gap: GapUnread, Resource: info.Resource, Role: info.Role})
	}
	if err != nil || read != nil {
		return err
	}
	for _, g := range found {
		out.Gaps = append(out.Gaps, *g)
	}
	for _, r := range []KindRuling{frozen, snoozed} {
		if r.Count > 0 {
			out.InForce = append(out.InForce, r)
		}
	}
	return nil
}

// EachObject calls f with each object of a kind in a namespace, or in all where it is empty. unread is why the list is not
// complete: the CRD of the kind was deleted in the meantime, or the user may not list its objects.
func EachObject(
	ctx context.Context, d *cluster.Direct, info kinds.Info, namespace string, f func(*unstructured.Unstructured) error,
) (unread, err error) {
	for o, err := range informer.Items(ctx, informer.ResourceOf(d.Dynamic, info.GVR, info.Namespaced, namespace), informer.PageSize) {
		if kerrors.IsNotFound(err) || kerrors.IsForbidden(err) {
			return err, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", info.Resource, err)
		}
		if err := f(o); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// rule adds what was decided about a parent. What the user may not read is left out.
func (i *Inspector) rule(ctx context.Context, o *unstructured.Unstructured, frozen, snoozed *KindRuling) error {
	s := i.Direct.Sum(o).State
	if !isParent(s) {
		return nil
	}
	f, err := i.FreezeOf(ctx, s)
	if err != nil {
		return err
	}
	if f != nil {
		frozen.add(o, f.Why())
	}
	now := i.options.Now()
	if set := approval.ParseAt(s.Annotations, now); set.Snoozed(now) {
		snoozed.add(o, "until "+set.Snooze.Expiry.UTC().Format(time.RFC3339)+" by "+cmp.Or(set.Snooze.User, "an unknown user"))
	}
	return nil
}

// note adds a gap of an object.
func note(found map[Gap]*KindGap, gap Gap, info kinds.Info, o *unstructured.Unstructured, why string) {
	g := found[gap]
	if g == nil {
		g = &KindGap{Gap: gap, Resource: info.Resource, Role: info.Role}
		found[gap] = g
	}
	g.add(o, why)
}

// gaps returns the gaps of an object, each with why where that differs between objects; nil where
// it is protected.
func (i *Inspector) gaps(ctx context.Context, out *Coverage, info kinds.Info, o *unstructured.Unstructured) (map[Gap]string, error) {
	if out.Undecided != "" {
		if err := i.Direct.Learn(ctx, info.GVK); err != nil {
			return nil, err
		}
		return i.enforcedGaps(ctx, info, i.Direct.Sum(o))
	}
	return i.guardedGaps(ctx, info, o)
}

// guardedGaps returns the gaps of an object, with those of guarding and of its mode.
func (i *Inspector) guardedGaps(ctx context.Context, info kinds.Info, o *unstructured.Unstructured) (map[Gap]string, error) {
	guarded, why, err := i.Direct.Guarded(ctx, info.GVR.GroupResource(), o.GetNamespace(), o.GetLabels())
	if err != nil {
		return nil, err
	}
	if !guarded {
		return map[Gap]string{GapUnguarded: why}, nil
	}
	if err := i.Direct.Learn(ctx, info.GVK); err != nil {
		return nil, err
	}
	obj := i.Direct.Sum(o)
	if obj.Deleting() {
		return nil, nil
	}
	mode, _, err := i.Direct.Mode(ctx, obj.State, i.options.DefaultMode)
	if err != nil {
		return nil, err
	}
	if mode == v1alpha1.ModeLog {
		return map[Gap]string{GapLog: ""}, nil
	}
	out, err := i.enforcedGaps(ctx, info, obj)
	if err != nil {
		return nil, err
	}
	open, err := i.failsOpen(ctx, info.GVR.GroupResource(), obj.State)
	if err == nil && open {
		if out == nil {
			out = map[Gap]string{}
		}
		out[GapFailOpen] = ""
	}
	return out, err
}

// enforcedGaps returns the gaps of an object in mode enforce.
func (i *Inspector) enforcedGaps(ctx context.Context, info kinds.Info, obj *states.Object) (map[Gap]string, error) {
	if info.ManagementPolicies {
		return managedGaps(obj), nil
	}
	if info.Role == parent.RoleManaged { // there is no field to mask
		return map[Gap]string{GapUngated: whyUnsupported}, nil
	}
	return i.parentGaps(ctx, obj.State)
}

// failsOpen reports whether changes of an object are allowed while the webhook does not answer.
func (i *Inspector) failsOpen(ctx context.Context, resource schema.GroupResource, s *parent.State) (bool, error) {
	own, err := i.Direct.Settings(ctx, s.Ref, s.Labels)
	if err != nil {
		return false, err
	}
	return i.Direct.FailsOpen(ctx, resource, s.Namespace, s.Labels, cmp.Or(own.Mode, i.options.DefaultMode))
}

// managedGaps returns the gaps of a managed resource in mode enforce.
func managedGaps(obj *states.Object) map[Gap]string {
	author := mask.AuthorOf(obj.Annotations, obj.ManagementPolicies)
	if !mask.Maskable(author) && (len(author) == 0 || mask.Gives(author, v1alpha1.VerbObserve)) {
		return nil // its author allows the provider nothing that could be masked
	}
	out := map[Gap]string{}
	_, remembered := obj.Annotations[v1alpha1.AnnotationKeyManagementPolicies]
	gate := mask.ParseGate(obj.Annotations)
	switch {
	case !remembered && !mask.Gives(author, v1alpha1.VerbObserve):
		out[GapUngated] = "its author did not include Observe"
	case !remembered:
		out[GapUngated] = "the gate is installed once it is Ready, Synced and idle"
	case gate.State == v1alpha1.GateOpen:
		out[GapOpen] = "for " + fmt.Sprint(gate.Verbs)
	}
	if obj.Paused {
		out[GapPaused] = ""
	}
	if b := obj.Blind(); b != "" {
		out[GapBlind] = b.Why()
	}
	return out
}

// parentGaps returns the gaps of an XR or Claim in mode enforce.
func (i *Inspector) parentGaps(ctx context.Context, s *parent.State) (map[Gap]string, error) {
	p, err := i.parent(ctx, s)
	if err != nil {
		return nil, err
	}
	out := map[Gap]string{}
	switch {
	case p.Phase == v1alpha1.PhaseInitializing:
		out[GapInitializing] = p.Unsettled
	case !p.Settled:
		out[GapUnsettled] = p.Unsettled
	}
	for _, e := range approval.ParseAt(s.Annotations, i.options.Now()).Approvals {
		if e.Mode == v1alpha1.ApprovalAlways && e.Digest == "" {
			out[GapApproved] = "of " + e.Kind + " " + cmp.Or(e.Resource, e.Name)
		}
	}
	return out, nil
}
