package builds

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// crossplaneOwned is a revision by its controller reference.
	crossplaneOwned = `ownerReferences: [{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, name: xdb, uid: u1, controller: true}]`
	hopOfAnna       = `annotations: {kausality.io/trace: '[{"kind":"Composition","name":"xdb","generation":3,"user":"anna"}]'}`
	// written by kubectl, after another manager.
	written = `managedFields: [
    {manager: helm, operation: Update, time: "2026-01-01T10:00:00Z", fieldsV1: {"f:spec": {"f:mode": {}}}},
    {manager: kubectl, operation: Apply, time: "2026-01-02T10:00:00Z", fieldsV1: {"f:spec": {"f:pipeline": {}}}},
    {manager: labeller, operation: Update, time: "2026-01-03T10:00:00Z", fieldsV1: {"f:metadata": {}}},
    {manager: crossplane, operation: Update, subresource: status, time: "2026-01-04T10:00:00Z", fieldsV1: {"f:spec": {}}}]`
)

// TestCompositionAuthor: who made a revision of a Composition (KR-07-11).
func TestCompositionAuthor(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		// revision and composition are metadata beside the name; "-" for no Composition.
		revision, composition string
		// pipeline of the Composition; that of the revision is [a].
		pipeline string
		want     authorship.Author
	}{
		"Own": {reason: "the Composition's own trace, as long as it has that content", revision: crossplaneOwned + ", " + hopOfAnna,
			composition: "uid: u1, generation: 3, " + hopOfAnna, pipeline: "a", want: authorship.Author{User: "anna"}},
		"Unobserved": {reason: "changed while no webhook answered", revision: crossplaneOwned + ", " + hopOfAnna,
			composition: "uid: u1, generation: 4, " + hopOfAnna + ", " + written, pipeline: "a", want: authorship.Author{Manager: "kubectl (Apply)"}},
		"Changed": {reason: "of an earlier revision its own annotations", revision: crossplaneOwned + ", " + hopOfAnna,
			composition: `uid: u1, annotations: {kausality.io/trace: '[{"kind":"Composition","generation":4,"user":"eve"}]'}`, pipeline: "b",
			want: authorship.Author{User: "anna", Copied: true}},
		"Reverted": {reason: "another user made the same content again", revision: crossplaneOwned + ", " + hopOfAnna,
			composition: `uid: u1, annotations: {kausality.io/trace: '[{"kind":"Composition","generation":5,"user":"eve"}]'}`, pipeline: "a",
			want: authorship.Author{User: "anna", Copied: true}},
		"Forged": {reason: "content of its own with another one's annotation", revision: crossplaneOwned + ", " + hopOfAnna,
			composition: "uid: u1, generation: 3, " + hopOfAnna, pipeline: "b", want: authorship.Author{User: "anna", Copied: true}},
		"Other": {reason: "a Composition of the same name", revision: crossplaneOwned + ", " + hopOfAnna,
			composition: "uid: u2, generation: 3, " + hopOfAnna, pipeline: "a", want: authorship.Author{User: "anna", Copied: true}},
		"Gone": {reason: "the Composition is gone", revision: crossplaneOwned + ", " + hopOfAnna, composition: "-",
			want: authorship.Author{User: "anna", Copied: true}},
		"Manager": {reason: "not traced: who wrote its spec last", revision: crossplaneOwned, composition: "uid: u1, " + written, pipeline: "a",
			want: authorship.Author{Manager: "kubectl (Apply)"}},
		"ManagerOfOther": {reason: "what another content was written by is unknown", revision: crossplaneOwned, composition: "uid: u1, " + written,
			pipeline: "b", want: authorship.Author{Copied: true}},
		"Unattributed": {reason: "an unobserved change has no user", composition: "-",
			revision: crossplaneOwned + `, annotations: {kausality.io/trace: '[{"kind":"Composition","user":"","unattributed":true}]'}`,
			want:     authorship.Author{Copied: true}},
		"Invalid": {reason: "no trace that parses", revision: `annotations: {kausality.io/trace: "{"}`, composition: "-", want: authorship.Author{Copied: true}},
		"Unowned": {reason: "of no Composition", revision: hopOfAnna, composition: "-", want: authorship.Author{User: "anna", Copied: true}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fakeClient()
			create(t, client, compositionRevision, `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: xdb-1, `+
				tc.revision+`}, spec: {revision: 1, pipeline: [{functionRef: {name: a}}]}}`)
			if tc.composition != "-" {
				create(t, client, composition, `{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: xdb, `+
					tc.composition+`}, spec: {pipeline: [{functionRef: {name: `+tc.pipeline+`}}]}}`)
			}
			authored(t, New(client), v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdb-1"}, tc.want, tc.reason)
		})
	}
}

