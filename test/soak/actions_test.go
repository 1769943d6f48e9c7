package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func ignoreExists(err error) error {
	if kerrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// live until the context ends: one thing happens after the other.
func (k *kind) live(ctx context.Context) {
	for ctx.Err() == nil {
		pause := time.NewTimer(time.Duration(10+k.rng.IntN(20)) * time.Second)
		select { // the pace of users
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		var name string
		var do func(context.Context) error
		switch n := k.rng.IntN(100); {
		case n < 60:
			name, do = "intent", k.intend
		case n < 80:
			name, do = "drift", k.tamper
		case n < 92:
			name, do = "upgrade", k.upgrade
		default:
			name, do = "deletion", k.replace
		}
		// What was begun is finished, also when the time is over.
		err := do(context.WithoutCancel(ctx))
		k.did(name, err)
	}
}

// some of the items, at least one.
func (k *kind) some() []*item {
	out := slices.Clone(k.items)
	k.rng.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out[:1+k.rng.IntN(len(out))]
}

// intend: hans requests sizes, which arrive.
func (k *kind) intend(ctx context.Context) error {
	return together(ctx, k.some(), func(i *item, ctx context.Context) error {
		if err := i.request(ctx); err != nil {
			return err
		}
		return i.arrives(ctx)
	})
}

// arrives outside: the size that was requested.
func (i *item) arrives(ctx context.Context) error {
	return i.insist(ctx, fmt.Sprintf("size %d of %s to arrive", i.size, i.name), func(ctx context.Context) error {
		d, err := the.Cloud.Get(ctx, i.managed)
		if err == nil && d.Size != i.size {
			err = fmt.Errorf("it is %d", d.Size)
		}
		return err
	})
}

// settled: its latch is at its last intent, and its gate is closed.
func (i *item) settled(ctx context.Context) error {
	xr, err := of("", i.resource()).Get(ctx, i.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	hops, err := story.Trace(xr)
	if err != nil {
		return err
	}
	if have, want := xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration], fmt.Sprint(hops[len(hops)-1].Generation); have != want {
		return fmt.Errorf("it settled at %q, its intent is %s", have, want)
	}
	mr, err := of("", story.Databases).Get(ctx, i.managed, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if p := story.Policies(mr); !slices.Equal(p, []string{"Observe"}) {
		return fmt.Errorf("its gate is open: %v", p)
	}
	return nil
}

// tamper with a database outside: that is reported and not reverted, until alice approves it.
func (k *kind) tamper(ctx context.Context) error {
	i := k.items[k.rng.IntN(len(k.items))]
	if err := i.insist(ctx, i.name+" to settle", i.settled); err != nil {
		return err
	}
	defer i.expect("External", "Database", i.managed)()
	other := i.size + foreign
	if err := i.insist(ctx, "the cloud to change", func(ctx context.Context) error {
		return the.Cloud.Change(ctx, i.managed, client.Fields{"size": other})
	}); err != nil {
		return err
	}
	var command []string
	if err := i.insist(ctx, "the drift of "+i.name+" to be reported", func(ctx context.Context) (err error) {
		command, err = i.suggested(ctx)
		return err
	}); err != nil {
		return err
	}
	if d, err := the.Cloud.Get(ctx, i.managed); err != nil || d.Size != other {
		return fmt.Errorf("%s was reverted to %d without an approval: %w", i.name, d.Size, err)
	}
	defer i.expect(approvedSize, "Database", i.managed)()
	if err := i.approve(ctx, command); err != nil {
		return err
	}
	return i.arrives(ctx)
}

var approval = regexp.MustCompile(`kubectl annotate (?:-n \S+ )?(\S+) (\S+) (kausality\.io/[^=\s]+)='?([^'\n;]*[^'\s;])`)

// suggested command that approves the external drift.
func (i *item) suggested(ctx context.Context) ([]string, error) {
	list, err := of("", story.Drifts).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		child, _, _ := unstructured.NestedString(o.Object, "spec", "child", "name")
		relation, _, _ := unstructured.NestedString(o.Object, "spec", "relation")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		text, _, _ := unstructured.NestedString(o.Object, "spec", "suggestedApproval")
		if m := approval.FindStringSubmatch(text); child == i.managed && relation == "External" && phase == "Detected" && m != nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no Drift of %s among %d", i.managed, len(list.Items))
}

// approve by a command, as alice.
func (i *item) approve(ctx context.Context, command []string) error {
	g := i.resource()
	if strings.HasPrefix(command[1], "database") {
		g = story.Databases
	}
	return i.insist(ctx, "alice to approve it", func(ctx context.Context) error {
		_, err := of(story.Alice, g).Patch(ctx, command[2], types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, command[3], command[4]), metav1.PatchOptions{FieldManager: "kubectl"})
		return err
	})
}

// upgrade the Composition: its tier is held of each composite, until alice approves it.
func (k *kind) upgrade(ctx context.Context) error {
	for _, i := range k.items {
		if err := i.insist(ctx, i.name+" to settle", i.settled); err != nil {
			return err
		}
		defer i.expect("ControllerChild", "Database", i.managed)()
		defer i.expect("ControllerChild", "ConfigMap", i.name)()
	}
	if err := k.compose(ctx); err != nil {
		return err
	}
	want := fmt.Sprintf("tier-%d", k.tier)
	return together(ctx, k.items, func(i *item, ctx context.Context) error {
		for _, g := range []schema.GroupVersionResource{story.Databases, configMaps} {
			var command []string
			if err := i.insist(ctx, want+" of "+i.name+" to be held", func(ctx context.Context) (err error) {
				command, err = i.held(ctx, g)
				return err
			}); err != nil {
				return err
			}
			defer i.expect(approvedTier(want), "Database", i.managed)()
			if err := i.approve(ctx, command); err != nil {
				return err
			}
		}
		return i.insist(ctx, want+" of "+i.name+" to arrive", func(ctx context.Context) error {
			d, err := the.Cloud.Get(ctx, i.managed)
			if err == nil && d.Tags["tier"] != want {
				err = fmt.Errorf("it is %v", d.Tags)
			}
			return err
		})
	})
}

// held returns the command that approves what is held of a composed resource.
func (i *item) held(ctx context.Context, g schema.GroupVersionResource) ([]string, error) {
	list, err := of("", g).List(ctx, metav1.ListOptions{LabelSelector: "crossplane.io/composite=" + i.name})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		var h v1alpha1.Held
		if json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyHeld]), &h) != nil {
			return nil, fmt.Errorf("nothing is held of %s %s", g.Resource, o.GetName())
		}
		if m := approval.FindStringSubmatch(h.Approve); m != nil {
			return m, nil
		}
	}
	return nil, errors.New("there is none")
}

// replace a composite: hans deletes it, which alice approves, all of it goes, and hans creates it again.
func (k *kind) replace(ctx context.Context) error {
	i := k.items[k.rng.IntN(len(k.items))]
	if err := i.insist(ctx, i.name+" to settle", i.settled); err != nil {
		return err
	}
	managed := i.managed
	defer i.expect("", definition(k.number).Kind, i.name)()
	defer i.expect("", "Database", managed)()
	if err := i.insist(ctx, i.name+" to go", func(ctx context.Context) error {
		err := of(story.Hans, i.resource()).Delete(ctx, i.name, metav1.DeleteOptions{})
		if m := approval.FindStringSubmatch(fmt.Sprint(err)); kerrors.IsForbidden(err) && m != nil {
			return errors.Join(err, i.approve(ctx, m))
		}
		if kerrors.IsNotFound(err) {
			_, err = the.Cloud.Get(ctx, managed)
			if err == nil {
				err = errors.New("its database exists")
			} else if client.IsNotFound(err) {
				err = nil
			}
			return err
		}
		return errors.Join(err, errors.New("it exists"))
	}); err != nil {
		return err
	}
	return i.create(ctx)
}
