package builds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

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
