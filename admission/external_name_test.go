package admission

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func externalName(name string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyExternalName, name) }

// External name and provider config are part of the ids of deletions and drift; the
// defaults are part of none (KR-13-17).
func TestExternalInIDs(t *testing.T) {
	xr := parent.Sum(fx.Composite(), parent.RoleComposite)
	id := func(mods ...fx.Mod) string {
		return identity.DeletionDigest(xr, parent.Sum(fx.With(fx.Instance(), mods...), parent.RoleManaged)).ID()
	}
	config := func(kind, name string) fx.Mod {
		ref := map[string]any{"name": name}
		if kind != "" {
			ref["kind"] = kind
		}
		return fx.Set(ref, "spec", "providerConfigRef")
	}
	same := map[string]string{
		"Default": id(config("", "default")), "DefaultKind": id(config("ClusterProviderConfig", "default")),
	}
	for name, got := range same {
		if got != id() {
			t.Errorf("%s: another id", name)
		}
	}
	seen := map[string]string{id(): "None"}
	for name, got := range map[string]string{
		"Name": id(externalName("a")), "OtherName": id(externalName("b")), "Config": id(config("", "prod")), "Namespaced": id(config("ProviderConfig", "default")),
		"Both": id(externalName("a"), config("", "prod")), "Legacy": id(fx.Set(map[string]any{"name": "old"}, "spec", "providerRef")),
	} {
		if was, ok := seen[got]; ok {
			t.Errorf("%s and %s have one id", was, name)
		}
		seen[got] = name
	}
}

// A change of the external resource closes the gate, unless its provider names what
// it creates (KR-13-18).
func TestRetarget(t *testing.T) {
	gate := func(verb string) fx.Mod {
		return func(o *unstructured.Unstructured) {
			fx.Policies(fx.Observe, verb)(o)
			fx.GateValue(`{"state":"open","verbs":["` + verb + `"],"generation":3,"at":"2026-01-02T11:00:00Z","external":{"name":"scratch"}}`)(o)
		}
	}
	creating := func(o *unstructured.Unstructured) {
		fx.Policies(fx.Observe, fx.Create)(o)
		fx.GateValue(`{"state":"open","verbs":["Create"],"generation":3,"at":"2026-01-02T11:00:00Z"}`)(o)
	}
	machine := subject.User{Name: "system:serviceaccount:crossplane-system:provider-other"}
	cases := map[string]struct {
		reason string
		before []fx.Mod
		to     fx.Mod
		by     subject.User
		may    bool
		open   bool
	}{
		"Delete": {reason: "a deletion of another one",
			before: []fx.Mod{externalName("scratch"), gate(fx.Delete)}, to: externalName("prod"), by: fx.Alice},
		"Update": {reason: "an update of another one",
			before: []fx.Mod{externalName("scratch"), gate(fx.Update)}, to: externalName("prod"), by: fx.Alice},
		"Closed": {reason: "a gate that is closed stays so, and the generation, too",
			before: []fx.Mod{externalName("scratch")}, to: externalName("prod"), by: fx.Alice},
		"Removed": {reason: "of one that is to be created",
			before: []fx.Mod{externalName("scratch"), gate(fx.Update)}, to: fx.Unannotate(v1alpha1.AnnotationKeyExternalName), by: fx.Alice},
		"Config": {reason: "in another account",
			before: []fx.Mod{externalName("scratch"), gate(fx.Delete)},
			to:     fx.Set(map[string]any{"name": "prod"}, "spec", "providerConfigRef"), by: fx.Alice},
		"Creation": {reason: "a user names what is created", before: []fx.Mod{creating}, to: externalName("prod"), by: fx.Alice},
		"CreationNamed": {reason: "a provider that may write the status does",
			before: []fx.Mod{creating}, to: externalName("vpc-0123"), by: machine, may: true, open: true},
		"CreationMayNot": {reason: "a machine that may not is none", before: []fx.Mod{creating}, to: externalName("vpc-0123"), by: machine},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := stubs{Options: enforced()}
			o.mayUpdateStatus = func(context.Context, subject.User, parent.Ref) (bool, error) { return tc.may, nil }
			before := fx.With(fx.Instance(), append([]fx.Mod{fx.Ready}, tc.before...)...)
			req := by(byCrossplane(Update, before, tc.to), tc.by, "writer")
			d := decide(t, setting{}.world(), o, req)
			if !d.Allowed {
				t.Fatalf("%s: refused: %s", tc.reason, d.Message)
			}
			result := apply(req.Object, d)
			g := mask.ParseGate(result.GetAnnotations())
			if open := g.State == v1alpha1.GateOpen; open != tc.open {
				t.Errorf("%s: gate %+v", tc.reason, g)
			}
			if got := parent.PoliciesOf(result); tc.open != (len(got) > 1) {
				t.Errorf("%s: policies %v", tc.reason, got)
			}
			if tc.open && (g.External == nil || g.External.Name != "vpc-0123") {
				t.Errorf("%s: it is not on record: %+v", tc.reason, g.External)
			}
			moves := !equality.Semantic.DeepEqual(before.Object["spec"], result.Object["spec"])
			want := before.GetGeneration()
			if moves {
				want++
			}
			if own := trace.Of(result.GetAnnotations()).Own(); d.Class != outcome.ClassSelf && (own == nil || own.Generation != want) {
				t.Errorf("%s: want a hop of generation %d, got %+v", tc.reason, want, own)
			}
			if g.State == v1alpha1.GateClosed && g.Generation != want {
				t.Errorf("%s: want the gate closed at generation %d, got %+v", tc.reason, want, g)
			}
			addsNothing(t, tc.reason, d, result)
		})
	}
}

