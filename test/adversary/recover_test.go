package adversary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// recover: hans's next change of each object reaches the cloud without any repair, unless what the adversaries were allowed to do stops it,
// and a refusal, the object or a report shows that. Once hans has undone it, it does.
func (r *run) recover(ctx context.Context) error {
	if err := r.findWaiting(ctx); err != nil {
		return err
	}
	want, err := r.resize(ctx, true)
	if err != nil {
		return err
	}
	if err := controlplane.Eventually(ctx, "hans's changes to reach the cloud, or to be stopped for a reason that is shown", patience,
		func(ctx context.Context) error { return r.arrived(ctx, want, r.reason) }); err != nil {
		return err
	}
	if err := controlplane.Eventually(ctx, "hans to restore what he can", patience, r.restore); err != nil {
		return fmt.Errorf("%w; Databases: %s", err, r.stored())
	}
	if err := controlplane.Eventually(ctx, "hans's changes to be taken", patience, func(ctx context.Context) (err error) {
		want, err = r.resize(ctx, false)
		return err
	}); err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "hans's changes to reach the cloud", patience, func(ctx context.Context) error {
		return r.arrived(ctx, want, func(ctx context.Context, name string) (string, error) {
			if why, err := r.reason(ctx, name); why != "" && r.approvedXR && name == r.managed || err != nil {
				return why, err // the approved deletion of the composite is still to come
			}
			return "", errors.Join(r.refer(ctx), r.approvePending(ctx, name))
		})
	})
}

// resize each Database that is alive, as hans. Where it may be refused, a refusal has a reason, and what is refused need not arrive.
func (r *run) resize(ctx context.Context, mayBeRefused bool) (map[string]int64, error) {
	want := map[string]int64{}
	for _, name := range r.alive() {
		size := r.size(story.Hans)
		g, target, body := story.Databases, name, `{"spec":{"forProvider":{"size":%d}}}`
		if name == r.managed {
			g, target, body = story.XDatabases, composite, `{"spec":{"size":%d}}`
		}
		err := r.merge(ctx, story.Hans, g, target, body, size)
		if refused := (&kerrors.StatusError{}); mayBeRefused && errors.As(err, &refused) && strings.Contains(err.Error(), "admission webhook") {
			r.note("hans's change of %s is refused: %.300s", target, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		want[name] = size
	}
	return want, nil
}

// arrived: the Databases outside have their sizes, but for those that are stopped for a reason.
func (r *run) arrived(ctx context.Context, want map[string]int64, reason func(context.Context, string) (string, error)) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		d, err := the.Cloud.Get(ctx, name)
		if err != nil {
			return errors.Join(err, r.follow(ctx, want))
		}
		if d.Size == want[name] {
			continue
		}
		why, err := reason(ctx, name)
		if why != "" {
			r.note("%s is stopped: %s", name, why)
			delete(want, name)
			continue
		}
		o, missing := r.of("", story.Databases).Get(ctx, name, metav1.GetOptions{})
		return errors.Join(err, missing, fmt.Errorf("%s has size %d, want %d: %v", name, d.Size, want[name], o))
	}
	return nil
}

