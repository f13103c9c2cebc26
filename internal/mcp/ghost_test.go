package mcp

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// A server that goes on after a cancellation may ask for the client that has
// left. Whoever else is there must not be asked in its place.
func TestPipeConnQuestionOfCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		able := func(connection string) *Outgoing {
			return &Outgoing{Method: "tools/call", Client: &Client{Era: Legacy, Connection: connection, Capabilities: []byte(`{"elicitation":{}}`)},
				Stream: &recorder{ask: func(context.Context, string) (Response, error) {
					return Response{Result: []byte(`"` + connection + `"`)}, nil
				}}}
		}
		c, f := pipeTo(t, ConnOptions{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		gone := start(ctx, c, able("a"))
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
		cancel()
		gone.wantErr(t, func(err error) bool { return err == context.Canceled })
		f.got(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"context canceled"}}`)
		call := start(t.Context(), c, able("b"))
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
