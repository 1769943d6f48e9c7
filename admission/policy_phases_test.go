package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// xrPolicy about XDatabases, with more of a spec.
func xrPolicy(name, spec string) string {
	return `{kind: AllowancePolicy, metadata: {name: ` + name + `}, spec: {target: {apiGroup: example.com, apiVersion: v1alpha1, kind: XDatabase}, ` + spec + `}}`
}

// initializing is an XR that never settled and has no status.
func initializingXR(o *unstructured.Unstructured) {
	fx.Unannotate(v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration)(o)
	delete(o.Object, "status")
}

func beingDeleted(o *unstructured.Unstructured) {
	fx.Set("2026-01-02T11:00:00Z", "metadata", "deletionTimestamp")(o)
}

func newIntent(o *unstructured.Unstructured) {
	fx.Set(o.GetGeneration()+1, "metadata", "generation")(o)
	fx.Annotate(v1alpha1.AnnotationKeyTrace, `[{"apiVersion":"example.com/v1alpha1","kind":"XDatabase","name":"my-database-xyz",`+
		`"generation":12,"user":"hans@example.com","timestamp":"2026-01-02T11:30:00Z"}]`)(o)
}

// sectionCase is a write below an XR, by policies about the XR.
type sectionCase struct {
	reason   string
	policies []string
	xr       []fx.Mod
	do       func(*play) Decision
	want     outcome.Reason
	names    string
	gate     v1alpha1.GateState
}

// testSections checks what policies decide, what a message names, and the gate.
func testSections(t *testing.T, cases []sectionCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.reason, func(t *testing.T) {
			xr := fx.With(xdatabase(), tc.xr...)
			p := newPlay(t, policySet(t, tc.policies...), claim(), xr, rdsInstance(xr))
			d := tc.do(p)
			p.want(d, tc.want)
			if !strings.Contains(d.Message, tc.names) {
				t.Errorf("message %q, want %q", d.Message, tc.names)
			}
			state := v1alpha1.GateState("")
			if d.Gate != nil {
				state = d.Gate.State
			}
			if state != tc.gate {
				t.Errorf("gate %q, want %q", state, tc.gate)
			}
		})
	}
}

// resizeChild is an update of the RDSInstance by Crossplane.
func resizeChild(p *play) Decision {
	return p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass("db.t3.large"))
}

// resizeChildByAlice is the same update by a user.
func resizeChildByAlice(p *play) Decision {
	return p.update(fx.Alice, "kubectl", "my-database-xyz-rds", setClass("db.t3.large"))
}

// createChild creates another RDSInstance.
func createChild(p *play) Decision {
	o := fx.With(rdsInstance(p.objects["my-database-xyz"]), fx.Policies("*"), func(o *unstructured.Unstructured) {
		o.SetAnnotations(nil)
		o.SetUID("")
		o.SetGeneration(0)
		o.SetName("another")
	})
	return p.create(fx.Crossplane, managerMR, o)
}

// removeChild deletes the RDSInstance, whose external resource is to be left behind.
func removeChild(p *play) Decision { return removeChildBy(p, fx.Crossplane) }

// collectChild is the same deletion by garbage collection.
func collectChild(p *play) Decision { return removeChildBy(p, fx.Collector) }

