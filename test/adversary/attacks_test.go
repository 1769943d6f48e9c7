package adversary

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// play the steps of the adversaries. What is refused is expected.
func (r *run) play(ctx context.Context) error {
	for range steps {
		r.step(ctx)
		pause := time.NewTimer(time.Duration(r.rng.IntN(150)) * time.Millisecond)
		select { // the pace of the run; nothing is awaited here
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (r *run) step(ctx context.Context) {
	switch n := r.rng.IntN(100); {
	case n < 66:
		r.edit(ctx)
	case n < 74:
		r.remove(ctx)
	case n < 80:
		r.report(ctx)
	case n < 85:
		r.forge(ctx)
	case n < 89:
		r.tidy(ctx)
	case n < 91:
		r.policy(ctx)
	case n < 96:
		r.steal(ctx)
	case r.loud:
		r.intent(ctx)
	default:
		r.outside(ctx)
	}
}

// target of an edit.
type target struct {
	resource schema.GroupVersionResource
	name     string
}

func (r *run) target() target {
	return pick(r.rng, target{story.XDatabases, composite}, target{story.XDatabases, composite}, target{story.Databases, r.managed},
		target{story.Databases, r.managed}, target{story.Databases, r.prod()}, target{story.Databases, r.scratch()}, target{story.Settings, r.setting},
		target{secrets, "login"})
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// intended is the target of an intent: a kind that has a size.
func (r *run) intended() target {
	return pick(r.rng, target{story.XDatabases, composite}, target{story.Databases, r.managed}, target{story.Databases, r.prod()},
		target{story.Databases, r.scratch()})
}

// editor is one of the adversaries who may edit.
func (r *run) editor() string { return pick(r.rng, r.editors()...) }

// manager of fields: those of Crossplane, of providers, of Kausality, and honest ones.
func (r *run) manager() string {
	composed := subject.ComposedManager(composite, schema.GroupKind{Group: "example.org", Kind: "XDatabase"})
	return pick(r.rng, "kubectl", "kubectl-edit", "crossplane", "provider", "apiextensions.crossplane.io/composite", composed,
		"kausality-gate", "kausality", "crossplane-kubernetes-provider", strings.Repeat("m", 128))
}

// edit an object without stating an intent.
func (r *run) edit(ctx context.Context) {
	t, user := r.target(), r.editor()
	what, change := r.change(t)
	r.send(ctx, user, t, what, change)
}

// change that states no intent, as a merge patch.
func (r *run) change(t target) (what string, body map[string]any) {
	switch n := r.rng.IntN(100); {
	case n < 30:
		return r.annotation(systemAnnotations)
	case n < 50:
		return r.annotation(userAnnotations)
	case n < 62:
		return "owners", meta("ownerReferences", r.owners())
	case n < 72:
		return "managedFields", meta("managedFields", r.managedFields(t))
	case n < 76:
		return "finalizers", meta("finalizers", pick[any](r.rng, nil, []any{"example.org/mine"}))
	case n < 80:
		return "labels", meta("labels", map[string]any{pick(r.rng, "crossplane.io/composite", "crossplane.io/claim-name", "mine"): pick[any](r.rng, nil, "x")})
	case n < 84:
		return "pause", meta("annotations", map[string]any{"crossplane.io/paused": pick[any](r.rng, "true", "false", nil)})
	case n < 88:
		return "resource name", meta("annotations", map[string]any{"crossplane.io/composition-resource-name": pick[any](r.rng, "other", "database", nil)})
	case t.resource == story.Databases || t.resource == story.Settings:
		value := pick[any](r.rng, []any{}, []any{"Observe"}, []any{"*"}, []any{"Observe", "Create", "Update"}, nil)
		if r.rng.IntN(2) == 0 && t.resource == story.Databases {
			return r.externalName(t)
		}
		return fmt.Sprintf("policies=%v", value), map[string]any{"spec": map[string]any{"managementPolicies": value}}
	default:
		return "nothing", meta("annotations", map[string]any{"mine": fmt.Sprint(r.rng.IntN(9))})
	}
}

// externalName of a Database: none, that of another one, or one that is free; or all
// annotations are removed, and the name with them.
func (r *run) externalName(t target) (what string, body map[string]any) {
	if r.rng.IntN(6) == 0 {
		return "no annotations", meta("annotations", nil)
	}
	name := pick[any](r.rng, nil, r.managed, r.prod(), r.scratch(), r.ns+"-free")
	if name == t.name {
		name = nil
	}
	return fmt.Sprintf("external name=%v", name), meta("annotations", map[string]any{v1alpha1.AnnotationKeyExternalName: name})
}

func meta(field string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{field: value}}
}

// hop of a change of the composite that a user made.
func hop(user string) string {
	return fmt.Sprintf(`[{"apiVersion":"example.org/v1alpha1","kind":"XDatabase","name":"orders","generation":1,`+
		`"user":%q,"timestamp":"2026-01-01T00:00:00Z"}]`, user)
}

// systemAnnotations that an adversary would like to have.
var systemAnnotations = map[string][]any{
	v1alpha1.AnnotationKeyTrace:              {nil, `[]`, hop("hans@example.com"), hop("alice@example.com")}, // alice never made that change
	v1alpha1.AnnotationKeyAllowances:         {nil, `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`},
	v1alpha1.AnnotationKeyUpdaters:           {nil, "00000,11111"},
	v1alpha1.AnnotationKeyControllers:        {nil, "00000,11111,22222,33333,44444"},
	v1alpha1.AnnotationKeyControllerIDs:      {nil, "00000000000000000000000000000000"},
	v1alpha1.AnnotationKeyPhase:              {nil, "initializing", "deleting"},
	v1alpha1.AnnotationKeySettledGeneration:  {nil, "0", "99"},
	v1alpha1.AnnotationKeySettledState:       {nil, "1,0123456789abcdef"},
	v1alpha1.AnnotationKeyClaims:             {nil, `[]`},
	v1alpha1.AnnotationKeyManagementPolicies: {nil, `["*"]`, `["Observe"]`, `[]`},
	v1alpha1.AnnotationKeyGate:               {nil, `{"state":"open","verbs":["Create","Update","Delete"],"generation":99}`},
	v1alpha1.AnnotationKeyUsedApprovals:      {nil, "0123456789abcdef"},
	v1alpha1.AnnotationKeyHeld:               {nil, "{}"},
	v1alpha1.AnnotationKeySettledIntent:      {nil, "{}"},
	v1alpha1.AnnotationKeySettledFields:      {nil, "{}"},
	v1alpha1.AnnotationKeyFingerprint:        {nil, "0123456789"},
	v1alpha1.AnnotationKeyLastUpgrade:        {nil, "mine"},
	v1alpha1.AnnotationKeyAuthors:            {nil, `["mallory@example.com"]`},
	v1alpha1.AnnotationKeyExternalAuthor:     {nil, "mallory@example.com"},
	v1alpha1.AnnotationKeyInitialized:        {nil, "true"},
	v1alpha1.AnnotationKeyHeldCreations:      {nil, "{}"},
	v1alpha1.AnnotationKeyDerivedFrom:        {nil, "{}"},
	v1alpha1.AnnotationKeyRemoval:            {nil, "true"},
	v1alpha1.AnnotationKeyCrossplaneReads:    {nil, "2099-01-01T00:00:00Z"},
}

// userAnnotations, which require the verb approve here, as they are meant and not.
var userAnnotations = map[string][]any{
	v1alpha1.AnnotationKeyApprovals: {nil, `[{"kind":"*","name":"*","mode":"always"}]`,
		`[{"kind":"*","name":"*","relation":"External","verbs":["*"],"mode":"always"}]`, "{", strings.Repeat("- {kind: x}\n", 9000),
		"a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]", strings.Repeat("[", 5000)},
	v1alpha1.AnnotationKeyRejections: {nil, `[{"kind":"*","name":"*","reason":"mine"}]`},
	v1alpha1.AnnotationKeyFreeze:     {nil, "true", "false"},
	v1alpha1.AnnotationKeySnooze:     {nil, "2099-01-01T00:00:00Z"},
	v1alpha1.AnnotationKeyMode:       {nil, "log", "enforce"},
	v1alpha1.AnnotationKeyDeletion:   {nil, "orphan"},
}

func (r *run) annotation(of map[string][]any) (string, map[string]any) {
	key := pick(r.rng, slices.Sorted(maps.Keys(of))...)
	value := pick(r.rng, of[key]...)
	return fmt.Sprintf("%s=%.40v", key, value), meta("annotations", map[string]any{key: value})
}

// owners of an object, who are not its own.
func (r *run) owners() any {
	one := func(apiVersion, kind, name, uid string, controller bool) any {
		return []any{map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid, "controller": controller}}
	}
	return pick(r.rng, nil,
		one("example.org/v1alpha1", "XDatabase", "gone", "00000000-0000-0000-0000-000000000001", true),
		one("example.org/v1alpha1", "XDatabase", composite, "00000000-0000-0000-0000-000000000002", true),
		one("example.org/v1alpha1", "XDatabase", composite, r.uid(), r.rng.IntN(2) == 0),
		one("v1", "ConfigMap", "mine", "00000000-0000-0000-0000-000000000003", true))
}

// uid of the composite.
func (r *run) uid() string {
	o, err := r.of("", story.XDatabases).Get(r.t.Context(), composite, metav1.GetOptions{})
	if err != nil {
		return "00000000-0000-0000-0000-000000000004"
	}
	return string(o.GetUID())
}

func (r *run) managedFields(t target) any {
	at := time.Now().UTC().Add(time.Duration(r.rng.IntN(7200)-3600) * time.Second).Format(time.RFC3339)
	e := map[string]any{"manager": r.manager(), "operation": "Update", "apiVersion": t.resource.GroupVersion().String(), "fieldsType": "FieldsV1",
		"time": pick(r.rng, at, "2099-01-01T00:00:00Z"), "fieldsV1": map[string]any{"f:spec": map[string]any{"f:size": map[string]any{},
			"f:forProvider": map[string]any{"f:size": map[string]any{}}}}}
	if r.rng.IntN(3) == 0 {
		return []any{map[string]any{}}
	}
	if r.rng.IntN(3) == 0 {
		e["subresource"] = "status"
	}
	return []any{e}
}

// send a change in one of the ways that there are.
func (r *run) send(ctx context.Context, user string, t target, what string, body map[string]any) {
	c, manager := r.of(user, t.resource), r.manager()
	var dry []string
	if r.rng.IntN(10) == 0 {
		dry = []string{metav1.DryRunAll}
	}
	var subresource []string
	if r.rng.IntN(8) == 0 {
		subresource = []string{pick(r.rng, "status", "scale")}
	}
	var err error
	how := pick(r.rng, "merge", "merge", "json", "apply", "update")
	raw, _ := json.Marshal(body)
	if how == "apply" && strings.HasPrefix(manager, "apiextensions.crossplane.io/") {
		manager = "kubectl" // else it removes what Crossplane applied: see usurp
	}
	switch how {
	case "merge":
		_, err = c.Patch(ctx, t.name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: manager, DryRun: dry}, subresource...)
	case "json":
		_, err = c.Patch(ctx, t.name, types.JSONPatchType, jsonPatch(body), metav1.PatchOptions{FieldManager: manager, DryRun: dry}, subresource...)
	case "apply": // it removes what the manager applied before
		err = r.apply(ctx, c, t, body, metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: dry}, subresource...)
	case "update":
		err = r.update(ctx, c, t.name, body, metav1.UpdateOptions{FieldManager: manager, DryRun: dry}, subresource...)
	}
	r.note("%s %s %s %s by %.60s as %.50s %v%v: %s", how, t.resource.Resource, t.name, what, user, manager, subresource, dry, result(err))
}

