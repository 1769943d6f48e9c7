package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func count(n int32) v1alpha1.RolloutWave   { return v1alpha1.RolloutWave{Count: &n} }
func percent(n int32) v1alpha1.RolloutWave { return v1alpha1.RolloutWave{Percent: &n} }

func labelled(key, value string) v1alpha1.RolloutWave {
	return v1alpha1.RolloutWave{Selector: selecting(key, value)}
}

func selecting(key, value string) *v1alpha1.RolloutSelector {
	return &v1alpha1.RolloutSelector{Labels: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

// revision is the cause of the changes of these tests.
var revision = v1alpha1.RolloutCause{CompositionRevision: "xdatabases-7f3"}

// TestInvalid: what of a spec means nothing is named with its path (KR-14-50).
func TestInvalid(t *testing.T) {
	for _, tc := range []struct {
		reason    string
		spec      v1alpha1.RolloutSpec
		namespace string
		want      []string
	}{
		{reason: "a Rollout as in the documents", namespace: "shop",
			spec: v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{count(1), percent(10), percent(50), percent(100)}}},
		{reason: "no cause", spec: v1alpha1.RolloutSpec{Waves: []v1alpha1.RolloutWave{count(1)}},
			want: []string{"spec.cause: give at least one of compositionRevision, functionRevision, image, controller, user and external"}},
		{reason: "no waves", spec: v1alpha1.RolloutSpec{Cause: revision}, want: []string{"spec.waves: give at least one"}},
		{reason: "a percentage that is an empty wave", spec: v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{percent(50), count(1),
			percent(50)}},
			want: []string{"spec.waves[2].percent: 50 is an empty wave: 50 percent have had their turn with waves[0]; percentages are of all objects, and increase"}},
		{reason: "a wave after all objects", spec: v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{percent(100), count(1)}},
			want: []string{"spec.waves[1]: is empty: all objects have had their turn with waves[0]"}},
		{reason: "0 percent", spec: v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{percent(0)}},
			want: []string{"spec.waves[0].percent: must be 1 to 100, not 0"}},
		{reason: "two fields of a wave", spec: v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{{Count: new(int32(1)),
			Percent: new(int32(1))}}},
			want: []string{"spec.waves[0]: give one of count, percent and selector"}},
		{reason: "another Namespace", namespace: "shop",
			spec: v1alpha1.RolloutSpec{Cause: revision, Selector: &v1alpha1.RolloutSelector{Namespaces: []string{"other"}},
				Waves: []v1alpha1.RolloutWave{count(1)}},
			want: []string{"spec.selector.namespaces: a Rollout is of its own Namespace; use a ClusterRollout for others"}},
		{reason: "no time to become healthy", spec: v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{count(1)},
			Advance: v1alpha1.RolloutAdvance{After: &metav1.Duration{}}}, want: []string{"spec.advance.after: must be more than 0, not 0s"}},
		{reason: "external with another cause", spec: v1alpha1.RolloutSpec{Cause: v1alpha1.RolloutCause{External: true, User: "hans"},
			Waves: []v1alpha1.RolloutWave{count(1)}},
			want: []string{"spec.cause.external: goes with no other cause"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, rollout.Invalid(&tc.spec, tc.namespace)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// waiting change of an object, which is numbered, in a Namespace.
func waiting(namespace string, n int, edit ...func(*v1alpha1.Drift)) rollout.Pending {
	name := fmt.Sprintf("db-%03d", n)
	d := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%016x", n)}}
	d.Spec = v1alpha1.DriftSpec{ID: d.Name, Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE",
		SuggestedApproval: "kubectl annotate",
		Parent: v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "XDatabase", Namespace: namespace, Name: name,
			UID: types.UID(namespace + name)},
		Child:  v1alpha1.ObjectReference{APIVersion: "rds.example.org/v1", Kind: "Instance", Namespace: namespace, Name: name + "-x"},
		Causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3", Author: "hans@example.com"}}}
	since := metav1.NewTime(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &since}
	for _, e := range edit {
		e(d)
	}
	tier := "gold"
	if n%2 == 0 {
		tier = "silver"
	}
	return rollout.Pending{Drift: d, Labels: map[string]string{"tier": tier}}
}

// TestWanted: a Rollout is of what waits for its causes and no others (KR-14-51).
func TestWanted(t *testing.T) {
	spec := v1alpha1.RolloutSpec{Cause: revision}
	for _, tc := range []struct {
		reason string
		spec   v1alpha1.RolloutSpec
		change rollout.Pending
		want   bool
	}{
		{reason: "of the cause", spec: spec, change: waiting("shop", 1), want: true},
		{reason: "of another Namespace", spec: spec, change: waiting("other", 1)},
		{reason: "resolved", spec: spec, change: waiting("shop", 1, func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved })},
		{reason: "cannot be approved", spec: spec, change: waiting("shop", 1, func(d *v1alpha1.Drift) { d.Spec.SuggestedApproval = "" })},
		{reason: "another revision may be the cause, too", spec: spec, change: waiting("shop", 1, func(d *v1alpha1.Drift) {
			d.Spec.Causes = append(d.Spec.Causes, v1alpha1.HopCause{Kind: v1alpha1.CauseFunction, Name: "function-x"})
		})},
		{reason: "all causes are given", spec: v1alpha1.RolloutSpec{Cause: v1alpha1.RolloutCause{CompositionRevision: "xdatabases-7f3",
			FunctionRevision: "function-x"}},
			change: waiting("shop", 1, func(d *v1alpha1.Drift) {
				d.Spec.Causes = append(d.Spec.Causes, v1alpha1.HopCause{Kind: v1alpha1.CauseFunction, Name: "function-x"})
			}), want: true},
		{reason: "unknown cause", spec: spec, change: waiting("shop", 1, func(d *v1alpha1.Drift) { d.Spec.Causes = nil })},
		{reason: "a user of the same name", spec: spec, change: waiting("shop", 1, func(d *v1alpha1.Drift) { d.Spec.Causes[0].Kind = v1alpha1.CauseUser })},
		{reason: "external drift", spec: v1alpha1.RolloutSpec{Cause: v1alpha1.RolloutCause{External: true}},
			change: waiting("shop", 1, func(d *v1alpha1.Drift) { d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, "" }), want: true},
		{reason: "the deletion of an external resource is no external drift", spec: v1alpha1.RolloutSpec{Cause: v1alpha1.RolloutCause{External: true}},
			change: waiting("shop", 1, func(d *v1alpha1.Drift) { d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, "DELETE" })},
		{reason: "recorded in another Namespace, whose editors may have forged it", spec: spec, change: waiting("shop", 1, func(d *v1alpha1.Drift) {
			d.Namespace = "other"
		})},
		{reason: "under another name", spec: spec, change: waiting("shop", 1, func(d *v1alpha1.Drift) { d.Name = "0000000000000002" })},
		{reason: "by labels of the parent", spec: v1alpha1.RolloutSpec{Cause: revision, Selector: selecting("tier", "gold")}, change: waiting("shop", 1),
			want: true},
		{reason: "by other labels", spec: v1alpha1.RolloutSpec{Cause: revision, Selector: selecting("tier", "gold")}, change: waiting("shop", 2)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := rollout.Wanted(&tc.spec, "shop", tc.change); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestWaves: each object is in one wave, in a fixed order (KR-14-53).
func TestWaves(t *testing.T) {
	var all []rollout.Pending
	for n := range 30 {
		all = append(all, waiting("shop", 30-n))
	}
	for _, tc := range []struct {
		reason string
		waves  []v1alpha1.RolloutWave
		want   []int
	}{
		{reason: "percentages are of all that have had their turn", waves: []v1alpha1.RolloutWave{count(1), percent(10), percent(50), percent(100)},
			want: []int{1, 2, 12, 15}},
		{reason: "rounded up", waves: []v1alpha1.RolloutWave{percent(1), percent(34), percent(100)}, want: []int{1, 10, 19}},
		{reason: "by labels", waves: []v1alpha1.RolloutWave{labelled("tier", "silver"), percent(100)}, want: []int{15, 15}},
		{reason: "the rest is left out", waves: []v1alpha1.RolloutWave{count(3)}, want: []int{3}},
		{reason: "more than there are", waves: []v1alpha1.RolloutWave{count(40), percent(100)}, want: []int{30, 0}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			spec := v1alpha1.RolloutSpec{Cause: revision, Waves: tc.waves}
			p := rollout.New("uid", &spec, all)
			totals := make([]int, len(tc.waves))
			for _, o := range p.Objects {
				totals[o.Wave-1]++
			}
			if diff := cmp.Diff(tc.want, totals); diff != "" {
				t.Error(diff)
			}
			seen := map[string]int32{}
			last := ""
			for _, o := range p.Objects {
				if _, twice := seen[o.Name]; twice {
					t.Errorf("%s is listed twice", o.Name)
				}
				key := fmt.Sprintf("%02d %s", o.Wave, o.Name)
				if key < last {
					t.Errorf("%s comes after %s", key, last)
				}
				seen[o.Name], last = o.Wave, key
			}
			shuffled := slices.Clone(all)
			slices.Reverse(shuffled)
			if again := rollout.New("uid", &spec, shuffled); again.ID != p.ID {
				t.Errorf("the order of the list makes another plan")
			}
		})
	}
}

// TestPlanID: what is approved is one plan; another Rollout, spec, object, difference or occurrence is another one (KR-14-52).
func TestPlanID(t *testing.T) {
	spec := v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{count(1), percent(100)}}
	all := []rollout.Pending{waiting("shop", 1), waiting("shop", 2)}
	id := rollout.New("uid", &spec, all).ID
	if len(id) != 16 {
		t.Fatalf("the id is %q", id)
	}
	steered := spec
	steered.Stop, steered.Proceed = true, 2
	if got := rollout.New("uid", &steered, all).ID; got != id {
		t.Error("stop and proceed make another plan")
	}
	later := metav1.NewTime(time.Date(2026, 1, 6, 9, 0, 0, 0, time.UTC))
	patient := spec
	patient.Advance.MaxUnhealthy = 1
	for reason, other := range map[string]string{
		"another Rollout": rollout.New("other", &spec, all).ID,
		"another spec":    rollout.New("uid", &patient, all).ID,
		"one object less": rollout.New("uid", &spec, all[:1]).ID,
		"another difference": rollout.New("uid", &spec, []rollout.Pending{all[0], waiting("shop", 2,
			func(d *v1alpha1.Drift) { d.Spec.ID = "00000000000000ff" })}).ID,
		"another occurrence": rollout.New("uid", &spec, []rollout.Pending{all[0], waiting("shop", 2, func(d *v1alpha1.Drift) { d.Status.Since = &later })}).ID,
	} {
		if other == id {
			t.Errorf("%s has the same id", reason)
		}
	}
}

// TestBatches: no batch comes near the size of a request.
func TestBatches(t *testing.T) {
	var all []rollout.Pending
	for n := range 1200 {
		all = append(all, waiting("shop", n))
	}
	spec := v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{percent(100)}}
	p := rollout.New("uid", &spec, all)
	var sizes []int
	for _, b := range rollout.Batches(p.Objects) {
		sizes = append(sizes, len(b))
	}
	if diff := cmp.Diff([]int{500, 500, 200}, sizes); diff != "" {
		t.Error(diff)
	}
}

// TestNext: a wave begins when the one before has had its time and is healthy (KR-14-53, KR-14-54).
func TestNext(t *testing.T) {
	now := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	long, short := now.Add(-time.Hour), now.Add(-time.Minute)
	wave := func(waiting, approved, done, unhealthy int32) v1alpha1.RolloutWaveStatus {
		return v1alpha1.RolloutWaveStatus{Total: waiting + approved + done + unhealthy, Waiting: waiting, Approved: approved, Done: done, Unhealthy: unhealthy}
	}
	for _, tc := range []struct {
		reason   string
		progress rollout.Progress
		edit     func(*v1alpha1.RolloutSpec)
		phase    v1alpha1.RolloutPhase
		wave     int32
		approve  bool
		message  string
	}{
		{reason: "without votes nothing passes", progress: rollout.Progress{Lacks: "0 of 1 approvals; needs 1 more"}, phase: v1alpha1.RolloutPending,
			message: "0 of 1 approvals; needs 1 more"},
		{reason: "a withdrawn vote holds what is under way", progress: rollout.Progress{Lacks: "0 of 1 approvals", Wave: 1}, phase: v1alpha1.RolloutPending,
			wave: 1},
		{reason: "the first wave begins", progress: rollout.Progress{}, phase: v1alpha1.RolloutProgressing, wave: 1, approve: true},
		{reason: "stop holds before the first", edit: func(s *v1alpha1.RolloutSpec) { s.Stop = true }, phase: v1alpha1.RolloutStopped, message: "spec.stop"},
		{reason: "the wave goes on", progress: rollout.Progress{Wave: 1, Waves: []v1alpha1.RolloutWaveStatus{wave(1, 2, 0, 0), wave(2, 0, 0, 0)}},
			phase: v1alpha1.RolloutProgressing, wave: 1, approve: true},
		{reason: "it has time", progress: rollout.Progress{Wave: 1, ThroughAt: short, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 1, 2, 0), wave(2, 0, 0, 0)}},
			phase: v1alpha1.RolloutProgressing, wave: 1, message: "2 of 3 objects are healthy"},
		{reason: "healthy at once has its time, too", progress: rollout.Progress{Wave: 1, ThroughAt: short, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0,
			3, 0), wave(2, 0, 0, 0)}},
			phase: v1alpha1.RolloutProgressing, wave: 1},
		{reason: "the next wave begins", progress: rollout.Progress{Wave: 1, ThroughAt: long, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0, 3, 0), wave(2,
			0, 0, 0)}},
			phase: v1alpha1.RolloutProgressing, wave: 2, approve: true},
		{reason: "it stops", progress: rollout.Progress{Wave: 1, ThroughAt: long, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 1, 2, 0), wave(2, 0, 0, 0)}},
			phase: v1alpha1.RolloutStopped, wave: 1,
			message: "1 of 3 objects of wave 1 were not healthy 10m0s after they were let through; to go on nevertheless, set spec.proceed to 2"},
		{reason: "it stays stopped", progress: rollout.Progress{Wave: 1, ThroughAt: long, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0, 2, 1), wave(2, 0,
			0, 0)}},
			phase: v1alpha1.RolloutStopped, wave: 1},
		{reason: "a person goes on", progress: rollout.Progress{Wave: 1, ThroughAt: long, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0, 2, 1), wave(2, 0,
			0, 0)}},
			edit: func(s *v1alpha1.RolloutSpec) { s.Proceed = 2 }, phase: v1alpha1.RolloutProgressing, wave: 2, approve: true},
		{reason: "so many may be unhealthy", progress: rollout.Progress{Wave: 1, ThroughAt: long, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 1, 2, 0),
			wave(2, 0, 0, 0)}},
			edit: func(s *v1alpha1.RolloutSpec) { s.Advance.MaxUnhealthy = 1 }, phase: v1alpha1.RolloutProgressing, wave: 2, approve: true},
		{reason: "manual waits", progress: rollout.Progress{Wave: 1, ThroughAt: long, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0, 3, 0), wave(2, 0, 0, 0)}},
			edit: func(s *v1alpha1.RolloutSpec) { s.Advance.Manual = true }, phase: v1alpha1.RolloutPaused, wave: 1,
			message: "to begin wave 2, set spec.proceed to 2"},
		{reason: "a time is over", progress: rollout.Progress{Wave: 1, ThroughAt: long, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0, 3, 0), wave(2, 0, 0,
			0)}},
			edit: func(s *v1alpha1.RolloutSpec) { s.Advance.Manual, s.Proceed = true, 2 }, phase: v1alpha1.RolloutProgressing, wave: 2, approve: true},
		{reason: "it is complete", progress: rollout.Progress{Wave: 2, ThroughAt: short, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0, 3, 0), wave(0, 0, 2,
			0)}},
			phase: v1alpha1.RolloutCompleted, wave: 2, message: "5 objects are done"},
		{reason: "a new leader looks before it judges", progress: rollout.Progress{Wave: 1, ThroughAt: long, Began: now.Add(-20 * time.Second),
			Waves: []v1alpha1.RolloutWaveStatus{wave(0, 1, 2, 0), wave(2, 0, 0, 0)}}, phase: v1alpha1.RolloutProgressing, wave: 1},
		{reason: "an empty wave takes no time", progress: rollout.Progress{Wave: 1, ThroughAt: short, Waves: []v1alpha1.RolloutWaveStatus{wave(0, 0, 0, 0),
			wave(2, 0, 0, 0)}},
			phase: v1alpha1.RolloutProgressing, wave: 2, approve: true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			spec := v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{count(3), percent(100)}}
			if tc.edit != nil {
				tc.edit(&spec)
			}
			p := tc.progress
			p.Spec, p.Now = &spec, now
			if p.Waves == nil {
				p.Waves = []v1alpha1.RolloutWaveStatus{wave(3, 0, 0, 0), wave(2, 0, 0, 0)}
			}
			got := p.Next()
			if got.Phase != tc.phase || got.Wave != tc.wave || got.Approve != tc.approve || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

