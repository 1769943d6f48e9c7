package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Progress of a Rollout whose plan is made.
type Progress struct {
	Spec *v1alpha1.RolloutSpec
	// Lacks is what the votes for the plan lack; "" where it is approved.
	Lacks string
	// Wave that is let through; 0 before the first. ThroughAt is when its last object was.
	Wave      int32
	ThroughAt time.Time
	// Began is when this process began to watch the Rollout: what happened while no process did is not known at once.
	Began time.Time
	// Waves counts the objects.
	Waves []v1alpha1.RolloutWaveStatus
	Now   time.Time
}

// Step is what a Rollout does next.
type Step struct {
	Phase   v1alpha1.RolloutPhase
	Message string
	// Wave that is let through from now on; it is another one than before where one begins.
	Wave int32
	// Approve the objects of the wave that wait.
	Approve bool
	// Overdue: the objects of the wave that are not healthy count as unhealthy from now on.
	Overdue bool
	// Again is when to look again where nothing changes; 0 for never.
	Again time.Duration
}

// healthPoll is how often the health of what was let through is observed.
const healthPoll = 2 * time.Second

// Next returns the next step of a Rollout (KR-14-53, KR-14-54). A wave begins when the one before has
// had its time, and no more of its objects than allowed are not healthy.
func (p Progress) Next() Step {
	switch {
	case p.Lacks != "":
		return Step{Phase: v1alpha1.RolloutPending, Wave: p.Wave, Message: p.Lacks}
	case p.Spec.Stop:
		return Step{Phase: v1alpha1.RolloutStopped, Wave: p.Wave, Message: "stopped by spec.stop"}
	case p.Wave < 1:
		return Step{Phase: v1alpha1.RolloutProgressing, Wave: 1, Approve: true, Again: healthPoll, Message: p.describe(1)}
	}
	w := p.Waves[p.Wave-1]
	if w.Waiting > 0 || p.ThroughAt.IsZero() {
		return Step{Phase: v1alpha1.RolloutProgressing, Wave: p.Wave, Approve: true, Again: healthPoll, Message: p.describe(p.Wave)}
	}
	last := int(p.Wave) == len(p.Waves)
	sick := w.Approved + w.Unhealthy
	if last && sick == 0 {
		return p.completed()
	}
	if left := p.over().Sub(p.Now); left > 0 && w.Total > w.LeftOut {
		return Step{Phase: v1alpha1.RolloutProgressing, Wave: p.Wave, Again: min(left, healthPoll), Message: p.describe(p.Wave)}
	}
	ordered := p.Spec.Proceed > p.Wave
	switch {
	case sick > p.Spec.Advance.MaxUnhealthy && !ordered:
		return Step{Phase: v1alpha1.RolloutStopped, Wave: p.Wave, Overdue: true, Message: fmt.Sprintf(
			"%d of %d objects of wave %d were not healthy %s after they were let through; to go on nevertheless, set spec.proceed to %d",
			sick, w.Total, p.Wave, After(p.Spec), p.Wave+1)}
	case last:
		return p.completed()
	case p.Spec.Advance.Manual && !ordered:
		return Step{Phase: v1alpha1.RolloutPaused, Wave: p.Wave, Overdue: true,
			Message: fmt.Sprintf("wave %d is done; to begin wave %d, set spec.proceed to %d", p.Wave, p.Wave+1, p.Wave+1)}
	}
	return Step{Phase: v1alpha1.RolloutProgressing, Wave: p.Wave + 1, Approve: true, Overdue: true, Again: healthPoll, Message: p.describe(p.Wave + 1)}
}

// watchedFor is how long a process watches a Rollout at least before it judges the health of objects.
const watchedFor = 30 * time.Second

// over returns when the time of the wave is over.
func (p Progress) over() time.Time {
	over := p.ThroughAt.Add(After(p.Spec))
	if watched := p.Began.Add(min(watchedFor, After(p.Spec))); over.Before(watched) {
		return watched
	}
	return over
}

func (p Progress) completed() Step {
	var done, sick, out int32
	for _, w := range p.Waves {
		done, sick, out = done+w.Done, sick+w.Approved+w.Unhealthy, out+w.LeftOut
	}
	text := fmt.Sprintf("%d objects are done", done)
	if sick > 0 {
		text += fmt.Sprintf(", %d are not healthy", sick)
	}
	if out > 0 {
		text += fmt.Sprintf(", %d were left out", out)
	}
	return Step{Phase: v1alpha1.RolloutCompleted, Wave: p.Wave, Overdue: true, Message: text}
}