func removeChildBy(p *play, user subject.User) Decision {
	p.store(fx.With(p.objects["my-database-xyz-rds"], fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")))
	return p.remove(user, "my-database-xyz-rds")
}

// TestSectionInitializing covers KR-05-07 and KR-06-09.
func TestSectionInitializing(t *testing.T) {
	testSections(t, []sectionCase{
		{reason: "initializing omitted: everything", policies: []string{xrPolicy("p", "rules: []")}, xr: []fx.Mod{initializingXR},
			do: createChild, want: outcome.ReasonInitializing, gate: v1alpha1.GateOpen},
		{reason: "initializing with External Create opens the gate",
			policies: []string{xrPolicy("p", `initializing: {allow: [{relation: ControllerChild, verbs: [Create]}, {relation: External, verbs: [Create]}]}`)},
			xr:       []fx.Mod{initializingXR}, do: createChild, want: outcome.ReasonInitializing, gate: v1alpha1.GateOpen},
		{reason: "initializing without External leaves it closed",
			policies: []string{xrPolicy("p", `initializing: {allow: [{relation: ControllerChild, verbs: [Create]}]}`)}, xr: []fx.Mod{initializingXR},
			do: createChild, want: outcome.ReasonInitializing},
		{reason: "mutations of initializing cover updates",
			policies: []string{xrPolicy("p", `initializing: {allow: [{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*", `+
				`verbs: [Insert, Mutate]}]}]}`)},
			xr: []fx.Mod{initializingXR}, do: resizeChild, want: outcome.ReasonInitializing},
		{reason: "without mutations Create is no Update",
			policies: []string{xrPolicy("p", `initializing: {allow: [{relation: ControllerChild, verbs: [Create]}]}`)}, xr: []fx.Mod{initializingXR},
			do: resizeChild, want: outcome.ReasonAllowanceMissing,
			names: "initializes, and neither section initializing of AllowancePolicy p nor an allowance on it allows spec.forProvider.instanceClass"},
		{reason: "initializing does not delete",
			policies: []string{xrPolicy("p", `initializing: {allow: [{relation: ControllerChild, verbs: [Create, Update]}]}`)},
			xr:       []fx.Mod{initializingXR}, do: removeChild, want: outcome.ReasonAllowanceMissing, names: "allows delete"},
		{reason: "what either policy allows is allowed",
			policies: []string{xrPolicy("p", `initializing: {allow: []}`), xrPolicy("q", `initializing: {allow: [{relation: ControllerChild, verbs: ["*"]}]}`)},
			xr:       []fx.Mod{initializingXR}, do: removeChild, want: outcome.ReasonInitializing},
		{reason: "another target",
			policies: []string{xrPolicy("p", `initializing: {allow: [{target: {apiGroup: other.example.org, kind: RDSInstance}, relation: `+
				`ControllerChild, verbs: ["*"]}]}`)},
			xr: []fx.Mod{initializingXR}, do: createChild, want: outcome.ReasonAllowanceMissing},
		{reason: "by an expression it no longer initializes",
			policies: []string{xrPolicy("p", `initializing: {when: "object.metadata.name == 'other'", allow: [{relation: ControllerChild, verbs: ["*"]}]}`)},
			xr:       []fx.Mod{initializingXR}, do: createChild, want: outcome.ReasonAllowanceMissing},
		{reason: "by an expression it still does",
			policies: []string{xrPolicy("p", `initializing: {when: "!has(object.status.observedGeneration)", allow: [{relation: ControllerChild, verbs: ["*"]}]}`)},
			xr:       []fx.Mod{newIntent}, do: createChild, want: outcome.ReasonInitializing},
		{reason: "an expression that fails counts as initialized",
			policies: []string{xrPolicy("p", `initializing: {when: "object.spec.nothing == 1", allow: [{relation: ControllerChild, verbs: ["*"]}]}`)},
			xr:       []fx.Mod{initializingXR}, do: createChild, want: outcome.ReasonAllowanceMissing},
	})
}

// TestSectionDeleting covers KR-05-05 and KR-06-10.
func TestSectionDeleting(t *testing.T) {
	testSections(t, []sectionCase{
		{reason: "deleting omitted: children may be deleted", policies: []string{xrPolicy("p", "rules: []")}, xr: []fx.Mod{beingDeleted},
			do: removeChild, want: outcome.ReasonParentDeleted},
		{reason: "deleting allows it",
			policies: []string{xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}]}`)}, xr: []fx.Mod{beingDeleted}, do: removeChild,
			want: outcome.ReasonParentDeleted},
		{reason: "deleting nothing keeps the children", policies: []string{xrPolicy("p", `deleting: {allow: []}`)},
			xr: []fx.Mod{beingDeleted}, do: removeChild, want: outcome.ReasonAllowanceMissing,
			names: "is being deleted, and section deleting of AllowancePolicy p does not allow delete"},
		{reason: "from garbage collection, too", policies: []string{xrPolicy("p", `deleting: {allow: []}`)}, xr: []fx.Mod{beingDeleted},
			do: collectChild, want: outcome.ReasonAllowanceMissing},
		{reason: "but a person may", policies: []string{xrPolicy("p", `deleting: {allow: []}`)}, xr: []fx.Mod{beingDeleted}, do: resizeChildByAlice,
			want: outcome.ReasonParentDeleted},
		{reason: "deleting goes before a freeze", policies: []string{xrPolicy("p", `deleting: {allow: []}`)},
			xr: []fx.Mod{beingDeleted, fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}, do: removeChild, want: outcome.ReasonAllowanceMissing},
	})
}

// TestNarrowing covers KR-04-14 and KR-06-13.
func TestNarrowing(t *testing.T) {
	testSections(t, []sectionCase{
		{reason: "a freeze goes before allowances",
			policies: []string{xrPolicy("p", `initializing: {allow: [{relation: ControllerChild, verbs: ["*"]}]}`)},
			xr:       []fx.Mod{initializingXR, fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}, do: resizeChild, want: outcome.ReasonFrozen},
		{reason: "expected needs an allowance", policies: []string{xrPolicy("p", "rules: []")}, xr: []fx.Mod{newIntent}, do: resizeChild,
			want: outcome.ReasonAllowanceMissing, names: "no allowance on XDatabase my-database-xyz covers spec.forProvider.instanceClass (AllowancePolicy p)"},
		{reason: "an approval lets it through all the same", policies: []string{xrPolicy("p", "rules: []")},
			xr: []fx.Mod{newIntent, fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"apiVersion":"*","kind":"*","name":"*","mode":"always"}]`)}, do: resizeChild,
			want: outcome.ReasonApproved},
		{reason: "a rejection does not", policies: []string{xrPolicy("p", "rules: []")},
			xr: []fx.Mod{newIntent, fx.Annotate(v1alpha1.AnnotationKeyRejections, `[{"apiVersion":"*","kind":"*","name":"*","reason":"no"}]`)}, do: resizeChild,
			want: outcome.ReasonRejected},
		{reason: "a person needs none", policies: []string{xrPolicy("p", "rules: []")}, xr: []fx.Mod{newIntent}, do: resizeChildByAlice,
			want: outcome.ReasonNewOrigin},
		{reason: "a policy from after the intent does not bind",
			policies: []string{`{kind: AllowancePolicy, metadata: {name: p, creationTimestamp: "2026-01-02T11:45:00Z"}, spec: {target: ` +
				`{apiGroup: example.com, kind: XDatabase}}}`},
			xr: []fx.Mod{newIntent}, do: resizeChild, want: outcome.ReasonExpected, gate: v1alpha1.GateOpen},
		{reason: "a policy about another group does not",
			policies: []string{`{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {apiGroup: example.org, kind: XDatabase}}}`},
			xr:       []fx.Mod{newIntent}, do: resizeChild, want: outcome.ReasonExpected, gate: v1alpha1.GateOpen},
		{reason: "settled, it is drift as ever", policies: []string{xrPolicy("p", "rules: []")}, do: resizeChild, want: outcome.ReasonDrift},
	})
}

