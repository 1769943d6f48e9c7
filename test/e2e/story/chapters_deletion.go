package story

import (
	"context"
	"errors"
	"fmt"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

func exampleObject(name string) (*unstructured.Unstructured, error) {
	raw, err := Example(name)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, yaml.Unmarshal(raw, &o.Object)
}

// deleted: the MR cannot be deleted without its external resource, and with the
// deletion approved both go. Crossplane's attempt to create them again is
// an unrequested change.
func deleted(ctx context.Context, e *Env, t *Teller) error {
	if err := e.settledXR(ctx); err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	name := mr.GetName()
	t.Types(Hans, "kubectl delete databases.cloud.example.org "+name)
	command, err := e.deletionRefused(ctx, t, func() error { return e.Delete(ctx, Hans, Databases, name) })
	if err != nil {
		return err
	}
	if _, err := e.Cloud.Get(ctx, name); err != nil {
		return fmt.Errorf("the database is gone: %w", err)
	}
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	t.Types(Hans, "kubectl delete databases.cloud.example.org "+name+"   # again")
	if err := e.deletionPasses(ctx, Databases, name); err != nil {
		return err
	}
	if err := e.awaitGone(ctx, name); err != nil {
		return err
	}
	t.Right("the database is really deleted, in the cluster and in the cloud")
	return e.recreated(ctx, t)
}

// deletionPasses once its approval is observed: hans deletes an object, unless it
// does not exist any more.
func (e *Env) deletionPasses(ctx context.Context, r schema.GroupVersionResource, name string) error {
	return until(ctx, "the deletion to be allowed", func(ctx context.Context) error {
		err := e.Delete(ctx, Hans, r, name)
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// noneLeft fails where the cloud has anything of a collection.
func noneLeft[R, F any](ctx context.Context, c *client.Collection[R, F]) error {
	left, err := c.List(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("left behind in the cloud: %v", left)
	}
	return err
}

// deletionRefused returns the approving command of the refusal.
func (e *Env) deletionRefused(_ context.Context, t *Teller, try func() error) (string, error) {
	err := try()
	if err == nil {
		return "", errors.New("the deletion was allowed")
	}
	t.Reports("Error from server: %v", err)
	if !strings.Contains(err.Error(), "ExternalDeletionNotAllowed") || !kerrors.IsForbidden(err) {
		return "", fmt.Errorf("the deletion was refused for another reason: %w", err)
	}
	command := suggested(err.Error())
	if command == "" {
		return "", errors.New("the refusal suggests no approval")
	}
	t.Right("it is refused: the database would be left behind")
	return command, nil
}

func (e *Env) awaitGone(ctx context.Context, name string) error {
	return until(ctx, "the database to be gone", func(ctx context.Context) error {
		if mr, err := e.MR(ctx); err == nil && mr.GetName() == name && mr.GetDeletionTimestamp() == nil {
			return fmt.Errorf("Database %s exists", name)
		}
		_, err := e.Cloud.Get(ctx, name)
		if client.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it is in the cloud")
		}
		return err
	})
}

// recreated: Crossplane re-creates the database. That waits for an approval.
func (e *Env) recreated(ctx context.Context, t *Teller) error {
	var message string
	if err := until(ctx, "the XR to report that the creation is held", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		status, reason, m := condition(xr, "Kausality")
		if status != "False" || reason != "Held" {
			return fmt.Errorf("condition Kausality is %s/%s: %s", status, reason, m)
		}
		message = m
		return nil
	}); err != nil {
		return err
	}
	t.Reports("Kausality  False  Held\n%s", message)
	if mr, err := e.MR(ctx); !errors.Is(err, errNone) {
		return fmt.Errorf("there is a Database: %v %w", mr, err)
	}
	t.Right("Crossplane's attempt to create it again is held: it is unrequested, too")
	command := suggested(message)
	if command == "" {
		return errors.New("the condition suggests no approval")
	}
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	if err := until(ctx, "a new database", func(ctx context.Context) error {
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		if _, err := e.Cloud.Get(ctx, mr.GetName()); err != nil {
			return err
		}
		return closed(mr)
	}); err != nil {
		return err
	}
	t.Right("approved, there is a new database, with a closed gate")
	return nil
}

// gone: the same with the XR. Nothing is left behind, nothing orphaned.
func gone(ctx context.Context, e *Env, t *Teller) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	name := mr.GetName()
	t.Types(Hans, "kubectl delete xdatabase "+xrName)
	command, err := e.deletionRefused(ctx, t, func() error { return e.Delete(ctx, Hans, XDatabases, xrName) })
	if err != nil {
		return err
	}
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	return e.deletedAgain(ctx, t, name)
}

// deletedAgain after a deletion of the XR was refused once: now it passes, and
// deletes everything below it. name is that of its Database.
func (e *Env) deletedAgain(ctx context.Context, t *Teller, name string) error {
	t.Types(Hans, "kubectl delete xdatabase "+xrName+"   # again")
	if err := e.deletionPasses(ctx, XDatabases, xrName); err != nil {
		return err
	}
	if err := e.awaitGone(ctx, name); err != nil {
		return err
	}
	if err := until(ctx, "everything to be gone", func(ctx context.Context) error {
		for _, look := range []func(context.Context) (*unstructured.Unstructured, error){e.XR, e.MR, e.Setting} {
			if o, err := look(ctx); err == nil {
				return fmt.Errorf("%s %s exists", o.GetKind(), o.GetName())
			} else if !kerrors.IsNotFound(err) && !errors.Is(err, errNone) {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := noneLeft(ctx, e.Cloud.Databases()); err != nil {
		return err
	}
	t.Right("the XR is gone, and all below it; no database is left behind or orphaned")
	return nil
}
