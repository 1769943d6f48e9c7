package carry

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func hop(user string) v1alpha1.Hop {
	return v1alpha1.Hop{APIVersion: "example.org/v1alpha1", Kind: "XDatabase", Name: "orders", Generation: 4, User: user}
}

func TestEntries(t *testing.T) {
	p := external.ProvenanceOf([]v1alpha1.Hop{hop("ha\nns\x00")}, "default")
	origin := "XDatabase.example.org/default/orders@4"
	three := []Entry{{"KAUSALITY_TRACE_ID", p.TraceID}, {"KAUSALITY_INITIATOR", "ha_ns_"}, {"KAUSALITY_ORIGIN", origin}}
	until := time.Date(2026, 1, 5, 9, 30, 0, 5, time.FixedZone("", 3600))
	for name, tc := range map[string]struct {
		reason string
		field  Field
		cause  Cause
		want   []Entry
	}{
		"Unknown": {reason: "nothing is known", field: env, cause: Cause{Verbs: []string{"apply"}}},
		"Env":     {reason: "no gate limits the run", field: env, cause: Cause{Provenance: p}, want: three},
		"Open": {reason: "and what the gate is open for", field: env, cause: Cause{Provenance: p, Verbs: []string{"apply", "destroy"}, Until: until},
			want: append(three[:3:3], Entry{"KAUSALITY_ALLOWED", "apply,destroy"}, Entry{"KAUSALITY_ALLOWED_UNTIL", "2026-01-05T08:30:00Z"})},
		"Declared": {reason: "and as the module declares them", field: env, cause: Cause{Provenance: p, Variables: []string{"kausality_allowed", "kausality_origin"}},
			want: append(three[:3:3], Entry{"TF_VAR_kausality_origin", origin})},
		"Tags": {reason: "what the gate is open for is of no use in the cloud", field: tags, cause: Cause{Provenance: p, Verbs: []string{"Update"}},
			want: []Entry{{TagTraceID, p.TraceID}, {TagInitiator, "ha_ns_"}, {TagOrigin, origin}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.field.Entries(tc.cause)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			value, err := tc.field.With(nil, got)
			if err != nil {
				t.Fatal(err)
			}
			want := p
			if want.Initiator = "ha_ns_"; len(got) == 0 {
				want = external.Provenance{}
			}
			content := map[string]any{"spec": map[string]any{"forProvider": map[string]any{tc.field.Name: value}}}
			if diff := cmp.Diff(want, Carried(content)); diff != "" {
				t.Errorf("%s: carried: -want, +got:\n%s", tc.reason, diff)
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
		entries := tags.Entries(Cause{Provenance: external.ProvenanceOf([]v1alpha1.Hop{h}, rapid.String().Draw(t, "namespace"))})
		if len(entries) != 3 {
			t.Fatalf("want three tags, got %v", entries)
		}
		for _, e := range entries {
			if n := utf8.RuneCountInString(e.Name); n > MaxTagKey || !allowed.MatchString(e.Name) || strings.HasPrefix(strings.ToLower(e.Name), "aws:") {
				t.Fatalf("AWS refuses the key %q", e.Name)
			}
			if n := utf8.RuneCountInString(e.Value); n > MaxTagValue || !allowed.MatchString(e.Value) || strings.TrimSpace(e.Value) != e.Value {
				t.Fatalf("AWS refuses the value %q", e.Value)
			}
			if TagValue(e.Value) != e.Value {
				t.Fatalf("TagValue of its own result %q is another", e.Value)
			}
		}
	})
}

// TestOpenedBy: an opening for a change that was made before has the cause of that change.
func TestOpenedBy(t *testing.T) {
	set, errs := settings.Compile([]*v1alpha1.Kausality{{Spec: v1alpha1.KausalitySpec{
		Resources: []v1alpha1.GuardedResources{{APIGroups: []string{"tf.upbound.io"}, Resources: []string{"*"}}},
		External:  &v1alpha1.ExternalSettings{Provenance: []v1alpha1.Provenance{v1alpha1.ProvenanceTerraformEnv}},
	}}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	on := set.For(settings.Target{Group: "tf.upbound.io", Resource: "workspaces"})
	object := func(value any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "tf.upbound.io/v1beta1", "kind": "Workspace",
			"spec": map[string]any{"forProvider": map[string]any{"env": value}}}}
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyTrace: trace.Trace{hop("hans")}.String()})
		return o
	}
	gate := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}, At: metav1.NewTime(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))}
	name, value, _ := OpenedBy(object([]any{entry("name", "MINE", "1"), entry("name", VariableAllowed, "apply")}), on, nil, gate, gate.At.Add(time.Hour))
	want := []any{entry("name", "MINE", "1"), entry("name", VariableTraceID, external.ProvenanceOf([]v1alpha1.Hop{hop("hans")}, "").TraceID),
		entry("name", VariableInitiator, "hans"), entry("name", VariableOrigin, "XDatabase.example.org/orders@4"),
		entry("name", VariableAllowed, "destroy"), entry("name", VariableAllowedUntil, "2026-01-05T10:00:00Z")}
	if d := cmp.Diff(want, value); name != "env" || d != "" {
		t.Errorf("%q: -want, +got:\n%s", name, d)
	}
	for reason, got := range map[string]string{
		"written already": first(OpenedBy(object(value), on, nil, gate, gate.At.Add(time.Hour))),
		"not recorded":    first(OpenedBy(object(nil), settings.Settings{}, nil, gate, gate.At.Add(time.Hour))),
		"not a list":      first(OpenedBy(object("A=1"), on, nil, gate, gate.At.Add(time.Hour))),
	} {
		if got != "" {
			t.Errorf("%s: %q", reason, got)
		}
	}
}

func first(name string, _ any, _ []string) string { return name }

// TestAllowances: where a target limits one of them, the run has them all.
func TestAllowances(t *testing.T) {
	entries := func(targets ...map[string]string) (out allowance.Entries) {
		for _, target := range targets {
			out = append(out, allowance.Entry{Allowance: v1alpha1.Allowance{Verbs: []string{"apply"}, ExternalTarget: target, Initiator: "hans"}})
		}
		return out
	}
	for name, tc := range map[string]struct {
		entries allowance.Entries
		want    string
	}{
		"None": {}, "Unlimited": {entries: entries(nil, nil)},
		"Limited": {entries: entries(nil, map[string]string{"module": "db"}),
			want: `[{"relation":"External","verbs":["apply"]},{"relation":"External","verbs":["apply"],"externalTarget":{"module":"db"}}]`},
		"TooLarge": {entries: entries(map[string]string{"module": strings.Repeat("x", maxAllowances)}), want: "[]"},
	} {
		if got := AllowancesOf(tc.entries); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
