// Package wildconn owns connections whose reader panics, to see that a hub
// outlives what a peer says, and clients of sockets that are cut off for it.
package wildconn

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Says is what reading panics with.
const Says = "not that frame"

// Response is a response whose connection, once it is taken over, panics when
// something is read from it.
type Response struct{ http.ResponseWriter }

type conn struct{ net.Conn }

func (conn) Read([]byte) (int, error) { panic(Says) }

// Hijack is that of the response below.
func (r Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	below, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := conn{below}
	rw.Reader.Reset(c)
	return c, rw, nil
}

// CutOff opens the socket at an address and reads until the hub closes it.
func CutOff(tb testing.TB, url string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), await.Patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer c.CloseNow()
	for err == nil {
		_, _, err = c.Read(ctx)
	}
	if ctx.Err() != nil {
		tb.Error("the client is still there")
	}
}