func TestLogModeLetsMissingAllowancesPass(t *testing.T) {
	xr := fx.With(xdatabase(), newIntent)
	p := newPlay(t, policySet(t, xrPolicy("p", "rules: []")), claim(), xr, rdsInstance(xr))
	p.e.Options.DefaultMode = v1alpha1.ModeLog
	d := p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("db.t3.large", "spec", "forProvider", "instanceClass"))
	p.want(d, outcome.ReasonDriftLogged)
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0],
		"no allowance on XDatabase my-database-xyz covers spec.forProvider.instanceClass") || d.Report == nil {
		t.Errorf("warnings %q, report %v", d.Warnings, d.Report)
	}
}

// TestExternalDeletion is section deleting together with external resources (KR-06-10, KR-06-12).
func TestExternalDeletion(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		policies []string
		want     outcome.Reason
		approves bool
	}{
		{reason: "no policy: refused", want: outcome.ReasonExternalDeletion},
		{reason: "deleting omitted: refused, with what to do", policies: []string{xrPolicy("p", "rules: []")},
			want: outcome.ReasonExternalDeletion},
		{reason: "External Delete: the gate opens first",
			policies: []string{xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}, {relation: External, verbs: [Delete]}]}`)},
			want:     outcome.ReasonExternalDeletion, approves: true},
		{reason: "no External Delete requests orphaning",
			policies: []string{xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}]}`)}, want: outcome.ReasonNoParent},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			xr := fx.With(xdatabase(), func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "claimRef") })
			mr := rdsInstance(xr)
			p := newPlay(t, policySet(t, tc.policies...), xr, mr)
			p.w.managed = []*parent.State{parent.Sum(mr, parent.RoleManaged)}
			d := p.remove(fx.Alice, "my-database-xyz")
			p.want(d, tc.want)
			if (d.Approve != nil) != tc.approves {
				t.Fatalf("approves %+v", d.Approve)
			}
			if d.Approve == nil {
				return
			}
			if d.Approve.Value != "once" || d.Approve.Holder.Name != "my-database-xyz" || d.Report != nil {
				t.Errorf("approves %+v, report %+v", d.Approve, d.Report)
			}
			p.store(fx.With(xr, fx.Annotate(d.Approve.Key, d.Approve.Value)))
			d = p.remove(fx.Alice, "my-database-xyz") // the gate is still closed
			p.want(d, outcome.ReasonExternalDeletion)
			p.w.managed = []*parent.State{parent.Sum(fx.With(mr, fx.Policies("Observe", "Delete"),
				fx.Annotate(v1alpha1.AnnotationKeyGate, `{"state":"open","verbs":["Delete"],"at":"2026-01-02T12:00:00Z"}`)), parent.RoleManaged)}
			p.want(p.remove(fx.Alice, "my-database-xyz"), outcome.ReasonNoParent)
		})
	}
}

// builder is a world that knows builds.
type builder struct {
	*memoryWorld
	build allowance.Build
}

func (b *builder) Build(_ context.Context, _ *Request, _ *parent.State) (allowance.Build, error) {
	return b.build, nil
}

