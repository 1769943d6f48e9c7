package adversary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
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

// The users. hans states intents, alice and bob approve; the others are adversaries.
const (
	bob     = "bob@example.com"
	edna    = "edna@example.com"    // has the roles that Crossplane makes for editors, with which she writes statuses, too
	dora    = "dora@example.com"    // deletes Drifts, and writes their statuses
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
	// voted is how many approved the deletion of the Database scratch, ruled whether an ApprovalRule requires two of them, and approved
	// whether they are enough.
	voted           int
	ruled, approved bool
	// approvedXR: alice approved the deletion of the composite.
	approvedXR bool
	// former are the names of the managed Database before it was composed again after that.
	former []string
	// approvals that were given, by the name of the object.
	approvals map[string]string
	clients   map[string]dynamic.Interface
	history   map[schema.GroupVersionResource]*history.History
	// begin is where the log of the cloud was at first, and from where it was when the adversaries began.
	begin, from int64
	// judged entries of the log.
	judged map[int64]bool
	// reverted are the Databases whose drift alice approved in the end.
	reverted map[string]bool
	// begun: the adversaries have; recovering: they have ended.
	begun, recovering bool

	mu     sync.Mutex
	failed bool
	// wrong is what was reported.
	wrong map[string]bool
	log   []string
	// sizes that were requested; each is requested once.
	sizes map[int64]request
	// managed is the Database that is composed, and setting the Object.
	managed, setting string
	// goes: the composite is gone, or goes.
	goes bool
	// waiting Databases: paused, and then deleted.
	waiting map[string]bool
}

// request of a size.
type request struct {
	user string
	// late: since the adversaries began.
	late bool
}

func newRun(t *testing.T, seed uint64) *run {
	t.Helper()
	r := &run{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), ns: fmt.Sprintf("adversary-%d", seed),
		other: fmt.Sprintf("other-%d", seed), clients: map[string]dynamic.Interface{}, history: map[schema.GroupVersionResource]*history.History{},
		sizes: map[int64]request{}, approvals: map[string]string{}, judged: map[int64]bool{}, wrong: map[string]bool{}, reverted: map[string]bool{}}
	r.loud = seed%2 == 0
	r.ruled = seed%6 == 3
	if seed%3 == 0 {
		r.voted = 1
	}
	if seed%12 == 9 {
		r.voted = 2
	}
	r.approved, r.approvedXR = r.voted > 1 || r.voted > 0 && !r.ruled, seed%4 == 1 && seed%24 != 9
	for _, user := range []string{story.Hans, story.Alice, bob, trudy, oscar, edna, dora} {
		r.client(user, the.ConfigAs(user))
	}
	r.client("", the.Config())
	r.client(mallory, rest.CopyConfig(the.mallory))
	ci := rest.CopyConfig(the.mallory)
	ci.Impersonate = rest.ImpersonationConfig{UserName: r.ci()} // the API server adds the groups of a ServiceAccount
	r.client(r.ci(), ci)
	return r
}

func (r *run) client(user string, config *rest.Config) {
	r.t.Helper()
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &answers{next, r, user} })
	c, err := dynamic.NewForConfig(config)
	require.NoError(r.t, err)
	r.clients[user] = c
}

// approvers of the deletion of a Database, as many as are needed.
func (r *run) approvers() []string {
	if r.ruled {
		return []string{story.Alice, bob}
	}
	return []string{story.Alice}
}

// editors are the adversaries who may edit.
func (r *run) editors() []string { return []string{mallory, r.ci(), edna} }

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
		r.t.Logf("seed %d (loud %t, %d votes, rule %t, composite approved %t):\n%s", r.seed, r.loud, r.voted, r.ruled, r.approvedXR, strings.Join(r.log, "\n"))
	}
	r.failed = true
	text := fmt.Sprintf(format, args...)
	if !r.wrong[text] {
		r.t.Errorf("seed %d: %s", r.seed, text)
	}
	r.wrong[text] = true
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
	if r.ruled {
		fmt.Fprintf(&out, rule, r.ns)
	}
	for _, b := range []struct{ ns, role, user string }{
		{r.ns, "adversary-editor", mallory}, {r.ns, "adversary-editor", r.ci()}, {r.ns, "adversary-reporter", oscar},
		{r.ns, editorsRole, edna}, {r.ns, "adversary-provider-editor", edna}, {r.ns, "adversary-janitor", dora},
		{r.other, "adversary-editor", trudy}, {r.other, "adversary-policies", trudy},
		{r.ns, "adversary-editor", story.Hans}, // of Secrets, too
	} {
		fmt.Fprintf(&out, "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: %s, name: %q}, "+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}, subjects: "+
			"[{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}]}\n", b.ns, b.role+"."+strings.ReplaceAll(b.user, ":", "."), b.role, b.user)
	}
	return []byte(out.String())
}

