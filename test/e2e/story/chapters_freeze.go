package story

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

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
	if err := e.reportsFrozen(ctx, t); err != nil {
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

// reportsFrozen waits for the XR to report it: in the function's condition, or
// without it in Synced.
func (e *Env) reportsFrozen(ctx context.Context, t *Teller) error {
	return until(ctx, "the XR to report that it is frozen", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		if e.Options.Function {
			status, reason, message := condition(xr, "Kausality")
			if status != "False" || reason != "Frozen" {
				return fmt.Errorf("condition Kausality is %s/%s", status, reason)
			}
			t.Reports("Kausality  False  %s\n%s", reason, message)
			return nil
		}
		// Without the function the webhook refuses; its message is in an event.
		if status, _, message := condition(xr, "Synced"); status != "False" {
			return fmt.Errorf("Synced is %s: %s", status, message)
		}
		t.Reports("Synced  False")
		return nil
	})
}
