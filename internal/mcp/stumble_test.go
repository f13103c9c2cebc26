package mcp

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

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
