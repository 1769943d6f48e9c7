package cloud

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLogIsBounded(t *testing.T) {
	all := func(Entry) bool { return true }
	cases := map[string]struct {
		reason  string
		size    int
		added   int
		since   int64
		want    []int64
		dropped int64
	}{
		"Empty":       {reason: "there is nothing", size: 3, want: []int64{}},
		"NotFull":     {reason: "all that was added", size: 3, added: 2, want: []int64{1, 2}},
		"Since":       {reason: "only what is newer", size: 3, added: 3, since: 2, want: []int64{3}},
		"Full":        {reason: "the oldest are dropped first, and counted", size: 3, added: 5, want: []int64{3, 4, 5}, dropped: 2},
		"FullSince":   {reason: "entries that were not requested are not counted as dropped", size: 3, added: 5, since: 3, want: []int64{4, 5}},
		"TwiceAround": {reason: "the ring may wrap more than once", size: 3, added: 7, since: 2, want: []int64{5, 6, 7}, dropped: 2},
		"Future":      {reason: "nothing is newer", size: 3, added: 2, since: 1<<63 - 1, want: []int64{}},
		"Tiny":        {reason: "a log keeps at least one", size: 0, added: 2, since: 1, want: []int64{2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRing(tc.size)
			for range tc.added {
				r.add(Entry{})
			}
			out := r.after(tc.since, all)
			got := make([]int64, 0, len(out.Entries))
			for _, e := range out.Entries {
				got = append(got, e.Seq)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if out.Dropped != tc.dropped || out.Last != int64(tc.added) {
				t.Errorf("\n%s\nwant dropped %d, last %d; got %d, %d", tc.reason, tc.dropped, tc.added, out.Dropped, out.Last)
			}
		})
	}
}

func TestLoggedBody(t *testing.T) {
	cases := map[string]struct {
		body string
		want string
	}{
		"Empty":   {body: "", want: ""},
		"JSON":    {body: `{"a":1}`, want: `{"a":1}`},
		"NotJSON": {body: "{", want: `"{"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := string(loggable([]byte(tc.body))); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
	long := loggable([]byte(`"` + strings.Repeat("x", 2*maxBody) + `"`))
	if !json.Valid(long) || len(long) > maxBody+8 {
		t.Errorf("a long body must be cut to valid JSON, got %d bytes", len(long))
	}
}

func TestMerge(t *testing.T) {
	base := fields{"a": json.RawMessage("1"), "b": json.RawMessage("2")}
	got := merge(base, fields{"b": json.RawMessage("null"), "c": json.RawMessage("3")})
	want := fields{"a": json.RawMessage("1"), "c": json.RawMessage("3")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if len(base) != 2 {
		t.Errorf("merge modified its input: %v", base)
	}
}
