package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/gate"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/script"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/wire"
)

// ware is a tool of the stage's server.
type ware struct {
	about string // annotations
	run   func(ctx context.Context, req *mcp.Request, args json.RawMessage) (string, error)
}

// shop is a face with tools that a test says: an MCP server of one process.
type shop struct {
	mu      sync.Mutex
	wares   map[string]ware
	names   []string
	prompts map[string]string // results of prompts/get, raw
	stale   []string
	calls   []string // names of tools, in the order they were called
	metas   []string
	lists   int
	gets    int
	ran     func(*mcp.Request)                   // told each call; may be nil
	whole   map[string]func(*mcp.Request) string // tools that say their result, raw
}

func newShop() *shop {
	s := &shop{wares: map[string]ware{}, prompts: map[string]string{}}
	s.add("srv__echo", `{"readOnlyHint":true}`, func(_ context.Context, _ *mcp.Request, args json.RawMessage) (string, error) {
		text, _ := wire.String(wire.Get(args, "text"))
		return text, nil
	})
	s.add("srv__fail", `{"readOnlyHint":true}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
		return "", fault.New(fault.Unreachable, "srv", "nobody is there")
	})
	s.add("srv__wipe", `{"destructiveHint":true}`, func(_ context.Context, _ *mcp.Request, args json.RawMessage) (string, error) {
		return "wiped " + string(args), nil
	})
	s.add("srv__wait", `{"readOnlyHint":true}`, func(ctx context.Context, _ *mcp.Request, _ json.RawMessage) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	return s
}

func (s *shop) add(name, about string, run func(context.Context, *mcp.Request, json.RawMessage) (string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.wares[name]; !ok {
		s.names = append(s.names, name)
	}
	s.wares[name] = ware{about, run}
}

func (s *shop) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

func (s *shop) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	switch req.Method {
	case "tools/list":
		return s.list(), nil
	case "prompts/list":
		s.mu.Lock()
		defer s.mu.Unlock()
		var defs []string
		for _, name := range slices.Sorted(maps.Keys(s.prompts)) {
			defs = append(defs, fmt.Sprintf(`{"name":%q}`, name))
		}
		return mcp.Response{Result: []byte(`{"prompts":[` + strings.Join(defs, ",") + `]}`)}, nil
	case "prompts/get":
		name, _ := req.Text("name")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gets++
		if raw := s.prompts[name]; raw != "" {
			return mcp.Response{Result: []byte(raw)}, nil
		}
		return mcp.Response{}, fault.New(fault.Unreachable, "srv", "the prompt cannot be had")
	case "tools/call":
		return s.call(ctx, req)
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "%s", req.Method)
}

func (s *shop) list() mcp.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	var defs []string
	for _, name := range s.names {
		defs = append(defs, fmt.Sprintf(`{"name":%q,"description":"The tool %s.","inputSchema":{"type":"object"},"annotations":%s}`, name, name, s.wares[name].about))
	}
	stale, _ := json.Marshal(s.stale)
	return mcp.Response{Result: fmt.Appendf(nil, `{"tools":[%s],"_meta":{"stoa/stale":%s}}`, strings.Join(defs, ","), stale)}
}

func (s *shop) call(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	name, _ := req.Text("name")
	s.mu.Lock()
	w, ok := s.wares[name]
	whole := s.whole[name]
	s.calls = append(s.calls, name)
	s.metas = append(s.metas, string(req.Param("_meta")))
	s.mu.Unlock()
	if s.ran != nil {
		s.ran(req)
	}
	if !ok {
		return mcp.Response{}, fault.New(fault.UnknownTool, name, "there is none")
	}
	if whole != nil {
		return mcp.Response{Result: []byte(whole(req))}, nil
	}
	text, err := w.run(ctx, req, req.Param("arguments"))
	if err != nil {
		return mcp.Response{}, err
	}
	return mcp.Response{Result: append(append([]byte(`{"content":[{"type":"text","text":`), wire.Quote(text)...), `}]}`...)}, nil
}

func (s *shop) Attach(*mcp.Listener) func()                              { return func() {} }
func (s *shop) Subscribe(context.Context, *mcp.Listener, string) error   { return nil }
func (s *shop) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

// stage is an engine with a model that follows a script.
type stage struct {
	t    testing.TB
	e    *Engine
	shop *shop
	desk *policy.Desk
	reg  *session.Registry
	who  *auth.Principal

	mu    sync.Mutex
	model Model
}

type staged struct {
	store    *store.Store
	over     func(journal.Log) journal.Log // what lies over the log; nil: nothing
	model    llm.Model                     // nil: script
	script   string
	pace     time.Duration
	settings Settings
	options  Options
	rules    policy.Rules // by which the face decides
	window   int
	quiet    bool          // nobody attends
	unread   *atomic.Int64 // how often the tokens cannot be read still; nil: they can
	gone     *atomic.Bool  // the token of who speaks is; nil: it stays
	lookup   func(*stage)  // called when it is looked for; may be nil
}

func newStage(t testing.TB, o staged) *stage {
	t.Helper()
	s := &stage{t: t, shop: newShop(), who: auth.Owner}
	s.use(o)
	var err error
	if s.reg, err = session.Open(t.Context(), o.store, session.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.reg.Close)
	if s.desk, err = policy.OpenDesk(t.Context(), nil, policy.DeskOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.desk.Close)
	if !o.quiet {
		t.Cleanup(s.desk.Attend(s.who.Name, ""))
	}
	o.options.Face = func(string) call.Face { return gate.Face(s.shop, gate.Options{Rules: policy.Compile(o.rules, nil)}) }
	o.options.Principal = func(_ string, via auth.Via) (*auth.Principal, error) {
		if o.lookup != nil {
			o.lookup(s)
		}
		switch {
		case o.unread != nil && o.unread.Add(-1) >= 0:
			return nil, errors.New("the file is half written")
		case o.gone != nil && o.gone.Load():
			return nil, nil
		case via == s.who.Via:
			return s.who, nil
		}
		return auth.Local, nil
	}
	o.options.Models = func(string) (Model, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.model, nil
	}
	o.options.Sessions, o.options.Desk = s.reg, s.desk
	if o.settings.RetryDelay == 0 {
		o.settings.RetryDelay = time.Millisecond
	}
	sh, err := openShelf(t.Context(), o.store)
	if err != nil {
		t.Fatal(err)
	}
	if o.over != nil {
		sh.log = o.over(sh.log)
	}
	leases, err := lease.Open(t.Context(), o.store, lease.Options{Bucket: leaseName, Hub: cmp.Or(o.options.Hub, "one"), Life: o.options.Lease, Alone: sh.alone})
	if err != nil {
		t.Fatal(err)
	}
	if s.e, err = open(t.Context(), sh, leases, o.options, o.settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.e.Close)
	s.e.Resume()
	return s
}

func (s *stage) use(o staged) {
	s.t.Helper()
	m := o.model
	if m == nil {
		var err error
		if m, err = script.New(script.Options{Script: o.script, Pace: o.pace}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model = Model{Model: m, Name: "script", MaxTokenCount: o.window, Price: llm.Price{Input: 1, Output: 2}}
}

func (s *stage) open(name string) *Conversation {
	s.t.Helper()
	c, err := s.e.Conversation(s.who, name)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *stage) send(c *Conversation, text string) Event {
	s.t.Helper()
	ev, err := c.Send(s.t.Context(), Input{Text: text})
	if err != nil {
		s.t.Fatal(err)
	}
	return ev
}

// until reads events from the beginning until one is as wanted.
func (s *stage) until(c *Conversation, want func(*Event) bool) []Event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var all []Event
	var pos Position
	for {
		events, next, err := c.Next(ctx, pos, 0)
		if err != nil {
			s.t.Fatalf("after %d events: %v\n%s", len(all), err, describe(all))
		}
		pos = next
		for i := range events {
			all = append(all, events[i])
			if want(&events[i]) {
				return all
			}
		}
	}
}

// turns reads until n turns have ended.
func (s *stage) turns(c *Conversation, n int) []Event {
	s.t.Helper()
	return s.until(c, func(ev *Event) bool {
		if ev.Type == TurnEnded {
			n--
		}
		return n == 0
	})
}

// log returns all durable events.
func (s *stage) log(c *Conversation) []Event {
	s.t.Helper()
	var all []Event
	last := s.state(c).Seq
	for pos := (Position{}); pos.Seq < last; {
		events, next, err := c.Next(s.t.Context(), pos, 7)
		if err != nil {
			s.t.Fatal(err)
		}
		pos = next
		for _, ev := range events {
			if !ev.Live {
				all = append(all, ev)
			}
		}
	}
	return all
}

func (s *stage) state(c *Conversation) State {
	s.t.Helper()
	st, err := c.State()
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// describe shows durable events, one on a line.
func describe(events []Event) string {
	var b strings.Builder
	for _, ev := range events {
		if ev.Live {
			continue
		}
		fmt.Fprintf(&b, "%d %s", ev.Seq, ev.Type)
		switch {
		case ev.Input != nil:
			fmt.Fprintf(&b, " %s %q", ev.Input.ID, ev.Input.Text)
		case ev.Call != nil:
			fmt.Fprintf(&b, " %s %s %s", ev.Call.ID, ev.Call.Name, ev.Call.Args)
		case ev.Result != nil:
			fmt.Fprintf(&b, " %s %s %q", ev.Result.Call, ev.Result.Status, ev.Result.Content)
		case ev.Decision != nil:
			fmt.Fprintf(&b, " %s %v", ev.Approval.Call, ev.Decision.Outcome())
		case ev.Approval != nil:
			fmt.Fprintf(&b, " %s %s", ev.Approval.Call, ev.Approval.Args)
		case ev.Answer != nil:
			fmt.Fprintf(&b, " %s", ev.Answer.Stop)
		case ev.Retry != nil:
			fmt.Fprintf(&b, " %+v", *ev.Retry)
		case ev.Note != nil:
			fmt.Fprintf(&b, " %s %s %q", ev.Note.Kind, ev.Note.Tool, ev.Note.Text)
		case ev.Compaction != nil:
			fmt.Fprintf(&b, " %s %v %d", ev.Compaction.Kind, ev.Compaction.Calls, ev.Compaction.Cut)
		case ev.End != nil:
			b.WriteString(strings.TrimRight(" "+ev.End.Reason+" "+ev.End.Kind, " "))
		case ev.Text != "":
			fmt.Fprintf(&b, " %q", ev.Text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var _ mcp.Handler = (*shop)(nil)
