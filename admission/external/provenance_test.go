package external

import (
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
