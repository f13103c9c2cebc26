package journal

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Options say how a journal is kept.
type Options struct {
	Logger *slog.Logger // nil discards
	// Alone says that nobody else can write the log, so that what is known here
	// is always the latest.
	Alone bool
	// TrimLater says that removing an entry costs as much as writing one, so that
	// what may stay for a while does (Spare.MayStay). Only with Alone: who writes
	// alone knows that the log does not begin anew meanwhile.
	TrimLater bool
	// TombLife is how long others have to read that an entity was removed; 0
	// means ten minutes.
	TombLife time.Duration

	now func() time.Time // for tests; nil means time.Now
}

// Journal holds the entities of one kind.
type Journal[S, E any] struct {
	kind   Kind[S, E]
	log    Log
	blobs  Blobs // nil where data is never too large
	o      Options
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
	opened uint64 // the last sequence that was there
	spares spares
	touch  touch

	unknown unknown

	before, after string // of the key in a subject

	asking sync.Mutex // held while the log is asked what is new: see Current

	mu  sync.RWMutex
	all map[string]*Entity[S, E]
}

// Open reads what the log holds. Close ends it; the log stays open.
func Open[S, E any](ctx context.Context, log Log, blobs Blobs, kind Kind[S, E], o Options) (*Journal[S, E], error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.TombLife == 0 {
		o.TombLife = 10 * time.Minute
	}
	if o.now == nil {
		o.now = time.Now
	}
	j := &Journal[S, E]{kind: kind, log: log, blobs: blobs, o: o, all: map[string]*Entity[S, E]{}, spares: newSpares(o.Alone && o.TrimLater)}
	first, last := strings.IndexAny(kind.Subjects, "*>"), strings.LastIndexAny(kind.Subjects, "*>")
	if first < 0 {
		return nil, fmt.Errorf("open the journal %s: no * or > stands for the key", kind.Subjects)
	}
	j.before, j.after = kind.Subjects[:first], kind.Subjects[last+1:]
	j.touch.at = o.now()
	if err := log.Scan(ctx, kind.Subjects, 0, func(e Entry) error {
		j.opened = e.Seq
		x := j.make(j.key(e.Subject))
		x.apply(e)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the journal %s: %w", kind.Subjects, err)
	}
	j.touch.heard = j.opened
	j.ctx, j.stop = context.WithCancel(context.Background())
	j.wg.Go(j.trim)
	j.wg.Go(j.bury)
	return j, nil
}

// Close ends what goes on behind those who write. What is in the log stays.
func (j *Journal[S, E]) Close() {
	j.stop()
	j.wg.Wait()
}

func (j *Journal[S, E]) subject(key string) string { return j.before + key + j.after }

func (j *Journal[S, E]) key(subject string) string {
	return strings.TrimSuffix(strings.TrimPrefix(subject, j.before), j.after)
}

// make returns the entity of a key, which need not be in the log.
func (j *Journal[S, E]) make(key string) *Entity[S, E] {
	j.mu.RLock()
	x := j.all[key]
	j.mu.RUnlock()
	if x != nil {
		return x
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if x = j.all[key]; x == nil {
		x = &Entity[S, E]{j: j, key: key, state: j.kind.New(key)}
		j.all[key] = x
	}
	return x
}

// Get returns the entity of a key, or nil if there is none.
func (j *Journal[S, E]) Get(key string) *Entity[S, E] {
	j.mu.RLock()
	x := j.all[key]
	j.mu.RUnlock()
	if x == nil || !x.There() {
		return nil
	}
	return x
}

// At returns the entity of a key. It is there with the first event that is
// committed to it.
func (j *Journal[S, E]) At(key string) *Entity[S, E] { return j.make(key) }

// Each calls fn with each entity that is there, in no order.
func (j *Journal[S, E]) Each(fn func(x *Entity[S, E])) {
	j.mu.RLock()
	all := make([]*Entity[S, E], 0, len(j.all))
	for _, x := range j.all {
		all = append(all, x)
	}
	j.mu.RUnlock()
	for _, x := range all {
		if x.There() {
			fn(x)
		}
	}
}

// drop lets go of an entity of which nothing is in the log any more, unless
// something was just heard of it. Called with its write held.
func (j *Journal[S, E]) drop(x *Entity[S, E]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x.heardMu.Lock()
	defer x.heardMu.Unlock()
	if len(x.heard) > 0 {
		return
	}
	x.deaf = true
	x.mu.Lock()
	x.left = true
	x.mu.Unlock()
	if j.all[x.key] == x {
		delete(j.all, x.key)
	}
}
