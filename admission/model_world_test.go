package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/settings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// model is a cluster around one XR (key "xr") with two MRs ("a", "b"): the API
// server, the cloud, and every client that writes to either. It is single-threaded:
// a step is one write, or one reconcile on a possibly stale copy.
type model struct {
	Nothing

	rng     *rand.Rand
	now     time.Time
	version int64
	mode    v1alpha1.Mode
	// versions of each object, oldest first; the last one is stored now. nil
	// stands for one that is gone.
	versions map[string][]*unstructured.Unstructured
	// seen is how far the cache of a reader ("gate a", "provider b") has come.
	seen     map[string]int
	cloud    map[string]*resource
	revision int // of the Composition
	compose  string
	// masks: the real composition function masks as well, by what Crossplane's
	// cache shows it; alone: it does, and there is neither webhook nor gate; masked:
	// a mask that it emits is being written.
	masks, alone, masked bool

	// offers are the ids by which differences can be approved.
	offers []offer
	// author is what the author of an MR's policies wrote last and was admitted.
	author map[string][]string
	// placed and used once approvals, by holder and content.
	placed, used map[string]int
	opened       map[string]int // openings by claim id
	shown        map[string]int // step at which the status first showed a tampering, by MR and field
	openedAt     map[string]int // step of an MR's opening
	reliable     bool
	// governed by AllowancePolicies, nil for none; claimed: the XR is a Claim's.
	governed *modelPolicies
	claimed  bool
	// voted: an ApprovalRule requires two votes; votes are the users who voted, by holder and id of a difference.
	voted bool
	votes map[string]map[string]bool
	// grants by the UID of their carrier and its generation.
	grants map[string]map[int64]modelGrant
	kind   identity.Kind // of MRs
	// drifts that are open, by id; wants is what Crossplane was last refused and still wants, by UID and path.
	drifts map[string]*v1alpha1.Drift
	wants  map[string]map[string]want
	// approved values of paths that were held, by UID and path, until they are refused again.
	approved map[string]string
	upjet    bool          // loses Synced's observed generation
	skew     time.Duration // of the gate controller's clock against the webhook's

	step    int
	verbose bool
	trace   []string
	wrong   string
}

// resource is what an MR stands for.
type resource struct {
	exists  bool
	fields  map[string]any
	ready   bool
	pending map[string]any // an asynchronous update that goes on
	failed  bool           // the last one did
}

type offer struct{ holder, id string }

const modelDeadline = time.Hour

func newModel(seed uint64, verbose bool) *model {
	m := &model{verbose: verbose,
		rng: rand.New(rand.NewPCG(seed, 1)), now: fx.Noon, version: 100, mode: v1alpha1.ModeEnforce, compose: "*",
		versions: map[string][]*unstructured.Unstructured{}, seen: map[string]int{}, cloud: map[string]*resource{"a": {}, "b": {}},
		author: map[string][]string{}, placed: map[string]int{}, used: map[string]int{},
		opened: map[string]int{}, shown: map[string]int{}, openedAt: map[string]int{},
		grants: map[string]map[int64]modelGrant{}, drifts: map[string]*v1alpha1.Drift{}, wants: map[string]map[string]want{}, approved: map[string]string{},
		votes: map[string]map[string]bool{},
	}
	m.kind = identity.Kind{Role: parent.RoleManaged, ManagementPolicies: true, ReconcileRequests: m.chance(2), Resource: "instances.aws.example.org"}
	m.upjet = m.chance(4)
	m.masks = seed%3 == 0
	m.alone = seed%5 == 1
	m.skew = time.Duration(int64(seed%17)-8) * time.Second
	if m.chance(5) {
		m.mode = v1alpha1.ModeLog
	}
	if m.chance(2) {
		m.govern()
		m.claimed = m.chance(2)
	}
	m.voted = m.chance(3) && !m.alone
	if m.alone {
		m.governed, m.claimed, m.skew, m.kind.ReconcileRequests = nil, false, 0, false
	}
	// What the run is about exists: there is no XR of a Claim that never landed.
	m.reliable = true
	defer func() { m.reliable = false }()
	xr := fx.Object(`{apiVersion: example.org/v1, kind: XDatabase, metadata: {name: db, uid: xr-1, finalizers: [composite]}, spec: {size: s0}}`)
	if m.claimed {
		claim := fx.Object(`{apiVersion: example.org/v1, kind: DatabaseClaim, metadata: {name: claim, namespace: team, uid: claim-1},
			spec: {size: s0, resourceRef: {apiVersion: example.org/v1, kind: XDatabase, name: db}}}`)
		m.write("claim", fx.Alice, "kubectl", func(*unstructured.Unstructured) *unstructured.Unstructured { return claim })
		xr = fx.With(xr, fx.Set(map[string]any{"apiVersion": "example.org/v1", "kind": "DatabaseClaim", "namespace": "team", "name": "claim"}, "spec", "claimRef"))
		m.write("xr", fx.Crossplane, managerXR, func(*unstructured.Unstructured) *unstructured.Unstructured { return xr })
		return m
	}
	m.write("xr", fx.Alice, "kubectl", func(*unstructured.Unstructured) *unstructured.Unstructured { return xr })
	return m
}

