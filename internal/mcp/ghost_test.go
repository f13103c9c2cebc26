package mcp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// able is a call of a client that answers questions by its name, once answer is
// closed.
func able(connection string, answer <-chan struct{}) *Outgoing {
	return &Outgoing{Method: "tools/call", Client: &Client{Era: Legacy, Connection: connection, Capabilities: []byte(`{"elicitation":{}}`)},
		Stream: &recorder{ask: func(ctx context.Context, _ string) (Response, error) {
			select {
			case <-answer:
				return Response{Result: []byte(`"` + connection + `"`)}, nil
			case <-ctx.Done():
				return Response{}, context.Cause(ctx)
			}
		}}}
}

// A client that leaves a question open must not keep others from being asked
// for longer than a client that has cancelled does.
func TestPipeConnQuestionBesideOneThatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, now := make(chan struct{}), make(chan struct{})
		close(now)
		c, f := pipeTo(t, ConnOptions{}, nil)
		ctx, leave := context.WithCancel(t.Context())
		silent := start(ctx, c, able("a", never))
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
		f.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
		synctest.Wait()
		call := start(t.Context(), c, able("b", now))
		f.got(`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`)

		// The server may ask several things at once.
		f.say(`{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{}}`)
		line, err := f.in.ReadString('\n')
		if err != nil || !strings.Contains(line, fault.MissingCapability.String()) {
			t.Errorf("got %s, %v", line, err)
		}
		<-time.After(haunt + time.Second)
		f.say(`{"jsonrpc":"2.0","id":"s","method":"elicitation/create","params":{}}`)
		f.got(`{"jsonrpc":"2.0","id":"s","result":"b"}`)
		f.say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		call.want(t, `{}`)

		// While there is no other, it is still the one that is asked.
		f.say(`{"jsonrpc":"2.0","id":"t","method":"elicitation/create","params":{}}`)
		synctest.Wait()
		next := start(t.Context(), c, able("b", now))
		f.got(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`)
		f.say(`{"jsonrpc":"2.0","id":"u","method":"elicitation/create","params":{}}`)
		if line, err = f.in.ReadString('\n'); err != nil || !strings.Contains(line, fault.MissingCapability.String()) {
			t.Errorf("just asked again: got %s, %v", line, err)
		}
		leave()
		silent.wantErr(t, func(err error) bool { return err == context.Canceled })
		f.say(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		for range 3 { // the cancellation, and what it does to both questions
			f.in.ReadString('\n')
		}
		next.want(t, `{}`)
		f.hangUp()
		c.Close()
	})
}

// A server that goes on after a cancellation may ask for the client that has
// left. Whoever else is there must not be asked in its place.
func TestPipeConnQuestionOfCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := make(chan struct{})
		close(now)
		c, f := pipeTo(t, ConnOptions{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		gone := start(ctx, c, able("a", now))
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
		cancel()
		gone.wantErr(t, func(err error) bool { return err == context.Canceled })
		f.got(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"context canceled"}}`)
		call := start(t.Context(), c, able("b", now))
		f.got(`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`)

		f.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
		line, err := f.in.ReadString('\n')
		if err != nil || !strings.Contains(line, fault.MissingCapability.String()) {
			t.Errorf("got %s, %v", line, err)
		}
		<-time.After(2 * haunt) // by now the server has heard
		f.say(`{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{}}`)
		f.got(`{"jsonrpc":"2.0","id":"r","result":"b"}`)
		f.say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		call.want(t, `{}`)
		f.hangUp()
		c.Close()
	})
}

// Over HTTP, what a server says of a cancelled call may come by the stream of the
// session, as what it says of all others does.
func TestHTTPConnQuestionOfCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := make(chan string)
		began := make(chan string, 2)
		finish := make(chan struct{})
		s := &sessionServer{get: func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", sseAnswer)
			say(w)
			for {
				select {
				case q := <-ask:
					say(w, q)
				case <-r.Context().Done():
					return
				}
			}
		}, post: func(w http.ResponseWriter, r *http.Request, body string) {
			began <- body
			select {
			case <-finish:
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":3,"result":{}}`)
			case <-r.Context().Done():
			}
		}}
		c, stop := hearing(t, s, ConnOptions{})
		open := make(chan struct{})
		c.Hear(func(int) time.Duration { return time.Second }, sync.OnceFunc(func() { close(open) }))
		<-open
		now := make(chan struct{})
		close(now)
		ctx, cancel := context.WithCancel(t.Context())
		gone := start(ctx, c, able("a", now))
		<-began
		cancel()
		gone.wantErr(t, func(err error) bool { return err == context.Canceled })
		call := start(t.Context(), c, able("b", now))
		<-began
		ask <- `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
		if got := <-s.reply; !strings.Contains(got, fault.MissingCapability.String()) {
			t.Errorf("while the server may be at work on the cancelled call: %s", got)
		}
		<-time.After(2 * haunt)
		ask <- `{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{}}`
		if got := <-s.reply; got != `{"jsonrpc":"2.0","id":"r","result":"b"}` {
			t.Errorf("later: %s", got)
		}
		close(finish)
		call.want(t, `{}`)
		stop()
	})
}
