package builds

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

// TestFunctionsOf: what a composite is composed by (KR-07-10).
func TestFunctionsOf(t *testing.T) {
	client := fakeClient()
	create(t, client, compositionRevision, `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision,
  metadata: {name: xdb-1}, spec: {pipeline: [{functionRef: {name: b}}, {functionRef: {name: a}}, {functionRef: {name: gone}}]}}`)
	for _, f := range []string{"a", "b"} {
		create(t, client, functionRevision, `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision,
  metadata: {name: `+f+`-1, labels: {pkg.crossplane.io/package: `+f+`}}, spec: {desiredState: Active, image: "example.org/f:v1"}}`)
	}
	build, err := New(client).Of(t.Context(), subject.User{Name: "crossplane"}, &parent.State{CompositionRevision: "xdb-1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a-1", "b-1"}, build.Functions); d != "" {
		t.Errorf("functions: -want +got\n%s", d)
	}
}

// TestGoneRevision: a revision that is gone is read once for many requests (KR-06-21), and found where it exists after all.
func TestGoneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fakeClient()
		b := New(client)
		functions := func() []string {
			build, err := b.Of(t.Context(), subject.User{Name: "crossplane"}, &parent.State{CompositionRevision: "xdb-1"}, "")
			require.NoError(t, err)
			runs, err := b.Runs(t.Context(), "xdb-1")
			require.NoError(t, err)
			require.True(t, runs, "it may have run the function")
			return build.Functions
		}
		for range 3 {
			require.Empty(t, functions())
		}
		require.Len(t, client.Actions(), 1, "it was read once")
		create(t, client, compositionRevision, `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision,
  metadata: {name: xdb-1, `+hopOfAnna+`}, spec: {pipeline: [{functionRef: {name: kausality}}]}}`)
		authored(t, b, v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdb-1"}, authorship.Author{User: "anna", Copied: true},
			"its author is known at once (KR-14-61)")
		create(t, client, functionRevision, `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision,
  metadata: {name: k-1, labels: {pkg.crossplane.io/package: kausality}}, spec: {desiredState: Active, image: "example.org/f:v1"}}`)
		await.Sleep(unknownTTL + time.Second)
		require.Equal(t, []string{"k-1"}, functions())
	})
}

// TestControllerOf: the images of Crossplane's own Pod have a fingerprint of their own beside that of the whole (KR-06-23, KR-10-13).
func TestControllerOf(t *testing.T) {
	client := fakeClient()
	for name, image := range map[string]string{"old": "crossplane:v1", "new": "crossplane:v2"} {
		create(t, client, podResource, `{apiVersion: v1, kind: Pod, metadata: {namespace: crossplane-system, name: `+name+`, uid: `+name+`},
  spec: {containers: [{name: crossplane, image: "`+image+`"}]}}`)
	}
	create(t, client, compositionRevision, `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision,
  metadata: {name: xdb-1}, spec: {pipeline: [{functionRef: {name: kausality}}]}}`)
	create(t, client, functionRevision, `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision,
  metadata: {name: k-1, labels: {pkg.crossplane.io/package: kausality}}, spec: {desiredState: Active, image: "example.org/f:v1"}}`)
	of := func(pod, revision string) allowance.Build {
		u := subject.User{Name: "system:serviceaccount:crossplane-system:crossplane",
			Extra: map[string][]string{extraPodName: {pod}, extraPodUID: {pod}}}
		build, err := New(client).Of(t.Context(), u, &parent.State{CompositionRevision: revision}, "")
		if err != nil {
			t.Fatal(err)
		}
		return build
	}
	one, revised, upgraded, both, alone := of("old", "xdb-1"), of("old", "xdb-2"), of("new", "xdb-1"), of("new", "xdb-2"), of("old", "")
	if one.Controller == "" || revised.Controller != one.Controller || revised.Fingerprint == one.Fingerprint {
		t.Errorf("another revision, the same controller: %+v, %+v", one, revised)
	}
	if upgraded.Controller == one.Controller || both.Controller != upgraded.Controller || both.Fingerprint == upgraded.Fingerprint {
		t.Errorf("another controller: %+v, %+v", upgraded, both)
	}
	if alone.Controller != "" || alone.Recorded() != alone.Fingerprint || one.Recorded() != one.Fingerprint+"."+one.Controller {
		t.Errorf("the images are all of the build: %+v", alone)
	}
	gone := of("gone", "xdb-1")
	if gone.Recorded() != "" {
		t.Errorf("an unknown build: %+v", gone)
	}
	require.Equal(t, []string{"k-1"}, gone.Functions, "whose authors do not vote, whatever the images are (KR-14-61)")
	for _, resource := range []string{podResource.Resource, functionRevision.Resource} { // one after the other: both fail at last
		unread := resource == functionRevision.Resource
		client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetResource().Resource == resource, nil, assert.AnError
		})
		u := subject.User{Name: "system:serviceaccount:crossplane-system:crossplane", Extra: map[string][]string{extraPodName: {"old"}, extraPodUID: {"old"}}}
		build, err := New(client).Of(t.Context(), u, &parent.State{CompositionRevision: "xdb-1"}, "")
		require.ErrorIs(t, err, assert.AnError, resource)
		require.Equal(t, unread, build.Unread, "%s: images have no author", resource)
		require.Equal(t, unread, build.Functions == nil, resource)
	}
}