func (m *model) chance(oneIn int) bool { return m.rng.IntN(oneIn) == 0 }

func (m *model) note(format string, args ...any) {
	if !m.verbose {
		return
	}
	m.trace = append(m.trace, fmt.Sprintf("%3d %s ", m.step, m.now.Sub(fx.Noon))+fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
		m.note("VIOLATION %s", m.wrong)
	}
}

// get an object as it is stored now; nil where it does not exist.
func (m *model) get(key string) *unstructured.Unstructured {
	v := m.versions[key]
	if len(v) == 0 {
		return nil
	}
	return v[len(v)-1]
}

// stale returns an object as a reader's cache has it, which never goes back.
func (m *model) stale(reader, key string) *unstructured.Unstructured {
	v, k := m.versions[key], reader+" "+key
	if len(v) == 0 {
		return nil
	}
	from := max(m.seen[k], len(v)-4)
	if m.reliable || m.chance(2) {
		from = len(v) - 1
	} else {
		from += m.rng.IntN(len(v) - from)
	}
	m.seen[k] = from
	return v[from]
}

// store what was admitted.
func (m *model) store(key string, o *unstructured.Unstructured) {
	old := m.get(key)
	m.version++
	o.SetResourceVersion(strconv.FormatInt(m.version, 10))
	switch {
	case old == nil:
		o.SetGeneration(1)
	case !reflect.DeepEqual(old.Object["spec"], o.Object["spec"]):
		o.SetGeneration(old.GetGeneration() + 1)
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		m.removed(key, o)
		m.versions[key] = append(m.versions[key], nil)
		return
	}
	m.versions[key] = append(m.versions[key], o)
	m.checkStored(key, old, o)
}

// status is written without admission, if the object has not changed since.
func (m *model) status(key string, seen *unstructured.Unstructured, change fx.Mod) bool {
	now := m.get(key)
	if now == nil || now.GetResourceVersion() != seen.GetResourceVersion() {
		return false
	}
	next := fx.With(now, change)
	if !reflect.DeepEqual(next.Object, now.Object) {
		m.store(key, next)
	}
	return true
}

// write through admission; nil where it is refused.
func (m *model) write(key string, user subject.User, manager string, change func(*unstructured.Unstructured) *unstructured.Unstructured) bool {
	old := m.get(key)
	var base *unstructured.Unstructured
	if old != nil {
		base = old.DeepCopy()
	}
	next := change(base)
	if next == nil || old != nil && reflect.DeepEqual(old.Object, next.Object) {
		return next != nil
	}
	if m.alone {
		return m.unguarded(key, user.Name, old, next)
	}
	req := &Request{Operation: Update, Kind: next.GroupVersionKind(), Namespace: next.GetNamespace(), Name: next.GetName(), Object: next,
		OldObject: old, User: user, FieldManager: manager, Time: m.now}
	if old == nil {
		req.Operation = Create
	}
	d, ok := m.admit(req)
	m.refusedBefore(key, req, d)
	if !ok {
		m.note("%s may not write %s: %s", user.Name, key, d.Reason)
		return false
	}
	result := apply(next, d)
	if d.Rest != nil {
		rest := *req
		rest.Object = d.Rest
		req = &rest
	}
	// A later webhook changes something: decided again on its own result.
	if m.chance(8) {
		again := *req
		again.Object = result
		if d2, ok := m.admit(&again); ok {
			result, d = apply(result, d2), d2
		}
	}
	m.checkWants(key, req, d, result)
	if !m.reliable && m.chance(12) {
		m.note("%s's write of %s is lost after admission", user.Name, key)
		return false
	}
	m.admitted(key, user, req, d, result)
	m.ruled(key, req, d, result)
	m.store(key, result)
	m.note("%s wrote %s (%s/%s): %s", user.Name, key, d.Class, d.Reason, m.describe(key))
	return true
}

// admit a request as the webhook does, and record what it refuses.
func (m *model) admit(req *Request) (Decision, bool) {
	withHeld := *req
	withHeld.Held = m.remembered(req)
	d, ok := m.decided(&withHeld)
	m.record(d.Report)
	if d.Held != nil {
		m.record(d.Held.Report)
	}
	return d, ok
}

