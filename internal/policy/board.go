package policy

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/vault"
)

// BoardOptions say how the desks of several hubs work together.
type BoardOptions struct {
	Process string // this one, by which others name it
	// There reports whether the process of another hub runs.
	There func(process string) bool
	// Decide has the desk of another process decide.
	Decide func(who *auth.Principal, process, id string, dec Decision) error
	Logger *slog.Logger // nil discards
}

// Board is where the desks of all hubs on a store say what waits at them, what
// became of it, and who is there to be asked, so that a person can answer at any
// hub. What is on it is encrypted.
type Board struct {
	o      BoardOptions
	values *journal.Values[notice]
	stop   context.CancelFunc
	wg     sync.WaitGroup
	wake   chan struct{} // has room for one: there may be something new
	news   atomic.Uint64 // how often other hubs' notices have changed
	writes chan func(context.Context)

	mu    sync.Mutex
	all   map[string]notice // other hubs', by key
	stays map[place]bool    // who is there at this one
}

// notice is one thing that a desk says: of the two, an approval or a place.
type notice struct {
	Process  string    `json:"process"`
	Approval *Approval `json:"approval,omitempty"`
	Decision *Decision `json:"decision,omitempty"` // what became of it, without arguments
	Place    *attended `json:"place,omitempty"`
	Until    time.Time `json:"until"`
	Entry    string    `json:"entry"` // random: no two entries are alike
}

// attended is a place at which somebody is there to be asked.
type attended struct {
	Principal string `json:"principal,omitempty"`
	Session   string `json:"session,omitempty"`
}

const (
	boardBucket = "approvals"
	boardWrites = 1024             // that wait to be done
	stayLife    = 30 * time.Second // of a place, unless it is said again
	endLife     = 10 * time.Minute // of what became of an approval
)

// OpenBoard opens the board of a store. Close it after the desk that uses it.
func OpenBoard(ctx context.Context, st *store.Store, key *vault.Key, o BoardOptions) (*Board, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Board{o: o, wake: make(chan struct{}, 1), writes: make(chan func(context.Context), boardWrites), all: map[string]notice{}, stays: map[place]bool{}}
	log, subjects, err := st.ValuesLog(ctx, store.BucketOptions{Name: boardBucket})
	if err != nil {
		return nil, fmt.Errorf("open what waits at the hubs: %w", err)
	}
	b.values, err = journal.OpenValues(ctx, key.Log(log), journal.ValuesOptions[notice]{
		Options: journal.Options{Logger: o.Logger}, Subjects: subjects,
		Decode:  func(data []byte) (n notice, err error) { return n, json.Unmarshal(data, &n) },
		Expired: func(n notice, now time.Time) bool { return now.After(n.Until) },
		Changed: b.heard,
	})
	if err != nil {
		return nil, fmt.Errorf("read what waits at the hubs: %w", err)
	}
	for k, v := range b.values.All() {
		b.heard(k, &v.V)
	}
	ctx, b.stop = context.WithCancel(context.Background())
	b.wg.Go(func() { b.run(ctx) })
	return b, nil
}

// Close ends what goes on behind. What is on the board ends by itself.
func (b *Board) Close() {
	b.stop()
	b.wg.Wait()
	b.values.Close()
}

// heard takes in what another hub says.
func (b *Board) heard(key string, n *notice) {
	if n != nil && n.Process == b.o.Process {
		return
	}
	b.mu.Lock()
	if n == nil {
		delete(b.all, key)
	} else {
		b.all[key] = *n
	}
	b.mu.Unlock()
	b.news.Add(1)
	b.look()
}

// run writes, one after the other, what the desk says.
func (b *Board) run(ctx context.Context) {
	again := time.NewTicker(stayLife / 3)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case write := <-b.writes:
			write(ctx)
		case <-again.C:
			b.mu.Lock()
			stays := slices.Collect(maps.Keys(b.stays))
			b.mu.Unlock()
			for _, at := range stays {
				b.put(ctx, b.placeKey(at), notice{Place: &attended{at.principal, at.session}, Until: time.Now().Add(stayLife)})
			}
			b.look() // hubs go without a word, too
		}
	}
}

