package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// failingNamespaces is a World whose Namespaces cannot be read.
type failingNamespaces struct{ *memoryWorld }

func (failingNamespaces) Namespace(context.Context, string, bool) (settings.Namespace, error) {
	return settings.Namespace{}, errors.New("boom")
}

// The identification of the parent's controller, rule by rule. Under a settled
// parent the controller's change is drift and that of another user a new origin
// (KR-04-01, KR-04-03, KR-04-04, KR-04-05, KR-04-06).
func TestIdentity(t *testing.T) {
	unknown, others := fx.Controllers(), fx.Controllers(subject.User{Name: "other"})
	updaters := func(h ...string) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyUpdaters, subject.Hashes(h).String())
	}
	noUpdaters := fx.Unannotate(v1alpha1.AnnotationKeyUpdaters)
	observes := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"manager": "kcm", "operation": "Update", "subresource": "status",
			"time":     "2026-01-01T00:00:00Z",
			"fieldsV1": map[string]any{"f:status": map[string]any{"f:observedGeneration": map[string]any{}}}}}, "metadata", "managedFields")
	}
	const drift, other = string(outcome.ClassDrift), string(outcome.ClassNewOrigin)

	cases := map[string]struct {
		reason    string
		op        Operation
		xr        bool
		parent    []fx.Mod
		child     []fx.Mod
		user      subject.User
		manager   string
		writes    bool
		identify  Identify
		want      string
		undecided bool
	}{
		"1 Composed": {reason: "Crossplane's manager of this composite, and a user that updates its status", xr: true,
			user: fx.Crossplane, manager: fx.ComposedManager, want: drift},
		"1 ComposedUnknown": {reason: "no user was seen updating the status yet", xr: true, parent: []fx.Mod{unknown}, user: fx.Crossplane,
			manager: fx.ComposedManager, want: drift},
		"1 ComposedRecently": {reason: "seen a moment ago", xr: true, parent: []fx.Mod{others}, user: fx.Crossplane,
			manager: fx.ComposedManager, writes: true, want: drift},
		"1 ComposedForged": {reason: "the manager alone is not enough: any client can name it", xr: true, user: fx.Alice, manager: fx.ComposedManager, want: other},
		"1 OtherComposite": {reason: "the manager of another composite: go on with rule 2", xr: true, child: []fx.Mod{updaters("other")},
			user: fx.Crossplane, manager: "apiextensions.crossplane.io/composed/abc", want: other},
		"1 NoManager": {reason: "a DELETE has no field manager: rule 2", op: Delete, xr: true, user: fx.Crossplane, want: drift},
		"1 NotByUserHash": {reason: "--identify-controller=user-hash", xr: true, child: []fx.Mod{updaters("other")}, user: fx.Crossplane,
			manager: fx.ComposedManager, identify: IdentifyUserHash, want: other},
		"2 Intersection":     {reason: "in controllers and in updaters", user: fx.Deployer, want: drift},
		"2 NotInControllers": {reason: "did not write the status", parent: []fx.Mod{others}, user: fx.Deployer, want: other},
		"2 NotInUpdaters":    {reason: "did not write the child", child: []fx.Mod{updaters("other")}, user: fx.Deployer, want: other},
		"2 NoUpdatersYet":    {reason: "the child has none yet", child: []fx.Mod{noUpdaters}, user: fx.Deployer, want: drift},
		"2 Create":           {reason: "its CREATE", op: Create, child: []fx.Mod{updaters("other")}, user: fx.Deployer, want: drift},
		"2 CreateByOther":    {reason: "controllers are known and do not hold the requester", op: Create, user: fx.Alice, want: other},
		"2 UnknownOnly":      {reason: "not known: the child's only updater", parent: []fx.Mod{unknown}, user: fx.Deployer, want: drift},
		"2 UnknownOther":     {reason: "not known: not the only updater", parent: []fx.Mod{unknown}, user: fx.Alice, want: other},
		"2 UnknownCreate":    {reason: "not known: on CREATE the requester", op: Create, parent: []fx.Mod{unknown}, user: fx.Alice, want: drift},
		"2 MemoryIntersection": {reason: "known from memory alone, the child's updaters count all the same", parent: []fx.Mod{unknown},
			child: []fx.Mod{updaters("other", "another")}, user: fx.Deployer, writes: true, want: other},
		"2 Memory": {reason: "known from memory alone", parent: []fx.Mod{unknown}, child: []fx.Mod{noUpdaters}, user: fx.Deployer, writes: true, want: drift},
		"3 Manager": {reason: "late installation: the manager of observedGeneration", parent: []fx.Mod{unknown, observes},
			child: []fx.Mod{noUpdaters}, user: fx.Deployer, manager: "kcm", want: drift},
		"3 OtherManager": {reason: "another manager", parent: []fx.Mod{unknown, observes}, child: []fx.Mod{noUpdaters}, user: fx.Alice,
			manager: "kubectl", want: other},
		"3 FieldManagerOnly": {reason: "--identify-controller=field-manager passes rule 2 by", parent: []fx.Mod{observes}, user: fx.Alice,
			manager: "kcm", identify: IdentifyFieldManager, want: drift},
		"3 NotByUserHash": {reason: "--identify-controller=user-hash", parent: []fx.Mod{unknown, observes}, child: []fx.Mod{noUpdaters},
			user: fx.Deployer, manager: "kcm", identify: IdentifyUserHash, want: other, undecided: true},
		"4 Undetermined": {reason: "lenient, and the reason shows it", parent: []fx.Mod{unknown}, child: []fx.Mod{noUpdaters}, user: fx.Deployer,
			want: other, undecided: true},
		"4 ManyUpdaters": {reason: "several updaters, and no controllers", parent: []fx.Mod{unknown},
			child: []fx.Mod{updaters("a", fx.Deployer.Hash())}, user: fx.Deployer, want: other, undecided: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, child := fx.DeploymentAndReplicaSet()
			if tc.xr {
				p, child = fx.Composite(), fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan"))
			}
			w := newWorld()
			w.add(fx.With(p, tc.parent...))
			w.writers[p.GetKind()+"/"+p.GetName()+" "+tc.user.ID()] = tc.writes
			op := tc.op
			if op == "" {
				op = Update
			}
			child = fx.With(child, tc.child...)
			req := by(byCrossplane(op, child, fx.Set(int64(9), "spec", "anything")), tc.user, tc.manager)
			if op == Delete {
				req = by(byCrossplane(op, child), tc.user, tc.manager)
			}
			d := decide(t, w, Options{Identify: tc.identify}, req)
			if string(d.Class) != tc.want || (d.Reason == outcome.ReasonUndetermined) != tc.undecided {
				t.Errorf("%s: want %s, got %s (%s)", tc.reason, tc.want, d.Class, d.Reason)
			}
			if tc.undecided && !d.Allowed {
				t.Errorf("%s: must be allowed", tc.reason)
			}
		})
	}
}

