package story

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

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
	if err := e.heldIsDrift(ctx, t, command); err != nil {
		return err
	}
	if err := e.siblingMoved(ctx, t, "gold"); err != nil {
		return err
	}
	if err := e.tierStays(ctx, t, before, "bronze"); err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # the same without the kausality step")
	d, err := e.compositionRefused(ctx, t, before)
	if err != nil {
		return err
	}
	if same := text(d, "spec", "suggestedApproval"); last(same) != last(command) {
		return fmt.Errorf("function and webhook suggest different approvals for the same change:\n%s\n%s", command, same)
	}
	t.Right("function and webhook suggest the same approval")
	return e.approveUpgrade(ctx, t, command, d.GetName())
}

// heldIsDrift: what the function holds is a Drift like any other, with both values and the same
// command (KR-09-25).
func (e *Env) heldIsDrift(ctx context.Context, t *Teller, command string) error {
	d, err := e.awaitDrift(ctx, "ControllerChild", "Database", "UPDATE")
	if err != nil {
		return err
	}
	t.Types("", "kubectl get drifts")
	t.Reports("%s", driftLines(d))
	difference, _, err := unstructured.NestedSlice(d.Object, "spec", "difference")
	if err != nil || text(d, "status", "holder") != string(v1alpha1.HolderFunction) || last(text(d, "spec", "suggestedApproval")) != last(command) {
		return errors.Join(fmt.Errorf("the Drift is %v, want command %s", d.Object, command), err)
	}
	if f, _ := difference[0].(map[string]any); len(difference) != 1 || f["old"] != `"bronze"` || f["new"] != `"gold"` {
		return fmt.Errorf("its difference is %v", difference)
	}
	t.Right("it is a Drift, too, with the old and the new value")
	return nil
}

// held waits for the XR to report that the change is held, and returns the
// approving command.
func (e *Env) held(ctx context.Context, t *Teller) (command string, err error) {
	var xr *unstructured.Unstructured
	if err := until(ctx, "the XR to report that the change is held", func(ctx context.Context) error {
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
	t.Reports("Kausality  False  %s\n%s", reason, message)
	if command == "" {
		return "", fmt.Errorf("the condition suggests no approval")
	}
	for _, healthy := range []string{"Synced", "Ready"} {
		if status, _, m := condition(xr, healthy); status != "True" {
			return "", fmt.Errorf("the XR is not %s: %s", healthy, m)
		}
	}
	t.Right("the function holds the change; the XR reports it, and is Synced and Ready otherwise")
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

// tierStays: the database was changed neither in the cluster nor externally.
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

// compositionRefused installs a Composition of tier gold without the function, and
// returns the Drift of the webhook's refusal. Nothing is written since before.
func (e *Env) compositionRefused(ctx context.Context, t *Teller, before int64) (*unstructured.Unstructured, error) {
	if err := e.Compose(ctx, Composition{Tier: "gold"}); err != nil {
		return nil, err
	}
	d, err := e.refused(ctx, t)
	if err != nil {
		return nil, err
	}
	return d, e.tierStays(ctx, t, before, "bronze")
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
	t.Reports("Synced  False  %s\n%s", message, driftLines(d))
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
	t.Reports("%s", Tree(hops))
	if a := hops[len(hops)-1].Approval; a == nil || a.Digest != drift {
		return fmt.Errorf("the last hop does not name the approval: %+v", hops[len(hops)-1])
	}
	t.Right("the approval lets it through, and is in the trace")
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
