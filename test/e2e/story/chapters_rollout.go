package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Bob approves, too.
const Bob = "bob@example.com"

// ruleName and rule of the chapter: updates of databases need two approvals, not by their authors.
const (
	ruleName = "two-approvals"
	rule     = `
apiVersion: kausality.io/v1alpha1
kind: ApprovalRule
metadata: {name: ` + ruleName + `}
spec:
  match: {resources: [{group: cloud.example.org, kinds: [Database]}], verbs: [Update]}
  require: [{count: 2, notAuthors: true}]
`
	rolloutName = "platinum"
)

// rolledOut: a Composition revision passes by the votes of two users for a Rollout. The author of the XR is none of them.
func rolledOut(ctx context.Context, e *Env, t *Teller) error {
	access := rbacv1.PolicyRule{APIGroups: []string{"example.org", "kausality.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	if err := e.Grant(ctx, Bob, access); err != nil {
		return err
	}
	t.Types("", "kubectl apply -f approvalrule.yaml   # updates of Databases need two approvals, not by their authors")
	if err := e.Apply(ctx, []byte(rule)); err != nil {
		return err
	}
	since, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # tier: gold → platinum")
	if err := e.Compose(ctx, Composition{Tier: "platinum", Kausality: true}); err != nil {
		return err
	}
	plan, err := e.beginRollout(ctx, t)
	if err != nil {
		return err
	}
	for i, user := range []string{Alice, Hans} {
		if err := e.voteRollout(ctx, t, user, plan); err != nil {
			return err
		}
		s, err := e.rolloutIs(ctx, "have the vote", func(s *v1alpha1.RolloutStatus) bool { return len(s.Votes) == i+1 })
		if err != nil {
			return err
		}
		if !strings.HasPrefix(s.Lacks, "1 of 2 approvals (alice@example.com); needs 1 more, not hans@example.com") {
			return fmt.Errorf("after the vote of %s it lacks %q", user, s.Lacks)
		}
		t.Reports("%s: %s", s.Phase, s.Lacks)
	}
	t.Right("hans's vote does not count: he is the author of the XR")
	if err := e.tierStays(ctx, t, since, "gold"); err != nil {
		return err
	}
	if err := e.voteRollout(ctx, t, Bob, plan); err != nil {
		return err
	}
	s, err := e.rolloutIs(ctx, "be completed", func(s *v1alpha1.RolloutStatus) bool { return s.Phase == v1alpha1.RolloutCompleted })
	if err != nil {
		return err
	}
	t.Reports("%s: %s", s.Phase, s.Message)
	if err := e.passedByVotes(ctx, t, since); err != nil {
		return err
	}
	return errors.Join(e.Delete(ctx, Alice, rollouts, rolloutName),
		e.admin.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceApprovalRules)).Delete(ctx, ruleName, metav1.DeleteOptions{}))
}

var rollouts = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)

// beginRollout of the revision whose change of the database is held, and return the id of its plan.
func (e *Env) beginRollout(ctx context.Context, t *Teller) (string, error) {
	revision := ""
	err := until(ctx, "the change to be held", func(ctx context.Context) error {
		u, err := e.drift(ctx, "ControllerChild", "Database", "UPDATE")
		if err != nil {
			return err
		}
		d := &v1alpha1.Drift{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
			return err
		}
		if c := d.Spec.Causes; len(c) != 1 || c[0].Kind != v1alpha1.CauseComposition || d.Spec.Difference[0].New != `"platinum"` {
			return fmt.Errorf("it is of %v, with %v", c, d.Spec.Difference)
		}
		revision = d.Spec.Causes[0].Name
		return nil
	})
	if err != nil {
		return "", err
	}
	t.Types(Alice, fmt.Sprintf("kubectl kausality rollout start %s --cause %s --waves 100%%", rolloutName, revision))
	c, err := e.As(Alice)
	if err != nil {
		return "", err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindRollout,
		"metadata": map[string]any{"name": rolloutName}, "spec": map[string]any{"cause": map[string]any{"compositionRevision": revision},
			"waves": []any{map[string]any{"percent": int64(100)}}}}}
	if _, err := c.Resource(rollouts).Namespace(namespace).Create(ctx, o, createOptions); err != nil {
		return "", err
	}
	s, err := e.rolloutIs(ctx, "be planned", func(s *v1alpha1.RolloutStatus) bool {
		return s.Plan != nil && s.Plan.Objects == 1 && strings.HasPrefix(s.Lacks, "0 of 2 ")
	})
	if err != nil {
		return "", err
	}
	t.Reports("%s: %s", s.Phase, s.Lacks)
	return s.Plan.ID, nil
}

func (e *Env) voteRollout(ctx context.Context, t *Teller, who, plan string) error {
	t.Types(who, "kubectl kausality rollout approve "+rolloutName)
	return e.Annotate(ctx, who, rollouts, rolloutName, v1alpha1.AnnotationKeyApprovePrefix+plan, string(v1alpha1.ApprovalOnce))
}

// rolloutIs waits until the Rollout is as is wants.
func (e *Env) rolloutIs(ctx context.Context, what string, is func(*v1alpha1.RolloutStatus) bool) (*v1alpha1.RolloutStatus, error) {
	o := &v1alpha1.Rollout{}
	return &o.Status, until(ctx, "the Rollout to "+what, func(ctx context.Context) error {
		u, err := e.admin.Resource(rollouts).Namespace(namespace).Get(ctx, rolloutName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		*o = v1alpha1.Rollout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
			return err
		}
		if !is(&o.Status) {
			return fmt.Errorf("it is %s, %s, lacks %q, unhealthy %v", o.Status.Phase, o.Status.Message, o.Status.Lacks, o.Status.Unhealthy)
		}
		return nil
	})
}

// passedByVotes: the database was changed once, by the votes of Alice and Bob.
func (e *Env) passedByVotes(ctx context.Context, t *Teller, since int64) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	db, err := e.Cloud.Get(ctx, mr.GetName())
	if err != nil {
		return err
	}
	if db.Tags["tier"] != "platinum" {
		return fmt.Errorf("the tags of the database are %v", db.Tags)
	}
	if err := e.onlyWrite(ctx, t, since, mr.GetName()); err != nil {
		return err
	}
	hops, err := Trace(mr)
	if err != nil {
		return err
	}
	t.Reports("%s", Tree(hops))
	var by []string
	if a := hops[len(hops)-1].Approval; a != nil {
		for _, v := range a.By {
			by = append(by, v.User)
		}
	}
	if slices.Sort(by); !slices.Contains(by, Alice) || !slices.Contains(by, Bob) {
		return fmt.Errorf("the trace names the approvers %v", by)
	}
	t.Right("the trace names who approved: %s", strings.Join(by, ", "))
	return nil
}