// rule that the deletion of a Database needs two approvals.
const rule = `---
apiVersion: kausality.io/v1alpha1
kind: ApprovalRule
metadata: {name: %[1]s}
spec:
  match: {resources: [{group: cloud.example.org, kinds: [Database]}], namespaces: [%[1]s], verbs: [Delete]}
  require: [{count: 2, notAuthors: true}]
`

// prepare a composite and two Databases that have settled.
func (r *run) prepare(ctx context.Context) error {
	err := the.Apply(ctx, r.rights())
	if err != nil {
		return err
	}
	if r.begin, err = the.Cloud.LastSeq(ctx); err != nil {
		return err
	}
	for _, g := range []schema.GroupVersionResource{story.XDatabases, story.Databases, story.Settings} {
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
		if err := r.observed(ctx); err != nil {
			return err
		}
		return r.allClosed(ctx, 3)
	})
}

// observed: the Object is ready, and closed.
func (r *run) observed(ctx context.Context) error {
	list, err := r.of("", story.Settings).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if n := len(list.Items); n != 1 {
		return fmt.Errorf("there are %d Objects, want 1", n)
	}
	o := &list.Items[0]
	r.setting = o.GetName()
	if p := story.Policies(o); !slices.Equal(p, []string{"Observe"}) {
		return fmt.Errorf("the Object has %v, its status %v", p, o.Object["status"])
	}
	return nil
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
	for _, who := range []string{story.Alice, bob}[:r.voted] {
		if err := r.approveDeletion(ctx, who, story.Databases, r.scratch()); err != nil {
			return err
		}
	}
	if r.ruled && r.voted == 1 { // a second vote of the same user counts no more than the first
		if err := r.approveDeletion(ctx, story.Alice, story.Databases, r.scratch()); err != nil {
			return err
		}
	}
	if r.seed%24 == 9 { // one vote of the two that the deletion of the composite needs by the rule
		if err := r.approveDeletion(ctx, story.Alice, story.XDatabases, composite); err != nil {
			return err
		}
	}
	if r.approvedXR {
		for _, who := range r.approvers() {
			if err := r.approveDeletion(ctx, who, story.XDatabases, composite); err != nil {
				return err
			}
		}
	}
	var err error
	r.from, err = the.Cloud.LastSeq(ctx)
	r.begun = true
	return err
}

var command = regexp.MustCompile(`kubectl annotate -n (\S+) (\S+) (\S+) (kausality\.io/[^=\s]+)='?([^'\n;]*[^'\s;])`)

// approveDeletion of an object, with the command that the refusal suggests.
func (r *run) approveDeletion(ctx context.Context, who string, g schema.GroupVersionResource, name string) error {
	refused := r.of(mallory, g).Delete(ctx, name, metav1.DeleteOptions{})
	if refused == nil {
		return errors.New("the deletion of " + name + " was allowed")
	}
	m := command.FindStringSubmatch(refused.Error())
	if m == nil || m[3] != name {
		return fmt.Errorf("no command in: %w", refused)
	}
	r.approvals[name] = strings.TrimPrefix(m[4], v1alpha1.AnnotationKeyApprovePrefix)
	r.note("%s approves the deletion of %s: %s=%s", who, name, m[4], m[5])
	return r.merge(ctx, who, g, name, `{"metadata":{"annotations":{%q:%q}}}`, m[4], m[5])
}

// size that no other user requests, of a user.
func (r *run) size(user string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(1000*r.seed) + int64(len(r.sizes)) + 10
	r.sizes[n] = request{user, r.begun}
	return n
}

func (r *run) merge(ctx context.Context, user string, g schema.GroupVersionResource, name, format string, args ...any) error {
	_, err := r.of(user, g).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

func (r *run) create(ctx context.Context, user string, g schema.GroupVersionResource, name string, spec, annotations map[string]any) error {
	kind := map[schema.GroupVersionResource]string{story.XDatabases: "XDatabase", story.Databases: "Database"}[g]
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": g.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec}}
	if annotations != nil {
		o.Object["metadata"].(map[string]any)["annotations"] = annotations
	}
	_, err := r.of(user, g).Create(ctx, o, metav1.CreateOptions{FieldManager: "kubectl"})
	return err
}
