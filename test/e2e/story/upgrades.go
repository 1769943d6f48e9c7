package story

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var functionRevisions = schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functionrevisions"}

// upgradeAllowance lets an upgrade of the Composition, or of a Function in it,
// change the tier.
const upgradeAllowance = `
apiVersion: kausality.io/v1alpha1
kind: UpgradeAllowance
metadata: {name: tiers}
spec:
  serviceAccount: system:serviceaccount:crossplane-system:crossplane
  allow:
  - {apiGroup: cloud.example.org, kind: Database, relation: Child, mutations: [spec.forProvider.tags]}
  - {apiGroup: kubernetes.m.crossplane.io, kind: Object, relation: Child, mutations: [spec.forProvider.manifest.data]}
  - {relation: External, mutations: [Update]}
`

// upgradedOnce: a Composition upgrade is allowed, once.
func upgradedOnce(ctx context.Context, e *Env, t *Teller) error {
	if err := e.Apply(ctx, []byte(upgradeAllowance)); err != nil {
		return err
	}
	if err := e.inForce(ctx, "upgradeallowances", "tiers"); err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # tier: gold → silver")
	if err := e.Compose(ctx, Composition{Tier: "silver"}); err != nil {
		return err
	}
	last, err := e.awaitUpgrade(ctx, "silver", 2)
	if err != nil {
		return err
	}
	t.Right("the new revision of the Composition gets through, as fingerprint %s", last[1])
	return e.onlyWrite(ctx, t, before, mr.GetName())
}

// followedWithoutAllowance is followed, after what let the revisions through is gone.
func followedWithoutAllowance(ctx context.Context, e *Env, t *Teller) error {
	t.Types("", "kubectl delete upgradeallowance tiers")
	allowances := v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceUpgradeAllowances)
	if err := e.admin.Resource(allowances).Delete(ctx, "tiers", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return followed(ctx, e, t)
}

// awaitUpgrade of the Database to a tier, in the cloud too, with the gate closed
// again; it returns the fingerprints it was upgraded from and to, of which there
// must be n.
func (e *Env) awaitUpgrade(ctx context.Context, tier string, n int) (fingerprints []string, err error) {
	err = until(ctx, "the database to be upgraded to "+tier, func(ctx context.Context) error {
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		db, err := e.Cloud.Get(ctx, mr.GetName())
		if err != nil {
			return err
		}
		hops, err := Trace(mr)
		if err != nil {
			return err
		}
		var last v1alpha1.LastUpgrade
		value := mr.GetAnnotations()[v1alpha1.AnnotationKeyLastUpgrade]
		if err := json.Unmarshal([]byte(value), &last); err != nil {
			return fmt.Errorf("last-upgrade is %q: %w", value, err)
		}
		fingerprints = last.Fingerprints
		own, now := hops[len(hops)-1], mr.GetAnnotations()[v1alpha1.AnnotationKeyFingerprint]
		switch {
		case db.Tags["tier"] != tier:
			return fmt.Errorf("its tier is %q", db.Tags["tier"])
		case own.Approval == nil || own.Approval.Policy != "UpgradeAllowance/tiers":
			return fmt.Errorf("its hop is %+v", own)
		case last.Name != "tiers" || len(fingerprints) != n || !slices.Contains(fingerprints, now):
			return fmt.Errorf("last-upgrade is %s, fingerprint %q", value, now)
		}
		return closed(mr)
	})
	return fingerprints, err
}

