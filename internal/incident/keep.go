package incident

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

// The bounds of what is kept.
const (
	keptErrors = 2000
	keptBytes  = 16 << 20
	maxWaiting = 512 // entries that wait to be written; more are dropped
	every      = time.Second
	groupsAt   = 30 * time.Second // how often counts that no entry tells are written
	closing    = 2 * time.Second
)

const (
	logName = "errors"
	onError = "errors.met"
	onGroup = "errors.group"
)

// entry is one entry of the log: an Error with its Group as it was then, or
// the Group alone. The Group is what one hub has counted since it was first
// started: all of them together are what was met.
type entry struct {
	Hub   string `json:"hub,omitempty"` // by its id; versions that did not say it counted for all
	Error *Error `json:"error,omitempty"`
	Group Group  `json:"group"`
}

// keeper writes entries behind who tells of faults.
type keeper struct {
	mu      sync.Mutex
	log     *store.Log // nil until Keep
	hub     string     // the id of this one
	waiting []entry
	stop    context.CancelFunc
	done    chan struct{}
	writing sync.Mutex // held while entries are written, so that they stay in order
}

func (k *keeper) put(e entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.waiting) < maxWaiting {
		k.waiting = append(k.waiting, e)
	}
}

// Keep reads what was met before, begins to write what this hub meets, and takes
// in what others on the same store meet. hub names this one, also after it was
// started again. Close ends it; the store stays open.
func (b *Book) Keep(ctx context.Context, st *store.Store, hub string) error {
	log, err := st.Log(ctx, store.LogOptions{Name: logName, Subjects: []string{onError, onGroup}, PerSubject: keptErrors, MaxBytes: keptBytes, Async: true})
	if err != nil {
		return fmt.Errorf("open the log of errors: %w", err)
	}
	next, err := b.read(ctx, log, hub)
	if err != nil {
		return fmt.Errorf("read the log of errors: %w", err)
	}
	k := &b.keep
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, k.stop = context.WithCancel(context.Background())
	k.log, k.hub, k.done = log, hub, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { b.write(ctx) })
	if !st.Alone() {
		wg.Go(func() { b.follow(ctx, log, next) })
	}
	go func() {
		defer close(k.done)
		wg.Wait()
	}()
	return nil
}

// read takes in what the log holds, and returns the sequence after that; what was
// met before it was opened comes after it.
func (b *Book) read(ctx context.Context, log *store.Log, hub string) (next uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	young, last := b.groups, b.last
	b.groups, b.last = map[Key]*Group{}, nil
	next = 1
	err = log.Scan(ctx, "", 0, func(e store.Entry) error {
		next = e.Seq + 1
		if x, ok := decode(e); ok {
			b.take(x, hub)
		}
		return nil
	})
	for k, g := range young {
		b.group(k).add(g, b.opts.Now())
	}
	for _, e := range last {
		b.hold(e)
	}
	return next, err
}

// decode reads an entry, unless it is of another version: nothing depends on it.
func decode(e store.Entry) (x entry, ok bool) {
	return x, json.Unmarshal(e.Data, &x) == nil && x.Group.Code != ""
}

// take takes in an entry. Called with mu held.
func (b *Book) take(x entry, self string) {
	g := b.groups[x.Group.Key]
	if x.Hub == self && g == nil {
		g = b.group(x.Group.Key)
	} else if x.Hub != self {
		g = b.other(x.Hub, x.Group.Key)
	}
	if g != nil {
		g.become(&x.Group, b.opts.Now())
	}
	if x.Error != nil {
		b.hold(*x.Error)
	}
}

