package story

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FunctionOnly is what the function does by itself.
var FunctionOnly = []Chapter{
	{"hans requests a database", created},
	{"It settles, and the function remembers that", settledByFunction},
	{"hans makes it larger", resizedByFunction},
	{"A new Composition revision would alter the database: the function holds it", heldByFunction},
	{"Freeze: not even hans's own change gets through", frozen},
	{"Nothing flaps", steady},
	{"A composite in a composite: held there, too", nested},
	{"It follows the policies and modes of the cluster", followed},
	{"An Operation audits it, and changes nothing", audited},
	{"A Composition revision without the database: it stays until its deletion is approved", removedByFunction},
}

// WebhookOnly is what the webhook and the gate do without the function.
var WebhookOnly = []Chapter{
	{"hans requests a database", created},
	{"Once it is settled, the gate is closed", settled},
	{"hans makes it larger: the gate opens for exactly that", changed},
	{"A new Composition revision would alter the database: the webhook refuses it", refusedByWebhook},
	{"An UpgradeAllowance lets the next one through", upgradedOnce},
	{"The same revisions are let through once, a new one of a function is another", notTwice},
	{"Back and forth: no revision comes through twice", backAndForth},
	{"Freeze: not even hans's own change gets through", frozen},
	{"Nothing flaps", steady},
	{"The UpgradeAllowance was counted", upgradesCounted},
	{"Without the UpgradeAllowance it follows the policies and modes of the cluster", followedWithoutAllowance},
}

// Uninstalled is what the cluster's policies and modes let pass with webhook and function, and with
// the function after webhook and gate are gone.
var Uninstalled = []Chapter{
	{"hans requests a database", created},
	{"Once it is settled, the gate is closed", settled},
	{"It follows the policies and modes of the cluster", followed},
	{"Webhook and gate are uninstalled, their CRDs and policies stay", uninstalled},
	{"The function follows what stays", followed},
	{"hans makes it larger", enlarged},
}

// settledByFunction waits for the mark that the function leaves in the traces.
func settledByFunction(ctx context.Context, e *Env, t *Teller) error {
	if err := until(ctx, "the function to remember that the XR settled", func(ctx context.Context) error {
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		hops, err := Trace(mr)
		if err != nil {
			return err
		}
		if !hops[0].Settled {
			return fmt.Errorf("the XR's hop is %+v", hops[0])
		}
		return nil
	}); err != nil {
		return err
	}
	t.Right("the XR's hop in the Database's trace reports it")
	return nil
}

func resizedByFunction(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if err := e.setSize(ctx, 50); err != nil {
		return err
	}
	if err := e.awaitThrough(ctx, mr.GetName(), 50); err != nil {
		return err
	}
	t.Right("it gets through")
	return settledByFunction(ctx, e, t)
}

func heldByFunction(ctx context.Context, e *Env, t *Teller) error {
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	if err := e.Compose(ctx, Composition{Tier: "gold", Kausality: true}); err != nil {
		return err
	}
	command, err := e.held(ctx, t)
	if err != nil {
		return err
	}
	if err := e.tierStays(ctx, t, before, "bronze"); err != nil {
		return err
	}
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	return e.tierBecomes(ctx, t, "gold")
}

func refusedByWebhook(ctx context.Context, e *Env, t *Teller) error {
	if err := e.settledXR(ctx); err != nil {
		return err
	}
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	d, err := e.compositionRefused(ctx, t, before)
	if err != nil {
		return err
	}
	if err := e.follow(ctx, t, Alice, text(d, "spec", "suggestedApproval")); err != nil {
		return err
	}
	return e.tierBecomes(ctx, t, "gold")
}

func (e *Env) tierBecomes(ctx context.Context, t *Teller, tier string) error {
	err := until(ctx, "the approved change to reach the cloud", func(ctx context.Context) error {
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		db, err := e.Cloud.Get(ctx, mr.GetName())
		if err == nil && db.Tags["tier"] != tier {
			err = fmt.Errorf("its tier is %q", db.Tags["tier"])
		}
		return err
	})
	if err == nil {
		t.Right("the approval lets it through")
	}
	return err
}

// calm is how long nothing may be written.
const calm = 10 * time.Second

// steady: once everything has settled, no composed resource is written, although
// Crossplane continues to apply all of them.
func steady(ctx context.Context, e *Env, t *Teller) error {
	if e.Options.Webhook {
		if err := e.settledXR(ctx); err != nil {
			return err
		}
	} else if err := settledByFunction(ctx, e, t); err != nil {
		return err
	}
	var was map[string]string
	since := time.Now()
	if err := until(ctx, fmt.Sprintf("nothing to move for %s", calm), func(ctx context.Context) error {
		now, err := e.versions(ctx)
		if err != nil {
			return err
		}
		if fmt.Sprint(now) != fmt.Sprint(was) {
			was, since = now, time.Now()
		}
		if left := calm - time.Since(since); left > 0 {
			return fmt.Errorf("%s of calm are missing", left.Round(time.Second))
		}
		return nil
	}); err != nil {
		return err
	}
	t.Right("for %s neither the XR nor what it is composed of moved", calm)
	return nil
}

// versions of the story's objects.
func (e *Env) versions(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, r := range []schema.GroupVersionResource{XDatabases, Databases, Settings} {
		list, err := e.admin.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			o := list.Items[i]
			out[r.Resource+"/"+o.GetName()] = o.GetResourceVersion()
		}
	}
	return out, nil
}
