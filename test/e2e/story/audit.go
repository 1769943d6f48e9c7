package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
)

var operations = schema.GroupVersionResource{Group: "ops.crossplane.io", Version: "v1alpha1", Resource: "operations"}

// auditOperation audits the XR and its composed resources once.
const auditOperation = `
apiVersion: ops.crossplane.io/v1alpha1
kind: Operation
metadata: {name: audit}
spec:
  mode: Pipeline
  pipeline:
  - step: audit
    functionRef: {name: function-kausality}
    input: {apiVersion: kausality.fn.crossplane.io/v1alpha1, kind: Input, mode: enforce}
    requirements:
      requiredResources:
      - {requirementName: composite, apiVersion: example.org/v1alpha1, kind: XDatabase, namespace: default, name: orders}
      - {requirementName: databases, apiVersion: cloud.example.org/v1alpha1, kind: Database, namespace: default, matchLabels: {crossplane.io/composite: orders}}
`

// auditWatch audits each Database whenever it changes.
const auditWatch = `
apiVersion: ops.crossplane.io/v1alpha1
kind: WatchOperation
metadata: {name: audit-databases}
spec:
  watch: {apiVersion: cloud.example.org/v1alpha1, kind: Database, namespace: default}
  operationTemplate:
    spec:
      mode: Pipeline
      pipeline:
      - step: audit
        functionRef: {name: function-kausality}
`

// audited: an Operation and a WatchOperation report their findings, and write
// nothing.
func audited(ctx context.Context, e *Env, t *Teller) error {
	t.Types(Alice, fmt.Sprintf("kubectl annotate xdatabase %s kausality.io/freeze=true", xrName))
	if err := e.Annotate(ctx, Alice, XDatabases, xrName, v1alpha1.AnnotationKeyFreeze, "true"); err != nil {
		return err
	}
	before, err := e.noted(ctx)
	if err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	t.Types(Alice, "kubectl apply -f audit.yaml")
	if err := e.Apply(ctx, []byte(auditOperation)); err != nil {
		return err
	}
	all, err := e.operation(ctx, metav1.ListOptions{FieldSelector: "metadata.name=audit"})
	if err != nil {
		return err
	}
	if err := found(all, map[string]input.FindingReason{xrName: input.FindingFrozen, mr.GetName(): input.FindingUngated}); err != nil {
		return err
	}
	for _, r := range all.Resources {
		t.Reports("%s %s: %v", r.Kind, r.Name, reasonsOf(r))
	}
	t.Right("the Operation succeeded, and its output reports that the XR is frozen, and that nothing guards the cloud")
	if err := e.Apply(ctx, []byte(auditWatch)); err != nil {
		return err
	}
	one, err := e.operation(ctx, metav1.ListOptions{LabelSelector: "ops.crossplane.io/watchoperation=audit-databases"})
	if err != nil {
		return err
	}
	if err := found(one, map[string]input.FindingReason{mr.GetName(): input.FindingUngated}); err != nil {
		return err
	}
	t.Right("a WatchOperation reports the same about the Database that it watches")
	return e.untouched(ctx, t, before)
}

// noted waits until Crossplane has nothing left to write: the XR's condition reports
// that it settled. Crossplane can write an older status again, which stays until
// the next reconcile, as it does for the freeze. It returns the versions, once they
// have not changed for a while.
func (e *Env) noted(ctx context.Context) (versions map[string]string, err error) {
	const calm = 3 * time.Second
	since := time.Now()
	err = until(ctx, "the XR's condition to report that it settled", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		if status, reason, message := condition(xr, v1alpha1.ConditionSettled); status != "True" {
			return fmt.Errorf("%s: %s", reason, message)
		}
		now, err := e.versions(ctx)
		if err != nil {
			return err
		}
		if !maps.Equal(now, versions) {
			versions, since = now, time.Now()
		}
		if time.Since(since) < calm {
			return fmt.Errorf("something was written within %s: %v", calm, versions)
		}
		return nil
	})
	return versions, err
}

// operation that succeeds, and its Audit.
func (e *Env) operation(ctx context.Context, which metav1.ListOptions) (out input.Audit, err error) {
	err = until(ctx, "an Operation to succeed", func(ctx context.Context) error {
		list, err := e.admin.Resource(operations).List(ctx, which)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errNone
		}
		o := &list.Items[0]
		if status, reason, message := condition(o, "Succeeded"); status != "True" {
			_, _, synced := condition(o, "Synced")
			return fmt.Errorf("%s: %s %s %s", o.GetName(), reason, message, synced)
		}
		out, err = auditOf(o)
		return err
	})
	return out, err
}

// auditOf an Operation, which applied nothing.
func auditOf(o *unstructured.Unstructured) (out input.Audit, err error) {
	if applied, _, _ := unstructured.NestedSlice(o.Object, "status", "appliedResourceRefs"); len(applied) > 0 {
		return out, fmt.Errorf("%s applied %v", o.GetName(), applied)
	}
	steps, _, err := unstructured.NestedSlice(o.Object, "status", "pipeline")
	if err != nil || len(steps) != 1 {
		return out, fmt.Errorf("%s: %d outputs instead of one: %w", o.GetName(), len(steps), err)
	}
	step, _ := steps[0].(map[string]any)
	raw, err := json.Marshal(step["output"])
	if err != nil {
		return out, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return out, fmt.Errorf("%s: its output is no Audit: %w: %s", o.GetName(), err, raw)
	}
	if out.APIVersion != input.APIVersion || out.Kind != input.KindAudit {
		return out, fmt.Errorf("%s: its output is %s", o.GetName(), raw)
	}
	return out, nil
}

// found what is wanted, on exactly these objects.
func found(a input.Audit, want map[string]input.FindingReason) error {
	if a.Objects != len(want) {
		return fmt.Errorf("%d objects were audited, want %d: %+v", a.Objects, len(want), a)
	}
	for _, r := range a.Resources {
		if reason, ok := want[r.Name]; !ok || !slices.Contains(reasonsOf(r), reason) {
			return fmt.Errorf("%s %s: want %q among %v", r.Kind, r.Name, reason, reasonsOf(r))
		}
	}
	return nil
}

func reasonsOf(a input.Audited) []input.FindingReason {
	out := make([]input.FindingReason, 0, len(a.Findings))
	for _, f := range a.Findings {
		out = append(out, f.Reason)
	}
	return out
}

// untouched: nothing has another version than before, and no Operation requested
// any write to it.
func (e *Env) untouched(ctx context.Context, t *Teller, before map[string]string) error {
	after, err := e.versions(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("the audit moved something: %v became %v", before, after)
	}
	log, err := os.ReadFile(e.AuditLog())
	if err != nil {
		return err
	}
	if !bytes.Contains(log, []byte(`"/apis/ops.crossplane.io/v1alpha1/operations`)) {
		return fmt.Errorf("%s does not show the Operations", e.AuditLog())
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "fieldManager=ops.crossplane.io") {
			return fmt.Errorf("an Operation wrote: %s", line)
		}
	}
	t.Right("neither wrote to anything: the XR and all that it is composed of have the versions that they had")
	return nil
}