const plan = "0123456789abcdef"

// TestReview: votes for Rollouts are those of requests, and no user writes those of another (KR-14-57).
func TestReview(t *testing.T) {
	spec := &v1alpha1.RolloutSpec{Cause: revision, Waves: []v1alpha1.RolloutWave{count(1)}}
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	vote := func(stored map[string]string, user, value string) map[string]string {
		incoming := map[string]string{v1alpha1.AnnotationKeyApprovePrefix + plan: value}
		for k, v := range stored {
			incoming[k] = v
		}
		out := rollout.Review{Stored: stored, Incoming: incoming, Spec: spec, Plan: plan, Namespace: "shop", User: subject.User{Name: user},
			Manager: "kubectl", Now: at}.Decide()
		if out.Refused != "" {
			t.Fatalf("the vote of %s is refused: %s", user, out.Refused)
		}
		after := map[string]string{}
		for k, v := range incoming {
			after[k] = v
		}
		for k, v := range out.Edits {
			if v == nil {
				delete(after, k)
			} else {
				after[k] = *v
			}
		}
		for k := range approval.Counted(after) { // as the controller does
			delete(after, k)
		}
		return after
	}
	voters := func(annotations map[string]string) (out []string) {
		votes, _ := rollout.Votes(annotations, plan, at, func([]v1alpha1.Vote) (string, bool) { return "", false })
		for _, v := range votes {
			out = append(out, v.User)
		}
		return out
	}
	two := vote(vote(map[string]string{}, "anna", "once"), "bob", "once")
	if diff := cmp.Diff([]string{"anna", "bob"}, voters(two)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"bob"}, voters(vote(two, "anna", "withdraw"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"anna", "bob"}, voters(vote(two, "mallory", "withdraw"))); diff != "" {
		t.Error(diff)
	}
	forged := rollout.Review{Stored: map[string]string{}, Incoming: two, Spec: spec, Plan: plan, Namespace: "shop", User: subject.User{Name: "mallory"},
		Now: at}.Decide()
	if v, is := forged.Edits[v1alpha1.AnnotationKeyClaims]; !is || v != nil {
		t.Errorf("forged claims stay: %+v", forged)
	}
	removed := rollout.Review{Stored: two, Incoming: map[string]string{}, Spec: spec, Plan: plan, Namespace: "shop", User: subject.User{Name: "mallory"},
		Now: at}.Decide()
	if v := removed.Edits[v1alpha1.AnnotationKeyClaims]; v == nil || *v != two[v1alpha1.AnnotationKeyClaims] {
		t.Errorf("the votes are taken away: %+v", removed)
	}
	restored := rollout.Review{New: true, Incoming: two, Spec: spec, Namespace: "shop", User: subject.User{Name: "velero"}, Now: at}.Decide()
	if v, is := restored.Edits[v1alpha1.AnnotationKeyClaims]; !is || v != nil || len(restored.Warnings) == 0 {
		t.Errorf("a restored Rollout has votes: %+v", restored)
	}
	for _, tc := range []struct {
		reason   string
		was, now v1alpha1.RolloutSpec
		new      bool
		approves bool
	}{
		{reason: "nothing"},
		{reason: "stopped", now: v1alpha1.RolloutSpec{Stop: true}},
		{reason: "resumed", was: v1alpha1.RolloutSpec{Stop: true}, approves: true},
		{reason: "goes on", was: v1alpha1.RolloutSpec{Proceed: 2}, now: v1alpha1.RolloutSpec{Proceed: 3}, approves: true},
		{reason: "as before", was: v1alpha1.RolloutSpec{Proceed: 2}, now: v1alpha1.RolloutSpec{Proceed: 2}},
		{reason: "from the beginning", now: v1alpha1.RolloutSpec{Proceed: 32}, new: true, approves: true},
	} {
		now := *spec
		now.Stop, now.Proceed = tc.now.Stop, tc.now.Proceed
		out := rollout.Review{New: tc.new, Spec: &now, Was: tc.was, Plan: plan, Namespace: "shop", User: subject.User{Name: "anna"}, Now: at}.Decide()
		if out.Refused != "" || out.Approves != tc.approves {
			t.Errorf("%s: got %+v", tc.reason, out)
		}
	}
	for reason, annotations := range map[string]map[string]string{
		"as a whole":            {v1alpha1.AnnotationKeyApprovals: `[{"kind":"*","name":"*","mode":"always"}]`},
		"must be once":          {v1alpha1.AnnotationKeyApprovePrefix + plan: "always"},
		"annotation kausality.": {v1alpha1.AnnotationKeyApprovePrefix + plan: "yes"},
	} {
		out := rollout.Review{Stored: map[string]string{}, Incoming: annotations, Spec: spec, Plan: plan, User: subject.User{Name: "anna"}, Now: at}.Decide()
		if !strings.Contains(out.Refused, reason) {
			t.Errorf("want a refusal with %q, got %+v", reason, out)
		}
	}
}

