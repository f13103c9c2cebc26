package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// Entity is one of a journal's.
type Entity[S, E any] struct {
	j   *Journal[S, E]
	key string

	// write is held while an event is decided on and appended. Who holds it may
	// read what mu guards.
	write sync.Mutex

	mu    sync.RWMutex
	state S
	seq   uint64    // of the last entry; what the next append expects
	first uint64    // of the first entry that is not of one before it, which was removed
	there bool      // it has an entry, and was not removed after it
	gone  time.Time // when we learned that it was removed, if it was
	tomb  uint64    // the entry that says so
	left  bool      // the journal has let go of it: another may stand for its key
	later []Spare   // what can be removed once there is a later entry
	mine  uint64    // the last entry that was written here

	heardMu sync.Mutex
	heard   []Entry // what others wrote, while somebody wrote here
	deaf    bool    // the journal has let go of it: nothing is heard any more
}

// Key names the entity.
func (x *Entity[S, E]) Key() string { return x.key }

// home is the entity that stands for the key now.
func (x *Entity[S, E]) home() *Entity[S, E] {
	x.mu.RLock()
	left := x.left
	x.mu.RUnlock()
	if left {
		return x.j.make(x.key)
	}
	return x
}

// lock takes write of the entity that stands for the key.
func (x *Entity[S, E]) lock() *Entity[S, E] {
	for {
		x = x.home()
		x.write.Lock()
		if !x.left { // it changes with write held
			return x
		}
		x.write.Unlock()
	}
}

// There reports whether the entity is there: something happened to it, and it
// was not removed.
func (x *Entity[S, E]) There() bool {
	x = x.home()
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.there
}

// State is what is known here.
func (x *Entity[S, E]) State() S {
	x = x.home()
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.state
}

// Latest is State that knows all that was in the log when it was called,
// whoever wrote it.
func (x *Entity[S, E]) Latest(ctx context.Context) (S, error) {
	if x.j.o.Alone {
		return x.State(), nil
	}
	last, err := x.last(ctx)
	if err != nil {
		return x.State(), err
	}
	x = x.home()
	x.mu.RLock()
	s, known, there := x.state, x.seq, x.there
	x.mu.RUnlock()
	if last == known && there { // else it may be that its removal is just being told
		return s, nil
	}
	x = x.lock()
	defer x.unlock()
	err = x.catchUp(ctx, last)
	return x.state, err
}

// last asks the log for the last sequence of the entity, 0 if it has none.
func (x *Entity[S, E]) last(ctx context.Context) (uint64, error) {
	e, err := x.lastEntry(ctx)
	return e.Seq, err
}

// lastEntry asks the log for the last entry of the entity. It has no Seq if there
// is none.
func (x *Entity[S, E]) lastEntry(ctx context.Context) (Entry, error) {
	e, err := x.j.log.Last(ctx, x.j.subject(x.key))
	if errors.Is(err, ErrNotFound) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, fmt.Errorf("%s: read the latest: %w", x.key, err)
	}
	return e, nil
}

// refresh asks the log for what is not known yet, and reports whether there was
// anything. Called with write held.
func (x *Entity[S, E]) refresh(ctx context.Context) (changed bool, err error) {
	if x.j.o.Alone {
		return false, nil
	}
	known := x.seq
	last, err := x.last(ctx)
	if err == nil {
		err = x.catchUp(ctx, last)
	}
	return x.seq != known, err
}

// ErrAgain means that nothing was written since somebody else was quicker. What
// they wrote is known now: decide again.
var ErrAgain = errors.New("somebody else wrote at the same time")

// Lock holds the entity of the key, which it returns: until Unlock nothing
// happens to it but what the holder does, also not what others have written
// meanwhile. A holder may call Now, Append and Replay, and what only reads the
// log; all else would wait for itself.
func (x *Entity[S, E]) Lock() *Entity[S, E] { return x.lock() }

// Unlock lets go of an entity, and takes in what was heard meanwhile.
func (x *Entity[S, E]) Unlock() { x.unlock() }

// Now is what is known to who holds the entity.
func (x *Entity[S, E]) Now() S { return x.state }

// Append is Commit of one event for who holds the entity. It does not decide
// again: ErrAgain says that the holder has to. Before the next event the holder
// has to anyway: where an answer was lost, what others have written after the
// event is known, too, when this returns.
func (x *Entity[S, E]) Append(ctx context.Context, e *E, data []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return x.append(context.WithoutCancel(ctx), e, data)
}

// Appended is the sequence of the event that the holder has appended last.
func (x *Entity[S, E]) Appended() uint64 { return x.mine }

