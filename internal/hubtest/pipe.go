package hubtest

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/mcp"
)

// Pipe is a client of a hub on a pair of pipes, as on stdio.
type Pipe struct {
	tb    testing.TB
	in    *os.File
	lines chan string // closed at the end
	done  chan error
}

// Pipe connects a client to the merged face by pipes.
func (h *Hub) Pipe(tb testing.TB) *Pipe {
	tb.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Pipe{tb: tb, in: inW, lines: make(chan string, 1<<16), done: make(chan error, 1)}
	go func() {
		err := mcp.ServePipe(context.Background(), inR, outW, auth.Local, h.Gateway(), mcp.PipeOptions{})
		inR.Close()
		outW.Close()
		p.done <- err
	}()
	go func() {
		defer close(p.lines)
		defer outR.Close()
		for r := bufio.NewReader(outR); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				p.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	tb.Cleanup(func() { p.Close() })
	return p
}

// Close ends the input and waits until the hub has ended its output.
func (p *Pipe) Close() (rest []Message) {
	p.tb.Helper()
	p.in.Close()
	for {
		m, err := p.Read()
		if err != nil {
			break
		}
		rest = append(rest, m)
	}
	if err := <-p.done; err != nil {
		p.tb.Errorf("serve the pipe: %v", err)
	}
	p.done <- nil
	return rest
}

// Send writes one line.
func (p *Pipe) Send(line string) {
	p.tb.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.tb.Fatalf("write to the pipe: %v", err)
	}
}

// Read returns the next message; io.EOF at the end.
func (p *Pipe) Read() (Message, error) {
	timeout := time.NewTimer(await.Patience)
	defer timeout.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return Message{}, io.EOF
		}
		return ParseMessage([]byte(strings.TrimSuffix(line, "\n")))
	case <-timeout.C:
		return Message{}, context.DeadlineExceeded
	}
}

// Next is Read for tests that expect a message.
func (p *Pipe) Next() Message {
	p.tb.Helper()
	m, err := p.Read()
	if err != nil {
		p.tb.Fatalf("read from the pipe: %v", err)
	}
	return m
}

// Await passes over messages until one of that method, or with an empty
// method, until a response.
func (p *Pipe) Await(method string) Message {
	p.tb.Helper()
	for {
		if m := p.Next(); m.Method == method {
			return m
		}
	}
}

// Initialize opens the legacy era on the pipe.
func (p *Pipe) Initialize(capabilities string) Message {
	p.tb.Helper()
	p.Send(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"` + LegacyVersion + `","capabilities":` + capabilities + `,"clientInfo":{"name":"hubtest","version":"1"}}}`)
	m := p.Await("")
	if m.Error != nil {
		p.tb.Fatalf("initialize: %s", m.Error)
	}
	p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}