// notTwice: a build that is not new is not allowed again; a new revision of a
// function is new.
func notTwice(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	t.Types(Hans, "kubectl patch databases.cloud.example.org "+mr.GetName()+"   # tier: iron")
	iron := map[string]any{"spec": map[string]any{"forProvider": map[string]any{"tags": map[string]any{"tier": "iron"}}}}
	if err := e.Patch(ctx, Hans, Databases, mr.GetName(), iron); err != nil {
		return err
	}
	d, err := e.upgradeRefused(ctx, "iron")
	if err != nil {
		return err
	}
	t.Reports("%s", driftLines(d))
	t.Right("Crossplane wants silver back: by the same revisions as before, that is no upgrade")
	t.Types("", "# function-patch-and-transform is upgraded")
	_, err = e.admin.Resource(functionRevisions).Patch(ctx, "function-patch-and-transform-local", types.MergePatchType,
		[]byte(`{"spec":{"image":"local.invalid/function-patch-and-transform:v0.0.1"}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	defer e.nudge(ctx)() // which its own resync would do, within a minute
	last, err := e.awaitUpgrade(ctx, "silver", 3)
	if err != nil {
		return err
	}
	t.Right("with another revision of the function it is: fingerprint %s", last[2])
	return nil
}

// nudge has Crossplane reconcile the XR every other second, until it is stopped.
func (e *Env) nudge(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// The next one will do as well. Its manager has never requested anything.
				_, _ = e.admin.Resource(XDatabases).Namespace(namespace).Patch(ctx, xrName, types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"annotations":{"look":"%d"}}}`, n), metav1.PatchOptions{FieldManager: "resync"})
			}
		}
	}()
	return func() { cancel(); <-done }
}

// upgradeRefused waits for the Database to keep its tier against Crossplane.
func (e *Env) upgradeRefused(ctx context.Context, tier string) (*unstructured.Unstructured, error) {
	var d *unstructured.Unstructured
	err := until(ctx, "the change to be refused", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		status, _, message := condition(xr, "Synced")
		if status != "False" || !strings.Contains(message, "database") {
			return fmt.Errorf("Synced is %s: %s", status, message)
		}
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		if have := text(mr, "spec", "forProvider", "tags", "tier"); have != tier {
			return fmt.Errorf("the Database's tier is %q", have)
		}
		d, err = e.driftFrom(ctx, tier)
		return err
	})
	return d, err
}

// driftFrom a tier of the Database, that is open.
func (e *Env) driftFrom(ctx context.Context, tier string) (*unstructured.Unstructured, error) {
	list, err := e.admin.Resource(Drifts).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		d := &list.Items[i]
		if text(d, "spec", "child", "kind") == "Database" && text(d, "status", "phase") == "Detected" && strings.Contains(text(first(d), "old"), tier) {
			return d, nil
		}
	}
	return nil, errNone
}

// backAndForth: each revision upgrades the Database once, in whatever order they
// come.
func backAndForth(ctx context.Context, e *Env, t *Teller) error {
	t.Types("", "kubectl apply -f composition.yaml   # tier: silver → bronze")
	if err := e.Compose(ctx, Composition{Tier: "bronze"}); err != nil {
		return err
	}
	if _, err := e.awaitUpgrade(ctx, "bronze", 4); err != nil {
		return err
	}
	t.Right("another revision gets through")
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # tier: bronze → silver, as it was before")
	if err := e.Compose(ctx, Composition{Tier: "silver"}); err != nil {
		return err
	}
	d, err := e.upgradeRefused(ctx, "bronze")
	if err != nil {
		return err
	}
	t.Reports("%s", driftLines(d))
	if err := e.tierStays(ctx, t, before, "bronze"); err != nil {
		return err
	}
	t.Right("the one of before does not, a second time")
	if err := e.follow(ctx, t, Alice, text(d, "spec", "suggestedApproval")); err != nil {
		return err
	}
	if err := e.tierBecomes(ctx, t, "silver"); err != nil {
		return err
	}
	return until(ctx, "the XR to be in step", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		if status, _, message := condition(xr, "Synced"); status != "True" {
			return fmt.Errorf("Synced is %s: %s", status, message)
		}
		return nil
	})
}

// upgradesCounted: three of the Database, and at least two of its settings.
func upgradesCounted(ctx context.Context, e *Env, t *Teller) error {
	const least = 5
	var uses int64
	err := until(ctx, "the uses to be in the status", func(ctx context.Context) error {
		o, err := e.admin.Resource(v1alpha1.GroupVersion.WithResource("upgradeallowances")).Get(ctx, "tiers", metav1.GetOptions{})
		if err != nil {
			return err
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "status", "rules")
		if len(rules) != 1 {
			return fmt.Errorf("rules are %v", rules)
		}
		rule := &unstructured.Unstructured{Object: rules[0].(map[string]any)}
		if uses = integer(rule, "uses"); uses < least || text(rule, "lastUsed") == "" {
			return fmt.Errorf("rule %v", rule.Object)
		}
		return nil
	})
	if err == nil {
		t.Right("its status reports that it let %d changes through", uses)
	}
	return err
}
