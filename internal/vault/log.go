package vault

import (
	"context"

	"github.com/stoahub/stoa/internal/journal"
)

// Log returns the same log for who is to see entries as they are: what is in it
// is encrypted, each entry under its subject. One that cannot be decrypted is
// handed out as it is, for who reads it to say that it cannot be read: nothing
// that is encrypted can be taken for something that was.
func (k *Key) Log(inner journal.Log) journal.Log { return &log{Log: inner, key: k} }

type log struct {
	journal.Log
	key *Key
}

func (l *log) open(e journal.Entry) journal.Entry {
	if plain, err := l.key.Open(e.Subject, e.Data); err == nil {
		e.Data = plain
	} else if len(e.Data) > 0 { // a bucket's note of an end has none
		e.Data = append([]byte(unread), e.Data...)
	}
	return e
}

// unread begins an entry that could not be decrypted, so that nobody can write
// what would be taken for decrypted.
const unread = "\x01not decrypted:"

func (l *log) each(fn func(journal.Entry) error) func(journal.Entry) error {
	return func(e journal.Entry) error { return fn(l.open(e)) }
}

func (l *log) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	return l.Log.Append(ctx, subject, l.key.Seal(subject, data), expect)
}

func (l *log) Read(ctx context.Context, seq uint64) (journal.Entry, error) {
	e, err := l.Log.Read(ctx, seq)
	return l.open(e), err
}

func (l *log) Last(ctx context.Context, filter string) (journal.Entry, error) {
	e, err := l.Log.Last(ctx, filter)
	return l.open(e), err
}

func (l *log) Scan(ctx context.Context, filter string, from uint64, fn func(journal.Entry) error) error {
	return l.Log.Scan(ctx, filter, from, l.each(fn))
}

func (l *log) Tail(ctx context.Context, filter string, from uint64, fn func(journal.Entry) error) error {
	return l.Log.Tail(ctx, filter, from, l.each(fn))
}

var _ journal.Log = (*log)(nil)
