package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// DefaultAfter is spec.advance.after where it is not given.
const DefaultAfter = 10 * time.Minute

// After returns how long the objects of a wave have to become healthy.
func After(s *v1alpha1.RolloutSpec) time.Duration {
	if s.Advance.After == nil {
		return DefaultAfter
	}
	return s.Advance.After.Duration
}

// Invalid returns what is invalid in a spec, each with its path; nil for a valid spec (KR-14-50).
// namespace is that of the Rollout, "" for a ClusterRollout.
func Invalid(s *v1alpha1.RolloutSpec, namespace string) []string {
	var out []string
	fail := func(path, text string, args ...any) { out = append(out, "spec."+path+": "+fmt.Sprintf(text, args...)) }
	if s.Cause == (v1alpha1.RolloutCause{}) {
		fail("cause", "give at least one of compositionRevision, functionRevision, image, controller, user and external")
	}
	if s.Cause.External && s.Cause != (v1alpha1.RolloutCause{External: true}) {
		fail("cause.external", "goes with no other cause")
	}
	selector(fail, "selector", s.Selector, namespace)
	if len(s.Waves) == 0 {
		fail("waves", "give at least one")
	}
	had, by := int32(0), 0
	for i, w := range s.Waves {
		at := fmt.Sprintf("waves[%d]", i)
		if given(w) != 1 {
			fail(at, "give one of count, percent and selector")
			continue
		}
		switch {
		case had == full:
			fail(at, "is empty: all objects have had their turn with waves[%d]", by)
		case w.Count != nil && *w.Count < 1:
			fail(at+".count", "must be at least 1, not %d", *w.Count)
		case w.Percent != nil && (*w.Percent < 1 || *w.Percent > full):
			fail(at+".percent", "must be 1 to 100, not %d", *w.Percent)
		case w.Percent != nil && *w.Percent <= had:
			fail(at+".percent", "%d is an empty wave: %d percent have had their turn with waves[%d]; percentages are of all objects, and increase",
				*w.Percent, had, by)
		case w.Percent != nil:
			had, by = *w.Percent, i
		}
		selector(fail, at+".selector", w.Selector, namespace)
	}
	if s.Advance.After != nil && s.Advance.After.Duration <= 0 {
		fail("advance.after", "must be more than 0, not %s", s.Advance.After.Duration)
	}
	if s.Advance.MaxUnhealthy < 0 {
		fail("advance.maxUnhealthy", "must not be negative")
	}
	return out
}

// full is all objects, in percent.
const full = 100

// given counts the fields of a wave.
func given(w v1alpha1.RolloutWave) (n int) {
	for _, is := range []bool{w.Count != nil, w.Percent != nil, w.Selector != nil} {
		if is {
			n++
		}
	}
	return n
}

func selector(fail func(string, string, ...any), path string, s *v1alpha1.RolloutSelector, namespace string) {
	if s == nil {
		return
	}
	if len(s.Namespaces) == 0 && s.Labels == nil {
		fail(path, "give namespaces or labels")
	}
	if namespace != "" && slices.ContainsFunc(s.Namespaces, func(n string) bool { return n != namespace }) {
		fail(path+".namespaces", "a Rollout is of its own Namespace; use a ClusterRollout for others")
	}
	if _, err := metav1.LabelSelectorAsSelector(s.Labels); s.Labels != nil && err != nil {
		fail(path+".labels", "%v", err)
	}
}

// Pending is a change that waits, as its Drift shows it, and what is known of the object on which
// it is approved.
type Pending struct {
	Drift *v1alpha1.Drift
	// Labels of the parent.
	Labels map[string]string
}

// Wanted reports whether a Drift is a change that a Rollout lets pass: it waits, it can be approved, and it is of
// the cause and in the Namespace (KR-14-51). namespace is that of the Rollout, "" for a ClusterRollout.
func Wanted(s *v1alpha1.RolloutSpec, namespace string, p Pending) bool {
	d := p.Drift
	if d.Status.Phase != v1alpha1.DriftDetected || d.Spec.SuggestedApproval == "" || d.Spec.Parent.Name == "" || d.Spec.Parent.UID == "" {
		return false
	}
	if namespace != "" && d.Spec.Parent.Namespace != namespace {
		return false
	}
	if d.Name != d.Spec.ID || d.Namespace != identity.DriftNamespace(d.Spec.Parent.Namespace, d.Spec.Child.Namespace) {
		return false // Kausality did not record it, and its author may write in another Namespace alone
	}
	return of(&s.Cause, &d.Spec) && selects(s.Selector, d.Spec.Parent.Namespace, p.Labels)
}

// of reports whether each cause of a change is one of those that are given.
func of(c *v1alpha1.RolloutCause, d *v1alpha1.DriftSpec) bool {
	if c.External {
		return d.Relation == v1alpha1.RelationExternal && d.Operation == ""
	}
	names := map[v1alpha1.CauseKind]string{
		v1alpha1.CauseComposition: c.CompositionRevision, v1alpha1.CauseFunction: c.FunctionRevision,
		v1alpha1.CauseImage: c.Image, v1alpha1.CauseController: c.Controller, v1alpha1.CauseUser: c.User,
	}
	for _, have := range d.Causes {
		if have.Name == "" || names[have.Kind] != have.Name {
			return false
		}
	}
	return len(d.Causes) > 0
}

