package admission

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// machine is a provider, if it may write the status.
var machine = subject.User{Name: "system:serviceaccount:crossplane-system:provider-kubernetes"}

// readiness sets a field whose default is SuccessfulCreate.
func readiness(policy string) fx.Mod {
	return fx.Set(map[string]any{"policy": policy}, "spec", "readiness")
}

// together makes one Mod of several.
func together(mods ...fx.Mod) fx.Mod {
	return func(o *unstructured.Unstructured) {
		for _, m := range mods {
			m(o)
		}
	}
}

// wrote records fields that the manager "provider" wrote before.
func wrote(operation, subresource string, fields map[string]any) fx.Mod {
	return func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"manager": "provider", "operation": operation, "subresource": subresource,
			"time": "2026-01-02T11:30:00Z", "fieldsV1": fields}}, "metadata", "managedFields")
	}
}

// firstWrite is a write to an object without a status.
type firstWrite struct {
	reason string
	before fx.Mod
	to     fx.Mod
	by     subject.User
	// manager is "provider" where empty.
	manager string
	may     bool
	self    bool
}

// testFirstWrites checks which writes pass as the provider's own, and that no other loses its user.
func testFirstWrites(t *testing.T, cases map[string]firstWrite) {
	t.Helper()
	defaults := change.SchemaDefaults(fx.Object(`
kind: Schema
properties:
  spec:
    properties:
      watch: {type: boolean, default: false}
      readiness: {properties: {policy: {type: string, default: SuccessfulCreate}}}
`).Object)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{}.world()
			w.defaults = defaults
			o := stubs{mayUpdateStatus: func(context.Context, subject.User, parent.Ref) (bool, error) { return tc.may, nil }}
			before := fx.Unmasked()
			if tc.before != nil {
				tc.before(before)
			}
			if tc.manager == "" {
				tc.manager = "provider"
			}
			req := by(byCrossplane(Update, before, tc.to), tc.by, tc.manager)
			d := decide(t, w, o, req)
			if (d.Class == outcome.ClassSelf) != tc.self || !d.Allowed {
				t.Fatalf("%s: got %+v: %s", tc.reason, outcomeOf(d), d.Message)
			}
			own := trace.Of(apply(req.Object, d).GetAnnotations()).Own()
			if !tc.self && own.User != tc.by.Name || tc.self && own != nil && own.User == tc.by.Name {
				t.Errorf("%s: hop %+v", tc.reason, own)
			}
		})
	}
}

// TestFirstWrites covers KR-07-08: what a provider writes before it writes a status does not replace the user.
func TestFirstWrites(t *testing.T) {
	testFirstWrites(t, map[string]firstWrite{
		"Typed": {reason: "a typed client adds its zero values, the API server the defaults of them", to: together(externalName("inst"),
			fx.Set(false, "spec", "watch"), readiness("SuccessfulCreate")), by: machine, may: true, self: true},
		"WithoutName": {reason: "where the author gave the name", to: readiness("SuccessfulCreate"), by: machine, may: true, self: true},
		"OwnValue":    {reason: "a value of its own is an intent", to: together(externalName("inst"), readiness("AllTrue")), by: machine, may: true},
		"Changed":     {reason: "so is a changed one", to: together(externalName("inst"), fx.Resize("")), by: machine, may: true},
		"Removed": {reason: "and one that is removed", to: func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "spec", "forProvider", "size")
		}, by: machine, may: true},
		"OtherName": {reason: "another external resource", before: externalName("prod"),
			to: together(externalName("inst"), readiness("SuccessfulCreate")), by: machine, may: true},
		"MayNot": {reason: "a machine that may not write the status is no provider", to: readiness("SuccessfulCreate"), by: machine},
		"User":   {reason: "nor is a user who may", to: readiness("SuccessfulCreate"), by: fx.Alice, may: true},
		"Author": {reason: "nor is who made the object, a GitOps controller with all rights",
			before: fx.Annotate(v1alpha1.AnnotationKeyTrace, `[{"apiVersion":"v1","kind":"Instance","generation":3,"user":"`+machine.Name+`"}]`),
			to:     readiness("SuccessfulCreate"), by: machine, may: true},
		"Updater": {reason: "nor is who changed it before", before: fx.Annotate(v1alpha1.AnnotationKeyUpdaters, machine.Hash()),
			to: readiness("SuccessfulCreate"), by: machine, may: true},
		"HasStatus": {reason: "once there is a status, its writer is the provider, and no other",
			before: wrote("Update", "status", map[string]any{"f:status": map[string]any{"f:x": map[string]any{}}}),
			to:     readiness("SuccessfulCreate"), by: machine, manager: "other", may: true},
	})
}