func result(err error) string {
	if err == nil {
		return "done"
	}
	return fmt.Sprintf("%.160s", strings.ReplaceAll(err.Error(), "\n", " "))
}

// jsonPatch that sets each field of the second level, and each annotation and label.
func jsonPatch(body map[string]any) []byte {
	var ops []map[string]any
	set := func(path string, value any) {
		if value == nil {
			ops = append(ops, map[string]any{"op": "remove", "path": path})
			return
		}
		ops = append(ops, map[string]any{"op": "add", "path": path, "value": value})
	}
	for k, v := range body {
		for f, value := range v.(map[string]any) {
			inner, isMap := value.(map[string]any)
			if !isMap {
				set("/"+k+"/"+f, value)
			}
			for key, one := range inner {
				set("/"+k+"/"+f+"/"+strings.ReplaceAll(key, "/", "~1"), one)
			}
		}
	}
	raw, _ := json.Marshal(ops)
	return raw
}

func (r *run) apply(ctx context.Context, c dynamic.ResourceInterface, t target, body map[string]any, o metav1.ApplyOptions, sub ...string) error {
	kind := map[string]string{"xdatabases": "XDatabase", "databases": "Database", "objects": "Object", "secrets": "Secret"}[t.resource.Resource]
	u := &unstructured.Unstructured{Object: withoutNulls(body)}
	u.SetAPIVersion(t.resource.GroupVersion().String())
	u.SetKind(kind)
	u.SetName(t.name)
	_, err := c.Apply(ctx, t.name, u, o, sub...)
	return err
}

