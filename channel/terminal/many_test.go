package terminal

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	tea "charm.land/bubbletea/v2"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
	"github.com/kausality-io/function-kausality/internal/await"
)

const (
	many = 10_000
	// firstScreen is how soon after the list the first screen is made, maxHeap what all of it takes.
	firstScreen = 300 * time.Millisecond
	maxHeap     = 64 << 20
)

// manyHeld changes of some causes.
func manyHeld(t *testing.T, s *viewtest.Server, causes int) {
	t.Helper()
	for n := range many {
		s.Put(t, viewtest.Held(func(d *v1alpha1.Drift) {
			d.Name, d.Spec.ID = fmt.Sprintf("%016x", n), fmt.Sprintf("%016x", n)
			d.Spec.Child.Name, d.Spec.Causes[0].Name = fmt.Sprintf("orders-%d", n), fmt.Sprintf("shops-%d", n%causes)
			d.Status.Lacks = fmt.Sprintf("%d of 2 approvals; needs 1 more of group %s", n%5, strings.Repeat("dba", 40))
			d.Spec.Difference[0].New = fmt.Sprintf("%q", strings.Repeat("<long>", n%7*10))
		}))
	}
}

// heap that is live.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // It is below 2^63.
}

// TestMany covers KR-17-21: 10,000 changes take at most 64 MiB, the first screen is shown within 300 ms of the list, and no screen makes more of them into
// lines than there are rows, whether they have few causes or one each.
func TestMany(t *testing.T) {
	for _, causes := range []int{40, many} {
		t.Run(fmt.Sprintf("%d causes", causes), func(t *testing.T) {
			s, o, _ := viewtest.New(t)
			manyHeld(t, s, causes)
			before := heap()
			all := Options{Options: o, Cluster: "prod"}
			all.complete()
			var early time.Time
			all.Early = func(*view.Snapshot) { early = time.Now() }
			v, err := view.New(all.Options)
			require.NoError(t, err)
			d := &driver{t: t, m: newModel(t.Context(), all, v)}
			d.send(tea.WindowSizeMsg{Width: 200, Height: 60})
			d.list()
			require.False(t, early.IsZero())
			ctx, cancel := context.WithCancel(t.Context())
			followed := make(chan struct{})
			go func() {
				defer close(followed)
				v.Follow(ctx, func() bool { return false }, nil, func() {})
			}()
			await.Poll(t, "all Drifts to be known", v.Synced)
			defer func() {
				cancel()
				<-followed
			}()
			listedFirst := d.m.snap
			await.Poll(t, "them to be read again, from what is watched", func() bool {
				d.list()
				return d.m.snap != listedFirst
			})
			listedFirst = nil
			began := time.Now()
			first := d.screen()
			shown := time.Since(began)
			var after int64
			await.Poll(t, "the heap to be small: what is being read meanwhile, and what the API server of the test sends, is not kept", func() bool {
				after = heap()
				return after-before < maxHeap
			})
			assert.Contains(t, first, fmt.Sprintf("What waits: %d changes of", many))
			assert.Less(t, shown, firstScreen)
			d.keys("enter")
			l := d.m.top().list
			if causes > 1 {
				d.keys("esc")
				l = d.m.top().list
			}
			for _, key := range []string{"G", "pgup", "k", "g", "pgdown", "j"} {
				made := l.made
				d.keys(key).screen()
				l = d.m.top().list
				assert.LessOrEqual(t, l.made-made, 4*d.m.height, "%s makes what is visible into lines, not all", key)
			}
			t.Logf("first screen %v after the list, %.1f MiB of heap", shown, float64(after-before)/(1<<20))
			runtime.KeepAlive(d)
		})
	}
}