// Replay calls fn with the events of the log from the one with a sequence on, up
// to what is known of the entity as it begins. Data is what belongs to an event,
// unless that is a blob. An entry that cannot be read is left out. It need not be
// held; then what is removed meanwhile is left out too.
func (x *Entity[S, E]) Replay(ctx context.Context, from uint64, fn func(e *E, data []byte, at Place) error) error {
	x = x.home()
	x.mu.RLock()
	there, first, last := x.there, x.first, x.seq
	x.mu.RUnlock()
	if !there || from > last {
		return nil
	}
	return x.j.log.Scan(ctx, x.j.subject(x.key), max(from, first), func(entry Entry) error {
		if entry.Seq > last || isTomb(entry) {
			return nil
		}
		e, data, blob, err := x.decode(entry.Data)
		if err != nil {
			return nil // it was told when it was read first
		}
		if e == nil {
			return nil
		}
		return fn(e, data, Place{Seq: entry.Seq, Blob: blob})
	})
}

func (x *Entity[S, E]) decode(entry []byte) (e *E, data []byte, blob string, err error) {
	err = guarded(func() (err error) {
		e, data, blob, err = x.j.kind.Decode(entry)
		return err
	})
	return e, data, blob, err
}

// tries is how often it is decided anew when others write the same entity.
const tries = 16

// Commit has decide say what happens to the entity in the state that it is in,
// and appends that. decide is asked again if somebody else was quicker, and
// before it refuses for good if what it went by was not the latest. A nil event
// means that nothing happens; that is taken at its word, so a decide for which
// it matters is called after Latest. What has begun is brought to its end even
// if ctx ends: otherwise nobody would know whether it is there. It returns the
// event that was appended, and what is known after it.
func (x *Entity[S, E]) Commit(ctx context.Context, decide func(S) (*E, []byte, error)) (*E, S, error) {
	e, s, _, err := x.commit(ctx, decide)
	return e, s, err
}

// commit is Commit that also returns the sequence of the event.
func (x *Entity[S, E]) commit(ctx context.Context, decide func(S) (*E, []byte, error)) (*E, S, uint64, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, x.State(), 0, err
	}
	ctx = context.WithoutCancel(ctx)
	x = x.lock()
	defer x.unlock()
	latest := x.j.o.Alone
	for range tries {
		e, data, err := decide(x.state)
		if err != nil && !latest {
			changed, look := x.refresh(ctx)
			if look != nil {
				return nil, x.state, 0, look
			}
			latest = true
			if changed {
				continue
			}
		}
		if err != nil || e == nil {
			return nil, x.state, 0, err
		}
		err = x.append(ctx, e, data)
		if err == nil {
			return e, x.state, x.mine, nil
		}
		if !errors.Is(err, ErrAgain) {
			return nil, x.state, 0, err
		}
	}
	return nil, x.state, 0, x.overtaken()
}

// append writes one event: first to the log, then to memory, then it is told.
// Called with write held.
func (x *Entity[S, E]) append(ctx context.Context, e *E, data []byte) error {
	entry, blob, err := x.encode(ctx, e, data)
	if err != nil {
		return err
	}
	// What cannot follow must not be written.
	if err := x.check(e, Place{Seq: x.seq + 1, Blob: blob}); err != nil {
		x.discard(blob)
		return err
	}
	seq, err := x.j.log.Append(ctx, x.j.subject(x.key), entry, x.seq)
	if err == nil {
		x.mine = seq
		return x.take(e, Place{Seq: seq, Blob: blob})
	}
	found, err := x.refused(ctx, entry, err)
	if !found && !errors.Is(err, ErrUncertain) {
		x.discard(blob)
	}
	return err
}

// salt is behind the data of a blob, so that no two entries share one and it can
// go when its entry goes. The mark at the end of its name says so.
const (
	saltSize = 16
	salted   = "~"
)

// encode makes an entry that fits, with the data in a blob if need be.
func (x *Entity[S, E]) encode(ctx context.Context, e *E, data []byte) (entry []byte, blob string, err error) {
	most := x.j.kind.Inline
	if most == 0 || len(data) <= most {
		if entry, err = x.j.kind.Encode(e, data, ""); err != nil {
			return nil, "", err
		}
		if len(entry) <= MaxEntry || len(data) == 0 {
			return entry, "", nil
		}
	}
	if x.j.blobs == nil {
		return nil, "", fault.New(fault.Limit, x.key, "%d bytes are more than the %d of one entry", len(data), MaxEntry)
	}
	salt := rand.Text()[:saltSize]
	hash, err := x.j.blobs.Put(ctx, x.key, append(data[:len(data):len(data)], salt...))
	if err != nil {
		return nil, "", err
	}
	blob = hash + salted
	if entry, err = x.j.kind.Encode(e, nil, blob); err != nil {
		x.discard(blob)
	}
	return entry, blob, err
}

