package mcp

import (
	"bytes"
	"sync"
)

// note is a notification that waits for its stream.
type note struct {
	method string
	params []byte
}

// outbox holds what a client is to hear of outside any request. Putting never
// blocks: what is pending already is not put twice, and beyond maxNotes the
// oldest goes, since every note only says that something should be read again.
type outbox struct {
	mu    sync.Mutex
	notes []note
	ready chan struct{} // holds a token while notes wait; made by wake
}

const maxNotes = 1024

func (o *outbox) put(method string, params []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.notes {
		if n.method == method && bytes.Equal(n.params, params) {
			return
		}
	}
	if len(o.notes) >= maxNotes {
		o.notes = append(o.notes[:0], o.notes[1:]...)
	}
	o.notes = append(o.notes, note{method, params})
	o.signal()
}

// signal is called with mu held.
func (o *outbox) signal() {
	if o.ready == nil {
		return
	}
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// wake returns the channel that tells of waiting notes.
func (o *outbox) wake() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ready == nil {
		o.ready = make(chan struct{}, 1)
	}
	if len(o.notes) > 0 {
		o.signal()
	}
	return o.ready
}

func (o *outbox) take() []note {
	o.mu.Lock()
	defer o.mu.Unlock()
	notes := o.notes
	o.notes = nil
	return notes
}
