package attach

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// fromHub takes one frame of the hub.
func (p *pump) fromHub(b []byte) {
	if isBatch(b) {
		p.batchAnswered(b)
		return
	}
	var m wire.Message
	if err := m.Scan(b, wire.FromUpstream); err != nil {
		p.log.Warn("hub sent what is no message", "err", err)
		return
	}
	switch {
	case m.IsResponse():
		p.response(b, &m)
	case m.IsRequest():
		p.tell(p.question(b, &m))
	default:
		p.note(b, &m)
	}
}

// response hands an answer to the client, if that has not been answered yet.
func (p *pump) response(b []byte, m *wire.Message) {
	id := string(m.ID)
	if f := p.own[id]; f != nil {
		delete(p.own, id)
		f(m)
		return
	}
	if id == "" || id == "null" {
		p.tell(b)
		return
	}
	a := p.asked.find(m.ID)
	switch {
	case a == nil:
		return // it was cancelled
	case a.listen && a.acked && m.Result != nil && !empty(&a.filter):
		return // the hub is stopping; the next one is asked again
	}
	if m.Error != nil && a.method != "" && isGivenUp(m.Error) {
		a.held = b
		if p.holding == nil {
			p.holding = time.After(holdTime)
		}
		return
	}
	p.asked.remove(a)
	p.backoff.Reset()
	if m.Result != nil {
		p.client.learn(a, m.Result)
	}
	p.tell(b)
}

// holdTime is longer than a hub takes to stop after it has given up requests.
const holdTime = 15 * time.Second

// isGivenUp reports whether a hub has cancelled a request that the client has
// not: it is about to go, and the next one may do better.
func isGivenUp(object []byte) bool {
	kind, _ := wire.String(wire.Get(wire.Get(object, "data"), "kind"))
	return kind == fault.Cancelled.String()
}

// unhold hands out what was held, since the hub goes on after all.
func (p *pump) unhold() {
	p.holding = nil
	for _, a := range p.asked.all() {
		if a.held != nil {
			p.asked.remove(a)
			p.tell(a.held)
		}
	}
}

func empty(f *mcp.Filter) bool {
	return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0
}

// batchAnswered hands the answers to a batch to the client.
func (p *pump) batchAnswered(b []byte) {
	parts, _ := wire.Elements(b)
	for _, part := range parts {
		if a := p.asked.find(wire.Get(part, "id")); a != nil {
			p.asked.remove(a)
		}
	}
	p.tell(b)
}

// question registers a request of the hub. Every link numbers its questions
// from one, so those of later links get names of their own: an answer to a hub
// that is gone must not be taken for one to the next.
func (p *pump) question(b []byte, m *wire.Message) []byte {
	ours := m.ID
	if p.number > 1 {
		ours = p.ours(m.ID)
		b = wire.Edit(nil, b, wire.Change{Name: "id", Value: ours})
	}
	p.questions[key(ours)] = ours
	return b
}

// ours is the id that the client knows for that of a question.
func (p *pump) ours(id []byte) []byte { return wire.Quote(p.prefix() + string(id)) }

// theirs is the opposite; nil if the id is the hub's own.
func (p *pump) theirs(id []byte) []byte {
	text, ok := wire.String(id)
	if theirs, cut := strings.CutPrefix(text, p.prefix()); ok && cut && p.number > 1 {
		return []byte(theirs)
	}
	return nil
}

func (p *pump) prefix() string { return "stoa-link-" + strconv.Itoa(p.number) + "/" }

// note hands a notification of the hub to the client.
func (p *pump) note(b []byte, m *wire.Message) {
	switch m.Method {
	case noteAcknowledged:
		a := p.asked.find(wire.Get(m.Param("_meta"), metaSubscription))
		if a == nil || !a.listen {
			break
		}
		a.filter = mcp.Filter{}
		_ = json.Unmarshal(m.Param("notifications"), &a.filter) // what is not understood was not asked for
		if a.acked {
			p.remind(a)
			return
		}
		a.acked = true
	case noteCancelled:
		id := m.Param("requestId")
		if p.number > 1 && id != nil {
			params := wire.Edit(nil, m.Params, wire.Change{Name: "requestId", Value: p.ours(id)})
			id, b = p.ours(id), wire.Edit(nil, b, wire.Change{Name: "params", Value: params})
		}
		delete(p.questions, key(id))
	}
	p.tell(b)
}

// remind tells a subscription that what it follows may have changed while
// there was no hub.
func (p *pump) remind(a *asked) {
	for _, method := range []string{mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged} {
		if a.filter.Wants(method) {
			p.tell(wire.AppendRequest(nil, nil, method, tag(a, nil)))
		}
	}
	for _, uri := range a.filter.URIs {
		params := wire.EditFields(nil, nil, wire.Change{Name: "uri", Value: wire.Quote(uri)})
		p.tell(wire.AppendRequest(nil, nil, mcp.NoteResourceUpdated, tag(a, params)))
	}
}