// follow makes the Database that the composite refers to the managed one, where an adversary deleted that by the approved deletion of the
// composite: Crossplane composes it again, with another name where its labels changed.
func (r *run) follow(ctx context.Context, want map[string]int64) error {
	size, wanted := want[r.managed]
	if _, err := r.of("", story.Databases).Get(ctx, r.managed, metav1.GetOptions{}); !wanted || !r.approvedXR || !kerrors.IsNotFound(err) {
		return nil
	}
	xr, err := r.of("", story.XDatabases).Get(ctx, composite, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if names := databasesOf(xr); len(names) == 1 && names[0] != r.managed {
		r.note("%s is composed as %s after its approved deletion", r.managed, names[0])
		delete(want, r.managed)
		r.former, r.managed, want[names[0]] = append(r.former, r.managed), names[0], size
	}
	return nil
}

// reason why a change does not reach the database outside: what editors may do, as the objects show it, or a difference that is reported and
// waits for an approval.
func (r *run) reason(ctx context.Context, name string) (string, error) {
	o, err := r.of("", story.Databases).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	author, masked := mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies])
	if !masked {
		author = story.Policies(o)
	}
	switch {
	case paused(o):
		return "it is paused", nil
	case !slices.Contains(author, "*") && !slices.Contains(author, "Update"):
		return fmt.Sprintf("its author's managementPolicies are %v", author), nil
	case o.GetAnnotations()[v1alpha1.AnnotationKeyExternalName] != name:
		return "its external name is another", nil
	case slices.Contains(mask.ParseGate(o.GetAnnotations()).Verbs, v1alpha1.VerbDelete):
		return "its gate is open for an approved deletion, which comes first (KR-08-02)", nil
	}
	if name == r.managed {
		xr, err := r.of("", story.XDatabases).Get(ctx, composite, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		switch owner := metav1.GetControllerOf(o); {
		case paused(xr):
			return "its composite is paused", nil
		case xr.GetDeletionTimestamp() != nil:
			return "its composite is being deleted", nil
		case owner == nil || owner.UID != xr.GetUID():
			return "its composite is not its controller", nil
		case o.GetAnnotations()[v1alpha1.AnnotationKeyCompositionResourceName] != "database" || !refers(xr, name):
			return "its composite does not refer to it", nil
		}
		if nameless, err := r.nameless(ctx); nameless != "" || err != nil {
			return nameless, err
		}
	}
	pending, err := r.pending(ctx, name)
	if err != nil || len(pending) == 0 {
		return "", err
	}
	return "a difference is reported: " + pending[0][0], nil
}

// nameless: what Crossplane composes next to the Database and has no resource name, or is a user's who created it when that was gone.
// Crossplane composes nothing then, as the condition Synced of the composite shows.
func (r *run) nameless(ctx context.Context) (string, error) {
	for _, t := range []target{{story.Settings, r.setting}, {secrets, "login"}} {
		switch o, err := r.of("", t.resource).Get(ctx, t.name, metav1.GetOptions{}); {
		case kerrors.IsNotFound(err):
		case err != nil:
			return "", err
		case o.GetAnnotations()[v1alpha1.AnnotationKeyCompositionResourceName] == "":
			return fmt.Sprintf("Crossplane composes nothing: %s has no resource name", t.name), nil
		}
	}
	return "", nil
}

// running is a patch that ends the pause of a managed resource or a composite.
const running = `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`

func paused(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()["crossplane.io/paused"] == "true"
}

// refers reports whether a composite refers to a Database of a name, and to no other.
func refers(xr *unstructured.Unstructured, name string) bool {
	return slices.Equal(databasesOf(xr), []string{name})
}

// databasesOf returns the names of the Databases that a composite refers to.
func databasesOf(xr *unstructured.Unstructured) (names []string) {
	refs, _, _ := unstructured.NestedSlice(xr.Object, "spec", "crossplane", "resourceRefs")
	for _, ref := range refs {
		if ref, ok := ref.(map[string]any); ok && ref["kind"] == "Database" {
			name, _ := ref["name"].(string)
			names = append(names, name)
		}
	}
	return names
}

// pending are the commands of external drifts of a Database that wait for an approval.
func (r *run) pending(ctx context.Context, name string) (commands [][]string, err error) {
	list, err := r.of("", story.Drifts).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		child, _, _ := unstructured.NestedString(o.Object, "spec", "child", "name")
		relation, _, _ := unstructured.NestedString(o.Object, "spec", "relation")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		suggestion, _, _ := unstructured.NestedString(o.Object, "spec", "suggestedApproval")
		m := command.FindStringSubmatch(suggestion)
		operation, _, _ := unstructured.NestedString(o.Object, "spec", "operation")
		if child == name && relation == "External" && operation != "DELETE" && phase == "Detected" && m != nil {
			commands = append(commands, m)
		}
	}
	return commands, nil
}

// approvePending: alice approves the external drift that hans's change waits for, if there is one, with the command
// of its report. A Database that was pointed elsewhere and back may differ from what hans requests before its
// provider has reported on it.
func (r *run) approvePending(ctx context.Context, name string) error {
	commands, err := r.pending(ctx, name)
	if err != nil {
		return err
	}
	for _, m := range commands {
		g := story.Databases
		if m[3] == composite {
			g = story.XDatabases
		}
		r.reverted[name] = true
		if err := r.merge(ctx, story.Alice, g, m[3], `{"metadata":{"annotations":{%q:%q}}}`, m[4], m[5]); err != nil {
			return err
		}
	}
	return nil
}

