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
		"DeploymentHalfWay": {reason: "observedGeneration is set at the first step of a rollout, which is not done",
			object: deployment + "  {observedGeneration: 4, replicas: 5, updatedReplicas: 2, readyReplicas: 4, availableReplicas: 4}", role: RoleNone,
			hasObserved: true, observed: 4},
		"DeploymentDone": {reason: "all replicas updated and available",
			object: deployment + "  observedGeneration: 4\n  replicas: 4\n  updatedReplicas: 4\n  readyReplicas: 4\n  availableReplicas: 4\n  " +
				"conditions:\n" + condition("Available", "True", "") + condition("Progressing", "True", ""),
			role: RoleNone, hasObserved: true, observed: 4, converged: true},
		"DeploymentBehind": {reason: "the controller has not seen the last change",
			object: deployment + "  observedGeneration: 3\n  replicas: 4\n  updatedReplicas: 4\n  readyReplicas: 4\n  availableReplicas: 4\n  " +
				"conditions:\n" + condition("Available", "True", ""),
			role: RoleNone, hasObserved: true, observed: 3},
		"XRReady": {reason: "Synced and Ready",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7"), role: RoleComposite,
			hasObserved: true, observed: 7, converged: true},
		"XRSyncedWins": {reason: "Synced before Ready",
			object: xr + "  conditions:\n" + condition("Ready", "True", "7") + condition("Synced", "True", "6"), role: RoleComposite,
			hasObserved: true, observed: 6, converged: true},
		"XRUnsynced": {reason: "a condition that is not True has observed nothing",
			object: xr + "  conditions:\n" + condition("Synced", "False", "7") + condition("Ready", "True", "6"), role: RoleComposite,
			hasObserved: true, observed: 6},
		"XRNotReady": {reason: "Ready is needed to converge",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "False", "7"), role: RoleComposite,
			hasObserved: true, observed: 7},
		"XRResponsive": {reason: "Responsive is not about composition",
			object: xr + "  conditions:\n" + condition("Responsive", "True", "7"), role: RoleComposite},
		"XROvertaken": {reason: "Crossplane composed what the XR was when the reconcile began, and reports what it is at the end (KR-03-10)",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7") + condition("Responsive", "True", "6"),
			role:   RoleComposite, hasObserved: true, observed: 6, converged: true},
		"XRBegun": {reason: "the next reconcile began, and has not ended",
			object: xr + "  conditions:\n" + condition("Synced", "True", "6") + condition("Ready", "True", "6") + condition("Responsive", "True", "7"),
			role:   RoleComposite, hasObserved: true, observed: 6, converged: true},
		"XRBreakerOpen": {reason: "Responsive shows when the reconcile began whatever its status",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7") + condition("Responsive", "False", "6"),
			role:   RoleComposite, hasObserved: true, observed: 6, converged: true},
		"XRResponsiveUnstamped": {reason: "it has no generation",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7") + condition("Responsive", "True", ""),
			role:   RoleComposite, hasObserved: true, observed: 7, converged: true},
		"MRResponsive": {reason: "a condition of composites alone",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7") + condition("Responsive", "True", "6"),
			role:   RoleManaged, hasObserved: true, observed: 7, converged: true},
		"XROwnField": {reason: "an XR's status belongs to its author, observedGeneration too",
			object: xr + "  observedGeneration: 9\n  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7"),
			role:   RoleComposite, hasObserved: true, observed: 7, converged: true},
		"XRAhead": {reason: "a generation that it does not have yet was observed of another object, of which this was restored",
			object: xr + "  conditions:\n" + condition("Synced", "True", "8") + condition("Ready", "True", "8"), role: RoleComposite, converged: true},
		"XRNoStatus": {reason: "never reconciled", object: xr, role: RoleComposite},
		"MRReady": {reason: "Synced is stamped, Ready is not",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", ""), role: RoleManaged, hasObserved: true,
			observed: 7, converged: true},
		"MRUnstamped": {reason: "an old provider stamps neither",
			object: xr + "  conditions:\n" + condition("Synced", "True", "") + condition("Ready", "True", ""), role: RoleManaged, converged: true},
		"Claim": {reason: "as an XR",
			object: xr + "  conditions:\n" + condition("Synced", "True", "7") + condition("Ready", "True", "7"), role: RoleClaim, hasObserved: true,
			observed: 7, converged: true},
		"ConfigMap": {reason: "reports nothing: it has observed nothing, so it never settles",
			object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}", role: RoleNone, converged: true},
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

