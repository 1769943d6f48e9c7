package drift

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

const (
	// heldWithin bounds what one round records of changes that the composition function holds.
	// The rest follows in the next rounds.
	heldWithin = 5 * time.Second
	// lookAgain is when composed resources that no watch covers are read again although their
	// composite has not changed.
	lookAgain = time.Minute
)

// Function is what the Resolver needs to know of changes that the composition function
// holds.
type Function struct {
	// Composites that are watched, those of every kind.
	Composites func() []*parent.State
	// Reviews reports whether an object is guarded: nothing but an apply of Crossplane can
	// record there what is held (KR-02-09), and an approval on it counts.
	Reviews func(*parent.State) bool
	// Kind of objects.
	Kind func(schema.GroupVersionKind) identity.Kind
	// Content of an object as it is now; nil where it does not exist.
	Content func(context.Context, parent.Ref) (map[string]any, error)
	// Author of a cause; nil for unknown.
	Author func(context.Context, v1alpha1.HopCause) (v1alpha1.HopCause, error)
}

// functionOf a cluster.
func functionOf(c *cluster.Cluster, author func(context.Context, v1alpha1.HopCause) (v1alpha1.HopCause, error)) *Function {
	return &Function{
		Reviews: c.Reviews, Kind: c.Kinds.Kind, Content: c.States.Content, Author: author,
		Composites: func() (out []*parent.State) {
			for _, gvk := range c.States.Kinds() {
				if c.Kinds.Kind(gvk).Role != parent.RoleComposite {
					continue
				}
				for _, o := range c.States.List(gvk) {
					out = append(out, o.State)
				}
			}
			return out
		},
	}
}

// looked is when the composed resources of a composite were read that no watch covers.
type looked struct {
	version string
	at      time.Time
}

// holding composites: those of which the composition function holds something, each once,
// in the order of their names.
func (r *Resolver) holding() []*parent.State {
	if r.Function == nil {
		return nil
	}
	var out []*parent.State
	for _, p := range r.Function.Composites() {
		if settling.FunctionHolds(p) && r.Function.Reviews(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *parent.State) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return slices.CompactFunc(out, func(a, b *parent.State) bool { return a.UID == b.UID })
}

// recordHeld records as Drifts what the composition function holds of composites, in turn
// (KR-09-25). The Drifts are those of the cache.
func (r *Resolver) recordHeld(ctx context.Context, composites []*parent.State, list *v1alpha1.DriftList) {
	if len(composites) == 0 {
		return
	}
	open := map[types.NamespacedName]*v1alpha1.Drift{}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.Phase == v1alpha1.DriftDetected && d.Status.Holder == v1alpha1.HolderFunction {
			open[client.ObjectKeyFromObject(d)] = d
		}
	}
	ctx, cancel := context.WithTimeout(ctx, heldWithin)
	defer cancel()
	from, _ := slices.BinarySearchFunc(composites, r.nextHeld, func(p *parent.State, uid types.UID) int {
		return strings.Compare(string(p.UID), string(uid))
	})
	r.nextHeld = ""
	for _, p := range slices.Concat(composites[from:], composites[:from]) {
		err := recovered(func() error { return r.recordOf(ctx, p, open) })
		if ctx.Err() != nil || errors.Is(err, errNoReads) {
			if r.nextHeld == "" {
				r.nextHeld = p.UID
			}
			continue
		}
		r.logOnce(p.UID, err, "cannot record what the composition function holds; it is tried every "+resolveEvery.String(),
			"composite", identity.Describe(p.Ref))
	}
}

// recordOf one composite.
func (r *Resolver) recordOf(ctx context.Context, p *parent.State, open map[types.NamespacedName]*v1alpha1.Drift) error {
	known, ok := r.looked[p.UID]
	live := !ok || known.version != p.ResourceVersion || clock.Since(known.at) > lookAgain
	records, _, err := r.records(ctx, p, live)
	if err != nil {
		return err
	}
	if live {
		if r.looked == nil {
			r.looked = map[types.UID]looked{}
		}
		r.looked[p.UID] = looked{version: p.ResourceVersion, at: clock.Now()}
	}
	now := clock.Now() // one run of the pipeline held all of them: they are listed together, by their objects
	for _, h := range records {
		if err := ctx.Err(); err != nil {
			return err
		}
		report := r.reportHeld(ctx, p, h)
		if report == nil {
			continue
		}
		if d := open[client.ObjectKeyFromObject(object(report))]; d != nil && (!d.Status.Snoozed || report.Snoozed) && sameVotes(d, report) {
			continue
		}
		if err := r.record(ctx, p, h, Item{Report: report, at: now}); err != nil {
			return err
		}
	}
	return nil
}

// records returns the records on the guarded composed resources of a composite: on the watched
// ones, and with live on all of them. complete reports that no resource was left out, and
// that no record may lack a creation.
func (r *Resolver) records(ctx context.Context, p *parent.State, live bool) (out []settling.Record, complete bool, err error) {
	complete = len(p.Children) > 0 // else nothing could have a record
	for _, ref := range p.Children {
		if r.Unguarded(ref.GroupVersionKind) {
			continue
		}
		if !live && r.Objects.Cached(ref) == nil {
			complete = false
			continue
		}
		c, err := r.state(ctx, ref)
		if err != nil {
			return nil, false, err
		}
		if c == nil || !r.Function.Reviews(c) {
			continue
		}
		records, full := settling.RecordsOn(c, p)
		out, complete = append(out, records...), complete && !full
	}
	return out, complete, nil
}

