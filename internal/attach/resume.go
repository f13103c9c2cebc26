package attach

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// proven is how long a link must have lasted for its end to be no sign of a hub
// that dies again and again.
const proven = 10 * time.Second

// lost takes note that the hub is gone.
func (p *pump) lost() {
	l := p.link
	p.wg.Go(l.close)
	inOrder := errors.Is(l.err, mcp.ErrStopping)
	p.log.Warn("hub is gone", "err", l.err)
	if time.Since(p.since) > proven {
		p.backoff.Reset()
	}
	p.link, p.resumed, p.since = nil, false, time.Now()
	p.urgent = lane{}
	p.doubt, p.holding = doubt{}, nil
	clear(p.own)
	for _, id := range p.questions {
		p.tell(wire.AppendRequest(nil, nil, noteCancelled, []byte(`{"requestId":`+string(id)+`,"reason":"the hub that asked is gone"}`)))
	}
	clear(p.questions)
	p.toHub.keep(func(f frame) bool { return !f.response })
	for _, a := range p.asked.all() {
		switch {
		case a.method == "ping":
			p.asked.remove(a)
			p.toHub.keep(func(f frame) bool { return f.asked != a })
			p.tell(wire.AppendResult(nil, a.ids[0], []byte("{}"))) // we are alive, and a hub will be
		case a.state != onItsWay:
		case inOrder && a.held == nil:
			a.state = waits // it was never begun
			p.again(a)
		default:
			a.state, a.held = adrift, nil
			a.losses++
			if yes, known := p.client.repeatable(a); known && !yes || a.losses >= maxLosses && !a.listen {
				p.fail(a, lostCall(a))
			}
		}
	}
}

// again puts a request back before those that came after it.
func (p *pump) again(a *asked) {
	at := slices.IndexFunc(p.toHub.frames, func(f frame) bool { return f.asked != nil && p.asked.after(f.asked, a) })
	if at < 0 {
		at = len(p.toHub.frames)
	}
	p.toHub.frames = slices.Insert(p.toHub.frames, at, frame{b: a.b, asked: a})
	p.toHub.bytes += len(a.b)
}

// after reports whether a came after b.
func (t *table) after(a, b *asked) bool { return slices.Index(t.order, a) > slices.Index(t.order, b) }

// attached makes a hub the one to speak to. It is told of the client what the
// last one knew before it gets anything else.
func (p *pump) attached(l *link) {
	p.link = l
	p.number++
	if p.alone != nil {
		p.number++ // what the client was told by ourselves is to be corrected
		p.alone = nil
	}
	p.since = time.Now()
	p.log.Info("attached to the hub", "attempts", p.backoff.Attempts()+1)
	if p.client.hello == nil {
		p.resume()
		return
	}
	p.ask("initialize", p.client.hello, func(m *wire.Message) {
		if m.Error != nil {
			p.log.Error("hub refuses to be initialised again", "err", string(m.Error))
			l.s.Abort()
			return
		}
		p.resume()
	})
}

// ask sends a request of our own.
func (p *pump) ask(method string, params []byte, f reply) {
	p.ownID++
	id := wire.Quote("stoa-attach-" + strconv.Itoa(p.ownID))
	p.own[string(id)] = f
	p.urgent.put(frame{b: wire.AppendRequest(nil, id, method, params)})
}

// resume tells the hub the rest, and lets the client's messages flow.
func (p *pump) resume() {
	c := &p.client
	ignored := func(*wire.Message) {}
	if c.hello != nil && c.ready {
		p.urgent.put(frame{b: wire.AppendRequest(nil, nil, noteInitialized, nonempty(c.initialized))})
	}
	if c.hello != nil && c.level != nil {
		p.ask("logging/setLevel", c.level, ignored)
	}
	for _, params := range c.uris {
		p.ask("resources/subscribe", params, ignored)
	}
	p.resumed = true
	for _, a := range p.asked.all() {
		if a.state != adrift {
			continue
		}
		if yes, _ := c.repeatable(a); yes {
			a.state = waits
			p.again(a)
		} else {
			p.doubt.until = time.Now().Add(doubtful)
		}
	}
	if p.number > 1 && c.hello != nil {
		p.remindLegacy()
	}
	if !p.doubt.until.IsZero() {
		p.inquire()
	}
}

func nonempty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// remindLegacy tells a client with a session that what it knows may have
// changed while there was no hub.
func (p *pump) remindLegacy() {
	for _, method := range p.client.lists {
		p.tell(wire.AppendRequest(nil, nil, method, nil))
	}
	for _, params := range p.client.uris {
		only := wire.EditFields(nil, nil, wire.Change{Name: "uri", Value: wire.Get(params, "uri")})
		p.tell(wire.AppendRequest(nil, nil, mcp.NoteResourceUpdated, only))
	}
}

// doubt is the attempt to find out whether calls of tools that the client has
// not listed may be repeated.
type doubt struct {
	until time.Time // zero if there is none
	again <-chan time.Time
}

// doubtful is how long a tool may take to be listed by a hub that has just
// started.
const doubtful = 5 * time.Second

// inquire asks the hub for its tools, page by page, and again while some are
// missing.
func (p *pump) inquire() {
	p.doubt.again = nil
	var page reply
	page = func(m *wire.Message) {
		p.client.listed(m.Result)
		cursor := wire.Get(m.Result, "nextCursor")
		if cursor != nil && string(cursor) != "null" && p.adrift() {
			p.ask("tools/list", wire.EditFields(nil, nil, wire.Change{Name: "cursor", Value: cursor}), page)
			return
		}
		if !p.adrift() {
			p.doubt = doubt{}
			return
		}
		if time.Now().After(p.doubt.until) {
			p.despair()
			return
		}
		p.doubt.again = time.After(5 * glance)
	}
	p.ask("tools/list", []byte("{}"), page)
}

// adrift decides about the calls of which enough is known by now, and reports
// whether others are left.
func (p *pump) adrift() (left bool) {
	for _, a := range p.asked.all() {
		if a.state != adrift {
			continue
		}
		yes, known := p.client.repeatable(a)
		switch {
		case yes:
			a.state = waits
			p.again(a)
		case known:
			p.fail(a, lostCall(a))
		default:
			left = true
		}
	}
	return left
}

// despair gives up the calls of tools of which nothing is known.
func (p *pump) despair() {
	p.doubt = doubt{}
	for _, a := range p.asked.all() {
		if a.state == adrift {
			p.fail(a, lostCall(a))
		}
	}
}
