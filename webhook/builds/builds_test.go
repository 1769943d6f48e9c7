package builds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
)

// TestRevision: what a composite is composed by, and who wrote its Composition (KR-07-10, KR-07-11).
func TestRevision(t *testing.T) {
	kinds := map[schema.GroupVersionResource]string{compositionRevision: "CompositionRevisionList", functionRevision: "FunctionRevisionList"}
	cases := map[string]struct {
		reason, annotations, author string
	}{
		"Traced": {reason: "the last hop of the Composition", author: "alice",
			annotations: `{kausality.io/trace: '[{"kind":"Composition","name":"xdb","user":"alice"},{"kind":"CompositionRevision","user":"crossplane"}]'}`},
		"Unattributed": {reason: "an unobserved change has no user",
			annotations: `{kausality.io/trace: '[{"kind":"Composition","name":"xdb","user":"","unattributed":true}]'}`},
		"Untraced": {reason: "no trace", annotations: "{}"},
		"Invalid":  {reason: "no trace that parses", annotations: `{kausality.io/trace: "{"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
			create(t, client, compositionRevision, `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision,
  metadata: {name: xdb-1, annotations: `+tc.annotations+`},
  spec: {pipeline: [{functionRef: {name: b}}, {functionRef: {name: a}}, {functionRef: {name: gone}}]}}`)
			for _, f := range []string{"a", "b"} {
				create(t, client, functionRevision, `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision,
  metadata: {name: `+f+`-1, labels: {pkg.crossplane.io/package: `+f+`}}, spec: {desiredState: Active, image: "example.org/f:v1"}}`)
			}
			b := New(client)
			build, err := b.Of(t.Context(), subject.User{Name: "crossplane"}, &parent.State{CompositionRevision: "xdb-1"})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"a-1", "b-1"}, build.Functions); d != "" {
				t.Errorf("functions: -want +got\n%s", d)
			}
			author, err := b.Author(t.Context(), "xdb-1")
			if err != nil || author != tc.author {
				t.Errorf("%s: got %q, %v", tc.reason, author, err)
			}
			if author, err := b.Author(t.Context(), "other"); err != nil || author != "" {
				t.Errorf("of a revision that is gone: got %q, %v", author, err)
			}
		})
	}
}

func create(t *testing.T, client *fake.FakeDynamicClient, gvr schema.GroupVersionResource, text string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	if err := client.Tracker().Create(gvr, o, ""); err != nil {
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
