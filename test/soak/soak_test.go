package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/hack/campaign"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/figures"
)

// ours are the processes whose memory is judged; killed are all that are, one after the other.
var (
	ours   = []string{"kausality-webhook", "kausality-gate", "function-kausality"}
	killed = []string{"kausality-webhook", "function-kausality", "kausality-gate", "provider-cloud", parts.Crossplane}
)

const (
	// killEvery is how often a process is killed, as long as quiet is not reached: the part of the time in which none is, and memory is flat.
	killEvery = 2 * time.Minute
	quiet     = 2.0 / 3
	// growth of memory from the first to the second half of that which is flat.
	growth = 1.15
	// samples without which memory is not judged: five minutes of them.
	samples = 20
	// judged is how long a soak lasts at least whose memory is.
	judged = 20 * time.Minute
	// atOnce is how many kinds are created at the same time.
	atOnce = 5
	// block is how long a part that has a result of its own lasts at least, unless the soak is shorter.
	block = 10 * time.Minute
	// atRest is how long nothing may be written in the end.
	atRest = 2 * time.Minute
	// late is how long after its cause a Drift may be written.
	late = time.Minute
)

// soak counts what happened.
type soak struct {
	t *testing.T

	mu sync.Mutex
	// done things by name, and what went wrong.
	done  map[string]int
	wrong []string
	// expected Drifts by relation, kind and name: from when until when.
	expected map[string][]window
	// requested sizes.
	requested map[int64]bool
	// memory in MiB of each process, since nothing is killed any more.
	memory map[string][]int
	cloud  writes
}

// What is counted that must not happen. Each result has the number of each.
const (
	lost     = "not arrived"            // a user's action that did not come to its end
	ghost    = "Drifts without a cause" // by no user, tampering or upgrade
	uncaused = "writes without a cause" // to the cloud
	restless = "restless"               // written at rest
	grown    = "grown"                  // processes whose memory is not flat
	broken   = "broken"                 // the soak itself
)

type window struct{ from, to time.Time }

// fail by something that must not happen.
func (s *soak) fail(what, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[what]++
	text := time.Now().UTC().Format("15:04:05 ") + fmt.Sprintf(format, args...)
	s.wrong = append(s.wrong, text)
	s.t.Error(text)
}

// did something, which went wrong if there is an error.
func (k *kind) did(name string, err error) {
	k.mu.Lock()
	k.done[name]++
	k.mu.Unlock()
	if err != nil {
		k.fail(lost, "%s of kind %d: %.600v", name, k.number, err)
	}
}

// expect a Drift, until the function that is returned is called. Without a relation it is the deletion of an object.
func (s *soak) expect(relation, kind, name string) (over func()) {
	key := strings.Join([]string{relation, kind, name}, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected[key] = append(s.expected[key], window{from: time.Now()})
	i := len(s.expected[key]) - 1
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expected[key][i].to = time.Now()
	}
}

// expects reports whether a Drift has a cause. That of a composed ConfigMap is known by the composite.
func (s *soak) expects(keys []string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(keys, func(key string) bool {
		return slices.ContainsFunc(s.expected[key], func(w window) bool {
			return !at.Before(w.from.Add(-time.Second)) && (w.to.IsZero() || at.Before(w.to.Add(late)))
		})
	})
}

// written is a write by the audit log.
type written struct {
	Verb                     string
	RequestURI               string
	User                     struct{ Username string }
	ObjectRef                *struct{ Resource, Subresource, Name string }
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	ResponseObject           struct {
		Spec struct {
			Relation, Operation string
			Child, Parent       struct{ Kind, Name string }
		}
	}
}

// read the audit log: each Drift has a cause. It returns what Kausality wrote, but deletions of Drifts that are old.
func (s *soak) read() (ours []string) {
	err := the.log.Read(func(line []byte) error {
		if !strings.Contains(string(line), `"level":"RequestResponse"`) {
			return nil
		}
		w := written{}
		if err := json.Unmarshal(line, &w); err != nil {
			return err
		}
		switch {
		case w.ObjectRef == nil || w.ResponseStatus.Code >= 300 || strings.Contains(w.RequestURI, "dryRun="):
		case w.ObjectRef.Resource == "drifts" && w.Verb == "create":
			d := w.ResponseObject.Spec
			relation := d.Relation
			if d.Operation == "DELETE" {
				relation = ""
			}
			name := func(of string) string { return strings.Join([]string{relation, d.Child.Kind, of}, "/") }
			if !s.expects([]string{name(d.Child.Name), name(d.Parent.Name)}, w.RequestReceivedTimestamp) {
				s.fail(ghost, "a Drift without a cause: %+v", d)
			}
			s.mu.Lock()
			s.done["Drift"]++
			s.mu.Unlock()
			ours = append(ours, "create of "+d.Child.Name)
		case w.Verb != "delete" && strings.HasPrefix(w.User.Username, "system:serviceaccount:kausality-system:"):
			ours = append(ours, fmt.Sprintf("%s %s %s by %s", w.Verb, w.ObjectRef.Resource, w.ObjectRef.Name, w.User.Username))
		}
		return nil
	})
	if err != nil {
		s.fail(broken, "%v", err)
	}
	return ours
}

// kill one process after the other, which is started again, until the context ends.
func (s *soak) kill(ctx context.Context) {
	rng := rand.New(rand.NewPCG(*seed, 1_000_000))
	for {
		pause := time.NewTimer(killEvery)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		p := the.Process(killed[rng.IntN(len(killed))])
		p.Kill()
		down := time.NewTimer(time.Duration(1+rng.IntN(10)) * time.Second)
		<-down.C
		if err := p.Restart(); err != nil {
			s.fail(broken, "cannot start %s: %v", p.Name(), err)
		}
		s.mu.Lock()
		s.done["kill"]++
		s.mu.Unlock()
	}
}

