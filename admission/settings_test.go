package admission

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// under a policy: options whose settings come from it. It covers everything in
// the group of instances.
func under(edit func(*v1alpha1.KausalitySpec)) stubs {
	k := &v1alpha1.Kausality{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}
	k.Spec.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{"aws.example.org"}, Resources: []string{"instances"}}}
	edit(&k.Spec)
	set, _ := settings.Compile([]*v1alpha1.Kausality{k})
	return stubs{
		settings: func(ref parent.Ref, labels map[string]string) settings.Settings {
			return set.For(settings.Target{Group: ref.Group, Resource: strings.ToLower(ref.Kind) + "s", Namespace: ref.Namespace, Labels: labels})
		},
		initialized: func(gk schema.GroupKind) []string { return set.Initialized(gk.Group, gk.Kind) },
	}
}

// TestModeOfPolicy covers KR-05-21, KR-12-08.
func TestModeOfPolicy(t *testing.T) {
	enforce := func(s *v1alpha1.KausalitySpec) { s.Mode = v1alpha1.ModeEnforce }
	labelled := func(s *v1alpha1.KausalitySpec) {
		s.Mode, s.ObjectSelector = v1alpha1.ModeEnforce, &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	}
	gold := func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"tier": "gold"}) }
	cases := map[string]struct {
		reason    string
		policy    func(*v1alpha1.KausalitySpec)
		namespace v1alpha1.Mode
		object    []fx.Mod
		want      v1alpha1.Mode
		warning   string
		removing  bool
	}{
		"Removing": {reason: "while Kausality is being removed everything only logs", policy: enforce, namespace: "enforce",
			object: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "enforce")}, want: v1alpha1.ModeLog, removing: true},
		"Default":   {reason: "a policy without a mode leaves it to the installation", policy: func(*v1alpha1.KausalitySpec) {}, want: v1alpha1.ModeLog},
		"Policy":    {reason: "the policy goes before the default", policy: enforce, want: v1alpha1.ModeEnforce},
		"Namespace": {reason: "the Namespace goes before the policy", policy: enforce, namespace: "log", want: v1alpha1.ModeLog},
		"Object": {reason: "the object goes before both", policy: enforce, namespace: "enforce",
			object: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "log")}, want: v1alpha1.ModeLog},
		"UnknownNamespace": {reason: "an unknown value counts as absent, and a warning names it", policy: enforce, namespace: "audit",
			want: v1alpha1.ModeEnforce, warning: `of namespace team is "audit"`},
		"UnknownObject": {reason: "so does one on the object", policy: enforce,
			object: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "audit")}, want: v1alpha1.ModeEnforce, warning: `of the object is "audit"`},
		"ObjectSelector":      {reason: "the labels of the object decide", policy: labelled, object: []fx.Mod{gold}, want: v1alpha1.ModeEnforce},
		"ObjectSelectorOther": {reason: "without them the policy does not apply", policy: labelled, want: v1alpha1.ModeLog},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{}.world()
			req := byCrossplane(Update, fx.With(fx.Instance(), append(tc.object, fx.Set("team", "metadata", "namespace"))...), fx.Resize("l"))
			w.namespaces[req.Namespace] = tc.namespace
			o := under(tc.policy)
			o.removing = func() bool { return tc.removing }
			d := decide(t, w, o, req)
			if d.Mode != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, d.Mode)
			}
			all := strings.Join(d.Warnings, "\n")
			if tc.warning != "" && !strings.Contains(all, tc.warning) {
				t.Errorf("%s: want a warning %q, got %q", tc.reason, tc.warning, all)
			}
			if tc.warning == "" && strings.Contains(all, "neither log nor enforce") {
				t.Errorf("%s: want no such warning, got %q", tc.reason, all)
			}
		})
	}
}

