package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Never are more packages or installations running than the machine carries, and nothing beside one that measures time; each
// runs once, and the longest begins first.
func TestSchedule(t *testing.T) {
	c := capacity{all: 3, installations: 2}
	var items []item
	for i, load := range []string{loadAlone, loadPlane, loadInstallation, loadInstallation, loadInstallation, loadPlane, loadAlone, loadPlane} {
		items = append(items, item{key: string(rune('a' + i)), recorded: recorded{seconds: float64(i), load: load}})
	}
	var mu sync.Mutex
	var began []string
	running := map[string]int{}
	schedule(t.Context(), c, items, func(i item) {
		mu.Lock()
		began = append(began, i.key)
		running[i.load]++
		all := running[loadAlone] + running[loadPlane] + running[loadInstallation]
		if all > c.all || running[loadInstallation] > c.installations || running[loadAlone] > 0 && all > 1 {
			t.Errorf("%s began beside %v", i.key, running)
		}
		mu.Unlock()
		mu.Lock()
		running[i.load]--
		mu.Unlock()
	})
	if len(began) != len(items) || strings.Join(began[6:], "") != "ga" {
		t.Errorf("began %v, want all, and those that measure time last", began)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	schedule(ended, c, items, func(i item) { t.Errorf("%s began after an interrupt", i.key) })
}

func TestNext(t *testing.T) {
	of := func(load string) item { return item{recorded: recorded{load: load}} }
	plane, installation, alone, more := of(loadPlane), of(loadInstallation), of(loadAlone), of(loadMore)
	cases := map[string]struct {
		pending, running []item
		want             int
	}{
		"First":                  {pending: []item{installation, plane}, want: 0},
		"ThirdInstallation":      {pending: []item{installation, plane}, running: []item{installation, installation}, want: 1},
		"MoreIsAnInstallation":   {pending: []item{more, plane}, running: []item{more, more}, want: 1},
		"NoPlane":                {pending: []item{installation}, running: []item{installation, installation}, want: -1},
		"Full":                   {pending: []item{plane}, running: []item{plane, plane, plane}, want: -1},
		"AloneLast":              {pending: []item{alone, plane}, want: 1},
		"AloneWaits":             {pending: []item{alone}, running: []item{plane}, want: -1},
		"Alone":                  {pending: []item{alone}, want: 0},
		"NothingBesideTheAlone":  {pending: []item{plane}, running: []item{alone}, want: -1},
		"NothingLeft":            {want: -1},
		"NothingLeftWhileOthers": {running: []item{plane}, want: -1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := next(capacity{all: 3, installations: 2}, tc.pending, tc.running); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

// Tests with a line of their own run beside the rest of their package, and every test runs once.
func TestItems(t *testing.T) {
	known := record{}
	for key, load := range map[string]string{"p": loadPlane, "p#TestA|TestB": loadAlone, "p#TestC": loadPlane, "pq#TestD": loadPlane,
		"p#TestE": loadMore, "r": loadMore, "r#TestF": loadPlane, "s": loadPlane, "s#TestG": loadWhole} {
		known[key] = recorded{seconds: 1, load: load}
	}
	for more, want := range map[bool]map[string][]string{
		false: {"p plane": {"-skip=^(TestA|TestB|TestC|TestE)$"}, "p#TestA|TestB alone": {"-run=^(TestA|TestB)$"},
			"p#TestC plane": {"-run=^(TestC)$"}, "q installation": nil, "r#TestF plane": {"-run=^(TestF)$"}, "s plane": {"-skip=^(TestG)$"}},
		true: {"p#TestE more": {"-run=^(TestE)$"}, "r more": {"-skip=^(TestF)$"}, "s#TestG whole": nil},
	} {
		got := map[string][]string{}
		for _, i := range itemsOf([]string{"p", "q", "r", "s"}, known, more) {
			got[i.key+" "+i.load] = i.flags()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("more is %t: %s", more, diff)
		}
	}
}

func TestCapacity(t *testing.T) {
	for _, tc := range []struct {
		processors int
		memory     uint64
		want       capacity
	}{
		{2, 24 << 30, capacity{3, 2}}, {1, 24 << 30, capacity{2, 1}}, {8, 24 << 30, capacity{9, 8}},
		{8, 6 << 30, capacity{3, 3}}, {2, 1 << 30, capacity{1, 1}}, {2, 0, capacity{3, 2}},
	} {
		if got := capacityOf(tc.processors, tc.memory); got != tc.want {
			t.Errorf("capacityOf(%d, %d) = %v, want %v", tc.processors, tc.memory, got, tc.want)
		}
	}
}

func TestMachine(t *testing.T) {
	files := map[string]string{
		"/proc/meminfo":      "MemTotal:       24000000 kB\nMemFree:        1 kB\nMemAvailable:   20000000 kB\n",
		"/proc/pressure/cpu": "some avg10=12.34 avg60=1.00 avg300=0.10 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	}
	read := func(name string) ([]byte, error) { return []byte(files[name]), nil }
	if got := availableMemory(read); got != 20000000<<10 {
		t.Errorf("availableMemory: got %d", got)
	}
	if got, ok := pressure(read); !ok || math.Abs(got-12.34) > 1e-9 {
		t.Errorf("pressure: got %f, %t", got, ok)
	}
	missing := func(string) ([]byte, error) { return nil, os.ErrNotExist }
	if _, ok := pressure(missing); ok || availableMemory(missing) != 0 {
		t.Error("want neither pressure nor memory where the system has no such file")
	}
}

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "packages.tsv")
	text := "# package, seconds, load\na\t10\tplane\tsubtests\nb\t100.5\tinstallation\n\nc\t1\talone\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.of("unknown"); got.load != loadInstallation {
		t.Errorf("a package that is not recorded: got %+v", got)
	}
	if !r.of("a").subtests || r.of("b").subtests || r.of("unknown").subtests {
		t.Errorf("want subtests to be repeated by themselves where the record has that: %+v", r)
	}
	seconds := map[string]float64{"a": 14.9, "b": 151, "c": 1, "new": 5}
	if diff := cmp.Diff([]string{"b: took 151s, 1.5 times its record of 100s"}, r.compare(seconds)); diff != "" {
		t.Error(diff)
	}
	if err := r.writeDurations(path, seconds); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a\t14.9\tplane\tsubtests\nb\t151.0\tinstallation\nc\t1.0\talone\nnew\t5.0\tplane\n", string(raw)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"a\t1\n", "a\tx\tplane\n", "a\t1\tother\n", "a\t1\tplane\tother\n"} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readRecord(path); err == nil || !strings.HasPrefix(err.Error(), path+":1:") {
			t.Errorf("readRecord of %q: want an error with file and line, got %v", bad, err)
		}
	}
	if r, err := readRecord(path + "-missing"); err != nil || errors.Is(err, os.ErrNotExist) || len(r) != 0 {
		t.Errorf("a missing record is empty, got %v, %v", r, err)
	}
}