// sample memory.
func (s *soak) sample() {
	for _, name := range ours {
		if kib, err := the.Process(name).Memory("VmRSS"); err == nil {
			s.mu.Lock()
			s.memory[name] = append(s.memory[name], kib>>10)
			s.mu.Unlock()
		}
	}
}

// flat: no process has more memory in the second half of the samples than in the first.
func (s *soak) flat() {
	for _, name := range ours {
		all := s.memory[name]
		if len(all) < samples {
			s.t.Logf("%d samples of the memory of %s are too few to judge", len(all), name)
			if *lasts >= judged {
				s.fail(grown, "the memory of %s could not be read: %v", name, all)
			}
			continue
		}
		first, second := mean(all[:len(all)/2]), mean(all[len(all)/2:])
		s.t.Logf("%s: %.0f MiB, then %.0f MiB", name, first, second)
		if second > growth*first {
			s.fail(grown, "the memory of %s grew from %.0f to %.0f MiB: %v", name, first, second, all)
		}
	}
}

func mean(of []int) float64 {
	sum := 0
	for _, n := range of {
		sum += n
	}
	return float64(sum) / float64(len(of))
}

// TestSoak lets composites live for -soak.for.
func TestSoak(t *testing.T) {
	record, err := results.Open(slices.Concat(campaign.Product, campaign.Installed, []string{"test/soak"})...)
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			the.Dump(context.WithoutCancel(t.Context()), os.Stdout)
		}
		require.NoError(t, record.Close())
	}()
	s := &soak{t: t, done: map[string]int{lost: 0, ghost: 0, uncaused: 0, restless: 0, grown: 0, broken: 0}, expected: map[string][]window{},
		memory: map[string][]int{}, requested: map[int64]bool{}}
	var all []*kind
	for n := range *kinds {
		all = append(all, newKind(s, n))
	}
	for some := range slices.Chunk(all, atOnce) {
		require.NoError(t, together(t.Context(), some, (*kind).create))
	}
	t.Logf("%d composites of %d kinds live", *kinds**each, *kinds)
	s.live(t.Context(), all, record)
}

// live for the time that there is, in parts of equal length that each have a result.
func (s *soak) live(ctx context.Context, all []*kind, record *campaign.Record) {
	living, end := context.WithTimeout(ctx, *lasts)
	defer end()
	killing, calm := context.WithTimeout(ctx, time.Duration(float64(*lasts)*quiet))
	defer calm()
	var lives sync.WaitGroup
	for _, k := range all {
		lives.Go(func() { k.live(living) })
	}
	lives.Go(func() { s.kill(killing) })
	number := max(1, int(*lasts/block))
	length := *lasts / time.Duration(number)
	tick := time.NewTicker(min(15*time.Second, length))
	defer tick.Stop()
	began, from := time.Now(), 0
	for n := range number {
		for time.Since(began) < time.Duration(n+1)*length && ctx.Err() == nil {
			<-tick.C
			s.read()
			s.judgeCloud(ctx)
			if killing.Err() != nil {
				s.sample()
			}
		}
		if n == number-1 {
			lives.Wait()
			s.read()
			s.judgeCloud(ctx)
			s.rest(ctx)
			s.judgeCloud(ctx)
			s.flat()
		}
		s.mu.Lock()
		wrong, measured := len(s.wrong)-from, map[string]string{}
		from = len(s.wrong)
		for name, count := range s.done {
			measured[name] = strconv.Itoa(count)
		}
		for name, of := range s.memory {
			measured[strings.TrimPrefix(name, "kausality-")+" MiB"] = strconv.Itoa(slices.Max(of))
		}
		s.mu.Unlock()
		if _, err := figures.Decisions(ctx, measured, the.metrics); err != nil {
			s.t.Log(err) // it may have been killed a moment ago
		}
		item := fmt.Sprintf("minutes %.4g to %.4g", (time.Duration(n) * length).Minutes(), (time.Duration(n+1) * length).Minutes())
		s.t.Logf("%s: %d wrong, %v", item, wrong, measured)
		require.NoError(s.t, record.Add(campaign.Result{Item: item, Passed: wrong == 0, Took: length, Figures: measured}))
	}
}

// rest: once all has settled, Kausality writes nothing, and no generation moves.
func (s *soak) rest(ctx context.Context) {
	var was map[string]int64
	since := time.Now()
	err := controlplane.EventuallyEvery(ctx, 5*time.Second, fmt.Sprintf("nothing to be written for %s", atRest), 3*patience, func(ctx context.Context) error {
		ours := s.read()
		now, err := s.generations(ctx)
		if err != nil {
			return err
		}
		if len(ours) > 0 || !maps.Equal(was, now) {
			moved := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(k string) bool { return was[k] == now[k] })
			was, since = now, time.Now()
			return fmt.Errorf("writes of Kausality: %.600v; moved: %.300v", ours, moved)
		}
		if left := atRest - time.Since(since); left > 0 {
			return fmt.Errorf("%s are missing", left.Round(time.Second))
		}
		return nil
	})
	if err != nil {
		s.fail(restless, "%v", err)
	}
}

// generations of all composites and Databases.
func (s *soak) generations(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	for k := range *kinds + 1 {
		g := story.Databases
		if k < *kinds {
			g = definition(k).Resource()
		}
		list, err := of("", g).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			out[g.Resource+"/"+o.GetName()] = o.GetGeneration()
		}
	}
	return out, nil
}