// discard has a blob removed that no entry needs.
func (x *Entity[S, E]) discard(blob string) {
	if blob != "" {
		x.j.spares.add(x.key, Spare{Blob: blob})
	}
}

// refused finds out what became of an entry that was not acknowledged. found
// says that it is there after all.
func (x *Entity[S, E]) refused(ctx context.Context, entry []byte, err error) (found bool, _ error) {
	conflict, isConflict := errors.AsType[*Conflict](err)
	if !isConflict && !errors.Is(err, ErrUncertain) {
		return false, err
	}
	if isConflict && conflict.Last < x.seq {
		x.lost()
	}
	mine := entry
	if isConflict && !conflict.Unsure {
		mine = nil // it was refused: one that is like it is another's
	}
	var look error
	if found, look = x.read(ctx, mine); look != nil {
		return found, errors.Join(err, look)
	}
	switch {
	case found:
		return true, nil
	case isConflict:
		return false, ErrAgain
	}
	return false, err
}

// read takes in what the log has of the entity that is not known, and reports
// whether mine is among it. Called with write held.
func (x *Entity[S, E]) read(ctx context.Context, mine []byte) (found bool, err error) {
	from, unsure := x.seq+1, x.seq != 0 && x.j.outOfTouch()
	if unsure {
		from = 0
	}
	err = x.j.log.Scan(ctx, x.j.subject(x.key), from, func(e Entry) error {
		if unsure && e.Seq > x.seq {
			x.forget() // of all that was known nothing is left: see outOfTouch
		}
		unsure = false
		if mine != nil && bytes.Equal(e.Data, mine) {
			found, x.mine = true, e.Seq
		}
		x.apply(e)
		return nil
	})
	return found, err
}

// catchUp takes in what others wrote, of which last is the last entry. Called
// with write held.
func (x *Entity[S, E]) catchUp(ctx context.Context, last uint64) (err error) {
	if last < x.seq {
		// More may have been written since the log was asked. Nothing is now.
		if last, err = x.last(ctx); err != nil {
			return err
		}
	}
	for range tries {
		if last < x.seq {
			x.lost()
		}
		if last == x.seq {
			return nil
		}
		if _, err = x.read(ctx, nil); err != nil {
			return err
		}
		// What was written while it was read may have made spare what was not read
		// yet, and then only that says so.
		if last, err = x.last(ctx); err != nil {
			return err
		}
	}
	return x.overtaken()
}

// overtaken is the fault for what others write faster than it can be read.
func (x *Entity[S, E]) overtaken() error {
	return fault.New(fault.Storage, x.key, "others wrote it each of the %d times that this was tried", tries).Because(ErrAgain)
}

// lost takes note that what is known of the entity is not in the log any more.
// Either it was removed and we were not told, or the log has begun anew: the
// last entry of an entity is never removed but with the entity. Called with
// write held.
func (x *Entity[S, E]) lost() {
	if x.there && !x.j.outOfTouch() {
		x.j.doubt()
	}
	x.forget()
}

// tomb is the entry of an entity's removal.
var tomb = []byte("\x00removed")

func isTomb(e Entry) bool { return bytes.Equal(e.Data, tomb) }

// apply makes an entry that is in the log count. Called with write held, or
// before anybody else knows the entity.
func (x *Entity[S, E]) apply(entry Entry) {
	if entry.Seq <= x.seq {
		return
	}
	if isTomb(entry) {
		x.buried(entry.Seq)
		return
	}
	e, _, blob, err := x.decode(entry.Data)
	if err == nil && e == nil {
		x.buried(entry.Seq)
		return
	}
	if err == nil {
		err = x.take(e, Place{Seq: entry.Seq, Blob: blob})
	}
	if err != nil {
		x.mu.Lock()
		if !x.there {
			x.first = entry.Seq
		}
		x.seq, x.there = entry.Seq, true
		x.above()
		x.mu.Unlock()
		x.release(nil)
		x.j.skipped(x.key, entry.Seq, err)
	}
}

// next is what is known after an event. Called with write held.
func (x *Entity[S, E]) next(e *E, at Place) (s S, spares []Spare, err error) {
	from := x.state
	if !x.there {
		from = x.j.kind.New(x.key)
	}
	err = guarded(func() error {
		s, spares, err = x.j.kind.Apply(from, e, at)
		return err
	})
	return s, spares, err
}

// check says why an event cannot follow. Called with write held.
func (x *Entity[S, E]) check(e *E, at Place) error {
	if x.j.kind.Check == nil {
		_, _, err := x.next(e, at)
		return err
	}
	s := x.state
	if !x.there {
		s = x.j.kind.New(x.key)
	}
	return guarded(func() error { return x.j.kind.Check(s, e) })
}

