package story

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Chapters of the story, with webhook, gate, function and Options.Slack.
var Chapters = []Chapter{
	{"hans requests a database", created},
	{"Once it is settled, the gate is closed", settled},
	{"hans makes it larger: the gate opens for exactly that", changed},
	{"The database is changed behind Crossplane's back", tampered},
	{"The way back is approved, with exactly the command that the report suggests", reverted},
	{"A new Composition revision would alter the database: an unrequested change", upgraded},
	{"Two users must approve the next revision, and a Rollout lets it through", rolledOut},
	{"alice approves the next one by a click in Slack", clicked},
	{"Freeze: not even hans's own change gets through", frozen},
	{"OpenTofu runs for exactly what hans requested", ran},
	{"Deleting the database would orphan it", deleted},
	{"Deleting the XR, and all that is below it", gone},
}

func created(ctx context.Context, e *Env, t *Teller) error {
	t.Types(Hans, "kubectl apply -f examples/getting-started/xr.yaml")
	if err := e.createXR(ctx); err != nil {
		return err
	}
	var mr *unstructured.Unstructured
	if err := until(ctx, "the database to exist", func(ctx context.Context) (err error) {
		if mr, err = e.MR(ctx); err != nil {
			return err
		}
		_, err = e.Cloud.Get(ctx, mr.GetName())
		return err
	}); err != nil {
		return err
	}
	t.Right("Crossplane composed Database %s, and the provider created it in the cloud", mr.GetName())
	hops, err := Trace(mr)
	if err != nil {
		return err
	}
	t.Reports("%s", Tree(hops))
	if !e.Options.Webhook {
		return nil
	}
	if err := e.traced(ctx, hops, Hans); err != nil {
		return err
	}
	if hops[0].Labels["ticket"] != "SHOP-1" {
		return fmt.Errorf("the trace lost hans's ticket: %v", hops[0].Labels)
	}
	t.Right("its trace leads back to hans, and his ticket SHOP-1")
	return nil
}

func (e *Env) createXR(ctx context.Context) error {
	o, err := exampleObject("xr.yaml")
	if err != nil {
		return err
	}
	c, err := e.As(Hans)
	if err != nil {
		return err
	}
	_, err = c.Resource(XDatabases).Namespace(namespace).Create(ctx, o, createOptions)
	return err
}

// Trace of an object.
func Trace(o *unstructured.Unstructured) ([]v1alpha1.Hop, error) {
	var hops []v1alpha1.Hop
	value := o.GetAnnotations()[v1alpha1.AnnotationKeyTrace]
	if err := json.Unmarshal([]byte(value), &hops); err != nil {
		return nil, fmt.Errorf("%s %s has no trace: %q: %w", o.GetKind(), o.GetName(), value, err)
	}
	return hops, nil
}

// Tree of a trace, for readers.
func Tree(hops []v1alpha1.Hop) string {
	var b strings.Builder
	for i, h := range hops {
		if i > 0 {
			b.WriteString("\n" + strings.Repeat("   ", i-1) + "└─ ")
		}
		who := h.User
		if who == "" {
			who = "(unknown)"
		}
		fmt.Fprintf(&b, "%s %s, generation %d, by %s", h.Kind, h.Name, h.Generation, who)
		for _, k := range keys(h.Labels) {
			fmt.Fprintf(&b, ", %s=%s", k, h.Labels[k])
		}
		if h.Approval != nil {
			fmt.Fprintf(&b, ", approved %s (%s)", h.Approval.Digest, h.Approval.Mode)
		}
	}
	return b.String()
}

func keys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// traced reports whether a trace leads from a user through the XR to the MR, at
// their current generations.
func (e *Env) traced(ctx context.Context, hops []v1alpha1.Hop, who string) error {
	xr, err := e.XR(ctx)
	if err != nil {
		return err
	}
	own, err := Trace(xr)
	if err != nil {
		return err
	}
	switch {
	case len(hops) != 2:
		return fmt.Errorf("%d hops instead of 2", len(hops))
	case hops[0].Kind != "XDatabase" || hops[0].Name != xrName || hops[0].User != who:
		return fmt.Errorf("the origin is %+v instead of %s on XDatabase %s", hops[0], who, xrName)
	case hops[0].Generation != own[0].Generation:
		return fmt.Errorf("the origin's generation is %d, that of the XR's own hop %d", hops[0].Generation, own[0].Generation)
	case hops[1].Kind != "Database" || hops[1].User != "system:serviceaccount:crossplane-system:crossplane":
		return fmt.Errorf("the last hop is %+v", hops[1])
	}
	return nil
}

