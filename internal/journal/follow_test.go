package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/sleep"
)

// linked is a Log whose tail can be cut off, and whose answers to Last can be
// held up.
type linked struct {
	Log
	mu   sync.Mutex
	cut  chan struct{} // closed when the tail may go on; nil while nothing is cut
	idle bool          // the tail waits until it may
	last func()        // called after Last has asked
}

func (l *linked) Last(ctx context.Context, filter string) (Entry, error) {
	e, err := l.Log.Last(ctx, filter)
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last != nil {
		last()
	}
	return e, err
}

// Tail reads from the log again after a cut, as one over a network does.
func (l *linked) Tail(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	errCut := errors.New("cut off")
	for {
		if err := l.join(ctx); err != nil {
			return err
		}
		err := l.Log.Tail(ctx, filter, from, func(e Entry) error {
			l.mu.Lock()
			cut := l.cut
			l.mu.Unlock()
			if cut != nil {
				return errCut
			}
			from = e.Seq + 1
			return fn(e)
		})
		if !errors.Is(err, errCut) {
			return err
		}
	}
}

func (l *linked) join(ctx context.Context) error {
	l.mu.Lock()
	cut := l.cut
	l.idle = cut != nil
	l.mu.Unlock()
	if cut == nil {
		return nil
	}
	select {
	case <-cut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *linked) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = make(chan struct{})
}

func (l *linked) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.cut)
	l.cut = nil
}

// told is what a journal's watcher heard of one entity.
type told struct {
	mu  sync.Mutex
	all []string
}

func (h *told) changed(x *Entity[notes, note], e *note, _ Place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e == nil {
		h.all = append(h.all, x.Key()+" gone")
		return
	}
	h.all = append(h.all, x.Key()+" "+e.Put+e.Take)
}

func (h *told) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all, ", ")
}

func take(j *book, key, name string) error {
	_, _, err := j.At(key).Commit(context.Background(), func(s notes) (*note, []byte, error) {
		if _, ok := s[name]; !ok {
			return nil, nil, fmt.Errorf("there is no %s", name)
		}
		return &note{Take: name, Stamp: stamp()}, nil, nil
	})
	return err
}

func mustPut(t *testing.T, j *book, key string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := put(j, key, name, name); err != nil {
			t.Fatal(err)
		}
	}
}

func known(j *book, key string) string {
	return fmt.Sprint(slices.Sorted(maps.Keys(j.At(key).State())))
}

// One asks for the latest while others write: nobody hears of a removal that
// never was.
func TestLatestBesideWriters(t *testing.T) {
	log := &linked{Log: NewMemory()}
	var heard told
	a := open(t, log, nil, Options{}, heard.changed)
	mustPut(t, a, "x", "one")
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	log.mu.Lock()
	log.last = func() { once.Do(func() { close(asked); <-answer }) }
	log.mu.Unlock()
	latest := make(chan notes)
	go func() {
		s, err := a.At("x").Latest(context.Background())
		if err != nil {
			t.Error(err)
		}
		latest <- s
	}()
	<-asked
	mustPut(t, a, "x", "two") // after the log was asked
	close(answer)
	if s := <-latest; len(s) != 2 {
		t.Errorf("the latest is %v", s)
	}
	if got := heard.String(); got != "x one, x two" {
		t.Errorf("heard: %s", got)
	}
}

// Who has not heard yet that an entity was removed, and made again, does not
// take the new one for more of the old.
func TestMadeAgainBeforeOthersHeard(t *testing.T) {
	log := NewMemory()
	link := &linked{Log: log}
	var heard told
	a, b := open(t, log, nil, Options{}, nil), open(t, link, nil, Options{}, heard.changed)
	mustPut(t, a, "x", "one", "two")
	until(t, "the other knows", func() bool { return known(b, "x") == "[one two]" })
	link.cutOff()
	if err := a.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	mustPut(t, a, "x", "three")
	until(t, "what was removed is gone from the log", func() bool { _, err := log.Read(t.Context(), 2); return errors.Is(err, ErrNotFound) })
	if s, err := b.At("x").Latest(t.Context()); err != nil || len(s) != 1 {
		t.Errorf("the latest is %v, %v", s, err)
	}
	link.mend()
	mustPut(t, a, "x", "four")
	until(t, "the other knows the new one", func() bool { return known(b, "x") == "[four three]" })
	if got := heard.String(); got != "x one, x two, x gone, x three, x four" {
		t.Errorf("heard: %s", got)
	}
	a.Bury(t.Context(), time.Now().Add(time.Hour))
	if e, err := log.Read(t.Context(), 3); !errors.Is(err, ErrNotFound) {
		t.Errorf("the note of the removal stays: %+v, %v", e, err)
	}
}

