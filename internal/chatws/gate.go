package chatws

import (
	"context"
	"sync"

	"github.com/stoahub/stoa/internal/fault"
)

// gate counts those who are connected, each principal's for itself, and tells
// them when the hub stops.
type gate struct {
	most    int
	ctx     context.Context // ends when the hub stops
	end     context.CancelFunc
	closing <-chan struct{} // of ctx

	mu   sync.Mutex
	open map[string]int // by the name of the principal
	wg   sync.WaitGroup
}

func newGate(most int) *gate {
	g := &gate{most: most, open: map[string]int{}}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.closing = g.ctx.Done()
	return g
}

// errClosing refuses those who come when the hub stops.
var errClosing = fault.New(fault.Unreachable, "", "the hub is stopping")

// enter lets one in, who calls leave when it goes. If there are too many, or
// the hub is stopping, that is the error.
func (g *gate) enter(principal string) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return nil, errClosing
	}
	if g.open[principal] >= g.most {
		f := fault.New(fault.Limit, "", "%d connections are open, which is as many as one principal may have", g.most)
		f.Hint = "Close one that is not needed any more."
		return nil, f
	}
	g.open[principal]++
	g.wg.Add(1)
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.open[principal]--; g.open[principal] == 0 {
			delete(g.open, principal)
		}
		g.wg.Done()
	}), nil
}

// close tells everybody to go, and lets nobody in any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
}

// wait waits until all have gone or ctx ends.
func (g *gate) wait(ctx context.Context) {
	gone := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}
