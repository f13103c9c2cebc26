package call

import (
	"context"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/wire"
)

// ears are those who want to hear how tasks change.
type ears struct {
	mu    sync.Mutex
	own   map[string]map[*mcp.Listener]bool   // by id, of tasks of ours
	other map[string]map[*mcp.Listener]string // by upstream and its id, with the id that the listener knows
	dirty map[*task.Task]bool
	more  chan struct{} // holds a token while something is dirty
}

func (e *ears) init() {
	e.own, e.other, e.dirty = map[string]map[*mcp.Listener]bool{}, map[string]map[*mcp.Listener]string{}, map[*task.Task]bool{}
	e.more = make(chan struct{}, 1)
}

func otherKey(upstream, id string) string { return upstream + " " + id }

// Follow adds a task to what l hears of, until Forget.
func (k *Tasks) Follow(ctx context.Context, l *mcp.Listener, agent, id string) error {
	if u, own, err := k.open(l.Client, agent, id); err == nil {
		k.ears.mu.Lock()
		key := otherKey(u.Name(), own)
		who := k.ears.other[key]
		if who == nil {
			who = map[*mcp.Listener]string{}
			k.ears.other[key] = who
		}
		first := len(who) == 0
		who[l] = id
		k.ears.mu.Unlock()
		if !first {
			return nil
		}
		if err := u.FollowTask(ctx, own); err != nil {
			k.ears.mu.Lock()
			delete(k.ears.other, key)
			k.ears.mu.Unlock()
			return err
		}
		return nil
	}
	t, err := k.find(l.Client, agent, id)
	if err != nil {
		return err
	}
	k.ears.mu.Lock()
	defer k.ears.mu.Unlock()
	if k.ears.own[t.ID()] == nil {
		k.ears.own[t.ID()] = map[*mcp.Listener]bool{}
	}
	k.ears.own[t.ID()][l] = true
	return nil
}

// Forget takes a listener out.
func (k *Tasks) Forget(l *mcp.Listener) {
	var last []string
	k.ears.mu.Lock()
	for id, who := range k.ears.own {
		if delete(who, l); len(who) == 0 {
			delete(k.ears.own, id)
		}
	}
	for key, who := range k.ears.other {
		if _, ok := who[l]; !ok {
			continue
		}
		if delete(who, l); len(who) == 0 {
			delete(k.ears.other, key)
			last = append(last, key)
		}
	}
	k.ears.mu.Unlock()
	for _, key := range last {
		name, id, _ := strings.Cut(key, " ")
		if u := k.opts.Pool.Get(name); u != nil {
			u.LeaveTask(id)
		}
	}
}

// changed notes that a task changed, if anybody wants to know.
func (k *Tasks) changed(t *task.Task) {
	k.ears.mu.Lock()
	defer k.ears.mu.Unlock()
	if len(k.ears.own[t.ID()]) == 0 {
		return
	}
	k.ears.dirty[t] = true
	select {
	case k.ears.more <- struct{}{}:
	default:
	}
}

// tell tells listeners how their tasks stand. Several changes that come at
// once are told as one.
func (k *Tasks) tell() {
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-k.ears.more:
		}
		k.ears.mu.Lock()
		dirty := k.ears.dirty
		k.ears.dirty = map[*task.Task]bool{}
		k.ears.mu.Unlock()
		for t := range dirty {
			k.tellOf(t)
		}
	}
}

// tellOf tells listeners how one task stands. One that makes the hub stumble
// costs them that.
func (k *Tasks) tellOf(t *task.Task) {
	defer func() {
		if p := recover(); p != nil {
			_ = obs.Stumbled(k.opts.Logger, p, "telling of a task stumbled", obs.KeyTask, t.ID())
		}
	}()
	d, err := t.Detail(k.ctx)
	if err != nil {
		return // tasks/get says what is wrong
	}
	params := append(append([]byte{'{'}, d.JSON(true)...), '}')
	k.ears.mu.Lock()
	defer k.ears.mu.Unlock()
	for l := range k.ears.own[t.ID()] {
		l.Deliver(mcp.NoteTask, params)
	}
}

// heard passes on what an upstream says of a task of its own.
func (k *Tasks) heard(upstream, method string, params []byte) {
	if method != mcp.NoteTask {
		return
	}
	id, _ := wire.String(wire.Get(params, "taskId"))
	k.ears.mu.Lock()
	defer k.ears.mu.Unlock()
	for l, shown := range k.ears.other[otherKey(upstream, id)] {
		l.Deliver(mcp.NoteTask, wire.Edit(nil, params, wire.Change{Name: "taskId", Value: wire.Quote(shown)}))
	}
}
