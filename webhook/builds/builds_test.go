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
		{"digests where the kubelet reported them", `{spec: {containers: [{name: b, image: "b:1"}, {name: a, image: "a:1"}]}, status: {containerStatuses: [{name: a, imageID: "sha256:aa"}, {name: b, imageID: "sha256:bb"}]}}`, []string{"a:1 sha256:aa", "b:1 sha256:bb"}, true},
		{"a container that does not run yet", `{spec: {nodeName: n, containers: [{name: a, image: "a:1"}]}, status: {containerStatuses: [{name: a, imageID: ""}]}}`, []string{"a:1"}, false},
		{"no status yet", `{spec: {nodeName: n, containers: [{name: a, image: "a:1"}]}}`, []string{"a:1"}, false},
		{"no kubelet", `{spec: {containers: [{name: a, image: "a:1"}]}}`, []string{"a:1"}, true},
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
