package facts

import (
	"context"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
)

// FreezeOf returns the freeze of an object that is in force; nil where there is no freeze.
func (f *Facts) FreezeOf(ctx context.Context, s *parent.State, live bool) (*identity.Freeze, error) {
	by, err := f.Covering(ctx, s.Ref, f.World.Settings(s.Ref, s.Labels).Freezes, live)
	if err != nil {
		return nil, err
	}
	return identity.FreezeOf(s, f.KindOf(s), by, f.Req.Time), nil
}

// Covering returns what may freeze an object from outside: its Namespace, and the freezes of the
// policies that cover it, which are given. A Namespace is read live only where the watch has a freeze,
// so that no cache alone refuses (KR-05-20): each read counts where the API server is slow.
func (f *Facts) Covering(ctx context.Context, ref parent.Ref, policies []settings.PolicyFreeze, live bool) (identity.Covering, error) {
	out := identity.Covering{Policies: policies}
	if ref.Namespace == "" {
		return out, nil
	}
	var err error
	out.Namespace, err = f.World.Namespace(ctx, ref.Namespace, false)
	if err == nil && live && out.Namespace.Freeze != "" {
		out.Namespace, err = f.World.Namespace(ctx, ref.Namespace, true)
	}
	if err != nil {
		return out, fmt.Errorf("cannot read whether namespace %s is frozen: %w", ref.Namespace, err)
	}
	return out, nil
}
