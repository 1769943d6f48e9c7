package drift

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// known differences under one id: the Namespace of their Drift, and the users who requested a deletion.
type known struct {
	namespace string
	// stored: a Drift has it. Otherwise this replica refused it.
	stored bool
	admission.Known
}

// Known returns what was refused or reported under an id, until its Drift is resolved. It is not modified.
func (m *Memory) Known(id string) admission.Known {
	m.mu.RLock()
	defer m.mu.RUnlock()
	k := m.known[id]
	k.Stored = k.stored
	return k.Known
}

// maxSameID bounds the digests that are known under one id: with two, it approves neither.
const maxSameID = 2

// maxDropTries bounds the search for what makes room.
const maxDropTries = 64

// dropKnown makes room for another known difference by removing one that no Drift has. A user who is refused in many ways must not hide
// what others are refused.
func dropKnown(of map[string]known) bool {
	tries := 0
	for id, k := range of { // in random order
		if !k.stored && len(k.Requesters) == 0 {
			delete(of, id)
			return true
		}
		if tries++; tries == maxDropTries {
			return false
		}
	}
	return false
}

// note a known difference, the Namespace of its Drift, and who requested it. stored reports that it comes from its Drift. The caller holds the lock.
func (m *Memory) note(namespace string, stored bool, d *v1alpha1.DriftSpec, requesters ...string) {
	have, is := m.known[d.ID]
	if is && have.namespace != namespace {
		return
	}
	have.namespace, have.stored = namespace, have.stored || stored
	have.External = have.External || d.Relation == v1alpha1.RelationExternal
	if digest := change.Digest(d.Digest); digest != "" && !slices.Contains(have.Digests, digest) && len(have.Digests) < maxSameID {
		have.Digests = append(slices.Clip(have.Digests), digest)
	}
	for _, u := range requesters {
		have.Requesters = requestersOf(slices.Clip(have.Requesters), u)
	}
	if have.Is() && (is || len(m.known) < maxDetailed || dropKnown(m.known)) {
		m.known[d.ID] = have
	}
}

// removeKnown removes a known difference and the users who requested it. It returns the keys under which the difference may be remembered: a Drift
// of an earlier release has no digest. The caller holds the lock.
func (m *Memory) removeKnown(d *v1alpha1.DriftSpec) (keys []string) {
	keys = []string{keyOf(d)}
	have, is := m.known[d.ID]
	if !is {
		return keys
	}
	have.Requesters = nil
	have.Digests = slices.DeleteFunc(slices.Clone(have.Digests), func(k change.Digest) bool {
		if d.Digest == "" {
			keys = append(keys, string(k))
		}
		return d.Digest == "" || string(k) == d.Digest
	})
	if m.known[d.ID] = have; !have.Is() {
		delete(m.known, d.ID)
	}
	return keys
}

// knows reports whether what is remembered under the id of a Drift is of its Namespace, or nothing is remembered. Ids are
// unique, but Drifts that another user creates may have any name. The caller holds the lock.
func (m *Memory) knows(d *v1alpha1.Drift) bool {
	if e := m.keys[keyOf(&d.Spec)]; e != nil {
		return identity.DriftNamespace(e.namespace, e.child.namespace) == d.Namespace
	}
	k, is := m.known[d.Spec.ID]
	return !is || k.namespace == d.Namespace
}