// describe returns a description of a wave that is let through.
func (p Progress) describe(wave int32) string {
	w := p.Waves[wave-1]
	text := fmt.Sprintf("wave %d of %d: %d of %d objects are healthy", wave, len(p.Waves), w.Done, w.Total)
	if w.Waiting > 0 {
		text += fmt.Sprintf(", %d wait to be let through", w.Waiting)
	}
	return text
}

// Count returns the number of objects in each wave by their states.
func Count(waves int, objects []v1alpha1.RolloutObject, states []v1alpha1.RolloutObjectStatus) []v1alpha1.RolloutWaveStatus {
	out := make([]v1alpha1.RolloutWaveStatus, waves)
	for i, o := range objects {
		if o.Wave < 1 || int(o.Wave) > waves {
			continue
		}
		w := &out[o.Wave-1]
		w.Total++
		switch states[i].State {
		case v1alpha1.RolloutObjectApproved:
			w.Approved++
		case v1alpha1.RolloutObjectDone:
			w.Done++
		case v1alpha1.RolloutObjectUnhealthy:
			w.Unhealthy++
		case v1alpha1.RolloutObjectLeftOut:
			w.LeftOut++
		default:
			w.Waiting++
		}
	}
	return out
}

// Lacks returns what votes lack for all changes of a plan together: every ApprovalRule that matches one of them
// must be met (KR-14-55), and its windows open. Without rules one approval is enough. It is the Lacks of a Query.
func Lacks(set *allowance.Set, changes []allowance.Change, authors allowance.Authors, votes []v1alpha1.Vote, now time.Time) (lacking string, waits bool) {
	rules := set.MatchingAny(changes)
	if len(rules) == 0 && len(votes) == 0 {
		return "0 of 1 approvals; needs 1 more", false
	}
	return rules.Lacks(votes, authors, now)
}

// ChangeOf returns the change of a Drift, as ApprovalRules see it: by what the Drift shows. own are the
// labels of the child.
func ChangeOf(d *v1alpha1.DriftSpec, own map[string]string) allowance.Change {
	kind := schema.FromAPIVersionAndKind(d.Child.APIVersion, d.Child.Kind).GroupKind()
	out := allowance.Change{Kind: kind, Namespace: d.Child.Namespace, Name: d.Child.Name, Labels: own, Relation: d.Relation,
		Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}}
	switch d.Operation {
	case "CREATE":
		out.Verbs = []v1alpha1.Verb{v1alpha1.VerbCreate}
	case "DELETE":
		out.Verbs = []v1alpha1.Verb{v1alpha1.VerbDelete}
	}
	for _, f := range d.Difference {
		out.Changes = append(out.Changes, change.Change{Path: f.Path, Verb: change.Verb(f.Verb), Old: valueOf(f.Old), New: valueOf(f.New)})
	}
	return out
}

// valueOf returns the value of a field from its text in a Drift: JSON, or what is shown in place of a
// secret.
func valueOf(text string) any {
	var out any
	if text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return text
	}
	return out
}

// Authors returns the authors of a change: the given initiators of the parent's intent, and the users
// who made what causes the change (KR-14-05), "" for those that are not known.
func Authors(d *v1alpha1.DriftSpec, initiators []string) []string {
	out := slices.Clone(initiators)
	for _, c := range d.Causes {
		if c.Author != "" || c.Kind.IsRevision() {
			out = append(out, c.Author)
		}
		if c.Kind == v1alpha1.CauseUser {
			out = append(out, c.Name)
		}
	}
	if len(d.Causes) >= v1alpha1.MaxHopCauses { // there may be more
		out = append(out, "")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// HeldSince returns the intent of a parent after which a change was first held, by its generation.
func HeldSince(d *v1alpha1.Drift, p *parent.State) int64 {
	if h := d.Status.Held; h != nil && h.Since != nil {
		return h.Since.Generation
	}
	intent, _ := trace.Intent(p)
	return intent.Generation
}

// Reason returns the reason of the approvals of a plan. With it, they are other approvals than those of
// another plan, so that each difference is approved once by each (KR-14-56).
func Reason(kind, namespace, name, plan string) string {
	return fmt.Sprintf("%s %s, plan %s", kind, strings.TrimPrefix(namespace+"/"+name, "/"), plan)
}

// Via of the votes that a Rollout passes on.
const Via = "rollout"
