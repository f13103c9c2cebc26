package matrix

import (
	"slices"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// Client is a client of any make, connected to one face of a hub. It declares
// elicitation in both modes, sampling and roots, and answers what it is asked:
// the n-th form of a call with the name "Ada n", an address with accept,
// sampling with Sampled, roots with Root.
type Client interface {
	Era() hubtest.Era
	// Call calls a tool with a progress token and waits for the outcome.
	Call(t testing.TB, tool, args string) Outcome
	// Last is the outcome of the last call with what has come since: clients
	// may handle notifications after the response that followed them.
	Last(t testing.TB) Outcome
	// Begin calls a tool and returns at once; leave gives the call up in the
	// way of the client's era and returns when it has.
	Begin(t testing.TB, tool string) (leave func())
	// Level asks for log messages of that level and above in later calls.
	Level(t testing.TB, level string)
	// Listen listens to changes of the tools and of a resource. What it
	// returns counts the notifications of a method that came so far.
	Listen(t testing.TB, uri string) (heard func(method string) int)
	// Tools lists the names of the tools, anew.
	Tools(t testing.TB) []string
}

// What clients answer.
const (
	Sampled = "forty-two"
	Root    = "file:///colonnade"
)

// Outcome is what a client saw of one call.
type Outcome struct {
	Text     string     `json:"text"` // the first of the result
	IsError  bool       `json:"isError"`
	Code     int        `json:"code"` // of the JSON-RPC error; 0 for a result
	Data     string     `json:"data"` // of that error, as JSON
	Asked    []Question `json:"asked"`
	Progress []float64  `json:"progress"`
	Logs     []string   `json:"logs"`
}

// Question is what a client was asked.
type Question struct {
	Method  string `json:"method"`
	Mode    string `json:"mode"`
	Message string `json:"message"`
	URL     string `json:"url"`
}

// Make is a make of clients that speak one era.
type Make struct {
	Name    string
	Connect func(t testing.TB, face string) Client
	// Without names the rows that the make cannot do, each with the reason.
	Without map[string]string
	// Merged says that the make has no way to a single agent, as over stdio
	// and WebSocket.
	Merged bool
	// Drops says that the make drops progress that arrives in one read with
	// the response, hub or no hub.
	Drops bool
}

// Server is an upstream of a hub that speaks one era, or is spoken to in one.
type Server struct {
	Name string
	Era  hubtest.Era
	// Own is the same server with a connection for each client, which roots
	// need in the legacy era; Name if empty.
	Own     string
	State   string // the file to which it writes what happens to it
	URI     string // its resource
	Without map[string]string
	// Presumes says that it asks for roots although none were declared, as
	// servers of some SDKs do.
	Presumes bool
}

func (s Server) happened(t testing.TB) peer.State {
	t.Helper()
	st, err := peer.ReadState(s.State)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Way is a client and what it calls the tools of a server.
type Way struct {
	Client Client
	Name   func(tool string) string
}

// Column is a client before a server.
type Column struct {
	Way
	Own    Way // to the server that has a connection for each client
	Server Server
	Make   Make
}

func (c Column) call(t testing.TB, tool, args string) Outcome {
	t.Helper()
	return c.Client.Call(t, c.Name(tool), args)
}

// settled is call for rows about notifications: it gives those that the client
// handles late some time to come.
func (c Column) settled(t testing.TB, tool, args string, ok func(Outcome) bool) Outcome {
	t.Helper()
	o := c.call(t, tool, args)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(await.Patience); !ok(o) && time.Now().Before(end); o = c.Client.Last(t) {
		<-tick.C
	}
	return o
}

// Each runs the matrix for each make of clients before each server, on the
// merged face and on the server's own.
//
// Cancellations come when all the rest is done. A server on stdio may be at
// work on a cancelled call for some time, and meanwhile the hub lets it ask and
// tell nobody else: what it says could be meant for the one that left.
func Each(t *testing.T, makes []Make, servers []Server) {
	var others []Row
	for _, r := range Rows {
		if r.Name != leaving.Name {
			others = append(others, r)
		}
	}
	for _, m := range makes {
		t.Run(m.Name, func(t *testing.T) { m.each(t, servers, others) })
	}
	for _, m := range makes {
		t.Run(m.Name+" leaves", func(t *testing.T) { m.each(t, servers, []Row{leaving}) })
	}
}

func (m Make) each(t *testing.T, servers []Server, rows []Row) {
	merged := m.Connect(t, "/mcp")
	for _, s := range servers {
		if s.Own == "" {
			s.Own = s.Name
		}
		t.Run(s.Name+"/merged", func(t *testing.T) {
			way := func(up string) Way {
				return Way{merged, func(tool string) string { return up + "__" + tool }}
			}
			run(t, Column{way(s.Name), way(s.Own), s, m}, rows)
		})
		if m.Merged {
			continue
		}
		t.Run(s.Name+"/agent", func(t *testing.T) {
			way := func(up string) Way {
				return Way{m.Connect(t, "/mcps/"+up+"/mcp"), func(tool string) string { return tool }}
			}
			c := Column{way(s.Name), Way{}, s, m}
			if c.Own = c.Way; s.Own != s.Name {
				c.Own = way(s.Own)
			}
			run(t, c, rows)
		})
	}
}

func run(t *testing.T, c Column, rows []Row) {
	for _, w := range []Way{c.Way, c.Own} {
		await.Until(t, c.Server.Name+" is listed", func() bool { return slices.Contains(w.Client.Tools(t), w.Name("echo")) })
	}
	for _, list := range []map[string]string{c.Make.Without, c.Server.Without} {
		for name := range list {
			if !slices.ContainsFunc(Rows, func(r Row) bool { return r.Name == name }) {
				t.Fatalf("the matrix has no row %q", name)
			}
		}
	}
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			for _, why := range []string{c.Make.Without[r.Name], c.Server.Without[r.Name]} {
				if why != "" {
					t.Skip(why)
				}
			}
			if why := r.why(c.Client.Era(), c.Server.Era); why != "" {
				if r.Instead != nil {
					r.Instead(t, c)
				}
				t.Skip(why)
			}
			r.Test(t, c)
		})
	}
}
