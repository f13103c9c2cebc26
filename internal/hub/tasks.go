package hub

import (
	"context"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
)

// openTasks reads the tasks that the store holds. They go on when upstreams can
// be reached.
func (h *Hub) openTasks() (err error) {
	o := call.TaskOptions{Door: h.door, Pool: h.pool, Catalog: h.cat, Events: h.events, Logger: h.logger("task"), Principal: h.principal, TTL: h.cfg.Limits.TaskTTL, Hub: h.process, Before: h.before}
	if h.state.store == nil {
		o.Store = h.state.temporary
	}
	h.tasks, err = call.OpenTasks(context.Background(), h.state.store, o)
	return err
}

// principal returns who has a name now, and came in that way, or nil. An error
// says that the tokens cannot be read now.
func (h *Hub) principal(name string, via auth.Via) (*auth.Principal, error) {
	if name == auth.LocalName && via == auth.ViaOwner {
		return auth.Owner, nil
	}
	return h.lookup(name, (*auth.Tokens).Named)
}

// holder returns who would come with the token of a name, whether it was used
// yet or not, or nil.
func (h *Hub) holder(name string) (*auth.Principal, error) {
	return h.lookup(name, (*auth.Tokens).Holder)
}

func (h *Hub) lookup(name string, by func(*auth.Tokens, string) (*auth.Principal, error)) (*auth.Principal, error) {
	if name == auth.LocalName {
		return auth.Local, nil
	}
	v, ok := h.tokens.(*verifier)
	if !ok {
		return nil, nil
	}
	who, err := by(v.tokens, name)
	// Everything that lasts looks once a second: not each of it needs a line.
	if now := time.Now(); err != nil && now.Sub(time.Unix(0, h.unread.Load())) > warnAgain {
		h.unread.Store(now.UnixNano())
		h.log.Warn("the tokens cannot be read", "err", err)
	}
	return who, err
}

// warnAgain is how often it is told that the tokens cannot be read.
const warnAgain = 10 * time.Second
