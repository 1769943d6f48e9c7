package settler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// away simulates what happens to one parent while the webhook runs and while it does not, and knows the truth:
// whether there was an intent since the parent settled.
type away struct {
	t     *testing.T
	rng   *rand.Rand
	w     *Settler
	clock *time.Time
	steps []string

	o          *unstructured.Unstructured
	size, zone int64
	// truth, and what of it remains if memory is lost: without a latch whose write failed.
	truth, stored truth
}

type truth struct {
	// open: there was an intent since it settled; traced: one of them is in the trace.
	open, traced bool
	// size it settled at, -1 before; recorded: its state is stored.
	size     int64
	recorded bool
	// filled: its own controller set a field since, so that the settled state decides nothing.
	filled bool
}

func newAway(t *testing.T, seed uint64) *away {
	a := &away{t: t, rng: rand.New(rand.NewPCG(seed, 7)), o: settledWidget(4, nil), size: 5}
	a.stored = truth{open: true, traced: true, size: -1}
	a.o.Object["metadata"].(map[string]any)["managedFields"] = []any{
		map[string]any{
			"manager": "ctrl", "operation": "Update", "subresource": "status", "time": "2026-01-02T11:00:00Z",
			"fieldsV1": map[string]any{"f:status": map[string]any{"f:observedGeneration": map[string]any{}}},
		},
		applied("2026-01-02T11:00:00Z"),
	}
	a.restart()
	return a
}

func (a *away) now() time.Time { return *a.clock }

// both truths change.
func (a *away) both(f func(*truth)) {
	f(&a.truth)
	f(&a.stored)
}

// restart: whatever was in memory is gone.
func (a *away) restart() {
	a.truth = a.stored
	was := a.clock
	a.w, a.clock = idleSettler(a.t)
	if was != nil {
		*a.clock = *was
	}
}

func (a *away) state() *parent.State { return parent.Sum(a.o, parent.RoleNone) }

// write of the author: all that is his gets a new time.
func (a *away) write(o *unstructured.Unstructured) {
	o.Object["metadata"].(map[string]any)["managedFields"].([]any)[1].(map[string]any)["time"] = a.now().Format(time.RFC3339)
}

func (a *away) bump() { a.o.SetGeneration(a.o.GetGeneration() + 1) }

func (a *away) annotate(key string, value *string) {
	all := a.o.GetAnnotations()
	if value == nil {
		delete(all, key)
	} else {
		all[key] = *value
	}
	a.o.SetAnnotations(all)
}

// intent, traced where the webhook sees it.
func (a *away) intent(seen bool) {
	a.write(a.o)
	if n := a.rng.Int64N(3); n != a.size {
		a.size = n
		a.both(func(t *truth) { t.open, t.traced = true, t.traced || seen })
		_ = unstructured.SetNestedField(a.o.Object, n, "spec", "size")
		a.bump()
		if seen {
			value := trace.Trace{trace.Hop(parent.RefOf(a.o), a.o.GetGeneration(), "hans", a.now())}.String()
			a.annotate(v1alpha1.AnnotationKeyTrace, &value)
		}
	}
}

// fill in a field, as the object's own controller does.
func (a *away) fill() {
	a.zone++
	a.both(func(t *truth) { t.filled = true })
	_ = unstructured.SetNestedField(a.o.Object, a.zone, "spec", "zone")
	a.bump()
}

func (a *away) report(ready bool) {
	text := map[bool]string{true: "True", false: "False"}[ready]
	a.o.Object["status"] = map[string]any{"observedGeneration": a.o.GetGeneration(), "conditions": []any{map[string]any{"type": "Ready", "status": text}}}
}

