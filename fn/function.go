package fn

import (
	"context"
	"slices"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/function-sdk-go/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/fn/audit"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/session"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Function is the composition function. It is safe for concurrent use.
type Function struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	log logging.Logger
	// Now is the time.
	Now func() time.Time
	// Claims are the keys that seal claims, by which the function counts votes and used approvals; nil for none. Without a key it counts
	// them for those resources alone that a webhook guards, which verifies them (KR-13-69).
	Claims *approval.Keys
}

// New returns the function, without keys.
func New(log logging.Logger) *Function { return &Function{log: log, Now: clock.Now} }

// RunFunction decides about the desired state of a pipeline. It returns no error:
// an Input that does not validate is a fatal result (KR-09-01, KR-09-13).
func (f *Function) RunFunction(ctx context.Context, req *fnv1.RunFunctionRequest) (rsp *fnv1.RunFunctionResponse, err error) {
	log := f.log.WithValues("tag", req.GetMeta().GetTag())
	defer func() {
		if p := recover(); p != nil { // the process serves all composites
			log.Info("Panic; the pipeline run fails, nothing is changed", "panic", p)
			rsp = response.To(req, response.DefaultTTL)
			response.Fatal(rsp, errors.Errorf("cannot run: %v; this is a bug of Kausality, please report it", p))
		}
	}()
	return f.run(ctx, log, req), nil
}

// run runs the function without the recover of RunFunction. A step of an Operation has no composite
// (KR-09-15).
func (f *Function) run(ctx context.Context, log logging.Logger, req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	rsp := response.To(req, response.DefaultTTL)
	cfg, err := configOf(req.GetInput())
	if err != nil {
		response.Fatal(rsp, errors.Wrap(err, "invalid input"))
		return rsp
	}
	if req.GetObserved().GetComposite() == nil {
		now := f.Now()
		cfg.policies.Require(req, rsp, policies.Pipeline{})
		audit.Run(cfg.mode, cfg.policies.InForce(req, false, now).Cluster, now, req, rsp)
		return rsp
	}
	xr := ssa.Unstructured(ssa.Object(req.GetObserved().GetComposite().GetResource()))
	if xr == nil {
		cfg.policies.Require(req, rsp, policies.Pipeline{})
		return rsp // without a kind nothing can be decided
	}
	cfg.claims = f.Claims
	aws := session.Of(cfg.session, xr)
	req, notes := aws.Write(req, rsp)
	r := newRun(cfg, f.Now(), f.Claims.TrustedIn(xr, f.Now()), req, rsp)
	r.notes = append(r.notes, notes...)
	cfg.policies.Require(req, rsp, policies.PipelineOf(xr.Object, r.composite.State.CompositionRevision))
	aws.Require(req, rsp)
	r.grant(ctx)
	r.decide(ctx)
	r.settle()
	r.emit()
	r.report()
	r.wake()
	log.Debug("Decided", "composite", xr.GetName(), "resources", len(r.resources))
	return rsp
}

// run of the function for one request.
type run struct {
	cfg config
	now time.Time
	req *fnv1.RunFunctionRequest
	rsp *fnv1.RunFunctionResponse

	// composite changes as approvals are used.
	composite *offline.Composite
	// resources are sorted by name; observed are those of them that exist.
	resources []*resource
	observed  []*offline.Resource
	world     *world
	policies  policies.InForce
	// guarded are the policies for what a webhook guards; written by decide.
	guarded *allowance.Set
	// notes for users that are about no resource.
	notes []string
	// keeper is the resource that stores what is remembered of the composite, since
	// the function cannot write to that; nil for none.
	keeper *resource
	// lister is the resource that stores which creations are held: one that the webhook
	// guards, which makes Drifts of them (KR-09-25), else the keeper.
	lister *resource
	// remembered fields of the composite; "" for none.
	remembered string
	// deletes returns what the deletion of the composite deletes; false where the request does not show it. nil until it is needed.
	deletes func() (identity.Whole, bool)
	// earlier report of a Kausality step of the same pipeline run.
	earlier report
	// owner is the ownerReferences of every composed resource.
	owner []any
}

// newRun reads a request. xr is its composite.
func newRun(cfg config, now time.Time, xr *unstructured.Unstructured, req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) *run {
	ref := parent.RefOf(xr)
	r := &run{
		cfg: cfg, now: now, req: req, rsp: rsp,
		resources: resourcesOf(req, ref), owner: ssa.OwnerReferences(ref), earlier: earlier(req),
	}
	for _, res := range r.resources {
		if res.observed != nil {
			r.observed = append(r.observed, res.observed)
		}
	}
	r.composite = offline.Derive(xr, r.observed, cfg.grace, now)
	r.composite.Secrets = cfg.secrets
	r.policies = cfg.policies.InForce(req, r.composite.Webhook, now)
	r.policies.Cluster = r.policies.Cluster.WithDefault(cfg.gate)
	r.notes = r.policies.Notes
	r.keepCauses()
	r.world = worldOf(r.composite, xr.Object, r.resources, cfg)
	r.world.cluster, r.world.builds = r.policies.Cluster, r.policies.Builds
	if r.policies.Upgrading() {
		r.world.fingerprint = policies.Fingerprint(req, r.composite.State.CompositionRevision)
	}
	return r
}

// settle records that the last intent has settled where only this run is missing, and it composes what
// there is. What was held before the intent stays so (KR-03-10).
func (r *run) settle() {
	changes := slices.ContainsFunc(r.resources, func(res *resource) bool {
		held := res.holding()
		return res.changes() || held != nil && !held.Before
	})
	if c := r.composite; c.First && !changes {
		c.Latched, c.Settled, c.Intent.Settled = true, max(c.Settled, c.Intent.Generation), true
	}
}

// grant grants the composite the allowances of its last intent, where the core reads them. Without a
// webhook nothing else grants them; no webhook knows the policies of the Input.
func (r *run) grant(ctx context.Context) {
	c := r.composite
	known, granting := r.policies.Grantors(c.State.GroupKind(), c.Intent.User, c.State.Parent.Name != "")
	remembered, notes := c.Grant(ctx, known, granting, r.world.object, r.observed)
	r.remembered, r.notes = remembered, append(r.notes, notes...)
}

// wake makes Crossplane run the pipeline again where only time is missing: no
// event would.
func (r *run) wake() {
	if r.composite.Waiting {
		r.rsp.Meta.Ttl = durationpb.New(max(r.cfg.grace, time.Second))
	}
}
