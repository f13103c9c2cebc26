package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// watchCrowd is one caller with a token who wants everything there is: each of
// its workers floods the hub in one of the ways below, once a second. Faster
// ones would take the cores that the hub is measured on, whatever it does.
const watchCrowd watchKind = "crowd"

// crowdToken creates the flooding caller's token, with the right to register
// agents.
func (s *stage) crowdToken(ctx context.Context, hub *child) (string, error) {
	out, err := exec.CommandContext(ctx, s.stoa, "token", "create", "crowd", "--right", "register", "--data", hub.data).Output()
	if err != nil {
		return "", fmt.Errorf("make a token for the crowd: %w", err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "stoa_") {
			return word, nil
		}
	}
	return "", errors.New("make a token for the crowd: none was printed")
}

// held is how many connections a worker keeps; older ones it leaves to the hub.
const held = 40

// crowd floods until done.
func (w watch) crowd(i int, done <-chan struct{}) {
	var open []*conn
	defer func() {
		for _, c := range open {
			c.close()
		}
	}()
	way := crowdWays[i%len(crowdWays)]
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		c, err := dial(w.Address, time.Now().Add(10*time.Minute))
		if err != nil {
			continue // there is a next time
		}
		_ = c.tcp.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(c.tcp, way(w, i, n)); err != nil {
			c.close()
			continue
		}
		open = append(open, c)
		if len(open) > held {
			open[0].close()
			open = open[1:]
		}
	}
}

// crowdWays are what a worker sends on each of its connections, of which it
// reads nothing.
var crowdWays = []func(w watch, worker, n int) string{
	func(w watch, _, _ int) string { return "GET /mcp HTTP/1.1\r\nHost: " + w.Address + "\r\n" }, // a request that has no end, by nobody
	func(w watch, _, _ int) string { // connections of legacy clients
		return w.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"crowd","version":"1"}}}`)
	},
	func(w watch, worker, n int) string { // Sessions
		return w.post(fmt.Sprintf("/s/crowd-%d-%d/mcp", worker, n), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_add","arguments":{"name":"v","data":"1"}}}`)
	},
	func(w watch, _, _ int) string { // sockets
		return "GET /mcp/ws HTTP/1.1\r\nHost: " + w.Address + "\r\nAuthorization: Bearer " + w.Token +
			"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3RvYSBiZW5jaCB2aWV3ZQ==\r\n\r\n"
	},
	func(w watch, _, _ int) string { // bodies that do not come
		return "POST /mcp HTTP/1.1\r\nHost: " + w.Address + "\r\nAuthorization: Bearer " + w.Token + "\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
	},
	func(w watch, worker, n int) string { // agents
		return w.post("/mcps", fmt.Sprintf(`{"name":"crowd-%d-%d","url":"http://127.0.0.1:1/mcp"}`, worker, n))
	},
}

func (w watch) post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
		path, w.Address, w.Token, len(body), body)
}
