package mcp

import (
	"sync"

	"github.com/stoahub/stoa/internal/wire"
)

// Audience is who listens to a face: the listeners, and what resources they
// are subscribed to. A subscription is kept under a key that names the
// resource across upstreams, with the URI that the listener used for it.
type Audience struct {
	mu   sync.Mutex
	all  map[*Listener]struct{}
	subs map[string]map[*Listener]string
}

// Add takes a listener in.
func (a *Audience) Add(l *Listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all, a.subs = map[*Listener]struct{}{}, map[string]map[*Listener]string{}
	}
	a.all[l] = struct{}{}
}

// Remove takes a listener out and returns the keys that nobody is subscribed
// to any more.
func (a *Audience) Remove(l *Listener) (last []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, l)
	for key, who := range a.subs {
		if _, ok := who[l]; ok {
			if delete(who, l); len(who) == 0 {
				delete(a.subs, key)
				last = append(last, key)
			}
		}
	}
	return last
}

// Subscribe adds a subscription and reports whether it is the key's first.
func (a *Audience) Subscribe(l *Listener, key, uri string) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	who := a.subs[key]
	if who == nil {
		who = map[*Listener]string{}
		a.subs[key] = who
		first = true
	}
	who[l] = uri
	return first
}

// Unsubscribe removes a subscription and reports whether it was the key's last.
func (a *Audience) Unsubscribe(l *Listener, key string) (last bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	who := a.subs[key]
	if _, ok := who[l]; !ok {
		return false
	}
	if delete(who, l); len(who) > 0 {
		return false
	}
	delete(a.subs, key)
	return true
}

// Tell delivers a notification to the listeners whose filter wants it and
// that pass.
func (a *Audience) Tell(method string, pass func(*Listener) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range a.all {
		if l.Filter.Wants(method) && pass(l) {
			l.Deliver(method, nil)
		}
	}
}

// Updated delivers an update of a resource to those subscribed to it that
// pass, or all if pass is nil, each with the URI it used.
func (a *Audience) Updated(key string, params []byte, pass func(*Listener) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for l, uri := range a.subs[key] {
		if pass != nil && !pass(l) {
			continue
		}
		own := params
		if have, _ := wire.String(wire.Get(params, "uri")); have != uri {
			own = wire.Edit(nil, params, wire.Change{Name: "uri", Value: wire.Quote(uri)})
		}
		l.Deliver(NoteResourceUpdated, own)
	}
}
