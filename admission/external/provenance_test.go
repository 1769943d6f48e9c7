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
		"Empty": {reason: "nothing is known", namespace: "default"},
		"Namespaced": {reason: "the hop is in the carrier's namespace", trace: []v1alpha1.Hop{hop("hans")}, namespace: "default",
			origin: "XDatabase.example.org/default/orders@4", initiator: "hans"},
		"Elsewhere": {reason: "the hop names its own", trace: []v1alpha1.Hop{elsewhere}, namespace: "default",
			origin: "XDatabase.example.org/team-a/orders@4", initiator: "hans"},
		"Cluster": {reason: "on a cluster-scoped carrier", trace: []v1alpha1.Hop{hop("hans")},
			origin: "XDatabase.example.org/orders@4", initiator: "hans"},
		"ClusterOrigin": {reason: "a cluster-scoped origin of a namespaced carrier", trace: []v1alpha1.Hop{cluster},
			namespace: "default", origin: "XDatabase.example.org/orders@4", initiator: "hans"},
		"Unnamed": {reason: "generateName", trace: []v1alpha1.Hop{unnamed}, namespace: "default",
			origin: "XDatabase.example.org/default@4", initiator: "hans"},
		"Unattributed": {reason: "while it was not observed", trace: []v1alpha1.Hop{unknown}, namespace: "default",
			origin: "XDatabase.example.org/default/orders@4", initiator: Unattributed},
		"Core": {reason: "no group, no generation", trace: []v1alpha1.Hop{core}, namespace: "default",
			origin: "ConfigMap/default/orders", initiator: "hans"},
		"Origin": {reason: "the first hop counts", trace: []v1alpha1.Hop{hop("hans"), hop("crossplane")}, namespace: "default",
			origin: "XDatabase.example.org/default/orders@4", initiator: "hans"},
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
	got := ProvenanceOf([]v1alpha1.Hop{hop("ha\nns\x00")}, "default").Env()
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
		"Accepted": {reason: "ours follow", desired: []any{secret}, observed: []any{secret, v(VariableTraceID, "old")}, next: next,
			accepted: true, want: []any{secret, v(VariableTraceID, "new")}},
		"Held": {reason: "ours stay as they are", desired: []any{secret}, observed: []any{secret, v(VariableTraceID, "old")},
			next: next, want: []any{secret, v(VariableTraceID, "old")}},
		"HeldNone": {reason: "and are not added", desired: []any{secret}, observed: []any{secret}, next: next, want: []any{secret}},
		"Copied": {reason: "ours in desired are not believed", desired: []any{v(VariableTraceID, "forged"), secret}, next: next,
			accepted: true, want: []any{secret, v(VariableTraceID, "new")}},
		"Unknown": {reason: "an accepted change without a known initiator removes ours", desired: []any{secret},
			observed: []any{v(VariableTraceID, "old")}, accepted: true, want: []any{secret}},
		"Nothing": {reason: "nil stays nil", accepted: true},
		"NotAnEntry": {reason: "what is no entry is left for the API server to refuse", desired: []any{"x"}, accepted: true,
			want: []any{"x"}},
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
		"Plain":     {reason: "as it is", in: "system:serviceaccount:a:b", want: "system:serviceaccount:a:b"},
		"Mail":      {reason: "as it is", in: "hans+x@example.com", want: "hans+x@example.com"},
		"Backslash": {reason: "not in the set", in: `CORP\hans`, want: "CORP_hans"},
		"Letters":   {reason: "of any script", in: "Jürgen Ж 3", want: "Jürgen Ж 3"},
		"Spaces":    {reason: "AWS drops them at the ends", in: " hans ", want: "hans"},
		"Tab":       {reason: "another space is none", in: "a\tb", want: "a_b"},
		"Invalid":   {reason: "bytes that are no text", in: "a\xffb", want: "a_b"},
		"Fits":      {reason: "exactly as long as may be", in: long, want: long},
		"Empty":     {reason: "a value may be empty"},
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

// Whatever the trace, AWS accepts the tags (KR-08-43).
func TestTagsWithinLimits(t *testing.T) {
	allowed := regexp.MustCompile(`^[\p{L}\p{N} +\-=._:/@]*$`) // AWS's own pattern
	rapid.Check(t, func(t *rapid.T) {
		h := hop(rapid.String().Draw(t, "user"))
		h.Name = rapid.StringN(0, 300, -1).Draw(t, "name")
		tags := ProvenanceOf([]v1alpha1.Hop{h}, rapid.String().Draw(t, "namespace")).Tags()
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
		"Accepted": {reason: "ours beside theirs", desired: map[string]any{"team": "b"}, observed: old, next: next, accepted: true,
			want: ours(map[string]any{"team": "b"})},
		"Held": {reason: "ours stay as they are", desired: map[string]any{"team": "b"}, observed: old, next: next,
			want: map[string]any{"team": "b", TagTraceID: "old"}},
		"HeldNone": {reason: "and are not added", desired: map[string]any{"team": "b"}, observed: map[string]any{}, next: next,
			want: map[string]any{"team": "b"}},
		"NoTags":  {reason: "the first ones", next: next, accepted: true, want: ours(map[string]any{})},
		"Nothing": {reason: "nil stays nil", accepted: true},
		"Unknown": {reason: "ours go with an accepted change without a known initiator", desired: map[string]any{"team": "a"},
			observed: old, accepted: true, want: map[string]any{"team": "a"}},
		"Copied":  {reason: "ours in desired are not believed", desired: map[string]any{TagTraceID: "forged"}},
		"Full":    {reason: "exactly fifty", desired: many(47), next: next, accepted: true, want: ours(many(47))},
		"TooMany": {reason: "no room: none of ours", desired: many(48), next: next, accepted: true, want: many(48), fails: true},
		"FullAlso": {reason: "ours count once", desired: ours(many(47)), observed: ours(many(47)), next: next, accepted: true,
			want: ours(many(47))},
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
