package settler

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// scaleKeys are the annotations that are written after a change through /scale, since a Scale has none
// (KR-01-09).
var scaleKeys = []string{v1alpha1.AnnotationKeyTrace, v1alpha1.AnnotationKeyUpdaters, v1alpha1.AnnotationKeyAllowances}

// scaling is a change through /scale that was admitted here. Only memory knows its user and time: the
// API server records no time in the managedFields entry of a built-in kind's /scale (1.35).
type scaling struct {
	user string
	at   metav1.Time
	// from is the resourceVersion before the change, generation is the one after it, replicas is the
	// requested number; -1 if the request does not have it at spec.replicas.
	from       string
	generation int64
	replicas   int64
	// above are the hops of what caused it; own is its own hop, of which the approval and the causes are
	// written.
	above trace.Trace
	own   v1alpha1.Hop
	// later are the annotations to write with the hop; nil values remove.
	later map[string]*string
	// recorded is when the object was first seen with the hop; zero before.
	recorded time.Time
}

// stored reports whether a state shows the change.
func (c *scaling) stored(s *parent.State) bool {
	return s.ResourceVersion != c.from && s.Generation >= c.generation &&
		(s.Replicas < 0 || c.replicas < 0 || s.Replicas == c.replicas)
}

// Scale notes an admitted change through /scale: an intent. The Settler writes its hop and allowances
// once it is stored (KR-01-09).
func (m *Memory) Scale(req *admission.Request, d admission.Decision) {
	replicas, found, err := unstructured.NestedInt64(req.Object.Object, "spec", "replicas")
	if err != nil || !found || !slices.ContainsFunc(d.Changes, func(c change.Change) bool { return c.Path == "spec.replicas" }) {
		replicas = -1 // the kind has its replicas elsewhere
	}
	c := &scaling{user: req.User.Name, at: approval.Stamp(m.now()), from: req.OldObject.GetResourceVersion(),
		generation: req.OldObject.GetGeneration() + 1, replicas: replicas, later: d.Later}
	if own := d.Trace.Own(); own != nil {
		c.above, c.own = d.Trace[:len(d.Trace)-1], *own
	}
	m.write(req.Object.GetUID(), func(o *record) {
		o.scale = c
		o.touch(m.now(), c.from)
	})
}

// Scales reports whether a change through /scale was admitted here that an object in hand may not show.
func (m *Memory) Scales(uid types.UID) bool { return m.scaleOf(uid) != nil }

// scaleOf an object; nil for none. It is kept for touchedFor after it was recorded: a request may have read
// the object before.
func (m *Memory) scaleOf(uid types.UID) (c *scaling) {
	m.read(uid, func(o *record) {
		if o.scale != nil && !o.scale.recorded.IsZero() && m.now().Sub(o.scale.recorded) > touchedFor {
			o.scale = nil
		}
		c = o.scale
	})
	return c
}

// scaleRecorded: the object shows the change from now on.
func (m *Memory) scaleRecorded(uid types.UID) {
	m.read(uid, func(o *record) {
		if o.scale != nil && o.scale.recorded.IsZero() {
			next := *o.scale
			next.recorded = m.now()
			o.scale = &next
		}
	})
}

// FillState returns a state with the trace of a change through /scale, and the allowances it was
// granted, while the object itself shows only that there was one; else the state itself.
func (m *Memory) FillState(s *parent.State) *parent.State {
	scale := m.scaleOf(s.UID)
	if scale == nil || !scale.stored(s) {
		return s
	}
	hop, recorded := trace.Intent(s)
	switch {
	case hop.Unattributed && (!recorded || hop.Timestamp.Time.Equal(s.ScaleTime)): // another replica may have recorded it
		hop.User, hop.Unattributed = scale.user, scale.user == ""
	case recorded && hop.Generation < scale.generation: // else a later change has recorded it with its own
		at, labels := scale.at.Time, hop.Labels
		if s.ScaleTime.After(at) {
			at = s.ScaleTime
		}
		hop = trace.Hop(s.Ref, s.Generation, scale.user, at)
		hop.Labels = labels
	default:
		return s
	}
	c := *s
	c.Annotations = annotation.Apply(s.Annotations, scale.later)
	hop.Approval, hop.Unrequested, hop.Passed, hop.Causes = scale.own.Approval, scale.own.Unrequested, scale.own.Passed, scale.own.Causes
	c.Annotations[v1alpha1.AnnotationKeyTrace] = append(slices.Clone(scale.above), hop).String()
	return &c
}

// FillObject is FillState for an object of a kind with a role. It returns the object itself if there is
// nothing to fill in, and never modifies it.
func (m *Memory) FillObject(o *unstructured.Unstructured, role parent.Role) *unstructured.Unstructured {
	if !m.Scales(o.GetUID()) {
		return o
	}
	s := parent.Sum(o, role)
	filled := m.FillState(s)
	if filled == s {
		return o
	}
	o = o.DeepCopy()
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	for _, k := range scaleKeys {
		if v, ok := filled.Annotations[k]; ok {
			all[k] = v
		} else {
			delete(all, k)
		}
	}
	o.SetAnnotations(all)
	return o
}
