package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
)

// book writes the events of one conversation and lets them be read.
type book struct {
	x     *entity // in the journal; nil: nothing is kept
	id    string  // of the conversation, for the log
	log   *slog.Logger
	emit  func(Event)   // told every event in order, with write held; nil for none
	every time.Duration // how long text may be live only; 0: until something else happens
	slow  time.Duration // after which a store is silent that does not say what became of a write
	crowd *crowd        // all that speak; nil: nobody else does

	// write is held while this hub decides on an event and appends it. What
	// others write comes from the journal, which calls with the entity locked:
	// only who locks the entity knows that nothing comes in between.
	write sync.Mutex
	timer *time.Timer // flushes the open part; guarded by write

	mu      sync.Mutex // guards what follows
	state   State
	place   uint64 // of the last event in the log
	own     *Event // the event that is being appended
	behind  bool   // what the log has must be read before anything else is taken in
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

// read takes in what the log has more than is known. Called with the entity
// locked.
func (b *book) read(ctx context.Context) error {
	b.mu.Lock()
	from := Position{Seq: b.state.Seq, place: b.place}
	b.mu.Unlock()
	if err := b.replay(ctx, from, func(ev *Event, place uint64) error {
		b.show(ev, place, false)
		return nil
	}); err != nil {
		return err
	}
	b.mu.Lock()
	b.behind = false
	b.mu.Unlock()
	return nil
}

// errTaken means that somebody else has ended the turn, or runs one.
var errTaken = errors.New("another hub answers this conversation now")

// record makes an event durable and shows it. Seq and Time are set.
func (b *book) record(ctx context.Context, ev *Event) error { return b.recordIf(ctx, ev, nil) }

// recordIf is record unless check says why not. It is asked with what is known
// when the event is appended, and may be asked again.
func (b *book) recordIf(ctx context.Context, ev *Event, check func(*State) error) error {
	b.write.Lock()
	defer b.write.Unlock()
	if err := b.flush(ctx); err != nil {
		return err
	}
	return b.append(ctx, ev, check)
}

// errDropped means that an input was taken back before its turn began.
var errDropped = errors.New("the input was taken back")

// begin records that a turn begins, if its input still waits.
func (b *book) begin(ctx context.Context, ev *Event) error {
	return b.recordIf(ctx, ev, func(now *State) error {
		switch {
		case !now.waits(ev.Start.Input):
			return errDropped
		case now.Turn != nil:
			return errTaken
		}
		return nil
	})
}

// append is recordIf with write held and no part open.
func (b *book) append(ctx context.Context, ev *Event, check func(*State) error) error {
	// Who goes away in the middle would leave it open whether it was written.
	ctx = context.WithoutCancel(ctx)
	ev.Time = time.Now().UTC() // tells it from others, also when it is sent again
	if b.x == nil {
		if err := b.number(ev, check); err != nil {
			return err
		}
		b.show(ev, ev.Seq, true)
		return nil
	}
	x := b.x.Lock()
	defer x.Unlock()
	defer b.expect(nil)
	var err error
	began := time.Now()
	for range tries {
		if err = b.current(ctx); err != nil {
			return err
		}
		if err = b.number(ev, check); err != nil {
			return err
		}
		en, data, bad := newEntry(ev)
		if bad != nil {
			return bad
		}
		b.expect(ev)
		err = x.Append(ctx, en, data)
		if b.landed() {
			return nil // maybe by an attempt that seemed to have failed, and was late only
		}
		unsure := errors.Is(err, journal.ErrUncertain)
		if !unsure && !errors.Is(err, journal.ErrAgain) {
			return err
		}
		if unsure && time.Since(began) >= b.slow {
			break // nobody else can do anything with the conversation meanwhile
		}
	}
	return fmt.Errorf("note what happens in the conversation: %w", err)
}

// current reads what could not be taken in as it came. Called with the entity
// locked.
func (b *book) current(ctx context.Context) error {
	b.mu.Lock()
	behind := b.behind
	b.mu.Unlock()
	if !behind {
		return nil
	}
	return b.read(ctx)
}

// number makes an event the next one, unless it must not follow.
func (b *book) number(ev *Event, check func(*State) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	running := b.state.Turn != nil && b.state.Turn.ID == ev.Turn
	switch {
	case b.over != nil:
		return b.over
	case ev.Turn != "" && !running && ev.Type != TurnStarted:
		return errTaken
	}
	if check != nil {
		if err := check(&b.state); err != nil {
			return err
		}
	}
	ev.Seq = b.state.Seq + 1
	name(ev)
	return nil
}

// expect says which event is being appended.
func (b *book) expect(ev *Event) {
	b.mu.Lock()
	b.own = ev
	b.mu.Unlock()
}

// landed reports whether the event that was expected is in the log.
func (b *book) landed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own == nil
}

