package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// Claims is the story of a legacy Claim: everything starts one level higher.
var Claims = []Chapter{
	{"hans claims a shop", claimed},
	{"hans makes it larger, through Claim and XR", claimResized},
	{"Freeze on the Claim", claimFrozen},
	{"External drift, approved at the Claim", claimReverted},
	{"Deleting the Claim, and all that is below it", claimGone},
}

var shop = Definition{
	Group: "example.org", Version: "v1alpha1", Kind: "XShop", Plural: "xshops", ClaimKind: "Shop", ClaimPlural: "shops",
	Spec: "{size: {type: integer}}",
}

// Shops are Claims, XShops their XRs.
var (
	Shops  = shop.Claims()
	XShops = shop.Resource()
)

// shopResources are composed of an XShop.
const shopResources = `
      - name: database
        base:
          apiVersion: cloud.example.org/v1alpha1
          kind: Database
          metadata: {namespace: default}
          spec: {forProvider: {size: 0}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.forProvider.size}
`

func (e *Env) claim(ctx context.Context) (*unstructured.Unstructured, error) {
	return e.admin.Resource(Shops).Namespace(namespace).Get(ctx, xrName, metav1.GetOptions{})
}

func claimed(ctx context.Context, e *Env, t *Teller) error {
	for _, manifest := range [][]byte{shop.XRD(), shop.Composition("xshops.example.org", shopResources, StepKausality, StepAutoReady)} {
		if err := e.Apply(ctx, manifest); err != nil {
			return err
		}
	}
	if err := controlplane.Eventually(ctx, "kind Shop to be offered", 30*time.Second, func(ctx context.Context) error {
		return errors.Join(e.established(ctx, "shops.example.org"), e.established(ctx, "xshops.example.org"))
	}); err != nil {
		return err
	}
	c, err := e.As(Hans)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1alpha1", "kind": "Shop", "metadata": map[string]any{"name": xrName},
		"spec": map[string]any{"size": int64(20)},
	}}
	t.Types(Hans, "kubectl apply -f shop.yaml")
	if _, err := c.Resource(Shops).Namespace(namespace).Create(ctx, o, createOptions); err != nil {
		return err
	}
	var mr *unstructured.Unstructured
	if err := until(ctx, "the database to exist behind a closed gate", func(ctx context.Context) (err error) {
		if mr, err = e.MR(ctx); err != nil {
			return err
		}
		if _, err = e.Cloud.Get(ctx, mr.GetName()); err != nil {
			return err
		}
		return closed(mr)
	}); err != nil {
		return err
	}
	t.Right("Crossplane composed Database %s, and its gate is closed", mr.GetName())
	return e.claimTraced(t, mr)
}

// claimTraced asserts that a trace leads from the Claim over the XR to the MR.
func (e *Env) claimTraced(t *Teller, mr *unstructured.Unstructured) error {
	hops, err := Trace(mr)
	if err != nil {
		return err
	}
	t.Reports("%s", Tree(hops))
	kinds := make([]string, 0, len(hops))
	for _, h := range hops {
		kinds = append(kinds, h.Kind)
	}
	if !slices.Equal(kinds, []string{"Shop", "XShop", "Database"}) || hops[0].User != Hans || hops[0].Namespace != "" || !hops[1].ClusterScoped {
		return fmt.Errorf("the trace is %+v", hops)
	}
	t.Right("its trace leads over the cluster-scoped XR and the Claim back to hans")
	return nil
}

func (e *Env) claimSettled(ctx context.Context) error {
	return until(ctx, "Claim and XR to settle", func(ctx context.Context) error {
		claim, err := e.claim(ctx)
		if err != nil {
			return err
		}
		xrs, err := e.admin.Resource(XShops).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range append(xrs.Items, *claim) {
			hops, err := Trace(&o)
			if err != nil {
				return err
			}
			want := fmt.Sprint(hops[len(hops)-1].Generation)
			if have := o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; have != want {
				return fmt.Errorf("%s settled at %q, the intent is %s", o.GetKind(), have, want)
			}
		}
		return nil
	})
}

func (e *Env) claimSize(ctx context.Context, t *Teller, size int64) error {
	t.Types(Hans, fmt.Sprintf(`kubectl patch shop %s --type=merge -p '{"spec":{"size":%d}}'`, xrName, size))
	return e.Patch(ctx, Hans, Shops, xrName, map[string]any{"spec": map[string]any{"size": size}})
}

