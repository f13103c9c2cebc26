package attach

import (
	"bytes"
	"errors"
	"io"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// The parts of the protocol that the pump has to know.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	noteAcknowledged = "notifications/subscriptions/acknowledged"
	noteCancelled    = "notifications/cancelled"
	noteInitialized  = "notifications/initialized"
	batchVersion     = "2025-03-26"
	maxBatch         = 100
)

// fromClient takes one line of the client.
func (p *pump) fromClient(l line) {
	switch {
	case errors.Is(l.err, wire.ErrTooLong):
		p.tooLong(l.err)
		return
	case l.err == io.ErrUnexpectedEOF:
		p.refuse(nil, false, fault.New(fault.Parse, "", "the input ended inside a message"))
		return
	case p.client.version == batchVersion && isBatch(l.b):
		p.batch(l.b)
		return
	}
	m := wire.Message{Depth: p.opts.Depth}
	if err := m.Scan(l.b, wire.FromClient); err != nil {
		p.refuse(m.ID, false, mcp.Unreadable(err))
		return
	}
	switch {
	case m.IsResponse():
		p.answered(l.b, &m)
	case m.IsNotification():
		p.noted(l.b, &m)
	default:
		p.request(l.b, &m)
	}
}

// tooLong deals with a message over the limit: a request is refused, and a
// question to which it was the answer fails.
func (p *pump) tooLong(err error) {
	f := fault.New(fault.TooLarge, "", "the message is larger than %d bytes", p.opts.MessageBytes).With("limit", p.opts.MessageBytes)
	long, _ := errors.AsType[*wire.TooLong](err)
	if long == nil || long.Method || long.ID == nil {
		if long == nil {
			long = &wire.TooLong{}
		}
		p.refuse(long.ID, false, f)
		return
	}
	p.answered(wire.AppendError(nil, long.ID, f.Wire(false)), &wire.Message{ID: long.ID})
}

// refuse answers what does not get to the hub.
func (p *pump) refuse(id []byte, modern bool, f *fault.Error) {
	p.tell(wire.AppendError(nil, id, f.Wire(modern)))
}

func isBatch(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '['
}

// answered takes the client's answer to a question. One to a hub that is gone
// is nobody's.
func (p *pump) answered(b []byte, m *wire.Message) {
	if p.questions[key(m.ID)] == nil {
		return
	}
	delete(p.questions, key(m.ID))
	if theirs := p.theirs(m.ID); theirs != nil {
		b = wire.Edit(nil, b, wire.Change{Name: "id", Value: theirs})
	}
	p.toHub.put(frame{b: b, response: true})
}

// noted takes a notification of the client.
func (p *pump) noted(b []byte, m *wire.Message) {
	switch m.Method {
	case noteInitialized:
		p.client.initialized = m.Params
		p.client.ready = true
	case noteCancelled:
		a := p.asked.find(m.Param("requestId"))
		if a == nil || a.method == "" || a.method == "initialize" {
			break
		}
		p.asked.remove(a)
		if a.state != onItsWay { // no hub is at work on it
			p.toHub.keep(func(f frame) bool { return f.asked != a })
			return
		}
	}
	p.toHub.put(frame{b: b})
}

// request takes a request of the client.
func (p *pump) request(b []byte, m *wire.Message) {
	modern := m.MetaValue(metaVersion) != nil
	if p.asked.find(m.ID) != nil {
		p.refuse(m.ID, modern, fault.New(fault.InvalidRequest, m.Method, "a request with the id %s is running already", m.ID))
		return
	}
	if m.Method == "ping" && p.link == nil {
		p.tell(wire.AppendResult(nil, m.ID, []byte("{}"))) // as in lost
		return
	}
	a := &asked{ids: [][]byte{m.ID}, b: b, method: m.Method, modern: modern}
	switch m.Method {
	case "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		a.params = m.Params
	case "subscriptions/listen":
		a.listen = modern
	case "tools/call":
		name, _ := wire.String(m.Param("name"))
		a.calls = []string{name}
	}
	p.asked.add(a)
	p.toHub.put(frame{b: b, asked: a})
	if p.alone != nil {
		p.answerAlone(a)
	}
}

// batch takes several messages in one frame, which are answered in one, too.
// One that the hub will refuse as a whole is answered to no id.
func (p *pump) batch(b []byte) {
	parts, ok := wire.Elements(b)
	if !ok || len(parts) == 0 || len(parts) > maxBatch {
		p.toHub.put(frame{b: b})
		return
	}
	a := &asked{b: b}
	for _, part := range parts {
		m := wire.Message{Depth: p.opts.Depth}
		if m.Scan(part, wire.FromClient) != nil || !m.IsRequest() || p.asked.find(m.ID) != nil {
			continue
		}
		a.ids = append(a.ids, m.ID)
		if m.Method == "tools/call" {
			name, _ := wire.String(m.Param("name"))
			a.calls = append(a.calls, name)
		}
	}
	if len(a.ids) == 0 {
		p.toHub.put(frame{b: b})
		return
	}
	p.asked.add(a)
	p.toHub.put(frame{b: b, asked: a})
	if p.alone != nil {
		p.answerAlone(a)
	}
}

// endListens answers the subscriptions of a client that has gone silent, as
// the hub does when it ends them.
func (p *pump) endListens() {
	for _, a := range p.asked.all() {
		if !a.listen {
			continue
		}
		p.asked.remove(a)
		if a.acked {
			p.tell(wire.AppendResult(nil, a.ids[0], tag(a, []byte(`{"resultType":"complete"}`))))
		}
	}
}

// tag marks params as belonging to a subscription.
func tag(a *asked, params []byte) []byte {
	meta := wire.EditFields(nil, nil, wire.Change{Name: metaSubscription, Value: a.ids[0]})
	return wire.Edit(nil, params, wire.Change{Name: "_meta", Value: meta})
}