// reportHeld returns the report about a record; nil if the record is about no drift, as while the
// composite is frozen, or about an object that is not guarded, since no decision
// depends on that. The command that approves it is not the one in the record.
func (r *Resolver) reportHeld(ctx context.Context, p *parent.State, h settling.Record) *admission.Report {
	gvk := schema.FromAPIVersionAndKind(h.Child.APIVersion, h.Child.Kind)
	if !change.IsID(h.ID) || r.Unguarded(gvk) {
		return nil
	}
	relation := v1alpha1.RelationControllerChild
	switch outcome.Reason(h.Reason) {
	case outcome.ReasonDrift, outcome.ReasonAllowanceMissing:
	case outcome.ReasonExternalDeletion:
		relation = v1alpha1.RelationExternal
	default:
		return nil
	}
	kind, set := r.Function.Kind(gvk), approval.Parse(p.Annotations)
	intent, _ := trace.Intent(p)
	spec := v1alpha1.DriftSpec{
		ID: h.ID, Digest: h.Digest, Relation: relation, Parent: identity.ObjectReference(p.Ref, p.Generation, ""), Child: h.Child, Intent: intent.Generation,
		Operation: h.Operation, Difference: kind.SecretFields.RedactFields(h.Difference), Cause: "the composition of " + identity.Describe(p.Ref),
		SuggestedApproval: identity.ApproveCommand(p, r.Function.Kind(p.GroupVersionKind), h.ID),
	}
	if p.CompositionRevision != "" {
		spec.Cause = "composition revision " + p.CompositionRevision
		spec.Causes = []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: p.CompositionRevision}}
	}
	if len(h.Causes) > 0 {
		spec.Causes = slices.Clone(h.Causes)
	}
	for i, c := range spec.Causes {
		if c.Kind != v1alpha1.CauseEdit {
			spec.Causes[i] = r.authored(ctx, c)
		}
	}
	return &admission.Report{
		Drift: spec, ParentRef: p.Ref, Parent: p, Holder: v1alpha1.HolderFunction,
		Snoozed: set.Snoozed(clock.Now()), Recurs: set.UsedFor(h.ID), Votes: set.VotesFor(change.Digest(cmp.Or(h.Digest, h.ID))), Lacks: h.Lacks,
	}
}

// authored returns a cause with its author, if the author is known.
func (r *Resolver) authored(ctx context.Context, c v1alpha1.HopCause) v1alpha1.HopCause {
	if r.Function.Author == nil {
		return c
	}
	found, err := r.Function.Author(ctx, c)
	if err != nil {
		r.Log.V(1).Info("cannot determine the author of a cause", "cause", c.Name, "error", err.Error())
		return c
	}
	return found
}

// sameVotes reports whether a Drift shows the votes of a report.
func sameVotes(d *v1alpha1.Drift, r *admission.Report) bool {
	return d.Status.Lacks == r.Lacks && equality.Semantic.DeepEqual(d.Status.Votes, r.Votes)
}

// record a report, if what the cache shows is still stored (KR-13-22).
func (r *Resolver) record(ctx context.Context, p *parent.State, h settling.Record, item Item) error {
	content, err := r.Function.Content(ctx, h.On)
	if err != nil || content == nil {
		return err
	}
	o := &unstructured.Unstructured{Object: content}
	records, _ := settling.RecordsOn(parent.Sum(o, r.Function.Kind(o.GroupVersionKind()).Role), p)
	if !slices.ContainsFunc(records, func(s settling.Record) bool { return s.ID == h.ID && s.Operation == h.Operation }) {
		return nil
	}
	if err := r.Reporter.Record(ctx, item); !kerrors.IsConflict(err) {
		return err
	}
	return nil // the next round sees what was written meanwhile
}

// resolveHeld resolves a Drift that the composition function no longer holds. p is its
// composite, nil for one that is gone.
func (r *Resolver) resolveHeld(ctx context.Context, d *v1alpha1.Drift, p *parent.State) error {
	child, err := r.state(ctx, identity.Ref(d.Spec.Child))
	if err != nil {
		return err
	}
	var records []settling.Record
	complete := true
	switch {
	case p == nil || r.Function == nil:
	case d.Spec.Operation != string(admission.Create): // it is recorded on the child itself, if anywhere
		if child != nil {
			records, _ = settling.RecordsOn(child, p)
		}
	case settling.FunctionHolds(p):
		if records, complete, err = r.records(ctx, p, true); err != nil {
			return err
		}
	}
	switch why := settling.Released(d, p, child, records, complete); why {
	case "":
		return r.rule(ctx, d, p)
	case settling.WhyApproved:
		return r.Reporter.Resolve(ctx, d, why, settling.ApprovalOf(d, child, p, child))
	default:
		return r.Reporter.Resolve(ctx, d, why, nil)
	}
}
