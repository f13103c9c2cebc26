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
	there bool      // it has an entry, and was not removed after it
	gone  time.Time // when it was removed, if it was
	left  bool      // the journal has let go of it: another may stand for its key

	heardMu sync.Mutex
	heard   []Entry // what others wrote, while somebody wrote here
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
	_, err := x.last(ctx)
	return x.State(), err
}

// last returns the last entry of the entity in the log, which is known when it
// returns, with all before it. It has no Seq if there is none.
func (x *Entity[S, E]) last(ctx context.Context) (Entry, error) {
	last, err := x.readLast(ctx)
	if err != nil {
		return last, err
	}
	x = x.home()
	x.mu.RLock()
	known := x.seq
	x.mu.RUnlock()
	if last.Seq == known {
		return last, nil
	}
	x = x.lock()
	defer x.unlock()
	if last.Seq < x.seq { // it was removed, or written here meanwhile: look again, now that it cannot be
		if last, err = x.readLast(ctx); err != nil {
			return last, err
		}
	}
	return last, x.catchUp(ctx, last.Seq)
}

func (x *Entity[S, E]) readLast(ctx context.Context) (Entry, error) {
	last, err := x.j.log.Last(ctx, x.j.subject(x.key))
	if errors.Is(err, ErrNotFound) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, fmt.Errorf("%s: read the latest: %w", x.key, err)
	}
	return last, nil
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
// again: ErrAgain says that the holder has to.
func (x *Entity[S, E]) Append(ctx context.Context, e *E, data []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return x.append(context.WithoutCancel(ctx), e, data)
}

// Replay calls fn with the events of the log from the one with a sequence on, for
// who holds the entity, up to what is known of it. Data is what belongs to an
// event, unless that is a blob. An entry that cannot be read is left out.
func (x *Entity[S, E]) Replay(ctx context.Context, from uint64, fn func(e *E, data []byte, at Place) error) error {
	return x.j.log.Scan(ctx, x.j.subject(x.key), from, func(entry Entry) error {
		if entry.Seq > x.seq || isTomb(entry) {
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
// and appends that. decide is asked again if somebody else was quicker; a nil
// event means that nothing happens. What has begun is brought to its end even if
// ctx ends: otherwise nobody would know whether it is there. It returns the
// event that was appended, and what is known after it.
func (x *Entity[S, E]) Commit(ctx context.Context, decide func(S) (*E, []byte, error)) (*E, S, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, x.State(), err
	}
	ctx = context.WithoutCancel(ctx)
	x = x.lock()
	defer x.unlock()
	for range tries {
		e, data, err := decide(x.state)
		if err != nil || e == nil {
			return nil, x.state, err
		}
		err = x.append(ctx, e, data)
		if err == nil {
			return e, x.state, nil
		}
		if !errors.Is(err, ErrAgain) {
			return nil, x.state, err
		}
	}
	return nil, x.state, fault.New(fault.Storage, x.key, "others wrote it each of the %d times that this was tried", tries).Because(ErrAgain)
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
		x.forget() // all that was known of was removed, and nobody told us
	}
	var look error
	if found, look = x.read(ctx, entry); look != nil {
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
	err = x.j.log.Scan(ctx, x.j.subject(x.key), x.seq+1, func(e Entry) error {
		found = found || mine != nil && bytes.Equal(e.Data, mine)
		x.apply(e)
		return nil
	})
	return found, err
}

// catchUp takes in what others wrote, of which last is the last entry. Called
// with write held.
func (x *Entity[S, E]) catchUp(ctx context.Context, last uint64) error {
	if last < x.seq {
		x.forget()
	}
	if last == x.seq {
		return nil
	}
	_, err := x.read(ctx, nil)
	return err
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
		x.buried(entry.Seq, entry.Time)
		return
	}
	e, _, blob, err := x.decode(entry.Data)
	if err == nil && e == nil {
		x.buried(entry.Seq, entry.Time)
		return
	}
	if err == nil {
		err = x.take(e, Place{Seq: entry.Seq, Blob: blob})
	}
	if err != nil {
		x.mu.Lock()
		x.seq, x.there = entry.Seq, true
		x.mu.Unlock()
		x.j.o.Logger.Error("an entry cannot be used and is skipped", "journal", x.j.kind.Subjects, "entity", x.key, "seq", entry.Seq, "err", err)
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
	if err != nil {
		return err
	}
	x.mu.Lock()
	tombAt := uint64(0)
	if !x.gone.IsZero() {
		tombAt = x.seq
	}
	x.state, x.seq, x.there, x.gone = next, at.Seq, true, time.Time{}
	x.mu.Unlock()
	if tombAt != 0 {
		spares = append(spares, Spare{Seq: tombAt})
	}
	x.j.spares.add(x.key, spares...)
	x.j.tell(x, e, at)
	return nil
}

// Remove removes the entity, unless unless says why it must stay. All that it
// held goes behind this.
func (x *Entity[S, E]) Remove(ctx context.Context, unless func(S) error) error {
	ctx = context.WithoutCancel(ctx)
	x = x.lock()
	defer x.unlock()
	for range tries {
		if !x.there {
			return nil
		}
		if unless != nil {
			if err := unless(x.state); err != nil {
				return err
			}
		}
		seq, err := x.j.log.Append(ctx, x.j.subject(x.key), tomb, x.seq)
		if err == nil {
			x.buried(seq, time.Now())
			return nil
		}
		if _, err = x.refused(ctx, tomb, err); err != nil && !errors.Is(err, ErrAgain) {
			return err
		}
	}
	return fault.New(fault.Storage, x.key, "others wrote it each of the %d times that this was tried", tries).Because(ErrAgain)
}

// buried makes the removal of an entity count, which is in the log.
func (x *Entity[S, E]) buried(seq uint64, at time.Time) {
	if x.there && x.j.kind.Blobs != nil {
		for _, blob := range x.j.kind.Blobs(x.state) {
			x.j.spares.add(x.key, Spare{Blob: blob})
		}
	}
	x.j.spares.addBefore(x.key, seq)
	x.mu.Lock()
	was := x.there
	x.state, x.seq, x.there, x.gone = x.j.kind.New(x.key), seq, false, at
	x.mu.Unlock()
	if was {
		x.j.tell(x, nil, Place{})
	}
}

// forget makes the entity one that never was: nothing of it is in the log.
func (x *Entity[S, E]) forget() {
	x.mu.Lock()
	was := x.there
	x.state, x.seq, x.there, x.gone = x.j.kind.New(x.key), 0, false, time.Time{}
	x.mu.Unlock()
	if was {
		x.j.tell(x, nil, Place{})
	}
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
	_, data, _, err := x.j.kind.Decode(entry.Data)
	return data, err
}
