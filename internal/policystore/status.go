package policystore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// outdated reports whether the status of a policy is not about its current
// generation.
func outdated(o *unstructured.Unstructured, it *Compiled) bool {
	st, err := statusOf(o)
	if err != nil || st.ObservedGeneration != o.GetGeneration() || len(st.Rules) != len(it.Rules) {
		return true
	}
	return meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionCompiled) == nil
}

// statusOf a policy: its rules with their errors and uses (KR-05-53).
func statusOf(o *unstructured.Unstructured) (v1alpha1.PolicyStatus, error) {
	return statusAs[v1alpha1.PolicyStatus](o)
}

// statusAs returns the status of a policy as a type.
func statusAs[T any](o *unstructured.Unstructured) (status T, err error) {
	p, err := typed[struct {
		Status T `json:"status"`
	}](o)
	if err == nil {
		status = p.Status
	}
	return status, err
}

// report how a policy was compiled, in its status (KR-05-53). After a conflict
// the event of the other write has it reported again.
func (s *Store) report(ctx context.Context, o *unstructured.Unstructured, it *Compiled) {
	st, err := statusOf(o)
	if err != nil {
		st = v1alpha1.PolicyStatus{}
	}
	old := map[string]v1alpha1.RuleStatus{}
	if st.ObservedGeneration == o.GetGeneration() {
		for _, r := range st.Rules {
			old[r.Path] = r
		}
	}
	rules := make([]v1alpha1.RuleStatus, 0, len(it.Rules))
	broken := 0
	for _, r := range it.Rules {
		r.Uses, r.LastUsed, r.Warnings = old[r.Path].Uses, old[r.Path].LastUsed, old[r.Path].Warnings
		if !r.Compiled {
			broken++
		}
		rules = append(rules, r)
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionCompiled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompiled,
		ObservedGeneration: o.GetGeneration(), LastTransitionTime: metav1.NewTime(s.now().UTC().Truncate(time.Second)), Message: "every rule is in force"}
	if broken > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonCompileFailed
		condition.Message = fmt.Sprintf("%d of %d rules are not in force, see status.rules", broken, len(rules))
	}
	meta.SetStatusCondition(&st.Conditions, condition)
	status := map[string]any{"observedGeneration": o.GetGeneration(), "conditions": st.Conditions, "rules": rules}
	if e := it.Exception; e != nil {
		if current := e.InForce(e.Claims); broken == 0 && len(current) < len(e.Claims) {
			status["claims"] = current
		}
	}
	writeStatus(ctx, s, o, status)
}

// writeStatus patches the status of a policy. An error is logged, unless the policy has changed since it was read, or is gone.
func writeStatus(ctx context.Context, s *Store, o *unstructured.Unstructured, status map[string]any) {
	err := s.patchStatus(ctx, o, status)
	if err != nil && !kerrors.IsConflict(err) && !kerrors.IsNotFound(err) {
		s.log.Error(err, "cannot write the status of a policy", "kind", o.GetKind(), "namespace", o.GetNamespace(), "name", o.GetName())
	}
}

// writeTimeout bounds one write of a status.
const writeTimeout = 5 * time.Second

// patchStatus of a policy that has not changed since it was read; other fields of
// the status, as claims, are kept.
func (s *Store) patchStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()}, "status": status})
	if err != nil {
		return fmt.Errorf("cannot encode the status: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = s.client.Resource(gvr(v1alpha1.PolicyResource(o.GetKind()))).Namespace(o.GetNamespace()).
		Patch(ctx, o.GetName(), types.MergePatchType, raw, metav1.PatchOptions{FieldManager: manager}, "status")
	return err
}

// use of a rule of an ApprovalPolicy, or of an UpgradeAllowance.
type use struct{ policy, rule string }

// maxUses bounds the rules with uses that are not written yet.
const maxUses = 10000

// flushEvery is how often uses are written.
const flushEvery = 30 * time.Second

// Used counts a use of a rule. This replica adds the count to the status of the
// policy within flushEvery.
func (s *Store) Used(u outcome.ExceptionUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := use{policy: u.Policy, rule: u.Rule}
	if _, ok := s.uses[k]; ok || len(s.uses) < maxUses {
		s.uses[k]++
	}
}

// flushUses every flushEvery until the context ends, and once more then, so that a
// replica that ends normally loses no count.
func (s *Store) flushUses(ctx context.Context) {
	for ctx.Err() == nil {
		s.pause(ctx, flushEvery)
		s.Flush(context.WithoutCancel(ctx))
	}
}

// Flush the uses that are not written yet. What cannot be written, as after a
// conflict, is kept for the next time.
func (s *Store) Flush(ctx context.Context) {
	s.mu.Lock()
	pending := s.uses
	s.uses = map[use]int64{}
	s.mu.Unlock()
	byPolicy := map[string]map[string]int64{}
	for u, n := range pending {
		if byPolicy[u.policy] == nil {
			byPolicy[u.policy] = map[string]int64{}
		}
		byPolicy[u.policy][u.rule] = n
	}
	for policy, rules := range byPolicy {
		if err := s.countUses(ctx, policy, rules); err != nil && !kerrors.IsNotFound(err) {
			s.log.V(1).Info("cannot write the uses of a policy; they are written later", "policy", policy, "reason", err.Error())
			s.mu.Lock()
			for r, n := range rules {
				s.uses[use{policy: policy, rule: r}] += n
			}
			s.mu.Unlock()
		}
	}
}

// countUses adds the uses of rules, by their paths, to the status of a policy. Uses of a
// rule that the policy no longer has are dropped. A conflict is an error: the uses are
// kept and added later.
func (s *Store) countUses(ctx context.Context, policy string, uses map[string]int64) error {
	parts := strings.Split(policy, "/") // KIND/NAME or KIND/NAMESPACE/NAME, see allowance.Exception.Key
	namespace, name := "", parts[len(parts)-1]
	if len(parts) == 3 {
		namespace = parts[1]
	}
	o, err := s.client.Resource(gvr(v1alpha1.PolicyResource(parts[0]))).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	st, err := statusOf(o)
	if err != nil {
		return err
	}
	now := metav1.NewTime(s.now().UTC().Truncate(time.Minute))
	for i := range st.Rules {
		if n := uses[st.Rules[i].Path]; n > 0 {
			st.Rules[i].Uses += n
			st.Rules[i].LastUsed = &now
		}
	}
	return s.patchStatus(ctx, o, map[string]any{"rules": st.Rules})
}
