package settler

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// settle edits the annotations of a parent: the latch, if it settled at its last intent, with the state
// it settled at; the hop of an intent that it lacks; and the phase. again is when it may settle
// (KR-02-06, KR-03-06).
func (s *Settler) settle(ctx context.Context, p *parent.State, edits map[string]*string) (again time.Duration) {
	p = s.memory.FillState(p)
	intent, recorded := trace.Intent(p)
	if filled := s.filled(p); (filled || !recorded && s.memory.isParent(p)) && intent.Generation > 0 {
		edits[v1alpha1.AnnotationKeyTrace] = new(trace.Current(p).String())
		s.carry(p, edits)
	}
	in := settling.Observation{Parent: p, Grace: s.grace, Now: s.now()}
	in.Observed, in.Known, in.ObservedSince = s.memory.observed(p)
	latch := max(p.SettledGeneration(), s.memory.Settled(p.Ref))
	if latch < intent.Generation || latch > p.SettledGeneration() {
		ok := latch >= intent.Generation
		if !ok {
			s.children(ctx, p, &in)
			ok, again = in.Settles()
		}
		if ok {
			latch = max(latch, intent.Generation)
			s.memory.latch(p.UID, latch)
			edits[v1alpha1.AnnotationKeySettledGeneration] = new(strconv.FormatInt(latch, 10))
		}
	}
	settledState(p, latch, intent.Generation, edits)
	gone(p, edits)
	if !s.memory.isParent(p) {
		delete(edits, v1alpha1.AnnotationKeySettledGeneration)
		delete(edits, v1alpha1.AnnotationKeySettledState)
		return again
	}
	s.phase(p, latch > 0, edits)
	return again
}

// gone edits the annotations of an object that is gone out of its copy (KR-13-58). The trace is written already.
func gone(p *parent.State, edits map[string]*string) {
	was := p.Gone()
	if was == nil || edits[v1alpha1.AnnotationKeyTrace] == nil {
		return
	}
	for _, k := range []string{v1alpha1.AnnotationKeySettledGeneration, v1alpha1.AnnotationKeySettledState} {
		if _, ok := edits[k]; !ok && was[k] != "" {
			edits[k] = nil
		}
	}
	maps.Copy(edits, approval.Discard(was))
}

// settledState edits the annotation of the state at which a parent settled (KR-02-06). It is written once
// for each intent that settled: with the latch or, if an older release wrote that, after it, and only
// while the last intent is the one that settled. Another version of the kind, a default or the parent's
// own controller may change the desired state later. The annotation then decides nothing until the next
// intent. It is not written again: replicas that watch different versions would take turns.
func settledState(p *parent.State, latch, intent int64, edits map[string]*string) {
	if latch != intent || p.HasSettledState(intent) {
		return
	}
	if value := p.SettledState(intent); value != "" {
		edits[v1alpha1.AnnotationKeySettledState] = &value
	}
}

// phase edits the phase of a parent (KR-03-09). An initialized parent stays initialized, and that one is
// being deleted shows without an annotation.
func (s *Settler) phase(p *parent.State, settled bool, edits map[string]*string) {
	phase := p.Phase(settled, s.cluster.Policies.Initialized(p.GroupKind())...)
	have := v1alpha1.Phase(p.Annotations[v1alpha1.AnnotationKeyPhase])
	if phase == have || phase == v1alpha1.PhaseDeleting || have == v1alpha1.PhaseInitialized {
		return
	}
	edits[v1alpha1.AnnotationKeyPhase] = new(string(phase))
}

// filled reports whether a state has a trace, of a change through /scale, that the object itself does
// not show yet.
func (s *Settler) filled(p *parent.State) bool {
	o := s.states.Cached(p.Ref)
	return o != nil && o.Annotations[v1alpha1.AnnotationKeyTrace] != p.Annotations[v1alpha1.AnnotationKeyTrace]
}

// carry the annotations, other than the trace, that are written after a change through /scale.
func (s *Settler) carry(p *parent.State, edits map[string]*string) {
	o := s.states.Cached(p.Ref)
	if o == nil {
		return
	}
	for _, k := range scaleKeys {
		have, had := o.Annotations[k]
		switch want, has := p.Annotations[k]; {
		case k == v1alpha1.AnnotationKeyTrace:
		case has && (!had || want != have):
			edits[k] = &want
		case had && !has:
			edits[k] = nil
		}
	}
}

// children of an XR or Claim that are guarded; the others carry no trace, and do not count (KR-03-08).
// Those of kinds with a role in Crossplane are watched. The others, as ConfigMaps and Secrets, are read:
// a watch would keep all of them. Missing is set if one cannot be read.
func (s *Settler) children(ctx context.Context, p *parent.State, in *settling.Observation) {
	for _, ref := range p.Children {
		info, err := s.cluster.Kinds.Get(ref.GroupVersionKind)
		if err != nil {
			in.Missing = true
			return
		}
		if !s.cluster.Scope.Covers(info.GVR.GroupResource()) {
			continue
		}
		o, err := s.states.Look(ctx, ref)
		if errors.Is(err, admission.ErrNotFound) {
			continue
		}
		if err != nil {
			in.Missing = true
			return
		}
		in.Children = append(in.Children, o.State)
		in.Unwatched = in.Unwatched || s.states.Cached(o.State.Ref) == nil
	}
}
