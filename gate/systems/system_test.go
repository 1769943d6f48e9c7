package systems

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o
}

// apply a merge patch, as the API server does.
func apply(o *unstructured.Unstructured, edit map[string]any) *unstructured.Unstructured {
	out := o.DeepCopy()
	raw, _ := json.Marshal(edit)
	plain := &unstructured.Unstructured{}
	_ = json.Unmarshal(raw, &plain.Object)
	merge(out.Object, plain.Object)
	return out
}

func merge(into, patch map[string]any) {
	for k, v := range patch {
		below, isMap := v.(map[string]any)
		switch have, ok := into[k].(map[string]any); {
		case v == nil:
			delete(into, k)
		case isMap && ok:
			merge(have, below)
		case isMap:
			next := map[string]any{}
			merge(next, below)
			into[k] = next
		default:
			into[k] = v
		}
	}
}

func annotated(o *unstructured.Unstructured, annotations map[string]string) *unstructured.Unstructured {
	out := o.DeepCopy()
	all := out.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, annotations)
	out.SetAnnotations(all)
	return out
}

func TestFor(t *testing.T) {
	cases := map[string]struct {
		reason string
		gvk    schema.GroupVersionKind
		name   string
	}{
		"Managed": {
			reason: "the gate of a managed resource is the mask, not a system of its own",
			gvk:    schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Database"},
		},
		"Workspace": {
			reason: "a Workspace is a managed resource",
			gvk:    schema.GroupVersionKind{Group: "tf.upbound.io", Version: "v1beta1", Kind: "Workspace"},
		},
		"Terraform": {
			reason: "of Flux, in any version",
			gvk:    schema.GroupVersionKind{Group: "infra.contrib.fluxcd.io", Version: "v1alpha1", Kind: "Terraform"},
			name:   "tofu-controller",
		},
		"Application": {
			reason: "of Argo CD",
			gvk:    schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"},
			name:   "Argo CD",
		},
		"AppProject": {
			reason: "another kind of Argo CD deploys nothing",
			gvk:    schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "AppProject"},
		},
		"ConfigMap": {
			reason: "acts on nothing outside of the cluster",
			gvk:    schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if s := For(tc.gvk); s != nil {
				got = s.Name()
			}
			if got != tc.name {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.name)
			}
		})
	}
}

var byHans = external.ProvenanceOf([]v1alpha1.Hop{{APIVersion: "example.org/v1", Kind: "XNet", Name: "net", Generation: 4, User: "hans"}}, "shop")

// Every system: closing and opening are what Look calls closed and open, closing
// twice changes nothing, restoring writes what was stored, to the letter, and
// the object that was read is never modified.
func TestSystems(t *testing.T) {
	cases := map[string]struct {
		system System
		object string
		verb   v1alpha1.Verb
	}{
		"Flux":           {system: Flux{}, object: terraformWaits, verb: verb.Apply},
		"ArgoCD":         {system: ArgoCD{}, object: applicationOut, verb: verb.Sync},
		"ArgoCDExplicit": {system: ArgoCD{}, object: strings.Replace(applicationOut, "prune: false", "prune: false, enabled: true", 1), verb: verb.Sync},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := parse(t, tc.object)
			before := o.DeepCopy()
			if v := tc.system.Look(o); v.State != external.StateOpen || v.Masked {
				t.Fatalf("as its author wrote it: %+v", v)
			}
			closed := annotated(apply(o, tc.system.Close(o)), map[string]string{v1alpha1.AnnotationKeyExternalAuthor: string(tc.system.Author(o))})
			v := tc.system.Look(closed)
			if v.State != external.StateClosed || !v.Masked {
				t.Errorf("closed: %+v", v)
			}
			if again := apply(closed, tc.system.Close(closed)); !cmp.Equal(closed, again) {
				t.Errorf("closing twice: %s", cmp.Diff(closed, again))
			}
			if string(tc.system.Author(closed)) != string(tc.system.Author(o)) {
				t.Errorf("its author is forgotten: %s", tc.system.Author(closed))
			}
			g := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{tc.verb}, Generation: 8,
				At: metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)), Digest: "d"}
			opened := annotated(apply(closed, tc.system.Open(closed, g, byHans)), map[string]string{v1alpha1.AnnotationKeyGate: mask.FormatGate(g)})
			if v := tc.system.Look(opened); v.State != external.StateOpen && v.Unconfirmed == "" {
				t.Errorf("opened: %+v", v)
			}
			if string(tc.system.Author(opened)) != string(tc.system.Author(o)) {
				t.Errorf("opened, its author is forgotten: %s", tc.system.Author(opened))
			}
			restored := apply(closed, tc.system.Restore(closed))
			restored.SetAnnotations(o.GetAnnotations())
			if diff := cmp.Diff(before.Object["spec"], restored.Object["spec"]); diff != "" {
				t.Errorf("restored: -want, +got:\n%s", diff)
			}
			if diff := cmp.Diff(before, o); diff != "" {
				t.Errorf("input modified:\n%s", diff)
			}
		})
	}
}
