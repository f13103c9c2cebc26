package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// stdioConn serves one connection of newline-delimited messages.
type stdioConn struct {
	server  *server
	session *session
	out     *frames
	exit    func(code int) // ends the process; called once at most
	wg      sync.WaitGroup
	spoken  bool // a message came already
}

// serveStdio reads until the input ends. exit must not return.
func serveStdio(ctx context.Context, s *server, in io.Reader, out io.Writer, exit func(int)) error {
	c := &stdioConn{server: s, session: newSession(ctx, "stdio"), exit: exit,
		out: &frames{w: out, exit: exit, garbage: s.spec.Quirks.Garbage, breaks: s.spec.Quirks.PartialFrame}}
	c.session.attach(c.out.send)
	stop, err := s.hear(c.session.listener(), nil)
	if err != nil {
		return err
	}
	defer stop()
	defer c.wg.Wait()
	defer func() {
		s.down.Store(true)
		c.session.end()
	}()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			c.receive(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("peer %s: read stdin: %w", s.spec.Name, err)
		}
	}
}

func (c *stdioConn) receive(line []byte) {
	spec := c.server.spec
	if spec.RecordPath != "" {
		appendFile(spec.RecordPath, append(bytes.Clone(line), '\n'))
	}
	if spec.Quirks.StderrNoise > 0 {
		fmt.Fprintf(os.Stderr, "received %d bytes\n", len(line))
	}
	m, code, err := parse(line)
	if err != nil {
		id := []byte("null")
		if m.ID != nil && validID(m.ID) {
			id = m.ID
		}
		_ = c.out.send(refuse(code, nil, "%v", err).line(id))
		return
	}
	if m.Method == "server/discover" && !c.spoken && spec.Quirks.ExitOnProbe {
		c.exit(1)
	}
	c.spoken = true
	if m.isResponse() || m.isNotification() {
		c.server.note(c.session, m)
		return
	}
	c.request(m)
}

// note takes in a message that has no response of its own.
func (s *server) note(sess *session, m message) {
	if m.isResponse() {
		if err := sess.calls.answered(m); err != nil {
			fmt.Fprintf(os.Stderr, "peer %s: %v\n", s.spec.Name, err)
		}
		return
	}
	if m.Method == "notifications/cancelled" {
		sess.calls.cancel(cancels(m.Params))
	}
}

// request answers in order where the order of two requests can matter, and
// beside the reader where an answer may take its time.
func (c *stdioConn) request(m message) {
	ctx, done, err := c.session.calls.start(c.session.ctx, m.ID)
	if err != nil {
		_ = c.out.send(refuse(codeInvalidRequest, nil, "%v", err).line(m.ID))
		return
	}
	r := &request{ctx: ctx, id: m.ID, method: m.Method, raw: m.Params, session: c.session, send: c.out.send}
	run := func() {
		rep, ok := c.server.admit(r)
		if ok {
			rep = c.server.handle(r)
		}
		done() // a client that has its answer may use the id again
		c.answer(m.ID, rep)
	}
	switch m.Method {
	case "tools/call", "prompts/get", "resources/read", "subscriptions/listen":
		c.wg.Go(run)
	default:
		run()
	}
}

func (c *stdioConn) answer(id []byte, rep reply) {
	switch {
	case rep.abort:
		c.exit(3)
	case rep.partial:
		c.out.half(rep.line(id))
		c.exit(3)
	case !rep.none:
		// A reader that is gone shows as the end of stdin.
		_ = c.out.respond(rep.line(id))
	}
}

// frames writes messages, one per line.
type frames struct {
	mu      sync.Mutex
	w       io.Writer
	garbage bool
	breaks  bool // the first response is cut in half, then the process exits
	exit    func(int)
}

func (f *frames) send(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.garbage {
		line = append([]byte("loading model… 42%\n\nDEBUG {not: json}\n"), line...)
	}
	_, err := f.w.Write(append(line, '\n'))
	return err
}

func (f *frames) respond(line []byte) error {
	if f.breaks {
		f.half(line)
		f.exit(3)
	}
	return f.send(line)
}

// half writes the first half of a line and nothing after it.
func (f *frames) half(line []byte) {
	f.mu.Lock()
	// The lock is kept: nothing may follow on a broken frame.
	_, _ = f.w.Write(line[:len(line)/2])
}