// finish what was approved: hans deletes the composite, and nothing of it remains. What an adversary pointed elsewhere meanwhile was not
// approved, and is deleted by itself.
func (r *run) finish(ctx context.Context) error {
	if !r.approvedXR || r.waiting[r.managed] {
		return nil
	}
	return controlplane.EventuallyEvery(ctx, time.Second, "the composite and its database to go", patience, func(ctx context.Context) error {
		if err := r.deleteApproved(ctx, story.XDatabases, composite); err != nil {
			return err
		}
		if err := r.deleteApproved(ctx, story.Databases, r.managed); err != nil {
			return err
		}
		if _, err := the.Cloud.Get(ctx, r.managed); err == nil {
			return fmt.Errorf("the cloud has %s; Databases: %s", r.managed, r.stored())
		}
		return nil
	})
}

// deleteApproved deletes an object as hans, with the approvals that a refusal suggests. It is an error as long as the object exists.
func (r *run) deleteApproved(ctx context.Context, g schema.GroupVersionResource, name string) error {
	err := r.of(story.Hans, g).Delete(ctx, name, metav1.DeleteOptions{})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if m := command.FindStringSubmatch(fmt.Sprint(err)); kerrors.IsForbidden(err) && m != nil {
		holder := story.Databases
		if m[3] == composite {
			holder = story.XDatabases
		}
		for _, who := range r.approvers() {
			err = errors.Join(err, r.merge(ctx, who, holder, m[3], `{"metadata":{"annotations":{%q:%q}}}`, m[4], m[5]))
		}
	}
	if strings.Contains(fmt.Sprint(err), "ParentUnreadable") { // an adversary gave it an owner that does not exist
		err = errors.Join(err, r.merge(ctx, story.Hans, g, name, "%s", withoutParent))
	}
	o, missing := r.of("", g).Get(ctx, name, metav1.GetOptions{})
	if missing != nil {
		return errors.Join(err, missing)
	}
	const foreign = "example.org/mine" // of an adversary; a provider waits until no other finalizer than its own is left
	if left := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == foreign }); len(left) < len(o.GetFinalizers()) {
		raw, _ := json.Marshal(left) //nolint:errchkjson // They are texts.
		err = errors.Join(err, r.merge(ctx, story.Hans, g, name, `{"metadata":{"finalizers":%s}}`, raw))
	}
	if paused(o) { // an adversary may do so, and a provider deletes nothing then
		err = errors.Join(err, r.merge(ctx, story.Hans, g, name, "%s", running))
	}
	return errors.Join(err, fmt.Errorf("%s exists; Databases: %s", name, r.stored()))
}

// alive are the Databases that hans can restore.
func (r *run) alive() []string {
	return slices.DeleteFunc([]string{r.managed, r.prod()}, func(name string) bool { return r.waiting[name] || name == r.managed && r.goes })
}

// findWaiting finds the Databases that were paused with [], and then deleted: nothing happens outside until
// their managementPolicies are changed, and that is refused (KR-13-60), unless the deletion was approved.
func (r *run) findWaiting(ctx context.Context) error {
	r.waiting = map[string]bool{}
	xr, err := r.of("", story.XDatabases).Get(ctx, composite, metav1.GetOptions{})
	if err != nil && !(r.approvedXR && kerrors.IsNotFound(err)) {
		return err
	}
	r.goes = err != nil || xr.GetDeletionTimestamp() != nil
	if r.goes && !r.approvedXR {
		r.fail("the deletion of the composite was not approved")
	}
	for _, name := range r.alive() {
		o, err := r.of("", story.Databases).Get(ctx, name, metav1.GetOptions{})
		if kerrors.IsNotFound(err) && r.mayGo(name) { // the approval of its composite's deletion is one of its own
			r.note("%s is gone, as was approved", name)
			r.goes = true
			continue
		}
		if err != nil {
			return err
		}
		if o.GetDeletionTimestamp() == nil || len(story.Policies(o)) > 0 {
			continue
		}
		r.waiting[name] = true
		r.note("%s waits to be deleted", name)
		err = r.merge(ctx, story.Hans, story.Databases, name, `{"spec":{"managementPolicies":["*"]}}`)
		switch {
		case err == nil && r.mayGo(name):
			r.note("%s is resumed, and goes, as was approved", name)
			delete(r.waiting, name)
			r.goes = true
		case err == nil:
			return fmt.Errorf("resuming the deletion of %s is not refused", name)
		case !strings.Contains(err.Error(), "ExternalDeletionNotAllowed"):
			return fmt.Errorf("resume the deletion of %s: %w", name, err)
		}
	}
	return nil
}

