package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestCollector: kinds of one name in two groups are one in the metrics, since the
// same metric twice fails the whole scrape. Kinds without gates have none.
func TestCollector(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	kind := func(group, name string, managed bool) kinds.Info {
		return kinds.Info{GVK: schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}, Kind: identity.Kind{ManagementPolicies: managed}}
	}
	legacy, modern, flux, plain := kind("kubernetes.example.org", "Object", true), kind("kubernetes.m.example.org", "Object", true),
		kind("infra.contrib.fluxcd.io", "Terraform", false), kind("example.org", "Plain", false)
	one := func(i kinds.Info, key, state string) *states.Object {
		g := mask.FormatGate(v1alpha1.Gate{State: v1alpha1.GateState(state), At: metav1.NewTime(now.Add(-time.Minute))})
		return &states.Object{State: &parent.State{Ref: parent.Ref{GroupVersionKind: i.GVK, Name: state},
			Annotations: map[string]string{key: `["*"]`, v1alpha1.AnnotationKeyGate: g}}}
	}
	masked := v1alpha1.AnnotationKeyManagementPolicies
	foreign := &byRef[externalState]{}
	tf := one(flux, v1alpha1.AnnotationKeyExternalAuthor, "closed")
	foreign.note(tf.State.Ref, stateOf(external.View{}))
	c := collector{
		kinds: func() []kinds.Info { return []kinds.Info{legacy, modern, flux, plain} },
		list: func(k schema.GroupVersionKind) []*states.Object {
			return map[schema.GroupVersionKind][]*states.Object{
				legacy.GVK: {one(legacy, masked, "closed"), one(legacy, "other", "closed")}, modern.GVK: {one(modern, masked, "closed"), one(modern, masked, "open")},
				flux.GVK: {tf}, plain.GVK: {one(plain, masked, "open")},
			}[k]
		},
		look: func(o *states.Object) externalState {
			if o.GroupVersionKind == flux.GVK {
				return foreign.of(o.State.Ref)
			}
			return externalState{differs: o.GroupVersionKind == modern.GVK, unknown: o.Blind()}
		},
		now: func() time.Time { return now },
	}
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "kausality_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"external_drift Object": 1, "external_drift Terraform": 0,
		"external_drift_unknown Object GoneUnseen": 0, "external_drift_unknown Object NotLooking": 0, "external_drift_unknown Object NothingComparable": 2,
		"external_drift_unknown Object BeyondOutputs": 0, "external_drift_unknown Terraform BeyondOutputs": 0,
		"external_drift_unknown Terraform GoneUnseen": 0, "external_drift_unknown Terraform NotLooking": 1, "external_drift_unknown Terraform NothingComparable": 0,
		"gate_oldest_open_seconds Object": 60, "gate_oldest_open_seconds Terraform": 0,
		"gates Object closed": 2, "gates Object open": 1, "gates Terraform closed": 1, "gates Terraform open": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	foreign.forget(tf.State.Ref)
	if foreign.of(tf.State.Ref) != (externalState{}) {
		t.Error("the state of a deleted object is kept")
	}
}
