package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Values keeps the latest value of each key. It is a journal whose events are
// whole values: each replaces the one before it, whose entry is removed then.
// What a journal promises of entities holds for them.
type Values[V any] struct {
	j    *Journal[Value[V], []byte]
	o    ValuesOptions[V]
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// ValuesOptions describe the values.
type ValuesOptions[V any] struct {
	Options
	// Subjects are those of the keys, with * or > for the key.
	Subjects string
	// Decode returns what memory keeps of the data of a value. If it fails, the
	// value stays in the log, and those who ask for it are told why. A value that
	// only a later release can read is an *Unknown.
	Decode func(data []byte) (V, error)
	// Expired reports whether a value has ended by itself: then it is not there,
	// and is removed before long. Optional.
	Expired func(v V, now time.Time) bool
	// Changed is called after a value was put or removed, here or elsewhere, in the
	// order of the changes of its key, with nil if it is not there any more or cannot
	// be read. It must not block, nor write. Optional.
	Changed func(key string, now *V)
}

// Value is what is known of a value.
type Value[V any] struct {
	V   V
	Rev uint64 // of its entry: each put has a larger one
	err error  // why it cannot be read
}

// OpenValues reads the values that a log holds, and follows what others write to
// it. Close ends that; the log stays open.
func OpenValues[V any](ctx context.Context, log Log, o ValuesOptions[V]) (*Values[V], error) {
	v := &Values[V]{o: o}
	kind := Kind[Value[V], []byte]{
		Subjects: o.Subjects,
		New:      func(string) Value[V] { return Value[V]{} },
		Encode:   func(_ *[]byte, data []byte, _ string) ([]byte, error) { return data, nil },
		Decode: func(entry []byte) (*[]byte, []byte, string, error) {
			if len(entry) == 0 { // a bucket's note that the key was deleted, or has expired
				return nil, nil, "", nil
			}
			return &entry, entry, "", nil
		},
		Apply: func(old Value[V], data *[]byte, at Place) (Value[V], []Spare, error) {
			next := Value[V]{Rev: at.Seq}
			next.V, next.err = o.Decode(*data)
			var spares []Spare
			if old.Rev != 0 {
				spares = []Spare{{Seq: old.Rev}}
			}
			if later, ok := errors.AsType[*Unknown](next.err); ok {
				return next, spares, later
			}
			return next, spares, nil
		},
	}
	if o.Changed != nil {
		kind.Changed = func(x *Entity[Value[V], []byte], e *[]byte, _ Place) {
			if e == nil {
				o.Changed(x.key, nil)
				return
			}
			if s, err := v.of(x.key, x.State()); err == nil {
				o.Changed(x.key, &s.V)
				return
			}
			o.Changed(x.key, nil)
		}
	}
	var err error
	if v.j, err = Open(ctx, log, nil, kind, o.Options); err != nil {
		return nil, err
	}
	v.j.Follow()
	if o.Expired != nil {
		ctx, v.stop = context.WithCancel(context.Background())
		v.wg.Go(func() { v.expire(ctx) })
	}
	return v, nil
}

// Close ends what goes on behind those who write.
func (v *Values[V]) Close() {
	if v.stop != nil {
		v.stop()
		v.wg.Wait()
	}
	v.j.Close()
}

// of returns the value of a state.
func (v *Values[V]) of(key string, s Value[V]) (Value[V], error) {
	switch {
	case s.Rev == 0 || s.err == nil && v.o.Expired != nil && v.o.Expired(s.V, time.Now()):
		return Value[V]{}, fmt.Errorf("read %s: %w", key, ErrNotFound)
	case s.err != nil:
		return Value[V]{}, fmt.Errorf("read %s: %w", key, s.err)
	}
	return s, nil
}

// Get returns the value of a key as it is known here, or ErrNotFound.
func (v *Values[V]) Get(key string) (Value[V], error) {
	x := v.j.Get(key)
	if x == nil {
		return v.of(key, Value[V]{})
	}
	return v.of(key, x.State())
}

// Latest is Get that knows all that was in the log when it was called, whoever
// wrote it.
func (v *Values[V]) Latest(ctx context.Context, key string) (Value[V], error) {
	if v.j.o.Alone {
		return v.Get(key)
	}
	s, err := v.j.At(key).Latest(ctx)
	if err != nil {
		return Value[V]{}, err
	}
	return v.of(key, s)
}

// Read returns the data of the latest value of a key and its revision, or
// ErrNotFound.
func (v *Values[V]) Read(ctx context.Context, key string) ([]byte, uint64, error) {
	last, err := v.j.At(key).lastEntry(ctx)
	if err == nil && (len(last.Data) == 0 || isTomb(last)) {
		_, err = v.of(key, Value[V]{})
	}
	if err != nil {
		return nil, 0, err
	}
	return last.Data, last.Seq, nil
}

// CatchUp takes in all that was in the log when it was called, so that what is
// known of the keys is the latest. A removal that nobody followed for as long as
// it is kept (Options.TombLife) is found by Latest alone.
func (v *Values[V]) CatchUp(ctx context.Context) error { return v.j.Current(ctx, v.j.o.now()) }

// Current is CatchUp with what was in the log at a moment: it asks the log only
// if what is known is older than that.
func (v *Values[V]) Current(ctx context.Context, since time.Time) error {
	return v.j.Current(ctx, since)
}

// Known is a moment at which all that was in the log is known here.
func (v *Values[V]) Known() time.Time { return v.j.Known() }

// All are the values that are known here and can be read, in no order.
func (v *Values[V]) All() iter.Seq2[string, Value[V]] {
	return func(yield func(string, Value[V]) bool) {
		var all []*Entity[Value[V], []byte]
		v.j.Each(func(x *Entity[Value[V], []byte]) { all = append(all, x) })
		for _, x := range all {
			if s, err := v.of(x.Key(), x.State()); err == nil && !yield(x.Key(), s) {
				return
			}
		}
	}
}

// Unread are the keys of values that are there and cannot be read, in no order.
func (v *Values[V]) Unread() iter.Seq[string] {
	return func(yield func(string) bool) {
		var all []string
		v.j.Each(func(x *Entity[Value[V], []byte]) {
			if s := x.State(); s.err != nil {
				all = append(all, x.Key())
			}
		})
		for _, key := range all {
			if !yield(key) {
				return
			}
		}
	}
}

// Put sets a value, whatever was there, and returns its revision.
func (v *Values[V]) Put(ctx context.Context, key string, data []byte) (uint64, error) {
	return v.put(ctx, key, data, func(uint64) error { return nil })
}

// PutAfter sets a value if its revision is rev, 0 meaning that there is none.
// Else it is a *Conflict.
func (v *Values[V]) PutAfter(ctx context.Context, key string, data []byte, rev uint64) (uint64, error) {
	return v.put(ctx, key, data, func(last uint64) error {
		if last != rev {
			return &Conflict{Subject: key, Expected: rev, Last: last}
		}
		return nil
	})
}

func (v *Values[V]) put(ctx context.Context, key string, data []byte, may func(last uint64) error) (uint64, error) {
	if len(data) == 0 {
		return 0, fmt.Errorf("put %s: a value without data is none", key)
	}
	if _, err := v.o.Decode(data); err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	_, _, rev, err := v.j.At(key).commit(ctx, func(s Value[V]) (*[]byte, []byte, error) {
		if err := may(s.Rev); err != nil {
			return nil, nil, err
		}
		return &data, data, nil
	})
	return rev, err
}

// Remove removes a value. It is no error if there is none.
func (v *Values[V]) Remove(ctx context.Context, key string) error {
	return v.remove(ctx, key, nil)
}

// RemoveAfter removes a value if its revision is rev. Else it is a *Conflict,
// unless there is none any more.
func (v *Values[V]) RemoveAfter(ctx context.Context, key string, rev uint64) error {
	return v.remove(ctx, key, func(s Value[V]) error {
		if s.Rev != rev {
			return &Conflict{Subject: key, Expected: rev, Last: s.Rev}
		}
		return nil
	})
}

var errStays = errors.New("it stays")

func (v *Values[V]) remove(ctx context.Context, key string, unless func(Value[V]) error) error {
	x := v.j.At(key)
	if _, err := x.Latest(ctx); err != nil { // one that only others know is removed, too
		return err
	}
	return x.Remove(ctx, unless)
}

// expireEvery is how often expired values are looked for.
const expireEvery = time.Minute

func (v *Values[V]) expire(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		v.Expire(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Expire removes the values that have expired.
func (v *Values[V]) Expire(ctx context.Context, now time.Time) {
	over := func(s Value[V]) bool { return s.Rev != 0 && s.err == nil && v.o.Expired(s.V, now) }
	v.j.Each(func(x *Entity[Value[V], []byte]) {
		if !over(x.State()) || ctx.Err() != nil {
			return
		}
		err := v.remove(ctx, x.Key(), func(s Value[V]) error {
			if !over(s) {
				return errStays // it was put anew
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStays) && ctx.Err() == nil {
			v.j.o.Logger.Debug("an expired value could not be removed yet", "key", x.Key(), "err", err)
		}
	})
}
