package bridge

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/wsagent"
	"github.com/stoahub/stoa/internal/secret"
)

const complete = "\nsend {\"type\":\"complete\"}\nhold\n"

var hello = map[string]any{"agent_type": "crud", "user_input": "hello"}

// Calls do not wait for each other, and each gets its own answer.
func TestConcurrentCalls(t *testing.T) {
	const calls = 40
	s := agents(t, map[string]string{"crud": "ask\ngate\necho" + complete})
	c := connect(t, Options{URL: s.URL})
	for i := range calls {
		c.send(chat(i, map[string]any{"agent_type": "crud", "user_input": fmt.Sprint("question ", i)}))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		await.Until(t, "all questions are with the agent", func() bool {
			visits := s.Visits()
			return len(visits) == calls && !slices.ContainsFunc(visits, func(v wsagent.Visit) bool { return len(v.Questions) == 0 })
		})
		for range calls {
			if err := s.Open(); err != nil {
				t.Error(err)
			}
		}
	})
	got := map[int]bool{}
	for range calls {
		r := read(t, c.next())
		if !r.Success || *r.Data != fmt.Sprint("question ", r.ID) || got[r.ID] {
			t.Errorf("%+v", r)
		}
		got[r.ID] = true
	}
	wg.Wait()
}

func TestCancel(t *testing.T) {
	s := agents(t, map[string]string{"crud": "ask\nsend {\"type\":\"sentence\",\"sentence\":\"Hel\"}\nhold", "news": "ask\necho" + complete})
	c := connect(t, Options{URL: s.URL})
	c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ailumina_chat","arguments":{"agent_type":"crud","user_input":"x"},"_meta":{"progressToken":1}}}`)
	if got := c.next(); !strings.Contains(got, `"message":"Hel"`) {
		t.Fatalf("%s", got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`)
	await.Until(t, "the agent's socket is closed", func() bool { return s.Visits()[0].Ended })
	// Nothing more is said of it, and others are served.
	if r := c.call(map[string]any{"agent_type": "news", "user_input": "still there?"}); !r.Success || *r.Data != "still there?" {
		t.Errorf("%+v", r)
	}
}

// A client that ends its input still gets what it asked for.
func TestEndOfInput(t *testing.T) {
	s := agents(t, map[string]string{"crud": "ask\ngate\necho" + complete})
	c := connect(t, Options{URL: s.URL})
	c.send(chat(1, hello))
	c.in.Close()
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	if r := read(t, c.next()); !r.Success || *r.Data != "hello" {
		t.Errorf("%+v", r)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// An agent that was not there, or went away, is found again by the next call.
func TestServerComesBack(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	asked := 0
	c := connect(t, Options{URL: "ws://" + address, Elsewhere: func() string { asked++; return "A hub is running elsewhere." }})
	r := c.call(hello)
	want := "Ailumina chat failed: No connection to ws://" + address + "/ws/crud: dial tcp " + address + ": connect: connection refused. A hub is running elsewhere."
	if r.Success || *r.Error != want || asked != 1 {
		t.Errorf("%+v, want %q", r, want)
	}
	for range 2 {
		s := wsagent.Start(map[string]string{"crud": "ask\necho" + complete}, false)
		if r := c.call(map[string]any{"agent_type": "crud", "user_input": "again", "server_url": s.URL}); !r.Success || *r.Data != "again" {
			t.Errorf("%+v", r)
		}
		s.Close()
	}
}

// The token goes to the server it is for, also by TLS, and to no other.
func TestToken(t *testing.T) {
	scripts := map[string]string{"crud": "ask\necho" + complete}
	own := wsagent.Start(scripts, true)
	defer own.Close()
	other := agents(t, scripts)
	trusted := own.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	var log bytes.Buffer
	c := connect(t, Options{URL: own.URL, Token: secret.New("sesame"), TLS: &tls.Config{RootCAs: trusted},
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for _, url := range []string{"", own.URL, other.URL} {
		if r := c.call(map[string]any{"agent_type": "crud", "user_input": "open up", "server_url": url}); !r.Success {
			t.Errorf("%s: %s", url, *r.Error)
		}
	}
	for _, v := range own.Visits() {
		if got := v.Header.Get("Authorization"); got != "Bearer sesame" {
			t.Errorf("the server got %q", got)
		}
	}
	if got := other.Visits()[0].Header.Get("Authorization"); got != "" {
		t.Errorf("a stranger got %q", got)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "sesame") || strings.Contains(text, "open up") || !strings.Contains(text, `"type":"sentence"`) {
		t.Errorf("the log is\n%s", text)
	}
}

// The chain of calls that a question comes of goes on to the server's agents.
func TestChain(t *testing.T) {
	scripts := map[string]string{"crud": "ask\necho" + complete}
	own, other := agents(t, scripts), agents(t, scripts)
	c := connect(t, Options{URL: own.URL})
	for i, url := range []string{own.URL, other.URL} {
		c.send(`{"jsonrpc":"2.0","id":` + fmt.Sprint(i) + `,"method":"tools/call","params":{"name":"ailumina_chat","arguments":{"agent_type":"crud","user_input":"x","server_url":"` + url + `"},"_meta":{"stoa/chain":"links"}}}`)
		if r := read(t, c.next()); !r.Success {
			t.Error(*r.Error)
		}
	}
	if got := own.Visits()[0].Header.Get("Stoa-Chain"); got != "links" {
		t.Errorf("the server got %q", got)
	}
	if got := other.Visits()[0].Header.Get("Stoa-Chain"); got != "" {
		t.Errorf("a stranger got %q", got)
	}
}

func TestAllowedHosts(t *testing.T) {
	for _, tc := range []struct {
		hosts []string
		host  string
		want  bool
	}{
		{nil, "localhost", true},
		{nil, "LOCALHOST", true},
		{nil, "127.8.9.1", true},
		{nil, "::1", true},
		{nil, "agents.example", true}, // its own
		{nil, "evil.example", false},
		{nil, "agents.example.evil.example", false},
		{nil, "localhost.evil.example", false},
		{nil, "169.254.169.254", false},
		{nil, "0.0.0.0", false},
		{[]string{"good.example"}, "Good.Example", true},
		{[]string{"good.example"}, "x.good.example", false},
		{[]string{"*"}, "any.example", true},
	} {
		b, err := New(Options{URL: "wss://agents.example:99", Hosts: tc.hosts})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.allowed(tc.host); got != tc.want {
			t.Errorf("%s with %v: %t", tc.host, tc.hosts, got)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for want, o := range map[string]Options{
		"does not begin with ws":      {URL: "localhost:8000"},
		"user or password":            {URL: "ws://a:b@host"},
		`"a/b" cannot be the name`:    {Agents: []string{"a/b"}},
		`".." cannot be the name`:     {Agents: []string{".."}},
		`"" cannot be the name`:       {Agents: []string{""}},
		`"Müller" cannot be the name`: {Agents: []string{"Müller"}},
		"64 at most":                  {Agents: []string{strings.Repeat("a", 65)}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", o, err, want)
		}
	}
}

// Much is passed on whole, in both directions.
func TestLongTexts(t *testing.T) {
	s := agents(t, map[string]string{"crud": "ask\necho" + complete, "news": "ask\nfill 9000000" + complete})
	c := connect(t, Options{URL: s.URL})
	long := strings.Repeat("ä\n\"", 500_000)
	if r := c.call(map[string]any{"agent_type": "crud", "user_input": long}); !r.Success || *r.Data != long {
		t.Errorf("a long text has been changed: %v", r.Error)
	}
	if r := c.call(map[string]any{"agent_type": "news", "user_input": "x"}); r.Success || !strings.Contains(*r.Error, "longer than 8388608 bytes") {
		t.Errorf("a text that is too long: %v", r.Success)
	}
	many := make([]map[string]string, 10_001)
	for i := range many {
		many[i] = map[string]string{"role": "user", "content": "x"}
	}
	if r := c.call(map[string]any{"agent_type": "crud", "user_input": "x", "chat_messages": many}); r.Success || !strings.Contains(*r.Error, "more than 10000") {
		t.Errorf("a history that is too long: %v", r.Success)
	}
	if r := c.call(map[string]any{"agent_type": "crud", "user_input": "x", "chat_messages": many[1:]}); !r.Success {
		t.Errorf("a long history: %s", *r.Error)
	}
	var q struct {
		Messages []json.RawMessage `json:"chat_messages"`
	}
	visits := s.Visits()
	if err := json.Unmarshal([]byte(visits[len(visits)-1].Questions[0]), &q); err != nil || len(q.Messages) != 10_000 {
		t.Errorf("the agent got %d messages: %v", len(q.Messages), err)
	}
}

// What the bridge was told for its own server goes to that alone, and what an
// agent says of an error is passed on without it.
func TestHeadersAndErrors(t *testing.T) {
	scripts := map[string]string{
		"crud": "ask\nsend {\"type\":\"error\",\"error\":\"no: X-Key was k3y-of-mine, at wss://ann:pw4ann@db.example/?token=t0ken\"}\nhold",
		"news": "ask\necho" + complete,
	}
	own, other := agents(t, scripts), agents(t, scripts)
	c := connect(t, Options{URL: own.URL, Token: secret.New("sesame-open"), Header: http.Header{"X-Key": {"k3y-of-mine"}}})
	r := c.call(map[string]any{"agent_type": "crud", "user_input": "x"})
	if want := "Ailumina chat failed: no: X-Key was •••, at wss://•••@db.example/?token=•••"; r.Success || *r.Error != want {
		t.Errorf("%q, want %q", *r.Error, want)
	}
	if r := c.call(map[string]any{"agent_type": "news", "user_input": "token=t0ken", "server_url": other.URL}); !r.Success || *r.Data != "token=t0ken" {
		t.Errorf("%+v", r)
	}
	if h := own.Visits()[0].Header; h.Get("X-Key") != "k3y-of-mine" || h.Get("Authorization") != "Bearer sesame-open" {
		t.Errorf("the server got %v", h)
	}
	if got := other.Visits()[0].Header.Get("X-Key"); got != "" {
		t.Errorf("a stranger got %q", got)
	}
}

// Each wait has its own bound.
func TestTimesAreApart(t *testing.T) {
	s := agents(t, map[string]string{"crud": "stall", "news": "ask\nhold"})
	c := connect(t, Options{URL: s.URL, Connect: 50 * time.Millisecond, Timeout: 20 * time.Second})
	if r := c.call(hello); r.Success || !strings.Contains(*r.Error, "Connection timeout after 50ms") {
		t.Errorf("%+v", *r.Error)
	}
	c = connect(t, Options{URL: s.URL, Connect: 20 * time.Second, Timeout: 50 * time.Millisecond})
	if r := c.call(map[string]any{"agent_type": "news", "user_input": "x"}); r.Success || !strings.Contains(*r.Error, "Response timeout after 50ms") {
		t.Errorf("%+v", *r.Error)
	}
}
