package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// idleKind is a way for a connection to be open and do nothing.
type idleKind string

const (
	idlePost   idleKind = "keep-alive POST"
	idleGet    idleKind = "legacy GET stream"
	idleListen idleKind = "modern subscriptions/listen"
)

var idleKinds = []idleKind{idlePost, idleGet, idleListen}

// name is what -only matches.
func (k idleKind) name() string {
	switch k {
	case idleGet:
		return "idle/get"
	case idleListen:
		return "idle/listen"
	}
	return "idle/post"
}

// hold tells an idler what to open; it arrives as JSON on the first line of
// stdin, and the connections are kept until stdin ends.
type hold struct {
	endpoint
	Kind  idleKind `json:"kind"`
	Bare  bool     `json:"bare"` // the other end is the bare role
	Count int      `json:"count"`
}

func runIdler(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to hold: %w", err)
	}
	var h hold
	if err := json.Unmarshal(line, &h); err != nil {
		return fmt.Errorf("read what to hold: %w", err)
	}
	conns, err := h.openAll()
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.close()
			}
		}
	}()
	if err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(len(conns)); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// openAll opens with few at a time: more would leave the hub as many idle
// connections to its upstream, whose memory is not what is asked.
func (h hold) openAll() ([]*conn, error) {
	const atOnce = 8
	deadline := time.Now().Add(10 * time.Minute)
	conns, errs := make([]*conn, h.Count), make([]error, atOnce)
	var group sync.WaitGroup
	for w := range atOnce {
		group.Go(func() {
			for i := w; i < h.Count; i += atOnce {
				if conns[i], errs[w] = h.openOne(deadline); errs[w] != nil {
					errs[w] = fmt.Errorf("idle connection %d to http://%s%s: %w", i, h.Address, h.Path, errs[w])
					return
				}
			}
		})
	}
	group.Wait()
	return conns, errors.Join(errs...)
}

func (h hold) openOne(deadline time.Time) (*conn, error) {
	c, err := dial(h.Address, deadline)
	if err != nil {
		return nil, err
	}
	if h.Kind == idlePost {
		s := scenario{Era: modern, Size: 100}
		r, err := c.roundTrip(h.toolsCall(s, allFace.prefix()+toolName(0), "", false).bytes)
		if err == nil && !h.Bare {
			err = checkAnswer(r, c.body, firstID, s)
		}
		c.body = nil
		return c, err
	}
	request := h.listen()
	if h.Kind == idleGet {
		request = h.bodyless("GET", "")
		if !h.Bare {
			session, err := c.start(h.endpoint)
			if err != nil {
				return c, err
			}
			request = h.bodyless("GET", legacyHeaders(session))
		}
	}
	r, err := c.open(request)
	if err == nil && (r.status != 200 || !r.sse) {
		err = fmt.Errorf("%s: HTTP %d, want a stream", h.Kind, r.status)
	}
	return c, err
}

// idleResult compares the memory of an idle connection.
type idleResult struct {
	Kind   idleKind `json:"kind"`
	Count  int      `json:"connections"`
	Source string   `json:"source"` // "metrics" or, where they are missing, "rss"
	Bare   float64  `json:"bare_bytes_per_connection"`
	Stoa   float64  `json:"stoa_bytes_per_connection"`
}

func (r idleResult) ratio() float64 {
	if r.Bare <= 0 {
		return 0
	}
	return r.Stoa / r.Bare
}

// idle measures one kind, on fresh processes: what an earlier kind left behind
// would be reused and not counted.
func (s *stage) idle(ctx context.Context, kind idleKind, count int) (idleResult, error) {
	out := idleResult{Kind: kind, Count: count, Source: "metrics"}
	bare, err := s.role(ctx, "bare")
	if err != nil {
		return out, err
	}
	defer bare.stop()
	up, err := s.role(ctx, "upstream")
	if err != nil {
		return out, err
	}
	defer up.stop()
	hub, err := s.hub(ctx, up, smallCatalogue)
	if err != nil {
		return out, err
	}
	defer hub.stop()
	if b, err := hub.fetch(ctx, "/metrics"); err != nil {
		out.Source = "rss"
	} else if _, err := parseMetrics(b); err != nil {
		out.Source = "rss"
	}
	path := "/sse"
	if kind == idlePost {
		path = "/mcp"
	}
	held := hold{endpoint: endpoint{bare.address, path}, Kind: kind, Bare: true, Count: count}
	if out.Bare, err = s.perConnection(ctx, bare, held, out.Source); err != nil {
		return out, fmt.Errorf("bare: %w", err)
	}
	held = hold{endpoint: endpoint{hub.address, allFace.path()}, Kind: kind, Count: count}
	if out.Stoa, err = s.perConnection(ctx, hub, held, out.Source); err != nil {
		return out, fmt.Errorf("stoa: %w", err)
	}
	return out, nil
}

// perConnection is the growth of a process's live memory per connection. A few
// connections of the kind come and go first, so that what is made once, for
// the first of them, is in the baseline.
func (s *stage) perConnection(ctx context.Context, c *child, h hold, source string) (float64, error) {
	first := h
	first.Count = 8
	if _, err := s.holding(ctx, c, first, source); err != nil {
		return 0, err
	}
	before, err := c.live(ctx, source, h.Bare)
	if err != nil {
		return 0, err
	}
	after, err := s.holding(ctx, c, h, source)
	if err != nil {
		return 0, err
	}
	return (after - before) / float64(h.Count), nil
}

// holding returns the live memory of a process while an idler holds h.
func (s *stage) holding(ctx context.Context, c *child, h hold, source string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	idler, err := s.start(ctx, "idler", s.self, []string{"role", "idler"})
	if err != nil {
		return 0, err
	}
	defer idler.stop()
	line, err := json.Marshal(h)
	if err != nil {
		return 0, err
	}
	if _, err := idler.stdin.Write(append(line, '\n')); err != nil {
		return 0, fmt.Errorf("tell the idler: %w", err)
	}
	if _, err := bufio.NewReader(idler.stdout).ReadBytes('\n'); err != nil {
		<-idler.exited
		return 0, fmt.Errorf("idler: %s", idler.complaint())
	}
	return c.live(ctx, source, h.Bare)
}

func (c *child) live(ctx context.Context, source string, bare bool) (float64, error) {
	if source == "rss" {
		n, err := proc.Resident(c.pid)
		return float64(n), err
	}
	scrape := func(ctx context.Context) (reading, error) {
		b, err := c.fetch(ctx, "/metrics")
		if err != nil {
			return reading{}, err
		}
		return parseMetrics(b)
	}
	if bare {
		return settle(ctx, scrape, func() error { return nil })
	}
	// One connection, many calls of a megabyte: garbage, but nothing that stays.
	l := load{endpoint: endpoint{c.address, oneFace.path()}, Tools: 1,
		scenario: scenario{Era: modern, Conns: 1, Size: 1 << 20}}
	one, err := l.newClient(0, time.Now().Add(2*time.Minute))
	if one != nil {
		defer one.end()
	}
	if err != nil {
		return 0, err
	}
	return settle(ctx, scrape, one.call)
}
