package policystore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// newStore on a cluster with policies, at noon.
func newStore(t *testing.T, policies ...string) (*Store, *fake.FakeDynamicClient) {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range []string{
		v1alpha1.KindAllowancePolicy, v1alpha1.KindUpgradeAllowance, v1alpha1.KindApprovalPolicy, v1alpha1.KindClusterApprovalPolicy, v1alpha1.KindApprovalRule,
	} {
		lists[gvr(v1alpha1.PolicyResource(kind))] = kind + "List"
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	for _, text := range policies {
		o := policyOf(t, text)
		o.SetAPIVersion(v1alpha1.GroupVersion.String())
		if err := client.Tracker().Create(gvr(v1alpha1.PolicyResource(o.GetKind())), o, o.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(client, testr.New(t), v1alpha1.PolicyResources()...)
	if err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time { return noon }
	return s, client
}

// start the store until the test ends.
func start(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the store ended: %v", err)
		}
	})
}

// statusRead is the status of a policy as it is stored.
func statusRead(t *testing.T, client *fake.FakeDynamicClient, kind, namespace, name string) v1alpha1.PolicyStatus {
	t.Helper()
	o, err := client.Resource(gvr(v1alpha1.PolicyResource(kind))).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := statusOf(o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

const (
	allowing  = `{kind: AllowancePolicy, metadata: {name: a, uid: a, generation: 1}, spec: {target: {kind: A}, rules: [{trigger: spec.a, allow: []}]}}`
	broken    = `{kind: AllowancePolicy, metadata: {name: b, uid: b, generation: 1}, spec: {target: {kind: B}, rules: [{trigger: "spec[", allow: []}]}}`
	excepting = `{kind: ApprovalPolicy, metadata: {namespace: team, name: e, uid: e, generation: 1}, spec: {rules: [{mode: once, kind: Pod}]}}`
)

// TestStart: there is no Set before all kinds were read; then it follows the
// policies, and the leader writes their status (KR-05-53).
func TestStart(t *testing.T) {
	s, client := newStore(t, allowing, broken, excepting)
	if s.HasSynced() || s.Policies() != nil {
		t.Fatal("there is a Set before the policies were read")
	}
	if s.NeedLeaderElection() {
		t.Error("only the leader would decide by policies")
	}
	start(t, s)
	await.Poll(t, "the policies are read", s.HasSynced)
	if got := len(s.Policies().Pending()); got != 0 {
		t.Errorf("%d policies have pending claims", got)
	}
	if st := statusRead(t, client, v1alpha1.KindAllowancePolicy, "", "a"); st.ObservedGeneration != 0 {
		t.Errorf("a replica that does not lead wrote %+v", st)
	}
	s.Lead()
	await.Poll(t, "the status of a policy that compiles", func() bool {
		st := statusRead(t, client, v1alpha1.KindAllowancePolicy, "", "a")
		return st.ObservedGeneration == 1 && len(st.Conditions) == 1 && st.Conditions[0].Reason == v1alpha1.ReasonCompiled
	})
	await.Poll(t, "the status of one that does not", func() bool {
		st := statusRead(t, client, v1alpha1.KindAllowancePolicy, "", "b")
		return len(st.Conditions) == 1 && st.Conditions[0].Reason == v1alpha1.ReasonCompileFailed && len(st.Rules) == 1 && len(st.Rules[0].Errors) == 1
	})
	before := s.Policies()
	if err := client.Resource(gvr(v1alpha1.ResourceAllowancePolicies)).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Poll(t, "another Set after a deletion", func() bool { return s.Policies() != before })
}

// TestNoCRDs: a kind whose CRD is not installed has no policies; it does not keep
// the others from coming into force.
func TestNoCRDs(t *testing.T) {
	s, client := newStore(t, allowing)
	missing := func(a clienttesting.Action) (bool, runtime.Object, error) {
		if r := a.GetResource(); r.Resource == v1alpha1.ResourceUpgradeAllowances {
			return true, nil, kerrors.NewNotFound(r.GroupResource(), "")
		}
		return false, nil, nil
	}
	client.PrependReactor("list", "*", missing)
	start(t, s)
	await.Poll(t, "the policies are read", s.HasSynced)
	if s.Policies() == nil {
		t.Error("there is no Set")
	}
}

func claimOf(id string) v1alpha1.PolicyClaim {
	return v1alpha1.PolicyClaim{Rule: "rules[0]", ID: id, At: metav1.NewTime(noon), State: v1alpha1.ClaimPending,
		Parent: v1alpha1.ObjectReference{Kind: "ReplicaSet", Namespace: "team", Name: "r", UID: "r"},
		Child:  &v1alpha1.ClaimChild{APIVersion: "v1", Kind: "Pod", Namespace: "team", Name: "p", UID: "p", Version: "g1"}}
}

// TestClaim covers the outcomes of a claim (KR-05-33).
func TestClaim(t *testing.T) {
	mine := outcome.PolicyClaimEffect{Namespace: "team", Name: "e", Claim: claimOf("1"), Stale: noon.Add(-time.Minute)}
	conflict := kerrors.NewConflict(gvr(v1alpha1.ResourceApprovalPolicies).GroupResource(), "e", errors.New("changed"))
	cases := map[string]struct {
		reason    string
		policies  []string
		have      []v1alpha1.PolicyClaim
		conflicts int
		lost, err bool
		want      []string // ids of claims afterwards
	}{
		"Free":         {reason: "it is written", policies: []string{excepting}, want: []string{"1"}},
		"Mine":         {reason: "the same use is not written again", policies: []string{excepting}, have: []v1alpha1.PolicyClaim{claimOf("1")}, want: []string{"1"}},
		"Taken":        {reason: "another use was first", policies: []string{excepting}, have: []v1alpha1.PolicyClaim{claimOf("2")}, lost: true, want: []string{"2"}},
		"Conflicts":    {reason: "it is read and written again", policies: []string{excepting}, conflicts: maxClaimTries - 1, want: []string{"1"}},
		"AllConflicts": {reason: "it cannot be written", policies: []string{excepting}, conflicts: maxClaimTries, err: true},
		"Deleted":      {reason: "the policy does not exist any more", lost: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, client := newStore(t, tc.policies...)
			start(t, s)
			await.Poll(t, "the policies are read", s.HasSynced)
			r := client.Resource(gvr(v1alpha1.ResourceApprovalPolicies)).Namespace("team")
			if tc.have != nil {
				o, err := r.Get(t.Context(), "e", metav1.GetOptions{})
				if err == nil {
					err = setClaims(o, tc.have)
				}
				if err == nil {
					_, err = r.UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			left := tc.conflicts
			client.PrependReactor("update", "approvalpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
				left--
				return left >= 0, nil, conflict
			})
			lost, err := s.Claim(t.Context(), mine, s.Policies())
			if (lost != nil) != tc.lost || (err != nil) != tc.err {
				t.Errorf("%s: lost %t, %v", tc.reason, lost != nil, err)
			}
			var ids []string
			if o, err := r.Get(t.Context(), "e", metav1.GetOptions{}); err == nil {
				claims, err := claimsOf(o)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range claims {
					ids = append(ids, c.ID)
				}
			}
			if !slices.Equal(ids, tc.want) {
				t.Errorf("%s: claims %v, want %v", tc.reason, ids, tc.want)
			}
		})
	}
}

// TestFlush adds uses to the status of the policies; after an error they are kept
// (KR-05-53).
func TestFlush(t *testing.T) {
	const rules = `, status: {observedGeneration: 1, rules: [{path: "rules[0]", compiled: true, uses: 2}]}}`
	s, client := newStore(t, excepting[:len(excepting)-1]+rules)
	fail := true
	client.PrependReactor("patch", "approvalpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fail, nil, errors.New("not now")
	})
	for range 3 {
		s.Used(outcome.ExceptionUse{Policy: "ApprovalPolicy/team/e", Rule: "rules[0]"})
	}
	s.Used(outcome.ExceptionUse{Policy: "ApprovalPolicy/team/gone", Rule: "rules[0]"})
	s.Flush(t.Context())
	if st := statusRead(t, client, v1alpha1.KindApprovalPolicy, "team", "e"); st.Rules[0].Uses != 2 {
		t.Errorf("%d uses after an error", st.Rules[0].Uses)
	}
	fail = false
	for range 2 { // the second has nothing to add
		s.Flush(t.Context())
	}
	st := statusRead(t, client, v1alpha1.KindApprovalPolicy, "team", "e")
	if st.Rules[0].Uses != 5 || st.Rules[0].LastUsed == nil || !st.Rules[0].LastUsed.Time.Equal(noon) {
		t.Errorf("%+v", st.Rules[0])
	}
}

// TestFinish: a claim of mode once is used when its change is stored, released
// when it is not, and kept while that is unknown (KR-05-36).
func TestFinish(t *testing.T) {
	child := func(generation int64) Children {
		return func(context.Context, v1alpha1.Claim) (settling.Child, error) {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion("v1")
			o.SetKind("Pod")
			o.SetName("p")
			o.SetUID("p")
			o.SetGeneration(generation)
			return settling.Child{State: parent.Sum(o, parent.RoleNone)}, nil
		}
	}
	unreadable := func(context.Context, v1alpha1.Claim) (settling.Child, error) {
		return settling.Child{}, errors.New("down")
	}
	cases := map[string]struct {
		reason   string
		children Children
		age      time.Duration
		want     []v1alpha1.ClaimState
		err      bool
	}{
		"Stored":     {reason: "the child has another version", children: child(2), age: time.Minute, want: []v1alpha1.ClaimState{v1alpha1.ClaimUsed}},
		"NotStored":  {reason: "the child has the version of the claim for too long", children: child(1), age: time.Hour},
		"Young":      {reason: "the change may still be stored", children: child(1), want: []v1alpha1.ClaimState{v1alpha1.ClaimPending}},
		"Unreadable": {reason: "nothing is known", children: unreadable, age: time.Minute, want: []v1alpha1.ClaimState{v1alpha1.ClaimPending}, err: true},
		"Doubt":      {reason: "unreadable for too long", children: unreadable, age: 2 * doubtFor, want: []v1alpha1.ClaimState{v1alpha1.ClaimUsed}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, client := newStore(t, excepting)
			claim := claimOf("1")
			claim.At = metav1.NewTime(noon.Add(-tc.age))
			r := client.Resource(gvr(v1alpha1.ResourceApprovalPolicies)).Namespace("team")
			o, err := r.Get(t.Context(), "e", metav1.GetOptions{})
			if err == nil {
				err = setClaims(o, []v1alpha1.PolicyClaim{claim})
			}
			if err == nil {
				o, err = r.UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			c, err := Compile(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.finish(t.Context(), c.Exception.WithClaims([]v1alpha1.PolicyClaim{claim}), tc.children); (err != nil) != tc.err {
				t.Errorf("%s: %v", tc.reason, err)
			}
			o, err = r.Get(t.Context(), "e", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			claims, err := claimsOf(o)
			if err != nil {
				t.Fatal(err)
			}
			var got []v1alpha1.ClaimState
			for _, c := range claims {
				got = append(got, c.State)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