func settled(ctx context.Context, e *Env, t *Teller) error {
	if err := until(ctx, "the gate to close", func(ctx context.Context) error {
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		return closed(mr)
	}); err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	t.Types("", "kubectl get databases.cloud.example.org -o custom-columns=NAME:.metadata.name,POLICIES:.spec.managementPolicies")
	t.Reports("%s   %v", mr.GetName(), Policies(mr))
	t.Right("the gate is closed: the provider may only look")
	if err := e.settledXR(ctx); err != nil {
		return err
	}
	xr, err := e.XR(ctx)
	if err != nil {
		return err
	}
	t.Right("the XR has settled at hans's generation %s; its own is %d by now, moved by Crossplane's bookkeeping",
		xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration], xr.GetGeneration())
	return nil
}

// settledXR waits for the latch at the XR's last intent.
func (e *Env) settledXR(ctx context.Context) error {
	return until(ctx, "the XR to settle", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		hops, err := Trace(xr)
		if err != nil {
			return err
		}
		want := fmt.Sprint(hops[len(hops)-1].Generation)
		if have := xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; have != want {
			return fmt.Errorf("settled at %q, the intent is %s", have, want)
		}
		return nil
	})
}

func changed(ctx context.Context, e *Env, t *Teller) error {
	return e.resize(ctx, t, 50)
}

// resize by hans, with all expected consequences.
func (e *Env) resize(ctx context.Context, t *Teller, size int64) error {
	mr, err := e.MR(ctx)
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
	t.Types(Hans, fmt.Sprintf(`kubectl patch xdatabase %s --type=merge -p '{"spec":{"size":%d}}'`, xrName, size))
	if err := e.setSize(ctx, size); err != nil {
		return err
	}
	if err := e.awaitSize(ctx, mr.GetName(), size); err != nil {
		return err
	}
	first, err := h.first("brings the change", func(o *unstructured.Unstructured) bool { return integer(o, "spec", "forProvider", "size") == size })
	if err != nil {
		return err
	}
	if p := Policies(first); !slices.Equal(p, []string{"Observe", "Update"}) {
		return fmt.Errorf("the write that brings the change has managementPolicies %v", p)
	}
	t.Right("the gate opened in the very write that brought the change: generation %d, managementPolicies %v", first.GetGeneration(), Policies(first))
	if err := e.onlyWrite(ctx, t, before, mr.GetName()); err != nil {
		return err
	}
	if n := h.turns(func(o *unstructured.Unstructured) bool { return closed(o) != nil }); n != 1 {
		return fmt.Errorf("the gate opened %d times", n)
	}
	t.Right("the gate closed again")
	return e.changeTraced(ctx, t, first)
}

func (e *Env) changeTraced(ctx context.Context, t *Teller, first *unstructured.Unstructured) error {
	hops, err := Trace(first)
	if err != nil {
		return err
	}
	t.Reports("%s", Tree(hops))
	if err := e.traced(ctx, hops, Hans); err != nil {
		return err
	}
	if hops[1].Generation != first.GetGeneration() {
		return fmt.Errorf("the MR's hop has generation %d, the write brought %d", hops[1].Generation, first.GetGeneration())
	}
	t.Right("the trace names hans, both hops, the right generations")
	return nil
}

func (e *Env) setSize(ctx context.Context, size int64) error {
	return e.Patch(ctx, Hans, XDatabases, xrName, map[string]any{"spec": map[string]any{"size": size}})
}

// awaitSize in the cloud, with the gate closed again.
func (e *Env) awaitSize(ctx context.Context, name string, size int64) error {
	return until(ctx, fmt.Sprintf("the database to have size %d and the gate to be closed", size), func(ctx context.Context) error {
		db, err := e.Cloud.Get(ctx, name)
		if err != nil {
			return err
		}
		if db.Size != size {
			return fmt.Errorf("its size is %d", db.Size)
		}
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		return closed(mr)
	})
}

// onlyWrite asserts that the cloud had exactly one write since, to that database.
func (e *Env) onlyWrite(ctx context.Context, t *Teller, since int64, name string) error {
	writes, err := e.Cloud.Writes(ctx, since)
	if err != nil {
		return err
	}
	if len(writes) != 1 || !strings.HasSuffix(writes[0].Path, "/"+name) {
		return fmt.Errorf("%d external writes instead of one: %v", len(writes), writes)
	}
	t.Right("the provider made exactly one external write: %s %s %s", writes[0].Method, writes[0].Path, writes[0].Body)
	return nil
}
