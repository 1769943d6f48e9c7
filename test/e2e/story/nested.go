package story

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// An outer composite and the one that it is composed of.
var (
	outer = Definition{Group: "example.org", Version: "v1alpha1", Kind: "XShop", Plural: "xshops", Spec: "{size: {type: integer}}"}
	inner = Definition{Group: "example.org", Version: "v1alpha1", Kind: "XShelf", Plural: "xshelves", Spec: "{size: {type: integer}}"}

	shops, shelves = outer.Resource(), inner.Resource()
)

// nestedComposition composes one object from the size of a composite: its base,
// the path of the size with its transforms, and readiness checks.
func nestedComposition(d Definition, base, path, readiness string) []byte {
	return d.Composition(d.Plural+".example.org", fmt.Sprintf(`
      - name: inner
        base: %s
        %s
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: %s}`, base, readiness, path), StepKausalityShortGrace, StepAutoReady)
}

// shelf revision of the inner Composition.
func shelf(color string) []byte {
	return nestedComposition(inner, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default}, data: {color: %s}}", color),
		"data.size, transforms: [{type: convert, convert: {toType: string}}]", "readinessChecks: [{type: None}]")
}

// nested: an XShop is composed of an XShelf, and that of a ConfigMap. What is
// unrequested is held in the inner one; what a user requests of the outer one gets
// through both, with the whole chain in its trace.
func nested(ctx context.Context, e *Env, t *Teller) error {
	shopComposition := nestedComposition(outer, "{apiVersion: example.org/v1alpha1, kind: XShelf}", "spec.size", "")
	for _, o := range [][]byte{outer.XRD(), inner.XRD(), shopComposition, shelf("red")} {
		if err := e.Apply(ctx, o); err != nil {
			return err
		}
	}
	t.Types(Hans, "kubectl apply -f xshop.yaml")
	if err := until(ctx, "an XShop", func(ctx context.Context) error { return e.orderShop(ctx, 1) }); err != nil {
		return err
	}
	var first v1alpha1.Hop
	if err := e.composedConfigMap(ctx, "red", "1", func(hops []v1alpha1.Hop) error {
		if len(hops) != 3 || hops[0].Kind != "XShop" || hops[1].Kind != "XShelf" || !hops[1].Settled {
			return fmt.Errorf("the trace is %s", Tree(hops))
		}
		first = hops[0]
		return nil
	}); err != nil {
		return err
	}
	t.Right("the ConfigMap's trace leads over the XShelf to the XShop, and the XShelf has settled")
	if err := e.heldBelow(ctx, t); err != nil {
		return err
	}
	t.Types(Hans, `kubectl patch xshop main --type=merge -p '{"spec":{"size":2}}'`)
	if err := e.Patch(ctx, Hans, shops, "main", map[string]any{"spec": map[string]any{"size": int64(2)}}); err != nil {
		return err
	}
	if err := e.composedConfigMap(ctx, "red", "2", func(hops []v1alpha1.Hop) error {
		if len(hops) != 3 || hops[0].Generation <= first.Generation || !hops[0].Timestamp.After(first.Timestamp.Time) {
			return fmt.Errorf("the trace is %s", Tree(hops))
		}
		return nil
	}); err != nil {
		return err
	}
	t.Right("hans makes the XShop larger: that is an intent down to the ConfigMap, and the color stays held")
	return nil
}

// heldBelow: an unrequested revision of the inner Composition.
func (e *Env) heldBelow(ctx context.Context, t *Teller) error {
	if err := e.Apply(ctx, shelf("blue")); err != nil {
		return err
	}
	if err := until(ctx, "the function to hold the color", func(ctx context.Context) error {
		o, err := e.only(ctx, shelves)
		if err != nil {
			return err
		}
		if status, reason, message := condition(o, "Kausality"); status != "False" || !strings.Contains(message, "data.color") {
			return fmt.Errorf("%s %s: %s", status, reason, message)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := e.composedConfigMap(ctx, "red", "1", func([]v1alpha1.Hop) error { return nil }); err != nil {
		return err
	}
	t.Right("a new revision of the inner Composition would paint it blue: held, and the XShelf reports it")
	return nil
}

func (e *Env) orderShop(ctx context.Context, size int64) error {
	c, err := e.As(Hans)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	o.SetAPIVersion("example.org/v1alpha1")
	o.SetKind("XShop")
	o.SetName("main")
	_, err = c.Resource(shops).Namespace(namespace).Create(ctx, o, createOptions)
	return err
}

// composedConfigMap of the XShelf: waits for color, size and a trace.
func (e *Env) composedConfigMap(ctx context.Context, color, size string, traced func([]v1alpha1.Hop) error) error {
	return until(ctx, fmt.Sprintf("a ConfigMap of color %s and size %s", color, size), func(ctx context.Context) error {
		o, err := e.only(ctx, shelves)
		if err != nil {
			return err
		}
		list, err := e.admin.Resource(configMaps).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.Items, func(cm unstructured.Unstructured) bool { return metav1.IsControlledBy(&cm, o) })
		if i < 0 {
			return errNone
		}
		cm := &list.Items[i]
		if have := text(cm, "data", "color") + " " + text(cm, "data", "size"); have != color+" "+size {
			return fmt.Errorf("it is %s; the status of the XShelf is %v", have, o.Object["status"])
		}
		hops, err := Trace(cm)
		if err != nil {
			return err
		}
		return traced(hops)
	})
}