// settle is a turn of the writer, of this release or an older one, whose write
// may get lost.
func (a *away) settle(older, lost bool) {
	edits := map[string]*string{}
	a.w.settle(a.t.Context(), a.state(), edits)
	if older {
		delete(edits, v1alpha1.AnnotationKeySettledState)
	}
	if _, ok := edits[v1alpha1.AnnotationKeySettledGeneration]; ok {
		a.truth = truth{size: a.size}
	}
	if lost || len(edits) == 0 {
		return
	}
	for k, v := range edits {
		a.annotate(k, v)
	}
	if _, ok := edits[v1alpha1.AnnotationKeySettledGeneration]; ok {
		a.stored = a.truth
	} else if _, ok := edits[v1alpha1.AnnotationKeyTrace]; ok { // what is stored is of an older intent
		a.both(func(t *truth) { t.traced, t.recorded = true, false })
	}
	if _, ok := edits[v1alpha1.AnnotationKeySettledState]; ok {
		a.both(func(t *truth) { t.recorded, t.filled = true, false })
	}
	if a.rng.IntN(2) == 0 { // as of a Deployment, which counts annotations
		a.bump()
	}
}

func (a *away) step() {
	*a.clock = a.clock.Add(time.Duration(6+a.rng.IntN(30)) * time.Second)
	ops := []struct {
		name string
		do   func()
	}{
		{name: "an intent", do: func() { a.intent(true) }},
		{name: "an intent while no webhook runs", do: func() { a.intent(false) }},
		{name: "a label", do: func() { a.write(a.o) }},
		{name: "a label", do: func() { a.write(a.o) }},
		{name: "the generation grows", do: a.bump},
		{name: "its controller sets a field", do: a.fill},
		{name: "ready", do: func() { a.report(true) }},
		{name: "ready", do: func() { a.report(true) }},
		{name: "not ready", do: func() { a.report(false) }},
		{name: "the settler", do: func() { a.settle(false, false) }},
		{name: "the settler", do: func() { a.settle(false, false) }},
		{name: "the settler", do: func() { a.settle(false, false) }},
		{name: "the settler of an older release", do: func() { a.settle(true, false) }},
		{name: "the settler, its write is lost", do: func() { a.settle(false, true) }},
		{name: "a restart", do: a.restart},
	}
	op := ops[a.rng.IntN(len(ops))]
	op.do()
	a.steps = append(a.steps, fmt.Sprintf("%s: size %d, generation %d, %v", op.name, a.size, a.o.GetGeneration(), a.o.GetAnnotations()))
}

// wrong returns what does not hold; "" for nothing.
func (a *away) wrong() string {
	s := a.state()
	latched := settling.Settled(s, a.w.memory.Settled(s.Ref))
	switch is := a.truth; {
	case latched && is.open && is.traced:
		return "the parent counts as settled in spite of an intent in its trace"
	case latched && is.open && a.size != is.size:
		return "the desired state is not the one that settled, and the parent counts as settled"
	case !latched && !is.open && is.recorded && !is.filled:
		return "there was no intent since it settled, and the parent counts as unsettled"
	}
	return ""
}

// TestAway: no order of intents, labels, moved generations, lost writes, older
// releases and restarts makes a label an intent where the state was recorded, or
// hides an intent that changed it.
func TestAway(t *testing.T) {
	held, opened := 0, 0
	for seed := range uint64(150) {
		a := newAway(t, seed)
		for range 60 {
			if a.step(); a.wrong() != "" {
				t.Fatalf("seed %d: %s\n%s", seed, a.wrong(), strings.Join(a.steps, "\n"))
			}
			s := a.state()
			own := trace.Of(s.Annotations).Own()
			if a.truth.recorded && !a.truth.open && s.IntentTime.After(own.Timestamp.Time) && s.Generation > own.Generation {
				held++
			}
			if hop, recorded := trace.Intent(s); a.truth.recorded && !recorded && hop.Unattributed {
				opened++
			}
		}
	}
	if held < 100 || opened < 100 {
		t.Errorf("%d labels were distinguished from intents and %d missed intents found, want 100 of each: the runs do not get there", held, opened)
	}
}