// TestUpgrades covers KR-05-10, KR-06-20, KR-06-22, KR-06-23.
func TestUpgrades(t *testing.T) {
	upgrade := func(spec string) string {
		return `{kind: UpgradeAllowance, metadata: {name: u}, spec: {serviceAccount: "` + fx.Crossplane.Name + `", ` + spec + `}}`
	}
	allow := `allow: [{kind: RDSInstance, relation: ControllerChild, mutations: [spec.forProvider]}, {relation: External, mutations: [Update]}]`
	built := fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1")
	revision := allowance.GraphRevision{Of: "shop", Name: "shop-r00002", Number: 2}
	fresh := allowance.Build{Fingerprint: "b2", Images: []string{"xpkg.example.org/crossplane:v2.3.1"}}
	for _, tc := range []struct {
		reason string
		text   string
		mr     []fx.Mod
		build  allowance.Build
		want   outcome.Reason
		last   string
	}{
		{reason: "a new build", text: upgrade(allow), mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1")}, build: fresh,
			want: outcome.ReasonUpgraded, last: `{"name":"u","fingerprints":["b1","b2"]}`},
		{reason: "a child whose build is not recorded (KR-13-49)", text: upgrade(allow), build: fresh, want: outcome.ReasonDrift},
		{reason: "one where builds are recorded late", text: upgrade(allow), build: allowance.Build{Fingerprint: "b2", RecordedLate: true},
			want: outcome.ReasonUpgraded, last: `{"name":"u","fingerprints":["b2"]}`},
		{reason: "the older name of the annotation", text: upgrade(allow),
			mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyLegacyFingerprint, "b2")}, build: fresh, want: outcome.ReasonDrift},
		{reason: "the same build", text: upgrade(allow), mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b2")}, build: fresh,
			want: outcome.ReasonDrift},
		{reason: "back to the build before", text: upgrade(allow),
			mr:    []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1", v1alpha1.AnnotationKeyLastUpgrade, `{"name":"u","fingerprints":["b2","b1"]}`)},
			build: fresh, want: outcome.ReasonDrift},
		{reason: "another revision of a graph of kro (KR-06-21)", text: upgrade(allow), mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1.i1")},
			build: allowance.Build{Fingerprint: "b2", Controller: "i1", Graph: revision}, want: outcome.ReasonDrift},
		{reason: "other images beside", text: upgrade(allow), mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1.i1")},
			build: allowance.Build{Fingerprint: "b2", Controller: "i2", Graph: revision}, want: outcome.ReasonUpgraded, last: `{"name":"u","fingerprints":["i1","i2"]}`},
		{reason: "an unknown build", text: upgrade(allow), mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1")},
			build: allowance.Build{}, want: outcome.ReasonDrift},
		{reason: "another program by its User-Agent", text: upgrade(allow), mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "ua-1")},
			build: allowance.Build{Fingerprint: "ua-2"}, want: outcome.ReasonUpgraded, last: `{"name":"u","fingerprints":["ua-1","ua-2"]}`},
		{reason: "one that was in a Pod", text: upgrade(allow), mr: []fx.Mod{built}, build: allowance.Build{Fingerprint: "ua-2"}, want: outcome.ReasonDrift},
		{reason: "one that was not", text: upgrade(allow), mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "ua-1")}, build: fresh,
			want: outcome.ReasonDrift},
		{reason: "an image that fits", text: upgrade(`images: ["*/crossplane:v2.*"], ` + allow), build: fresh, want: outcome.ReasonUpgraded,
			mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1")}, last: `{"name":"u","fingerprints":["b1","b2"]}`},
		{reason: "an image that does not", text: upgrade(`images: ["*/crossplane:v3.*"], ` + allow),
			mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1")}, build: fresh, want: outcome.ReasonDrift},
		{reason: "a selector that fits", text: upgrade(`selector: {matchLabels: {tier: gold}}, ` + allow),
			mr: []fx.Mod{built, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"tier": "gold"}) }}, build: fresh, want: outcome.ReasonUpgraded,
			last: `{"name":"u","fingerprints":["b1","b2"]}`},
		{reason: "a selector that does not", text: upgrade(`selector: {matchLabels: {tier: gold}}, ` + allow), mr: []fx.Mod{built}, build: fresh,
			want: outcome.ReasonDrift},
		{reason: "another field", mr: []fx.Mod{built},
			text: upgrade(`allow: [{kind: RDSInstance, relation: Child, mutations: [spec.forProvider.engine]}]`), build: fresh, want: outcome.ReasonDrift},
		{reason: "another kind", text: upgrade(`allow: [{kind: Bucket, relation: Child, mutations: [spec]}]`), mr: []fx.Mod{built}, build: fresh,
			want: outcome.ReasonDrift},
		{reason: "within the window, whatever the build",
			text: upgrade(`validFrom: "2026-01-02T11:00:00Z", validUntil: "2026-01-02T13:00:00Z", ` + allow),
			mr:   []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b2")}, build: fresh, want: outcome.ReasonUpgraded,
			last: `{"name":"u","fingerprints":["b2"]}`},
		{reason: "before the window", text: upgrade(`validFrom: "2026-01-02T13:00:00Z", ` + allow), build: fresh, want: outcome.ReasonDrift},
		{reason: "after the window", text: upgrade(`validUntil: "2026-01-02T11:00:00Z", ` + allow), build: fresh, want: outcome.ReasonDrift},
		{reason: "another user", text: strings.Replace(upgrade(allow), "crossplane-system:crossplane", "other:crossplane", 1),
			mr: []fx.Mod{built}, build: fresh, want: outcome.ReasonDrift},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			xr := xdatabase()
			p := newPlay(t, policySet(t, tc.text), claim(), xr, fx.With(rdsInstance(xr), tc.mr...))
			p.e.World = &builder{memoryWorld: p.w, build: tc.build}
			d := p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("db.t3.large", "spec", "forProvider", "instanceClass"))
			p.want(d, tc.want)
			if d.Allowed {
				a := p.objects["my-database-xyz-rds"].GetAnnotations()
				if a[v1alpha1.AnnotationKeyLastUpgrade] != tc.last || a[v1alpha1.AnnotationKeyFingerprint] != tc.build.Recorded() {
					t.Errorf("last upgrade %s, fingerprint %s", a[v1alpha1.AnnotationKeyLastUpgrade], a[v1alpha1.AnnotationKeyFingerprint])
				}
				if x := d.Exception; x == nil || *x != (outcome.ExceptionUse{Policy: "UpgradeAllowance/u", Rule: "allow"}) {
					t.Errorf("what is counted: %+v", x)
				}
				if d.Gate == nil || d.Gate.State != v1alpha1.GateOpen {
					t.Errorf("gate %+v", d.Gate)
				}
				p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("db.t3.small", "spec", "forProvider", "instanceClass")),
					map[bool]outcome.Reason{true: outcome.ReasonUpgraded, false: outcome.ReasonDrift}[strings.Contains(tc.text, "validUntil")])
			}
		})
	}
}