// TestEarlyScreen covers KR-17-21: what waits is on the screen within 300 ms of its list, with 10,000 changes, before any parent is read.
func TestEarlyScreen(t *testing.T) {
	s, o, _ := viewtest.New(t)
	manyHeld(t, s, 40)
	var shown time.Duration
	all := Options{Options: o, Cluster: "prod"}
	all.complete()
	var d *driver
	all.Early = func(snap *view.Snapshot) {
		began := time.Now()
		d.send(listed{snap: snap})
		assert.Contains(t, d.screen(), "What waits: 10000 changes of 40 causes")
		shown = time.Since(began)
		var list []v1alpha1.Drift
		for _, c := range snap.Causes {
			for _, one := range c.Changes {
				list = append(list, *one)
			}
		}
		began = time.Now() // what the view has done between the list and the call
		for _, g := range channel.ByCause(list) {
			channel.CardOf(g, func(*v1alpha1.Drift) channel.Ruling { return channel.Ruling{} }, "")
		}
		shown += time.Since(began)
	}
	s.Forbidden = func(_, path string) bool {
		assert.False(t, shown == 0 && path == viewtest.ShopPath, "a parent is read before the first screen")
		return false
	}
	v, err := view.New(all.Options)
	require.NoError(t, err)
	d = &driver{t: t, m: newModel(t.Context(), all, v)}
	d.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	d.list()
	require.Positive(t, shown)
	assert.Less(t, shown, firstScreen)
	t.Logf("from the list to the first screen: %v", shown)
}

// hostile texts that would move the cursor, set colours or titles, hide or reverse something, or be wider than they seem.
const hostile = "\x1b[31m\x1b]0;title\x07\x1b[2J\x9b1m\x00\r\t\u202e\u200b\u2066 漢字かな👩‍👩‍👧‍👦e\u0301\u0301 \ufe0f ｗｉｄｅ \u2028 end"

// TestHostile covers KR-17-21: whatever names and values have, and however long they are, screens fit, and no control character is in them.
func TestHostile(t *testing.T) {
	big := strings.Repeat(hostile+"🦀", 1<<20/len(hostile))
	require.Greater(t, len(big), 1<<20-1000)
	huge := viewtest.Held(func(d *v1alpha1.Drift) {
		d.Spec.Child.Name = hostile
		d.Spec.Causes = []v1alpha1.HopCause{{Kind: v1alpha1.CauseUser, Name: hostile, Author: hostile + hostile}}
		d.Status.Lacks, d.Status.Votes = big, []v1alpha1.Vote{{User: hostile, Reason: hostile}}
		d.Spec.Difference = []v1alpha1.FieldDifference{
			{Path: hostile, Verb: "Mutate", Old: hostile, New: big},
			{Path: "spec.list", Verb: "Mutate", Old: `["` + strings.Repeat("漢字", 200) + `"]`, New: "[" + strings.Repeat(`"a",`, 5000) + `"b"]`},
			{Path: "spec.password", Verb: "Mutate", Old: "<redacted>", New: "<redacted>"},
		}
	})
	s, o, _ := viewtest.New(t, huge)
	s.Annotate(viewtest.ShopPath, v1alpha1.AnnotationKeyFreeze, `{"user":"hans","message":"`+strings.Repeat("漢字", 500)+`"}`)
	for _, size := range [][2]int{{40, 12}, {80, 24}, {200, 60}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			d := drive(t, o, size[0], size[1])
			check := func() {
				t.Helper()
				content := d.m.View().Content
				for _, r := range ansi.Strip(content) {
					if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
						t.Fatalf("%U is on the screen", r)
					}
				}
				assert.NotContains(t, content, "\x1b[2J")
				assert.NotContains(t, content, "\x1b]")
				d.screen()
			}
			check()
			for range 3 {
				d.keys("G", "enter")
				check()
			}
			began := time.Now()
			for _, key := range []string{"g", "pgdown", "j", "j", "k", "G", "pgup"} {
				d.keys(key)
				check()
			}
			assert.Less(t, time.Since(began), 5*time.Second, "a long difference scrolls")
		})
	}
	s.Put(t, viewtest.Held(func(d *v1alpha1.Drift) {
		long := `"` + strings.Repeat("0123456789", 500) + `end"`
		d.Spec.Difference = append(d.Spec.Difference, v1alpha1.FieldDifference{Path: "spec.long", Verb: "Mutate", New: long})
	}))
	d := drive(t, o, 80, 24)
	for d.run(d.m.open(&place{kind: kindChange, namespace: "team", id: viewtest.HeldID})); !strings.Contains(d.screen(), `end"`); {
		before := d.screen()
		require.NotEqual(t, before, d.keys("pgdown").screen(), "a value of 5 KB is scrolled to its end")
	}
	s.Put(t, huge)
	d = drive(t, o, 80, 24)
	d.run(d.m.open(&place{kind: kindChange, namespace: "team", id: viewtest.HeldID}))
	seen := d.screen()
	for range 400 {
		seen += d.keys("pgdown").screen()
	}
	inOrder(t, seen, "bytes more", "spec.list", "spec.password", "secret, not shown", "From the user to the cloud")
}
