package view

import (
	"context"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// coveredFor is how long the coverage is shown before all objects are read again.
const coveredFor = time.Minute

// Coverage is what is not protected, and what is frozen or snoozed (KR-17-12).
type Coverage struct {
	*inspect.Coverage
	Summary string
	Gaps    []Gap
	// Command that shows all of it.
	Command string
	// At is when it was read.
	At metav1.Time
}

// Gap of the protection, with its objects by kind.
type Gap struct {
	Gap, Explained string
	Kinds          []inspect.KindGap
}

// Coverage read at most coveredFor ago.
func (v *View) Coverage(ctx context.Context) (*Coverage, error) {
	v.coverage.mu.Lock()
	defer v.coverage.mu.Unlock()
	if now := v.options.Now(); v.coverage.have == nil || now.Sub(v.coverage.at) >= coveredFor {
		found, err := v.covered(ctx)
		if err != nil {
			return nil, err
		}
		v.coverage.have, v.coverage.at = found, now
	}
	c := v.coverage.have
	out := &Coverage{Coverage: c, At: metav1.NewTime(v.coverage.at), Command: "kubectl kausality coverage -A -o wide",
		Summary: fmt.Sprintf("%d of %s of %s are protected.", c.Protected, channel.Plural(c.Objects, "object"), channel.Plural(c.Kinds-c.UnreadKinds(), "kind"))}
	for _, g := range c.Gaps {
		if n := len(out.Gaps); n == 0 || out.Gaps[n-1].Gap != string(g.Gap) {
			out.Gaps = append(out.Gaps, Gap{Gap: string(g.Gap), Explained: inspect.Explained[g.Gap]})
		}
		last := &out.Gaps[len(out.Gaps)-1]
		last.Kinds = append(last.Kinds, g)
	}
	return out, nil
}

// covered returns the coverage of the whole cluster or, where the user may not read that, of the Namespace of the kubeconfig.
func (v *View) covered(ctx context.Context) (*inspect.Coverage, error) {
	i, err := v.inspector(ctx)
	if err != nil {
		return nil, err
	}
	found, err := i.Coverage(ctx, metav1.NamespaceAll)
	if kerrors.IsForbidden(err) {
		return i.Coverage(ctx, v.options.Namespace)
	}
	return found, err
}
