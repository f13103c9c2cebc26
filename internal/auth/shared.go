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
	// say what is so now. It is longer than a cluster needs for a new leader.
	Trusted = 30 * time.Second

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
	changes atomic.Uint64 // counts them

	failed atomic.Pointer[failure] // nil: the store has answered

	asking sync.Mutex
	asked  time.Time // when the store was asked last; held by asking
}

type failure struct {
	err   error
	until time.Time // nobody asks before
}

// openKept opens the values of a name. expired may be nil.
func openKept[V any](ctx context.Context, s Shared, name string, expired func(V, time.Time) bool) (*kept[V], error) {
	log, subjects, err := s.Log(ctx, name)
	if err != nil {
		return nil, err
	}
	k := &kept[V]{}
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
// store at most once within recheck, and not each time if it does not answer.
func (k *kept[V]) current(now, since time.Time) error {
	if !k.Known().Before(since) {
		return nil
	}
	if f := k.failed.Load(); f != nil && now.Before(f.until) {
		return f.err
	}
	k.asking.Lock()
	defer k.asking.Unlock()
	if !k.Known().Before(since) {
		return nil // somebody else has just asked
	}
	f := k.failed.Load()
	if f != nil {
		if now.Before(f.until) {
			return f.err
		}
		// Others need not wait for the answer.
		k.failed.Store(&failure{f.err, now.Add(askTime + askAgain)})
	}
	time.Sleep(recheck - time.Since(k.asked)) // who guesses tokens must not have the store asked for each
	k.asked = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	if err := k.Current(ctx, since); err != nil {
		err = fault.New(fault.Storage, "tokens", "whether a token is valid cannot be found out now").Because(err)
		k.failed.Store(&failure{err, now.Add(askAgain)})
		return err
	}
	k.failed.Store(nil)
	return nil
}

// ErrUntrusted says that what was known is too old to go by.
var ErrUntrusted = errors.New("the store has not answered for too long")

// recent is current that goes by what was known last, for a while, if the store
// does not answer.
func (k *kept[V]) recent(now time.Time, age time.Duration) error {
	err := k.current(now, now.Add(-max(age, recheck)))
	if err != nil && now.Sub(k.Known()) > Trusted {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	return nil
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*journal.Conflict](err)
	return ok
}