// A Claim's controller: apiextensions.crossplane.io/claim, never self, machinery
// included (KR-04-02, KR-01-03).
func TestClaimSync(t *testing.T) {
	claim := func(mods ...fx.Mod) *unstructured.Unstructured {
		o := fx.Object(`
apiVersion: example.org/v1
kind: Database
metadata: {name: c, namespace: team, uid: c-uid, generation: 2, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {resourceRef: {apiVersion: example.org/v1, kind: XDatabase, name: db}}
status: {conditions: [{type: Synced, status: "True", observedGeneration: 2}, {type: Ready, status: "True"}]}`)
		return fx.With(o, append([]fx.Mod{fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "2"), fx.Controllers(fx.Crossplane)}, mods...)...)
	}
	xr := fx.With(fx.Composite(), fx.Set(map[string]any{"apiVersion": "example.org/v1", "kind": "Database", "namespace": "team", "name": "c"}, "spec", "claimRef"))
	cases := map[string]struct {
		reason  string
		claim   *unstructured.Unstructured
		change  fx.Mod
		manager string
		want    wantedOutcome
	}{
		"Sync": {reason: "the Claim settled: drift", claim: claim(), change: fx.Set("l", "spec", "size"),
			manager: "apiextensions.crossplane.io/claim", want: refused(outcome.ClassDrift, outcome.ReasonDrift, 403)},
		"SyncMachinery": {reason: "machinery included: a Manual revision travels that way", claim: claim(),
			change: fx.Set("db-rev-3", "spec", "compositionRevisionRef", "name"), manager: "apiextensions.crossplane.io/claim",
			want: refused(outcome.ClassDrift, outcome.ReasonDrift, 403)},
		"Machinery": {reason: "by Crossplane's own manager it is self", claim: claim(),
			change: fx.Set("db-rev-3", "spec", "compositionRevisionRef", "name"), manager: "apiextensions.crossplane.io/composite",
			want: allowed(outcome.ClassSelf, outcome.ReasonSelf)},
		"Binary": {reason: "by its binary's name too", claim: claim(),
			change: fx.Set("db-rev-3", "spec", "compositionRevisionRef", "name"), manager: "crossplane", want: allowed(outcome.ClassSelf, outcome.ReasonSelf)},
		"NotBack": {reason: "a Claim that names another XR is not its parent, and exists",
			claim: claim(fx.Set("other", "spec", "resourceRef", "name")), change: fx.Set("l", "spec", "size"), manager: "apiextensions.crossplane.io/claim",
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonNoParent)},
		"Person": {reason: "a person may edit the XR", claim: claim(), change: fx.Set("l", "spec", "size"), manager: "kubectl",
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonNewOrigin)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.add(tc.claim)
			req := by(byCrossplane(Update, xr, tc.change), fx.Crossplane, tc.manager)
			if tc.manager == "kubectl" {
				req.User = fx.Alice
			}
			d := decide(t, w, enforced(), req)
			if got := outcomeOf(d); got != tc.want {
				t.Errorf("%s: want %+v, got %+v: %s", tc.reason, tc.want, got, d.Message)
			}
		})
	}
}

