package chatws

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// ledger is what a client has been told. It takes every event once and in
// order, and every byte of a part once.
type ledger struct {
	at     place
	parts  map[uint64]string // texts by the number of their event
	events []string
	err    error
}

func (l *ledger) clone() *ledger {
	c := *l
	c.parts = maps.Clone(l.parts)
	c.events = append([]string(nil), l.events...)
	return &c
}

func (l *ledger) add(f said) {
	switch {
	case l.err != nil || f.Seq == 0: // no event
	case f.Seq != l.at.Seq+1:
		l.err = fmt.Errorf("after %v comes %s", l.at, f.raw)
	case f.Type == "text" || f.Type == "reasoning":
		text := f.get("content")
		if f.Offset != l.at.Offset || f.End != f.Offset+len(text) {
			l.err = fmt.Errorf("after %v comes %s", l.at, f.raw)
			return
		}
		l.parts[f.Seq] += text
		if l.at.Offset = f.End; f.Last {
			l.at = place{Seq: f.Seq}
			l.events = append(l.events, fmt.Sprintf("%d %s %q", f.Seq, f.Type, l.parts[f.Seq]))
		}
	default:
		l.at = place{Seq: f.Seq}
		l.events = append(l.events, fmt.Sprintf("%d %s %s", f.Seq, f.Type, f.Payload))
	}
}

func newLedger() *ledger { return &ledger{parts: map[uint64]string{}} }

// read takes what comes until the turn is over.
func (l *ledger) read(c *client) {
	for {
		f, err := c.try()
		if err != nil {
			l.err = fmt.Errorf("after %v: %w", l.at, err)
			return
		}
		l.add(f)
		if l.err != nil || f.Type == "turn.ended" {
			return
		}
	}
}

// story makes the model run a turn with everything in it, calling step after
// each thing it does.
func story(b *bench, step func()) {
	do := func(f func()) { f(); step() }
	for _, piece := range []string{"Let me ", "think"} {
		do(func() { b.thinks(piece) })
	}
	for _, piece := range []string{"I", "'ll ", "sear", "ch: né", "€uro ", "🙂", "."} {
		do(func() { b.says(piece) })
	}
	do(func() { b.calls("search_files", `{"query":"x"}`) })
	do(func() { b.calls("broken", `{}`) })
	do(func() { b.stops() })
	for _, piece := range []string{"Found ", "file1", ".txt"} {
		do(func() { b.says(piece) })
	}
	b.stops()
}

// Whoever is cut off, wherever, and comes back with the place it had reached,
// gets all the rest and nothing twice. Whoever comes back without a place gets
// a history, and what follows it.
func TestResumeAtEveryEvent(t *testing.T) {
	t.Run("memory", func(t *testing.T) { resumeEverywhere(t, nil) })
	t.Run("store", func(t *testing.T) { resumeEverywhere(t, storetest.Open(t, store.Options{})) })
}

