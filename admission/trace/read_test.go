package trace

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func hops() *rapid.Generator[v1alpha1.Hop] {
	return rapid.Custom(func(t *rapid.T) v1alpha1.Hop {
		texts := []string{"", "a", "example.org/v1", "system:serviceaccount:a:b", "},{"}
		if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			texts = append(texts, `"`, "<&>", "ü", "\u2028", `\`, "\t")
		}
		text := rapid.SampledFrom(texts)
		h := v1alpha1.Hop{
			APIVersion: text.Draw(t, "apiVersion"), Kind: text.Draw(t, "kind"), Name: text.Draw(t, "name"), Namespace: text.Draw(t, "namespace"),
			ClusterScoped: rapid.Bool().Draw(t, "clusterScoped"), Generation: rapid.Int64Min(-1).Draw(t, "generation"), User: text.Draw(t, "user"),
			Unattributed: rapid.Bool().Draw(t, "unattributed"), Settled: rapid.Bool().Draw(t, "settled"),
		}
		if rapid.Bool().Draw(t, "timestamp") {
			h.Timestamp = metav1.NewTime(noon.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "at")) * time.Second))
		}
		if rapid.IntRange(0, 5).Draw(t, "labels") == 0 {
			h.Labels = map[string]string{"a": "b"}
		}
		if rapid.IntRange(0, 5).Draw(t, "approval") == 0 {
			h.Approval = &v1alpha1.HopApproval{Content: "c"}
		}
		return h
	})
}

// What is read is what encoding/json reads, of what we write and of what is
// nearly so.
func TestReadIsJSON(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		value := Trace(rapid.SliceOfN(hops(), 1, 4).Draw(t, "trace")).String()
		if r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)); rapid.Bool().Draw(t, "damage") {
			raw := []byte(value)
			for range 1 + r.IntN(3) {
				raw[r.IntN(len(raw))] = `",:{}[]0-1\t eau`[r.IntN(16)]
			}
			value = string(raw)
		}
		got, ok := read(value)
		if !ok {
			return
		}
		taken++
		var want Trace
		if err := json.Unmarshal([]byte(value), &want); err != nil {
			t.Fatalf("%s is read, and encoding/json says %v", value, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -encoding/json +read\n%s", value, d)
		}
	})
	if taken == 0 {
		t.Error("nothing was read")
	}
}

// What almost all traces look like is read without encoding/json.
func TestReadTakesWhatWeWrite(t *testing.T) {
	h := hop("Database", "shop")
	for name, of := range map[string]Trace{
		"One": {h}, "Many": {clusterHop("XDatabase"), h, {APIVersion: "v1", Kind: "Secret", User: "system:admin", Unattributed: true, Settled: true}},
		"Untimed": {{APIVersion: "v1", Kind: "A"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := read(of.String())
			if d := cmp.Diff(of, got); !ok || d != "" {
				t.Errorf("read: %v, -want +got\n%s", ok, d)
			}
		})
	}
}