// Self writes (KR-01-06, KR-01-07, KR-04-07).
func TestSelf(t *testing.T) {
	nested := fx.With(fx.Composite(), fx.Set("child", "metadata", "name"), fx.Set("child-uid", "metadata", "uid"), func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"apiVersion": "example.org/v1", "kind": "XDatabase", "name": "db",
			"uid": "xr-uid", "controller": true}}, "metadata", "ownerReferences")
		fx.Annotate(v1alpha1.AnnotationKeyUpdaters, fx.Crossplane.Hash())(o)
	})
	refs := fx.Set([]any{}, "spec", "resourceRefs")
	machineryOf := func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec") }
	personal := fx.Controllers(fx.Alice)
	cases := map[string]struct {
		reason  string
		object  *unstructured.Unstructured
		change  fx.Mod
		user    subject.User
		manager string
		opts    evaluating
		want    outcome.Class
	}{
		"LateInit": {reason: "the provider, by its hash", object: fx.Instance(), change: fx.Resize("l"), user: fx.Provider,
			manager: "provider", opts: Options{}, want: outcome.ClassSelf},
		"LateInitManager": {reason: "the provider, by a manager that writes the status",
			object: fx.With(fx.Instance(), fx.Controllers(), statusBy("provider")), change: fx.Resize("l"), user: fx.Provider,
			manager: "provider", opts: Options{}, want: outcome.ClassSelf},
		"Person": {reason: "a person who once edited the status is no controller", object: fx.With(fx.Instance(), personal),
			change: fx.Resize("l"), user: fx.Alice, manager: "kubectl", opts: Options{}, want: outcome.ClassNewOrigin},
		"ControllerUser": {reason: "unless --controller-users names the user", object: fx.With(fx.Instance(), personal), change: fx.Resize("l"),
			user: fx.Alice, manager: "kubectl", opts: stubs{controllerUser: func(n string) bool { return n == "alice" }}, want: outcome.ClassSelf},
		"Refs": {reason: "machinery by Crossplane's manager", object: fx.Composite(), change: refs, user: fx.Crossplane,
			manager: "apiextensions.crossplane.io/composite", opts: Options{}, want: outcome.ClassSelf},
		"RefsByPerson": {reason: "machinery by another user is an intent", object: fx.Composite(), change: refs, user: fx.Alice,
			manager: "kubectl", opts: Options{}, want: outcome.ClassNewOrigin},
		"FirstSpec": {reason: "machinery is all that a spec holds: still machinery",
			object: fx.With(fx.Composite(), machineryOf, fx.Controllers()),
			change: fx.Set([]any{map[string]any{"kind": "A"}}, "spec", "crossplane", "resourceRefs"), user: fx.Crossplane,
			manager: "apiextensions.crossplane.io/composite", opts: Options{}, want: outcome.ClassSelf},
		"MoreThanRefs": {reason: "more than machinery", object: fx.Composite(),
			change: func(o *unstructured.Unstructured) { refs(o); fx.Set("l", "spec", "size")(o) }, user: fx.Alice,
			manager: "apiextensions.crossplane.io/composite", opts: Options{}, want: outcome.ClassNewOrigin},
		"Nested": {reason: "a nested composite's machinery is self", object: nested, change: refs, user: fx.Crossplane,
			manager: "apiextensions.crossplane.io/composite", opts: Options{}, want: outcome.ClassSelf},
		"NestedComposed": {reason: "its composed apply is the parent's controller's", object: nested,
			change: fx.Set("l", "spec", "size"), user: fx.Crossplane, manager: fx.ComposedManager, opts: Options{}, want: outcome.ClassDrift},
		"NestedOwnManager": {reason: "the field manager distinguishes the two roles", object: nested, change: fx.Set("l", "spec", "size"),
			user: fx.Crossplane, manager: "apiextensions.crossplane.io/composite", opts: Options{}, want: outcome.ClassSelf},
		"NestedUnknown": {reason: "machinery alone is self, whichever hat", object: nested, change: refs, user: fx.Crossplane,
			opts: Options{}, want: outcome.ClassSelf},
		"OtherWriter": {reason: "another controller", object: fx.Instance(), change: fx.Resize("l"), user: fx.ArgoCD, manager: "argocd",
			opts: Options{}, want: outcome.ClassNewOrigin},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{}.world()
			d := decide(t, w, tc.opts, by(byCrossplane(Update, tc.object, tc.change), tc.user, tc.manager))
			if d.Class != tc.want {
				t.Errorf("%s: want %s, got %s (%s)", tc.reason, tc.want, d.Class, d.Reason)
			}
			if d.Class == outcome.ClassSelf {
				if _, touched := d.Annotations[v1alpha1.AnnotationKeyTrace]; touched || d.Gate != nil {
					t.Errorf("%s: a self write touches trace or gate: %s", tc.reason, text(d.Annotations))
				}
			}
		})
	}
}