func resumeEverywhere(t *testing.T, st *store.Store) {
	b := openOn(t, st, Options{Connections: 10_000})
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("Search")
	ref := newLedger()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var all []*ledger
	var texts []string
	back := func() { // from here, by place and by history
		l := ref.clone()
		all = append(all, l)
		d := b.dial(query("sessionId", "s", "after_seq", l.at.Seq, "offset", l.at.Offset), "")
		wg.Go(func() { l.read(d) })
		e := b.dial("sessionId=s", "")
		hello := e.find("connection")
		wg.Go(func() {
			text := told(t, hello)
			for {
				f, err := e.try()
				if err != nil {
					text = err.Error()
				} else if f.Type == "text" {
					text += f.get("content")
				}
				if err != nil || f.Type == "turn.ended" {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			texts = append(texts, text)
		})
	}
	story(b, func() {
		// The reference reads on until it has something new, so that each step
		// is a place of its own.
		for before := ref.at; ref.at == before && ref.err == nil; {
			ref.add(c.next())
			back()
		}
	})
	ref.read(c)
	wg.Wait()
	if ref.err != nil {
		t.Fatal(ref.err)
	}
	if len(all) < 12 {
		t.Fatalf("only %d places", len(all))
	}
	for _, l := range all {
		if l.err != nil {
			t.Error(l.err)
		} else if diff := cmp.Diff(ref.events, l.events); diff != "" {
			t.Error(diff)
		}
	}
	for _, text := range texts {
		if want := "I'll search: né€uro 🙂.Found file1.txt"; text != want {
			t.Errorf("%q", text)
		}
	}
}

// told is what the model has said by the history of a greeting.
func told(t *testing.T, hello said) string {
	var history []Message
	if raw := hello.get("history"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &history); err != nil {
			t.Error(err)
		}
	}
	text := ""
	for _, m := range history {
		if m.Role == "assistant" {
			text += m.Content
		}
	}
	return text
}

// The same for every byte of every part, by the socket's address, by a frame,
// and by Last-Event-ID.
func TestResumeAtEveryByte(t *testing.T) {
	b := open(t, Options{Connections: 10_000, Rate: 1e6, Burst: 1e6})
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("Search")
	ref := newLedger()
	story(b, func() {})
	ref.read(c)
	if ref.err != nil {
		t.Fatal(ref.err)
	}
	tries := 0
	for seq, text := range ref.parts {
		for offset := range len(text) + 1 {
			tries++
			start := offset // a character cannot be sent in halves
			for start < len(text) && start > 0 && !utf8.RuneStart(text[start]) {
				start--
			}
			want := text[start:]
			d := b.dial(query("sessionId", "s", "after_seq", seq-1, "offset", offset), "")
			d.find("connection")
			f := d.next()
			if f.Seq != seq || f.Offset != start && offset < len(text) || f.get("content") != want || !f.Last {
				t.Errorf("%d:%d: %s", seq, offset, f.raw)
			}
			d.send(fmt.Sprintf(`{"type":"resume","payload":{"after_seq":%d,"offset":%d}}`, seq-1, offset))
			d.find("ack")
			for f = d.next(); f.Seq != seq; f = d.next() {
			}
			if f.get("content") != want {
				t.Errorf("%d:%d: %s", seq, offset, f.raw)
			}
			d.ws.CloseNow()
			resp := b.post("/api/chat", `{"sessionId":"s"}`, "Last-Event-ID", place{seq - 1, offset}.String())
			if frames := events(t, resp); len(frames) < 3 || frames[1].get("content") != want || frames[len(frames)-1].Type != "turn.ended" {
				t.Errorf("%d:%d: %+v", seq, offset, frames)
			}
		}
	}
	if tries < 40 {
		t.Errorf("only %d places", tries)
	}
}

// Many readers come and go at any moment while the model speaks fast, so that
// parts become durable under their eyes.
func TestResumeWhileTextStreams(t *testing.T) {
	b := open(t, Options{Connections: 1000})
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("Speak")
	c.find("turn.started")
	const readers = 6
	var wg sync.WaitGroup
	ledgers := make([]*ledger, readers)
	for i := range readers {
		l := newLedger()
		ledgers[i] = l
		wg.Go(func() {
			for n := 0; l.err == nil; n++ {
				d := b.dial(query("sessionId", "s", "after_seq", l.at.Seq, "offset", l.at.Offset), "")
				for range 3 + (n*7+i*3)%11 {
					f, err := d.try()
					if err != nil {
						l.err = err
						return
					}
					if l.add(f); f.Type == "turn.ended" {
						return
					}
				}
				d.ws.CloseNow()
			}
		})
	}
	want := ""
	for i := range 400 {
		piece := fmt.Sprintf("<%d %s>", i, strings.Repeat("é", i%40))
		want += piece
		b.says(piece)
	}
	b.stops()
	wg.Wait()
	for _, l := range ledgers {
		if l.err != nil {
			t.Error(l.err)
			continue
		}
		text := ""
		for seq := uint64(1); seq <= l.at.Seq; seq++ {
			text += l.parts[seq]
		}
		if text != want {
			t.Errorf("%d bytes in place of %d", len(text), len(want))
		}
	}
}