// Who was cut off for longer than the note of a removal stays finds out all the
// same, whatever is done there first, and whether the entity was made again.
func TestCutOffForLong(t *testing.T) {
	ways := map[string]func(t *testing.T, b *book, link *linked) error{
		"follows": func(_ *testing.T, _ *book, link *linked) error { link.mend(); return nil },
		"audits":  func(t *testing.T, b *book, link *linked) error { defer link.mend(); return b.Audit(t.Context()) },
		"writes":  func(_ *testing.T, b *book, link *linked) error { defer link.mend(); return put(b, "again", "mine", "") },
		"asks": func(t *testing.T, b *book, link *linked) error {
			defer link.mend()
			_, err := b.At("again").Latest(t.Context())
			return err
		},
		"takes what left": func(_ *testing.T, b *book, link *linked) error {
			defer link.mend()
			_ = take(b, "again", "one")
			return nil
		},
	}
	for what, first := range ways {
		cutOffForLong(t, what, time.Time.Add, what == "writes", first)
		cutOffForLong(t, what+" after the machine has slept", sleep.For, what == "writes", first)
	}
}

// cutOffForLong has one hub be away while another removes things. later is how
// its clock goes meanwhile.
func cutOffForLong(t *testing.T, what string, later func(time.Time, time.Duration) time.Time, writes bool, first func(t *testing.T, b *book, link *linked) error) {
	t.Run(what, func(t *testing.T) {
		log := NewMemory()
		link := &linked{Log: log}
		var mu sync.Mutex
		late := time.Duration(0)
		clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(late) }
		theirs := func() time.Time { mu.Lock(); defer mu.Unlock(); return later(time.Now(), late) }
		a, b := open(t, log, nil, Options{now: clock}, nil), open(t, link, nil, Options{now: theirs}, nil)
		for _, key := range []string{"gone", "again", "stays"} {
			mustPut(t, a, key, "one", "two")
		}
		until(t, "the other knows", func() bool { return known(b, "stays") == "[one two]" })
		link.cutOff()
		for _, key := range []string{"gone", "again"} {
			if err := a.At(key).Remove(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		mustPut(t, a, "again", "three")
		until(t, "what was removed is gone from the log", func() bool { _, err := log.Read(t.Context(), 4); return errors.Is(err, ErrNotFound) })
		mu.Lock()
		late = time.Hour
		mu.Unlock()
		a.Bury(t.Context(), clock())
		for seq := range uint64(4) {
			if _, err := log.Read(t.Context(), seq+1); !errors.Is(err, ErrNotFound) {
				t.Fatalf("%d is still there: %v", seq+1, err)
			}
		}
		if err := first(t, b, link); err != nil {
			t.Fatal(err)
		}
		mustPut(t, a, "stays", "more")
		want := map[string]string{"gone": "[]", "again": "[three]", "stays": "[more one two]"}
		if writes {
			want["again"] = "[mine three]"
		}
		until(t, "the other knows what is", func() bool {
			return known(b, "gone") == want["gone"] && known(b, "again") == want["again"] && known(b, "stays") == want["stays"]
		})
	})
}

// A log that begins anew, as after its server has lost its disk, is noticed by
// those who knew the old one.
func TestLogBeginsAnew(t *testing.T) {
	log := &replaced{log: NewMemory()}
	j := open(t, log, nil, Options{}, nil)
	mustPut(t, j, "x", "one", "two", "three")
	mustPut(t, j, "y", "one")
	until(t, "it follows", func() bool { j.touch.mu.Lock(); defer j.touch.mu.Unlock(); return j.touch.heard == 4 })
	other := NewMemory()
	log.mu.Lock()
	log.log = other
	log.mu.Unlock()
	fresh := open(t, other, nil, Options{}, nil)
	mustPut(t, fresh, "x", "new")
	for range 3 {
		if err := j.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mustPut(t, fresh, "z", "later")
	until(t, "it knows what the log holds now", func() bool {
		return known(j, "x") == "[new]" && j.Get("y") == nil && known(j, "z") == "[later]"
	})
}

// replaced is a Log that can become another. Its tail goes on where it was, and
// leaves out what has a lower sequence.
type replaced struct {
	mu  sync.Mutex
	log *Memory
}

func (r *replaced) now() *Memory { r.mu.Lock(); defer r.mu.Unlock(); return r.log }

func (r *replaced) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	return r.now().Append(ctx, subject, data, expect)
}
func (r *replaced) Read(ctx context.Context, seq uint64) (Entry, error) {
	return r.now().Read(ctx, seq)
}
func (r *replaced) Last(ctx context.Context, filter string) (Entry, error) {
	return r.now().Last(ctx, filter)
}
func (r *replaced) Scan(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	return r.now().Scan(ctx, filter, from, fn)
}
func (r *replaced) Tail(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	return r.now().Tail(ctx, filter, from, fn)
}
func (r *replaced) Delete(ctx context.Context, seq uint64) error { return r.now().Delete(ctx, seq) }
func (r *replaced) PurgeBefore(ctx context.Context, filter string, seq uint64) error {
	return r.now().PurgeBefore(ctx, filter, seq)
}

// A tail that tells nothing any more is begun again.
func TestDeafTail(t *testing.T) {
	log := NewMemory()
	link := &linked{Log: log}
	a, b := open(t, log, nil, Options{}, nil), open(t, link, nil, Options{}, nil)
	mustPut(t, a, "x", "one")
	until(t, "the other knows", func() bool { return b.Get("x") != nil })
	link.cutOff()
	mustPut(t, a, "y", "two")
	until(t, "the tail is cut off", func() bool { link.mu.Lock(); defer link.mu.Unlock(); return link.idle })
	link.mu.Lock()
	link.cut = nil // what begins now works; what waits goes on waiting
	link.mu.Unlock()
	until(t, "the other follows again", func() bool {
		if err := b.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.Get("y") != nil
	})
}

// What one hub has not heard of yet it can remove, take from and be refused
// only by what is so now.
func TestDecisionsAreOnTheLatest(t *testing.T) {
	log := NewMemory()
	link := &linked{Log: log}
	a, b := open(t, log, nil, Options{}, nil), open(t, link, nil, Options{}, nil)
	link.cutOff()
	mustPut(t, a, "x", "one")
	mustPut(t, a, "y", "one", "two")
	if err := b.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if s, err := a.At("x").Latest(t.Context()); err != nil || len(s) != 0 {
		t.Errorf("what was removed is there: %v, %v", s, err)
	}
	if err := take(b, "y", "one"); err != nil {
		t.Errorf("taken from what was not heard of: %v", err)
	}
	if err := take(a, "y", "two"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, a, "y", "two")
	if err := b.At("y").Remove(t.Context(), func(s notes) error {
		if len(s) == 0 {
			return errors.New("it is empty")
		}
		return nil
	}); err != nil {
		t.Errorf("refused by what was so before: %v", err)
	}
	if err := b.At("y").Remove(t.Context(), nil); err != nil {
		t.Errorf("what is gone cannot be removed again: %v", err)
	}
	link.mend()
}

// A removal that was not acknowledged and was done does not remove what was made
// after it.
func TestRemovalCountsOnce(t *testing.T) {
	log := NewMemory()
	a := open(t, log, nil, Options{}, nil)
	mustPut(t, a, "x", "one")
	unsure := &answerless{Log: log, after: func() { mustPut(t, a, "x", "new") }}
	b := open(t, unsure, nil, Options{}, nil)
	if err := b.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the new one is known", func() bool { return known(b, "x") == "[new]" })
	if got := known(a, "x"); got != "[new]" {
		t.Errorf("there is %s", got)
	}
}

// answerless does what it is asked once, and does not say so.
type answerless struct {
	Log
	once  sync.Once
	after func()
}

func (l *answerless) Append(ctx context.Context, subject string, data []byte, expect uint64) (seq uint64, err error) {
	seq, err = l.Log.Append(ctx, subject, data, expect)
	l.once.Do(func() {
		l.after()
		err = ErrUncertain
	})
	return seq, err
}

// What is heard just when the journal lets go of an entity is not lost, and
// counts in its order.
func TestHeardWhileItIsDropped(t *testing.T) {
	log := NewMemory()
	j, err := Open(t.Context(), log, nil, kind(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	other := open(t, log, nil, Options{}, nil)
	mustPut(t, j, "x", "old")
	if err := j.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	x := j.At("x").lock()
	if err := other.At("x").lock().rest(t.Context()); err != nil { // the other is first
		t.Fatal(err)
	}
	mustPut(t, other, "x", "one", "two")
	next := func(seq uint64) Entry {
		e, err := log.Read(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	j.hear(next(3))
	if err := x.rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.hear(next(4))
	x.unlock()
	if got := known(j, "x"); got != "[one two]" {
		t.Errorf("there is %s", got)
	}
}

// An entry that makes itself needless stays until there is another, which has to
// follow it: nobody takes the entity for one that was removed.
func TestLastEntryStays(t *testing.T) {
	log := NewMemory()
	var heard told
	k := kind(heard.changed)
	apply := k.Apply
	k.Apply = func(s notes, e *note, at Place) (notes, []Spare, error) {
		next, spares, err := apply(s, e, at)
		if e.Take != "" {
			spares = append(spares, Spare{Seq: at.Seq})
		}
		return next, spares, err
	}
	j, err := Open(t.Context(), log, nil, k, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	mustPut(t, j, "x", "one", "two")
	if err := take(j, "x", "two"); err != nil {
		t.Fatal(err)
	}
	until(t, "what was taken is removed", func() bool { _, err := log.Read(t.Context(), 2); return errors.Is(err, ErrNotFound) })
	if s, err := j.At("x").Latest(t.Context()); err != nil || len(s) != 1 {
		t.Errorf("the latest is %v, %v", s, err)
	}
	mustPut(t, j, "x", "three")
	until(t, "that it was taken is removed", func() bool { _, err := log.Read(t.Context(), 3); return errors.Is(err, ErrNotFound) })
	if got := heard.String(); got != "x one, x two, x two, x three" {
		t.Errorf("heard: %s", got)
	}
}