// hear takes in an event that is in the log now, whoever wrote it. It returns
// it if another hub did and it is at hand; late says that the log has to be
// read. Called with the entity locked.
func (b *book) hear(en *entry, place journal.Place) (theirs *Event, late bool) {
	b.mu.Lock()
	own := b.own
	if own != nil && (own.Type != en.kind || !own.Time.Equal(en.time)) {
		own = nil
	}
	known, behind := b.state.Seq, b.behind
	b.mu.Unlock()
	ev := en.event
	switch {
	case en.seq <= known:
		return nil, false
	case own != nil:
		ev = own
		ev.Seq = en.seq
		name(ev)
	case ev == nil && place.Blob == "" && !behind:
		ev, _ = b.whole(context.Background(), b.x, en, place) // reads nothing
	}
	if behind || ev == nil || en.seq != known+1 {
		b.mu.Lock()
		b.behind = true
		if own != nil {
			b.own = nil
			b.written(ev)
		}
		b.mu.Unlock()
		return nil, !behind
	}
	b.show(ev, place.Seq, own != nil)
	if own != nil {
		return nil, false
	}
	return ev, false
}

// name gives what an event makes the name that its number stands for.
func name(ev *Event) {
	switch ev.Type {
	case InputAdded:
		ev.Input.ID = fmt.Sprintf("i%d", ev.Seq)
	case TurnStarted:
		ev.Turn = fmt.Sprintf("t%d", ev.Seq)
	case CallMade:
		ev.Call.ID = fmt.Sprintf("c%d", ev.Seq)
	}
}

// show makes an event that is durable known. own says that this book wrote it.
func (b *book) show(ev *Event, place uint64, own bool) {
	b.mu.Lock()
	if err := b.state.Apply(ev); err != nil {
		b.log.Error("an event of a conversation cannot be used", obs.KeySession, obs.Short(b.id), "seq", ev.Seq, "err", err) // number and replay see to it that it does not happen
	}
	b.place = place
	b.ring.add(*ev, place)
	seen := 0
	if own {
		b.own = nil
		seen = b.written(ev)
	}
	switch ev.Type {
	case CallDone:
		b.settle(ev.Result.Call)
	case TurnEnded:
		if own { // else write is not held; what is open is given up when it is flushed
			b.part.text = nil
		}
	}
	b.wake()
	b.mu.Unlock()
	if b.emit != nil {
		told := *ev
		told.Text, told.Offset = ev.Text[seen:], seen
		b.emit(told)
	}
}

// written closes the open part if that is what was written, and returns how much
// of it emit was told. Called with mu held.
func (b *book) written(ev *Event) (seen int) {
	if ev.Type == TextPart || ev.Type == ReasoningPart {
		seen = b.part.sent
		b.part.text, b.part.sent = b.part.text[:0], 0
	}
	return seen
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
	b.wake()
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
	if err := b.flush(ctx); err != nil && !b.isOver() {
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
	return b.append(ctx, &Event{Type: kind, Turn: turn, Text: string(b.part.text), Opaque: opaque}, nil)
}

// say notes how far a call is. Only the latest of each call is kept.
func (b *book) say(turn string, p Progress) {
	b.mu.Lock()
	b.settle(p.Call)
	b.notice++
	ev := Event{Seq: b.state.Seq, Time: time.Now().UTC(), Type: CallProgress, Turn: turn, Offset: b.notice, Live: true, Progress: &p}
	b.notices = append(b.notices, ev)
	b.wake()
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
	b.end(why)
	b.idle()
}

// end is finish for who must not wait for what is being written.
func (b *book) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over == nil {
		b.over = why
	}
	b.wake()
}

func (b *book) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over != nil
}

// idle stops the timer of a book that is put away.
func (b *book) idle() {
	b.write.Lock()
	defer b.write.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
}

// latest takes in what was in the log when it was called.
func (b *book) latest(ctx context.Context) error {
	if _, err := b.x.Latest(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	behind := b.behind
	b.mu.Unlock()
	if !behind {
		return nil
	}
	x := b.x.Lock()
	defer x.Unlock()
	return b.current(ctx)
}
