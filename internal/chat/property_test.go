package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/gate"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/wire"
)

// play is one schedule.
type play struct {
	t      *testing.T
	rng    *rand.Rand
	model  *fickle
	shop   *shop
	name   string
	desk   *policy.Desk
	kept   shelf
	dead   *atomic.Bool
	e      *Engine
	c      *Conversation
	faults chan error

	mu  sync.Mutex
	ran map[string]int // by the id of the call

	pos  Position
	seen []Event // durable events, as a reader that comes and goes has them
	part string
}

func (p *play) fault(err error) {
	select {
	case p.faults <- err:
	default:
	}
}

func (p *play) start() {
	p.dead = &atomic.Bool{}
	leases, err := lease.Open(context.Background(), nil, lease.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.e, err = open(context.Background(), shelf{&mortal{p.kept.log, p.dead}, p.kept.blobs, true, memorySlow}, leases, Options{
		Face:   func(string) call.Face { return gate.Face(p.shop, gate.Options{}) },
		Models: func(string) (Model, error) { return Model{Model: p.model, Name: "fickle"}, nil },
		Desk:   p.desk, Idle: time.Hour,
	}, Settings{MaxSteps: 6, RetryDelay: time.Nanosecond, Queue: 3, RetainNewest: 4})
	if err != nil {
		p.t.Fatal(err)
	}
	p.e.every = time.Duration(p.rng.IntN(3)) * 100 * time.Microsecond
	if p.c, err = p.e.Conversation(auth.Owner, p.name); err != nil {
		p.t.Fatal(err)
	}
	p.e.Resume()
}

// history is what the log says.
func (p *play) history() (all []Event, err error) {
	b := p.e.book(p.c.id)
	b.id = p.c.id
	err = b.replay(context.Background(), Position{}, func(ev *Event, _ uint64) error {
		all = append(all, *ev)
		return nil
	})
	return all, err
}

// crash ends the hub at once, and starts another.
func (p *play) crash() {
	p.dead.Store(true)
	p.e.Close()
	p.start()
}

// read reads on for a moment, or comes back at a position of before.
func (p *play) read() {
	if n := len(p.seen); n > 0 && p.rng.IntN(3) == 0 {
		back := p.rng.IntN(n)
		p.pos, p.seen, p.part = Position{Seq: uint64(back)}, p.seen[:back], ""
		if r := p.rng.IntN(4); r == 0 && back < n && (p.seen[:n][back].Type == TextPart) {
			whole := p.seen[:n][back].Text
			cut := p.rng.IntN(len(whole) + 1)
			p.pos.Offset, p.part = cut, whole[:cut]
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.rng.IntN(3000))*time.Microsecond)
	defer cancel()
	for range 1 + p.rng.IntN(4) {
		events, next, err := p.c.Next(ctx, p.pos, 1+p.rng.IntN(5))
		if err != nil {
			return
		}
		p.take(events)
		p.pos = next
	}
}

// take puts the pieces together as a client does.
func (p *play) take(events []Event) {
	for _, ev := range events {
		switch {
		case ev.Type == CallProgress:
		case ev.Live:
			if ev.Offset != len(p.part) || ev.Seq != uint64(len(p.seen))+1 {
				p.fault(fmt.Errorf("a live piece of %d at %d after %d bytes of %d", ev.Seq, ev.Offset, len(p.part), len(p.seen)+1))
			}
			p.part += ev.Text
		default:
			if ev.Offset > 0 {
				if ev.Offset != len(p.part) {
					p.fault(fmt.Errorf("the rest of part %d at %d after %d bytes", ev.Seq, ev.Offset, len(p.part)))
				}
				ev.Text, ev.Offset = p.part+ev.Text, 0
			}
			p.part = ""
			p.seen = append(p.seen, ev)
		}
	}
}

// decide answers what is asked.
func (p *play) decide() {
	for _, a := range p.desk.Pending(auth.LocalName) {
		dec := policy.Decision{Approve: p.rng.IntN(2) == 0}
		if dec.Approve && p.rng.IntN(2) == 0 {
			dec.Args = json.RawMessage(`{"edited":true}`)
		}
		_ = p.desk.Decide(auth.Owner, a.ID, dec) // its turn may have ended meanwhile
	}
}

func (p *play) act() {
	switch p.rng.IntN(10) {
	case 0, 1, 2:
		_, err := p.c.Send(context.Background(), Input{Text: fmt.Sprintf("say %d", p.rng.IntN(100)), Key: []string{"", "", "k1", "k2"}[p.rng.IntN(4)]})
		if err != nil && !fault.Is(err, fault.Limit) {
			p.fault(fmt.Errorf("send: %w", err))
		}
	case 3, 4:
		if _, err := p.c.Abort("", p.rng.IntN(4) == 0); err != nil {
			p.fault(fmt.Errorf("abort: %w", err))
		}
	case 5, 6:
		p.decide()
	case 7:
		if p.rng.IntN(3) == 0 {
			p.crash()
		}
	default:
		p.read()
	}
}

// settle brings the conversation to rest and asks once more.
func (p *play) settle() {
	p.model.tame.Store(true)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := p.c.Abort("", true); err != nil {
			p.fault(fmt.Errorf("abort: %w", err))
		}
		st, err := p.c.State()
		if err != nil {
			p.fault(err)
			return
		}
		p.c.mu.Lock()
		idle := !p.c.looped
		p.c.mu.Unlock()
		if st.Turn == nil && len(st.Queue) == 0 && idle {
			break
		}
		if time.Now().After(deadline) {
			p.fault(fmt.Errorf("the turn does not end: %+v", st.Turn))
			return
		}
		p.read()
	}
	if _, err := p.c.Send(context.Background(), Input{Text: "still there?"}); err != nil {
		p.fault(fmt.Errorf("send at the end: %w", err))
		return
	}
	for {
		st, _ := p.c.State()
		if st.Turn == nil && len(st.Queue) == 0 {
			if st.Last.Reason != ReasonDone {
				p.fault(fmt.Errorf("the last turn ended so: %+v", st.Last))
			}
			return
		}
		if time.Now().After(deadline) {
			p.fault(errors.New("the last turn does not end"))
			return
		}
		p.read()
	}
}

