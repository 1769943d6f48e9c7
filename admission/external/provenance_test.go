package external

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func hop(user string) v1alpha1.Hop {
	return v1alpha1.Hop{APIVersion: "example.org/v1alpha1", Kind: "XDatabase", Name: "orders", Generation: 4, User: user,
		Timestamp: metav1.NewTime(time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC))}
}

func TestProvenanceOf(t *testing.T) {
	elsewhere, cluster, unnamed, unknown, core := hop("hans"), hop("hans"), hop("hans"), hop(""), hop("hans")
	elsewhere.Namespace = "team-a"
	cluster.ClusterScoped = true
	unnamed.Name = ""
	unknown.Unattributed = true
	core.APIVersion, core.Kind, core.Generation = "v1", "ConfigMap", 0
	cases := map[string]struct {
		reason            string
		trace             []v1alpha1.Hop
		namespace         string
		origin, initiator string
	}{
		"Empty":         {"nothing is known", nil, "default", "", ""},
		"Namespaced":    {"the hop is in the carrier's namespace", []v1alpha1.Hop{hop("hans")}, "default", "XDatabase.example.org/default/orders@4", "hans"},
		"Elsewhere":     {"the hop names its own", []v1alpha1.Hop{elsewhere}, "default", "XDatabase.example.org/team-a/orders@4", "hans"},
		"Cluster":       {"on a cluster-scoped carrier", []v1alpha1.Hop{hop("hans")}, "", "XDatabase.example.org/orders@4", "hans"},
		"ClusterOrigin": {"a cluster-scoped origin of a namespaced carrier", []v1alpha1.Hop{cluster}, "default", "XDatabase.example.org/orders@4", "hans"},
		"Unnamed":       {"generateName", []v1alpha1.Hop{unnamed}, "default", "XDatabase.example.org/default@4", "hans"},
		"Unattributed":  {"while it was not observed", []v1alpha1.Hop{unknown}, "default", "XDatabase.example.org/default/orders@4", Unattributed},
		"Core":          {"no group, no generation", []v1alpha1.Hop{core}, "default", "ConfigMap/default/orders", "hans"},
		"Origin":        {"the first hop counts", []v1alpha1.Hop{hop("hans"), hop("crossplane")}, "default", "XDatabase.example.org/default/orders@4", "hans"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ProvenanceOf(tc.trace, tc.namespace)
			if got.Origin != tc.origin || got.Initiator != tc.initiator {
				t.Errorf("%s: got %+v", tc.reason, got)
			}
			if len(tc.trace) == 0 {
				if got.Tags() != nil || got.Env() != nil {
					t.Errorf("%s: want no tags and no variables", tc.reason)
				}
				return
			}
			if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(got.TraceID) {
				t.Errorf("%s: trace id %q", tc.reason, got.TraceID)
			}
		})
	}
}

// What one intent brings about has one trace id, wherever it is carried; any
// other intent has another.
func TestTraceID(t *testing.T) {
	base := ProvenanceOf([]v1alpha1.Hop{hop("hans")}, "team-a")
	cluster := hop("hans")
	cluster.Namespace = "team-a" // as a cluster-scoped MR carries it
	later := hop("hans")
	later.Labels, later.Settled = map[string]string{"ticket": "1"}, true
	for name, same := range map[string]Provenance{
		"longer trace":   ProvenanceOf([]v1alpha1.Hop{hop("hans"), hop("crossplane")}, "team-a"),
		"other carrier":  ProvenanceOf([]v1alpha1.Hop{cluster}, ""),
		"labelled later": ProvenanceOf([]v1alpha1.Hop{later}, "team-a"),
	} {
		if same != base {
			t.Errorf("%s: want %+v, got %+v", name, base, same)
		}
	}
	changes := map[string]func(*v1alpha1.Hop){
		"user":       func(h *v1alpha1.Hop) { h.User = "eva" },
		"generation": func(h *v1alpha1.Hop) { h.Generation = 5 },
		"name":       func(h *v1alpha1.Hop) { h.Name = "orders2" },
		"namespace":  func(h *v1alpha1.Hop) { h.Namespace = "team-b" },
		"scope":      func(h *v1alpha1.Hop) { h.ClusterScoped = true },
		"kind":       func(h *v1alpha1.Hop) { h.Kind = "XCache" },
		"group":      func(h *v1alpha1.Hop) { h.APIVersion = "example.com/v1alpha1" },
		"time":       func(h *v1alpha1.Hop) { h.Timestamp = metav1.NewTime(h.Timestamp.Add(time.Second)) },
		"no time":    func(h *v1alpha1.Hop) { h.Timestamp = metav1.Time{} },
	}
	for name, change := range changes {
		h := hop("hans")
		change(&h)
		if got := ProvenanceOf([]v1alpha1.Hop{h}, "team-a"); got.TraceID == base.TraceID {
			t.Errorf("another %s, the same trace id", name)
		}
	}
}

