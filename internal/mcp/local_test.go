package mcp

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// module is a Handler in this process that keeps who listens.
type module struct {
	audience Audience
	mu       sync.Mutex
	notes    []string
}

func (m *module) Handle(ctx context.Context, r *Request) (Response, error) {
	if r.IsNote {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.notes = append(m.notes, r.Method)
		return Response{}, nil
	}
	switch r.Method {
	case "initialize", "server/discover":
		return Introduce(r.Client, []byte(`{"tools":{"listChanged":true}}`), nil, "")
	case "tools/call":
		r.Stream.Notify("notifications/progress", append(append([]byte(`{"progressToken":`), r.Token...), `,"progress":1}`...))
		return Response{Result: append([]byte(nil), r.Params...)}, nil
	case "wait":
		<-ctx.Done()
		return Response{}, ctx.Err()
	}
	return Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", r.Method)
}

func (m *module) Attach(l *Listener) func() {
	m.audience.Add(l)
	return func() { m.audience.Remove(l) }
}

func (m *module) Subscribe(_ context.Context, l *Listener, uri string) error {
	m.audience.Subscribe(l, uri, uri)
	return nil
}

func (m *module) Unsubscribe(_ context.Context, l *Listener, uri string) error {
	m.audience.Unsubscribe(l, uri)
	return nil
}

func (m *module) changed() {
	m.audience.Tell(NoteToolsChanged, func(*Listener) bool { return true })
}

// heardNotes collects the notifications of a Stream or a ConnOptions.
type heardNotes struct {
	Stream
	c chan string
}

func (h heardNotes) Notify(method string, params []byte) { h.c <- method + " " + string(params) }
func (h heardNotes) Flush()                              {}

func TestLocalSpeaksBothEras(t *testing.T) {
	for _, era := range []Era{Legacy, Modern} {
		t.Run(era.String(), func(t *testing.T) {
			ctx := t.Context()
			c := LocalTo(&module{}, ConnOptions{})
			defer c.Close()
			var h *Hello
			var err error
			if era == Legacy {
				h, err = Initialize(ctx, c, []byte("{}"), nil)
			} else {
				h, err = Discover(ctx, c)
			}
			if err != nil || h.Era != era || !h.CanDo("tools", "listChanged") {
				t.Fatalf("hello %+v, %v", h, err)
			}
			notes := heardNotes{Discard, make(chan string, 1)}
			params := []byte(`{"name":"x","arguments":{"big":12345678901234567890},"_meta":{"progressToken":"p"}}`)
			o := &Outgoing{Method: "tools/call", Raw: params, Fields: wire.Members(params), Meta: wire.Members(wire.Get(params, "_meta")), Token: []byte(`"p"`), Stream: notes,
				Client: &Client{Era: Legacy, Version: LegacyVersion, Actor: actor.New(actor.Hub, auth.Local)}}
			resp, err := c.Call(ctx, o)
			if err != nil || string(wire.Get(wire.Get(resp.Result, "arguments"), "big")) != "12345678901234567890" {
				t.Fatalf("answer %s, %v", resp.Result, err)
			}
			if got := <-notes.c; got != `notifications/progress {"progressToken":"p","progress":1}` {
				t.Errorf("notification %s", got)
			}
			if modern := strings.Contains(string(resp.Result), metaVersion); modern != (era == Modern) {
				t.Errorf("params for the %v era: %s", era, resp.Result)
			}
			if resp, err = c.Call(ctx, &Outgoing{Method: "none"}); err != nil || errorCode(resp.Error) != -32601 {
				t.Errorf("unknown method: %s, %v", resp.Error, err)
			}
		})
	}
}

func TestLocalTellsChanges(t *testing.T) {
	m := &module{}
	heard := make(chan string, 8)
	opts := ConnOptions{Note: func(method string, _ []byte) { heard <- method }}

	legacy := LocalTo(m, opts)
	if _, err := Initialize(t.Context(), legacy, []byte("{}"), nil); err != nil {
		t.Fatal(err)
	}
	m.changed()
	if got := <-heard; got != NoteToolsChanged {
		t.Errorf("legacy heard %s", got)
	}
	legacy.Close()
	m.changed()
	if len(heard) > 0 {
		t.Errorf("a closed connection heard %s", <-heard)
	}

	modern := LocalTo(m, opts)
	if _, err := Discover(t.Context(), modern); err != nil {
		t.Fatal(err)
	}
	params := []byte(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}`)
	open := heardNotes{Discard, make(chan string, 1)}
	ended := make(chan error, 1)
	go func() {
		_, err := modern.Call(context.Background(), &Outgoing{Method: "subscriptions/listen", Raw: params, Fields: wire.Members(params), Stream: open})
		ended <- err
	}()
	if got := <-open.c; !strings.Contains(got, `"resourceSubscriptions":["a:b"]`) {
		t.Errorf("acknowledged by %s", got)
	}
	m.changed()
	if got := <-heard; got != NoteToolsChanged {
		t.Errorf("modern heard %s", got)
	}
	modern.Close()
	if err := <-ended; !errors.Is(err, ErrLost) {
		t.Errorf("the stream of a closed connection ended by %v", err)
	}
	if _, err := modern.Call(t.Context(), &Outgoing{Method: "tools/call"}); !errors.Is(err, ErrNotSent) {
		t.Errorf("a call on a closed connection: %v", err)
	}
}

func TestLocalHeedsTheCaller(t *testing.T) {
	m := &module{}
	c := LocalTo(m, ConnOptions{})
	defer c.Close()
	if _, err := Discover(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := fault.New(fault.Timeout, "", "late")
	cancel(late)
	if _, err := c.Call(ctx, &Outgoing{Method: "wait"}); !errors.Is(err, late) {
		t.Errorf("a call whose time was up ended by %v", err)
	}
	if err := c.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil || len(m.notes) != 1 {
		t.Errorf("notification: %v, %v", m.notes, err)
	}
}