// verify compares what there is with what the log says.
func (p *play) verify(x *examiner) {
	st, err := p.c.State()
	if err != nil {
		p.fault(err)
		return
	}
	var replayed State
	log, err := p.history()
	for i := range log {
		err = errors.Join(err, replayed.Apply(&log[i]))
	}
	if err != nil {
		p.fault(err)
	}
	if d := cmp.Diff(replayed, st, cmp.AllowUnexported(State{})); d != "" {
		p.fault(fmt.Errorf("replayed state (-) and state (+) differ: %s", d))
	}
	for p.pos.Seq < st.Seq {
		events, next, err := p.c.Next(context.Background(), p.pos, 0)
		if err != nil {
			p.fault(err)
			return
		}
		p.take(events)
		p.pos = next
	}
	if d := cmp.Diff(log, p.seen); d != "" {
		p.fault(fmt.Errorf("the log (-) and what a reader has (+) differ: %s", d))
	}
	p.truth(log)
	if err := x.examine(llm.Request{Messages: llm.Repair(st.History(), lost)}); err != nil {
		p.fault(err)
	}
}

// truth compares the log with what models said and which tools ran.
func (p *play) truth(log []Event) {
	started, void, done := map[string]bool{}, map[string]bool{}, map[string]int{}
	text, calls := "", []string(nil)
	for _, ev := range log {
		switch ev.Type {
		case TextPart:
			text += ev.Text
		case CallMade:
			calls = append(calls, ev.Call.ID)
		case ModelRetry:
			if ev.Retry.Discard {
				for _, id := range calls {
					void[id] = true
				}
				text, calls = "", nil
			}
		case AnswerDone:
			p.model.mu.Lock()
			if p.model.whole[text]--; p.model.whole[text] < 0 {
				p.fault(fmt.Errorf("answer %d says %q, which the model did not", ev.Seq, text))
			}
			p.model.mu.Unlock()
			text, calls = "", nil
		case TurnEnded:
			text, calls = "", nil
		case CallStarted:
			started[ev.Call.ID] = true
		case CallDone:
			done[ev.Result.Call]++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, n := range p.ran {
		if n != 1 || !started[id] || done[id] != 1 || void[id] {
			p.fault(fmt.Errorf("call %s ran %d times; started %v, void %v, %d results", id, n, started[id], void[id], done[id]))
		}
	}
}

func runPlay(t *testing.T, x *examiner, seed uint64, st *store.Store, often int) {
	p := &play{t: t, rng: rand.New(rand.NewPCG(seed, 7)), faults: make(chan error, 8), ran: map[string]int{}, shop: newShop(), name: fmt.Sprintf("play%d", seed)}
	var err error
	if p.kept, err = openShelf(context.Background(), st); err != nil {
		t.Fatal(err)
	}
	p.shop.ran = func(req *mcp.Request) {
		id, _ := wire.String(wire.Get(req.Param("_meta"), "progressToken"))
		p.mu.Lock()
		p.ran[id]++
		p.mu.Unlock()
	}
	p.model = &fickle{whole: map[string]int{}, rng: rand.New(rand.NewPCG(seed, 8)), check: func(req llm.Request) {
		if p.model.pick(often) == 0 {
			if err := x.examine(req); err != nil {
				p.fault(err)
			}
		}
	}}
	if p.desk, err = policy.OpenDesk(context.Background(), nil, policy.DeskOptions{}); err != nil {
		t.Fatal(err)
	}
	defer p.desk.Close()
	defer p.desk.Attend(auth.LocalName, "")()
	p.start()
	defer func() { p.e.Close() }()
	for range 5 + p.rng.IntN(15) {
		p.act()
	}
	p.settle()
	p.verify(x)
	select {
	case err := <-p.faults:
		log, _ := p.history()
		t.Fatalf("seed %d: %v\n%s", seed, err, describe(log))
	default:
	}
}

// TestAnySchedule holds any interleaving of what users, models, tools and
// crashes do to what is promised: the history is one that all providers take,
// the state is what the log says, readers have what the log has, and no call is
// made twice.
func TestAnySchedule(t *testing.T) {
	n, often, first := 200, 1, uint64(time.Now().UnixNano())
	if os.Getenv("STOA_SOAK") == "1" {
		n, often = 100_000, 8
	}
	st := storetest.Open(t, store.Options{})
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		x := newExaminer(t)
		wg.Go(func() {
			for !t.Failed() {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				on := st
				if i%20 != 0 {
					on = nil
				}
				func() {
					defer func() {
						if t.Failed() {
							t.Logf("schedule %d", i)
						}
					}()
					runPlay(t, x, first+uint64(i), on, often)
				}()
			}
		})
	}
	wg.Wait()
}
