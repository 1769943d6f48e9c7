package slack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

var morning = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// held change with a number, of one cause.
func held(n int) *v1alpha1.Drift {
	since := metav1.NewTime(morning)
	d := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("%016x", n)}}
	d.Spec = v1alpha1.DriftSpec{
		ID: d.Name, Digest: d.Name + "aabb", Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE", SuggestedApproval: "kubectl annotate …",
		Causes:     []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3", Author: "alice@example.com"}},
		Parent:     v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "XDatabase", Namespace: "shop", Name: fmt.Sprintf("orders-%d", n)},
		Child:      v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "shop", Name: fmt.Sprintf("orders-%d-abc", n)},
		Difference: []v1alpha1.FieldDifference{{Path: "spec.forProvider.size", Verb: "Mutate", Old: "9", New: "50"}},
	}
	d.Status.Phase, d.Status.Since = v1alpha1.DriftDetected, &since
	return d
}

// hostile texts that would ping, link, format or hide something.
const hostile = "<!channel> <!here> @here @channel <@U0HANS00> <https://evil.example.org|click> https://evil.example.org `x` *b* _i_ ~s~ &lt; " +
	"\x1b[31m\x00\r\t\u202e\u200b\u2066 ```end```"

// TestSafeText covers KR-17-04: whatever is in names and values, nothing is interpreted, nothing exceeds Slack's limits.
func TestSafeText(t *testing.T) {
	long := strings.Repeat("äx😀"+hostile, 600) // 100 KB
	one := held(1)
	one.Spec.Child.Name, one.Spec.Parent.Name, one.Spec.Child.Kind = hostile+long, long, "Database"+hostile
	one.Spec.Causes = []v1alpha1.HopCause{{Kind: v1alpha1.CauseUser, Name: long, Author: hostile}, {Kind: "Other", Name: long}}
	one.Status.Lacks, one.Status.Votes = long, []v1alpha1.Vote{{User: long}, {User: hostile}}
	one.Spec.Difference = nil
	for range 32 {
		one.Spec.Difference = append(one.Spec.Difference, v1alpha1.FieldDifference{Path: hostile, Verb: "Mutate", Old: long, New: long})
	}
	list := []v1alpha1.Drift{*one}
	for n := range 40 {
		d := one.DeepCopy()
		d.Name = fmt.Sprintf("%016x", n+2)
		list = append(list, *d)
	}
	for name, drifts := range map[string][]v1alpha1.Drift{"One": list[:1], "Many": list} {
		t.Run(name, func(t *testing.T) {
			raw, err := Show(&Config{ClusterName: strings.Repeat("c", 63), Page: &Page{URL: "https://page.example.org/{namespace}/{id}"}}, drifts)
			require.NoError(t, err)
			var messages []struct {
				Text   string          `json:"text"`
				Blocks json.RawMessage `json:"blocks"`
			}
			require.NoError(t, json.Unmarshal(raw, &messages))
			require.Len(t, messages, map[string]int{"One": 1, "Many": 1 + maxListed}[name])
			for _, m := range messages {
				code, why := slackfake.Invalid(string(m.Blocks))
				assert.Empty(t, code, why)
				assert.NotContains(t, string(m.Blocks), "mrkdwn", "nothing is formatted")
				assert.NotContains(t, m.Text, "<")
				assert.NotContains(t, m.Text, "@here")
				assert.NotContains(t, m.Text, "`")
				assert.LessOrEqual(t, len([]rune(m.Text)), 1000)
				assertSafe(t, m.Blocks)
			}
		})
	}
}

// assertSafe that plain texts and literals have no control characters, and plain ones no mentions.
func assertSafe(t *testing.T, raw []byte) {
	t.Helper()
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if s, is := v["text"].(string); is {
				for _, r := range s {
					if r != '\n' && r != '\u2060' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
						t.Fatalf("character %U in %q", r, s)
					}
				}
				if v["type"] == "plain_text" {
					assert.NotRegexp(t, `@(here|channel)`, s)
				}
			}
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	var blocks any
	require.NoError(t, json.Unmarshal(raw, &blocks))
	walk(blocks)
}

// TestSameMessage covers KR-17-07: the same changes give the same message, whenever it is rendered.
func TestSameMessage(t *testing.T) {
	list := []v1alpha1.Drift{*held(1), *held(2)}
	before, err := Show(&Config{}, list)
	require.NoError(t, err)
	again, err := Show(&Config{}, list)
	require.NoError(t, err)
	assert.JSONEq(t, string(before), string(again))
	assert.Equal(t, *held(1), list[0], "the input is unmodified")
}

// TestReference covers KR-17-03: what a button carries is read back, and nothing else is taken for it.
func TestReference(t *testing.T) {
	at, ok := parseReference(reference("prod-eu-1", held(1)))
	require.True(t, ok)
	assert.Equal(t, target{Cluster: "prod-eu-1", Namespace: "shop", Name: held(1).Name, Shown: at.Shown}, at)
	for _, bad := range []string{"", "v1", "v2|a|b|c|d", "v1|a|b||d", "v1|a|b|c|", "v1|a|b|c|d|e", strings.Repeat("x", 300)} {
		_, ok := parseReference(bad)
		assert.False(t, ok, bad)
	}
	long := held(1)
	long.Namespace = strings.Repeat("n", 63)
	assert.LessOrEqual(t, len(reference(strings.Repeat("c", 63), long)), maxReference)
}

// FuzzText covers KR-17-04: a text is cut to its limit, and is valid whatever it is.
func FuzzText(f *testing.F) {
	f.Add(hostile, 20)
	f.Add("😀😀😀", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 1 || limit > 1000 {
			return
		}
		out := oneLine(s, limit)
		if length(out) > limit || strings.ContainsAny(out, "\n\r\t\x00") {
			t.Errorf("%q", out)
		}
		if strings.ContainsAny(fallback(s), "<>`") {
			t.Errorf("%q", fallback(s))
		}
	})
}
