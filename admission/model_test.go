package admission

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/hack/campaign"
)

var (
	modelSeeds = flag.Uint64("model.seeds", 300, "how many random runs of the model")
	modelFirst = flag.Uint64("model.first", 1, "the first of them")
	modelSeed  = flag.Uint64("model.seed", 0, "run this seed alone, and print its steps")

	modelResults = campaign.Register()
)

// TestModel explores random interleavings of all actors around one XR and its
// MRs: see model_invariants_test.go for what holds after each step.
func TestModel(t *testing.T) {
	if *modelSeed > 0 {
		m := explore(*modelSeed, true)
		t.Logf("%s", strings.Join(m.trace, "\n"))
		if m.wrong != "" {
			t.Fatal(m.wrong)
		}
		return
	}
	record, err := modelResults.Open(campaign.Product...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, record.Close()) })
	last := *modelFirst - 1 + *modelSeeds
	for from := *modelFirst; from <= last; from += modelBlock {
		to := min(last, from+modelBlock-1)
		item := fmt.Sprintf("seeds %d to %d", from, to)
		if record.Passed(item) {
			continue
		}
		began, before := time.Now(), elections.Load()
		slowest.Store(0)
		failures, voted := exploreAll(t, from, to), elections.Load()-before
		if to-from >= 200 && voted == 0 {
			failures++
			t.Errorf("%s: nothing was approved by votes", item)
		}
		require.NoError(t, record.Add(campaign.Result{Item: item, Passed: failures == 0, Took: time.Since(began), Figures: map[string]string{
			"elections": strconv.FormatInt(voted, 10), "slowest ms": strconv.FormatInt(slowest.Load()/1e6, 10), "MiB": strconv.FormatUint(memory(), 10)}}))
		if failures > 0 {
			t.Errorf("%d of %s fail; -model.seed=N shows one", failures, item)
		}
	}
}

// modelBlock is how many seeds have a result together.
const modelBlock = 1000

