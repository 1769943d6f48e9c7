package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	core "github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// plugin of one of the servers that an API server is composed of.
type plugin struct {
	*admission.Handler
	kausality  *Kausality
	authorizer authorizer.Authorizer
}

var (
	_ admission.MutationInterface       = &plugin{}
	_ admission.ValidationInterface     = &plugin{}
	_ admission.InitializationValidator = &plugin{}
	_ initializer.WantsAuthorizer       = &plugin{}
)

// subresources that are decided about.
const (
	whole  = ""
	scale  = core.SubresourceScale
	status = "status"
)

// SetAuthorizer that decides who may approve, and who may write statuses.
func (p *plugin) SetAuthorizer(a authorizer.Authorizer) {
	p.authorizer = a
	p.kausality.authorizer.Store(&a)
}

// ValidateInitialization reports what the server has not given the plugin.
func (p *plugin) ValidateInitialization() error {
	if p.authorizer == nil {
		return fmt.Errorf("plugin %s needs an authorizer", PluginName)
	}
	return nil
}

// Admit decides about a request, and edits the object that it leaves.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = p.panicked(ctx, a, r)
		}
	}()
	if a.GetResource().Group == v1alpha1.Group {
		return p.rollout(ctx, a, o)
	}
	if !p.covers(a) {
		return nil
	}
	r, unready := p.kausality.of(ctx)
	is, err := p.guards(ctx, r, a)
	switch {
	case a.GetSubresource() == status:
		if is && err == nil && unready == nil {
			p.status(ctx, r, a, o)
		}
		return nil
	case err != nil:
		return p.undecided(ctx, &decider.UndecidedError{Mode: p.kausality.configuration.DefaultMode, Err: err})
	case !is:
		return nil
	case unready != nil:
		return p.unready(ctx, a, unready)
	}
	d, unready := r.ready()
	if unready != nil {
		return p.unready(ctx, a, unready)
	}
	return p.decide(ctx, d, a, o)
}

// covers reports whether a request may be about what is guarded, by its resource and operation alone.
func (p *plugin) covers(a admission.Attributes) bool {
	switch a.GetSubresource() {
	case whole:
		if a.GetOperation() == admission.Delete && a.GetOldObject() == nil {
			return false // of a collection, each object of which is decided about
		}
	case scale, status:
		if a.GetOperation() != admission.Update {
			return false
		}
	default:
		return false
	}
	return p.kausality.guard.scope.Covers(a.GetResource().GroupResource())
}

// status passes on who writes a status, and restores the metadata that the write changes. It never refuses (KR-05-26).
func (p *plugin) status(ctx context.Context, r *running, a admission.Attributes, o admission.ObjectInterfaces) {
	d, unready := r.ready()
	if unready != nil {
		return
	}
	in, err := incoming(a, o)
	if err == nil {
		edits, drop := d.Status(ctx, in.Request)
		err = in.apply(a, o, edits, drop)
	}
	if err != nil {
		d.Log.Error(err, "cannot restore the metadata of a status write", "resource", a.GetResource().Resource, "name", a.GetName())
	}
}

// decide about a request.
func (p *plugin) decide(ctx context.Context, d *decider.Decider, a admission.Attributes, o admission.ObjectInterfaces) error {
	in, err := incoming(a, o)
	if err != nil {
		return p.undecided(ctx, &decider.UndecidedError{Mode: p.kausality.configuration.DefaultMode, Err: err})
	}
	decision, undecided := d.Decide(ctx, in.Incoming)
	if undecided != nil {
		return p.undecided(ctx, undecided)
	}
	if err := answered(ctx, a, in, decision); err != nil || a.GetSubresource() != whole || a.GetObject() == nil {
		return err
	}
	if err := in.apply(a, o, decision, -1); err != nil {
		return p.undecided(ctx, &decider.UndecidedError{Mode: v1alpha1.ModeEnforce, Err: err})
	}
	p.kausality.decided.remember(ctx, in.Object.Object)
	return nil
}

// answered adds the warnings and audit annotations of a decision, and returns its refusal; nil where the request passes.
func answered(ctx context.Context, a admission.Attributes, in *request, d core.Decision) error {
	for _, w := range d.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	annotate(a, decider.Audit(in.Request, d))
	if d.Allowed {
		return nil
	}
	return refused(decider.Refusal(d))
}

// guards reports whether the object of a request is guarded, by its Namespace and its labels before or after. Before Start, which r is nil, the
// labels of Namespaces are not known.
func (p *plugin) guards(ctx context.Context, r *running, a admission.Attributes) (bool, error) {
	resource, namespace := a.GetResource().GroupResource(), a.GetNamespace()
	if manifests.NeverGuarded(namespace) || manifests.Critical(resource, namespace, a.GetName()) {
		return false, nil
	}
	var labels []map[string]string
	for _, o := range []any{a.GetObject(), a.GetOldObject()} {
		if m, err := meta.Accessor(o); err == nil {
			labels = append(labels, m.GetLabels())
		}
	}
	if is := p.kausality.guard.scope.Guards(resource, namespace, nil, false, labels); !is || namespace == "" || r == nil {
		return is, nil // whatever the labels of its Namespace are
	}
	of, err := r.labels(ctx, namespace)
	if err != nil {
		return false, err
	}
	return p.kausality.guard.scope.Guards(resource, namespace, of, true, labels), nil
}

// unready answers a request about which nothing can be decided yet. Those of the server itself pass: it could not start otherwise.
func (p *plugin) unready(ctx context.Context, a admission.Attributes, why error) error {
	if a.GetUserInfo().GetName() == user.APIServerUser {
		p.kausality.log.V(1).Info("A request of the server itself passes before anything can be decided", "resource", a.GetResource().Resource, "name", a.GetName())
		return nil
	}
	return p.undecided(ctx, &decider.UndecidedError{Mode: p.kausality.configuration.DefaultMode, Err: why})
}

// panicked answers a request after a panic beside the decision itself, which it logs. The write of a status passes.
func (p *plugin) panicked(ctx context.Context, a admission.Attributes, r any) error {
	err := fmt.Errorf("panic: %v", r)
	p.kausality.log.Error(err, "cannot answer a request", "resource", a.GetResource().Resource, "name", a.GetName(), "stack", string(debug.Stack()))
	if a.GetSubresource() == status {
		return nil
	}
	return p.undecided(ctx, &decider.UndecidedError{Mode: p.kausality.configuration.DefaultMode, Err: err})
}

// undecided answers a request about which nothing could be decided: with an error that the client tries again after, or a warning.
func (p *plugin) undecided(ctx context.Context, e *decider.UndecidedError) error {
	code := e.Code()
	if code == 0 {
		warning.AddWarning(ctx, "", e.Warning())
		return nil
	}
	reason := metav1.StatusReasonInternalError
	if code == http.StatusConflict {
		reason = metav1.StatusReasonConflict
	}
	return refused(&metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: e.Error()})
}

// refused is the error of a request that is refused.
func refused(s *metav1.Status) error {
	out := *s
	out.Message = fmt.Sprintf("admission plugin %q denied the request: %s", PluginName, s.Message)
	return &apierrors.StatusError{ErrStatus: out}
}

// annotate the audit event. A key that has a value keeps it, as of a request that is decided again.
func annotate(a admission.Attributes, values map[string]string) {
	for key, value := range values {
		_ = a.AddAnnotation(auditPrefix+key, value) // the keys are valid
	}
}

// auditPrefix of the keys of audit annotations: the name of the webhook has it, too.
const auditPrefix = "admission." + v1alpha1.Group + "/"

var errNoObject = errors.New("the request has no object")
