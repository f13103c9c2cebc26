// Package wsagent is a server of WebSocket agents for tests: a real one, whose
// agents do what scripts say. It speaks the protocol by itself, byte by byte,
// and shares nothing with the package that it is there to test.
//
// A script has one step a line; each connection plays it from the start.
//
//	refuse STATUS    answer the handshake by that status
//	stall            never answer the handshake
//	ask [JSON]       read a question, which must be that JSON if it is given
//	send TEXT        send a text message, whatever it holds
//	binary TEXT      send a binary message
//	fill N           send a sentence of N bytes
//	repeat N TEXT    send a text message N times
//	echo             send the last question's user_input as a sentence
//	gate             wait until Open is called, once per connection
//	close CODE WHY   close the socket
//	die              cut the connection
//	hold             wait until the client has gone
package wsagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Visit is one connection of a client.
type Visit struct {
	Agent     string
	Header    http.Header
	Questions []string // as they came
	Wrong     string   // what was not as the script wants it; empty if all was
	Left      int      // the status by which the client left during hold; -1 if it said none
	Ended     bool     // the client has gone, or the script is at its end
}

// Server serves agents.
type Server struct {
	URL     string // ws:// or wss://, without a path
	http    *httptest.Server
	scripts map[string][]string
	gate    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc

	wg sync.WaitGroup // of visits, which the HTTP server does not wait for

	mu     sync.Mutex
	visits []*Visit
}

// errLeft ends a script: the client has gone, as it may.
var errLeft = errors.New("the client has gone")

// Start serves agents by scripts until Close. Secure says whether by TLS.
func Start(scripts map[string]string, secure bool) *Server {
	s := &Server{scripts: map[string][]string{}, gate: make(chan struct{})}
	for agent, script := range scripts {
		for line := range strings.Lines(script) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				s.scripts[agent] = append(s.scripts[agent], line)
			}
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = httptest.NewUnstartedServer(s)
	if secure {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.URL = "ws" + strings.TrimPrefix(s.http.URL, "http")
	return s
}

// Client trusts a secure server; its transport has the TLS config.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Close ends all connections.
func (s *Server) Close() {
	s.cancel()
	s.http.CloseClientConnections()
	s.http.Close()
	s.wg.Wait()
}

// Open lets one connection go on that is at a gate, within a minute and before
// the server is closed.
func (s *Server) Open() error {
	select {
	case s.gate <- struct{}{}:
		return nil
	case <-s.ctx.Done():
		return errors.New("the server is closed")
	case <-time.After(time.Minute):
		return fmt.Errorf("no agent has come to a gate")
	}
}

// Visits are the connections so far, in the order in which they came.
func (s *Server) Visits() []Visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Visit
	for _, v := range s.visits {
		out = append(out, *v)
	}
	return out
}

func (s *Server) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/ws/")
	script, known := s.scripts[name]
	if !ok || !known {
		http.NotFound(w, r)
		return
	}
	s.wg.Add(1)
	defer s.wg.Done()
	v := &Visit{Agent: name, Header: r.Header.Clone()}
	s.note(func() { s.visits = append(s.visits, v) })
	defer s.note(func() { v.Ended = true })
	if len(script) > 0 {
		if status, ok := strings.CutPrefix(script[0], "refuse "); ok {
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			return
		}
		if script[0] == "stall" {
			<-r.Context().Done()
			return
		}
	}
	s.play(w, r, v, script)
}

func (s *Server) play(w http.ResponseWriter, r *http.Request, v *Visit, script []string) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		s.note(func() { v.Wrong = err.Error() })
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(64 << 20)
	for _, line := range script {
		if err := s.step(ctx, c, v, line); err != nil {
			s.note(func() {
				if err != errLeft {
					v.Wrong = line + ": " + err.Error()
				}
			})
			return
		}
	}
	c.Close(websocket.StatusNormalClosure, "")
}

func (s *Server) step(ctx context.Context, c *websocket.Conn, v *Visit, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	text := func(b string) error { return c.Write(ctx, websocket.MessageText, []byte(b)) }
	switch verb {
	case "ask":
		return s.ask(ctx, c, v, rest)
	case "send":
		return text(rest)
	case "binary":
		return c.Write(ctx, websocket.MessageBinary, []byte(rest))
	case "fill":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		return text(`{"type":"sentence","sentence":"` + strings.Repeat("x", n) + `"}`)
	case "repeat":
		count, one, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(count)
		for range n {
			if err == nil {
				err = text(one)
			}
		}
		return err
	case "echo":
		var q struct {
			Input string `json:"user_input"`
		}
		if err := json.Unmarshal([]byte(v.Questions[len(v.Questions)-1]), &q); err != nil {
			return err
		}
		b, err := json.Marshal(map[string]string{"type": "sentence", "sentence": q.Input})
		if err != nil {
			return err
		}
		return text(string(b))
	case "gate":
		select {
		case <-s.gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case "close":
		code, why, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(code)
		if err != nil {
			return err
		}
		return c.Close(websocket.StatusCode(n), why)
	case "die":
		return c.CloseNow()
	case "hold":
		_, _, err := c.Read(ctx)
		if err == nil {
			return fmt.Errorf("the client said more than its question")
		}
		s.note(func() { v.Left = int(websocket.CloseStatus(err)) })
		return errLeft
	}
	return fmt.Errorf("the script has no step %q", line)
}

// ask reads a question.
func (s *Server) ask(ctx context.Context, c *websocket.Conn, v *Visit, want string) error {
	kind, b, err := c.Read(ctx)
	if err != nil {
		return err
	}
	s.note(func() { v.Questions = append(v.Questions, string(b)) })
	if kind != websocket.MessageText {
		return fmt.Errorf("the question is not text")
	}
	if want == "" {
		return nil
	}
	var is, should any
	if err := json.Unmarshal(b, &is); err != nil {
		return fmt.Errorf("the question is not JSON: %w", err)
	}
	if err := json.Unmarshal([]byte(want), &should); err != nil {
		return fmt.Errorf("the script's question is not JSON: %w", err)
	}
	if !reflect.DeepEqual(is, should) {
		return fmt.Errorf("the question is %s, want %s", b, want)
	}
	return nil
}