// Lifecycle (KR-03-09, KR-02-05).
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
		"New": {reason: "nothing yet", state: State{}, want: v1alpha1.PhaseInitializing},
		"Deleting": {reason: "a deletionTimestamp before everything",
			state: State{DeletedAt: &deleted, Conditions: with("Ready")}, settled: true, want: v1alpha1.PhaseDeleting},
		"Latched": {reason: "never downgraded",
			state: State{Annotations: latched(v1alpha1.AnnotationKeyPhase, "initialized")}, want: v1alpha1.PhaseInitialized},
		"LatchedOpen": {reason: "stored as initializing",
			state: State{Annotations: latched(v1alpha1.AnnotationKeyPhase, "initializing")}, want: v1alpha1.PhaseInitializing},
		"LegacyLatched": {reason: "the legacy form", state: State{Annotations: latched(v1alpha1.AnnotationKeyInitialized, "true")},
			want: v1alpha1.PhaseInitialized},
		"LegacyFalse": {reason: "only true counts",
			state: State{Annotations: latched(v1alpha1.AnnotationKeyInitialized, "false")}, want: v1alpha1.PhaseInitializing},
		"Initialized": {reason: "the condition", state: State{Conditions: with("Initialized")}, want: v1alpha1.PhaseInitialized},
		"Ready":       {reason: "the condition", state: State{Conditions: with("Ready")}, want: v1alpha1.PhaseInitialized},
		"Synced":      {reason: "is not enough", state: State{Conditions: with("Synced")}, want: v1alpha1.PhaseInitializing},
		"Settled": {reason: "once, with status evidence", state: State{HasStatus: true}, settled: true,
			want: v1alpha1.PhaseInitialized},
		"SettledNoStatus": {reason: "no status at all: not initialised, whatever kstatus returns", state: State{}, settled: true,
			want: v1alpha1.PhaseInitializing},
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
		"LegacyXR": {reason: "spec.resourceRefs; a namespaced one names it", object: `
apiVersion: example.org/v1
kind: XDatabase
metadata: {name: db}
spec:
  compositionRevisionRef: {name: db-1}
  resourceRefs:
  - {apiVersion: nop.example.org/v1, kind: A, name: a}
  - {apiVersion: nop.example.org/v1, kind: B, name: b, namespace: infra}
  - {apiVersion: nop.example.org/v1, kind: C}`, role: RoleComposite,
			want: want{Children: []Ref{ref("A", "", "a"), ref("B", "infra", "b")}, Revision: "db-1"}},
		"ModernXR": {reason: "spec.crossplane; the namespace is its own, and its author's resourceRefs are none", object: `
apiVersion: example.org/v1
kind: Database
metadata: {name: db, namespace: team}
spec:
  resourceRefs: [{apiVersion: nop.example.org/v1, kind: X, name: x}]
  crossplane:
    compositionRevisionRef: {name: db-2}
    resourceRefs: [{apiVersion: nop.example.org/v1, kind: A, name: a}]`, role: RoleComposite,
			want: want{Children: []Ref{ref("A", "team", "a")}, Revision: "db-2"}},
		"Claim": {reason: "its one cluster-scoped XR", object: `
apiVersion: example.org/v1
kind: Database
metadata: {name: db, namespace: team}
spec: {resourceRef: {apiVersion: nop.example.org/v1, kind: XDatabase, name: db-x}}`, role: RoleClaim,
			want: want{Children: []Ref{ref("XDatabase", "", "db-x")}, ClaimTarget: "db-x"}},
		"MR": {reason: "policies, deletionPolicy and pause", object: `
apiVersion: nop.example.org/v1
kind: A
metadata: {name: a, annotations: {crossplane.io/paused: "true"}}
spec: {managementPolicies: [Observe, Create], deletionPolicy: Orphan, resourceRefs: [{kind: X, name: x}]}`, role: RoleManaged,
			want: want{Policies: []string{"Observe", "Create"}, Deletion: "Orphan", Paused: true}},
		"NoSpec": {reason: "nothing to read", object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", role: RoleNone,
			want: want{}},
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
