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
		"Again":      {"GitOps writes the author's value", flux, tf(`"auto"`, object{"approvePlan": "", "path": "./a"}), object{"spec": object{"approvePlan": "auto", "path": "./b"}}, object{"spec": object{"approvePlan": "", "path": "./b"}}},
		"WhileOpen":  {"over an opening too", flux, tf(`"auto"`, object{"approvePlan": "plan-main-2"}), object{"spec": object{"approvePlan": "auto"}}, object{"spec": object{"approvePlan": "plan-main-2"}}},
		"Same":       {"what is stored", flux, tf(`"auto"`, object{"approvePlan": ""}), object{"spec": object{"approvePlan": ""}}, nil},
		"Another":    {"its author changes his mind", flux, tf(`"auto"`, object{"approvePlan": ""}), object{"spec": object{"approvePlan": "disable"}}, nil},
		"Unmasked":   {"nothing is remembered", flux, tf("", object{"approvePlan": ""}), object{"spec": object{"approvePlan": "auto"}}, nil},
		"Garbage":    {"what does not parse is not remembered", flux, tf("{", object{"approvePlan": ""}), object{"spec": object{"approvePlan": "auto"}}, nil},
		"NoSpec":     {"nothing is written", flux, tf(`"auto"`, object{"approvePlan": ""}), object{}, nil},
		"OtherKind":  {"without such a gate", nil, tf(`"auto"`, object{"approvePlan": ""}), object{"spec": object{"approvePlan": "auto"}}, nil},
		"LeftOut":    {"a whole manifest without the field", argo, app("null", object{"enabled": false, "prune": true}), object{"spec": object{"syncPolicy": object{"automated": object{"prune": false}}}}, object{"spec": object{"syncPolicy": object{"automated": object{"prune": false, "enabled": false}}}}},
		"Explicit":   {"or with what its author wrote", argo, app("true", object{"enabled": false}), object{"spec": object{"syncPolicy": object{"automated": object{"enabled": true}}}}, object{"spec": object{"syncPolicy": object{"automated": object{"enabled": false}}}}},
		"SwitchedOn": {"what its author never wrote is a change", argo, app("null", object{"enabled": false}), object{"spec": object{"syncPolicy": object{"automated": object{"enabled": true}}}}, nil},
		"TakenAway":  {"no automated sync any more", argo, app("null", object{"enabled": false}), object{"spec": object{"syncPolicy": object{}}}, nil},
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
