package chatws

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
)

// pulled is how many events are taken at once: what a slow client was not given
// yet stays where it is, once for all.
const pulled = 64

// piece is one frame of a conversation.
type piece struct {
	event *chat.Event
	frame []byte
	after place // where a client is that has it; only if known
	known bool
}

// place is how far a client has come: it has all of the events up to Seq, and
// Offset bytes of the text of the next.
type place struct {
	Seq    uint64
	Offset int
}

func (p place) String() string {
	if p.Offset == 0 {
		return strconv.FormatUint(p.Seq, 10)
	}
	return fmt.Sprintf("%d:%d", p.Seq, p.Offset)
}

// parsePlace reads what String made of a place.
func parsePlace(text string) (place, error) {
	seq, offset, partial := strings.Cut(text, ":")
	n, err := strconv.ParseUint(seq, 10, 53)
	p := place{Seq: n}
	if err == nil && partial {
		var m uint64
		m, err = strconv.ParseUint(offset, 10, 31)
		p.Offset = int(m)
	}
	if err != nil {
		return place{}, fault.New(fault.InvalidParams, "Last-Event-ID", "%q is no place in a conversation such as 12 or 12:340", clip(text))
	}
	return p, nil
}

// pull waits for what follows pos and renders it.
func (r *restater) pull(ctx context.Context, conv *chat.Conversation, pos chat.Position) ([]piece, chat.Position, error) {
	events, next, err := conv.Next(ctx, pos, pulled)
	if err != nil {
		return nil, pos, err
	}
	// Who counts other than bytes may come back in the middle of a character,
	// which cannot be sent in halves.
	for len(events) > 0 && pos.Offset > 0 && events[0].Text != "" && events[0].Offset == pos.Offset && !utf8.RuneStart(events[0].Text[0]) {
		pos.Offset--
		if events, next, err = conv.Next(ctx, pos, pulled); err != nil {
			return nil, pos, err
		}
	}
	var out []piece
	for i := range events {
		e := &events[i]
		offset := 0
		if i == 0 && e.Seq == pos.Seq+1 {
			offset = pos.Offset
		}
		for _, f := range r.frames(e, offset) {
			out = append(out, piece{event: e, frame: f})
		}
		last := &out[len(out)-1]
		switch {
		case !e.Live:
			last.after, last.known = place{Seq: e.Seq}, true
			if n := len(out) - 2; n >= 0 && out[n].event == e && e.Type == chat.TurnEnded { // its first half
				out[n].after, out[n].known = place{e.Seq - 1, len(e.End.Text)}, true
			}
		case e.Type == chat.TextPart || e.Type == chat.ReasoningPart:
			last.after, last.known = place{e.Seq - 1, e.Offset + len(e.Text)}, true
		}
	}
	return out, next, nil
}
