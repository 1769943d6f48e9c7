package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// histories of all levels, from now on.
type histories struct{ claim, xr, mr *history }

func (e *Env) watchLevels(ctx context.Context) (h histories, err error) {
	for _, w := range []struct {
		r    schema.GroupVersionResource
		into **history
	}{{DatabaseClaims, &h.claim}, {XDatabasesV1, &h.xr}, {RDSInstances, &h.mr}} {
		if *w.into, err = e.watch(ctx, w.r); err != nil {
			h.stop()
			return h, err
		}
	}
	return h, nil
}

func (h histories) stop() {
	for _, w := range []*history{h.claim, h.xr, h.mr} {
		if w != nil {
			w.stop()
		}
	}
}

// brought are the first versions of all levels that have a value.
func (h histories) brought(field, onMR, value, valueOnMR string) (l levels, err error) {
	is := func(value string, path ...string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool { return text(o, path...) == value }
	}
	var errs [3]error
	l.claim, errs[0] = h.claim.first("of the claim brings it", is(value, "spec", field))
	l.xr, errs[1] = h.xr.first("of the XR brings it", is(value, "spec", field))
	l.mr, errs[2] = h.mr.first("of the MR brings it", is(valueOnMR, "spec", "forProvider", onMR))
	return l, errors.Join(errs[:]...)
}

// chain of an allowance at a level: the hops of a field's change down to it.
func (l levels) chain(field string, onMR string, depth int) string {
	hops := []string{
		fmt.Sprintf(`{kind: DatabaseClaim, name: %s, generation: %d, field: spec.%s, attestations: {"metadata.annotations[jira]": DB-1}`,
			claimName, l.claim.GetGeneration(), field),
		fmt.Sprintf(`{kind: XDatabase, name: %s, generation: %d, field: spec.%s}`, l.xr.GetName(), l.xr.GetGeneration(), field),
		fmt.Sprintf(`{kind: RDSInstance, name: %s, generation: %d, field: spec.forProvider.%s}`, l.mr.GetName(), l.mr.GetGeneration(), onMR),
	}
	if depth > 0 { // below the claim, its namespace is another one
		hops[0] += ", namespace: " + namespace
	}
	hops[0] += "}"
	return strings.Join(hops[:depth+1], ", ")
}

// carries asserts that an object has exactly these allowances, given as what they
// permit, each with the trace.
func carries(o *unstructured.Unstructured, trace string, permits ...string) error {
	var want, have []v1alpha1.Allowance
	list := ""
	for _, p := range permits {
		list += fmt.Sprintf("- %s, generation: %d, initiator: %s, trace: [%s]}\n", p, o.GetGeneration(), Hans, trace)
	}
	if err := yaml.Unmarshal([]byte(list), &want); err != nil {
		return fmt.Errorf("cannot read %s: %w", list, err)
	}
	value := o.GetAnnotations()[v1alpha1.AnnotationKeyAllowances]
	if value != "" {
		if err := json.Unmarshal([]byte(value), &have); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(want, have) {
		raw, _ := json.Marshal(want) //nolint:errchkjson // For a message.
		return fmt.Errorf("%s %s carries\n%s, not\n%s", o.GetKind(), o.GetName(), value, raw)
	}
	return nil
}

func (f form) resized(ctx context.Context, e *Env, t *Teller) error {
	h, err := e.watchLevels(ctx)
	if err != nil {
		return err
	}
	defer h.stop()
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	if err := e.ask(ctx, t, nil, map[string]any{"size": "large"}); err != nil {
		return err
	}
	if _, err := e.instanceSettled(ctx, "db.t3.large", "postgres"); err != nil {
		return err
	}
	if l, err := e.levels(ctx); err != nil || l.mr.GetAnnotations()[v1alpha1.AnnotationKeyAllowances] != "" {
		return errors.Join(err, fmt.Errorf("the gate is closed, and the RDSInstance carries %v", l.mr.GetAnnotations()))
	}
	l, err := h.brought("size", "instanceClass", "large", "db.t3.large")
	if err != nil {
		return err
	}
	if err := errors.Join(
		carries(l.claim, l.chain("size", "", 0), f.claim),
		carries(l.xr, l.chain("size", "", 1), f.instance, f.outside),
		carries(l.mr, l.chain("size", "instanceClass", 2), f.outside),
	); err != nil {
		return err
	}
	for _, o := range []*unstructured.Unstructured{l.claim, l.xr, l.mr} {
		t.Reports("%s: %s", o.GetKind(), o.GetAnnotations()[v1alpha1.AnnotationKeyAllowances])
	}
	t.Right("in the very write that brought the change, each level got its allowances, with hans and his ticket DB-1")
	return f.openedOnce(ctx, e, t, before, h, l)
}

// openedOnce asserts that the gate opened with the change, for one external write,
// and closed again.
func (f form) openedOnce(ctx context.Context, e *Env, t *Teller, before int64, h histories, l levels) error {
	if p := Policies(l.mr); !slices.Equal(p, []string{"Observe", "Update"}) {
		return fmt.Errorf("the write that brings the change has managementPolicies %v", p)
	}
	if n := h.mr.turns(func(o *unstructured.Unstructured) bool { return closed(o) != nil }); n != 1 {
		return fmt.Errorf("the gate opened %d times", n)
	}
	t.Right("the External one opened the gate, once: managementPolicies %v", Policies(l.mr))
	return e.onlyWrite(ctx, t, before, l.mr.GetName())
}

func (f form) stopped(ctx context.Context, e *Env, t *Teller) error {
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	if err := e.ask(ctx, t, nil, map[string]any{"engine": "mysql"}); err != nil {
		return err
	}
	var why string
	if err := until(ctx, "the refusal to be reported", func(ctx context.Context) error {
		d, err := e.instanceDrift(ctx)
		if err != nil {
			return err
		}
		l, err := e.levels(ctx)
		if err != nil {
			return err
		}
		status, _, message := condition(l.xr, "Synced")
		if text(l.xr, "spec", "engine") != "mysql" || status != "False" || !strings.Contains(message, "instance") {
			return fmt.Errorf("the XR wants %q; Synced is %s: %s", text(l.xr, "spec", "engine"), status, message)
		}
		why = driftLines(d)
		return nil
	}); err != nil {
		return err
	}
	t.Reports("%s", why)
	l, err := e.levels(ctx)
	if err != nil {
		return err
	}
	if have := text(l.mr, "spec", "forProvider", "engine"); have != "postgres" {
		return fmt.Errorf("the RDSInstance has engine %q", have)
	}
	if have := l.xr.GetAnnotations()[v1alpha1.AnnotationKeyAllowances]; have != "" {
		return fmt.Errorf("the XDatabase carries %s", have)
	}
	have := l.claim.GetAnnotations()[v1alpha1.AnnotationKeyAllowances]
	if !strings.Contains(have, `"field":"spec.engine"`) || strings.Count(have, "initiator") != 1 {
		return fmt.Errorf("the DatabaseClaim carries %s", have)
	}
	t.Right("the claim's allowance let it through to the XDatabase, which got none for the RDSInstance; those for the size are consumed, and gone")
	return e.quietOutside(ctx, t, before, l.mr.GetName())
}

// instanceDrift about a refused change of the RDSInstance.
func (e *Env) instanceDrift(ctx context.Context) (*unstructured.Unstructured, error) {
	list, err := e.admin.Resource(Drifts).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if text(d, "spec", "child", "kind") == "RDSInstance" && text(d, "spec", "operation") == "UPDATE" && text(d, "status", "phase") == "Detected" {
			return d, nil
		}
	}
	return nil, errNone
}

