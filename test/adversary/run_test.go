package adversary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/history"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// The users. hans states intents and alice approves; the others are adversaries.
const (
	mallory = "mallory@example.com" // edits
	trudy   = "trudy@example.com"   // edits, and writes policies, in another Namespace
	oscar   = "oscar@example.com"   // writes statuses of Databases
)

// ci is the ServiceAccount that mallory may impersonate.
func (r *run) ci() string { return "system:serviceaccount:" + r.ns + ":ci" }

// run of a seed, in Namespaces of its own.
type run struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	// ns has the objects; trudy has rights in other alone.
	ns, other string
	// loud: the adversaries state intents, too.
	loud bool
	// approved: alice approved the deletion of the Database scratch.
	approved bool
	// approval that alice gave, if any.
	approval string
	clients  map[string]dynamic.Interface
	history  map[schema.GroupVersionResource]*history.History
	// from is where the log of the cloud was when the adversaries began.
	from int64

	mu     sync.Mutex
	failed bool
	log    []string
	ledger []entry
	// sizes by who requested them; each is requested once.
	sizes map[int64]string
	// managed is the Database that is composed.
	managed string
	// waiting Databases: paused, and then deleted.
	waiting map[string]bool
}

// entry of the ledger: a write that succeeded, of a user who states an intent by it.
type entry struct {
	user, kind, name string
	generation       int64
}

func newRun(t *testing.T, seed uint64) *run {
	t.Helper()
	r := &run{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), ns: fmt.Sprintf("adversary-%d", seed),
		other: fmt.Sprintf("other-%d", seed), clients: map[string]dynamic.Interface{}, history: map[schema.GroupVersionResource]*history.History{},
		sizes: map[int64]string{}}
	r.loud, r.approved = seed%2 == 0, seed%3 == 0
	for user, config := range map[string]*rest.Config{
		story.Hans: the.ConfigAs(story.Hans), story.Alice: the.ConfigAs(story.Alice), trudy: the.ConfigAs(trudy), oscar: the.ConfigAs(oscar),
		mallory: rest.CopyConfig(the.mallory), r.ci(): rest.CopyConfig(the.mallory), "": the.Config(),
	} {
		if user == r.ci() {
			config.Impersonate = rest.ImpersonationConfig{UserName: user} // the API server adds the groups of a ServiceAccount
		}
		config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
		c, err := dynamic.NewForConfig(config)
		require.NoError(t, err)
		r.clients[user] = c
	}
	return r
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, time.Now().UTC().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// fail the test, with all that was done the first time.
func (r *run) fail(format string, args ...any) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.t.Logf("seed %d (loud %t, approved %t):\n%s", r.seed, r.loud, r.approved, strings.Join(r.log, "\n"))
	}
	r.failed = true
	r.t.Errorf("seed %d: %s", r.seed, fmt.Sprintf(format, args...))
}

func (r *run) of(user string, g schema.GroupVersionResource) dynamic.ResourceInterface {
	return r.clients[user].Resource(g).Namespace(r.ns)
}

// The Databases without a parent, and the composite.
func (r *run) scratch() string { return r.ns + "-scratch" }
func (r *run) prod() string    { return r.ns + "-prod" }

const composite = "orders"

// rights in the two Namespaces, which mallory's and trudy's certificates have nowhere else.
func (r *run) rights() []byte {
	var out strings.Builder
	for _, ns := range []string{r.ns, r.other} {
		fmt.Fprintf(&out, "---\n{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", ns)
	}
	fmt.Fprintf(&out, "---\n{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: %s, name: ci}}\n", r.ns)
	for _, b := range []struct{ ns, role, user string }{
		{r.ns, "adversary-editor", mallory}, {r.ns, "adversary-editor", r.ci()}, {r.ns, "adversary-reporter", oscar},
		{r.other, "adversary-editor", trudy}, {r.other, "adversary-policies", trudy},
	} {
		fmt.Fprintf(&out, "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: %s, name: %q}, "+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}, subjects: "+
			"[{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}]}\n", b.ns, b.role+"."+strings.ReplaceAll(b.user, ":", "."), b.role, b.user)
	}
	return []byte(out.String())
}

// prepare a composite and two Databases that have settled.
func (r *run) prepare(ctx context.Context) error {
	if err := the.Apply(ctx, r.rights()); err != nil {
		return err
	}
	for _, g := range []schema.GroupVersionResource{story.XDatabases, story.Databases} {
		h, err := history.Record(ctx, the.EtcdURL(), g, r.ns)
		if err != nil {
			return err
		}
		r.history[g] = h
	}
	if err := r.create(ctx, story.Hans, story.XDatabases, composite, map[string]any{"size": r.size(story.Hans)}, nil); err != nil {
		return err
	}
	for _, name := range []string{r.scratch(), r.prod()} {
		spec := map[string]any{"forProvider": map[string]any{"size": r.size(story.Hans)}}
		if err := r.create(ctx, story.Hans, story.Databases, name, spec, nil); err != nil {
			return err
		}
	}
	return controlplane.Eventually(ctx, r.ns+" to settle", patience, func(ctx context.Context) error {
		xr, err := r.of("", story.XDatabases).Get(ctx, composite, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] == "" {
			return fmt.Errorf("the composite has not settled: %v", xr.Object["status"])
		}
		return r.allClosed(ctx, 3)
	})
}

