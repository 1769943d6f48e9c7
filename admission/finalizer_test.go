package admission

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// The finalizer by which the provider deletes the external resource is not removed by
// others, unless that is to be left behind (KR-13-53).
func TestKeptFinalizer(t *testing.T) {
	has := func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"other", parent.ProviderFinalizer}) }
	removed := func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"other"}) }
	orphan := fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)
	provider := subject.User{Name: "system:serviceaccount:crossplane-system:provider"}
	for name, tc := range map[string]struct {
		who     subject.User
		mr, mod []fx.Mod
		log     bool
		want    bool
	}{
		"Editor":          {mod: []fx.Mod{removed}},
		"Terminating":     {mr: []fx.Mod{fx.Deleting}, mod: []fx.Mod{removed}},
		"OpenForDelete":   {mr: []fx.Mod{fx.Deleting, fx.Policies("Observe", "Delete")}, mod: []fx.Mod{removed}},
		"SomeMachine":     {who: subject.User{Name: "system:serviceaccount:default:ci"}, mr: []fx.Mod{fx.Deleting}, mod: []fx.Mod{removed}},
		"WithAnotherMod":  {mod: []fx.Mod{removed, fx.Resize("l")}},
		"Provider":        {who: provider, mr: []fx.Mod{fx.Deleting}, mod: []fx.Mod{removed}, want: true},
		"Orphan":          {mr: []fx.Mod{orphan, fx.Deleting}, mod: []fx.Mod{removed}, want: true},
		"OrphanNow":       {mr: []fx.Mod{fx.Deleting}, mod: []fx.Mod{removed, orphan}, want: true},
		"NoDelete":        {mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Create"]`)}, mod: []fx.Mod{removed}, want: true},
		"Kept":            {mr: []fx.Mod{fx.Deleting}, mod: []fx.Mod{fx.Annotate("a", "b")}, want: true},
		"AnotherIsGone":   {mod: []fx.Mod{func(o *unstructured.Unstructured) { o.SetFinalizers([]string{parent.ProviderFinalizer}) }}, want: true},
		"Log":             {mr: []fx.Mod{fx.Deleting}, mod: []fx.Mod{removed}, log: true, want: true},
		"NoFinalizerThen": {mr: []fx.Mod{removed}, mod: []fx.Mod{fx.Annotate("a", "b")}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.who.Name == "" {
				tc.who = fx.Alice
			}
			o := statusRights(nil, fx.Crossplane, provider)
			if tc.log {
				o.DefaultMode = v1alpha1.ModeLog
			}
			mr := fx.With(fx.Instance(), append([]fx.Mod{has}, tc.mr...)...)
			d := decide(t, setting{xr: []fx.Mod{fx.Unsettled}}.world(), o, by(byCrossplane(Update, mr, tc.mod...), tc.who, ""))
			if d.Allowed != tc.want {
				t.Errorf("allowed %t: %s", d.Allowed, d.Message)
			}
			if !tc.want && (d.Reason != outcome.ReasonExternalDeletion || d.Code != 403 || !strings.Contains(d.Message, "kausality.io/deletion=orphan, and try again")) {
				t.Errorf("%d %s: %s", d.Code, d.Reason, d.Message)
			}
			if warned := slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.Contains(w, parent.ProviderFinalizer) }); warned != tc.log {
				t.Errorf("warnings %v", d.Warnings)
			}
		})
	}
}
