package fn

import (
	"bytes"
	"context"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/function-sdk-go/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Function is the composition function. It is safe for concurrent use.
type Function struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	log logging.Logger
	now func() time.Time
}

// Option of a Function.
type Option func(*Function)

// WithClock makes the function read the time from a clock; the default is
// time.Now.
func WithClock(now func() time.Time) Option { return func(f *Function) { f.now = now } }

// New returns the function.
func New(log logging.Logger, options ...Option) *Function {
	f := &Function{log: log, now: time.Now}
	for _, o := range options {
		o(f)
	}
	return f
}

// RunFunction decides about what the pipeline wants. It returns no error: an
// Input that does not validate is a fatal result (KR-09-13).
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

func (f *Function) run(ctx context.Context, log logging.Logger, req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	rsp := response.To(req, response.DefaultTTL)
	cfg, err := configOf(req.GetInput())
	if err != nil {
		response.Fatal(rsp, errors.Wrap(err, "invalid input"))
		return rsp
	}
	if req.GetObserved().GetComposite() == nil {
		f.audit(cfg, req, rsp)
		return rsp
	}
	require(cfg, req, rsp)
	r, ok := newRun(cfg, f.now(), req, rsp)
	if !ok {
		return rsp // nothing that could be decided about
	}
	r.grant(ctx)
	r.decide(ctx)
	r.emit()
	r.report()
	r.again()
	log.Debug("Decided", "composite", r.composite.state.Name, "resources", len(r.resources))
	return rsp
}

// run of the function for one request.
type run struct {
	cfg config
	now time.Time
	req *fnv1.RunFunctionRequest
	rsp *fnv1.RunFunctionResponse

	composite *composite
	resources []*resource
	world     *world
	// policies in force, and what people should know about them.
	policies []policy
	upgrades []*allowance.Upgrade
	notes    []string
	// scratch for what is put into words.
	scratch bytes.Buffer
	// keeper is the resource that stores what is remembered; nil for none.
	keeper *resource
	// remembered of the composite for the next runs; "" for nothing.
	remembered string
	// earlier report of a Kausality step of the same pipeline run.
	earlier report
	// owner is the ownerReferences of every composed resource.
	owner []any
}

// newRun reads a request; ok is false where it has no composite.
func newRun(cfg config, now time.Time, req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) (r *run, ok bool) {
	xr := ssa.Unstructured(ssa.Object(req.GetObserved().GetComposite().GetResource()))
	if xr == nil {
		return nil, false
	}
	state := parent.Sum(xr, parent.RoleComposite)
	r = &run{cfg: cfg, now: now, req: req, rsp: rsp, resources: resourcesOf(req, state.Ref), owner: ownerOf(state)}
	r.earlier = earlier(req.GetContext())
	r.composite = compositeOf(xr, state, r.resources)
	r.composite.settle(r.resources, cfg.grace, now)
	r.composite.record()
	r.composite.account(xr, r.resources)
	r.readPolicies()
	r.provenance()
	r.world = worldOf(r.composite, r.resources, cfg.managed)
	r.world.object = xr.Object
	if len(r.upgrades) > 0 {
		r.world.fingerprint = fingerprint(req, state.CompositionRevision)
	}
	return r, true
}

// readPolicies of the Input and of the cluster.
func (r *run) readPolicies() {
	var more []string
	r.policies, r.notes = policiesFor(r.cfg, r.req)
	r.upgrades, more = upgradesFor(r.cfg, r.req, r.composite.webhook)
	r.notes = append(r.notes, more...)
}

// policySet for the core.
func (r *run) policySet() *allowance.Set {
	all := make([]*allowance.Compiled, 0, len(r.policies))
	for _, p := range r.policies {
		all = append(all, p.Compiled)
	}
	return allowance.NewSet(all, r.upgrades, nil)
}

func ownerOf(s *parent.State) []any {
	apiVersion, kind := s.ToAPIVersionAndKind()
	return []any{map[string]any{
		"apiVersion": apiVersion, "kind": kind, "name": s.Name, "uid": string(s.UID),
		"controller": true, "blockOwnerDeletion": true,
	}}
}

// again says when Crossplane should ask anew: where nothing but time is
// missing, nothing would wake it.
func (r *run) again() {
	if r.composite.waiting {
		r.rsp.Meta.Ttl = durationpb.New(max(r.cfg.grace, time.Second))
	}
}
