package policystore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Unbound returns the parts of a policy that can have no effect (KR-06-26); nil for what is no
// policy. kinds is nil where no cluster is known.
func Unbound(o *unstructured.Unstructured, kinds allowance.Kinds, now time.Time) []allowance.RuleError {
	switch o.GetKind() {
	case v1alpha1.KindAllowancePolicy:
		if p, err := typed[v1alpha1.AllowancePolicy](o); err == nil {
			return allowance.Unbound(p, kinds)
		}
	case v1alpha1.KindUpgradeAllowance:
		if u, err := typed[v1alpha1.UpgradeAllowance](o); err == nil {
			return allowance.UnboundUpgrade(u, kinds, now)
		}
	case v1alpha1.KindApprovalPolicy, v1alpha1.KindClusterApprovalPolicy:
		if p, err := typed[v1alpha1.ApprovalPolicy](o); err == nil {
			return allowance.UnboundApproval(o.GetNamespace(), &p.Spec, kinds, now)
		}
	case v1alpha1.KindApprovalRule:
		if r, err := typed[v1alpha1.ApprovalRule](o); err == nil {
			return allowance.UnboundRule(r, kinds)
		}
	}
	return nil
}

// withoutEffect returns what a policy has without effect: Unbound, and verbs of the kind.
func withoutEffect(o *unstructured.Unstructured, kinds allowance.Kinds, now time.Time) []allowance.RuleError {
	certain, possible := Ineffective(o)
	return slices.Concat(certain, possible, Unbound(o, kinds, now))
}

const (
	// maxShown bounds the parts without effect that a warning or a condition names.
	maxShown = 10
	// effectsEvery is how often effects are computed again, since rules expire and
	// built-in kinds come and go without an event.
	effectsEvery = time.Minute
	// effectsPause is between two computations.
	effectsPause = time.Second
)

// WithKinds has the leader report in the status of policies what of them can have no
// effect on these kinds. Call it before Start, and Recheck when the kinds change.
func (s *Store) WithKinds(kinds allowance.Kinds) *Store {
	s.kinds = kinds
	return s
}

// Recheck which parts of policies can have an effect. It does not block.
func (s *Store) Recheck() {
	select {
	case s.recheck <- struct{}{}:
	default: // requested already
	}
}

// reportEffects of all policies until the context ends, where this replica leads. It
// delays no decision.
func (s *Store) reportEffects(ctx context.Context) {
	if s.kinds == nil {
		return
	}
	every := time.NewTicker(effectsEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case <-s.recheck:
		}
		if s.leads.Load() && s.built.Load() {
			for _, o := range s.all() {
				s.reportEffect(ctx, o)
			}
		}
		s.pause(ctx, effectsPause)
	}
}

// reportEffect in the status of a policy, once the status is about its current generation.
// After a conflict the event of the other write has it reported again.
func (s *Store) reportEffect(ctx context.Context, o *unstructured.Unstructured) {
	st, err := statusOf(o)
	if err != nil || st.ObservedGeneration != o.GetGeneration() {
		return
	}
	found := withoutEffect(o, s.kinds, s.now())
	condition := effective(found)
	condition.ObservedGeneration, condition.LastTransitionTime = o.GetGeneration(), metav1.NewTime(s.now().UTC().Truncate(time.Second))
	changed := meta.SetStatusCondition(&st.Conditions, condition)
	for i := range st.Rules {
		warnings := texts(of(st.Rules[i].Path, found))
		changed = changed || !slices.Equal(st.Rules[i].Warnings, warnings)
		st.Rules[i].Warnings = warnings
	}
	if !changed || ctx.Err() != nil {
		return
	}
	writeStatus(ctx, s, o, map[string]any{"conditions": st.Conditions, "rules": st.Rules})
}

// of a rule are those of the errors that are about it, bounded.
func of(rule string, errs []allowance.RuleError) []allowance.RuleError {
	var out []allowance.RuleError
	for _, e := range errs {
		if e.Rule == rule && len(out) < maxRuleErrors {
			out = append(out, e)
		}
	}
	return out
}

// effective returns the condition of a policy by what can have no effect.
func effective(found []allowance.RuleError) metav1.Condition {
	if len(found) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionEffective, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEffective,
			Message: "every part can have an effect"}
	}
	return metav1.Condition{Type: v1alpha1.ConditionEffective, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWithoutEffect,
		Message: strings.Join(bounded(found), "; ")}
}

// bounded texts of errors.
func bounded(errs []allowance.RuleError) []string {
	out := texts(errs[:min(len(errs), maxShown)])
	if more := len(errs) - maxShown; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
