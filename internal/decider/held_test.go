package decider

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// What is below another object is not shown to a user who refers to it (KR-13-23).
func TestOwns(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "App"}
	p := &parent.State{Ref: parent.Ref{GroupVersionKind: kind, Namespace: "ns", Name: "app", UID: "1"}}
	for name, tc := range map[string]struct {
		of   parent.Ref
		want bool
	}{
		"Owner":          {of: p.Ref, want: true},
		"OtherVersion":   {of: parent.Ref{GroupVersionKind: kind.GroupKind().WithVersion("v2"), Name: "app", UID: "1"}, want: true},
		"Claim":          {of: parent.Ref{GroupVersionKind: kind, Namespace: "ns", Name: "app"}, want: true},
		"ClaimElsewhere": {of: parent.Ref{GroupVersionKind: kind, Namespace: "other", Name: "app"}},
		"Another":        {of: parent.Ref{GroupVersionKind: kind, Namespace: "ns", Name: "app", UID: "2"}},
		"None":           {},
	} {
		if got := owns(p, &parent.State{Parent: tc.of}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