// patience with what several seeds at a time on two cores may take.
const patience = 30 * time.Second

// allClosed: there are n Databases, their gates are closed.
func (r *run) allClosed(ctx context.Context, n int) error {
	list, err := r.of("", story.Databases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != n {
		return fmt.Errorf("there are %d Databases, want %d", len(list.Items), n)
	}
	for _, o := range list.Items {
		g := mask.ParseGate(o.GetAnnotations())
		if p := story.Policies(&o); g.State != v1alpha1.GateClosed || !slices.Equal(p, []string{"Observe"}) {
			return fmt.Errorf("the gate of %s is %+v with %v, its status %v", o.GetName(), g, p, o.Object["status"])
		}
		if metav1.GetControllerOf(&o) != nil {
			r.managed = o.GetName()
		}
	}
	return nil
}

// held: an unrequested revision is held, and one difference outside is not reverted.
func (r *run) held(ctx context.Context) error {
	if err := the.Cloud.Change(ctx, r.prod(), client.Fields{"size": 7}); err != nil {
		return err
	}
	if err := controlplane.Eventually(ctx, "the new revision to be held in "+r.ns, patience, func(ctx context.Context) error {
		o, err := r.of("", story.Databases).Get(ctx, r.managed, metav1.GetOptions{})
		if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeyHeld] == "" {
			err = fmt.Errorf("nothing is held: %v", o.GetAnnotations())
		}
		return err
	}); err != nil {
		return err
	}
	if r.approved {
		if err := r.approveDeletion(ctx); err != nil {
			return err
		}
	}
	var err error
	r.from, err = the.Cloud.LastSeq(ctx)
	return err
}

var command = regexp.MustCompile(`kubectl annotate -n (\S+) (\S+) (\S+) (kausality\.io/[^=\s]+)=(\S+)`)

// approveDeletion of scratch by alice, with the command that the refusal suggests.
func (r *run) approveDeletion(ctx context.Context) error {
	refused := r.of(mallory, story.Databases).Delete(ctx, r.scratch(), metav1.DeleteOptions{})
	if refused == nil {
		return errors.New("the deletion of scratch was allowed")
	}
	m := command.FindStringSubmatch(refused.Error())
	if m == nil || m[3] != r.scratch() {
		return fmt.Errorf("no command in: %w", refused)
	}
	r.approval = strings.TrimPrefix(m[4], v1alpha1.AnnotationKeyApprovePrefix)
	r.note("alice approves the deletion of scratch: %s=%s", m[4], m[5])
	return r.merge(ctx, story.Alice, story.Databases, r.scratch(), `{"metadata":{"annotations":{%q:%q}}}`, m[4], m[5])
}

// size that no other user requests, of a user.
func (r *run) size(user string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(1000*r.seed) + int64(len(r.sizes)) + 10
	r.sizes[n] = user
	return n
}

func (r *run) merge(ctx context.Context, user string, g schema.GroupVersionResource, name, format string, args ...any) error {
	o, err := r.of(user, g).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{FieldManager: "kubectl"})
	if err == nil {
		r.wrote(user, o)
	}
	return err
}

func (r *run) create(ctx context.Context, user string, g schema.GroupVersionResource, name string, spec, annotations map[string]any) error {
	kind := map[schema.GroupVersionResource]string{story.XDatabases: "XDatabase", story.Databases: "Database"}[g]
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": g.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec}}
	if annotations != nil {
		o.Object["metadata"].(map[string]any)["annotations"] = annotations
	}
	got, err := r.of(user, g).Create(ctx, o, metav1.CreateOptions{FieldManager: "kubectl"})
	if err == nil {
		r.wrote(user, got)
	}
	return err
}

// wrote: enter into the ledger.
func (r *run) wrote(user string, o *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger = append(r.ledger, entry{user, o.GetKind(), o.GetName(), o.GetGeneration()})
}

// recover: hans's next change of each object reaches the cloud, whatever happened.
func (r *run) recover(ctx context.Context) error {
	if err := r.findWaiting(ctx); err != nil {
		return err
	}
	if err := controlplane.Eventually(ctx, "hans to restore what he can", patience, r.restore); err != nil {
		return fmt.Errorf("%w; Databases: %s", err, r.stored())
	}
	want := map[string]int64{}
	for _, name := range r.alive() {
		size := r.size(story.Hans)
		g, target, body := story.Databases, name, `{"spec":{"forProvider":{"size":%d}}}`
		if name == r.managed {
			g, target, body = story.XDatabases, composite, `{"spec":{"size":%d}}`
		}
		if err := controlplane.Eventually(ctx, "hans's change of "+name+" to be taken", patience, func(ctx context.Context) error {
			return r.merge(ctx, story.Hans, g, target, body, size)
		}); err != nil {
			return err
		}
		want[name] = size
	}
	return controlplane.Eventually(ctx, "hans's changes to reach the cloud", patience, func(ctx context.Context) error {
		for name, size := range want {
			d, err := the.Cloud.Get(ctx, name)
			if err != nil {
				return err
			}
			if d.Size != size {
				o, err := r.of("", story.Databases).Get(ctx, name, metav1.GetOptions{})
				return errors.Join(err, r.refer(ctx), r.approvePending(ctx, name), fmt.Errorf("%s has size %d, want %d: %v", name, d.Size, size, o))
			}
		}
		return nil
	})
}

