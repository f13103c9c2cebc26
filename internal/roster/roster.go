package roster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
	"github.com/stoahub/stoa/internal/store"
)

// Hub is what a hub says of itself.
type Hub struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	Pid       int       `json:"pid"`
	Process   string    `json:"process,omitempty"` // by which other hubs reach it; empty if they cannot
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Addresses []string  `json:"addresses,omitempty"`
	// Config has a fingerprint of each part of the config that hubs should have
	// in common.
	Config map[string]string `json:"config,omitempty"`
}

// Differs lists the parts of the config in which two hubs differ, sorted.
func (h *Hub) Differs(other *Hub) []string {
	var parts []string
	for part, print := range h.Config {
		if other.Config[part] != print {
			parts = append(parts, part)
		}
	}
	for part := range other.Config {
		if _, ok := h.Config[part]; !ok {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts
}

// Fingerprint is that of a part of a config, which must be made of what JSON can
// say. It tells nothing of secrets only if they are not in it.
func Fingerprint(part any) string {
	raw, err := json.Marshal(part)
	if err != nil {
		panic(fmt.Sprintf("roster: encode a part of the config: %v", err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Options say how the list is kept.
type Options struct {
	Life    time.Duration // how long a hub that died is listed; 0 means 15 s
	Logger  *slog.Logger  // nil discards
	Changed func()        // called when another hub or a Twin came, went or changed; must not block. Optional.
}

// Roster is the list, as one of the hubs keeps it.
type Roster struct {
	bucket *store.Bucket
	o      Options
	stop   context.CancelFunc
	wg     sync.WaitGroup
	again  chan struct{} // has room for one: write what this hub is now

	mu     sync.Mutex
	self   Hub
	first  uint64           // the revision of what this hub wrote first; 0: nothing yet
	twin   heard            // another process that says to be this hub
	others map[string]heard // by key
}

// heard is another hub, and when it was heard of last.
type heard struct {
	Hub
	at time.Time
}

// bucketName is that of the bucket in the store.
const bucketName = "hubs"

// Open has this hub listed and begins to follow the others. Close takes it off the
// list; the store stays open.
func Open(ctx context.Context, st *store.Store, self Hub, o Options) (*Roster, error) {
	o.Life = cmp.Or(o.Life, 15*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	bucket, err := st.Bucket(ctx, store.BucketOptions{Name: bucketName})
	if err != nil {
		return nil, fmt.Errorf("open the list of hubs: %w", err)
	}
	r := &Roster{bucket: bucket, o: o, self: self, others: map[string]heard{}, again: make(chan struct{}, 1)}
	r.again <- struct{}{}
	ctx, r.stop = context.WithCancel(context.Background())
	r.wg.Go(func() { r.keep(ctx) })
	r.wg.Go(func() { r.watch(ctx) })
	return r, nil
}

// closeTime bounds how long Close waits for the store.
const closeTime = 2 * time.Second

// Close takes this hub off the list.
func (r *Roster) Close() {
	r.stop()
	r.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := r.bucket.Delete(ctx, key(r.self.ID), 0); err != nil {
		r.o.Logger.Debug("this hub could not be taken off the list and goes by itself", "err", err)
	}
}

// key names a hub in the bucket.
func key(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// Set changes what this hub says of itself. The others learn of it a moment
// later.
func (r *Roster) Set(change func(self *Hub)) {
	r.mu.Lock()
	self := r.self
	change(&self)
	r.self = self
	r.mu.Unlock()
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// Self is what this hub says of itself.
func (r *Roster) Self() Hub {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.self
}

// Others are the other hubs that run, sorted by host and id.
func (r *Roster) Others() []Hub {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.others))
	r.mu.Unlock()
	var out []Hub
	for _, h := range all {
		if elapsed.Since(h.at) < 2*r.o.Life {
			out = append(out, h.Hub)
		}
	}
	slices.SortFunc(out, func(a, b Hub) int { return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.ID, b.ID)) })
	return out
}

// Twin is another process that runs and says to be this hub, as one over a copy of
// its data folder does.
func (r *Roster) Twin() (Hub, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.twin.Hub, !r.twin.at.IsZero() && elapsed.Since(r.twin.at) < 2*r.o.Life
}

func (r *Roster) write(ctx context.Context) error {
	self := r.Self()
	raw, err := json.Marshal(&self)
	if err != nil {
		return err
	}
	rev, err := r.bucket.Put(ctx, key(self.ID), raw, r.o.Life)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = cmp.Or(r.first, rev)
	return nil
}

// keep writes this hub down again before it is taken for dead.
func (r *Roster) keep(ctx context.Context) {
	tick := time.NewTicker(r.o.Life / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.again:
		}
		within, cancel := context.WithTimeout(ctx, r.o.Life)
		if err := r.write(within); err != nil && ctx.Err() == nil {
			r.o.Logger.Debug("the list of hubs cannot be written to", "err", err)
		}
		cancel()
	}
}

// watch follows what the other hubs write.
func (r *Roster) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.bucket.Watch(ctx, "", nil, func(v store.Value) error {
			r.hear(v)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		r.o.Logger.Warn("the list of hubs cannot be read for now", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(r.o.Life / 3):
		}
	}
}

// hear takes in what a hub wrote.
func (r *Roster) hear(v store.Value) {
	var h Hub
	if !v.Deleted && json.Unmarshal(v.Data, &h) != nil {
		return // a release that says it differently; it is not known what
	}
	r.mu.Lock()
	if v.Key == key(r.self.ID) {
		twin := !v.Deleted && r.first != 0 && v.Rev > r.first && !h.isProcess(&r.self)
		changed := twin && !h.isProcess(&r.twin.Hub)
		if twin {
			r.twin = heard{h, time.Now()}
		}
		r.mu.Unlock()
		if changed {
			r.o.Changed()
		}
		return
	}
	was, known := r.others[v.Key]
	if v.Deleted {
		delete(r.others, v.Key)
	} else {
		r.others[v.Key] = heard{h, time.Now()}
	}
	r.mu.Unlock()
	if v.Deleted && known || !v.Deleted && (!known || !same(&was.Hub, &h)) {
		r.o.Changed()
	}
}

// isProcess reports whether two that have one id are the same process.
func (h *Hub) isProcess(other *Hub) bool {
	return h.Host == other.Host && h.Pid == other.Pid && h.Started.Equal(other.Started)
}

func same(a, b *Hub) bool {
	return a.ID == b.ID && a.Version == b.Version && a.Started.Equal(b.Started) && slices.Equal(a.Addresses, b.Addresses) && maps.Equal(a.Config, b.Config)
}