// TestLacks: a Rollout needs the votes that the rules of any of its changes require, once for the whole (KR-14-55).
func TestLacks(t *testing.T) {
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	rule := func(name, namespace string, count int32, group string, windows ...v1alpha1.ApprovalWindow) *allowance.Rule {
		r := &v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Spec.Match.Namespaces = []string{namespace}
		r.Spec.Require = []v1alpha1.RequiredVotes{{Count: count, NotAuthors: true, Subjects: []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: group}}}}
		if len(windows) > 0 {
			r.Spec.Windows = &v1alpha1.ApprovalWindows{Allow: windows}
		}
		out, errs := allowance.CompileRule(r)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return out
	}
	set := (&allowance.Set{}).WithRules([]*allowance.Rule{rule("dba", "shop", 2, "dba"), rule("net", "net", 1, "net")})
	atNight := (&allowance.Set{}).WithRules([]*allowance.Rule{rule("nights", "shop", 1, "dba",
		v1alpha1.ApprovalWindow{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}})})
	vote := func(user, group string) v1alpha1.Vote {
		return v1alpha1.Vote{User: user, At: metav1.NewTime(at), Groups: []string{group}}
	}
	shop, other := waiting("shop", 1), waiting("other", 2)
	changes := []allowance.Change{rollout.ChangeOf(&shop.Drift.Spec, nil), rollout.ChangeOf(&other.Drift.Spec, nil)}
	authors := rollout.Authors(&shop.Drift.Spec, []string{"erik"})
	if diff := cmp.Diff([]string{"erik", "hans@example.com"}, authors); diff != "" {
		t.Error(diff)
	}
	unknown := &v1alpha1.DriftSpec{Causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "shop-1"}, {Kind: v1alpha1.CauseController, Name: "c"}}}
	if diff := cmp.Diff([]string{"", "erik"}, rollout.Authors(unknown, []string{"erik"})); diff != "" {
		t.Errorf("the author of a revision that is not known: %s", diff)
	}
	for _, tc := range []struct {
		reason  string
		set     *allowance.Set
		changes []allowance.Change
		votes   []v1alpha1.Vote
		after   time.Duration
		want    string
		waits   bool
	}{
		{reason: "no rule: one approval", changes: changes, want: "0 of 1 approvals; needs 1 more"},
		{reason: "given", changes: changes, votes: []v1alpha1.Vote{vote("anna", "")}},
		{reason: "a rule of one of the changes", set: set, changes: changes, votes: []v1alpha1.Vote{vote("anna", "dba")},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not erik or hans@example.com (ApprovalRule dba)"},
		{reason: "the author does not count", set: set, changes: changes, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("hans@example.com", "dba")},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not erik or hans@example.com (ApprovalRule dba)"},
		{reason: "met", set: set, changes: changes, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}},
		{reason: "rules of none of the changes", set: set, changes: changes[1:], votes: []v1alpha1.Vote{vote("anna", "")}},
		{reason: "a window is waited for", set: atNight, changes: changes, votes: []v1alpha1.Vote{vote("anna", "dba")},
			want: "window opens Mon 22:00 UTC (ApprovalRule nights)", waits: true},
		{reason: "a window is open", set: atNight, changes: changes, after: 12 * time.Hour, votes: []v1alpha1.Vote{vote("anna", "dba")}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got, waits := rollout.Lacks(tc.set, tc.changes, allowance.Authors{Names: authors}, tc.votes, at.Add(tc.after)); got != tc.want || waits != tc.waits {
				t.Errorf("got %q, waits %t", got, waits)
			}
		})
	}
}

