package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// paged is a Log that is read as one over a network is: what is last is asked
// first, and by the time that the rest comes some of it may be gone. During is
// called once between the two.
type paged struct {
	Log
	during func()
}

func (p *paged) Scan(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	end, err := p.Log.Last(ctx, filter)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if during := p.during; during != nil {
		p.during = nil
		during()
	}
	return p.Log.Scan(ctx, filter, from, func(e Entry) error {
		if e.Seq > end.Seq {
			return nil
		}
		return fn(e)
	})
}

// What was there when somebody asked is found, also if something takes its place
// while it is read, and it goes.
func TestReplacedWhileItIsRead(t *testing.T) {
	for what, read := range map[string]func(ctx context.Context, j *Journal[Record[string], string]) error{
		"latest": func(ctx context.Context, j *Journal[Record[string], string]) error {
			_, err := j.At("x").Latest(ctx)
			return err
		},
		"current": func(ctx context.Context, j *Journal[Record[string], string]) error { return j.Current(ctx, time.Now()) },
	} {
		t.Run(what, func(t *testing.T) {
			log := &paged{Log: NewMemory()}
			open := func(l Log) *Journal[Record[string], string] {
				j, err := Open(t.Context(), l, nil, Records[string]("evt.words.*", nil), Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(j.Close)
				return j
			}
			a, b := open(log.Log), open(log) // neither follows
			say := func(word string) {
				t.Helper()
				if _, _, err := a.At("x").Commit(t.Context(), func(Record[string]) (*string, []byte, error) { return &word, nil, nil }); err != nil {
					t.Fatal(err)
				}
			}
			say("one")
			if err := read(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			say("two")
			log.during = func() {
				say("three")
				until(t, "what it replaced is gone", func() bool { _, err := log.Log.Read(t.Context(), 2); return errors.Is(err, ErrNotFound) })
			}
			if err := read(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if v := b.At("x").State().Value; v == nil || *v != "three" {
				t.Errorf("two was there when it was asked, and it has %v", v)
			}
		})
	}
}

// severed is a Log that cannot be reached now and then.
type severed struct {
	linked
	away atomic.Bool
}

var errAway = errors.New("away")

func (s *severed) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	if s.away.Load() {
		return 0, errAway
	}
	return s.linked.Append(ctx, subject, data, expect)
}

func (s *severed) Last(ctx context.Context, filter string) (Entry, error) {
	if s.away.Load() {
		return Entry{}, errAway
	}
	return s.linked.Last(ctx, filter)
}

func (s *severed) Scan(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	return s.linked.Scan(ctx, filter, from, func(e Entry) error {
		if s.away.Load() {
			return errAway // in the midst of it
		}
		return fn(e)
	})
}

// watched is what was seen of the entities that are known in one place.
type watched struct {
	mu  sync.Mutex
	all map[string]sight
	bad string
}

// sight is what was seen last of an entity.
type sight struct {
	seq  uint64
	gone bool // it was not there after that
}

// changed looks at what everybody can read from now on.
func (w *watched) changed(x *Entity[Record[string], string], e *string, _ Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.all[x.Key()]
	seq := x.State().seq
	switch {
	case e == nil:
		w.all[x.Key()] = sight{seq: was.seq, gone: true}
		return
	case seq < was.seq, seq == was.seq && was.gone:
		w.bad = fmt.Sprintf("entry %d of %s is seen after %+v", seq, x.Key(), was)
	}
	w.all[x.Key()] = sight{seq: seq}
}

// What is read of memory alone never goes back, whatever others write and remove
// meanwhile, and however often and long the log is out of reach.
func TestPlainReadsNeverGoBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var late atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
		log := NewMemory()
		link := &severed{linked: linked{Log: log}}
		var both []*Journal[Record[string], string]
		var seen []*watched
		for _, l := range []Log{log, link} {
			w := &watched{all: map[string]sight{}}
			j, err := Open(context.Background(), l, nil, Records("evt.words.*", w.changed), Options{now: clock, TombLife: time.Hour})
			if err != nil {
				rt.Fatal(err)
			}
			defer j.Close()
			j.Follow()
			both, seen = append(both, j), append(seen, w)
		}
		here, there := both[0], both[1]
		keys := []string{"x", "y"}
		ctx := context.Background()
		for i, step := range rapid.SliceOfN(rapid.IntRange(0, 19), 5, 60).Draw(rt, "steps") {
			key, j := keys[step%2], both[i%2]
			switch step / 2 {
			case 0:
				link.away.Store(true)
				if link.cut == nil {
					link.cutOff()
				}
			case 1:
				link.away.Store(false)
				if link.cut != nil {
					link.mend()
				}
			case 2:
				_ = j.At(key).Remove(ctx, nil) // it may be out of reach
			case 3:
				_, _ = there.At(key).Latest(ctx)
			case 4:
				late.Add(int64(40 * time.Minute)) // others may have removed what tells of removals
				here.Bury(ctx, clock())
			case 5:
				_ = there.Audit(ctx)
			case 6:
				there.Bury(ctx, clock())
			default:
				word := fmt.Sprint(i)
				_, _, _ = j.At(key).Commit(ctx, func(Record[string]) (*string, []byte, error) { return &word, nil, nil })
			}
		}
		link.away.Store(false)
		if link.cut != nil {
			link.mend()
		}
		for _, key := range keys {
			one, errOne := here.At(key).Latest(ctx)
			other, errOther := there.At(key).Latest(ctx)
			if err := errors.Join(errOne, errOther); err != nil || one.seq != other.seq {
				rt.Errorf("%s: in the end there is entry %d at one and %d at the other: %v", key, one.seq, other.seq, err)
			}
		}
		for _, w := range seen {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.bad != "" {
				rt.Error(w.bad)
			}
		}
	})
}

