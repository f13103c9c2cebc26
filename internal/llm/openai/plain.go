package openai

import "github.com/stoahub/stoa/internal/wire"

// plainText returns the text of an event that holds nothing else, as nearly all
// events of an answer do. It is there for its speed: reading such an event as a
// whole takes several times as long. Whatever is unusual is not ok.
func plainText(event []byte) (text string, ok bool) {
	p := plain{event: event}
	if err := wire.Walk(event, p.enter, nil); err != nil || p.odd || p.content == nil {
		return "", false
	}
	return wire.String(p.content)
}

// plain is a walk through an event: into the only choice and its delta.
type plain struct {
	event, content []byte
	odd            bool
}

func (p *plain) enter(n wire.Node) wire.Next {
	into := false
	switch n.Depth {
	case 0:
		into = n.Kind == '{'
		p.odd = !into
	case 1:
		switch string(n.Name) {
		case "choices":
			into = n.Kind == '['
		case "usage", "error":
			p.odd = n.Kind != 'n'
		}
	case 2:
		into = n.Index == 0 && n.Kind == '{'
		p.odd = !into
	case 3:
		switch string(n.Name) {
		case "delta":
			into = n.Kind == '{'
		case "finish_reason":
			p.odd = n.Kind != 'n'
		}
	case 4:
		switch {
		case string(n.Name) == "content" && n.Kind == '"' && p.content == nil:
			p.content = p.event[n.Start:n.End]
		case n.Kind == 'n', string(n.Name) == "role":
		default:
			p.odd = true
		}
	}
	switch {
	case p.odd:
		return wire.Stop
	case into:
		return wire.Into
	}
	return wire.Over
}
