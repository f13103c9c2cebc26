package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
)

// What a server sends that makes us panic ends its connection, is told with its
// stack, and nothing more.
func TestPipeConnStumbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Value
		c, f := pipeTo(t, ConnOptions{
			Note:     func(string, []byte) { panic("oh dear") },
			Panicked: func(v any, stack []byte) { told.Store(v.(string) + "\n" + string(stack)) },
		}, nil)
		call := start(t.Context(), c, request("tools/list", ""))
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		f.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		call.wantErr(t, isLost)
		<-c.Done()
		if text, _ := told.Load().(string); !strings.HasPrefix(text, "oh dear") || !strings.Contains(text, "stumble_test.go") {
			t.Errorf("told %q", text)
		}
		f.hangUp()
		c.Close()
	})
}

// A handler in this process that panics costs the call.
func TestLocalConnStumbles(t *testing.T) {
	told := ""
	c := LocalTo(&stumbler{}, ConnOptions{Panicked: func(v any, stack []byte) { told = v.(string) + "\n" + string(stack) }})
	defer c.Close()
	resp, err := c.Call(context.Background(), &Outgoing{Method: "tools/list", Client: &Client{Era: Modern}})
	if err != nil || !strings.Contains(string(resp.Error), "stumbled") || !strings.Contains(string(resp.Error), fault.Internal.String()) {
		t.Errorf("%s %v", resp.Error, err)
	}
	if !strings.HasPrefix(told, "oops") || !strings.Contains(told, "batch_test.go") {
		t.Errorf("told %q", told)
	}
}

// diary is where a test is told of panics.
type diary struct {
	mu   sync.Mutex
	told []string
}

func (d *diary) panicked(v any, stack []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, fmt.Sprint(v, "\n", string(stack)))
}

// want checks that it was told once, with the stack of this file.
func (d *diary) want(t *testing.T, what string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.told) != 1 || !strings.HasPrefix(d.told[0], what) || !strings.Contains(d.told[0], "stumble_test.go") {
		t.Errorf("told %q", d.told)
	}
}

// A model that panics costs the server its answer, and not the call.
func TestQuestionStumbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		c, f := pipeTo(t, ConnOptions{Panicked: d.panicked}, nil)
		o := request("tools/call", "{}")
		o.Client = &Client{Era: Legacy, Actor: actor.New(actor.HTTP, auth.Local)}
		o.Sampler = &Sampler{Capability: []byte("{}"), Answer: func(context.Context, []byte) (Response, error) { panic("no model") }}
		call := start(t.Context(), c, o)
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
		f.say(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}`)
		line, err := f.in.ReadString('\n')
		if err != nil || !strings.Contains(line, `"id":"q","error":`) || !strings.Contains(line, "stumble") {
			t.Errorf("the server got %s, %v", line, err)
		}
		f.say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		call.want(t, `{}`)
		d.want(t, "no model")
		f.hangUp()
		c.Close()
	})
}

// What a legacy server says on its own stream over HTTP and makes us panic ends
// the connection.
func TestHeardStumbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		s := &sessionServer{get: func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", sseAnswer)
			say(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			<-r.Context().Done()
		}}
		c, stop := hearing(t, s, ConnOptions{Note: func(string, []byte) { panic("oh dear") }, Panicked: d.panicked})
		c.Hear(func(int) time.Duration { return time.Second }, func() {})
		<-c.Done()
		if !errors.Is(c.Err(), ErrLost) {
			t.Errorf("it ended with %v", c.Err())
		}
		d.want(t, "oh dear")
		stop()
	})
}

// deaf is a handler that panics when somebody wants to listen or to tell it
// something.
type deaf struct{ sage }

func (*deaf) Attach(*Listener) func() { panic("not that ear") }

// Who listens on a pipe, and who begins one, is told that the hub stumbled; the
// pipe goes on.
func TestListenerStumbles(t *testing.T) {
	for what, first := range map[string]string{
		"modern": `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"legacy": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
	} {
		d, out := &diary{}, &bytes.Buffer{}
		in := first + "\n" + `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"
		if err := ServePipe(context.Background(), strings.NewReader(in), out, auth.Local, &deaf{}, PipeOptions{Panicked: d.panicked, Grace: time.Second}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, `"id":1,"error":{"code":-32603`) || !strings.Contains(got, `"id":2,`) {
			t.Errorf("%s: answers %s", what, got)
		}
		d.want(t, "not that ear")
	}
}
