package external

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRemask(t *testing.T) {
	flux := MaskPath(schema.GroupKind{Group: "infra.contrib.fluxcd.io", Kind: "Terraform"})
	argo := MaskPath(schema.GroupKind{Group: "argoproj.io", Kind: "Application"})
	tf := func(author string, spec object) object {
		out := object{"spec": spec}
		if author != "" {
			out["metadata"] = object{"annotations": object{"kausality.io/external-author": author}}
		}
		return out
	}
	app := func(author string, automated object) object {
		return tf(author, object{"project": "x", "syncPolicy": object{"automated": automated}})
	}
	cases := map[string]struct {
		reason           string
		path             []string
		stored, incoming object
		want             object
	}{
		"Again": {reason: "GitOps writes the author's value", path: flux,
			stored: tf(`"auto"`, object{"approvePlan": "", "path": "./a"}), incoming: object{"spec": object{"approvePlan": "auto", "path": "./b"}},
			want: object{"spec": object{"approvePlan": "", "path": "./b"}}},
		"WhileOpen": {reason: "over an opening too", path: flux, stored: tf(`"auto"`, object{"approvePlan": "plan-main-2"}),
			incoming: object{"spec": object{"approvePlan": "auto"}}, want: object{"spec": object{"approvePlan": "plan-main-2"}}},
		"Same": {reason: "what is stored", path: flux, stored: tf(`"auto"`, object{"approvePlan": ""}),
			incoming: object{"spec": object{"approvePlan": ""}}},
		"Another": {reason: "its author changes his mind", path: flux, stored: tf(`"auto"`, object{"approvePlan": ""}),
			incoming: object{"spec": object{"approvePlan": "disable"}}},
		"Unmasked": {reason: "nothing is remembered", path: flux, stored: tf("", object{"approvePlan": ""}),
			incoming: object{"spec": object{"approvePlan": "auto"}}},
		"Garbage": {reason: "what does not parse is not remembered", path: flux, stored: tf("{", object{"approvePlan": ""}),
			incoming: object{"spec": object{"approvePlan": "auto"}}},
		"NoSpec": {reason: "nothing is written", path: flux, stored: tf(`"auto"`, object{"approvePlan": ""}), incoming: object{}},
		"OtherKind": {reason: "without such a gate", stored: tf(`"auto"`, object{"approvePlan": ""}),
			incoming: object{"spec": object{"approvePlan": "auto"}}},
		"LeftOut": {reason: "a whole manifest without the field", path: argo,
			stored:   app("null", object{"enabled": false, "prune": true}),
			incoming: object{"spec": object{"syncPolicy": object{"automated": object{"prune": false}}}},
			want:     object{"spec": object{"syncPolicy": object{"automated": object{"prune": false, "enabled": false}}}}},
		"Explicit": {reason: "or with what its author wrote", path: argo, stored: app("true", object{"enabled": false}),
			incoming: object{"spec": object{"syncPolicy": object{"automated": object{"enabled": true}}}},
			want:     object{"spec": object{"syncPolicy": object{"automated": object{"enabled": false}}}}},
		"SwitchedOn": {reason: "what its author never wrote is a change", path: argo, stored: app("null", object{"enabled": false}),
			incoming: object{"spec": object{"syncPolicy": object{"automated": object{"enabled": true}}}}},
		"TakenAway": {reason: "no automated sync any more", path: argo, stored: app("null", object{"enabled": false}),
			incoming: object{"spec": object{"syncPolicy": object{}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stored, incoming := runtime.DeepCopyJSON(tc.stored), runtime.DeepCopyJSON(tc.incoming)
			got, _, ok := Remask(tc.path, tc.stored, tc.incoming)
			if ok != (tc.want != nil) {
				t.Errorf("%s: %t", tc.reason, ok)
			}
			if diff := cmp.Diff(tc.want, got); ok && diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if _, _, again := Remask(tc.path, tc.stored, got); again {
				t.Errorf("%s: its own result is masked again", tc.reason)
			}
			if !cmp.Equal(stored, tc.stored) || !cmp.Equal(incoming, tc.incoming) {
				t.Errorf("%s: input modified", tc.reason)
			}
		})
	}
}
