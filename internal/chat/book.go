package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/store"
)

// book writes the events of one conversation and lets them be read.
type book struct {
	ledger ledger
	id     string // of the conversation, for the log
	log    *slog.Logger
	taken  func(turn string) // told, with write held, of a turn that somebody else has ended; may be nil
	emit   func(Event)       // told every event in order, with write held; nil for none
	every  time.Duration     // how long text may be live only; 0: until something else happens
	crowd  *crowd            // all that speak; nil: nobody else does

	// write is held while an event is decided on and appended.
	write sync.Mutex
	timer *time.Timer // flushes the open part; guarded by write

	mu      sync.Mutex // guards what follows
	state   State
	place   uint64 // of the last event in the ledger
	ring    ring
	part    part
	notices []Event // live progress of running calls, by Offset: a number that grows
	notice  int
	readers []*reader
	over    error // why there will be no more events
}

// part is text that is not durable yet.
type part struct {
	kind Type
	turn string
	text []byte
	at   time.Time
	sent int // how much of it emit was told
}

const (
	partBytes = 4 << 10
	partEvery = 250 * time.Millisecond
	// partMost is how many times longer text may be live only while the store
	// is busy: larger parts are better than readers that wait for the disk.
	partMost  = 8
	partsOnce = 4 // parts that are written at once, of all conversations
	// atEase is how many models may speak at once before the text of all is
	// written less often: what it costs to write a part is far more than what
	// its words cost.
	atEase = 50
	tries  = 8
)

// crowd is what the conversations of a hub share of the store.
type crowd struct {
	speaking atomic.Int64  // models that speak
	gate     chan struct{} // has room where the store is not busy with text
}

func newCrowd() *crowd { return &crowd{gate: make(chan struct{}, partsOnce)} }

// pause is how long text may be live only, as many as speak now.
func (b *book) pause() time.Duration {
	if b.crowd == nil {
		return b.every
	}
	n := time.Duration(b.crowd.speaking.Load())
	return min(max(b.every, b.every*n/atEase), partMost*b.every)
}

// load reads what the ledger holds.
func (b *book) load(ctx context.Context) error {
	_, err := b.follow(ctx, func(*Event) bool { return false })
	return err
}