// TestOtherActors covers KR-04-11.
func TestOtherActors(t *testing.T) {
	strict := func(m v1alpha1.Mode) func(*v1alpha1.KausalitySpec) {
		return func(s *v1alpha1.KausalitySpec) {
			s.Mode, s.OtherActors = m, v1alpha1.OtherActorsRequireApproval
		}
	}
	byAlice := func() *Request { return by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Alice, "kubectl") }
	cases := map[string]struct {
		reason  string
		mode    v1alpha1.Mode
		setting setting
		req     *Request
		want    wantedOutcome
	}{
		"Refused": {reason: "as drift is", mode: v1alpha1.ModeEnforce, setting: setting{}, req: byAlice(),
			want: refused(outcome.ClassNewOrigin, outcome.ReasonDrift, 403)},
		"Logged": {reason: "in log mode it passes", mode: v1alpha1.ModeLog, setting: setting{}, req: byAlice(),
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonDriftLogged)},
		"Unsettled": {reason: "whatever the parent is doing", mode: v1alpha1.ModeEnforce, setting: setting{xr: []fx.Mod{fx.Unsettled}},
			req: byAlice(), want: refused(outcome.ClassNewOrigin, outcome.ReasonDrift, 403)},
		"Approved": {reason: "an approval lets it through", mode: v1alpha1.ModeEnforce,
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","mode":"always"}]`)}}, req: byAlice(),
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonApproved)},
		"Rejected": {reason: "a rejection goes before it", mode: v1alpha1.ModeEnforce,
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"*","name":"*","reason":"no"}]`)}}, req: byAlice(),
			want: refused(outcome.ClassNewOrigin, outcome.ReasonRejected, 403)},
		"Controller": {reason: "the parent's controller is no other actor", mode: v1alpha1.ModeEnforce,
			setting: setting{xr: []fx.Mod{fx.Unsettled}}, req: byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			want: allowed(outcome.ClassExpected, outcome.ReasonExpected)},
		"Initializing": {reason: "the first settling is left alone", mode: v1alpha1.ModeEnforce,
			setting: setting{xr: []fx.Mod{fx.Unsettled, fx.Unannotate(v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration),
				fx.Set([]any{}, "status", "conditions")}},
			req: byAlice(), want: allowed(outcome.ClassNewOrigin, outcome.ReasonInitializing)},
		"NoParent": {reason: "an object without a parent has no other actors", mode: v1alpha1.ModeEnforce, setting: setting{},
			req: by(byCrossplane(Update, fx.With(fx.Instance(), func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }), fx.Resize("l")),
				fx.Alice, "kubectl"),
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonNoParent)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, tc.setting.world(), under(strict(tc.mode)), tc.req)
			if got := outcomeOf(d); got != tc.want {
				t.Errorf("%s: want %+v, got %+v: %s", tc.reason, tc.want, got, d.Message)
			}
			if asks := d.Reason == outcome.ReasonDrift || d.Reason == outcome.ReasonDriftLogged; asks != (d.Report != nil) {
				t.Errorf("%s: a report is for what needs approval, got %v", tc.reason, d.Report)
			}
			if d.Reason == outcome.ReasonDrift && !strings.Contains(d.Message, "policy prod") {
				t.Errorf("%s: the message must name the policy: %s", tc.reason, d.Message)
			}
			if tc.want.allowed && d.Class == outcome.ClassNewOrigin && len(d.Trace) > 0 && d.Trace[0].User != fx.Alice.Name {
				t.Errorf("%s: it starts a trace of its own, got %v", tc.reason, d.Trace)
			}
		})
	}
}

// TestLifecycleConditions: a parent counts as initialized by the conditions its
// kind is declared to have (KR-03-09).
func TestLifecycleConditions(t *testing.T) {
	opts := under(func(s *v1alpha1.KausalitySpec) {
		s.Mode = v1alpha1.ModeEnforce
		s.Lifecycle = []v1alpha1.LifecycleRule{{APIGroup: "example.org", Kind: "XDatabase", Initialized: []string{"Provisioned"}}}
	})
	condition := func(kind string) fx.Mod {
		return fx.Set([]any{map[string]any{"type": kind, "status": "True"}}, "status", "conditions")
	}
	for kind, want := range map[string]v1alpha1.Phase{"Ready": v1alpha1.PhaseInitializing, "Provisioned": v1alpha1.PhaseInitialized} {
		fresh := setting{xr: []fx.Mod{fx.Unsettled, fx.Unannotate(v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration), condition(kind)}}
		if d := decide(t, fresh.world(), opts, byCrossplane(Update, fx.Instance(), fx.Resize("l"))); d.Phase != want {
			t.Errorf("condition %s: want %s, got %s (%s)", kind, want, d.Phase, d.Reason)
		}
	}
}

// TestIgnoredPaths: a difference that the policy ignores keeps no gate closed.
func TestIgnoredPaths(t *testing.T) {
	differs := fx.With(fx.Instance(), fx.Set("eu", "spec", "forProvider", "region"), fx.Set("us", "status", "atProvider", "region"))
	for path, want := range map[string]v1alpha1.GateState{"spec.forProvider.region": v1alpha1.GateOpen, "spec.forProvider.tags": v1alpha1.GateClosed} {
		opts := under(func(s *v1alpha1.KausalitySpec) {
			s.Mode, s.Gate = v1alpha1.ModeEnforce, &v1alpha1.GateSettings{IgnorePaths: []string{path}}
		})
		d := decide(t, setting{xr: []fx.Mod{fx.Unsettled}}.world(), opts, byCrossplane(Update, differs, fx.Resize("l")))
		if d.Gate == nil || d.Gate.State != want {
			t.Errorf("ignoring %s: want the gate %s, got %+v", path, want, d.Gate)
		}
	}
}

// TestTraceOnly covers KR-07-13: nothing is decided, and each change is its user's own, in whatever mode the rest is.
func TestTraceOnly(t *testing.T) {
	traced := under(func(s *v1alpha1.KausalitySpec) { s.TraceOnly = true })
	traced.DefaultMode = v1alpha1.ModeEnforce
	frozen := fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")
	enforce := fx.Annotate(v1alpha1.AnnotationKeyMode, "enforce")
	for name, tc := range map[string]struct {
		reason string
		xr     []fx.Mod
		req    *Request
		user   string
	}{
		"Drift":      {reason: "the parent has settled", req: byCrossplane(Update, fx.With(fx.Instance(), enforce), fx.Resize("l")), user: fx.Crossplane.Name},
		"OtherActor": {reason: "another user", req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Alice, "kubectl"), user: fx.Alice.Name},
		"Frozen":     {reason: "the parent is frozen", xr: []fx.Mod{frozen}, req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), user: fx.Crossplane.Name},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{xr: tc.xr}.world(), traced, tc.req)
			if !d.Allowed || d.Class != outcome.ClassNewOrigin || d.Mode != v1alpha1.ModeLog || d.Report != nil {
				t.Fatalf("%s: got %+v: %s", tc.reason, outcomeOf(d), d.Message)
			}
			if hops := trace.Of(apply(tc.req.Object, d).GetAnnotations()); len(hops) != 1 || hops[0].User != tc.user || hops[0].Unrequested {
				t.Errorf("%s: trace %s", tc.reason, hops)
			}
		})
	}
}

// TestOtherActorsByPolicy covers KR-05-67.
func TestOtherActorsByPolicy(t *testing.T) {
	policy := func(kind, metadata, subjects, rule string) string {
		return `{kind: ` + kind + `, metadata: ` + metadata + `, spec: {` + subjects + `rules: [` + rule + `]}}`
	}
	const clusterWide, alice, always = "ClusterApprovalPolicy", `subjects: [{kind: User, name: alice}], `, `{mode: always}`
	cases := map[string]struct {
		reason, policy string
		setting        setting
		allow          bool
		want           wantedOutcome
	}{
		"Named": {reason: "the subjects name the actor", policy: policy(clusterWide, `{name: c}`, alice, always),
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonExcepted)},
		"Claimed": {reason: "once is claimed, as for drift", policy: policy(clusterWide, `{name: c, uid: c}`, alice, `{mode: once}`),
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonExcepted)},
		"NoSubjects": {reason: "a policy for every controller is about controllers", policy: policy(clusterWide, `{name: c}`, ``, always),
			want: refused(outcome.ClassNewOrigin, outcome.ReasonDrift, 403)},
		"Another": {reason: "another actor is named", want: refused(outcome.ClassNewOrigin, outcome.ReasonDrift, 403),
			policy: policy(clusterWide, `{name: c}`, `subjects: [{kind: User, name: bob@example.com}], `, always)},
		"OtherNamespace": {reason: "an ApprovalPolicy is about children of its Namespace", want: refused(outcome.ClassNewOrigin, outcome.ReasonDrift, 403),
			policy: policy("ApprovalPolicy", `{name: a, namespace: elsewhere}`, alice, always)},
		"NoMatch": {reason: "no rule matches", policy: policy(clusterWide, `{name: c}`, alice, `{kind: ConfigMap, mode: always}`),
			want: refused(outcome.ClassNewOrigin, outcome.ReasonDrift, 403)},
		"Rejected": {reason: "a rejection goes before it", policy: policy(clusterWide, `{name: c}`, alice, always),
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"*","name":"*","reason":"no"}]`)}},
			want:    refused(outcome.ClassNewOrigin, outcome.ReasonRejected, 403)},
		"NotRequired": {reason: "no approval is required, and none is used", allow: true,
			policy: policy(clusterWide, `{name: c}`, alice, `{mode: once}`), want: allowed(outcome.ClassNewOrigin, outcome.ReasonNewOrigin)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			options := under(func(s *v1alpha1.KausalitySpec) {
				s.Mode, s.OtherActors = v1alpha1.ModeEnforce, v1alpha1.OtherActorsRequireApproval
				if tc.allow {
					s.OtherActors = ""
				}
			})
			e := options.of(tc.setting.world())
			e.Policies = policySet(t, tc.policy)
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Alice, "kubectl"))
			if got := outcomeOf(d); err != nil || got != tc.want {
				t.Fatalf("%s: want %+v, got %+v: %s, %v", tc.reason, tc.want, got, d.Message, err)
			}
			if claims := tc.want.reason == outcome.ReasonExcepted && strings.Contains(tc.policy, "once"); claims != (d.PolicyClaim != nil) {
				t.Errorf("%s: claim %+v", tc.reason, d.PolicyClaim)
			}
			if tc.want.reason == outcome.ReasonExcepted && (d.Report != nil || !d.Trace.Own().Unrequested || d.Trace.Own().Passed != v1alpha1.PassedPolicy) {
				t.Errorf("%s: report %v, trace %v", tc.reason, d.Report, d.Trace)
			}
		})
	}
}
