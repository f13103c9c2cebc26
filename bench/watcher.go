package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// watchKind is a way to watch a hub that does the hub no good.
type watchKind string

const (
	watchNone     watchKind = "nobody"
	watchStalled  watchKind = "stalled"  // takes nothing of what it is sent
	watchHostile  watchKind = "hostile"  // takes nothing, sends rubbish each second, and comes again when it is thrown out
	watchFlooding watchKind = "flooding" // the same, ten times a second
)

var watchKinds = []watchKind{watchNone, watchStalled, watchHostile, watchFlooding, watchCrowd}

// watch tells a watcher what to open; it arrives as JSON on the first line of
// stdin, and the sockets are kept until stdin ends.
type watch struct {
	Address string    `json:"address"`
	Token   string    `json:"token"`
	Kind    watchKind `json:"kind"`
	Count   int       `json:"count"`
}

func runWatcher(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to watch: %w", err)
	}
	var w watch
	if err := json.Unmarshal(line, &w); err != nil {
		return fmt.Errorf("read what to watch: %w", err)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(done)
	for i := range w.Count {
		if w.Kind == watchCrowd {
			group.Go(func() { w.crowd(i, done) })
			continue
		}
		c, err := w.open()
		if err != nil {
			return fmt.Errorf("viewer %d: %w", i, err)
		}
		group.Go(func() {
			if w.Kind != watchStalled {
				w.annoy(c, i, done)
				return
			}
			<-done
			c.close()
		})
	}
	if err := json.NewEncoder(stdout).Encode(w.Count); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// open makes a socket that nobody reads from. The system holds little for it,
// so that the hub soon notices.
func (w watch) open() (*conn, error) {
	c, err := dial(w.Address, time.Now().Add(10*time.Minute))
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.tcp.(interface{ SetReadBuffer(int) error }); ok {
		_ = tcp.SetReadBuffer(4 << 10) // else it has what the system gives it
	}
	r, err := c.open([]byte("GET /api/v1/events/ws HTTP/1.1\r\nHost: " + w.Address + "\r\nAuthorization: Bearer " + w.Token +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3RvYSBiZW5jaCB2aWV3ZQ==\r\n\r\n"))
	if err == nil && r.status != 101 {
		err = fmt.Errorf("HTTP %d, want a WebSocket", r.status)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// rubbish are things that no viewer should send.
var rubbish = []string{
	"\x81\x85\x00\x00\x00\x00hello",                                      // a text, though nothing is asked
	"\x82\xfe\xff\xff\x01\x02\x03\x04" + strings.Repeat("\xff", 65535),   // 64 KiB of bytes
	strings.Repeat("\x89\x84\x00\x00\x00\x00ping", 200),                  // signs of life by the hundred
	"\xf1\x85\x00\x00\x00\x00hello",                                      // reserved bits
	"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00",           // the longest message there can be, of which nothing follows
	"\x01\x85\x00\x00\x00\x00hello",                                      // the first part of a text that has no second
	"\x83\x80\x00\x00\x00\x00\x8b\x80\x00\x00\x00\x00",                   // frames of no kind
	"GET / HTTP/1.1\r\n\r\n" + strings.Repeat("\x00", 4096) + "\r\n\r\n", // no frame at all
}

// between is how long a hostile viewer waits before it sends more, or comes
// again.
func (k watchKind) between() time.Duration {
	if k == watchFlooding {
		return 100 * time.Millisecond
	}
	return time.Second
}

// annoy sends rubbish until done, on as many sockets as that takes.
func (w watch) annoy(c *conn, i int, done <-chan struct{}) {
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	tick := time.NewTicker(w.Kind.between())
	defer tick.Stop()
	for ; ; i++ {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if c == nil {
			c, _ = w.open() // it may be refused: there is a next time
			continue
		}
		_ = c.tcp.SetWriteDeadline(time.Now().Add(w.Kind.between()))
		if _, err := io.WriteString(c.tcp, rubbish[i%len(rubbish)]); err != nil {
			c.close()
			c = nil
		}
	}
}
