package stoa

import (
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/upstream"
)

// State is where the connection to a server stands.
type State string

// The states of a connection.
const (
	StateDisconnected State = "disconnected" // not dialled yet, or closed because it was idle; a call connects
	StateConnecting   State = "connecting"
	StateConnected    State = "connected"
	StateError        State = "error" // it could not be reached, and is tried again
)

// stateOf is a state as the library tells it: a server that cannot be used as it
// is configured could not be reached, and the error says why.
func stateOf(s upstream.State) State {
	if s.Down() {
		return StateError
	}
	return State(s)
}

// ServerStatus is how a server does.
type ServerStatus struct {
	Server   string
	State    State
	Since    time.Time     // of the state
	Error    string        // why it is StateError
	Eras     []string      // generations of the protocol that it speaks: legacy, modern
	Version  string        // of the protocol, as agreed on
	Latency  time.Duration // of the last handshake
	Tools    int
	Stale    bool     // what it offers is what it said before the connection was lost
	Warnings []string // what a person should know
	Stderr   []string // the last lines that its process wrote there
}

// Servers returns how every server does, sorted by name.
func (h *Hub) Servers() []ServerStatus {
	var out []ServerStatus
	for _, s := range h.hub.Upstreams() {
		one := ServerStatus{
			Server: s.Name, State: stateOf(s.State), Since: s.Since, Error: s.Error, Eras: s.Eras, Version: s.Version,
			Latency: time.Duration(s.LatencyMs * float64(time.Millisecond)), Tools: s.Tools, Stale: s.Stale, Stderr: s.Stderr,
		}
		for _, w := range s.Health {
			one.Warnings = append(one.Warnings, w.Code+": "+w.Text)
		}
		out = append(out, one)
	}
	return out
}

// State returns where the connection to a server stands; one that is not
// configured is StateDisconnected.
func (h *Hub) State(server string) State {
	name := config.Slug(server)
	for _, s := range h.hub.Upstreams() {
		if s.Name == name {
			return stateOf(s.State)
		}
	}
	return StateDisconnected
}

// Stats are figures of the connections to all servers, since Open.
type Stats struct {
	Open      int   // now
	Idle      int   // of those, unused at this moment
	Processes int   // of those, programs that we run
	Created   int64 // connections that were made
	Reused    int64 // calls that found one open
	Reaped    int64 // closed for being idle
	Unhealthy int64 // lost, or could not be made
}

// Stats returns the figures of the pool.
func (h *Hub) Stats() Stats {
	s := h.hub.Stats()
	return Stats{Open: s.Open, Idle: s.Idle, Processes: s.Processes, Created: s.Created, Reused: s.Reused, Reaped: s.Reaped, Unhealthy: s.Unhealthy}
}
