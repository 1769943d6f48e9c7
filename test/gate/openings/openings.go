package openings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/history"
)

// Uncalled returns the openings of the gate of a managed resource that nothing called for, as sentences: since the gate was opened or closed last no
// version had another spec, and neither the managed resource nor a holder of its approvals had one for it since the gate was opened last. That
// an open gate lets more through, or another difference, is an opening. holders are the versions of each.
func Uncalled(versions []history.Version, holders ...[]history.Version) []string {
	j := judge{approvers: append([][]history.Version{versions}, holders...), spent: map[approval]int64{}}
	for _, v := range versions {
		if v.Object == nil {
			j.judged, j.changed, j.gate = nil, false, v1alpha1.Gate{}
			continue
		}
		j.next(v)
	}
	return j.wrong
}

// approval of a managed resource, or of the holder of a number, by an annotation.
type approval struct {
	holder     int
	key, value string
}

// interrupts are the reasons for which a gate is closed that is opened again for what it was open for.
var interrupts = []string{v1alpha1.GateReasonFrozen, v1alpha1.GateReasonPending, v1alpha1.GateReasonPaused}

type judge struct {
	approvers [][]history.Version
	judged    map[string]any     // the spec with which the gate was opened or closed last; nil before that
	changed   bool               // a version since then has another spec
	gate      v1alpha1.Gate      // of the version before
	opened    int64              // revision at which the gate was opened last
	spent     map[approval]int64 // revision of the opening that used it
	wrong     []string
}

// next judges a version after those before it.
func (j *judge) next(v history.Version) {
	gate, spec := mask.ParseGate(v.Object.GetAnnotations()), wanted(v.Object)
	j.changed = j.changed || j.judged != nil && !equality.Semantic.DeepEqual(j.judged, spec)
	switch open, was := gate.State == v1alpha1.GateOpen, j.gate.State == v1alpha1.GateOpen; {
	case open && (!was || more(j.gate, gate)):
		if j.judged != nil && !j.changed && !j.approved(gate, v.Revision) {
			j.wrong = append(j.wrong, fmt.Sprintf("the gate was opened at %s without a cause: %+v", v.Seen.Format("05.000"), gate))
		}
		j.opened, j.judged, j.changed = v.Revision, spec, false
	case was && !open && slices.Contains(interrupts, gate.Reason):
		j.changed = true
		maps.DeleteFunc(j.spent, func(_ approval, by int64) bool { return by == j.opened })
	case !open && (was || j.judged == nil):
		j.judged, j.changed = spec, false
	}
	j.gate = gate
}

// more reports whether an open gate lets through what it did not before.
func more(before, now v1alpha1.Gate) bool {
	added := func(v v1alpha1.Verb) bool { return !slices.Contains(before.Verbs, v) }
	return now.Digest != "" && now.Digest != before.Digest || slices.ContainsFunc(now.Verbs, added)
}

// wanted is the spec of a managed resource but for its policies, which the gate writes.
func wanted(o *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	delete(spec, "managementPolicies")
	return spec
}

// approved reports whether a version that was current between the last opening and a revision has an approval that opens the gate. An approval
// for one use counts for one opening where no other can be what opened it.
func (j *judge) approved(gate v1alpha1.Gate, until int64) bool {
	found := map[approval]bool{}
	for n, versions := range j.approvers {
		for i, v := range versions {
			if v.Object == nil || v.Revision > until || i+1 < len(versions) && versions[i+1].Revision <= j.opened {
				continue
			}
			for key, value := range v.Object.GetAnnotations() {
				if a := (approval{n, key, value}); opens(gate, key, value) && !j.used(a, v.Revision) {
					found[a] = strings.HasPrefix(key, v1alpha1.AnnotationKeyApprovePrefix) && strings.HasPrefix(value, string(v1alpha1.ApprovalOnce))
				}
			}
		}
	}
	for a, once := range found {
		if once && len(found) == 1 {
			j.spent[a] = until
		}
	}
	return len(found) > 0
}

// used reports whether an approval that a version has is the one that an opening used: there was no version without it in between.
func (j *judge) used(a approval, revision int64) bool {
	spent, is := j.spent[a]
	return is && !slices.ContainsFunc(j.approvers[a.holder], func(v history.Version) bool {
		return v.Revision > spent && v.Revision < revision && (v.Object == nil || v.Object.GetAnnotations()[a.key] != a.value)
	})
}

// opens reports whether an annotation holds an approval for which the gate may be opened.
func opens(gate v1alpha1.Gate, key, value string) bool {
	if id, is := strings.CutPrefix(key, v1alpha1.AnnotationKeyApprovePrefix); is {
		return id == gate.Digest || slices.Contains(gate.Verbs, v1alpha1.VerbDelete) // by the id of the deletion of what is above it
	}
	var list []v1alpha1.Approval
	return key == v1alpha1.AnnotationKeyApprovals && json.Unmarshal([]byte(value), &list) == nil &&
		slices.ContainsFunc(list, func(a v1alpha1.Approval) bool { return a.Relation == v1alpha1.RelationExternal })
}