// approvePending: alice approves the external drift that hans's change waits for, if there is one, with the command
// of its report. A Database that was pointed elsewhere and back may differ from what hans requests before its
// provider has reported on it.
func (r *run) approvePending(ctx context.Context, name string) error {
	list, err := r.of("", story.Drifts).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		child, _, _ := unstructured.NestedString(o.Object, "spec", "child", "name")
		relation, _, _ := unstructured.NestedString(o.Object, "spec", "relation")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		suggestion, _, _ := unstructured.NestedString(o.Object, "spec", "suggestedApproval")
		m := command.FindStringSubmatch(suggestion)
		operation, _, _ := unstructured.NestedString(o.Object, "spec", "operation")
		if child != name || relation != "External" || operation == "DELETE" || phase != "Detected" || m == nil {
			continue
		}
		g := story.Databases
		if m[3] == composite {
			g = story.XDatabases
		}
		if err := r.merge(ctx, story.Alice, g, m[3], `{"metadata":{"annotations":{%q:%q}}}`, m[4], m[5]); err != nil {
			return err
		}
	}
	return nil
}

// alive are the Databases that hans can restore.
func (r *run) alive() []string {
	return slices.DeleteFunc([]string{r.managed, r.prod()}, func(name string) bool { return r.waiting[name] })
}

// findWaiting finds the Databases that were paused with [], and then deleted: nothing happens outside until
// their managementPolicies are changed, and that is refused (KR-13-60).
func (r *run) findWaiting(ctx context.Context) error {
	r.waiting = map[string]bool{}
	for _, name := range []string{r.managed, r.prod()} {
		o, err := r.of("", story.Databases).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if o.GetDeletionTimestamp() == nil || len(story.Policies(o)) > 0 {
			continue
		}
		r.waiting[name] = true
		r.note("%s waits to be deleted", name)
		err = r.merge(ctx, story.Hans, story.Databases, name, `{"spec":{"managementPolicies":["*"]}}`)
		if err == nil || !strings.Contains(err.Error(), "ExternalDeletionNotAllowed") {
			return fmt.Errorf("resuming the deletion of %s is not refused: %w", name, err)
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

// restore what editors may set and what stops a provider or Crossplane, as hans: the
// refusals and conditions name it.
func (r *run) restore(ctx context.Context) error {
	const running = `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`
	// An annotation that is stored declares nothing about another write.
	const alone, again = `{"metadata":{"ownerReferences":null,"annotations":{"kausality.io/parent":"none"}}}`,
		`{"metadata":{"annotations":{"kausality.io/parent":null}}}`
	for t, bodies := range map[target][]string{
		{story.XDatabases, composite}: {again, alone, running}, {story.Databases, r.prod()}: {again, alone, running}, {story.Databases, r.managed}: {running},
	} {
		if r.waiting[t.name] || t.name == composite && r.waiting[r.managed] {
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

// refer from the composite to its Database, and name that: otherwise Crossplane composes another one, which is held. What it composed
// just before that from what it had read is written afterwards, so that both may be lost again.
func (r *run) refer(ctx context.Context) error {
	if r.waiting[r.managed] {
		return nil
	}
	const named = `{"metadata":{"annotations":{"crossplane.io/composition-resource-name":"database"}}}`
	if err := r.merge(ctx, story.Hans, story.Databases, r.managed, "%s", named); err != nil {
		return err
	}
	o, err := r.of("", story.XDatabases).Get(ctx, composite, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if refs, _, _ := unstructured.NestedSlice(o.Object, "spec", "crossplane", "resourceRefs"); len(refs) == 1 && refs[0].(map[string]any)["name"] == r.managed {
		return nil
	}
	const refs = `{"spec":{"crossplane":{"resourceRefs":[{"apiVersion":"cloud.example.org/v1alpha1","kind":"Database","name":%q}]}}}`
	return r.merge(ctx, story.Hans, story.XDatabases, composite, refs, r.managed)
}

// leave nothing that the next round has to poll.
func (r *run) leave(ctx context.Context) error {
	orphan := `{"metadata":{"annotations":{"kausality.io/deletion":"orphan"}}}`
	list, err := r.of("", story.Databases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		if err := r.merge(ctx, story.Alice, story.Databases, o.GetName(), "%s", orphan); err != nil {
			return err
		}
	}
	return r.clients[""].Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Delete(ctx, r.ns, metav1.DeleteOptions{})
}