func TestEnv(t *testing.T) {
	got := Env([]v1alpha1.Hop{hop("ha\nns\x00")}, "default")
	id := ProvenanceOf([]v1alpha1.Hop{hop("ha\nns\x00")}, "default").TraceID
	want := []Variable{{"KAUSALITY_TRACE_ID", id}, {"KAUSALITY_INITIATOR", "ha_ns_"}, {"KAUSALITY_ORIGIN", "XDatabase.example.org/default/orders@4"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestWithEnv(t *testing.T) {
	v := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	secret := map[string]any{"name": "TOKEN", "secretKeyRef": map[string]any{"name": "s"}}
	next := []Variable{{VariableTraceID, "new"}}
	cases := map[string]struct {
		reason            string
		desired, observed []any
		next              []Variable
		accepted          bool
		want              []any
	}{
		"Accepted":   {"ours follow", []any{secret}, []any{secret, v(VariableTraceID, "old")}, next, true, []any{secret, v(VariableTraceID, "new")}},
		"Held":       {"ours stay as they are", []any{secret}, []any{secret, v(VariableTraceID, "old")}, next, false, []any{secret, v(VariableTraceID, "old")}},
		"HeldNone":   {"and are not added", []any{secret}, []any{secret}, next, false, []any{secret}},
		"Copied":     {"ours in desired are not believed", []any{v(VariableTraceID, "forged"), secret}, nil, next, true, []any{secret, v(VariableTraceID, "new")}},
		"Unknown":    {"an accepted change without a known initiator removes ours", []any{secret}, []any{v(VariableTraceID, "old")}, nil, true, []any{secret}},
		"Nothing":    {"nil stays nil", nil, nil, nil, true, nil},
		"NotAnEntry": {"what is no entry is left for the API server to refuse", []any{"x"}, nil, nil, true, []any{"x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			desired, observed := runtime.DeepCopyJSONValue(tc.desired), runtime.DeepCopyJSONValue(tc.observed)
			got := WithEnv(tc.desired, tc.observed, tc.next, tc.accepted)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, WithEnv(got, got, tc.next, tc.accepted)); diff != "" {
				t.Errorf("%s: a second time: -want, +got:\n%s", tc.reason, diff)
			}
			if !cmp.Equal(desired, any(tc.desired)) || !cmp.Equal(observed, any(tc.observed)) {
				t.Errorf("%s: input modified", tc.reason)
			}
		})
	}
}

func TestTagValue(t *testing.T) {
	long := strings.Repeat("x", MaxTagValue)
	cases := map[string]struct{ reason, in, want string }{
		"Plain":     {"as it is", "system:serviceaccount:a:b", "system:serviceaccount:a:b"},
		"Mail":      {"as it is", "hans+x@example.com", "hans+x@example.com"},
		"Backslash": {"not in the set", `CORP\hans`, "CORP_hans"},
		"Letters":   {"of any script", "Jürgen Ж 3", "Jürgen Ж 3"},
		"Spaces":    {"AWS drops them at the ends", " hans ", "hans"},
		"Tab":       {"another space is none", "a\tb", "a_b"},
		"Invalid":   {"bytes that are no text", "a\xffb", "a_b"},
		"Fits":      {"exactly as long as may be", long, long},
		"Empty":     {"a value may be empty", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := TagValue(tc.in); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
	if a, b := TagValue(long+"a"), TagValue(long+"b"); a == b || len(a) != MaxTagValue {
		t.Errorf("two long texts stay two: %q, %q", a, b)
	}
}

// Whatever the trace, AWS accepts the tags.
func TestTagsWithinLimits(t *testing.T) {
	allowed := regexp.MustCompile(`^[\p{L}\p{N} +\-=._:/@]*$`) // AWS's own pattern
	rapid.Check(t, func(t *rapid.T) {
		h := hop(rapid.String().Draw(t, "user"))
		h.Name = rapid.StringN(0, 300, -1).Draw(t, "name")
		tags := Tags([]v1alpha1.Hop{h}, rapid.String().Draw(t, "namespace"))
		if len(tags) != 3 {
			t.Fatalf("want three tags, got %v", tags)
		}
		for k, v := range tags {
			if n := utf8.RuneCountInString(k); n > MaxTagKey || !allowed.MatchString(k) || strings.HasPrefix(strings.ToLower(k), "aws:") {
				t.Fatalf("AWS refuses the key %q", k)
			}
			if n := utf8.RuneCountInString(v); n > MaxTagValue || !allowed.MatchString(v) || strings.TrimSpace(v) != v {
				t.Fatalf("AWS refuses the value %q", v)
			}
			if TagValue(v) != v {
				t.Fatalf("TagValue of its own result %q is another", v)
			}
		}
	})
}

func TestWithTags(t *testing.T) {
	next := map[string]string{TagTraceID: "new", TagInitiator: "hans", TagOrigin: "o"}
	old := map[string]any{"team": "a", TagTraceID: "old"}
	many := func(n int) map[string]any {
		out := map[string]any{}
		for i := range n {
			out[strconv.Itoa(i)] = "x"
		}
		return out
	}
	ours := func(tags map[string]any) map[string]any {
		tags[TagTraceID], tags[TagInitiator], tags[TagOrigin] = "new", "hans", "o"
		return tags
	}
	cases := map[string]struct {
		reason            string
		desired, observed map[string]any
		next              map[string]string
		accepted          bool
		want              map[string]any
		fails             bool
	}{
		"Accepted": {"ours beside theirs", map[string]any{"team": "b"}, old, next, true, ours(map[string]any{"team": "b"}), false},
		"Held":     {"ours stay as they are", map[string]any{"team": "b"}, old, next, false, map[string]any{"team": "b", TagTraceID: "old"}, false},
		"HeldNone": {"and are not added", map[string]any{"team": "b"}, map[string]any{}, next, false, map[string]any{"team": "b"}, false},
		"NoTags":   {"the first ones", nil, nil, next, true, ours(map[string]any{}), false},
		"Nothing":  {"nil stays nil", nil, nil, nil, true, nil, false},
		"Unknown":  {"ours go with an accepted change without a known initiator", map[string]any{"team": "a"}, old, nil, true, map[string]any{"team": "a"}, false},
		"Copied":   {"ours in desired are not believed", map[string]any{TagTraceID: "forged"}, nil, nil, false, nil, false},
		"Full":     {"exactly fifty", many(47), nil, next, true, ours(many(47)), false},
		"TooMany":  {"no room: none of ours", many(48), nil, next, true, many(48), true},
		"FullAlso": {"ours count once", ours(many(47)), ours(many(47)), next, true, ours(many(47)), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			desired, observed := runtime.DeepCopyJSON(tc.desired), runtime.DeepCopyJSON(tc.observed)
			got, err := WithTags(tc.desired, tc.observed, tc.next, tc.accepted)
			if (err != nil) != tc.fails {
				t.Errorf("%s: error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if again, _ := WithTags(got, got, tc.next, tc.accepted); !cmp.Equal(got, again) {
				t.Errorf("%s: a second time: %v", tc.reason, again)
			}
			if !cmp.Equal(desired, tc.desired) || !cmp.Equal(observed, tc.observed) {
				t.Errorf("%s: input modified", tc.reason)
			}
		})
	}
}