// TestGivenOnce: a plan approves a difference once, also where it is tried again after its approval was used (KR-14-56).
func TestGivenOnce(t *testing.T) {
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	a := v1alpha1.Approval{Digest: "00000000000000aa", Reason: rollout.Reason("Rollout", "shop", "pg16", plan)}
	votes := []v1alpha1.Vote{{User: "anna", At: metav1.NewTime(at)}}
	claims, refused := approval.Claims(nil).Give(a, votes, 3, at)
	if refused != "" || len(claims) != 1 || !claims[0].Votes || claims[0].Generation != 3 || claims[0].By[0].User != "anna" {
		t.Fatalf("got %+v, %s", claims, refused)
	}
	given := approval.Parse(map[string]string{v1alpha1.AnnotationKeyClaims: claims.String()})
	match, ok := given.Approved(approval.Query{Digests: []change.Digest{change.Digest(a.Digest)},
		Intent: 3})
	if !ok || match.Entry.Mode != v1alpha1.ApprovalOnce {
		t.Errorf("the difference is not approved: %+v", match)
	}
	claims[0].State = v1alpha1.ClaimUsed
	if again, _ := claims.Give(a, votes, 3, at); len(again) != 1 || again[0].State != v1alpha1.ClaimUsed {
		t.Errorf("it is approved twice: %+v", again)
	}
	other := a
	other.Reason = rollout.Reason("Rollout", "shop", "pg16", "fedcba9876543210")
	if again, _ := claims.Give(other, votes, 3, at); len(again) != 2 {
		t.Errorf("another plan cannot approve it: %+v", again)
	}
	var full approval.Claims
	for n := range v1alpha1.MaxVoted {
		full, _ = full.Give(v1alpha1.Approval{Digest: fmt.Sprintf("%016x", n)}, votes, 3, at)
	}
	if _, refused = full.Give(a, votes, 3, at); refused == "" {
		t.Error("an object stores votes without end")
	}
}