// stored Databases, for messages.
func (r *run) stored() string {
	list, err := r.of("", story.Databases).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, o := range list.Items {
		fmt.Fprintf(&out, "%s policies %v annotations %v deleted %v owners %v; ", o.GetName(), story.Policies(&o), o.GetAnnotations(), o.GetDeletionTimestamp(),
			o.GetOwnerReferences())
	}
	return out.String()
}

// withoutParent of an object, which the writer declares.
const withoutParent = `{"metadata":{"ownerReferences":null,"annotations":{"kausality.io/parent":"none"}}}`

// restore what editors may set and what stops a provider or Crossplane, as hans: the
// refusals and conditions name it.
func (r *run) restore(ctx context.Context) error {
	// An annotation that is stored declares nothing about another write.
	const again = `{"metadata":{"annotations":{"kausality.io/parent":null}}}`
	for t, bodies := range map[target][]string{
		{story.XDatabases, composite}: {again, withoutParent, running}, {story.Databases, r.prod()}: {again, withoutParent, running},
		{story.Databases, r.managed}: {running},
	} {
		if alive := r.alive(); !slices.Contains(alive, t.name) && !(t.name == composite && slices.Contains(alive, r.managed)) {
			continue
		}
		for _, body := range bodies {
			if err := r.merge(ctx, story.Hans, t.resource, t.name, "%s", body); err != nil {
				return err
			}
		}
	}
	if err := r.refer(ctx); err != nil {
		return err
	}
	for _, name := range r.alive() {
		o, err := r.of("", story.Databases).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if o.GetAnnotations()[v1alpha1.AnnotationKeyExternalName] != name {
			if err := r.merge(ctx, story.Hans, story.Databases, name, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationKeyExternalName, name); err != nil {
				return err
			}
		}
		author, masked := mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies])
		if !masked || !slices.Equal(author, []string{"*"}) {
			if err := r.merge(ctx, story.Hans, story.Databases, name, `{"spec":{"managementPolicies":["*"]}}`); err != nil {
				return err
			}
		}
	}
	return nil
}

// refer from the composite to its Database, and name what is composed: otherwise Crossplane composes another one, which is held, or, if one
// has no name, composes nothing. One without a name may be a user's, who created it when the composed one was gone. What Crossplane composed
// just before that from what it had read is written afterwards, so that both may be lost again.
func (r *run) refer(ctx context.Context) error {
	if !slices.Contains(r.alive(), r.managed) {
		return nil
	}
	for t, name := range map[target]string{{story.Databases, r.managed}: "database", {story.Settings, r.setting}: "settings", {secrets, "login"}: "login"} {
		err := r.merge(ctx, story.Hans, t.resource, t.name, `{"metadata":{"annotations":{"crossplane.io/composition-resource-name":%q}}}`, name)
		if err != nil && (t.name == r.managed || !kerrors.IsNotFound(err)) {
			return err
		}
	}
	o, err := r.of("", story.XDatabases).Get(ctx, composite, metav1.GetOptions{})
	if err != nil || refers(o, r.managed) {
		return err
	}
	const refs = `{"spec":{"crossplane":{"resourceRefs":[{"apiVersion":"cloud.example.org/v1alpha1","kind":"Database","name":%q},` +
		`{"apiVersion":"kubernetes.m.crossplane.io/v1alpha1","kind":"Object","name":%q},{"apiVersion":"v1","kind":"Secret","name":"login"}]}}}`
	return r.merge(ctx, story.Hans, story.XDatabases, composite, refs, r.managed, r.setting)
}

// leave nothing that the next round has to poll.
func (r *run) leave(ctx context.Context) error {
	orphan := `{"metadata":{"annotations":{"kausality.io/deletion":"orphan"}}}`
	for _, g := range []schema.GroupVersionResource{story.Databases, story.Settings} {
		list, err := r.of("", g).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if err := r.merge(ctx, story.Alice, g, o.GetName(), "%s", orphan); err != nil && !kerrors.IsNotFound(err) {
				return err
			}
		}
	}
	return r.clients[""].Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Delete(ctx, r.ns, metav1.DeleteOptions{})
}