// quietOutside asserts that the provider observed the instance, and wrote nothing.
func (e *Env) quietOutside(ctx context.Context, t *Teller, since int64, name string) error {
	if err := e.Unwritten(ctx, since, name, 2); err != nil {
		return err
	}
	t.Right("the instance in the cloud is as it was")
	return nil
}

func (f form) recreated(ctx context.Context, e *Env, t *Teller) error {
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	// In one write: the annotation alone would have nothing change that triggers.
	if err := e.ask(ctx, t, map[string]any{"allow-recreate": "true"}, map[string]any{"engine": "mariadb"}); err != nil {
		return err
	}
	var mr *unstructured.Unstructured
	if err := until(ctx, "the gate to be open for deletion and creation", func(ctx context.Context) error {
		l, err := e.levels(ctx)
		if err != nil {
			return err
		}
		mr = l.mr
		if have := text(mr, "spec", "forProvider", "engine"); have != "mariadb" {
			return fmt.Errorf("the RDSInstance has engine %q", have)
		}
		if p := Policies(mr); !slices.Equal(p, []string{"Observe", "Create", "Delete"}) {
			return fmt.Errorf("managementPolicies are %v", p)
		}
		if have := mr.GetAnnotations()[v1alpha1.AnnotationKeyAllowances]; !strings.Contains(have, `"verbs":["Delete","Create"]`) || !strings.Contains(have, "DB-1") {
			return fmt.Errorf("the RDSInstance carries %s", have)
		}
		return nil
	}); err != nil {
		return err
	}
	t.Right("the change is through, and External [Delete, Create] is on the RDSInstance: managementPolicies %v", Policies(mr))
	if err := e.quietOutside(ctx, t, before, mr.GetName()); err != nil {
		return err
	}
	t.Types(Hans, "kubectl delete rdsinstance "+mr.GetName())
	c, err := e.As(Hans)
	if err != nil {
		return err
	}
	if err := c.Resource(RDSInstances).Delete(ctx, mr.GetName(), metav1.DeleteOptions{}); err != nil {
		return err
	}
	l, err := e.instanceSettled(ctx, "db.t3.large", "mariadb")
	if err != nil {
		return err
	}
	if l.mr.GetUID() == mr.GetUID() {
		return fmt.Errorf("RDSInstance %s is the one of before", mr.GetName())
	}
	writes, err := e.Cloud.Writes(ctx, before)
	if err != nil {
		return err
	}
	if len(writes) != 2 || writes[0].Method != http.MethodDelete || writes[1].Method != http.MethodPut {
		return fmt.Errorf("external writes %v", writes)
	}
	t.Right("deleted by hans, it was deleted in the cloud; Crossplane created it again as %s, with engine mariadb", l.mr.GetName())
	return nil
}