// An object that is being deleted is not pointed at another external resource, unless
// the deletion of that one is approved (KR-13-18).
func TestRetargetDeleted(t *testing.T) {
	before := fx.With(fx.Instance(), externalName("scratch"), open, fx.Deleting)
	refusal := decide(t, setting{}.world(), enforced(), by(byCrossplane(Update, before, externalName("prod")), fx.Alice, "kubectl"))
	if refusal.Allowed || refusal.Reason != outcome.ReasonExternalDeletion || refusal.Suggestion == "" && refusal.Digest.ID() == "" {
		t.Fatalf("got %s: %s", refusal.Reason, refusal.Message)
	}
	approved := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+refusal.Digest.ID(), "once")}}.world()
	if d := decide(t, approved, enforced(), by(byCrossplane(Update, before, externalName("prod")), fx.Alice, "kubectl")); !d.Allowed || d.Claim == nil {
		t.Errorf("approved: %s, claim %v", d.Message, d.Claim)
	}
	if d := decide(t, approved, enforced(), by(byCrossplane(Update, before, externalName("other")), fx.Alice, "kubectl")); d.Allowed {
		t.Error("the approval of one was used on another")
	}
	if d := decide(t, setting{}.world(), Options{}, by(byCrossplane(Update, before, externalName("prod")), fx.Alice, "kubectl")); !d.Allowed {
		t.Errorf("mode log: %s", d.Message)
	}
}

// TestOwnNameRecorded covers KR-04-18: the write that gives a managed resource its own name as the external one has it on
// record in the gate that creates it; no other gate changes by that.
func TestOwnNameRecorded(t *testing.T) {
	for name, recorded := range map[string]bool{"Create": true, "Update": false, "Delete": false} {
		gate := `{"state":"open","verbs":["` + name + `"],"generation":3,"at":"2026-01-02T11:00:00Z"}`
		before := fx.With(fx.Instance(), fx.Policies(fx.Observe, name), fx.GateValue(gate))
		req := by(byCrossplane(Update, before, externalName(before.GetName())), subject.User{Name: "system:serviceaccount:crossplane-system:cloud"}, "provider")
		d := decide(t, setting{}.world(), enforced(), req)
		if !d.Allowed {
			t.Fatalf("%s: refused: %s", name, d.Message)
		}
		was, is := mask.ParseGate(before.GetAnnotations()), mask.ParseGate(apply(req.Object, d).GetAnnotations())
		if recorded {
			was.External = &v1alpha1.GateExternal{Name: before.GetName()}
		}
		if !equality.Semantic.DeepEqual(was, is) {
			t.Errorf("%s: gate %+v, want %+v", name, is, was)
		}
	}
}