func statusBy(manager string) fx.Mod {
	return func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"manager": manager, "operation": "Update", "subresource": "status",
			"time": "2026-01-01T00:00:00Z", "fieldsV1": map[string]any{}}}, "metadata", "managedFields")
	}
}

// A controller that is its child's own controller as well: the Deployment
// controller never is, but one controller for two kinds may be (KR-04-07).
func TestBothControllers(t *testing.T) {
	d, rs := fx.DeploymentAndReplicaSet()
	rs = fx.With(rs, fx.Controllers(fx.Deployer))
	w := newWorld()
	w.add(d)
	if got := decide(t, w, Options{}, by(byCrossplane(Update, rs, fx.Set(int64(9), "spec", "replicas")), fx.Deployer, "")); got.Class != outcome.ClassDrift {
		t.Errorf("the parent's controller comes first: got %s", got.Class)
	}
	w.add(fx.With(d, fx.Controllers(subject.User{Name: "other"})))
	if got := decide(t, w, Options{}, by(byCrossplane(Update, rs, fx.Set(int64(9), "spec", "replicas")), fx.Deployer, "")); got.Class != outcome.ClassSelf {
		t.Errorf("not the parent's controller: got %s", got.Class)
	}
}

// /scale is always an intent, never self (KR-01-09).
func TestScale(t *testing.T) {
	d, rs := fx.DeploymentAndReplicaSet()
	rs = fx.With(rs, fx.Controllers(fx.ArgoCD))
	w := newWorld()
	w.add(d)
	req := by(byCrossplane(Update, rs, fx.Set(int64(9), "spec", "replicas")), fx.ArgoCD, "")
	req.Subresource = SubresourceScale
	got := decide(t, w, enforced(), req)
	if got.Class != outcome.ClassNewOrigin || !got.Allowed || len(got.Annotations) > 0 {
		t.Errorf("got %+v, edits %s", outcomeOf(got), text(got.Annotations))
	}
}

