package story

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// AllowancePolicies is what they do, with webhook and gate.
var AllowancePolicies = slices.Concat([]Chapter{
	{"The platform team writes a policy", offerPolicy},
	{"hans requests a database", created},
	{"Once it is settled, the gate is closed", settled},
	{"hans makes it larger: the policy allows that, down to the cloud", allowed},
	{"He makes it smaller: that stops before the database", stopped},
	{"With the annotation that the policy requires, it goes on", allowedToShrink},
	{"Deleting it: the policy allows that, and no approval is needed", goneByPolicy},
}, forms[0].chapters())

// AllowancePoliciesInFull do the same as the second half of AllowancePolicies, written out.
var AllowancePoliciesInFull = forms[1].chapters()

// sizePolicy lets databases grow, and shrink where an annotation allows it.
const sizePolicy = `
apiVersion: kausality.io/v1alpha1
kind: AllowancePolicy
metadata: {name: databases}
spec:
  target: {apiGroup: example.org, apiVersion: v1alpha1, kind: XDatabase}
  subjects: [{kind: User, name: hans@example.com, mayInitiate: true}]
  initializing:
    allow:
    - {relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*"}]}
    - {relation: External, verbs: [Create]}
  deleting:
    allow:
    - {relation: ControllerChild, verbs: ["*"]}
    - {relation: External, verbs: [Delete]}
  rules:
  - trigger: spec.size
    conditions: ["object.spec.size > oldObject.spec.size || has(object.metadata.annotations['allow-shrink'])"]
    capture: ["metadata.annotations['kausality.io/trace-ticket']"]
    allow:
    - target: {apiGroup: cloud.example.org, apiVersion: v1alpha1, kind: Database}
      relation: ControllerChild
      verbs: [Update]
      mutations: [{jsonPath: spec.forProvider.size, verbs: [Mutate]}]
    - target: {apiGroup: kubernetes.m.crossplane.io, apiVersion: v1alpha1, kind: Object}
      relation: ControllerChild
      verbs: [Update]
      mutations: [{jsonPath: spec.forProvider.manifest.data.size, verbs: [Mutate]}]
    - {relation: External, verbs: [Update]}
`

func offerPolicy(ctx context.Context, e *Env, t *Teller) error {
	if err := e.Apply(ctx, []byte(sizePolicy)); err != nil {
		return err
	}
	if err := e.inForce(ctx, "allowancepolicies", "databases"); err != nil {
		return err
	}
	t.Right("its rules compile: an XDatabase may grow, and shrink where it has allow-shrink")
	return nil
}

// inForce waits until a policy is compiled.
func (e *Env) inForce(ctx context.Context, resource, name string) error {
	return until(ctx, "policy "+name+" to be in force", func(ctx context.Context) error {
		o, err := e.admin.Resource(v1alpha1.GroupVersion.WithResource(resource)).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status, reason, message := condition(o, v1alpha1.ConditionCompiled); status != "True" {
			return fmt.Errorf("%s: %s", reason, message)
		}
		return nil
	})
}

func allowed(ctx context.Context, e *Env, t *Teller) error {
	h, err := e.watch(ctx, Databases)
	if err != nil {
		return err
	}
	defer h.stop()
	if err := e.resize(ctx, t, 50); err != nil {
		return err
	}
	mr, err := h.first("brings the change", func(o *unstructured.Unstructured) bool { return integer(o, "spec", "forProvider", "size") == 50 })
	if err != nil {
		return err
	}
	have := mr.GetAnnotations()[v1alpha1.AnnotationKeyAllowances]
	t.Reports("%s", have)
	for _, want := range []string{
		`"relation":"External","verbs":["Update"]`, `"initiator":"` + Hans + `"`, `{"kind":"XDatabase","name":"` + xrName + `"`, `SHOP-1`,
		`{"kind":"Database","name":"` + mr.GetName() + `"`, `"field":"spec.forProvider.size"}`,
	} {
		if !strings.Contains(have, want) {
			return fmt.Errorf("the allowances of the Database lack %s: %s", want, have)
		}
	}
	t.Right("the allowance for the cloud travelled with the change: from hans's ticket over the XDatabase to the Database")
	return e.settledXR(ctx)
}

func stopped(ctx context.Context, e *Env, t *Teller) error {
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	if err := e.setSize(ctx, 10); err != nil {
		return err
	}
	var why string
	if err := until(ctx, "the refusal to be reported", func(ctx context.Context) error {
		d, err := e.drift(ctx, string(v1alpha1.RelationControllerChild), "Database", "UPDATE")
		if err != nil {
			return err
		}
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		_, _, message := condition(xr, "Synced")
		if !strings.Contains(message, "database") {
			return fmt.Errorf("Drift %s; the message of the XR is %q", d.GetName(), message)
		}
		why = message
		return nil
	}); err != nil {
		return err
	}
	t.Reports("%s", why)
	writes, err := e.Cloud.Writes(ctx, before)
	if err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if size := integer(mr, "spec", "forProvider", "size"); size != 50 || len(writes) != 0 {
		return fmt.Errorf("the Database has size %d, external writes %v", size, writes)
	}
	t.Right("the XDatabase has size 10, the Database and the cloud still 50: no allowance covers it")
	return nil
}

func allowedToShrink(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	// In one write: the annotation alone would have Crossplane try size 10 again,
	// and an allowance is about fields, not values. If it arrived after the
	// allowance for 9, it would pass, too, and be corrected at once.
	if err := e.Patch(ctx, Hans, XDatabases, xrName, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"allow-shrink": "yes"}}, "spec": map[string]any{"size": int64(9)},
	}); err != nil {
		return err
	}
	if err := e.awaitSize(ctx, mr.GetName(), 9); err != nil {
		return err
	}
	t.Right("the cloud has size 9, and the gate is closed again")
	return nil
}

func goneByPolicy(ctx context.Context, e *Env, t *Teller) error {
	if err := e.settledXR(ctx); err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	t.Types(Hans, "kubectl delete xdatabase "+xrName)
	err = e.Delete(ctx, Hans, XDatabases, xrName)
	// The API server calls once more where the object changed meanwhile, which the
	// approval on behalf of the policy does: the gate may be open by then.
	if err != nil {
		if !strings.Contains(err.Error(), "the gate is being opened for it") {
			return fmt.Errorf("the first deletion is answered: %w", err)
		}
		t.Reports("%v", err)
	}
	t.Right("the gate opens for it, without an approval")
	return e.deletedAgain(ctx, t, mr.GetName())
}
