package story

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

var createOptions = metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}

func tampered(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types("", fmt.Sprintf("curl -X POST %s/_control/change -d '{\"name\":%q,\"size\":9}'   # a click in the cloud's console", e.cloudURL, mr.GetName()))
	if err := e.ChangeOutside(ctx, client.Fields{"size": 9}); err != nil {
		return err
	}
	d, err := e.awaitDrift(ctx, "External", "Database", "")
	if err != nil {
		return err
	}
	t.Types("", "kubectl get drifts -o yaml")
	t.Reports("%s", driftLines(d))
	if diff := text(first(d), "path") + " " + text(first(d), "old") + "→" + text(first(d), "new"); diff != "spec.forProvider.size 9→50" {
		return fmt.Errorf("the difference reads %q", diff)
	}
	t.Right("the difference is reported field by field")
	if err := e.quiet(ctx, before, mr.GetName(), 9); err != nil {
		return err
	}
	t.Right("nothing reverts it: no external write in three reconciles of the provider")
	return nil
}

// awaitDrift that is open.
func (e *Env) awaitDrift(ctx context.Context, relation, kind, operation string) (d *unstructured.Unstructured, err error) {
	err = until(ctx, "the drift to be reported", func(ctx context.Context) (err error) {
		d, err = e.drift(ctx, relation, kind, operation)
		return err
	})
	return d, err
}

func first(d *unstructured.Unstructured) *unstructured.Unstructured {
	list, _, _ := unstructured.NestedSlice(d.Object, "spec", "difference")
	if len(list) == 0 {
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	m, _ := list[0].(map[string]any)
	return &unstructured.Unstructured{Object: m}
}

func driftLines(d *unstructured.Unstructured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "drift %s: %s of %s %s\n", d.GetName(), text(d, "spec", "relation"), text(d, "spec", "child", "kind"), text(d, "spec", "child", "name"))
	list, _, _ := unstructured.NestedSlice(d.Object, "spec", "difference")
	for _, f := range list {
		m, _ := f.(map[string]any)
		fmt.Fprintf(&b, "  %v: %v → %v\n", m["path"], m["old"], m["new"])
	}
	fmt.Fprintf(&b, "cause: %s\n", text(d, "spec", "cause"))
	fmt.Fprintf(&b, "to approve: %s", text(d, "spec", "suggestedApproval"))
	return b.String()
}

// Unwritten asserts that the provider observed a resource several times, and wrote
// nothing.
func (e *Env) Unwritten(ctx context.Context, since int64, name string, looks int) error {
	if err := until(ctx, fmt.Sprintf("%d observations of the provider", looks), func(ctx context.Context) error {
		have, err := e.Cloud.Reads(ctx, since, name)
		if err != nil {
			return err
		}
		if have < looks {
			return fmt.Errorf("%d observations", have)
		}
		return nil
	}); err != nil {
		return err
	}
	writes, err := e.Cloud.Writes(ctx, since)
	if err != nil {
		return err
	}
	if len(writes) > 0 {
		return fmt.Errorf("the provider wrote: %v", writes)
	}
	return nil
}

// quiet asserts that the provider observed a database, wrote nothing, and that the
// database has a size.
func (e *Env) quiet(ctx context.Context, since int64, name string, size int64) error {
	if err := e.Unwritten(ctx, since, name, 3); err != nil {
		return err
	}
	db, err := e.Cloud.Get(ctx, name)
	if err != nil {
		return err
	}
	if db.Size != size {
		return fmt.Errorf("the size is %d instead of %d", db.Size, size)
	}
	return nil
}

func reverted(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	d, err := e.awaitDrift(ctx, "External", "Database", "")
	if err != nil {
		return err
	}
	h, err := e.watch(ctx, Databases)
	if err != nil {
		return err
	}
	defer h.stop()
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	command := text(d, "spec", "suggestedApproval")
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	if err := e.awaitSize(ctx, mr.GetName(), 50); err != nil {
		return err
	}
	if err := e.onlyWrite(ctx, t, before, mr.GetName()); err != nil {
		return err
	}
	if n := h.turns(func(o *unstructured.Unstructured) bool { return closed(o) != nil }); n != 1 {
		return fmt.Errorf("the gate opened %d times", n)
	}
	t.Right("the gate opened once, and closed again")
	if err := e.usedUp(ctx, command); err != nil {
		return err
	}
	t.Right("the approval is used up")
	return e.awaitResolved(ctx, t, d.GetName())
}

func (e *Env) awaitResolved(ctx context.Context, t *Teller, name string) error {
	var why string
	err := until(ctx, "the drift to be resolved", func(ctx context.Context) error {
		d, err := e.admin.Resource(Drifts).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p := text(d, "status", "phase"); p != "Resolved" {
			return fmt.Errorf("its phase is %q", p)
		}
		why = text(d, "status", "resolution")
		return nil
	})
	if err == nil {
		t.Right("the drift is resolved: %s", why)
	}
	return err
}

// follow a suggested command verbatim: kubectl annotate [-n NS] RESOURCE NAME
// KEY=VALUE, as a user.
func (e *Env) follow(ctx context.Context, t *Teller, who, command string) error {
	t.Types(who, command)
	words := strings.Fields(command)
	if len(words) != 7 || words[0] != "kubectl" || words[1] != "annotate" || words[2] != "-n" || words[3] != namespace {
		return fmt.Errorf("the suggested command is not what it should be: %q", command)
	}
	key, value, _ := strings.Cut(words[6], "=")
	for _, r := range []schema.GroupVersionResource{XDatabases, Databases, Shops, DatabaseClaims} {
		// kubectl takes the plural and the singular.
		if words[4] == r.Resource+"."+r.Group || words[4] == strings.TrimSuffix(r.Resource, "s")+"."+r.Group {
			return e.Annotate(ctx, who, r, words[5], key, value)
		}
	}
	return fmt.Errorf("the suggested command names resource %q", words[4])
}

// last word of a command: the annotation.
func last(command string) string { return command[strings.LastIndex(command, " ")+1:] }

// usedUp waits until the annotation of a suggested command is gone.
func (e *Env) usedUp(ctx context.Context, command string) error {
	key, _, _ := strings.Cut(last(command), "=")
	return until(ctx, "the approval to be used up", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		if v, ok := xr.GetAnnotations()[key]; ok {
			return fmt.Errorf("%s=%s is still there; claims: %s", key, v, xr.GetAnnotations()[v1alpha1.AnnotationKeyClaims])
		}
		return nil
	})
}