// TestExceptions covers KR-05-12, KR-05-50, KR-05-52.
func TestExceptions(t *testing.T) {
	cluster := func(spec string) string {
		return `{kind: ClusterApprovalPolicy, metadata: {name: c, uid: c-uid}, ` + spec + `}`
	}
	rule := func(text string) string { return cluster(`spec: {rules: [` + text + `]}`) }
	for _, tc := range []struct {
		reason, text string
		want         outcome.Reason
		claims       bool
		warns        string
	}{
		{reason: "everything", text: rule(`{mode: always}`), want: outcome.ReasonExcepted},
		{reason: "by globs", text: rule(`{apiVersion: "rds.*/v1alpha1", kind: "RDS*", name: "my-*-rd?", mode: always}`),
			want: outcome.ReasonExcepted},
		{reason: "another kind", text: rule(`{kind: ConfigMap, mode: always}`), want: outcome.ReasonDrift},
		{reason: "another namespace", text: rule(`{namespace: team, mode: always}`), want: outcome.ReasonDrift},
		{reason: "another name", text: rule(`{name: "my-*-db", mode: always}`), want: outcome.ReasonDrift},
		{reason: "expired", text: rule(`{mode: always, expiry: "2026-01-02T11:00:00Z"}`), want: outcome.ReasonDrift},
		{reason: "not expired", text: rule(`{mode: always, expiry: "2026-06-01T00:00:00Z"}`), want: outcome.ReasonExcepted},
		{reason: "prereqs are about the object before",
			text: rule(`{mode: always, prereqs: {cel: "object.spec.forProvider.instanceClass == 'db.t3.medium'"}}`), want: outcome.ReasonExcepted},
		{reason: "prereqs that do not hold",
			text: rule(`{mode: always, prereqs: {cel: "object.spec.forProvider.instanceClass == 'db.t3.large'"}}`), want: outcome.ReasonDrift},
		{reason: "match is about the object after",
			text: rule(`{mode: always, match: {cel: "object.spec.forProvider.instanceClass == 'db.t3.large' && ` +
				`oldObject.spec.forProvider.engine == 'postgres' && parent.kind == 'XDatabase' && request.operation == 'UPDATE'"}}`),
			want: outcome.ReasonExcepted},
		{reason: "match that cannot be evaluated", text: rule(`{mode: always, match: {cel: "object.spec.nothing == 1"}}`),
			want: outcome.ReasonDrift, warns: "ClusterApprovalPolicy/c approves nothing by rules[0]"},
		{reason: "regexp over the desired state",
			text: rule(`{mode: always, match: {regexp: '\{"spec":\{"forProvider":\{"engine":"postgres","instanceClass":"db\.t3\..*"\},` +
				`"managementPolicies":\["\*"\]\}\}'}}`),
			want: outcome.ReasonExcepted},
		{reason: "regexp must match all of it", text: rule(`{mode: always, match: {regexp: 'db\.t3\.large'}}`), want: outcome.ReasonDrift},
		{reason: "both of cel and regexp", text: rule(`{mode: always, match: {cel: "false", regexp: ".*"}}`), want: outcome.ReasonDrift},
		{reason: "the second rule", text: rule(`{kind: ConfigMap, mode: always}, {kind: RDSInstance, mode: always}`),
			want: outcome.ReasonExcepted},
		{reason: "once is claimed", text: rule(`{mode: once}`), want: outcome.ReasonExcepted, claims: true},
		{reason: "generation is claimed", text: rule(`{mode: generation}`), want: outcome.ReasonExcepted, claims: true},
		{reason: "a rule that needs no claim goes first", text: rule(`{mode: once}, {mode: always}`), want: outcome.ReasonExcepted},
		{reason: "a named controller",
			text: cluster(`spec: {subjects: [{kind: ServiceAccount, name: crossplane, namespace: crossplane-system}], rules: [{mode: always}]}`),
			want: outcome.ReasonExcepted},
		{reason: "another controller",
			text: cluster(`spec: {subjects: [{kind: ServiceAccount, name: other, namespace: crossplane-system}], rules: [{mode: always}]}`),
			want: outcome.ReasonDrift},
		{reason: "a namespaced policy speaks for its name",
			text: `{kind: ApprovalPolicy, metadata: {name: crossplane, namespace: crossplane-system}, spec: {rules: [{mode: always}]}}`,
			want: outcome.ReasonExcepted},
		{reason: "and for no other user",
			text: `{kind: ApprovalPolicy, metadata: {name: crossplane, namespace: other}, spec: {rules: [{mode: always}]}}`, want: outcome.ReasonDrift},
		{reason: "not even where it names them: the child is not in its namespace",
			text: `{kind: ApprovalPolicy, metadata: {name: x, namespace: other}, spec: {subjects: [{kind: User, name: "` + fx.Crossplane.Name +
				`"}], rules: [{mode: always}]}}`,
			want: outcome.ReasonDrift},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			xr := xdatabase()
			p := newPlay(t, policySet(t, tc.text), claim(), xr, rdsInstance(xr))
			d := p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("db.t3.large", "spec", "forProvider", "instanceClass"))
			p.want(d, tc.want)
			if (d.PolicyClaim != nil) != tc.claims || (d.Exception != nil) != d.Allowed {
				t.Errorf("claim %+v, exception %+v", d.PolicyClaim, d.Exception)
			}
			if got := strings.Join(d.Warnings, " "); !strings.Contains(got, tc.warns) || tc.warns == "" && got != "" {
				t.Errorf("warnings %q", got)
			}
			if !d.Allowed && !strings.Contains(d.Message, tc.warns) {
				t.Errorf("message %q, want %q", d.Message, tc.warns)
			}
		})
	}
}

