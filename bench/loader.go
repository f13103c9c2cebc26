package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// load tells a loader what to do; it arrives as JSON on stdin.
type load struct {
	endpoint
	scenario
	Tools    int           `json:"tools"`    // size of the catalogue that the calls are spread over
	Prefix   string        `json:"prefix"`   // before each tool's name
	Stateful bool          `json:"stateful"` // the endpoint is the face with Sessions
	Warm     time.Duration `json:"warm"`
	Window   time.Duration `json:"window"`
	PID      int           `json:"pid"` // whose CPU and memory are read
}

// sample is what one window measured.
type sample struct {
	Calls   uint64        `json:"calls"`
	Elapsed time.Duration `json:"elapsed_ns"`
	CPU     time.Duration `json:"cpu_ns"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	RSS     int64         `json:"rss_bytes"`
}

func (s sample) perSecond() float64 { return float64(s.Calls) / s.Elapsed.Seconds() }
func (s sample) cpuPerCall() float64 {
	return float64(s.CPU.Nanoseconds()) / 1e3 / float64(s.Calls)
}

func runLoader(in io.Reader, out io.Writer) error {
	var l load
	if err := json.NewDecoder(in).Decode(&l); err != nil {
		return fmt.Errorf("read what to load: %w", err)
	}
	s, err := l.run()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(s)
}

// run measures between two moments at which nothing is in flight: all
// connections end their warm-up, the clocks are read, and after the window
// every connection finishes the call it is in before they are read again. So
// the CPU time belongs to exactly the calls that are counted.
func (l load) run() (sample, error) {
	clients, err := l.connect()
	defer func() {
		for _, c := range clients {
			c.end()
		}
	}()
	if err != nil {
		return sample{}, err
	}
	if err := drive(clients, l.Warm, nil); err != nil {
		return sample{}, fmt.Errorf("warm up: %w", err)
	}
	before, err := proc.CPUTime(l.PID)
	if err != nil {
		return sample{}, err
	}
	var total histogram
	began := time.Now()
	if err := drive(clients, l.Window, &total); err != nil {
		return sample{}, fmt.Errorf("measure: %w", err)
	}
	elapsed := time.Since(began)
	after, err := proc.CPUTime(l.PID)
	if err != nil {
		return sample{}, err
	}
	rss, err := proc.Resident(l.PID)
	if err != nil {
		return sample{}, err
	}
	return sample{Calls: total.total, Elapsed: elapsed, CPU: after - before,
		P50: total.quantile(0.5), P99: total.quantile(0.99), RSS: rss}, nil
}

// connect opens all connections, each with its session if the era has one,
// and makes one call on each that is checked in full.
func (l load) connect() ([]*client, error) {
	deadline := time.Now().Add(l.Warm + l.Window + time.Minute)
	var clients []*client
	for i := range l.Conns {
		c, err := l.newClient(i, deadline)
		if c != nil {
			clients = append(clients, c)
		}
		if err != nil {
			return clients, fmt.Errorf("connection %d to http://%s%s: %w", i, l.Address, l.Path, err)
		}
	}
	return clients, nil
}

// client is one connection with its prebuilt call.
type client struct {
	*conn
	request *callRequest
	length  int // of the checked answer's body
	events  int // in it, 0 when it is JSON
	goodbye []byte
}

func (l load) newClient(i int, deadline time.Time) (*client, error) {
	conn, err := dial(l.Address, deadline)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn}
	if l.Stateful {
		l.Path = sessionPath(i)
	}
	var session string
	if l.Era == legacy {
		if session, err = conn.start(l.endpoint); err != nil {
			return c, err
		}
		c.goodbye = l.bodyless("DELETE", legacyHeaders(session))
	}
	if l.Stateful && l.Handle == references {
		if err := l.store(c, session); err != nil {
			return c, err
		}
	}
	tool := l.Prefix + toolName(i*max(l.Tools, 1)/l.Conns)
	c.request = l.toolsCall(l.scenario, tool, session, l.Stateful)
	r, err := conn.roundTrip(c.request.advance())
	if err != nil {
		return c, err
	}
	c.length, c.events = len(conn.body), bytes.Count(conn.body, []byte("data:"))
	if l.Stateful && l.Handle == saveAs {
		return c, checkCard(r, conn.body, c.request.next, l.scenario)
	}
	return c, checkAnswer(r, conn.body, c.request.next, l.scenario)
}

// end closes the session, so that a hub does not collect those of every cell,
// and the connection.
func (c *client) end() {
	if c.goodbye != nil {
		_, _ = c.roundTrip(c.goodbye)
	}
	c.close()
}

// call makes one call and looks at the answer just enough to know it is one:
// the first was checked in full and the others differ only in their ids.
func (c *client) call() error {
	r, err := c.roundTrip(c.request.advance())
	if err != nil {
		return err
	}
	switch {
	case r.status != 200:
		return fmt.Errorf("HTTP %d: %.300s", r.status, c.body)
	case !bytes.Contains(c.body, []byte(endMark)):
		return fmt.Errorf("the answer does not hold the echo: %.300s", c.body)
	case c.events > 0 && bytes.Count(c.body, []byte("data:")) != c.events:
		return fmt.Errorf("the stream has other events than the first, which had %d: %.600s", c.events, c.body)
	}
	if d := len(c.body) - c.length; d > 256 || d < -256 {
		return fmt.Errorf("the answer has %d bytes, the first had %d: %.300s", len(c.body), c.length, c.body)
	}
	return nil
}

// drive makes calls on all clients for d, at least one each, and returns when
// none is in flight. Latencies go to into, unless it is nil.
func drive(clients []*client, d time.Duration, into *histogram) error {
	var group sync.WaitGroup
	var failed atomic.Bool
	errs := make([]error, len(clients))
	seen := make([]histogram, len(clients))
	until := time.Now().Add(d)
	for i, c := range clients {
		group.Go(func() {
			for now := time.Now(); !failed.Load(); {
				if err := c.call(); err != nil {
					failed.Store(true)
					errs[i] = err
					return
				}
				end := time.Now()
				seen[i].record(end.Sub(now))
				if now = end; !now.Before(until) {
					return
				}
			}
		})
	}
	group.Wait()
	for i := range clients {
		if errs[i] != nil {
			return errs[i]
		}
		if into != nil {
			into.merge(&seen[i])
		}
	}
	return nil
}
