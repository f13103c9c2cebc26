package mcp

import (
	"time"

	"github.com/stoahub/stoa/internal/wire"
)

// Hear opens the stream of a legacy session and keeps it open, with back-off,
// until the connection ends. A server without one is left in peace. missed is
// called each time the stream opened or ended, and when it is known that there
// will be none, since what the server would have said before is lost.
func (c *HTTPConn) Hear(wait func(attempt int) time.Duration, missed func()) {
	c.background(func() {
		defer c.flight.stumbled(c.shut)
		at := place{retry: -1}
		for attempt := 0; ; attempt++ {
			opened, again := c.hearOnce(&at, missed)
			if c.isClosed() {
				return
			}
			if opened || !again {
				attempt = 0
				missed()
			}
			if !again || c.sleep(c.ctx, max(wait(attempt), at.retry)) != nil {
				return
			}
		}
	})
}

func (c *HTTPConn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *HTTPConn) hearOnce(at *place, onOpen func()) (opened, again bool) {
	resp, err := c.get(c.ctx, at.id)
	if err != nil {
		return false, c.ctx.Err() == nil
	}
	defer resp.Body.Close()
	switch {
	case c.forgotten(c.ctx, resp.StatusCode, nil) != nil:
		return false, false
	case mayRecover(resp.StatusCode):
		return false, true
	case !isEvents(resp):
		// It may be only the place that it does not know any more.
		again, at.id = at.id != "", ""
		return false, again
	}
	onOpen()
	in := newEvents(resp.Body, c.flight.opts.MessageBytes, &c.terms)
	defer at.move(in)
	var m wire.Message
	for {
		ev, err := in.Next()
		if err != nil {
			return true, c.ctx.Err() == nil
		}
		if m.Scan(ev.Data, wire.FromUpstream) == nil && !m.IsResponse() {
			c.message(&m, nil)
		}
	}
}