// Where an ApprovalRule is about a change, a policy of another Namespace does not let it pass, and its author needs no right there
// (KR-14-60).
func TestExceptionsBesideARule(t *testing.T) {
	elsewhere := `{kind: ApprovalPolicy, metadata: {name: crossplane, namespace: crossplane-system}, spec: {rules: [{mode: always}]}}`
	anywhere := `{kind: ClusterApprovalPolicy, metadata: {name: c, uid: c-uid}, spec: {rules: [{mode: always}]}}`
	rule := `{kind: ApprovalRule, metadata: {name: r}, spec: {match: {resources: [{group: "*", kinds: [%s]}]}, require: [{count: 1}]}}`
	for name, tc := range map[string]struct {
		texts []string
		want  outcome.Reason
	}{
		"Elsewhere":       {texts: []string{elsewhere, fmt.Sprintf(rule, "RDSInstance")}, want: outcome.ReasonDrift},
		"OfTheCluster":    {texts: []string{anywhere, fmt.Sprintf(rule, "RDSInstance")}, want: outcome.ReasonExcepted},
		"AboutAnother":    {texts: []string{elsewhere, fmt.Sprintf(rule, "ConfigMap")}, want: outcome.ReasonExcepted},
		"WithoutAnyRules": {texts: []string{elsewhere}, want: outcome.ReasonExcepted},
	} {
		t.Run(name, func(t *testing.T) {
			xr := xdatabase()
			p := newPlay(t, policySet(t, tc.texts...), claim(), xr, rdsInstance(xr))
			p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("db.t3.large", "spec", "forProvider", "instanceClass")), tc.want)
		})
	}
}