// withoutNulls of a copy of a merge patch.
func withoutNulls(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			out[k] = withoutNulls(v)
		default:
			out[k] = v
		}
	}
	return out
}

func (r *run) update(ctx context.Context, c dynamic.ResourceInterface, name string, body map[string]any, o metav1.UpdateOptions, sub ...string) error {
	u, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	mergeInto(u.Object, body)
	_, err = c.Update(ctx, u, o, sub...)
	return err
}

// mergeInto an object a merge patch.
func mergeInto(o, patch map[string]any) {
	for k, v := range patch {
		into, isMap := o[k].(map[string]any)
		switch p, is := v.(map[string]any); {
		case v == nil:
			delete(o, k)
		case is && isMap:
			mergeInto(into, p)
		default:
			o[k] = v
		}
	}
}

// remove objects, in all forms of DELETE.
func (r *run) remove(ctx context.Context) {
	t, user := r.target(), r.editor()
	o := metav1.DeleteOptions{PropagationPolicy: ptr.To(pick(r.rng, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan))}
	if r.rng.IntN(3) == 0 {
		o.GracePeriodSeconds = ptr.To(int64(0))
	}
	var err error
	how := "delete"
	if r.rng.IntN(5) == 0 {
		how = "deletecollection"
		err = r.of(user, t.resource).DeleteCollection(ctx, o, metav1.ListOptions{FieldSelector: "metadata.name=" + t.name})
	} else {
		err = r.of(user, t.resource).Delete(ctx, t.name, o)
	}
	r.note("%s %s %s (%s) by %s: %s", how, t.resource.Resource, t.name, *o.PropagationPolicy, user, result(err))
	if t.resource == secrets && r.rng.IntN(2) == 0 {
		r.occupy(ctx, user, t.name)
	}
}