// TestAuthorOfNewRevision: what was read of the Composition for the last revision is not used for the next (KR-07-15).
func TestAuthorOfNewRevision(t *testing.T) {
	annotated := func(generation, user string) string {
		return `annotations: {kausality.io/trace: '[{"kind":"Composition","generation":` + generation + `,"user":"` + user + `"}]'}`
	}
	revision := func(n, generation, user, step string) string {
		return `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: xdb-` + n + `, ` + crossplaneOwned + `, ` +
			annotated(generation, user) + `}, spec: {revision: ` + n + `, pipeline: [{functionRef: {name: ` + step + `}}]}}`
	}
	of := func(generation, user, step string) string {
		return `{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: xdb, uid: u1, generation: ` + generation + `, ` +
			annotated(generation, user) + `},
  spec: {pipeline: [{functionRef: {name: ` + step + `}}]}}`
	}
	client := fakeClient()
	create(t, client, compositionRevision, revision("1", "3", "anna", "a"))
	create(t, client, composition, of("3", "anna", "a"))
	b := New(client)
	authored(t, b, v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdb-1"}, authorship.Author{User: "anna"}, "the first")
	require.NoError(t, client.Resource(composition).Delete(t.Context(), "xdb", metav1.DeleteOptions{}))
	create(t, client, composition, of("4", "eve", "b"))
	create(t, client, compositionRevision, revision("2", "4", "eve", "b"))
	authored(t, b, v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdb-2"}, authorship.Author{User: "eve"}, "the next, at once")
}

// TestFunctionAuthor: who chose the package of a Function (KR-07-11).
func TestFunctionAuthor(t *testing.T) {
	const annas = `annotations: {kausality.io/trace: '[{"kind":"Function","generation":2,"user":"anna"}]'}`
	for name, tc := range map[string]struct {
		reason, metadata, image string
		want                    authorship.Author
	}{
		"Own": {reason: "the last change was observed", metadata: "generation: 2, " + annas, image: "example.org/f:v1", want: authorship.Author{User: "anna"}},
		"Newer": {reason: "a later one was not", metadata: "generation: 3, " + annas + ", " + written,
			image: "example.org/f:v1", want: authorship.Author{Manager: "kubectl (Apply)"}},
		"Changed": {reason: "the Function has another package by now", metadata: "generation: 2, " + annas, image: "example.org/f:v2"},
		"Unknown": {reason: "no record of it", metadata: "generation: 2", image: "example.org/f:v1"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fakeClient()
			create(t, client, function, `{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: f, `+tc.metadata+`}, spec: {package: "`+tc.image+`"}}`)
			create(t, client, functionRevision, `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision,
  metadata: {name: f-1, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Active, image: "example.org/f:v1"}}`)
			b := New(client)
			authored(t, b, v1alpha1.HopCause{Kind: v1alpha1.CauseFunction, Name: "f-1"}, tc.want, tc.reason)
			_, err := b.Author(t.Context(), v1alpha1.HopCause{Kind: v1alpha1.CauseFunction, Name: "other-1"})
			require.ErrorContains(t, err, "FunctionRevision other-1 is not active any more", "its author is not unknown: no vote counts (KR-14-61)")
			authored(t, b, v1alpha1.HopCause{Kind: v1alpha1.CauseController, Name: "f-1"}, authorship.Author{}, "no revision")
		})
	}
}

// authored asserts the author of a cause, which is cached.
func authored(t *testing.T, b *Builds, c v1alpha1.HopCause, want authorship.Author, reason string) {
	t.Helper()
	for range 2 {
		got, err := b.Author(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", reason, d)
		}
	}
}

// TestReadsOfAuthors: requests about the first changes by a new revision, which come together, read once, and all Functions at once (KR-07-11).
func TestReadsOfAuthors(t *testing.T) {
	client := fakeClient()
	names := []string{"a", "b", "c"}
	for _, f := range names {
		create(t, client, function, `{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: `+f+`, generation: 2,
  annotations: {kausality.io/trace: '[{"kind":"Function","generation":2,"user":"anna"}]'}}, spec: {package: "example.org/f:v1"}}`)
		create(t, client, functionRevision, `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision,
  metadata: {name: `+f+`-1, labels: {pkg.crossplane.io/package: `+f+`}}, spec: {desiredState: Active, image: "example.org/f:v1"}}`)
	}
	const requests = 5
	var began sync.WaitGroup
	began.Add(requests)
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		began.Wait()
		return false, nil, nil
	})
	b := New(client)
	group, ctx := errgroup.WithContext(t.Context())
	for range requests {
		group.Go(func() error {
			began.Done()
			for _, f := range names {
				got, err := b.Author(ctx, v1alpha1.HopCause{Kind: v1alpha1.CauseFunction, Name: f + "-1"})
				if err != nil || got.User != "anna" {
					return fmt.Errorf("%s: %+v, %w", f, got, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	var reads []string
	for _, a := range client.Actions() {
		reads = append(reads, a.GetVerb()+" "+a.GetResource().Resource)
	}
	assert.Equal(t, []string{"list functionrevisions", "list functions"}, reads)
}

// TestSharedReads: a request that ends does not end what others wait for; its deadline does.
func TestSharedReads(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), readTimeout)
	want, _ := ctx.Deadline()
	cancel()
	_, err := shared(ctx, New(fakeClient()), "key", readTTL, func(ctx context.Context, _ dynamic.Interface) (string, error) {
		got, _ := ctx.Deadline()
		assert.Equal(t, want, got)
		return "", ctx.Err()
	})
	assert.NoError(t, err)
}
