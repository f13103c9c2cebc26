// Package wildconn owns connections whose reader panics, to see that a hub
// outlives what a peer says.
package wildconn

import (
	"bufio"
	"net"
	"net/http"
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