// TestExceptionClaims: the claims in the status decide whether a rule of mode
// once or generation still holds (KR-05-51).
func TestExceptionClaims(t *testing.T) {
	text := func(mode string) string {
		return `{kind: ClusterApprovalPolicy, metadata: {name: c, uid: c-uid}, spec: {rules: [{mode: ` + mode + `}]}}`
	}
	xr := xdatabase()
	drift := func(t *testing.T, set *allowance.Set, class string, mods ...fx.Mod) (Decision, *play) {
		p := newPlay(t, set, claim(), fx.With(xr, mods...), rdsInstance(xr))
		return p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass(class)), p
	}
	once := policySet(t, text("once"))
	first, _ := drift(t, once, "db.t3.large")
	if first.PolicyClaim == nil {
		t.Fatal("not claimed")
	}
	again, _ := drift(t, once, "db.t3.large")
	if d := cmp.Diff(first.PolicyClaim, again.PolicyClaim); d != "" {
		t.Errorf("the same use, another claim: %s", d)
	}
	claimed := once.WithClaims("ClusterApprovalPolicy/c", []v1alpha1.PolicyClaim{first.PolicyClaim.Claim})
	if d, _ := drift(t, claimed, "db.t3.large"); d.Reason != outcome.ReasonExcepted || d.PolicyClaim != nil {
		t.Errorf("a retry: %s, claim %v", d.Reason, d.PolicyClaim)
	}
	if d, _ := drift(t, claimed, "db.t3.huge"); d.Reason != outcome.ReasonDrift {
		t.Errorf("another use of it: %s", d.Reason)
	}

	generation := policySet(t, text("generation"))
	first, _ = drift(t, generation, "db.t3.large")
	held := generation.WithClaims("ClusterApprovalPolicy/c", []v1alpha1.PolicyClaim{first.PolicyClaim.Claim})
	if d, _ := drift(t, held, "db.t3.huge"); d.Reason != outcome.ReasonExcepted || d.PolicyClaim != nil {
		t.Errorf("another change at the same intent: %s, claim %v", d.Reason, d.PolicyClaim)
	}
	if d, _ := drift(t, held, "db.t3.huge", newIntent, fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "12")); d.Reason != outcome.ReasonDrift {
		t.Errorf("after the next intent: %s", d.Reason)
	}
	if d, _ := drift(t, held.Without("ClusterApprovalPolicy/c"), "db.t3.huge"); d.Reason != outcome.ReasonDrift {
		t.Errorf("by a policy that is gone: %s", d.Reason)
	}
}

func setClass(class string) fx.Mod { return fx.Set(class, "spec", "forProvider", "instanceClass") }

// TestAllowancesThatAreTooLarge are refused with the size (KR-02-15).
func TestAllowancesThatAreTooLarge(t *testing.T) {
	var rules strings.Builder
	for range 64 {
		rules.WriteString(`{trigger: spec.size, allow: [{relation: External, verbs: [Update], externalTarget: {note: "` + strings.Repeat("x", 600) + `"}}`)
		rules.WriteString(`]},`)
	}
	text := xrPolicy("p", "subjects: [{kind: User, name: alice, mayInitiate: true}], rules: ["+rules.String()+"]")
	xr := fx.With(xdatabase(), func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "claimRef") })
	p := newPlay(t, policySet(t, text), xr)
	p.want(p.update(fx.Alice, "kubectl", "my-database-xyz", fx.Set("large", "spec", "size")), outcome.ReasonNoParent) // all the same: one entry

	rules.Reset()
	for i := range 64 {
		rules.WriteString(`{trigger: spec.size, allow: [{relation: External, verbs: [Update], externalTarget: {n` + strings.Repeat("i", i) +
			`: "` + strings.Repeat("x", 600) + `"}}]},`)
	}
	p = newPlay(t, policySet(t, xrPolicy("p", "subjects: [{kind: User, name: alice, mayInitiate: true}], rules: ["+rules.String()+"]")), xr)
	d := p.update(fx.Alice, "kubectl", "my-database-xyz", fx.Set("large", "spec", "size"))
	p.want(d, outcome.ReasonAnnotationTooLarge)
	if !strings.Contains(d.Message, "trace and allowances of XDatabase my-database-xyz would be") {
		t.Errorf("message %q", d.Message)
	}
}

// TestWithoutPolicies: an empty Set and none decide alike.
func TestWithoutPolicies(t *testing.T) {
	for _, s := range []*allowance.Set{nil, allowance.NewSet(nil, nil, nil)} {
		xr := fx.With(xdatabase(), newIntent)
		p := newPlay(t, s, claim(), xr, rdsInstance(xr))
		d := p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass("db.t3.large"))
		p.want(d, outcome.ReasonExpected)
		if a := p.objects["my-database-xyz-rds"].GetAnnotations(); a[v1alpha1.AnnotationKeyAllowances] != "" ||
			a[v1alpha1.AnnotationKeyFingerprint] != "" || d.Gate == nil {
			t.Errorf("annotations %v", a)
		}
	}
}