// look has the desk look at the board.
func (b *Board) look() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Board) say(write func(context.Context)) {
	select {
	case b.writes <- write:
	default:
		b.o.Logger.Warn("other hubs are not told what waits here: there is too much of it", "action", "ask")
	}
}

func (b *Board) put(ctx context.Context, key string, n notice) {
	n.Process, n.Until, n.Entry = b.o.Process, n.Until.UTC(), rand.Text()
	data, err := json.Marshal(&n)
	if a := n.Approval; err == nil && a != nil && len(data) > store.MaxEntry-1<<10 {
		short := *a
		short.Args, short.Sent = nil, nil
		short.Reason = cmp.Or(short.Reason+"; ", "") + "the arguments are too large to be shown at this hub"
		n.Approval = &short
		data, err = json.Marshal(&n)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, writeTime)
		defer cancel()
		_, err = b.values.Put(ctx, key, data)
	}
	if err != nil && ctx.Err() == nil {
		b.o.Logger.Warn("other hubs are not told what waits here", "action", "ask", "err", err)
	}
}

// asked says that an approval waits here.
func (b *Board) asked(a Approval) {
	b.say(func(ctx context.Context) { b.put(ctx, a.ID, notice{Approval: &a, Until: a.Expires.Add(time.Minute)}) })
}

// settled says what became of an approval.
func (b *Board) settled(a Approval, dec Decision) {
	a.Args, a.Sent, dec.Args = nil, nil, nil
	b.say(func(ctx context.Context) {
		b.put(ctx, a.ID, notice{Approval: &a, Decision: &dec, Until: time.Now().Add(endLife)})
	})
}

// placeKey stands for a place at this hub.
func (b *Board) placeKey(at place) string {
	sum := sha256.Sum256([]byte(b.o.Process + "\x00" + at.principal + "\x00" + at.session))
	return "p" + hex.EncodeToString(sum[:16])
}

// stay says that somebody is there to be asked at this hub, or no more.
func (b *Board) stay(at place, on bool) {
	b.mu.Lock()
	if on {
		b.stays[at] = true
	} else {
		delete(b.stays, at)
	}
	b.mu.Unlock()
	b.say(func(ctx context.Context) {
		if on {
			b.put(ctx, b.placeKey(at), notice{Place: &attended{at.principal, at.session}, Until: time.Now().Add(stayLife)})
			return
		}
		ctx, cancel := context.WithTimeout(ctx, writeTime)
		defer cancel()
		if err := b.values.Remove(ctx, b.placeKey(at)); err != nil {
			b.o.Logger.Debug("that nobody is there any more is not said", "err", err)
		}
	})
}

// others yields what the other hubs that run say now.
func (b *Board) others(yield func(*notice) bool) {
	b.mu.Lock()
	all := slices.Collect(maps.Values(b.all))
	b.mu.Unlock()
	now := time.Now()
	for i := range all {
		if n := &all[i]; now.Before(n.Until) && b.o.There(n.Process) && !yield(n) {
			return
		}
	}
}

// attended reports whether somebody is there to be asked at another hub.
func (b *Board) attended(principal, session string) bool {
	for n := range b.others {
		if p := n.Place; p != nil && (*p == attended{principal, session} || *p == attended{principal, ""} || *p == attended{}) {
			return true
		}
	}
	return false
}

// waiting are the approvals of a principal that wait at other hubs.
func (b *Board) waiting(principal string) (out []Approval) {
	now := time.Now()
	for n := range b.others {
		if n.Approval != nil && n.Decision == nil && now.Before(n.Approval.Expires) && (principal == "" || n.Approval.Principal == principal) {
			out = append(out, *n.Approval)
		}
	}
	return out
}

// find returns what another hub says of an approval.
func (b *Board) find(id string) (notice, bool) {
	b.mu.Lock()
	n, ok := b.all[id]
	b.mu.Unlock()
	return n, ok && n.Approval != nil && n.Approval.ID == id
}
