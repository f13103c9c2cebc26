package journal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxEntry is the size of the largest entry in bytes. It is half of what a NATS
// server accepts unless told otherwise, so that any server will do.
const MaxEntry = 512 << 10

// Entry is one entry of a log. Its Data belongs to who gets it.
type Entry struct {
	Seq     uint64
	Subject string
	Time    time.Time
	Data    []byte
}

var (
	// ErrNotFound means that there is no such entry, key, item or blob.
	ErrNotFound = errors.New("not found")

	// ErrUncertain means that a write was sent and no answer came: it may have
	// taken effect. Look before deciding again.
	ErrUncertain = errors.New("no acknowledgement came; whether it was stored is not known")
)

// Conflict means that nothing was written because the last sequence was
// another than the one expected.
type Conflict struct {
	Subject  string // or the filter
	Expected uint64
	Last     uint64 // 0 means none
	// Unsure says that the entry was sent before, without an answer: the last
	// one may be it.
	Unsure bool
}

func (c *Conflict) Error() string {
	return fmt.Sprintf("%s: the last sequence is %d, not %d: read what came since and decide again", c.Subject, c.Last, c.Expected)
}

// Log is an ordered sequence of entries, each with a subject. Sequences are
// those of the whole log, grow with each append and are never used again. A
// filter is a subject in which * stands for one part and > for all further
// ones; "" means every subject.
type Log interface {
	// Append appends an entry if the last sequence of its subject is expect, 0
	// meaning that there is none. Else it is a *Conflict.
	Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error)
	// Read returns the entry with a sequence, or ErrNotFound.
	Read(ctx context.Context, seq uint64) (Entry, error)
	// Last returns the last entry that matches a filter, or ErrNotFound.
	Last(ctx context.Context, filter string) (Entry, error)
	// Scan calls fn with the entries that match, in order, from a sequence on,
	// and returns when it has come to what was last as it began.
	Scan(ctx context.Context, filter string, from uint64, fn func(Entry) error) error
	// Tail is Scan that goes on with the entries to come, until ctx ends or fn
	// returns an error, which it returns.
	Tail(ctx context.Context, filter string, from uint64, fn func(Entry) error) error
	// Delete removes one entry. It is ErrNotFound if there is none.
	Delete(ctx context.Context, seq uint64) error
	// PurgeBefore removes the entries that match and come before a sequence.
	PurgeBefore(ctx context.Context, filter string, seq uint64) error
}

// Blobs keeps data that is too large for an entry, by its owner and the hash of
// its content.
type Blobs interface {
	Put(ctx context.Context, owner string, data []byte) (hash string, err error)
	Get(ctx context.Context, owner, hash string) ([]byte, error)
	// Delete removes one. It is no error if there is none.
	Delete(ctx context.Context, owner, hash string) error
}