// TestDeletionBelow: section deleting applies to a managed resource that
// goes after its composite.
func TestDeletionBelow(t *testing.T) {
	for _, tc := range []struct {
		reason, section string
		want            outcome.Reason
		approves        bool
	}{
		{reason: "no External Delete: left behind, as requested", section: `[{relation: ControllerChild, verbs: ["*"]}]`,
			want: outcome.ReasonParentDeleted},
		{reason: "External Delete: the gate opens first",
			section: `[{relation: ControllerChild, verbs: ["*"]}, {relation: External, verbs: [Delete]}]`, want: outcome.ReasonExternalDeletion,
			approves: true},
		{reason: "External Delete of another kind",
			section: `[{relation: ControllerChild, verbs: ["*"]}, {target: {kind: Other}, relation: External, verbs: [Delete]}]`,
			want:    outcome.ReasonParentDeleted},
	} {
		xr := fx.With(xdatabase(), beingDeleted)
		p := newPlay(t, policySet(t, xrPolicy("p", "deleting: {allow: "+tc.section+"}")), claim(), xr, rdsInstance(xr))
		d := p.remove(fx.Collector, "my-database-xyz-rds")
		if d.Reason != tc.want || (d.Approve != nil) != tc.approves {
			t.Errorf("%s: %s, approves %+v: %s", tc.reason, d.Reason, d.Approve, d.Message)
		}
	}
	// The composite is not being deleted: its policy's word about that does not count.
	xr := xdatabase()
	p := newPlay(t, policySet(t, xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}]}`)), claim(), xr, rdsInstance(xr))
	p.want(p.remove(fx.Crossplane, "my-database-xyz-rds"), outcome.ReasonExternalDeletion)
}

// TestWhoIsGranted: a subject that may not initiate extends a chain, and starts
// none; who is no subject is granted nothing (KR-06-03, KR-06-04).
func TestWhoIsGranted(t *testing.T) {
	rules := `rules: [{trigger: spec.size, allow: [{relation: External, verbs: [Update]}]}]`
	for _, tc := range []struct {
		reason, subjects string
		granted          bool
	}{
		{reason: "may initiate", subjects: `{kind: User, name: hans@example.com, mayInitiate: true}`, granted: true},
		{reason: "by one of his groups", subjects: `{kind: Group, name: platform-team, mayInitiate: true}`, granted: true},
		{reason: "may not initiate", subjects: `{kind: User, name: hans@example.com}`},
		{reason: "as one subject not, as another yes",
			subjects: `{kind: User, name: hans@example.com}, {kind: Group, name: platform-team, mayInitiate: true}`, granted: true},
		{reason: "another user", subjects: `{kind: User, name: alice, mayInitiate: true}`},
		{reason: "a ServiceAccount of his name",
			subjects: `{kind: ServiceAccount, namespace: a, name: hans@example.com, mayInitiate: true}`},
		{reason: "nobody", subjects: ``},
	} {
		xr := fx.With(xdatabase(), func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "claimRef") })
		p := newPlay(t, policySet(t, xrPolicy("p", "subjects: ["+tc.subjects+"], "+rules)), xr)
		p.want(p.update(hans, "kubectl", "my-database-xyz", fx.Set("large", "spec", "size")), outcome.ReasonNoParent)
		if got := p.objects["my-database-xyz"].GetAnnotations()[v1alpha1.AnnotationKeyAllowances]; (got != "") != tc.granted {
			t.Errorf("%s: %q", tc.reason, got)
		}
	}
}

// TestOverdueInitializing covers KR-06-24: the parent has settled, and `when` never ends.
func TestOverdueInitializing(t *testing.T) {
	set := policySet(t, xrPolicy("p", `initializing: {when: "!has(object.status.observedGeneration)", allow: [`+
		`{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*"}]}, {relation: External, verbs: ["*"]}]}`))
	play := func(mods ...fx.Mod) Decision {
		xr := fx.With(xdatabase(), mods...)
		p := newPlay(t, set, claim(), xr, rdsInstance(xr))
		return p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass("db.t3.large"))
	}
	d := play()
	if got, want := outcomeOf(d), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged); got != want {
		t.Fatalf("want %+v, got %+v: %s", want, got, d.Message)
	}
	if text := strings.Join(d.Warnings, "\n"); !strings.Contains(text, "still initializes by initializing.when of AllowancePolicy p") {
		t.Errorf("warnings %q", text)
	}
	if own := d.Trace.Own(); d.Report == nil || d.Resolution != outcome.ResolutionLogged || own == nil || !own.Unrequested {
		t.Errorf("report %+v, resolution %s, trace %v", d.Report, d.Resolution, d.Trace)
	}
	if d.Gate != nil && d.Gate.State == v1alpha1.GateOpen {
		t.Errorf("an unrequested change opened the gate: %+v", d.Gate)
	}
	if d := play(fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","mode":"always"}]`)); d.Reason != outcome.ReasonApproved {
		t.Errorf("an approval is not used: %s", d.Reason)
	}
	if d := play(fx.Annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"*","name":"*","reason":"no"}]`)); d.Reason != outcome.ReasonRejected {
		t.Errorf("a rejection is not heeded: %s", d.Reason)
	}
	if d := play(newIntent); d.Reason != outcome.ReasonInitializing || d.Report != nil {
		t.Errorf("a requested change: %s, report %v", d.Reason, d.Report)
	}
}

// TestInitializingWithoutStatus covers KR-06-25.
func TestInitializingWithoutStatus(t *testing.T) {
	set := policySet(t, xrPolicy("p", `initializing: {when: "!has(object.status.observedGeneration)", allow: [`+
		`{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*"}]}]}`))
	xr := fx.With(xdatabase(), newIntent, func(o *unstructured.Unstructured) { delete(o.Object, "status") })
	p := newPlay(t, set, claim(), xr, rdsInstance(xr))
	p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass("db.t3.large")), outcome.ReasonInitializing)
}