// waitsInLatest reports whether a goroutine asks for the latest, and waits for a
// lock.
func waitsInLatest() bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for one := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(one, []byte("]).lock(")) && bytes.Contains(one, []byte("Semacquire")) {
			return true
		}
	}
	return false
}

// Who asks for the latest while a removal is being told does not get what was
// removed.
func TestLatestWhileARemovalIsTold(t *testing.T) {
	log := NewMemory()
	latest, answered := make(chan Record[string], 1), atomic.Bool{}
	var b *Journal[Record[string], string]
	changed := func(x *Entity[Record[string], string], e *string, _ Place) {
		if e != nil {
			return
		}
		go func() {
			s, err := b.At(x.Key()).Latest(context.Background())
			if err != nil {
				t.Error(err)
			}
			latest <- s
			answered.Store(true)
		}()
		await.Until(t, "who asks has the answer, or waits for the removal", func() bool {
			return answered.Load() || waitsInLatest()
		})
	}
	a, err := Open(t.Context(), log, nil, Records[string]("evt.words.*", nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	word := "one"
	if _, _, err := a.At("x").Commit(t.Context(), func(Record[string]) (*string, []byte, error) { return &word, nil, nil }); err != nil {
		t.Fatal(err)
	}
	if b, err = Open(t.Context(), log, nil, Records("evt.words.*", changed), Options{}); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := a.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b.Follow()
	if s := <-latest; s.Value != nil {
		t.Errorf("it was removed, and the latest is %q", *s.Value)
	}
}

// overtaken is a Log that stores an entry, lets another write, and gives no
// answer.
type overtaken struct {
	Log
	then func()
}

func (o *overtaken) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	seq, err := o.Log.Append(ctx, subject, data, expect)
	if then := o.then; err == nil && then != nil {
		o.then = nil
		then()
		return 0, fmt.Errorf("append: %w", ErrUncertain)
	}
	return seq, err
}

// Who put a value gets its revision, also if another was put before the answer
// came: with the other's it would be overwritten unseen.
func TestRevisionIsOnesOwn(t *testing.T) {
	log := &overtaken{Log: NewMemory()}
	open := func(l Log) *Values[string] {
		v, err := OpenValues(t.Context(), l, ValuesOptions[string]{Subjects: "v.>", Decode: func(b []byte) (string, error) { return string(b), nil }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Close)
		return v
	}
	a, b := open(log), open(keeping{log.Log.(*Memory)}) // else what a wrote is gone before it has looked
	log.then = func() {
		if _, err := b.Put(t.Context(), "k", []byte("other")); err != nil {
			t.Error(err)
		}
	}
	rev, err := a.Put(t.Context(), "k", []byte("mine"))
	if err != nil || rev != 1 {
		t.Fatalf("%d, %v", rev, err)
	}
	_, err = a.PutAfter(t.Context(), "k", []byte("next"), rev)
	if _, ok := errors.AsType[*Conflict](err); !ok {
		t.Errorf("another's value is overwritten: %v", err)
	}
}
