package hosted

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/channel/page"
)

const (
	// maxPages bounds the users of whom a page is kept, with what it has read; idleFor is how long one is kept after the last request.
	maxPages = 50
	idleFor  = 10 * time.Minute
	// sweepEvery is how often those are dropped.
	sweepEvery = time.Minute
)

// errBusy is that more users look at once than there may be pages.
var errBusy = errors.New("too many users look at this page now")

// pool of the pages of users. It is safe for concurrent use.
type pool struct {
	// make a page for a person, whose bearer token, if any, is read when it is used.
	make func(Person, *atomic.Pointer[string]) (*page.Page, error)
	now  func() time.Time

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // Pages are live until it ends.
	pages map[string]*pooled
}

// pooled is the page of one user.
type pooled struct {
	*page.Page
	token  atomic.Pointer[string]
	cancel context.CancelFunc
	// busy is how many requests it serves; used is when the last one began or ended.
	busy int
	used time.Time
}

// of returns the page of a person, for a request that calls done in the end. token is the bearer token of that person; empty for none.
func (p *pool) of(who Person, token string) (one *pooled, done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one = p.pages[who.key()]
	if one == nil {
		if one, err = p.add(who); err != nil {
			return nil, nil, err
		}
	}
	one.token.Store(&token)
	one.busy++
	one.used = p.now()
	return one, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		one.busy--
		one.used = p.now()
	}, nil
}

// add adds the page of a person; the one without a request for longest makes room. mu is held.
func (p *pool) add(who Person) (*pooled, error) {
	if len(p.pages) >= maxPages {
		oldest := ""
		for key, one := range p.pages {
			if one.busy == 0 && (oldest == "" || one.used.Before(p.pages[oldest].used)) {
				oldest = key
			}
		}
		if oldest == "" {
			return nil, errBusy
		}
		p.drop(oldest)
	}
	one := &pooled{}
	var err error
	if one.Page, err = p.make(who, &one.token); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, one.cancel = context.WithCancel(p.ctx)
	go one.Run(ctx)
	p.pages[who.key()] = one
	pages.Set(float64(len(p.pages)))
	return one, nil
}

// drop drops the page of a key. mu is held.
func (p *pool) drop(key string) {
	p.pages[key].cancel()
	delete(p.pages, key)
	pages.Set(float64(len(p.pages)))
}

// sweep drops pages that are idle, until ctx ends.
func (p *pool) sweep(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { p.dropIdle() }, sweepEvery)
}

// dropIdle drops the pages without a request for idleFor.
func (p *pool) dropIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, one := range p.pages {
		if one.busy == 0 && p.now().Sub(one.used) > idleFor {
			p.drop(key)
		}
	}
}
