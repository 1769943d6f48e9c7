package parent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team, generation: 4, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {replicas: 4}
status:
`

const xr = `
apiVersion: example.org/v1
kind: XDatabase
metadata: {name: db, generation: 7, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {size: s}
status:
`

func condition(kind, status, observed string) string {
	out := "  - {type: " + kind + ", status: \"" + status + "\", reason: R, lastTransitionTime: \"2026-01-02T00:00:00Z\""
	if observed != "" {
		out += ", observedGeneration: " + observed
	}
	return out + "}\n"
}

// Observed generation and converged (KR-03-01 to KR-03-03).
func TestObservedConverged(t *testing.T) {
	cases := map[string]struct {
		reason      string
		object      string
		role        Role
		hasObserved bool
		observed    int64
		converged   bool
	}{
		"DeploymentHalfWay": {"observedGeneration is set at the first step of a rollout, which is not done",
			deployment + "  {observedGeneration: 4, replicas: 5, updatedReplicas: 2, readyReplicas: 4, availableReplicas: 4}", RoleNone, true, 4, false},
		"DeploymentDone": {"all replicas updated and available",
			deployment + "  observedGeneration: 4\n  replicas: 4\n  updatedReplicas: 4\n  readyReplicas: 4\n  availableReplicas: 4\n  conditions:\n" + condition("Available", "True", "") + condition("Progressing", "True", ""), RoleNone, true, 4, true},
		"DeploymentBehind": {"the controller has not seen the last change",
			deployment + "  observedGeneration: 3\n  replicas: 4\n  updatedReplicas: 4\n  readyReplicas: 4\n  availableReplicas: 4\n  conditions:\n" + condition("Available", "True", ""), RoleNone, true, 3, false},
		"XRReady":      {"Synced and Ready", xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7"), RoleComposite, true, 7, true},
		"XRSyncedWins": {"Synced before Ready", xr + "  conditions:\n" + condition("Ready", "True", "7") + condition("Synced", "True", "6"), RoleComposite, true, 6, true},
		"XRUnsynced":   {"a condition that is not True has observed nothing", xr + "  conditions:\n" + condition("Synced", "False", "7") + condition("Ready", "True", "6"), RoleComposite, true, 6, false},
		"XRNotReady":   {"Ready is needed to converge", xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "False", "7"), RoleComposite, true, 7, false},
		"XRResponsive": {"Responsive is not about composition", xr + "  conditions:\n" + condition("Responsive", "True", "7"), RoleComposite, false, 0, false},
		"XROwnField":   {"an XR's status belongs to its author, observedGeneration too", xr + "  observedGeneration: 9\n  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7"), RoleComposite, true, 7, true},
		"XRNoStatus":   {"never reconciled", xr, RoleComposite, false, 0, false},
		"MRReady":      {"Synced is stamped, Ready is not", xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", ""), RoleManaged, true, 7, true},
		"MRUnstamped":  {"an old provider stamps neither", xr + "  conditions:\n" + condition("Synced", "True", "") + condition("Ready", "True", ""), RoleManaged, false, 0, true},
		"Claim":        {"as an XR", xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7"), RoleClaim, true, 7, true},
		"ConfigMap":    {"reports nothing: it has observed nothing, so it never settles", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}", RoleNone, false, 0, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := parse(t, tc.object)
			before := o.DeepCopy()
			s := Sum(o, tc.role)
			if s.HasObserved != tc.hasObserved || s.ObservedGeneration != tc.observed || s.Converged != tc.converged {
				t.Errorf("%s: got observed %t, %d, converged %t", tc.reason, s.HasObserved, s.ObservedGeneration, s.Converged)
			}
			if diff := cmp.Diff(before, o); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(s, Sum(o, tc.role)); diff != "" {
				t.Errorf("%s: same input, other output:\n%s", tc.reason, diff)
			}
		})
	}
}

// Lifecycle (KR-03-09).
func TestPhase(t *testing.T) {
	deleted := time.Now()
	with := func(condition string) []Condition {
		return []Condition{{Type: condition, Status: metav1.ConditionTrue}}
	}
	latched := func(k, v string) map[string]string { return map[string]string{k: v} }
	cases := map[string]struct {
		reason  string
		state   State
		settled bool
		want    v1alpha1.Phase
	}{
		"New":             {"nothing yet", State{}, false, v1alpha1.PhaseInitializing},
		"Deleting":        {"a deletionTimestamp before everything", State{DeletedAt: &deleted, Conditions: with("Ready")}, true, v1alpha1.PhaseDeleting},
		"Latched":         {"never downgraded", State{Annotations: latched(v1alpha1.AnnotationKeyPhase, "initialized")}, false, v1alpha1.PhaseInitialized},
		"LatchedOpen":     {"stored as initializing", State{Annotations: latched(v1alpha1.AnnotationKeyPhase, "initializing")}, false, v1alpha1.PhaseInitializing},
		"LegacyLatched":   {"the legacy form", State{Annotations: latched(v1alpha1.AnnotationKeyInitialized, "true")}, false, v1alpha1.PhaseInitialized},
		"LegacyFalse":     {"only true counts", State{Annotations: latched(v1alpha1.AnnotationKeyInitialized, "false")}, false, v1alpha1.PhaseInitializing},
		"Initialized":     {"the condition", State{Conditions: with("Initialized")}, false, v1alpha1.PhaseInitialized},
		"Ready":           {"the condition", State{Conditions: with("Ready")}, false, v1alpha1.PhaseInitialized},
		"Synced":          {"is not enough", State{Conditions: with("Synced")}, false, v1alpha1.PhaseInitializing},
		"Settled":         {"once, with status evidence", State{HasStatus: true}, true, v1alpha1.PhaseInitialized},
		"SettledNoStatus": {"no status at all: not initialised, whatever kstatus returns", State{}, true, v1alpha1.PhaseInitializing},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.state.Phase(tc.settled); got != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestSettledGeneration(t *testing.T) {
	for value, want := range map[string]int64{"": -1, "7": 7, "0": 0, "x": -1, "7.5": -1} {
		s := State{Annotations: map[string]string{v1alpha1.AnnotationKeySettledGeneration: value}}
		if got := s.SettledGeneration(); got != want {
			t.Errorf("%q: want %d, got %d", value, want, got)
		}
	}
}

func TestSumSpec(t *testing.T) {
	ref := func(kind, namespace, name string) Ref {
		return Ref{GroupVersionKind: schema.GroupVersionKind{Group: "nop.example.org", Version: "v1", Kind: kind}, Namespace: namespace, Name: name}
	}
	type want struct {
		Children                        []Ref
		ClaimTarget, Revision, Deletion string
		Policies                        []string
		Paused                          bool
	}
	cases := map[string]struct {
		reason string
		object string
		role   Role
		want   want
	}{
		"LegacyXR": {"spec.resourceRefs; a namespaced one names it", `
apiVersion: example.org/v1
kind: XDatabase
metadata: {name: db}
spec:
  compositionRevisionRef: {name: db-1}
  resourceRefs:
  - {apiVersion: nop.example.org/v1, kind: A, name: a}
  - {apiVersion: nop.example.org/v1, kind: B, name: b, namespace: infra}
  - {apiVersion: nop.example.org/v1, kind: C}`, RoleComposite,
			want{Children: []Ref{ref("A", "", "a"), ref("B", "infra", "b")}, Revision: "db-1"}},
		"ModernXR": {"spec.crossplane; the namespace is its own, and its author's resourceRefs are none", `
apiVersion: example.org/v1
kind: Database
metadata: {name: db, namespace: team}
spec:
  resourceRefs: [{apiVersion: nop.example.org/v1, kind: X, name: x}]
  crossplane:
    compositionRevisionRef: {name: db-2}
    resourceRefs: [{apiVersion: nop.example.org/v1, kind: A, name: a}]`, RoleComposite,
			want{Children: []Ref{ref("A", "team", "a")}, Revision: "db-2"}},
		"Claim": {"its one cluster-scoped XR", `
apiVersion: example.org/v1
kind: Database
metadata: {name: db, namespace: team}
spec: {resourceRef: {apiVersion: nop.example.org/v1, kind: XDatabase, name: db-x}}`, RoleClaim,
			want{Children: []Ref{ref("XDatabase", "", "db-x")}, ClaimTarget: "db-x"}},
		"MR": {"policies, deletionPolicy and pause", `
apiVersion: nop.example.org/v1
kind: A
metadata: {name: a, annotations: {crossplane.io/paused: "true"}}
spec: {managementPolicies: [Observe, Create], deletionPolicy: Orphan, resourceRefs: [{kind: X, name: x}]}`, RoleManaged,
			want{Policies: []string{"Observe", "Create"}, Deletion: "Orphan", Paused: true}},
		"NoSpec": {"nothing to read", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", RoleNone, want{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := Sum(parse(t, tc.object), tc.role)
			got := want{s.Children, s.ClaimTarget, s.CompositionRevision, s.DeletionPolicy, s.ManagementPolicies, s.Paused}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSumKeeps(t *testing.T) {
	s := Sum(parse(t, `
apiVersion: example.org/v1
kind: XDatabase
metadata:
  name: db
  uid: u1
  resourceVersion: "42"
  generation: 7
  annotations: {kausality.io/trace: "[]", crossplane.io/composition-resource-name: db, other: x}
  labels: {crossplane.io/composite: root, app: x}`), RoleComposite)
	if diff := cmp.Diff(map[string]string{"kausality.io/trace": "[]", "crossplane.io/composition-resource-name": "db"}, s.Annotations); diff != "" {
		t.Errorf("annotations: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"crossplane.io/composite": "root", "app": "x"}, s.Labels); diff != "" {
		t.Errorf("labels: -want, +got:\n%s", diff)
	}
	if s.UID != "u1" || s.ResourceVersion != "42" || s.Generation != 7 || s.HasStatus || s.Deleting() {
		t.Errorf("got %+v", s)
	}
}
