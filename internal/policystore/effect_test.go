package policystore

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

// fewKinds has a kind A of any group, once it is installed.
type fewKinds struct{ installed atomic.Bool }

func (k *fewKinds) Find(kind, _ string, _ bool) ([]allowance.Kind, bool) {
	if kind != "A" || !k.installed.Load() {
		return nil, true
	}
	return []allowance.Kind{{}}, true
}

func (k *fewKinds) Names(string, bool) []string { return nil }

const ofA = `{kind: AllowancePolicy, metadata: {name: p, uid: p, generation: 1}, spec: {target: {kind: A}, subjects: [{kind: User, name: hans}],
  rules: [{trigger: spec.a, allow: [{relation: ControllerChild, target: {kind: B}, verbs: [Create]}]}]}}`

// What can have no effect is a warning when it is written, for all kinds of policies, and refused never (KR-06-26).
func TestValidatorWarns(t *testing.T) {
	warned := func(v Validator, text string) []string {
		t.Helper()
		raw, err := policyOf(t, text).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		r := ctrl.Request{}
		r.Operation, r.Object = admissionv1.Create, runtime.RawExtension{Raw: raw}
		resp := v.Handle(t.Context(), r)
		if !resp.Allowed {
			t.Errorf("refused: %+v", resp.Result)
		}
		return resp.Warnings
	}
	v := Validator{Kinds: &fewKinds{}, Now: func() time.Time { return noon }}
	for text, want := range map[string]string{
		ofA: "spec.target: the cluster has no kind A",
		`{kind: UpgradeAllowance, metadata: {name: p}, spec: {serviceAccount: a, validUntil: "2024-01-06T18:00:00Z", allow: []}}`: "spec.validUntil",
		`{kind: ApprovalPolicy, metadata: {name: p, namespace: a}, spec: {rules: [{kind: Nope, mode: always}]}}`:                  "spec.rules[0].kind",
		`{kind: ClusterApprovalPolicy, metadata: {name: p}, spec: {rules: [{mode: always}, {kind: A, mode: always}]}}`:            "spec.rules[1]: rules[0]",
		`{kind: ApprovalRule, metadata: {name: p}, spec: {match: {resources: [{group: "", kinds: [Nope]}]},
  require: [{count: 1}]}}`: "spec.match.resources[0].kinds[0]",
		`{kind: ApprovalPolicy, metadata: {name: p, namespace: a}, spec: {rules: [{mode: always, expiry: "2024-01-06T18:00:00Z"}]}}`: "spec.rules[0].expiry",
		`{kind: ClusterApprovalPolicy, metadata: {name: p}, spec: {rules: [{mode: always, match: {regexp: "version"}}]}}`:            "spec.rules[0].match.regexp",
		`{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A}, initializing: {when: "true", allow: []}}}`:           "spec.initializing.when",
		`{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A}, subjects: []}}`:                                      "",
	} {
		got := warned(v, text)
		if want != "" && !slices.ContainsFunc(got, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	many := strings.Builder{}
	for i := range 20 {
		fmt.Fprintf(&many, "{trigger: spec.a, allow: [{relation: ControllerChild, target: {kind: C%d}, verbs: [Create]}]},", i)
	}
	got := warned(v, `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A}, subjects: [{kind: User, name: a}], rules: [`+many.String()+`]}}`)
	if len(got) != maxShown+1 || got[maxShown] != "and 11 more" {
		t.Errorf("warnings %q", got)
	}
	if got := warned(Validator{}, ofA); len(got) > 0 {
		t.Errorf("without a cluster: %q", got)
	}
}

// The leader reports it in the status, and again when the kinds change (KR-06-26).
func TestEffective(t *testing.T) {
	s, client := newStore(t, ofA)
	kinds := &fewKinds{}
	s.WithKinds(kinds).Lead()
	start(t, s)
	has := func(status metav1.ConditionStatus, reason string, messages []string, warnings int) {
		t.Helper()
		last := ""
		defer func() {
			if t.Failed() {
				t.Log(last)
			}
		}()
		await.Poll(t, "the status", func() bool {
			o, err := client.Resource(gvr(v1alpha1.ResourceAllowancePolicies)).Get(t.Context(), "p", metav1.GetOptions{})
			require.NoError(t, err)
			last = fmt.Sprint(o.Object["status"])
			st, err := statusOf(o)
			require.NoError(t, err)
			c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionEffective)
			return c != nil && len(st.Rules) == 1 &&
				c.Status == status && c.Reason == reason && len(st.Rules[0].Warnings) == warnings && c.ObservedGeneration == 1 &&
				meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionCompiled) &&
				!slices.ContainsFunc(messages, func(m string) bool { return !strings.Contains(c.Message, m) })
		})
	}
	has(metav1.ConditionFalse, "WithoutEffect", []string{"spec.target: the cluster has no kind A", "spec.rules[0].allow[0].target: the cluster has no kind B"}, 1)
	kinds.installed.Store(true)
	s.Recheck()
	has(metav1.ConditionFalse, "WithoutEffect", []string{"spec.rules[0].allow[0].target: the cluster has no kind B"}, 1)
}

// A policy of which everything can have an effect (KR-06-26).
func TestEffectiveTrue(t *testing.T) {
	c := effective(nil)
	if c.Status != metav1.ConditionTrue || c.Reason != "Effective" {
		t.Errorf("%+v", c)
	}
	if got := Unbound(&unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap"}}, nil, noon); got != nil {
		t.Errorf("of no policy: %v", got)
	}
}
