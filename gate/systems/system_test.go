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

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
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
	mr := admission.Kind{ManagementPolicies: true}
	cases := map[string]struct {
		reason string
		gvk    schema.GroupVersionKind
		kind   admission.Kind
		name   string
		own    bool
	}{
		"Managed":       {"every kind with managementPolicies", schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Database"}, mr, "Crossplane", false},
		"Workspace":     {"is one, and more", schema.GroupVersionKind{Group: "tf.upbound.io", Version: "v1beta1", Kind: "Workspace"}, mr, "Terraform workspace", false},
		"WorkspaceM":    {"namespaced", schema.GroupVersionKind{Group: "opentofu.m.upbound.io", Version: "v1beta1", Kind: "Workspace"}, mr, "Terraform workspace", false},
		"WorkspaceElse": {"another Workspace", schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Workspace"}, mr, "Crossplane", false},
		"WorkspaceOld":  {"of a provider without managementPolicies", schema.GroupVersionKind{Group: "tf.crossplane.io", Version: "v1alpha1", Kind: "Workspace"}, admission.Kind{}, "", false},
		"Terraform":     {"of Flux, in any version", schema.GroupVersionKind{Group: "infra.contrib.fluxcd.io", Version: "v1alpha1", Kind: "Terraform"}, admission.Kind{}, "tofu-controller", true},
		"Application":   {"of Argo CD", schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}, admission.Kind{}, "Argo CD", true},
		"AppProject":    {"others of Argo CD", schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "AppProject"}, admission.Kind{}, "", false},
		"ConfigMap":     {"stands for nothing outside", schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, admission.Kind{}, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if s := For(tc.gvk, tc.kind); s != nil {
				got = s.Name()
			}
			if got != tc.name || (Own(tc.gvk) != nil) != tc.own {
				t.Errorf("%s: got %q, own %v", tc.reason, got, Own(tc.gvk))
			}
		})
	}
}

const database = `
apiVersion: cloud.example.org/v1
kind: Database
metadata: {name: orders, namespace: shop}
spec:
  managementPolicies: ["*"]
  forProvider: {size: 50}
status:
  atProvider: {size: 9}
  conditions: [{type: Synced, status: "True"}, {type: Ready, status: "True"}]
`

const workspace = `
apiVersion: tf.m.upbound.io/v1beta1
kind: Workspace
metadata: {name: net, namespace: shop}
spec:
  managementPolicies: ["*"]
  forProvider:
    source: Inline
    module: 'resource "terraform_data" "a" {}'
    env: [{name: AWS_REGION, value: eu-central-1}, {name: TOKEN, secretKeyRef: {name: s, key: k}}]
status:
  atProvider: {checksum: abc, outputs: {size: 9}}
  conditions: [{type: Synced, status: "True"}, {type: Ready, status: "True"}]
`

var byHans = external.ProvenanceOf([]v1alpha1.Hop{{APIVersion: "example.org/v1", Kind: "XNet", Name: "net", Generation: 4, User: "hans"}}, "shop")

// Every system: closing and opening are what Look calls closed and open, closing
// twice changes nothing, restoring gives back what was there, to the letter, and
// the object that was looked at is never modified.
func TestSystems(t *testing.T) {
	key := v1alpha1.AnnotationKeyExternalAuthor
	cases := map[string]struct {
		system System
		object string
		memory string
		verbs  []v1alpha1.Verb
	}{
		"Managed":        {Managed{}, database, v1alpha1.AnnotationKeyManagementPolicies, []v1alpha1.Verb{"Update"}},
		"Workspace":      {Workspace{}, workspace, v1alpha1.AnnotationKeyManagementPolicies, []v1alpha1.Verb{"apply"}},
		"Flux":           {Flux{}, terraformWaits, key, []v1alpha1.Verb{"apply"}},
		"ArgoCD":         {ArgoCD{}, applicationOut, key, []v1alpha1.Verb{"sync"}},
		"ArgoCDExplicit": {ArgoCD{}, strings.Replace(applicationOut, "prune: false", "prune: false, enabled: true", 1), key, []v1alpha1.Verb{"sync"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := parse(t, tc.object)
			before := o.DeepCopy()
			if v := tc.system.Look(o); v.State != external.StateOpen || v.Masked {
				t.Fatalf("as its author wrote it: %+v", v)
			}
			closed := annotated(apply(o, tc.system.Close(o)), map[string]string{tc.memory: string(tc.system.Author(o))})
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
			g := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: tc.verbs, Generation: 8, At: metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)), Digest: "d"}
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

func TestManaged(t *testing.T) {
	o := parse(t, database)
	v := Managed{}.Look(o)
	if !v.Known || len(v.Difference) != 1 || v.Difference[0].Path != "spec.forProvider.size" || !v.Idle {
		t.Errorf("%+v", v)
	}
	edit := Managed{}.Open(o, v1alpha1.Gate{Verbs: []v1alpha1.Verb{"Update"}}, byHans)
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{"managementPolicies": []any{"Observe", "Update"}}}, edit); diff != "" {
		t.Errorf("the smallest edit: -want, +got:\n%s", diff)
	}
	for _, author := range []string{`["Observe"]`, `[]`} {
		free := parse(t, strings.Replace(database, `["*"]`, author, 1))
		if v := (Managed{}).Look(free); v.State != external.StateFree {
			t.Errorf("%s: %+v", author, v)
		}
	}
}

// apply is Create and Update, destroy is Delete, the run is told who asked, and
// what would be applied is unknown.
func TestWorkspace(t *testing.T) {
	o := parse(t, workspace)
	if v := (Workspace{}).Look(o); v.Known || v.Difference != nil {
		t.Errorf("nothing can be compared: %+v", v)
	}
	for verb, want := range map[v1alpha1.Verb][]any{"apply": {"Observe", "Create", "Update"}, "destroy": {"Observe", "Delete"}, "Update": {"Observe", "Update"}} {
		edit := Workspace{}.Open(o, v1alpha1.Gate{Verbs: []v1alpha1.Verb{verb}}, byHans)
		spec := edit["spec"].(map[string]any)
		if diff := cmp.Diff(want, spec["managementPolicies"]); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", verb, diff)
		}
		env := spec["forProvider"].(map[string]any)["env"].([]any)
		if len(env) != 5 || env[0].(map[string]any)["name"] != "AWS_REGION" || env[1].(map[string]any)["secretKeyRef"] == nil ||
			env[3].(map[string]any)["name"] != "KAUSALITY_INITIATOR" || env[3].(map[string]any)["value"] != "hans" {
			t.Errorf("%s: env %v", verb, env)
		}
		again := apply(o, edit)
		if diff := cmp.Diff(again, apply(again, Workspace{}.Open(again, v1alpha1.Gate{Verbs: []v1alpha1.Verb{verb}}, byHans))); diff != "" {
			t.Errorf("%s: opening twice:\n%s", verb, diff)
		}
	}
	edit := Workspace{}.Open(o, v1alpha1.Gate{Verbs: []v1alpha1.Verb{"apply"}}, external.Provenance{})
	if spec := edit["spec"].(map[string]any); spec["forProvider"] != nil {
		t.Errorf("nobody is known, and nothing is told: %v", spec)
	}
}