// The latch: once settled, a flap does not open the window again
// (KR-03-04, KR-03-05, KR-01-08).
func TestSettled(t *testing.T) {
	flapping := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{
			map[string]any{"type": "Synced", "status": "True", "observedGeneration": int64(7)},
			map[string]any{"type": "Ready", "status": "False"}}, "status", "conditions")
	}
	older := fx.Set([]any{map[string]any{"type": "Synced", "status": "True", "observedGeneration": int64(4)}}, "status", "conditions")
	never := fx.Unannotate(v1alpha1.AnnotationKeySettledGeneration)
	cases := map[string]struct {
		reason string
		xr     []fx.Mod
		latch  int64
		opts   Options
		want   outcome.Class
	}{
		"Settled": {reason: "at the intent", latch: -1, opts: Options{}, want: outcome.ClassDrift},
		"Flap": {reason: "Ready flips: a latch is a latch", xr: []fx.Mod{flapping}, latch: -1, opts: Options{},
			want: outcome.ClassDrift},
		"NewIntent": {reason: "an intent past the latch", xr: []fx.Mod{fx.Unsettled}, latch: -1, opts: Options{}, want: outcome.ClassExpected},
		"Bump": {reason: "Crossplane bumps the generation: no intent", xr: []fx.Mod{fx.Set(int64(12), "metadata", "generation")},
			latch: -1, opts: Options{}, want: outcome.ClassDrift},
		"Memory": {reason: "known from memory before it is stored", xr: []fx.Mod{never}, latch: 5, opts: Options{},
			want: outcome.ClassDrift},
		"MemoryOld": {reason: "memory of an older one", xr: []fx.Mod{fx.Unsettled}, latch: 7, opts: Options{}, want: outcome.ClassExpected},
		"Never":     {reason: "never settled", xr: []fx.Mod{never}, latch: -1, opts: Options{}, want: outcome.ClassExpected},
		"Past": {reason: "settled past the intent", xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "9")},
			latch: -1, opts: Options{}, want: outcome.ClassDrift},
		"Observed": {reason: "--expect-until=observed: observed is enough", xr: []fx.Mod{never}, latch: -1,
			opts: Options{ExpectUntil: ExpectUntilObserved}, want: outcome.ClassDrift},
		"ObservedBehind": {reason: "--expect-until=observed: not observed", xr: []fx.Mod{never, older}, latch: -1,
			opts: Options{ExpectUntil: ExpectUntilObserved}, want: outcome.ClassExpected},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: tc.xr}.world()
			w.latch = tc.latch
			if d := decide(t, w, tc.opts, byCrossplane(Update, fx.Instance(), fx.Resize("l"))); d.Class != tc.want {
				t.Errorf("%s: want %s, got %s (%s)", tc.reason, tc.want, d.Class, d.Reason)
			}
		})
	}
}

// A label by who owns the parent's spec is no intent where what it was when it
// settled is stored, whatever is done to a child; a change of the spec is (KR-01-11).
func TestSettledState(t *testing.T) {
	labelled := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"manager": "argocd", "operation": "Apply",
			"time": fx.Noon.Add(time.Minute).Format(time.RFC3339),
			"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:team": map[string]any{}}},
				"f:spec": map[string]any{"f:size": map[string]any{}}}}}, "metadata", "managedFields")
	}
	recorded := func(o *unstructured.Unstructured) {
		fx.Annotate(v1alpha1.AnnotationKeySettledState, parent.Sum(o, parent.RoleComposite).SettledState(5))(o)
	}
	upgraded := fx.Set(map[string]any{"name": "db-rev-3"}, "spec", "compositionRevisionRef")
	cases := map[string]struct {
		reason string
		xr     []fx.Mod
		want   outcome.Class
	}{
		"Label": {reason: "and Crossplane's machinery moved the generation", xr: []fx.Mod{recorded, labelled, upgraded},
			want: outcome.ClassDrift},
		"Absent": {reason: "nothing is stored: managedFields decide", xr: []fx.Mod{labelled, upgraded}, want: outcome.ClassExpected},
		"Changed": {reason: "the spec, with a label or without", xr: []fx.Mod{recorded, labelled, fx.Set("l", "spec", "size")},
			want: outcome.ClassExpected},
		"NewField": {reason: "or a field of it that was not there", xr: []fx.Mod{recorded, labelled, fx.Set("b", "spec", "zone")},
			want: outcome.ClassExpected},
		"Later": {reason: "an intent that is in the trace has not settled", xr: []fx.Mod{recorded, labelled, fx.Unsettled},
			want: outcome.ClassExpected},
		"Forged": {reason: "another user's digest",
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeySettledState, "5,0123456789abcdef"), labelled}, want: outcome.ClassExpected},
	}
	for name, tc := range cases {
		for _, req := range []*Request{byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			byCrossplane(Delete, fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan))), byCrossplane(Create, fx.Unmasked())} {
			t.Run(name+string(req.Operation), func(t *testing.T) {
				if req.Operation == Delete {
					req = by(req, fx.Crossplane, "")
				}
				if d := decide(t, setting{xr: tc.xr}.world(), Options{}, req); d.Class != tc.want {
					t.Errorf("%s: want %s, got %s (%s)", tc.reason, tc.want, d.Class, d.Reason)
				}
			})
		}
	}
}

