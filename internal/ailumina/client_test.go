package ailumina

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/wsagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const done = `send {"type":"complete"}`

// serve serves one agent, a, by a script.
func serve(t *testing.T, script string) *wsagent.Server {
	t.Helper()
	s := wsagent.Start(map[string]string{"a": script}, false)
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, ctx context.Context, base string, o Options, told func(Event)) (string, error) {
	t.Helper()
	u, err := ParseURL(base)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(ctx, Endpoint(u, "a"), o)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.Chat(ctx, Question{Input: "hi"}, told)
}

// gone waits until the last client of a server has gone.
func gone(t *testing.T, s *wsagent.Server) wsagent.Visit {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if v := s.Visits(); len(v) > 0 && v[len(v)-1].Ended {
			return v[len(v)-1]
		}
	}
	t.Fatal("the client has not gone")
	return wsagent.Visit{}
}

func TestChat(t *testing.T) {
	s := serve(t, `ask {"user_input":"hi","chat_messages":[]}
		send {"type":"sentence","sentence":"Hello. "}
		send {"type":"tool_running","tool_name":"calc"}
		send {"type":"tool_complete","tool_name":"calc"}
		send {"type":"news","x":1}
		send {"type":"sentence","sentence":"It is 5."}
		send {"role":"assistant","content":"Hello. It is 5.","parts":[{"text":"Hello. It is 5."}]}
		`+done+`
		hold`)
	var kinds []Kind
	header := http.Header{"Authorization": {"Bearer secret"}}
	got, err := ask(t, t.Context(), s.URL, Options{Header: header}, func(e Event) { kinds = append(kinds, e.Kind) })
	if err != nil || got != "Hello. It is 5." {
		t.Errorf("%q, %v", got, err)
	}
	if diff := cmp.Diff([]Kind{Sentence, ToolRunning, ToolComplete, Other, Sentence, Chat, Complete}, kinds); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	v := gone(t, s)
	// The client takes its leave by a close frame.
	if v.Wrong != "" || v.Left != 1000 || v.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("the agent saw %+v", v)
	}
}

