// Package proxy owns the wire between a hub and its store: a TCP proxy whose
// connections a test can end, refuse, delay, hold up or make lose what goes
// through them, in each direction by itself, and the difference of their clocks.
//
// What is held up comes later, as on a slow network. After something was lost a
// connection is of no use any more: Restore ends it, and new ones pass all.
package proxy

import (
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Mode says what becomes of what goes one way.
type Mode int

// The modes.
const (
	Pass Mode = iota
	Hold      // it waits until the mode is another
	Lose
)

// Proxy passes on what a hub and its store say to each other.
type Proxy struct {
	URL string // nats://host:port, for the hub

	target string

	mu      sync.Mutex
	changed *sync.Cond
	conns   map[net.Conn]bool
	up      Mode // of what the hub says
	down    Mode // of what the store says
	delay   time.Duration
	alter   func([]byte) // what the store says; nil: it stays
	refuse  bool         // new connections are ended at once
	closed  bool
}

// New starts a proxy for a server at nats://host:port, until the test ends.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: "nats://" + ln.Addr().String(), target: strings.TrimPrefix(target, "nats://"), conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far := p.connect(near)
			if far == nil {
				continue
			}
			wg.Go(func() { p.pump(far, near, &p.up) })
			wg.Go(func() { p.pump(near, far, &p.down) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		p.change(func() {
			p.closed = true
			p.end()
		})
		wg.Wait()
	})
	return p
}

// connect opens the far side of a connection; nil means that it is refused.
func (p *Proxy) connect(near net.Conn) net.Conn {
	far, err := net.Dial("tcp", p.target)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && !p.refuse && !p.closed {
		p.conns[near], p.conns[far] = true, true
		return far
	}
	if err == nil {
		_ = far.Close()
	}
	_ = near.Close()
	return nil
}

// pump passes on what comes, as the mode of its direction says.
func (p *Proxy) pump(to, from net.Conn, mode *Mode) {
	defer p.change(func() {
		_, _ = to.Close(), from.Close()
		delete(p.conns, to)
		delete(p.conns, from)
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if pass, delay, alter := p.wait(from, mode); pass {
			if delay > 0 {
				<-time.After(delay)
			}
			if alter != nil {
				alter(buf[:n])
			}
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// wait waits while a direction is held up, and says whether it passes then, and
// how.
func (p *Proxy) wait(from net.Conn, mode *Mode) (pass bool, delay time.Duration, alter func([]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for *mode == Hold && p.conns[from] {
		p.changed.Wait()
	}
	if mode == &p.down {
		alter = p.alter
	}
	return *mode == Pass && p.conns[from], p.delay, alter
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

// end ends all connections: what was held up or lost in them does not come any
// more. Called with mu held.
func (p *Proxy) end() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// Set says what becomes of what the hub says and of what the store says.
func (p *Proxy) Set(up, down Mode) { p.change(func() { p.up, p.down = up, down }) }

// Delay has each piece take that much longer.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// timeStamp is how a server says when it stored something.
var timeStamp = regexp.MustCompile(`Nats-Time-Stamp: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)

// Behind has the store's clock be so many whole seconds behind, for the hub.
func (p *Proxy) Behind(d time.Duration) {
	const form = "Nats-Time-Stamp: 2006-01-02T15:04:05"
	p.change(func() {
		p.alter = func(said []byte) {
			for _, at := range timeStamp.FindAllIndex(said, -1) {
				if t, err := time.Parse(form, string(said[at[0]:at[1]])); err == nil {
					copy(said[at[0]:at[1]], t.Add(-d).Format(form))
				}
			}
		}
	})
}

// Drop ends the connections; the next ones are as good as these were.
func (p *Proxy) Drop() { p.change(p.end) }

// Cut ends the connections and refuses others until Restore.
func (p *Proxy) Cut() {
	p.change(func() {
		p.refuse = true
		p.end()
	})
}

// Restore lets everything pass, over new connections.
func (p *Proxy) Restore() {
	p.change(func() {
		p.up, p.down, p.delay, p.refuse = Pass, Pass, 0, false
		p.end()
	})
}