// Children that change without a change of their parent's spec are never drift (KR-04-13).
func TestFollowsTheWorld(t *testing.T) {
	gvk := func(group, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
	}
	cases := map[string]struct {
		child, owner schema.GroupVersionKind
		op           Operation
		replicas     any
		want         bool
	}{
		"PodOfReplicaSet":  {child: gvk("", "Pod"), owner: gvk("apps", "ReplicaSet"), op: Create, want: true},
		"PodOfStatefulSet": {child: gvk("", "Pod"), owner: gvk("apps", "StatefulSet"), op: Delete, want: true},
		"PodOfDaemonSet":   {child: gvk("", "Pod"), owner: gvk("apps", "DaemonSet"), op: Update, want: true},
		"PodOfJob":         {child: gvk("", "Pod"), owner: gvk("batch", "Job"), op: Create, want: true},
		"PodOfOther":       {child: gvk("", "Pod"), owner: gvk("example.org", "Pool"), op: Create},
		"JobOfCronJob":     {child: gvk("batch", "Job"), owner: gvk("batch", "CronJob"), op: Create, want: true},
		"JobOfOther":       {child: gvk("batch", "Job"), owner: gvk("example.org", "Batch"), op: Create},
		"ReplicaSetWithNone": {child: gvk("apps", "ReplicaSet"), owner: gvk("apps", "Deployment"), op: Delete,
			replicas: int64(0), want: true},
		"ReplicaSetWithNoneFloat": {child: gvk("apps", "ReplicaSet"), owner: gvk("apps", "Deployment"), op: Delete, replicas: 0.0,
			want: true},
		"ReplicaSetWithSome": {child: gvk("apps", "ReplicaSet"), owner: gvk("apps", "Deployment"), op: Delete,
			replicas: int64(1)},
		"ReplicaSetDefault": {child: gvk("apps", "ReplicaSet"), owner: gvk("apps", "Deployment"), op: Delete},
		"ReplicaSetUpdate": {child: gvk("apps", "ReplicaSet"), owner: gvk("apps", "Deployment"), op: Update,
			replicas: int64(0)},
		"ForeignPod": {child: gvk("example.org", "Pod"), owner: gvk("apps", "ReplicaSet"), op: Create},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "p", "uid": "p", "generation": int64(1)},
				"status": map[string]any{}}}
			p.SetGroupVersionKind(tc.owner)
			c := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "c", "generation": int64(1)}, "spec": map[string]any{"x": "y"}}}
			c.SetGroupVersionKind(tc.child)
			if tc.replicas != nil {
				fx.Set(tc.replicas, "spec", "replicas")(c)
			}
			_ = unstructured.SetNestedSlice(c.Object, []any{map[string]any{"apiVersion": p.GetAPIVersion(), "kind": p.GetKind(), "name": "p",
				"uid": "p", "controller": true}}, "metadata", "ownerReferences")
			w := newWorld()
			w.add(fx.With(p, fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "1", v1alpha1.AnnotationKeyPhase, "initialized"),
				fx.Controllers(fx.Deployer)))
			req := by(byCrossplane(tc.op, c, fx.Set("z", "spec", "x")), fx.Deployer, "")
			want := outcome.ClassDrift
			if tc.want {
				want = outcome.ClassExpected
			}
			if d := decide(t, w, Options{}, req); d.Class != want {
				t.Errorf("want %s, got %s", want, d.Class)
			}
		})
	}
}

// The composition function is certain to be the parent's controller.
func TestActorGiven(t *testing.T) {
	w := setting{prep: func(w *memoryWorld) {
		w.kinds[schema.GroupKind{Group: "aws.example.org", Kind: "Instance"}] = identity.Kind{Role: parent.RoleManaged}
	}}.world()
	req := by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), subject.User{}, "")
	req.Actor = ActorParentController
	if d := decide(t, w, Options{}, req); d.Class != outcome.ClassDrift {
		t.Errorf("got %s (%s)", d.Class, d.Reason)
	}
}
