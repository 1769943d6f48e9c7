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

// TestFirstWrites covers KR-07-08: what a provider writes before it writes a status does not replace the user.
func TestFirstWrites(t *testing.T) {
	defaults := change.SchemaDefaults(fx.Object(`
kind: Schema
properties:
  spec:
    properties:
      watch: {type: boolean, default: false}
      readiness: {properties: {policy: {type: string, default: SuccessfulCreate}}}
`).Object)
	machine := subject.User{Name: "system:serviceaccount:crossplane-system:provider-kubernetes"}
	readiness := func(policy string) fx.Mod {
		return fx.Set(map[string]any{"policy": policy}, "spec", "readiness")
	}
	both := func(mods ...fx.Mod) fx.Mod {
		return func(o *unstructured.Unstructured) {
			for _, m := range mods {
				m(o)
			}
		}
	}
	entry := func(operation, subresource string, fields map[string]any) fx.Mod {
		return func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"manager": "provider", "operation": operation, "subresource": subresource,
				"time": "2026-01-02T11:30:00Z", "fieldsV1": fields}}, "metadata", "managedFields")
		}
	}
	named := map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{"f:crossplane.io/external-name": map[string]any{}}}}
	own := map[string]any{"crossplane-kind": "instance.aws.example.org", "crossplane-name": "inst", "crossplane-providerconfig": ""}
	subnet := fx.Set("subnet-1", "spec", "forProvider", "subnetId")
	cases := map[string]struct {
		reason string
		before fx.Mod
		to     fx.Mod
		by     subject.User
		// manager is "provider" where empty.
		manager string
		may     bool
		self    bool
	}{
		"Typed": {reason: "a typed client adds its zero values, the API server the defaults of them", to: both(externalName("inst"),
			fx.Set(false, "spec", "watch"), readiness("SuccessfulCreate")), by: machine, may: true, self: true},
		"Tags": {reason: "tags of the object itself, before its name", to: both(fx.Set(own, "spec", "forProvider", "tags"), readiness("SuccessfulCreate")),
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
		"WithoutName":  {reason: "where the author gave the name", to: readiness("SuccessfulCreate"), by: machine, may: true, self: true},
		"OwnValue":     {reason: "a value of its own is an intent", to: both(externalName("inst"), readiness("AllTrue")), by: machine, may: true},
		"Changed":      {reason: "so is a changed one", to: both(externalName("inst"), fx.Resize("")), by: machine, may: true},
		"Removed": {reason: "and one that is removed", to: func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "spec", "forProvider", "size")
		}, by: machine, may: true},
		"OtherName": {reason: "another external resource", before: externalName("prod"),
			to: both(externalName("inst"), readiness("SuccessfulCreate")), by: machine, may: true},
		"MayNot": {reason: "a machine that may not write the status is no provider", to: readiness("SuccessfulCreate"), by: machine},
		"User":   {reason: "nor is a user who may", to: readiness("SuccessfulCreate"), by: fx.Alice, may: true},
		"Author": {reason: "nor is who made the object, a GitOps controller with all rights",
			before: fx.Annotate(v1alpha1.AnnotationKeyTrace, `[{"apiVersion":"v1","kind":"Instance","generation":3,"user":"`+machine.Name+`"}]`),
			to:     readiness("SuccessfulCreate"), by: machine, may: true},
		"Updater": {reason: "nor is who changed it before", before: fx.Annotate(v1alpha1.AnnotationKeyUpdaters, machine.Hash()),
			to: readiness("SuccessfulCreate"), by: machine, may: true},
		"HasStatus": {reason: "once there is a status, its writer is the provider, and no other",
			before: entry("Update", "status", map[string]any{"f:status": map[string]any{"f:x": map[string]any{}}}),
			to:     readiness("SuccessfulCreate"), by: machine, manager: "other", may: true},
		"NamedBefore": {reason: "who named it, and is no author, fills in tags and references next",
			before: entry("Update", "", named), to: subnet, by: machine, may: true, self: true},
		"NamedByOther": {reason: "another manager did", before: entry("Update", "", named), to: subnet, by: machine, manager: "other", may: true},
		"NamedByApply": {reason: "users apply manifests with a name", before: entry("Apply", "", named), to: subnet, by: machine, may: true},
		"Resolver": {reason: "the runtime's resolver of references", to: subnet, by: machine,
			manager: "managed.crossplane.io/api-simple-reference-resolver", may: true, self: true},
		"ResolverMayNot": {reason: "whose manager any client can choose", to: subnet, by: machine,
			manager: "managed.crossplane.io/api-simple-reference-resolver"},
	}
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