func claimResized(ctx context.Context, e *Env, t *Teller) error {
	if err := e.claimSettled(ctx); err != nil {
		return err
	}
	t.Right("Claim and XR have settled")
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	if err := e.claimSize(ctx, t, 50); err != nil {
		return err
	}
	if err := e.awaitSize(ctx, mr.GetName(), 50); err != nil {
		return err
	}
	if err := e.onlyWrite(ctx, t, before, mr.GetName()); err != nil {
		return err
	}
	if mr, err = e.MR(ctx); err != nil {
		return err
	}
	return e.claimTraced(t, mr)
}

func claimFrozen(ctx context.Context, e *Env, t *Teller) error {
	if err := e.claimSettled(ctx); err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	value, err := json.Marshal(map[string]string{"user": Alice, "message": "incident 124", "at": time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	t.Types(Alice, fmt.Sprintf("kubectl annotate shop %s kausality.io/freeze='%s'", xrName, value))
	if err := e.Annotate(ctx, Alice, Shops, xrName, v1alpha1.AnnotationKeyFreeze, string(value)); err != nil {
		return err
	}
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	if err := e.claimSize(ctx, t, 60); err != nil {
		return err
	}
	if err := until(ctx, "the Claim to report that it is frozen", func(ctx context.Context) error {
		claim, err := e.claim(ctx)
		if err != nil {
			return err
		}
		status, _, message := condition(claim, "Synced")
		if status != "False" || !strings.Contains(message, "incident 124") {
			return fmt.Errorf("Synced is %s: %s", status, message)
		}
		t.Reports("Synced  False\n%s", message)
		return nil
	}); err != nil {
		return err
	}
	if err := e.quiet(ctx, before, mr.GetName(), 50); err != nil {
		return err
	}
	t.Right("hans's change reaches neither the XR nor the cloud")
	t.Types(Alice, fmt.Sprintf("kubectl annotate shop %s kausality.io/freeze-", xrName))
	if err := e.Annotate(ctx, Alice, Shops, xrName, v1alpha1.AnnotationKeyFreeze, nil); err != nil {
		return err
	}
	if err := e.awaitSize(ctx, mr.GetName(), 60); err != nil {
		return err
	}
	t.Right("unfrozen, it does")
	return nil
}

func claimReverted(ctx context.Context, e *Env, t *Teller) error {
	if err := e.claimSettled(ctx); err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if err := e.ChangeOutside(ctx, client.Fields{"size": 9}); err != nil {
		return err
	}
	d, err := e.awaitDrift(ctx, "External", "Database", "")
	if err != nil {
		return err
	}
	t.Reports("%s", driftLines(d))
	approval := last(text(d, "spec", "suggestedApproval"))
	if err := e.follow(ctx, t, Alice, fmt.Sprintf("kubectl annotate -n default shops.example.org %s %s", xrName, approval)); err != nil {
		return err
	}
	if err := e.awaitSize(ctx, mr.GetName(), 60); err != nil {
		return err
	}
	t.Right("approved at the Claim, the way back is open once, and the gate closes again")
	return e.awaitResolved(ctx, t, d.GetName())
}

func claimGone(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	t.Types(Hans, "kubectl delete shop "+xrName)
	command, err := e.deletionRefused(ctx, t, func() error { return e.Delete(ctx, Hans, Shops, xrName) })
	if err != nil {
		return err
	}
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	t.Types(Hans, "kubectl delete shop "+xrName+"   # again")
	if err := e.deletionPasses(ctx, Shops, xrName); err != nil {
		return err
	}
	if err := e.awaitGone(ctx, mr.GetName()); err != nil {
		return err
	}
	if err := until(ctx, "everything to be gone", func(ctx context.Context) error {
		if _, err := e.claim(ctx); !kerrors.IsNotFound(err) {
			return errors.Join(err, errors.New("the Claim exists"))
		}
		xrs, err := e.admin.Resource(XShops).List(ctx, metav1.ListOptions{})
		if err != nil || len(xrs.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d XRs exist", len(xrs.Items)))
		}
		return nil
	}); err != nil {
		return err
	}
	if err := noneLeft(ctx, e.Cloud.Databases()); err != nil {
		return err
	}
	t.Right("the Claim is gone, and all below it; no database is left behind or orphaned")
	return nil
}
