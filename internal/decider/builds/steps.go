package builds

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ours is a part of the API group of our function's inputs, of its usual name and of its package.
const ours = "kausality"

// step of a pipeline: the name of its function and the apiVersion of its input, each "" if it has none.
type step struct {
	function, input string
}

// stepsOf a CompositionRevision.
func stepsOf(o *unstructured.Unstructured) (out []step) {
	for _, s := range list(o, "spec", "pipeline") {
		ref, _ := s["functionRef"].(map[string]any)
		input, _ := s["input"].(map[string]any)
		name, _ := ref["name"].(string)
		version, _ := input["apiVersion"].(string)
		out = append(out, step{function: name, input: version})
	}
	return out
}

// Runs reports whether a step of a CompositionRevision may be our function: by the API group of its input, its name, or its package.
// It does where that is not known, as of a revision that is gone.
func (b *Builds) Runs(ctx context.Context, revision string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if _, ok := b.kept.Get(revision); ok {
		return true, nil
	}
	read, err := b.cached(ctx, revision)
	if read == nil {
		return true, err
	}
	named := func(s string) bool { return strings.Contains(s, ours) }
	if slices.ContainsFunc(read.steps, func(s step) bool { return named(s.function) || named(s.input) }) {
		return true, nil
	}
	active, err := b.active(ctx)
	return err != nil || slices.ContainsFunc(read.steps, func(s step) bool {
		image, known := active[s.function]
		return !known || named(image)
	}), err
}

// Keep a revision: Runs reports true for it from now on, since our function turned out to be in it, under another name.
func (b *Builds) Keep(revision string) { b.kept.Add(revision, true) }
