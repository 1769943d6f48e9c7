package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

var (
	xdatabases = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "xdatabases"}
	databases  = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1", Resource: "databases"}
	xrds       = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v2", Resource: "compositeresourcedefinitions"}
)

// parsed is an object in YAML.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
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

// clusterOf objects of the kinds of this test. xrd is false where Crossplane is
// not installed.
func clusterOf(xrd bool, objects ...*unstructured.Unstructured) (*fake.FakeDynamicClient, meta.RESTMapper) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{xdatabases.GroupVersion(), databases.GroupVersion(), xrds.GroupVersion()})
	mapper.AddSpecific(xdatabases.GroupVersion().WithKind("XDatabase"), xdatabases, xdatabases, meta.RESTScopeNamespace)
	mapper.AddSpecific(databases.GroupVersion().WithKind("Database"), databases, databases, meta.RESTScopeNamespace)
	if xrd {
		mapper.AddSpecific(xrds.GroupVersion().WithKind(definitionKind.Kind), xrds, xrds, meta.RESTScopeRoot)
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		xdatabases: "XDatabaseList", databases: "DatabaseList", xrds: "CompositeResourceDefinitionList", DriftResource: "DriftList",
	})
	for _, o := range objects {
		gvr := DriftResource
		if o.GroupVersionKind().Group != v1alpha1.Group {
			m, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
			if err != nil {
				panic(err)
			}
			gvr = m.Resource
		}
		if err := client.Tracker().Create(gvr, o, o.GetNamespace()); err != nil {
			panic(err)
		}
	}
	return client, mapper
}

const (
	definition = `{apiVersion: apiextensions.crossplane.io/v2, kind: CompositeResourceDefinition, metadata: {name: xdatabases.example.org},
  spec: {group: example.org, names: {kind: XDatabase}}}`
	unserved = `{apiVersion: apiextensions.crossplane.io/v2, kind: CompositeResourceDefinition, metadata: {name: xqueues.example.org},
  spec: {group: example.org, names: {kind: XQueue}}}`
	heldXR = `{apiVersion: example.org/v1, kind: XDatabase, metadata: {namespace: team, name: orders, uid: xr, generation: 5},
  spec: {crossplane: {resourceRefs: [{apiVersion: cloud.example.org/v1, kind: Database, name: orders-a},
    {apiVersion: cloud.example.org/v1, kind: Database, name: orders-b}],
    compositionRevisionRef: {name: databases-2}}},
  status: {conditions: [{type: Ready, status: "True"}, {type: Kausality, status: "False", reason: Held, lastTransitionTime: "2026-01-05T12:00:00Z",
    message: 'resource "old": Drift: deleting Database team/orders-a is not allowed: x.
      kubectl annotate xdatabase orders kausality.io/approve-00000000000000ff=once'}]}}`
)

// composed is Database orders-NAME of resource NAME, with further annotations.
func composed(t *testing.T, name string, annotations map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := parsed(t, `{apiVersion: cloud.example.org/v1, kind: Database, metadata: {namespace: team, name: orders-`+name+`, uid: `+name+`, generation: 3}}`)
	out := map[string]string{v1alpha1.AnnotationKeyCompositionResourceName: name}
	for k, v := range annotations {
		s, isString := v.(string)
		if !isString {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			s = string(raw)
		}
		out[k] = s
	}
	o.SetAnnotations(out)
	return o
}

func database(name string) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "team", Name: "orders-" + name,
		UID: types.UID(name), Generation: 3, Resource: name}
}

// heldDrift is a change of a child of heldXR that is held.
func heldDrift(id, operation, approve string, child v1alpha1.ObjectReference, paths ...string) v1alpha1.DriftSpec {
	out := v1alpha1.DriftSpec{ID: id, Relation: v1alpha1.RelationControllerChild, Operation: operation, SuggestedApproval: approve, Child: child,
		Cause:  "composition revision databases-2",
		Causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "databases-2"}},
		Parent: v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "XDatabase", Namespace: "team", Name: "orders", UID: "xr", Generation: 5}}
	for _, p := range paths {
		out.Difference = append(out.Difference, v1alpha1.FieldDifference{Path: p})
	}
	return out
}

// heldCase is a composite with composed resources, and what is held of it.
type heldCase struct {
	reason  string
	xr      string
	objects []*unstructured.Unstructured
	want    []v1alpha1.DriftSpec
	// behind are the reasons and paths of what no approval lets pass.
	behind string
}