// selects reports whether a selector selects an object; nil selects all.
func selects(s *v1alpha1.RolloutSelector, namespace string, own map[string]string) bool {
	if s == nil {
		return true
	}
	if len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, namespace) {
		return false
	}
	if s.Labels == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(s.Labels)
	return err == nil && sel.Matches(labels.Set(own))
}

// Plan is the objects of a Rollout, in the order in which they are let through.
type Plan struct {
	ID          string
	Objects     []v1alpha1.RolloutObject
	Differences int
}

// New returns a new plan of a Rollout, by its uid, for changes that are Wanted. Objects of a wave are in
// the order of namespace, kind and name; those that are in no wave are left out.
func New(uid types.UID, s *v1alpha1.RolloutSpec, pending []Pending) Plan {
	objects, own := grouped(pending)
	out := Plan{}
	total, passed := len(objects), 0
	for i, w := range s.Waves {
		var take func(o *v1alpha1.RolloutObject, taken int) bool
		switch {
		case w.Count != nil:
			take = func(_ *v1alpha1.RolloutObject, taken int) bool { return taken < int(*w.Count) }
		case w.Percent != nil:
			most := (total*int(*w.Percent) + full - 1) / full
			take = func(_ *v1alpha1.RolloutObject, taken int) bool { return passed+taken < most }
		default:
			take = func(o *v1alpha1.RolloutObject, _ int) bool { return selects(w.Selector, o.Namespace, own[o.UID]) }
		}
		taken := 0
		for n := range objects {
			if o := &objects[n]; o.Wave == 0 && take(o, taken) {
				o.Wave = int32(i + 1) //nolint:gosec // At most 32 waves.
				taken++
			}
		}
		passed += taken
	}
	objects = slices.DeleteFunc(objects, func(o v1alpha1.RolloutObject) bool { return o.Wave == 0 })
	slices.SortStableFunc(objects, func(a, b v1alpha1.RolloutObject) int { return cmp.Compare(a.Wave, b.Wave) })
	for i := range objects {
		out.Differences += len(objects[i].Differences)
	}
	out.Objects, out.ID = objects, ID(uid, s, objects)
	return out
}

// ID returns the id of a plan: a hash of the Rollout, of what its spec means, and of the objects and
// differences (KR-14-52). If any of these changes, it is another plan, which has no votes.
func ID(uid types.UID, s *v1alpha1.RolloutSpec, objects []v1alpha1.RolloutObject) string {
	approved := *s
	approved.Stop, approved.Proceed = false, 0
	if objects == nil {
		objects = []v1alpha1.RolloutObject{}
	}
	return annotation.Digest([]any{uid, approved, objects}, change.IDLength)
}

// grouped groups changes by the object on which they are approved, in order, and the labels of these
// by UID.
func grouped(pending []Pending) ([]v1alpha1.RolloutObject, map[types.UID]map[string]string) {
	var out []v1alpha1.RolloutObject
	at, own := map[types.UID]int{}, map[types.UID]map[string]string{}
	for _, p := range pending {
		ref := p.Drift.Spec.Parent
		n, ok := at[ref.UID]
		if !ok {
			n = len(out)
			at[ref.UID], own[ref.UID] = n, p.Labels
			out = append(out, v1alpha1.RolloutObject{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID})
		}
		d := v1alpha1.RolloutDifference{ID: p.Drift.Spec.ID, Drift: p.Drift.Name, Namespace: p.Drift.Namespace}
		d.Since = Occurrence(p.Drift)
		out[n].Differences = append(out[n].Differences, d)
	}
	for i := range out {
		slices.SortFunc(out[i].Differences, func(a, b v1alpha1.RolloutDifference) int {
			return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Drift, b.Drift))
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.RolloutObject) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name),
			strings.Compare(string(a.UID), string(b.UID)))
	})
	return out, own
}

// Occurrence returns the occurrence of a Drift: when it was first seen, in whole seconds; nil where that
// is unknown. The same difference that occurs again is another occurrence, which no user has approved.
func Occurrence(d *v1alpha1.Drift) *metav1.Time {
	if d.Status.Since == nil {
		return nil
	}
	return new(metav1.NewTime(d.Status.Since.UTC().Truncate(time.Second)))
}

const (
	// perBatch and differencesPerBatch bound a RolloutBatch: at some 300 bytes an object and 150 a difference it is
	// far below the 1 MiB of a request.
	perBatch            = 500
	differencesPerBatch = 2000
)

// Batches splits the objects of a plan into batches, in their order.
func Batches(objects []v1alpha1.RolloutObject) [][]v1alpha1.RolloutObject {
	var out [][]v1alpha1.RolloutObject
	differences := 0
	for _, o := range objects {
		if n := len(out); n == 0 || len(out[n-1]) >= perBatch || differences+len(o.Differences) > differencesPerBatch {
			out, differences = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], o)
		differences += len(o.Differences)
	}
	return out
}
