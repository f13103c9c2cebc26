package auth

import (
	"net/netip"
	"sync"
	"time"
)

const (
	maxAttempts   = 10 // failures of one address per attemptWindow
	attemptWindow = time.Minute
	maxAddresses  = 4096
)

// attempts counts failed attempts per address in bounded memory.
type attempts struct {
	now func() time.Time

	mu    sync.Mutex
	from  map[netip.Prefix]*tally
	swept time.Time // when what is over was last dropped
}

type tally struct {
	count int
	until time.Time
}

// failed records one failure of remote. It returns how long the address has
// to wait if it had too many, and whether this one was the first too many.
func (a *attempts) failed(remote string) (wait time.Duration, first bool) {
	key := origin(remote)
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.from[key]
	if t == nil || !now.Before(t.until) {
		a.makeRoom(now)
		t = &tally{until: now.Add(attemptWindow)}
		a.from[key] = t
	}
	t.count++
	if t.count <= maxAttempts {
		return 0, false
	}
	return t.until.Sub(now), t.count == maxAttempts+1
}

// makeRoom drops what is over, and if that is nothing, any one: whoever has
// thousands of addresses is not held back by counting them. Called with mu held.
func (a *attempts) makeRoom(now time.Time) {
	if a.from == nil {
		a.from = map[netip.Prefix]*tally{}
	}
	if len(a.from) < maxAddresses {
		return
	}
	if now.Sub(a.swept) >= time.Second { // or a flood would make us walk the map for each of its requests
		a.swept = now
		for key, t := range a.from {
			if !now.Before(t.until) {
				delete(a.from, key)
			}
		}
	}
	for key := range a.from {
		if len(a.from) < maxAddresses {
			return
		}
		delete(a.from, key)
	}
}

// origin is the part of a remote address that one party holds: an IPv4
// address, or the /64 an IPv6 host can choose from.
func origin(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := ap.Addr().Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits)
	return p
}
