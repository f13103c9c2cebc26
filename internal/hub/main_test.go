package hub_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Hubs come and go by the hundred: to collect what they leave costs more
	// than the memory that it takes.
	debug.SetGCPercent(400)
	peer.Main()
	storetest.Child()
	sdkMain()
	durableMain()
	peer.Apart()
	hubtest.AtOnce(4)
	goleak.VerifyTestMain(m)
}

// soak chooses the long form of a test.
func soak(short, long int) int {
	if os.Getenv("STOA_SOAK") == "1" {
		return long
	}
	return short
}

// cell is one way from a client to an upstream.
type cell struct {
	era       hubtest.Era
	transport string // stdio, json or sse: the upstream's
	merged    bool   // the client is on /mcp, else on the agent's own face
}

func (c cell) String() string {
	face := "agent"
	if c.merged {
		face = "merged"
	}
	return string(c.era) + "/" + c.transport + "/" + face
}

// face is the path for the upstream called up.
func (c cell) face(up string) string {
	if c.merged {
		return "/mcp"
	}
	return "/mcps/" + up + "/mcp"
}

// name is what a tool or prompt of up is called there.
func (c cell) name(up, tool string) string {
	if c.merged {
		return up + "__" + tool
	}
	return tool
}

type serverConfig = config.Server

// world is a hub with one upstream, called up, and a client. Where worlds share a
// hub their upstreams have other names, which name and face know.
type world struct {
	cell
	up string // what up is called here
	*hubtest.Hub
	client *hubtest.Client
	http   *peer.HTTPServer // nil for stdio
	state  string           // the peer's state file
}

// peerState is what has happened to the upstream.
func (w *world) peerState(t testing.TB) peer.State {
	t.Helper()
	st, err := peer.ReadState(w.state)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (w *world) face(up string) string { return w.cell.face(w.here(up)) }

func (w *world) name(up, tool string) string { return w.cell.name(w.here(up), tool) }

func (w *world) here(up string) string {
	if up == "up" {
		return w.up
	}
	return up
}

func (w *world) call(tool, args string, meta ...hubtest.Meta) hubtest.Message {
	return w.client.Tool(w.name("up", tool), args, meta...)
}

// worldOptions say how the world of a cell differs from the plain one.
type worldOptions struct {
	client hubtest.ClientOptions // era and face are the cell's
	server func(*config.Server)
	edits  []hubtest.Edit
	mixed  bool // the upstream speaks only the era that the client does not
}

// eachCell runs a test over eras, transports and faces: over cells in which
// every two of these meet, and in the long form over all. The upstream speaks
// the client's era only, so that no cell is bridged, unless it is to be.
func eachCell(t *testing.T, spec peer.Spec, o worldOptions, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, c := range cells() {
		t.Run(c.String(), func(t *testing.T) { test(t, newWorld(t, c, spec, o)) })
	}
}

// oneHub is eachCell with one hub for all cells, which costs far less: for tests
// that call what is theirs, and look at nothing that the others add to.
func oneHub(t *testing.T, spec peer.Spec, o worldOptions, test func(t *testing.T, w *world)) {
	t.Helper()
	var worlds []*world
	edits := slices.Clone(o.edits)
	for i, c := range cells() {
		w := &world{cell: c, up: fmt.Sprint("up", i), state: t.TempDir() + "/state"}
		worlds, edits = append(worlds, w), append(edits, w.upstream(t, spec, o))
	}
	h := hubtest.New(t, edits...)
	h.Settle(t.Context())
	for _, w := range worlds {
		t.Run(w.cell.String(), func(t *testing.T) {
			w.Hub = h
			client := o.client
			client.Era, client.Face = w.era, w.face("up")
			w.client = h.Client(t, client)
			test(t, w)
		})
	}
}

func cells() (all []cell) {
	for i, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for j, transport := range []string{"stdio", "json", "sse"} {
			for _, merged := range []bool{true, false} {
				if soak(1, 0) == 0 || merged == ((i+j)%2 == 0) {
					all = append(all, cell{era, transport, merged})
				}
			}
		}
	}
	return all
}

// upstream starts the world's, and says how the hub comes to it.
func (w *world) upstream(t *testing.T, spec peer.Spec, o worldOptions) hubtest.Edit {
	t.Helper()
	spec.Era, spec.StatePath = peer.Era(w.era), w.state
	if o.mixed {
		spec.Era = map[hubtest.Era]peer.Era{hubtest.Legacy: peer.EraModern, hubtest.Modern: peer.EraLegacy}[w.era]
	}
	edit := o.server
	if edit == nil {
		edit = func(*config.Server) {}
	}
	if w.transport == "stdio" {
		return hubtest.Stdio(w.up, spec, edit)
	}
	spec.HTTP.JSON = w.transport == "json"
	w.http = peer.Serve(t, spec)
	return hubtest.HTTP(w.up, w.http.URL, edit)
}

func newWorld(t *testing.T, c cell, spec peer.Spec, o worldOptions) *world {
	t.Helper()
	w := &world{cell: c, up: "up", state: t.TempDir() + "/state"}
	up := w.upstream(t, spec, o)
	lazy := false
	w.Hub = hubtest.New(t, slices.Concat([]hubtest.Edit{up}, o.edits, []hubtest.Edit{hubtest.Config(func(c *config.Config) { lazy = !c.AutoDiscover })})...)
	o.client.Era, o.client.Face = c.era, c.face("up")
	if spec.Quirks == (peer.Quirks{}) && !lazy {
		w.Settle(t.Context()) // or a test would depend on how fast the lists are read
	}
	w.client = w.Hub.Client(t, o.client)
	return w
}
