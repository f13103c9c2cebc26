package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// conn is a keep-alive HTTP/1.1 client on one TCP connection. It writes
// requests that are already bytes and reads only what it must of the answer,
// so that the loader leaves the cores to what is measured.
type conn struct {
	tcp  net.Conn
	in   *bufio.Reader
	body []byte
}

// response is the answer's head; the body, if it was read, is in conn.body.
type response struct {
	status  int
	length  int // -1 when chunked
	sse     bool
	session string
}

func dial(address string, deadline time.Time) (*conn, error) {
	tcp, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	if err := tcp.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return &conn{tcp: tcp, in: bufio.NewReaderSize(tcp, 16<<10)}, nil
}

func (c *conn) close() { _ = c.tcp.Close() }

// roundTrip sends a request and reads the whole answer. conn.body is valid
// until the next call.
func (c *conn) roundTrip(request []byte) (response, error) {
	r, err := c.open(request)
	if err != nil {
		return r, err
	}
	return r, c.readBody(r)
}

// open sends a request and reads the head of the answer only.
func (c *conn) open(request []byte) (response, error) {
	if _, err := c.tcp.Write(request); err != nil {
		return response{}, fmt.Errorf("send request: %w", err)
	}
	r, err := readHead(c.in)
	if err != nil {
		return r, fmt.Errorf("read the head of the answer: %w", err)
	}
	return r, nil
}

func (c *conn) readBody(r response) error {
	c.body = c.body[:0]
	if r.length >= 0 {
		return c.take(r.length)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read a chunk's size: %w", err)
		}
		digits, _, _ := strings.Cut(string(bytes.TrimSpace(line)), ";")
		n, err := strconv.ParseUint(digits, 16, 31)
		if err != nil {
			return fmt.Errorf("read a chunk's size: %w", err)
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.in.Discard(2); err != nil {
			return fmt.Errorf("read a chunk's end: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
}

// take appends n bytes of the connection to the body.
func (c *conn) take(n int) error {
	have := len(c.body)
	if cap(c.body) < have+n {
		c.body = append(make([]byte, 0, (have+n)*2), c.body...)
	}
	c.body = c.body[:have+n]
	if _, err := io.ReadFull(c.in, c.body[have:]); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	return nil
}

// readHead reads the status line and the headers that the loader acts on.
func readHead(in *bufio.Reader) (response, error) {
	r := response{length: 0}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return r, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return r, fmt.Errorf("status line %q is not HTTP/1.1", line)
	}
	if r.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return r, fmt.Errorf("status line %q has no code", line)
	}
	for {
		line, err = in.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return r, nil
		}
		if err := r.header(line); err != nil {
			return r, err
		}
	}
}

func (r *response) header(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 {
			return fmt.Errorf("Content-Length %q is not a length", value)
		}
		r.length = n
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		r.length = -1
	case bytes.EqualFold(name, []byte("Content-Type")):
		r.sse = bytes.HasPrefix(value, []byte("text/event-stream"))
	case bytes.EqualFold(name, []byte("Mcp-Session-Id")):
		r.session = string(value)
	}
	return nil
}

// start opens a legacy session on the connection and returns its id.
func (c *conn) start(e endpoint) (string, error) {
	r, err := c.roundTrip(e.initialize())
	if err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	if r.status != 200 || r.session == "" {
		return "", fmt.Errorf("initialize: HTTP %d, session id %q: %.300s", r.status, r.session, c.body)
	}
	done, err := c.roundTrip(e.initialized(r.session))
	if err != nil {
		return "", fmt.Errorf("notifications/initialized: %w", err)
	}
	if done.status != 202 {
		return "", fmt.Errorf("notifications/initialized: HTTP %d: %.300s", done.status, c.body)
	}
	return r.session, nil
}