func TestQuestionsOneAfterTheOther(t *testing.T) {
	s := serve(t, "ask\necho\n"+done+"\nask\necho\n"+done)
	u, _ := ParseURL(s.URL)
	c, err := Dial(t.Context(), Endpoint(u, "a"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, text := range []string{"one", "two"} {
		if got, err := c.Chat(t.Context(), Question{Input: text}, nil); err != nil || got != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
}

func TestChatFails(t *testing.T) {
	large := fmt.Sprintf("fill %d", MessageBytes+1)
	for name, tc := range map[string]struct {
		script string
		kind   fault.Kind
		want   string
	}{
		"not JSON":             {"ask\nsend {oops\nhold", fault.UpstreamLost, "The agent sent what cannot be understood: the message is not JSON"},
		"wrong form":           {"ask\nsend {\"type\":\"sentence\"}\nhold", fault.UpstreamLost, "no sentence that is a string"},
		"binary":               {"ask\nbinary {\"type\":\"complete\"}\nhold", fault.UpstreamLost, "binary"},
		"dies":                 {"ask\nsend {\"type\":\"sentence\",\"sentence\":\"Hel\"}\ndie", fault.UpstreamLost, "The answer is not complete: the connection broke"},
		"closes":               {"ask\nsend {\"type\":\"sentence\",\"sentence\":\"Hel\"}\nclose 1011 out of memory", fault.UpstreamLost, `closed the connection with status 1011 ("out of memory")`},
		"closes as if all was": {"ask\nsend {\"type\":\"sentence\",\"sentence\":\"Hel\"}\nclose 1000", fault.UpstreamLost, "The answer is not complete: the agent closed the connection with status 1000"},
		"huge message":         {"ask\n" + large + "\nhold", fault.Limit, "The agent sent a message longer than 10485760 bytes"},
		"huge answer":          {"ask\nfill 5000000\nfill 5000000\nhold", fault.Limit, "The answer is longer than 8388608 bytes"},
		"unknown agent":        {"refuse 404", fault.UnknownAgent, "HTTP status 404 Not Found"},
		"unauthorised":         {"refuse 401", fault.Unauthorized, "HTTP status 401 Unauthorized"},
		"forbidden":            {"refuse 403", fault.Denied, "HTTP status 403"},
		"elsewhere":            {"refuse 302", fault.Unreachable, "HTTP status 302"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.script)
			got, err := ask(t, t.Context(), s.URL, Options{}, nil)
			if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) || got != "" {
				t.Errorf("%q, %v; want %v, %q", got, err, tc.kind, tc.want)
			}
			// A question that was sent is not sent again, and a refusal is final.
			if n := len(s.Visits()); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestAgentSaysNo(t *testing.T) {
	s := serve(t, "ask\nsend {\"type\":\"sentence\",\"sentence\":\"Hel\"}\nsend {\"type\":\"error\",\"error\":\"no credit\"}\nhold")
	_, err := ask(t, t.Context(), s.URL, Options{}, nil)
	if no, ok := errors.AsType[*AgentError](err); !ok || no.Text != "no credit" {
		t.Errorf("%v", err)
	}
}

func TestTimeouts(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		opts   Options
		want   string
	}{
		"handshake": {"stall", Options{Timeout: 50 * time.Millisecond}, "Connection timeout after 50ms"},
		"silence":   {"ask\nsend {\"type\":\"sentence\",\"sentence\":\"Hel\"}\nhold", Options{Timeout: 2 * time.Second}, "Response timeout after 2000ms without a message"},
		"in all":    {"ask\nrepeat 1000000 {\"type\":\"x\"}\nhold", Options{Max: 300 * time.Millisecond}, "Response timeout: the answer took longer than 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.script)
			_, err := ask(t, t.Context(), s.URL, tc.opts, nil)
			if !fault.Is(err, fault.Timeout) || fault.Of(err).Text() != tc.want {
				t.Errorf("%v; want %q", err, tc.want)
			}
			gone(t, s)
		})
	}
}

func TestCancelClosesTheSocket(t *testing.T) {
	s := serve(t, "ask\nsend {\"type\":\"sentence\",\"sentence\":\"Hel\"}\nhold")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("not wanted any more")
	_, err := ask(t, ctx, s.URL, Options{}, func(Event) { cancel(why) })
	if err != why {
		t.Errorf("%v", err)
	}
	gone(t, s)
	if _, err := ask(t, ctx, s.URL, Options{}, nil); err != why {
		t.Errorf("dial after the end: %v", err)
	}
}

// A server that is being started is waited for, since nothing was asked yet.
func TestConnectsAgain(t *testing.T) {
	s := serve(t, "refuse 503")
	_, err := ask(t, t.Context(), s.URL, Options{Retries: 2}, nil)
	if !fault.Is(err, fault.Unreachable) || len(s.Visits()) != 3 {
		t.Errorf("%v after %d attempts, want 3", err, len(s.Visits()))
	}
	if _, err := ask(t, t.Context(), s.URL, Options{Retries: -1}, nil); err == nil || len(s.Visits()) != 4 {
		t.Errorf("%v after %d attempts, want one more", err, len(s.Visits()))
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	begun := time.Now()
	_, err = ask(t, t.Context(), "ws://"+ln.Addr().String(), Options{Retries: 1}, nil)
	if !fault.Is(err, fault.Unreachable) || !strings.Contains(fault.Of(err).Text(), "connection refused") || time.Since(begun) < firstPause {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

func TestSecure(t *testing.T) {
	s := wsagent.Start(map[string]string{"a": "ask\necho\n" + done}, true)
	defer s.Close()
	trusted := s.Client().Transport.(*http.Transport).TLSClientConfig
	if got, err := ask(t, t.Context(), s.URL, Options{TLS: &tls.Config{RootCAs: trusted.RootCAs}}, nil); err != nil || got != "hi" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask(t, t.Context(), s.URL, Options{Retries: -1}, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger's certificate: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for in, want := range map[string]string{
		"ws://localhost:8000":        "ws://localhost:8000/ws/a%20b",
		"ws://localhost:8000/":       "ws://localhost:8000/ws/a%20b",
		" wss://example.com/agents ": "wss://example.com/agents/ws/a%20b",
		"http://[::1]:1":             "ws://[::1]:1/ws/a%20b",
		"HTTPS://example.com":        "wss://example.com/ws/a%20b",
	} {
		u, err := ParseURL(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if got := Endpoint(u, "a b").String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"localhost:8000": "does not begin with", "file:///etc/passwd": "does not begin with", "": "does not begin with", "ws://": "names no host",
		"ws://:80": "names no host", "ws://me:secret@host": "user or password", "ws://host?a=secret": "more after its path", "ws://host\x7f:secret": "not a URL",
	} {
		if u, err := ParseURL(in); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v; want %q", in, u, err, want)
		}
	}
}

// A hub that has no such agent says which it has; what others say is no advice.
func TestRefusalAdvises(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":-32601,"message":"x","data":{"hint":"There are a, b."}}}`: "There are a, b.",
		`{"error":"gone"}`:              "",
		`{"error":{"data":{"hint":7}}}`: "",
		`<html>`:                        "",
		``:                              "",
		strings.Repeat(`{"error":{"data":{"hint":"x`, 10_000): "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, http.StatusNotFound) }))
		_, err := ask(t, t.Context(), s.URL, Options{}, nil)
		s.Close()
		if f := fault.Of(err); f.Kind != fault.UnknownAgent || f.Hint != want {
			t.Errorf("%.60s: %v, hint %q", body, err, f.Hint)
		}
	}
}