// decided by the webhook: decide, claim, decide again on a lost race.
func (m *model) decided(req *Request) (Decision, bool) {
	defer took(time.Now())
	e := &Evaluator{World: m, Options: Options{DefaultMode: m.mode, Remember: true, Separates: true}, Policies: m}
	d, err := e.Evaluate(context.Background(), req)
	for range 4 {
		if err != nil {
			m.fail("cannot decide: %v", err)
			return d, false
		}
		if d.Report != nil {
			m.offer(m.keyOf(d.Report.ParentRef), d.Report.Drift.ID)
		}
		if d.Approve != nil {
			m.approveByPolicy(d.Approve)
		}
		if !d.Allowed || d.Claim == nil {
			return d, d.Allowed
		}
		if m.takeClaims(d.Claim) {
			return d, true
		}
		d, err = e.Live(context.Background(), req)
	}
	return d, false
}

func (m *model) takeClaims(c *identity.ClaimEffect) bool {
	key := m.keyOf(c.Holder)
	o := m.get(key)
	if o == nil || string(o.GetUID()) != string(c.Holder.UID) {
		return false
	}
	have, has := o.GetAnnotations()[v1alpha1.AnnotationKeyClaims]
	if has != c.HasStored || have != c.Stored {
		return false
	}
	m.store(key, fx.With(o, fx.Annotate(v1alpha1.AnnotationKeyClaims, c.Value)))
	return true
}

func (m *model) offer(holder, id string) {
	for _, o := range m.offers {
		if o.holder == holder && o.id == id {
			return
		}
	}
	m.offers = append(m.offers, offer{holder, id})
}

// remove requests the deletion of an object.
func (m *model) remove(key string, user subject.User) bool {
	o := m.get(key)
	if o == nil || o.GetDeletionTimestamp() != nil {
		return true
	}
	req := &Request{Operation: Delete, Kind: o.GroupVersionKind(), Name: o.GetName(), OldObject: o, User: user, Time: m.now}
	d, ok := m.admit(req)
	m.note("%s deletes %s: %t %s", user.Name, key, ok, d.Reason)
	if !ok {
		return false
	}
	m.store(key, fx.With(o, fx.Set(m.now.Format(time.RFC3339), "metadata", "deletionTimestamp")))
	return true
}

func (m *model) keyOf(r parent.Ref) string {
	if r.Name == "db" {
		return "xr"
	}
	return r.Name
}

// World.

func (m *model) Kind(k schema.GroupVersionKind) identity.Kind {
	switch k.Kind {
	case "XDatabase":
		return identity.Kind{Role: parent.RoleComposite, Resource: "xdatabases.example.org"}
	case "DatabaseClaim":
		return identity.Kind{Role: parent.RoleClaim, Resource: "databaseclaims.example.org"}
	}
	return m.kind
}

func (m *model) Parent(_ context.Context, ref parent.Ref, live bool) (*parent.State, error) {
	o := m.get(m.keyOf(ref))
	if !live {
		o = m.stale("webhook", m.keyOf(ref))
	}
	if o == nil || ref.UID != "" && o.GetUID() != ref.UID {
		return nil, ErrNotFound
	}
	return m.sum(o), nil
}

func (m *model) sum(o *unstructured.Unstructured) *parent.State {
	return parent.Sum(o, m.Kind(o.GroupVersionKind()).Role)
}

func (m *model) Settled(parent.Ref) int64 { return -1 }

func (m *model) StatusWriter(r parent.Ref, id string) bool {
	if r.Kind == "XDatabase" || r.Kind == "DatabaseClaim" {
		return id == fx.Crossplane.ID()
	}
	return id == fx.Provider.ID()
}

func (m *model) Namespace(context.Context, string, bool) (settings.Namespace, error) {
	return settings.Namespace{}, nil
}

func (m *model) Managed(_ context.Context, root *parent.State) ([]*parent.State, error) {
	var out []*parent.State
	if xr := m.get("xr"); root.Kind == "DatabaseClaim" {
		if xr == nil || textOf(xr, "spec", "claimRef", "name") == "" {
			return nil, nil
		}
		root = m.sum(xr)
	}
	for _, k := range []string{"a", "b"} {
		if o := m.get(k); o != nil {
			if s := m.sum(o); s.Parent.UID == root.UID {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// whole is what the deletion of a composite deletes.
func (m *model) whole(xr *unstructured.Unstructured) identity.Whole {
	below, _ := m.Managed(context.Background(), m.sum(xr))
	return identity.WholeOf(m.sum(xr), below)
}

func (m *model) Component(u subject.User, _ string) bool { return u.Name == fx.GateController.Name }

// approvalsOf an object, by content.
func approvalsOf(o *unstructured.Unstructured) map[string]approval.Entry {
	out := map[string]approval.Entry{}
	if o != nil {
		for _, e := range approval.Parse(o.GetAnnotations()).Approvals {
			out[e.Content] = e
		}
	}
	return out
}

func (m *model) Lists(schema.GroupVersionKind) change.Lists { return nil }

func (m *model) Defaults(schema.GroupVersionKind) *change.Defaults { return nil }

func (m *model) Object(context.Context, parent.Ref) (map[string]any, error) { return nil, nil }

func (m *model) Build(context.Context, *Request, *parent.State) (allowance.Build, error) {
	return allowance.Build{}, nil
}