// TestHeldBy reads what the composition function holds from annotations (KR-09-05).
func TestHeldBy(t *testing.T) {
	change := v1alpha1.Held{Reason: "Drift", Operation: "UPDATE", Paths: []string{"spec.a"}, ID: "00000000000000aa", Approve: "approve a"}
	frozen := v1alpha1.Held{Reason: "Frozen", Operation: "UPDATE", Paths: []string{"spec.b"}}
	creations := []v1alpha1.HeldCreation{
		{Resource: "c", APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "team", Reason: "Drift", ID: "00000000000000cc", Approve: "approve c"},
		{Resource: "d", APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "team", Reason: "Rejected"},
	}
	creation := heldDrift("00000000000000cc", "CREATE", "approve c",
		v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "team", Resource: "c"})
	for name, tc := range map[string]heldCase{
		"Annotated": {
			reason:  "the message does not matter",
			xr:      heldXR,
			objects: []*unstructured.Unstructured{composed(t, "a", map[string]any{v1alpha1.AnnotationKeyHeld: change}), composed(t, "b", nil)},
			want:    []v1alpha1.DriftSpec{heldDrift("00000000000000aa", "UPDATE", "approve a", database("a"), "spec.a")},
		},
		"Creations": {
			reason:  "on any of the composed resources; what cannot be approved is not pending",
			xr:      heldXR,
			objects: []*unstructured.Unstructured{composed(t, "a", nil), composed(t, "b", map[string]any{v1alpha1.AnnotationKeyHeldCreations: creations})},
			want:    []v1alpha1.DriftSpec{creation},
			behind:  "Rejected CREATE  []",
		},
		"Both": {
			reason: "sorted by the name in the Composition",
			xr:     heldXR,
			objects: []*unstructured.Unstructured{
				composed(t, "a", map[string]any{v1alpha1.AnnotationKeyHeldCreations: creations}),
				composed(t, "b", map[string]any{v1alpha1.AnnotationKeyHeld: change}),
			},
			want:   []v1alpha1.DriftSpec{heldDrift("00000000000000aa", "UPDATE", "approve a", database("b"), "spec.a"), creation},
			behind: "Rejected CREATE  []",
		},
		"Frozen": {
			reason:  "an approval would have no effect, whatever the message contains",
			xr:      heldXR,
			objects: []*unstructured.Unstructured{composed(t, "a", map[string]any{v1alpha1.AnnotationKeyHeld: frozen})},
			behind:  "Frozen UPDATE orders-a [{spec.b   }]",
		},
		"NotAnnotated": {
			reason:  "nothing is read from a message",
			xr:      heldXR,
			objects: []*unstructured.Unstructured{composed(t, "a", nil)},
		},
		"NothingComposed": {
			reason: "there is no object to annotate",
			xr:     heldXR,
		},
		"Malformed": {
			reason:  "an annotation that does not parse counts as none",
			xr:      heldXR,
			objects: []*unstructured.Unstructured{composed(t, "a", map[string]any{v1alpha1.AnnotationKeyHeld: "{"})},
		},
		"NotHeld": {
			reason: "annotations that are left from before do not matter",
			xr: `{apiVersion: example.org/v1, kind: XDatabase, metadata: {namespace: team, name: orders},
  status: {conditions: [{type: Kausality, status: "True"}]}}`,
			objects: []*unstructured.Unstructured{composed(t, "a", map[string]any{v1alpha1.AnnotationKeyHeld: change})},
		},
		"NoStatus": {reason: "never reconciled", xr: `{apiVersion: example.org/v1, kind: XDatabase, metadata: {namespace: team, name: orders}}`},
	} {
		t.Run(name, tc.check)
	}
}

// check what is held of the composite, by itself, by its id and by its namespace.
func (tc heldCase) check(t *testing.T) {
	xr := parsed(t, tc.xr)
	client, mapper := clusterOf(true, append(slices.Clone(tc.objects), xr, parsed(t, definition), parsed(t, unserved))...)
	waiting, err := HeldBy(t.Context(), client, mapper, xr)
	if err != nil {
		t.Fatal(err)
	}
	got := waiting.Drifts
	specs := make([]v1alpha1.DriftSpec, 0, len(got))
	for i := range got {
		specs = append(specs, got[i].Spec)
		if d := &got[i]; !IsHeld(d) || !channel.Open(d) || d.Name != d.Spec.ID || d.Namespace != "team" || channel.Since(d).UTC().Hour() != 12 {
			t.Errorf("%s: %+v", tc.reason, d)
		}
		if still, err := StillHeld(t.Context(), client, mapper, xr, got[i].Name); err != nil || !still {
			t.Errorf("%s: %s is not held: %v", tc.reason, got[i].Name, err)
		}
	}
	if diff := cmp.Diff(append([]v1alpha1.DriftSpec{}, tc.want...), specs); diff != "" {
		t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
	}
	behind := ""
	for _, b := range waiting.Behind { // KR-12-30
		behind += fmt.Sprint(b.Reason, " ", b.Operation, " ", b.Child.Name, " ", b.Difference)
	}
	if behind != tc.behind {
		t.Errorf("%s: behind are %q", tc.reason, behind)
	}
	if still, err := StillHeld(t.Context(), client, mapper, xr, "0000000000000000"); err != nil || still {
		t.Errorf("%s: another id is held: %t, %v", tc.reason, still, err)
	}
	all, err := Held(t.Context(), client, mapper, "team")
	if diff := cmp.Diff(waiting, all); err != nil || diff != "" {
		t.Errorf("%s: of the namespace: %v, %s", tc.reason, err, diff)
	}
	if elsewhere, err := Held(t.Context(), client, mapper, "other"); err != nil || len(elsewhere.Drifts) > 0 || len(elsewhere.Behind) > 0 {
		t.Errorf("%s: in another namespace: %v, %v", tc.reason, elsewhere, err)
	}
}

// TestHeldWithoutCrossplane: where there are no XRDs there is no function.
func TestHeldWithoutCrossplane(t *testing.T) {
	client, mapper := clusterOf(false, parsed(t, heldXR))
	if got, err := Held(t.Context(), client, mapper, ""); err != nil || got.Drifts != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