// follow takes in what other hubs write, until ctx ends.
func (b *Book) follow(ctx context.Context, log *store.Log, next uint64) {
	for {
		_ = log.Tail(ctx, "", next, func(e store.Entry) error { // it is tried again
			next = e.Seq + 1
			x, ok := decode(e)
			if !ok || x.Hub == b.keep.hub {
				return nil // what this hub wrote is known
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.take(x, b.keep.hub)
			return nil
		})
		wait := time.NewTimer(every)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		last, err := log.Last(ctx, "errors.>")
		if errors.Is(err, store.ErrNotFound) || err == nil && last.Seq+1 < next {
			next = 1 // the log has begun anew
		}
	}
}

// write writes what waits, every so often, until ctx ends.
func (b *Book) write(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var counted time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if now.Sub(counted) > groupsAt {
				b.putGroups()
				counted = now
			}
			_ = b.flush(ctx) // the store says itself that it cannot be written to; it is tried again
		}
	}
}

// putGroups has groups written whose last counts no entry tells.
func (b *Book) putGroups() {
	b.mu.Lock()
	var changed []entry
	for _, g := range b.groups {
		if g.dirty {
			g.dirty = false
			changed = append(changed, entry{Group: *g})
		}
	}
	b.mu.Unlock()
	for _, e := range changed {
		b.keep.put(e)
	}
}

// flush writes what waits.
func (b *Book) flush(ctx context.Context) error {
	k := &b.keep
	k.writing.Lock()
	defer k.writing.Unlock()
	for {
		k.mu.Lock()
		if k.log == nil || len(k.waiting) == 0 {
			k.mu.Unlock()
			return nil
		}
		e := k.waiting[0]
		k.mu.Unlock()
		subject := onError
		if e.Error == nil {
			subject = onGroup
		}
		e.Hub = k.hub
		raw, err := json.Marshal(e)
		if err == nil {
			_, err = k.log.AppendAny(ctx, subject, raw)
		}
		if err != nil {
			return fmt.Errorf("write an error: %w", err)
		}
		k.mu.Lock()
		k.waiting = k.waiting[1:]
		k.mu.Unlock()
	}
}

// Close writes what waits, if that can be done soon.
func (b *Book) Close() {
	k := &b.keep
	k.mu.Lock()
	stop, done := k.stop, k.done
	k.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-done
	b.putGroups()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	_ = b.flush(ctx) // what cannot be written is lost, as is said
	k.mu.Lock()
	k.log = nil
	k.mu.Unlock()
}

var errFound = errors.New("found")

// Find returns the Error of that id, from the log if it is not among the last.
func (b *Book) Find(ctx context.Context, id string) (Error, error) {
	if e, ok := b.find(id); ok {
		return e, nil
	}
	var out Error
	err := b.scan(ctx, func(e *Error) error {
		if e.ID != id {
			return nil
		}
		out = *e
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return out, nil
	case err != nil:
		return out, err
	}
	return out, &fault.Error{Kind: fault.ResourceNotFound, Subject: "errors", Msg: fmt.Sprintf("there is no error %q", id), Hint: fmt.Sprintf("The last %d are kept; GET /api/v1/errors lists those that are held in memory.", keptErrors)}
}

// Export writes all Errors that are kept, oldest first, as JSON, one a line.
func (b *Book) Export(ctx context.Context, w io.Writer) error {
	out := json.NewEncoder(w)
	return b.scan(ctx, func(e *Error) error { return out.Encode(e) })
}

// scan calls f with each Error that is kept, or held where none is kept. One whose
// writing was not acknowledged may be there twice, and is told once.
func (b *Book) scan(ctx context.Context, f func(*Error) error) error {
	b.keep.mu.Lock()
	log := b.keep.log
	b.keep.mu.Unlock()
	if log == nil || b.flush(ctx) != nil {
		last := b.Last()
		for i := len(last) - 1; i >= 0; i-- {
			if err := f(&last[i]); err != nil {
				return err
			}
		}
		return nil
	}
	told := map[string]bool{}
	return log.Scan(ctx, onError, 0, func(x store.Entry) error {
		e, ok := decode(x)
		if !ok || e.Error == nil || told[e.Error.ID] {
			return nil
		}
		told[e.Error.ID] = true
		return f(e.Error)
	})
}
