package story

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

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
	if err := e.Cloud.Change(ctx, mr.GetName(), client.Fields{"size": 9}); err != nil {
		return err
	}
	d, err := e.awaitDrift(ctx, "External", "Database", "")
	if err != nil {
		return err
	}
	t.Types("", "kubectl get drifts -o yaml")
	t.Says("%s", driftLines(d))
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

// quiet sees that the provider reconciled three times and wrote nothing.
func (e *Env) quiet(ctx context.Context, since int64, name string, size int64) error {
	if err := until(ctx, "three looks of the provider", func(ctx context.Context) error {
		log, err := e.Cloud.Log(ctx, since)
		if err != nil {
			return err
		}
		looks := 0
		for _, l := range log {
			if l.Method == http.MethodGet && strings.HasSuffix(l.Path, "/"+name) {
				looks++
			}
		}
		if looks < 3 {
			return fmt.Errorf("%d looks", looks)
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

// follow a suggested command to the letter: kubectl annotate [-n NS] RESOURCE
// NAME KEY=VALUE, as a person.
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

// usedUp sees that the annotation of a suggested command is gone.
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

// upgraded: what a Composition revision would change is held by the function,
// refused by the webhook where the function is gone, and passes by approval.
func upgraded(ctx context.Context, e *Env, t *Teller) error {
	if err := e.settledXR(ctx); err != nil {
		return err
	}
	// The settings may follow the Composition; the database may not.
	always := `[{"apiVersion":"kubernetes.m.crossplane.io/v1alpha1","kind":"Object","resource":"settings","mode":"always"},` +
		`{"apiVersion":"kubernetes.m.crossplane.io/v1alpha1","kind":"Object","resource":"settings","mode":"always","relation":"External","verbs":["Update"]}]`
	t.Types(Alice, fmt.Sprintf("kubectl annotate xdatabase %s kausality.io/approvals='%s'", xrName, always))
	if err := e.Annotate(ctx, Alice, XDatabases, xrName, v1alpha1.AnnotationKeyApprovals, always); err != nil {
		return err
	}
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # tier: bronze → gold, for the database and its settings")
	if err := e.Compose(ctx, Composition{Tier: "gold", Kausality: true}); err != nil {
		return err
	}
	command, err := e.held(ctx, t)
	if err != nil {
		return err
	}
	if err := e.siblingMoved(ctx, t, "gold"); err != nil {
		return err
	}
	if err := e.tierStays(ctx, t, before, "bronze"); err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # the same without the kausality step")
	if err := e.Compose(ctx, Composition{Tier: "gold"}); err != nil {
		return err
	}
	d, err := e.refused(ctx, t)
	if err != nil {
		return err
	}
	if err := e.tierStays(ctx, t, before, "bronze"); err != nil {
		return err
	}
	if same := text(d, "spec", "suggestedApproval"); last(same) != last(command) {
		return fmt.Errorf("function and webhook suggest different approvals for the same change:\n%s\n%s", command, same)
	}
	t.Right("function and webhook suggest the same approval")
	return e.approveUpgrade(ctx, t, command, d.GetName())
}

// held waits for the XR to say that the change is held, and returns the
// approving command.
func (e *Env) held(ctx context.Context, t *Teller) (command string, err error) {
	var xr *unstructured.Unstructured
	if err := until(ctx, "the XR to say that the change is held", func(ctx context.Context) error {
		if xr, err = e.XR(ctx); err != nil {
			return err
		}
		status, reason, message := condition(xr, "Kausality")
		if status != "False" || reason != "Held" {
			return fmt.Errorf("condition Kausality is %s/%s: %s", status, reason, message)
		}
		command = suggested(message)
		return nil
	}); err != nil {
		return "", err
	}
	_, reason, message := condition(xr, "Kausality")
	t.Types("", fmt.Sprintf("kubectl describe xdatabase %s", xrName))
	t.Says("Kausality  False  %s\n%s", reason, message)
	if command == "" {
		return "", fmt.Errorf("the condition suggests no approval")
	}
	for _, healthy := range []string{"Synced", "Ready"} {
		if status, _, m := condition(xr, healthy); status != "True" {
			return "", fmt.Errorf("the XR is not %s: %s", healthy, m)
		}
	}
	t.Right("the function holds the change back; the XR says so, and is Synced and Ready otherwise")
	return command, nil
}

// suggested command within a message.
func suggested(message string) string {
	i := strings.Index(message, "kubectl annotate ")
	if i < 0 {
		return ""
	}
	words := strings.Fields(message[i:])
	if len(words) < 7 {
		return ""
	}
	return strings.Join(words[:7], " ")
}

func (e *Env) siblingMoved(ctx context.Context, t *Teller, tier string) error {
	err := until(ctx, "the sibling to move on", func(ctx context.Context) error {
		cm, err := e.admin.Resource(configMaps).Namespace(namespace).Get(ctx, xrName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if have := text(cm, "data", "tier"); have != tier {
			return fmt.Errorf("its tier is %q", have)
		}
		return nil
	})
	if err == nil {
		t.Right("its sibling, the settings, moved on (by provider-kubernetes)")
	}
	return err
}

// tierStays: the database was not touched, neither in the cluster nor outside.
func (e *Env) tierStays(ctx context.Context, t *Teller, since int64, tier string) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if have := text(mr, "spec", "forProvider", "tags", "tier"); have != tier {
		return fmt.Errorf("the Database's tier is %q", have)
	}
	writes, err := e.Cloud.Writes(ctx, since)
	if err != nil {
		return err
	}
	if len(writes) > 0 {
		return fmt.Errorf("external writes: %v", writes)
	}
	t.Right("the database is as it was, in the cluster and outside")
	return nil
}

func (e *Env) refused(ctx context.Context, t *Teller) (*unstructured.Unstructured, error) {
	var message string
	if err := until(ctx, "the webhook to refuse the change", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		status, _, m := condition(xr, "Synced")
		if status != "False" {
			return fmt.Errorf("Synced is %s: %s", status, m)
		}
		message = m
		return nil
	}); err != nil {
		return nil, err
	}
	d, err := e.awaitDrift(ctx, "ControllerChild", "Database", "UPDATE")
	if err != nil {
		return nil, err
	}
	t.Says("Synced  False  %s\n%s", message, driftLines(d))
	t.Right("without the function step the webhook refuses it")
	return d, nil
}

func (e *Env) approveUpgrade(ctx context.Context, t *Teller, command, drift string) error {
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	var mr *unstructured.Unstructured
	if err := until(ctx, "the approved change to reach the cloud", func(ctx context.Context) (err error) {
		if mr, err = e.MR(ctx); err != nil {
			return err
		}
		db, err := e.Cloud.Get(ctx, mr.GetName())
		if err != nil {
			return err
		}
		if db.Tags["tier"] != "gold" {
			return fmt.Errorf("its tier is %q", db.Tags["tier"])
		}
		return closed(mr)
	}); err != nil {
		return err
	}
	hops, err := Trace(mr)
	if err != nil {
		return err
	}
	t.Says("%s", Tree(hops))
	if a := hops[len(hops)-1].Approval; a == nil || a.Digest != drift {
		return fmt.Errorf("the last hop does not name the approval: %+v", hops[len(hops)-1])
	}
	t.Right("the approval lets it through, and stands in the trace")
	if err := e.usedUp(ctx, command); err != nil {
		return err
	}
	t.Right("the approval is used up")
	if err := e.awaitResolved(ctx, t, drift); err != nil {
		return err
	}
	if err := e.Compose(ctx, Composition{Tier: "gold", Kausality: true}); err != nil {
		return err
	}
	return until(ctx, "the function to be back", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		if status, reason, m := condition(xr, "Kausality"); status != "True" {
			return fmt.Errorf("condition Kausality is %s/%s: %s", status, reason, m)
		}
		return nil
	})
}

func frozen(ctx context.Context, e *Env, t *Teller) error {
	return e.freeze(ctx, t, 60)
}

// freeze the XR, let hans change it, and unfreeze it.
func (e *Env) freeze(ctx context.Context, t *Teller, size int64) error {
	value, err := json.Marshal(map[string]string{"user": Alice, "message": "incident 123", "at": time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	was := integer(mr, "spec", "forProvider", "size")
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types(Alice, fmt.Sprintf("kubectl annotate xdatabase %s kausality.io/freeze='%s'", xrName, value))
	if err := e.Annotate(ctx, Alice, XDatabases, xrName, v1alpha1.AnnotationKeyFreeze, string(value)); err != nil {
		return err
	}
	t.Types(Hans, fmt.Sprintf(`kubectl patch xdatabase %s --type=merge -p '{"spec":{"size":%d}}'`, xrName, size))
	if err := e.setSize(ctx, size); err != nil {
		return err
	}
	if err := e.saysFrozen(ctx, t); err != nil {
		return err
	}
	if err := e.quiet(ctx, before, mr.GetName(), was); err != nil {
		return err
	}
	if mr, err = e.MR(ctx); err != nil {
		return err
	}
	if have := integer(mr, "spec", "forProvider", "size"); have != was {
		return fmt.Errorf("the change reached the Database: size %d", have)
	}
	t.Right("hans's change does not reach the Database, nor the cloud")
	t.Types(Alice, fmt.Sprintf("kubectl annotate xdatabase %s kausality.io/freeze-", xrName))
	if err := e.Annotate(ctx, Alice, XDatabases, xrName, v1alpha1.AnnotationKeyFreeze, nil); err != nil {
		return err
	}
	if err := e.awaitThrough(ctx, mr.GetName(), size); err != nil {
		return err
	}
	t.Right("unfrozen, it does")
	return nil
}

// awaitThrough waits for a size in the cloud and, with a gate, for that to be
// closed.
func (e *Env) awaitThrough(ctx context.Context, name string, size int64) error {
	if e.Options.Webhook {
		return e.awaitSize(ctx, name, size)
	}
	return until(ctx, fmt.Sprintf("the database to have size %d", size), func(ctx context.Context) error {
		db, err := e.Cloud.Get(ctx, name)
		if err == nil && db.Size != size {
			err = fmt.Errorf("its size is %d", db.Size)
		}
		return err
	})
}

// saysFrozen waits for the XR to say so: in the function's condition, or
// without it in Synced.
func (e *Env) saysFrozen(ctx context.Context, t *Teller) error {
	return until(ctx, "the XR to say that it is frozen", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		if e.Options.Function {
			status, reason, message := condition(xr, "Kausality")
			if status != "False" || reason != "Frozen" {
				return fmt.Errorf("condition Kausality is %s/%s", status, reason)
			}
			t.Says("Kausality  False  %s\n%s", reason, message)
			return nil
		}
		// Without the function the webhook refuses; its words are an event's.
		if status, _, message := condition(xr, "Synced"); status != "False" {
			return fmt.Errorf("Synced is %s: %s", status, message)
		}
		t.Says("Synced  False")
		return nil
	})
}