// TestCaller: the build of a caller outside of Pods is the name of its program, where that is known (KR-06-21).
func TestCaller(t *testing.T) {
	client := fakeClient()
	create(t, client, podResource, `{apiVersion: v1, kind: Pod, metadata: {namespace: apps, name: own, uid: own},
  spec: {containers: [{name: own, image: "own:v1"}]}}`)
	b := New(client)
	of := func(program string, extra map[string][]string) string {
		b.Caller = func(context.Context) string { return program }
		build, err := b.Of(t.Context(), subject.User{Name: "system:serviceaccount:apps:own", Extra: extra}, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		return build.Fingerprint
	}
	inPod := map[string][]string{extraPodName: {"own"}, extraPodUID: {"own"}}
	cases := map[string]struct {
		reason, program string
		extra           map[string][]string
		want            string
	}{
		"Named":   {reason: "by its program", program: "own/v1", want: allowance.ClaimedFingerprint([]string{"user-agent:own/v1"})},
		"Unnamed": {reason: "that has no name"},
		"Pod":     {reason: "a Pod is known by its images alone", program: "own/v1", extra: inPod, want: allowance.Fingerprint([]string{"own:v1"})},
		"Gone":    {reason: "an unknown Pod is no other program", program: "own/v1", extra: map[string][]string{extraPodName: {"gone"}, extraPodUID: {"gone"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := of(tc.program, tc.extra); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func fakeClient() *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		compositionRevision: "CompositionRevisionList", functionRevision: "FunctionRevisionList",
		composition: "CompositionList", function: "FunctionList", graph: "ResourceGraphDefinitionList", graphRevision: "GraphRevisionList",
	})
}

func create(t *testing.T, client *fake.FakeDynamicClient, gvr schema.GroupVersionResource, text string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Tracker().Create(gvr, o, o.GetNamespace()); err != nil {
		t.Fatal(err)
	}
}

func TestImagesOf(t *testing.T) {
	for _, tc := range []struct {
		reason, pod string
		images      []string
		complete    bool
	}{
		{
			reason: "digests if the kubelet reported them",
			pod: `{spec: {containers: [{name: b, image: "b:1"}, {name: a, image: "a:1"}]},
                status: {containerStatuses: [{name: a, imageID: "sha256:aa"}, {name: b, imageID: "sha256:bb"}]}}`,
			images: []string{"a:1 sha256:aa", "b:1 sha256:bb"}, complete: true,
		},
		{
			reason: "a container that does not run yet", images: []string{"a:1"},
			pod: `{spec: {nodeName: n, containers: [{name: a, image: "a:1"}]}, status: {containerStatuses: [{name: a, imageID: ""}]}}`,
		},
		{reason: "no status yet", pod: `{spec: {nodeName: n, containers: [{name: a, image: "a:1"}]}}`, images: []string{"a:1"}},
		{reason: "no node", pod: `{spec: {containers: [{name: a, image: "a:1"}]}}`, images: []string{"a:1"}, complete: true},
	} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(tc.pod), &o.Object); err != nil {
			t.Fatal(err)
		}
		images, complete := imagesOf(o)
		if d := cmp.Diff(tc.images, images); d != "" || complete != tc.complete {
			t.Errorf("%s: %s, complete %v", tc.reason, d, complete)
		}
	}
}
