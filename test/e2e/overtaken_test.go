package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// ledger is composed of a Database of its size.
var ledger = story.Definition{Group: "example.org", Version: "v1alpha1", Kind: "XLedger", Plural: "xledgers", Spec: "{size: {type: integer}}"}

const ledgerResources = `
      - name: database
        base: {apiVersion: cloud.example.org/v1alpha1, kind: Database, spec: {forProvider: {size: 0}}}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.forProvider.size}]`

// TestOvertaken: an intent that comes while Crossplane composes the generation before is reported as observed when that
// ends. It is carried out, however long after that the next reconcile comes (KR-03-10).
func TestOvertaken(t *testing.T) {
	for name, o := range map[string]story.Options{"WebhookOnly": {Webhook: true}, "FunctionOnly": {Function: true}, "Both": {Webhook: true, Function: true}} {
		t.Run(name, func(t *testing.T) {
			o.WithoutObjects = true
			ctx, e := story.StartTest(t, o)
			steps := []string{story.StepAutoReady}
			if o.Function {
				steps = []string{story.StepKausalityShortGrace, story.StepAutoReady}
			}
			require.NoError(t, e.Apply(ctx, ledger.XRD()))
			require.NoError(t, e.Apply(ctx, ledger.Composition(ledger.Plural, ledgerResources, steps...)))
			y := &overtaking{scenario: newScenario(ctx, t, e, "overtaken")}
			y.settles(10)
			y.overtake(20)
			y.settles(20)
		})
	}
}

// overtaking is a scenario with one XLedger, which has the name of the Namespace.
type overtaking struct {
	*scenario
	database string
}

// settles: a size of the XLedger, which is created if need be, reaches the cloud, and the XLedger settles.
func (y *overtaking) settles(size int64) {
	y.t.Helper()
	if y.database == "" {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1alpha1", "kind": ledger.Kind,
			"metadata": map[string]any{"name": y.ns}, "spec": map[string]any{"size": size}}}
		y.until("an XLedger", func(ctx context.Context) error {
			_, err := y.hans.Resource(ledger.Resource()).Namespace(y.ns).Create(ctx, o, metav1.CreateOptions{})
			return err
		})
		y.database = y.only(story.Databases)
	}
	y.until(fmt.Sprintf("size %d in the cloud", size), func(ctx context.Context) error {
		db, err := y.e.Cloud.Get(ctx, y.database)
		if err == nil && db.Size != size {
			err = fmt.Errorf("its size is %d: %v", db.Size, y.get(ledger.Resource(), y.ns).Object["status"])
		}
		return err
	})
	y.until("the XLedger to settle", func(context.Context) error { return y.settled() })
}

// settled returns an error while the XLedger has not settled at its last intent. Without a webhook the function records
// that in the trace of the Database.
func (y *overtaking) settled() error {
	if y.e.Options.Webhook {
		xr := y.get(ledger.Resource(), y.ns)
		hops, err := story.Trace(xr)
		if err != nil {
			return err
		}
		if have := xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; have != fmt.Sprint(hops[len(hops)-1].Generation) {
			return fmt.Errorf("settled at %q: %v", have, xr.Object["status"])
		}
		return nil
	}
	db := y.get(story.Databases, y.database)
	hops, err := story.Trace(db)
	if err != nil {
		return err
	}
	if generation := y.get(ledger.Resource(), y.ns).GetGeneration(); len(hops) != 2 || !hops[0].Settled || hops[0].Generation > generation {
		return fmt.Errorf("the trace is %s", story.Tree(hops))
	}
	return nil
}

// overtake a reconcile of the XLedger by a size. The next reconcile is delayed by several graces.
func (y *overtaking) overtake(size int64) {
	y.t.Helper()
	first, last := y.e.Functions[parts.PatchAndTransform], y.e.Functions[parts.AutoReady]
	last.Signal(syscall.SIGSTOP)
	defer last.Signal(syscall.SIGCONT)
	before := y.composed()
	y.annotate(ledger.Resource(), y.ns, "example.org/reconcile", "now")
	y.until("Crossplane to compose it", func(context.Context) error {
		if y.composed() == before {
			return errors.New("it does not")
		}
		return nil
	})
	y.until("hans to change it", func(context.Context) error {
		return y.merge(y.hans, ledger.Resource(), y.ns, map[string]any{"spec": map[string]any{"size": size}})
	})
	intent := y.get(ledger.Resource(), y.ns).GetGeneration()
	first.Signal(syscall.SIGSTOP)
	defer first.Signal(syscall.SIGCONT)
	last.Signal(syscall.SIGCONT)
	y.until("Crossplane to report the change as observed", func(context.Context) error {
		if have := observedBy(y.get(ledger.Resource(), y.ns), "Synced"); have < intent {
			return fmt.Errorf("it reports generation %d of %d", have, intent)
		}
		return nil
	})
	late := time.NewTimer(4 * time.Second) // the grace is a second
	select {
	case <-late.C:
	case <-y.ctx.Done():
	}
	if y.e.Options.Webhook && y.settled() == nil {
		y.t.Errorf("it settled before Crossplane carried out its change: %v", y.get(ledger.Resource(), y.ns).Object["status"])
	}
}

// composed is how many times function-patch-and-transform composed the XLedger.
func (y *overtaking) composed() int {
	y.t.Helper()
	log, err := os.ReadFile(y.e.Functions[parts.PatchAndTransform].Log())
	require.NoError(y.t, err)
	return strings.Count(string(log), fmt.Sprintf("%q:%q", "xr-name", y.ns))
}

// observedBy a condition of an object, which generation; 0 for none.
func observedBy(o *unstructured.Unstructured, condition string) int64 {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == condition {
			n, _ := c["observedGeneration"].(int64)
			return n
		}
	}
	return 0
}
