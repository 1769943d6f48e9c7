package decider

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/decider/stored"
	"github.com/kausality-io/function-kausality/internal/drift"
)

const (
	// verifyWithin bounds the read of a child before what was refused of it is remembered.
	verifyWithin = time.Second
	// belowDepth and belowObjects bound what is read below an object to name what is held there.
	belowDepth, belowObjects = 3, 512
)

// remember what was refused, and who requested a deletion that was, before the Drift is stored: the next request may
// be an intent (KR-05-66). Only what is about a stored object is remembered (KR-13-22), which costs a read for each new difference;
// without it, the Drift alone is.
func (dr *Decider) remember(ctx context.Context, req *admission.Request, r *admission.Report) {
	if dr.Held == nil || r == nil || r.Drift.ID == "" || dr.Held.Again(r) {
		return
	}
	if still := stored.Still(dr.Cluster, req, false); still != nil {
		ctx, cancel := context.WithTimeout(ctx, verifyWithin)
		defer cancel()
		if is, err := still(ctx); err != nil || !is {
			return
		}
	}
	dr.Held.Remember(r)
}

// below finds what is held below objects, for warnings and the age of approvals: in the memory of Drifts, and in what the
// composition function recorded on composed resources. It reads caches alone.
type below struct {
	states *states.States
	memory *drift.Memory
}

// Known under an id.
func (b below) Known(id string) admission.Known { return b.memory.Known(id) }

// Below an object, at most admission.MaxBelow.
func (b below) Below(_ context.Context, p *parent.State) []admission.Below {
	left := belowObjects
	out := b.walk(p, belowDepth, &left)
	return out[:min(len(out), admission.MaxBelow)]
}

// walk the objects below a parent. What its direct children hold is its own.
func (b below) walk(p *parent.State, depth int, left *int) []admission.Below {
	out := b.memory.Below(p.Ref, depth == belowDepth)
	for _, ref := range p.Children {
		if *left--; *left < 0 || len(out) >= admission.MaxBelow {
			break
		}
		child := b.states.Cached(ref)
		if child == nil || !owns(p, child.State) {
			continue
		}
		if h, ok := recordedOn(child.State); ok {
			h.Own = depth == belowDepth
			out = append(out, h)
		}
		if depth > 1 && len(child.Children) > 0 {
			out = append(out, b.walk(child.State, depth-1, left)...)
		}
	}
	return out
}

// owns reports whether a child that a parent refers to names it in turn: a reference alone is the claim of any user who may edit
// the parent, and no reason to show what is below another object (KR-13-23).
func owns(p, child *parent.State) bool {
	o := child.Parent
	return o.GroupKind() == p.GroupKind() && o.Name == p.Name && (o.UID == p.UID || o.UID == "" && o.Namespace == p.Namespace)
}

// recordedOn a composed resource by the composition function.
func recordedOn(s *parent.State) (admission.Below, bool) {
	value := s.Annotations[v1alpha1.AnnotationKeyHeld]
	var h v1alpha1.Held
	if value == "" || json.Unmarshal([]byte(value), &h) != nil || len(h.Drift) == 0 {
		return admission.Below{}, false
	}
	out := admission.Below{Child: identity.Describe(s.Ref), Operation: admission.Operation(h.Operation), Paths: h.Paths, ID: h.ID, Digest: change.Digest(h.Digest)}
	if h.Since != nil {
		out.Since = h.Since.Generation
	}
	return out, true
}