// occupy the name of a Secret that was deleted with an empty one.
func (r *run) occupy(ctx context.Context, user, name string) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}}}
	_, err := r.of(user, secrets).Create(ctx, o, metav1.CreateOptions{FieldManager: r.manager()})
	r.note("create an empty secret %s by %s: %s", name, user, result(err))
}

// report a status that is not so, as a user who may.
func (r *run) report(ctx context.Context) {
	name := pick(r.rng, r.managed, r.prod(), r.scratch())
	body := pick(r.rng,
		map[string]any{"status": map[string]any{"atProvider": map[string]any{"size": r.rng.IntN(99)}}},
		map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": pick(r.rng, "Ready", "Synced"),
			"status": pick(r.rng, "True", "False"), "reason": "Mine", "observedGeneration": 99, "lastTransitionTime": "2026-01-01T00:00:00Z"}}}},
		map[string]any{"status": nil},
		meta("annotations", map[string]any{v1alpha1.AnnotationKeyGate: `{"state":"open","verbs":["Update"],"generation":99}`}))
	raw, _ := json.Marshal(body)
	user := pick(r.rng, oscar, edna)
	_, err := r.of(user, story.Databases).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: r.manager()}, "status")
	r.note("status of %s by %s: %s: %s", name, user, raw, result(err))
}

