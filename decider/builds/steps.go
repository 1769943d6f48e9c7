package builds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ours is a part of the API group of our function's inputs, of its usual name and of its package.
const ours = "kausality"

// Runs reports whether a step of a CompositionRevision may be our function: by the API group of its input, its name, or its package.
// It does where that is not known, as of a revision that is gone.
func (b *Builds) Runs(ctx context.Context, revision string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if have, ok := b.steps.Get(revision); ok {
		return have.(bool), nil
	}
	if _, ok := b.unknown.Get(unknownSteps + revision); ok {
		return true, nil
	}
	o, err := b.client.Resource(compositionRevision).Get(ctx, revision, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("cannot read CompositionRevision %s: %w", revision, err)
	}
	pipeline := list(o, "spec", "pipeline")
	runs, certain := runsOurs(pipeline, nil)
	if !runs || !certain { // the packages of functions decide
		active, err := b.active(ctx)
		if err != nil {
			return true, err
		}
		runs, certain = runsOurs(pipeline, active)
	}
	if certain {
		b.steps.Add(revision, runs)
	} else {
		b.unknown.Add(unknownSteps+revision, nil, functionsTTL)
	}
	return runs, nil
}

// unknownSteps begins the keys of revisions among what is not known.
const unknownSteps = "revision/"

// runsOurs reports whether a step may be our function; certain is false where that is because a function is not active.
func runsOurs(pipeline []map[string]any, active map[string]string) (runs, certain bool) {
	certain = true
	for _, step := range pipeline {
		ref, _ := step["functionRef"].(map[string]any)
		name, _ := ref["name"].(string)
		input, _ := step["input"].(map[string]any)
		version, _ := input["apiVersion"].(string)
		image, known := active[name]
		if slices.ContainsFunc([]string{version, name, image}, func(s string) bool { return strings.Contains(s, ours) }) {
			return true, true
		}
		certain = certain && known
	}
	return !certain, certain
}

// Keep what Runs reports of a revision from now on: our function turned out to be in it, under another name.
func (b *Builds) Keep(revision string) { b.steps.Add(revision, true) }