// follow takes in what the ledger has more than we know, and returns what of it
// is mine. Called with write held, or before anybody else knows b.
func (b *book) follow(ctx context.Context, mine func(*Event) bool) (found *Event, err error) {
	err = b.ledger.scan(ctx, b.place, func(ev *Event, place uint64) error {
		if mine(ev) {
			found = ev
			b.show(ev, place)
			return nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if err := b.state.Apply(ev); err != nil {
			return err
		}
		b.place = place
		b.ring.add(*ev, place)
		return nil
	})
	return found, err
}

// errTaken means that somebody else has ended the turn.
var errTaken = errors.New("the turn was ended by somebody else")

// record makes an event durable and shows it. Seq and Time are set.
func (b *book) record(ctx context.Context, ev *Event) error {
	b.write.Lock()
	defer b.write.Unlock()
	if err := b.flush(ctx); err != nil {
		return err
	}
	return b.append(ctx, ev)
}

// errDropped means that an input was taken back before its turn began.
var errDropped = errors.New("the input was taken back")

// begin records that a turn begins, if its input still waits.
func (b *book) begin(ctx context.Context, ev *Event) error {
	b.write.Lock()
	defer b.write.Unlock()
	waits := func(in Input) bool { return in.ID == ev.Start.Input }
	if !slices.ContainsFunc(b.state.Queue, waits) { // it changes with write held
		return errDropped
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	return b.append(ctx, ev)
}

// append is record with write held and no part open.
func (b *book) append(ctx context.Context, ev *Event) error {
	// Who goes away in the middle would leave it open whether it was written.
	ctx = context.WithoutCancel(ctx)
	var err error
	var sent []time.Time // when it was written down before, maybe in vain
	for range tries {
		b.mu.Lock()
		ev.Seq, ev.Time = b.state.Seq+1, time.Now().UTC()
		place, over := b.place, b.over
		running := b.state.Turn != nil && b.state.Turn.ID == ev.Turn
		b.mu.Unlock()
		if over != nil {
			return over
		}
		if ev.Turn != "" && !running && ev.Type != TurnStarted {
			if b.taken != nil {
				b.taken(ev.Turn)
			}
			return errTaken
		}
		b.name(ev)
		if place, err = b.ledger.append(ctx, ev, place); err == nil {
			b.show(ev, place)
			return nil
		}
		if _, conflict := errors.AsType[*store.Conflict](err); !conflict {
			return err
		}
		// An attempt that seemed to have failed may have been late only.
		sent = append(sent, ev.Time)
		found, err := b.follow(ctx, func(got *Event) bool {
			return got.Type == ev.Type && slices.ContainsFunc(sent, got.Time.Equal)
		})
		if found != nil {
			*ev = *found
		}
		if err != nil || found != nil {
			return err
		}
		b.wake()
	}
	return fmt.Errorf("note what happens in the conversation: %w", err)
}

// name gives what an event makes the name that its number stands for.
func (b *book) name(ev *Event) {
	switch ev.Type {
	case InputAdded:
		ev.Input.ID = fmt.Sprintf("i%d", ev.Seq)
	case TurnStarted:
		ev.Turn = fmt.Sprintf("t%d", ev.Seq)
	case CallMade:
		ev.Call.ID = fmt.Sprintf("c%d", ev.Seq)
	}
}

// show makes an event that is durable known.
func (b *book) show(ev *Event, place uint64) {
	b.mu.Lock()
	if err := b.state.Apply(ev); err != nil {
		b.log.Error("an event of a conversation cannot be used", obs.KeySession, obs.Short(b.id), "seq", ev.Seq, "err", err) // append numbers them, so it does not happen
	}
	b.place = place
	b.ring.add(*ev, place)
	seen := 0
	switch ev.Type {
	case TextPart, ReasoningPart: // it was the open part
		seen = b.part.sent
		b.part.text, b.part.sent = b.part.text[:0], 0
	case CallDone:
		b.settle(ev.Result.Call)
	case TurnEnded:
		b.part.text = nil
	}
	b.wakeLocked()
	b.mu.Unlock()
	if b.emit != nil {
		told := *ev
		told.Text, told.Offset = ev.Text[seen:], seen
		b.emit(told)
	}
}

// add takes in a piece of text of a turn. What it costs is what a delta costs:
// nothing is encoded, and nothing started but a timer with the first of a part.
func (b *book) add(ctx context.Context, turn string, kind Type, text string, opaque *llm.Opaque) error {
	b.write.Lock()
	defer b.write.Unlock()
	p := &b.part // changed with write and mu held, so read with either
	if len(p.text) > 0 && p.kind != kind {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	fresh := len(p.text) == 0 && text != ""
	b.mu.Lock()
	if fresh {
		p.kind, p.turn, p.at = kind, turn, time.Now()
	}
	p.text = append(p.text, text...)
	offset := p.sent
	if b.emit != nil {
		p.sent += len(text)
	}
	b.wakeLocked()
	b.mu.Unlock()
	if b.emit != nil && text != "" {
		b.emit(Event{Seq: b.state.Seq + 1, Time: p.at.UTC(), Type: kind, Turn: turn, Text: text, Offset: offset, Live: true})
	}
	switch {
	case opaque != nil:
		return b.close(ctx, turn, kind, opaque)
	case b.every == 0:
		return nil
	case len(p.text) >= partBytes:
		return b.flush(ctx)
	case fresh:
		b.wind(ctx)
	}
	return nil
}

// wind makes the open part be flushed in time. Called with write held.
func (b *book) wind(ctx context.Context) {
	if b.timer != nil {
		b.timer.Reset(b.pause())
		return
	}
	ctx = context.WithoutCancel(ctx)
	b.timer = time.AfterFunc(b.pause(), func() { b.late(ctx) })
}

// late flushes a part that was open for long enough.
func (b *book) late(ctx context.Context) {
	b.write.Lock()
	defer b.write.Unlock()
	if len(b.part.text) == 0 {
		return
	}
	age, pause := time.Since(b.part.at), b.pause()
	if age < pause/2 { // another part than the one it was set for
		b.timer.Reset(pause - age)
		return
	}
	if b.crowd != nil {
		select {
		case b.crowd.gate <- struct{}{}:
			defer func() { <-b.crowd.gate }()
		default:
			if age < partMost*b.every {
				b.timer.Reset(b.every / 2)
				return
			}
		}
	}
	if err := b.flush(ctx); err != nil && b.over == nil {
		b.log.Warn("text of a conversation could not be kept yet", obs.KeySession, obs.Short(b.id), "err", err)
		b.timer.Reset(b.every)
	}
}

// flush makes the open part durable. Called with write held.
func (b *book) flush(ctx context.Context) error {
	if len(b.part.text) == 0 {
		return nil
	}
	err := b.close(ctx, b.part.turn, b.part.kind, nil)
	if errors.Is(err, errTaken) { // nobody waits for the rest of that turn
		b.mu.Lock()
		b.part.text, b.part.sent = b.part.text[:0], 0
		b.mu.Unlock()
		return nil
	}
	return err
}

// close makes the open part durable, with what the provider wants back.
func (b *book) close(ctx context.Context, turn string, kind Type, opaque *llm.Opaque) error {
	return b.append(ctx, &Event{Type: kind, Turn: turn, Text: string(b.part.text), Opaque: opaque})
}

// say notes how far a call is. Only the latest of each call is kept.
func (b *book) say(turn string, p Progress) {
	b.mu.Lock()
	b.settle(p.Call)
	b.notice++
	ev := Event{Seq: b.state.Seq, Time: time.Now().UTC(), Type: CallProgress, Turn: turn, Offset: b.notice, Live: true, Progress: &p}
	b.notices = append(b.notices, ev)
	b.wakeLocked()
	b.mu.Unlock()
	if b.emit != nil {
		b.write.Lock()
		ev.Offset = 0
		b.emit(ev)
		b.write.Unlock()
	}
}

// settle forgets what was said of a call. Called with mu held.
func (b *book) settle(call string) {
	for i := range b.notices {
		if b.notices[i].Progress.Call == call {
			b.notices = append(b.notices[:i:i], b.notices[i+1:]...)
			return
		}
	}
}

// words returns what the model has said in the answer that is not whole yet, and
// whether it is words alone: then the same can be recognised if it comes again.
func (b *book) words() (text string, only bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.state.answer.Message.Parts {
		if p.Text == "" || p.Opaque != nil {
			return "", false
		}
		text += p.Text
	}
	if len(b.part.text) > 0 {
		if b.part.kind != TextPart {
			return "", false
		}
		text += string(b.part.text)
	}
	return text, true
}

// now returns the state as it is.
func (b *book) now() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.clone()
}

// finish says that nothing more will come.
func (b *book) finish(why error) {
	b.write.Lock()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Lock()
	if b.over == nil {
		b.over = why
	}
	b.wakeLocked()
	b.mu.Unlock()
	b.write.Unlock()
}

// idle stops the timer of a book that is put away.
func (b *book) idle() {
	b.write.Lock()
	defer b.write.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
}