// take makes an event count that is in the log. Called with write held.
func (x *Entity[S, E]) take(e *E, at Place) error {
	next, spares, err := x.next(e, at)
	if _, ok := errors.AsType[*Unknown](err); ok {
		x.j.skipped(x.key, at.Seq, err)
	} else if err != nil {
		return err
	}
	x.mu.Lock()
	if !x.there {
		x.first = at.Seq
	}
	x.state, x.seq, x.there = next, at.Seq, true
	x.above()
	x.mu.Unlock()
	x.release(spares)
	x.j.tell(x, e, at)
	return nil
}

// above takes note that there is an entry after the entity's tomb. The tomb
// stays for as long as any other: who has not read it would go on from what was
// removed. Called with write and mu held.
func (x *Entity[S, E]) above() {
	if x.tomb != 0 {
		x.j.spares.addTomb(tombstone{key: x.key, seq: x.tomb, at: x.gone})
		x.tomb, x.gone = 0, time.Time{}
	}
}

// release has removed what is needed no longer. An entity's last entry has to
// wait for the next, which expects it. Called with write held.
func (x *Entity[S, E]) release(spares []Spare) {
	all := append(x.later, spares...)
	x.later = nil
	for i, sp := range all {
		if sp.Seq == x.seq {
			x.later = all[i:]
			all = all[:i]
			break
		}
	}
	x.j.spares.add(x.key, all...)
}

// Remove removes the entity, unless unless says why it must stay. All that it
// held goes behind this.
func (x *Entity[S, E]) Remove(ctx context.Context, unless func(S) error) error {
	ctx = context.WithoutCancel(ctx)
	x = x.lock()
	defer x.unlock()
	latest := x.j.o.Alone
	for range tries {
		var err error
		if x.there && unless != nil {
			err = unless(x.state)
		}
		if err != nil || !x.there {
			if latest {
				return err
			}
			changed, look := x.refresh(ctx)
			if look != nil {
				return look
			}
			if latest = true; !changed {
				return err
			}
			continue
		}
		seq, err := x.j.log.Append(ctx, x.j.subject(x.key), tomb, x.seq)
		if err == nil {
			x.buried(seq)
			return nil
		}
		found, err := x.refused(ctx, tomb, err)
		if found || err != nil && !errors.Is(err, ErrAgain) {
			return err
		}
	}
	return x.overtaken()
}

// buried makes the removal of an entity count, which is in the log.
func (x *Entity[S, E]) buried(seq uint64) {
	if x.there && x.j.kind.Blobs != nil {
		for _, blob := range x.j.kind.Blobs(x.state) {
			x.j.spares.add(x.key, Spare{Blob: blob})
		}
	}
	for _, sp := range x.later {
		x.j.spares.add(x.key, Spare{Blob: sp.Blob})
	}
	x.j.spares.addBefore(x.key, seq)
	// Others may be slower than we are, and clocks differ: the time in which they
	// can read it begins when we did.
	x.leave(seq, x.j.o.now())
}

// forget makes the entity one that never was: nothing of it is in the log.
func (x *Entity[S, E]) forget() { x.leave(0, time.Time{}) }

// leave makes the entity one that is not there. Who is told of it finds in State
// what was removed.
func (x *Entity[S, E]) leave(seq uint64, gone time.Time) {
	x.mu.Lock()
	was := x.there
	x.seq, x.there, x.gone, x.tomb, x.later = seq, false, gone, seq, nil
	x.mu.Unlock()
	if was {
		x.j.tell(x, nil, Place{})
	}
	x.mu.Lock()
	x.state = x.j.kind.New(x.key)
	x.mu.Unlock()
}

// Data reads the data of an event that is still needed.
func (x *Entity[S, E]) Data(ctx context.Context, at Place) ([]byte, error) {
	if hash, ok := strings.CutSuffix(at.Blob, salted); at.Blob != "" {
		b, err := x.j.blobs.Get(ctx, x.key, hash)
		if err != nil {
			return nil, fmt.Errorf("%s: read its data: %w", x.key, err)
		}
		if ok {
			b = b[:max(0, len(b)-saltSize)]
		}
		return b, nil
	}
	entry, err := x.j.log.Read(ctx, at.Seq)
	if err != nil {
		return nil, fmt.Errorf("%s: read its data: %w", x.key, err)
	}
	if entry.Subject != x.j.subject(x.key) { // the log was wiped, and counts anew
		return nil, fmt.Errorf("%s: read its data: entry %d is another's: %w", x.key, at.Seq, ErrNotFound)
	}
	_, data, _, err := x.j.kind.Decode(entry.Data)
	return data, err
}