// policy of trudy's Namespace, for everything.
func (r *run) policy(ctx context.Context) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "ApprovalPolicy",
		"metadata": map[string]any{"name": fmt.Sprintf("mine-%d", r.rng.IntN(3))},
		"spec": map[string]any{"subjects": []any{map[string]any{"kind": "Group", "name": "system:authenticated"}},
			"rules": []any{map[string]any{"kind": "*", "mode": "always"}}}}}
	_, err := r.clients[trudy].Resource(policies).Namespace(r.other).Create(ctx, o, metav1.CreateOptions{})
	_, here := r.clients[trudy].Resource(policies).Namespace(r.ns).Create(ctx, o, metav1.CreateOptions{})
	r.note("policy by trudy: %s; in %s: %s", result(err), r.ns, result(here))
}

var policies = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "approvalpolicies"}

// steal an approval: write the command of a Drift, or another object's approval.
func (r *run) steal(ctx context.Context) {
	t := r.target()
	key := v1alpha1.AnnotationKeyApprovePrefix + "0123456789abcdef"
	if list, err := r.clients[mallory].Resource(story.Drifts).Namespace(r.ns).List(ctx, metav1.ListOptions{}); err == nil && len(list.Items) > 0 {
		text, _, _ := unstructured.NestedString(list.Items[r.rng.IntN(len(list.Items))].Object, "spec", "suggestedApproval")
		if m := command.FindStringSubmatch(text); m != nil {
			key = m[4]
		}
	}
	if len(r.approvals) > 0 && r.rng.IntN(2) == 0 {
		key = v1alpha1.AnnotationKeyApprovePrefix + pick(r.rng, slices.Sorted(maps.Values(r.approvals))...)
	}
	r.send(ctx, r.editor(), t, key, meta("annotations", map[string]any{key: pick[any](r.rng, "once", "always", "generation", nil)}))
}

// tidy Drifts away: delete one or all, or report one as resolved.
func (r *run) tidy(ctx context.Context) {
	c := r.of(dora, story.Drifts)
	if r.rng.IntN(3) == 0 {
		r.note("dora deletes all Drifts: %s", result(c.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})))
		return
	}
	list, err := c.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		r.note("dora finds no Drift: %s", result(err))
		return
	}
	name := list.Items[r.rng.IntN(len(list.Items))].GetName()
	if r.rng.IntN(2) == 0 {
		r.note("dora deletes Drift %s: %s", name, result(c.Delete(ctx, name, metav1.DeleteOptions{})))
		return
	}
	_, err = c.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Resolved"}}`), metav1.PatchOptions{}, "status")
	r.note("dora resolves Drift %s: %s", name, result(err))
}

// outside: something else changes in the cloud.
func (r *run) outside(ctx context.Context) {
	err := the.Cloud.Change(ctx, r.managed, map[string]any{"tags": map[string]string{"tier": "console"}})
	r.note("the cloud changes: %s", result(err))
}

// usurp what Crossplane applied, by an apply of nothing under its field manager.
func (r *run) usurp(ctx context.Context, user string) {
	t := pick(r.rng, target{story.XDatabases, composite}, target{story.Databases, r.managed})
	manager := "apiextensions.crossplane.io/composite"
	if t.resource == story.Databases {
		manager = subject.ComposedManager(composite, schema.GroupKind{Group: "example.org", Kind: "XDatabase"})
	}
	err := r.apply(ctx, r.of(user, t.resource), t, meta("annotations", map[string]any{"mine": "x"}), metav1.ApplyOptions{FieldManager: manager, Force: true})
	r.note("usurp %s %s by %s as %.50s: %s", t.resource.Resource, t.name, user, manager, result(err))
}

// intent: a change that mallory or ci may make, under their own names.
func (r *run) intent(ctx context.Context) {
	t, user := r.intended(), r.editor()
	if r.rng.IntN(3) == 0 {
		r.usurp(ctx, user)
		return
	}
	size, manager := r.size(user), r.manager()
	body := map[string]any{"spec": map[string]any{"forProvider": map[string]any{"size": size}}}
	if t.resource == story.XDatabases {
		body = map[string]any{"spec": map[string]any{"size": size}}
	}
	raw, _ := json.Marshal(body)
	_, err := r.of(user, t.resource).Patch(ctx, t.name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: manager})
	r.note("intent %s %s size %d by %s as %.50s: %s", t.resource.Resource, t.name, size, user, manager, result(err))
}
