package page

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// coveredFor is how long the coverage is shown before all objects are read again.
const coveredFor = time.Minute

// coverage is the page with what is not protected, and what is frozen or snoozed (KR-17-12).
type coverage struct {
	*Page
	mu   sync.Mutex
	have *inspect.Coverage
	at   time.Time
}

// coverageData of the page.
type coverageData struct {
	*inspect.Coverage
	Summary string
	Gaps    []gapData
	// Command that shows all of it.
	Command string
	At      metav1.Time
}

// gapData of a gap, with its objects by kind.
type gapData struct {
	Gap, Explained string
	Kinds          []inspect.KindGap
}

// show the coverage, read at most coveredFor ago.
func (p *coverage) show(ctx context.Context, _ *query) (*answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.options.Now(); p.have == nil || now.Sub(p.at) >= coveredFor {
		found, err := p.read(ctx)
		if err != nil {
			return nil, err
		}
		p.have, p.at = found, now
	}
	c := p.have
	data := &coverageData{Coverage: c, At: metav1.NewTime(p.at), Command: "kubectl kausality coverage -A -o wide",
		Summary: fmt.Sprintf("%d of %s of %s are protected.", c.Protected, channel.Plural(c.Objects, "object"), channel.Plural(c.Kinds-c.UnreadKinds(), "kind"))}
	for _, g := range c.Gaps {
		if n := len(data.Gaps); n == 0 || data.Gaps[n-1].Gap != string(g.Gap) {
			data.Gaps = append(data.Gaps, gapData{Gap: string(g.Gap), Explained: inspect.Explained[g.Gap]})
		}
		last := &data.Gaps[len(data.Gaps)-1]
		last.Kinds = append(last.Kinds, g)
	}
	return &answer{template: "coverage.html", title: "Coverage", data: data}, nil
}

// read the coverage of the whole cluster or, where the user may not read that, of the Namespace of the kubeconfig.
func (p *coverage) read(ctx context.Context) (*inspect.Coverage, error) {
	i, err := p.reader.inspector(ctx)
	if err != nil {
		return nil, err
	}
	found, err := i.Coverage(ctx, metav1.NamespaceAll)
	if kerrors.IsForbidden(err) {
		return i.Coverage(ctx, p.options.Namespace)
	}
	return found, err
}