// exploreAll seeds, and return how many fail.
func exploreAll(t *testing.T, from, to uint64) (failures int) {
	t.Helper()
	var next atomic.Uint64
	next.Store(from - 1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1); seed <= to; seed = next.Add(1) {
				m := explore(seed, false)
				if m.wrong == "" {
					continue
				}
				mu.Lock()
				if failures++; failures == 1 {
					t.Errorf("seed %d: %s\n%s", seed, m.wrong, strings.Join(explore(seed, true).trace, "\n"))
				} else if failures <= 20 {
					t.Errorf("seed %d: %s", seed, m.wrong)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failures
}

// explore one random run: most start with an XR that settled.
func explore(seed uint64, verbose bool) *model {
	m := newModel(seed, verbose)
	if !m.chance(4) {
		m.reliable = true
		m.rest(6)
		m.reliable = false
	}
	for steps := 20 + m.rng.IntN(40); steps > 0 && m.wrong == ""; steps-- {
		m.step++
		m.now = m.now.Add(time.Duration(m.rng.IntN(4000)) * time.Millisecond)
		m.random()
		if m.governed != nil && m.chance(10) {
			m.fulfilled()
		}
	}
	m.reliable = true
	m.rest(10)
	m.quiet(false)
	m.now = m.now.Add(modelDeadline + time.Second)
	m.rest(14)
	m.quiet(true)
	m.arrived()
	return m
}

// rest: every actor but users goes on, and nothing fails.
func (m *model) rest(rounds int) {
	for range rounds {
		for _, f := range []func(){m.claimXR, m.composeXR, func() { m.provide("a") }, func() { m.provide("b") }, func() { m.gateStep("a") },
			func() { m.gateStep("b") }, m.settle, m.collect} {
			if m.wrong != "" {
				return
			}
			m.step++
			m.now = m.now.Add(500 * time.Millisecond)
			f()
		}
	}
}

func (m *model) random() {
	key := []string{"a", "b"}[m.rng.IntN(2)]
	switch n := m.rng.IntN(100); {
	case n < 4:
		m.claimXR()
	case n < 15:
		m.composeXR()
	case n < 40:
		m.provide(key)
	case n < 60:
		m.gateStep(key)
	case n < 66:
		m.settle()
	case n < 70:
		m.collect()
	case n < 72:
		m.now = m.now.Add(time.Duration(m.rng.IntN(100)) * time.Minute)
		m.note("time passes")
	default:
		m.person(key)
	}
}

// person does something: a change, a decision, an accident.
func (m *model) person(key string) {
	value := strconv.Itoa(m.rng.IntN(4))
	switch m.rng.IntN(18) {
	case 0, 1, 17:
		m.edit(m.sized(), fx.Set("s"+value, "spec", "size"))
	case 2:
		m.edit(key, fx.Set("s"+value, "spec", "forProvider", "size"))
	case 3, 4:
		m.revision++
		m.note("the Composition is upgraded to %d", m.revision)
	case 5, 6, 7:
		m.tamper(key, value)
	case 8, 9, 10:
		m.approve()
	case 11:
		m.approveAny(key)
	case 12:
		if !m.alone { // without a webhook a DELETE orphans what is masked
			m.remove(key, fx.Alice)
		}
	case 13:
		if !m.alone {
			m.remove("xr", fx.Alice)
		}
	case 14:
		m.annotateRandomly(key)
	case 15:
		m.reorganise()
	case 16:
		m.recreate()
	}
}

func (m *model) edit(key string, change fx.Mod) { m.editAs(fx.Alice, key, change) }

func (m *model) editAs(user subject.User, key string, change fx.Mod) {
	m.write(key, user, "kubectl", func(now *unstructured.Unstructured) *unstructured.Unstructured {
		if now == nil {
			return nil
		}
		return fx.With(now, change)
	})
}

// tamper with the external resource behind an MR's back.
func (m *model) tamper(key, value string) {
	c := m.cloud[key]
	if !c.exists {
		return
	}
	field := []string{"size", "region", "gone"}[m.rng.IntN(3)]
	m.note("a user tampers with %s of %s", field, key)
	if field == "gone" {
		if m.chance(3) {
			m.cloud[key] = &resource{}
		}
		return
	}
	c.fields = merged(c.fields, map[string]any{field: "t" + value})
}

func (m *model) mode1() string {
	return []string{"once", "once", "once", "generation", "always"}[m.rng.IntN(5)]
}

// approve one of the offers; the latest most.
func (m *model) approve() {
	if len(m.offers) == 0 {
		return
	}
	o := m.offers[max(0, len(m.offers)-1-m.rng.IntN(4))]
	if m.get(o.holder) == nil {
		return
	}
	m.forget(o)
	for voters := m.voters(); voters > 0; voters-- {
		user := m.voter()
		m.vote(o.holder, o.id, user)
		m.place(o.holder, user, fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+o.id, m.mode1()))
	}
}

// approveAny difference or deletion, without a digest, on the MR or the XR.
func (m *model) approveAny(key string) {
	verbs := []string{`["Update"]`, `["Create","Update"]`, `["Delete"]`, `["*"]`}[m.rng.IntN(4)]
	holder := []string{key, "xr"}[m.rng.IntN(2)]
	kind := []string{"Instance", "*"}[m.rng.IntN(2)]
	user := m.voter()
	m.vote(holder, "", user)
	m.place(holder, user, fx.Annotate(v1alpha1.AnnotationKeyApprovals,
		`[{"kind":"`+kind+`","name":"*","relation":"External","verbs":`+verbs+`,"mode":"`+m.mode1()+`"}]`))
}

// place an approval, and count those that were not there.
func (m *model) place(holder string, user subject.User, change fx.Mod) {
	before := approvalsOf(m.get(holder))
	m.editAs(user, holder, change)
	for content := range approvalsOf(m.get(holder)) {
		if _, had := before[content]; !had {
			m.placed[holder+" "+content]++
		}
	}
}

func (m *model) annotateRandomly(key string) {
	switch m.rng.IntN(4) {
	case 0:
		m.edit(key, fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan))
	case 1:
		m.edit("xr", fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true"))
	case 2:
		m.edit("xr", fx.Unannotate(v1alpha1.AnnotationKeyFreeze))
	case 3:
		m.edit("xr", fx.Unannotate(v1alpha1.AnnotationKeyApprovals))
	}
}

// reorganise: another mode, another author's value.
func (m *model) reorganise() {
	switch m.rng.IntN(4) {
	case 3:
		m.regovern()
	case 0:
		m.mode = map[v1alpha1.Mode]v1alpha1.Mode{v1alpha1.ModeLog: v1alpha1.ModeEnforce, v1alpha1.ModeEnforce: v1alpha1.ModeLog}[m.mode]
		m.note("the mode is now %s", m.mode)
	default:
		m.compose = []string{"*", "Observe,Create,Update,Delete", "Observe,Create,Update", "Observe", "*"}[m.rng.IntN(5)]
		m.note("the Composition now has %s", m.compose)
	}
}

// recreate an XR that is gone.
func (m *model) recreate() {
	if m.get("xr") != nil {
		return
	}
	o := fx.Object(`{apiVersion: example.org/v1, kind: XDatabase, metadata: {name: db, finalizers: [composite], uid: xr-` +
		strconv.FormatInt(m.version, 10) + `}, spec: {size: s0}}`)
	m.write("xr", fx.Alice, "kubectl", func(*unstructured.Unstructured) *unstructured.Unstructured { return o })
}
