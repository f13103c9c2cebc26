package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
)

// Shared is a store in which hubs keep together whom they let in. See
// docs/adr/0015-cluster-key.md.
type Shared struct {
	// Log opens the log of the values of a name, and says which subjects their keys
	// have in it. What is appended to it has to be encrypted there.
	Log func(ctx context.Context, name string) (log journal.Log, subjects string, err error)
	// Key is known to these hubs alone: the hashes that are keys of values are made
	// with it.
	Key []byte
	// Alone calls f while no other hub is in an Alone of the same key. The context of
	// f ends if that cannot be said any more. Who settles nothing needs none.
	Alone  func(ctx context.Context, key string, f func(context.Context) error) error
	Logger *slog.Logger // nil discards
}

const (
	// Trusted is for how long what was known last goes on to count while nobody can
	// say what is so now. It is looked at every lookEvery while nobody comes, and what is
	// left of Trusted then is longer than a cluster needs for a new leader.
	Trusted   = 30 * time.Second
	lookEvery = 5 * time.Second

	askTime    = 2 * time.Second // for the store to answer
	askAgain   = time.Second     // after it did not
	sharedTime = time.Minute     // for a change
	tries      = 5               // of a change when others change the same
)

// hash is the key of a value of a kind. It tells nothing of the text.
func (s *Shared) hash(kind, text string) string {
	mac := hmac.New(sha256.New, s.Key)
	mac.Write([]byte(kind + "\x00" + text))
	return hex.EncodeToString(mac.Sum(nil))
}

// unlike is a part of each value, so that no two of them are the same: of two
// hubs that write at once, each can tell which of them has written.
func unlike() string { return rand.Text()[:16] }

// kept are values that hubs share.
type kept[V any] struct {
	*journal.Values[V]
	name    string
	changes atomic.Uint64 // counts them

	failed atomic.Pointer[failure] // nil: the store has answered

	asking sync.Mutex
	asked  time.Time // when the store was asked last; held by asking

	stop    context.CancelFunc // nil: nobody looks while nobody comes
	looking sync.WaitGroup
}

type failure struct {
	why   error
	until time.Time // nobody asks before
}

// Close ends what goes on behind those who use the values.
func (k *kept[V]) Close() {
	if k.stop != nil {
		k.stop()
		k.looking.Wait()
	}
	k.Values.Close()
}

// look keeps what is known young, for recent, also while nobody comes: else most of
// the time for which it is trusted could be over when the store falls silent.
func (k *kept[V]) look(every time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	k.looking.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := time.Now()
			_ = k.current(ctx, now, now.Add(-every/2), "") // who asks is told why not
		}
	})
}

// openKept opens the values of a name. expired may be nil.
func openKept[V any](ctx context.Context, s Shared, name string, expired func(V, time.Time) bool) (*kept[V], error) {
	log, subjects, err := s.Log(ctx, name)
	if err != nil {
		return nil, err
	}
	k := &kept[V]{name: name}
	k.Values, err = journal.OpenValues(ctx, log, journal.ValuesOptions[V]{
		Options: journal.Options{Logger: s.Logger}, Subjects: subjects, Expired: expired,
		Decode:  func(data []byte) (v V, err error) { return v, json.Unmarshal(data, &v) },
		Changed: func(string, *V) { k.changes.Add(1) },
	})
	if err != nil {
		return nil, fmt.Errorf("read the %s that hubs share: %w", name, err)
	}
	return k, nil
}

// put writes a value if the one there has that revision, 0 for none.
func (k *kept[V]) put(ctx context.Context, key string, v V, rev uint64) error {
	data, err := json.Marshal(v)
	if err == nil {
		_, err = k.PutAfter(ctx, key, data, rev)
	}
	return err
}

// current makes sure that what is known was so at a moment or later. It asks the
// store at most once within recheck, and not each time if it does not answer. what
// is what cannot be found out then.
func (k *kept[V]) current(ctx context.Context, now, since time.Time, what string) error {
	fail := func(f *failure) error {
		return fault.New(fault.Storage, k.name, "%s cannot be found out now", what).Because(f.why)
	}
	if elapsed.Between(k.Known(), since) <= 0 {
		return nil
	}
	if f := k.failed.Load(); f != nil && now.Before(f.until) {
		return fail(f)
	}
	k.asking.Lock()
	defer k.asking.Unlock()
	if elapsed.Between(k.Known(), since) <= 0 {
		return nil // somebody else has just asked
	}
	if f := k.failed.Load(); f != nil {
		if now.Before(f.until) {
			return fail(f)
		}
		// Others need not wait for the answer.
		k.failed.Store(&failure{f.why, now.Add(askTime + askAgain)})
	}
	time.Sleep(recheck - time.Since(k.asked)) // who guesses tokens must not have the store asked for each
	k.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := k.Current(ctx, since); err != nil {
		f := &failure{err, now.Add(askAgain)}
		k.failed.Store(f)
		return fail(f)
	}
	k.failed.Store(nil)
	return nil
}

// latest makes sure that what is known was so at a moment, which is now.
func (k *kept[V]) latest(now time.Time, what string) error {
	return k.current(context.Background(), now, now, what)
}

// ErrUntrusted says that what was known is too old to go by.
var ErrUntrusted = errors.New("the store has not answered for too long")

// recent is current that goes by what was known last, for a while, if the store
// does not answer.
func (k *kept[V]) recent(now time.Time, age time.Duration, what string) error {
	err := k.current(context.Background(), now, now.Add(-max(age, recheck)), what)
	if err != nil && elapsed.Between(k.Known(), now) > Trusted {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	return nil
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*journal.Conflict](err)
	return ok
}
