package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// evaluating is what decides in a test: Options, or stubs.
type evaluating any

// evaluator of a World.
func evaluator(e evaluating, w World) *Evaluator {
	if s, ok := e.(stubs); ok {
		return s.of(w)
	}
	return &Evaluator{World: w, Options: e.(Options)}
}

// stubs are Options with a World that answers by these functions, where they are set. mayApprove sets ApproverRBAC.
type stubs struct {
	Options
	controllerUser              func(name string) bool
	mayApprove, mayUpdateStatus func(ctx context.Context, user subject.User, object parent.Ref) (bool, error)
	mayApproveAt                func(user subject.User, subresource string) bool
	guarded                     func(*parent.State) bool
	removing                    func() bool
	below                       func(context.Context, *parent.State) []Below
	settings                    func(object parent.Ref, labels map[string]string) settings.Settings
	initialized                 func(schema.GroupKind) []string
	author                      func(ctx context.Context, cause v1alpha1.HopCause) (v1alpha1.HopCause, error)
}

func (a stubs) of(w World) *Evaluator {
	o := a.Options
	if a.mayApprove != nil {
		o.ApproverRBAC = ApproverRBACOn
	}
	return &Evaluator{World: stubbedWorld{w, a}, Options: o}
}

// stubbedWorld is a World that answers by functions.
type stubbedWorld struct {
	World
	stubs stubs
}

func (w stubbedWorld) MayControl(user subject.User, role parent.Role) bool {
	return w.World.MayControl(user, role) || w.stubs.controllerUser != nil && w.stubs.controllerUser(user.Name)
}

func (w stubbedWorld) MayApprove(ctx context.Context, user subject.User, object parent.Ref, subresource string) (bool, error) {
	if f := w.stubs.mayApproveAt; f != nil {
		return f(user, subresource), nil
	}
	return w.stubs.mayApprove(ctx, user, object)
}

func (w stubbedWorld) MayUpdateStatus(ctx context.Context, user subject.User, object parent.Ref) (bool, error) {
	if f := w.stubs.mayUpdateStatus; f != nil {
		return f(ctx, user, object)
	}
	return w.World.MayUpdateStatus(ctx, user, object)
}

func (w stubbedWorld) Guarded(object *parent.State) bool {
	if f := w.stubs.guarded; f != nil {
		return f(object)
	}
	return w.World.Guarded(object)
}

func (w stubbedWorld) Settings(object parent.Ref, labels map[string]string) settings.Settings {
	if f := w.stubs.settings; f != nil {
		return f(object, labels)
	}
	return w.World.Settings(object, labels)
}

func (w stubbedWorld) Initialized(kind schema.GroupKind) []string {
	if f := w.stubs.initialized; f != nil {
		return f(kind)
	}
	return w.World.Initialized(kind)
}

func (w stubbedWorld) Removing() bool {
	return w.stubs.removing != nil && w.stubs.removing()
}

func (w stubbedWorld) Below(ctx context.Context, object *parent.State) []Below {
	if f := w.stubs.below; f != nil {
		return f(ctx, object)
	}
	return w.World.Below(ctx, object)
}

func (w stubbedWorld) Author(ctx context.Context, cause v1alpha1.HopCause) (v1alpha1.HopCause, error) {
	if f := w.stubs.author; f != nil {
		return f(ctx, cause)
	}
	return w.World.Author(ctx, cause)
}