// TestFirstWritesOfTags covers KR-07-08: the tags that identify an object are its provider's.
func TestFirstWritesOfTags(t *testing.T) {
	own := map[string]any{"crossplane-kind": "instance.aws.example.org", "crossplane-name": "inst", "crossplane-providerconfig": ""}
	testFirstWrites(t, map[string]firstWrite{
		"Tags": {reason: "tags of the object itself, before its name", to: together(fx.Set(own, "spec", "forProvider", "tags"), readiness("SuccessfulCreate")),
			by: machine, may: true, self: true},
		"MoreTags": {reason: "beside those of its author", before: fx.Set(map[string]any{"team": "a"}, "spec", "forProvider", "tags"),
			to: fx.Set(map[string]any{"team": "a", "crossplane-name": "inst"}, "spec", "forProvider", "tags"), by: machine, may: true, self: true},
		"ListOfTags": {reason: "as a list", to: fx.Set([]any{map[string]any{"key": "crossplane-name", "value": "inst"}}, "spec", "forProvider", "tags"),
			by: machine, may: true, self: true},
		"AddedToTags": {reason: "to the end of a list", before: fx.Set([]any{map[string]any{"key": "team", "value": "a"}}, "spec", "forProvider", "tags"),
			to: fx.Set([]any{map[string]any{"key": "team", "value": "a"}, map[string]any{"key": "crossplane-name", "value": "inst"}},
				"spec", "forProvider", "tags"), by: machine, may: true, self: true},
		"OtherTags": {reason: "a tag of its own is an intent", to: fx.Set(map[string]any{"team": "b"}, "spec", "forProvider", "tags"), by: machine, may: true},
		"OthersTags": {reason: "and so is the tag of another object", to: fx.Set(map[string]any{"crossplane-name": "other"}, "spec", "forProvider", "tags"),
			by: machine, may: true},
		"TagsOfAuthor": {reason: "nor do tags make a provider of who may not write the status", to: fx.Set(own, "spec", "forProvider", "tags"), by: machine},
	})
}

// TestFirstWritesOfReferences covers KR-07-08: references are resolved by the provider that named the object, or by the runtime's resolver.
func TestFirstWritesOfReferences(t *testing.T) {
	named := map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{"f:crossplane.io/external-name": map[string]any{}}}}
	subnet := fx.Set("subnet-1", "spec", "forProvider", "subnetId")
	testFirstWrites(t, map[string]firstWrite{
		"NamedBefore": {reason: "who named it, and is no author, fills in tags and references next",
			before: wrote("Update", "", named), to: subnet, by: machine, may: true, self: true},
		"NamedByOther": {reason: "another manager did", before: wrote("Update", "", named), to: subnet, by: machine, manager: "other", may: true},
		"NamedByApply": {reason: "users apply manifests with a name", before: wrote("Apply", "", named), to: subnet, by: machine, may: true},
		"Resolver": {reason: "the runtime's resolver of references", to: subnet, by: machine,
			manager: "managed.crossplane.io/api-simple-reference-resolver", may: true, self: true},
		"ResolverMayNot": {reason: "whose manager any client can choose", to: subnet, by: machine,
			manager: "managed.crossplane.io/api-simple-reference-resolver"},
	})
}
