// Package connection owns what the hubs on one store know together of legacy
// clients' connections (what Mcp-Session-Id names): which there are, what it takes
// to take each up, and which process has it.
//
// One process has a connection at a time. The others pass its requests on, and when
// that process is gone whoever gets the next request takes the connection: of
// several that try at once one does. What is kept is encrypted, and found only by
// who knows the connection's id.
//
// The package does not speak to clients, and does not know whether a process is
// there.
package connection

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
	"time"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/vault"
)

// Record is one connection.
type Record struct {
	Process string `json:"process"` // which has it
	Hub     string `json:"hub"`     // its hub's id, for people

	Scope   string `json:"scope"`             // the face it was made on
	Session string `json:"session,omitempty"` // the Session that it named

	// Whose it is: only the same principal, come in the same way, may use it.
	Principal string `json:"principal"`
	Via       string `json:"via"`
	Token     string `json:"token,omitempty"`

	// What its client said. None of it is there of a connection that cannot be
	// taken up, since it ends with the stream on which it was opened.
	Version      string          `json:"version,omitempty"`
	Info         json.RawMessage `json:"info,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Level        string          `json:"level,omitempty"` // of the logs that it wants
	URIs         []string        `json:"uris,omitempty"`  // the resources that it is subscribed to

	Until time.Time `json:"until"` // when it ends, if it is not kept longer
	Entry string    `json:"entry"` // random: no two entries are alike
}

// Options say how connections are kept.
type Options struct {
	Life   time.Duration // of a connection that nobody keeps; 0 means a day
	Logger *slog.Logger  // nil discards
	// Moved is told that another process has a connection now that this process
	// had as Mine says. Optional; must not block.
	Moved func(id string)
}

// Book holds the connections.
type Book struct {
	o      Options
	self   string
	names  []byte
	values *journal.Values[Record]
	mine   mine
}

const bucketName = "connections"

// slack is by how much the clocks of hubs may differ.
const slack = 10 * time.Second

// Open reads the connections that there are, for a process of that name.
func Open(ctx context.Context, st *store.Store, key *vault.Key, process string, o Options) (*Book, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Life <= 0 {
		o.Life = 24 * time.Hour
	}
	b := &Book{o: o, self: process, names: key.Derive("ids of connections")}
	log, subjects, err := st.ValuesLog(ctx, store.BucketOptions{Name: bucketName})
	if err != nil {
		return nil, fmt.Errorf("open the connections of clients: %w", err)
	}
	b.values, err = journal.OpenValues(ctx, key.Log(log), journal.ValuesOptions[Record]{
		Options: journal.Options{Logger: o.Logger}, Subjects: subjects,
		Decode:  func(data []byte) (r Record, err error) { return r, json.Unmarshal(data, &r) },
		Expired: func(r Record, now time.Time) bool { return now.After(r.Until.Add(slack)) },
		Changed: b.changed,
	})
	if err != nil {
		return nil, fmt.Errorf("read the connections of clients: %w", err)
	}
	return b, nil
}

// Close ends what goes on behind. The connections stay.
func (b *Book) Close() { b.values.Close() }

// key stands for an id in the store, where nobody is to read it.
func (b *Book) key(id string) string {
	h := hmac.New(sha256.New, b.names)
	h.Write([]byte(id))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Find is the latest of a connection, and its revision. ok is false if there is
// no such connection.
func (b *Book) Find(ctx context.Context, id string) (r Record, rev uint64, ok bool, err error) {
	v, err := b.values.Latest(ctx, b.key(id))
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return Record{}, 0, false, nil
	case err != nil:
		return Record{}, 0, false, fmt.Errorf("look a connection up: %w", err)
	}
	return v.V, v.Rev, true, nil
}

// Known is Find as far as it is known here, without asking the store. What it says
// may be a moment old.
func (b *Book) Known(id string) (Record, bool) {
	v, err := b.values.Get(b.key(id))
	return v.V, err == nil
}

// Mine reports whether this process has the connection, as far as is known here.
func (b *Book) Mine(r *Record) bool { return r.Process == b.self }

// Put keeps what a connection of this process is.
func (b *Book) Put(ctx context.Context, id string, r Record) error {
	b.mine.add(b.key(id), id)
	return b.put(ctx, id, r, func(key string, data []byte) error {
		_, err := b.values.Put(ctx, key, data)
		return err
	})
}

// Take has this process have a connection that it knows in that revision. It is a
// *journal.Conflict if another was first.
func (b *Book) Take(ctx context.Context, id string, r Record, rev uint64) error {
	b.mine.add(b.key(id), id)
	err := b.put(ctx, id, r, func(key string, data []byte) error {
		_, err := b.values.PutAfter(ctx, key, data, rev)
		return err
	})
	if err != nil {
		b.mine.remove(b.key(id))
	}
	return err
}

func (b *Book) put(_ context.Context, id string, r Record, write func(key string, data []byte) error) error {
	r.Process, r.Until, r.Entry = b.self, time.Now().Add(b.o.Life).UTC(), rand.Text()
	data, err := json.Marshal(&r)
	if err != nil {
		return fmt.Errorf("keep a connection: %w", err)
	}
	if err := write(b.key(id), data); err != nil {
		return fmt.Errorf("keep a connection: %w", err)
	}
	return nil
}

// Prolong has connections of this process last, of which half their life is over.
func (b *Book) Prolong(ctx context.Context, ids []string) {
	for _, id := range ids {
		v, err := b.values.Get(b.key(id))
		if err != nil || !b.Mine(&v.V) || time.Until(v.V.Until) > b.o.Life/2 {
			continue
		}
		if err := b.Take(ctx, id, v.V, v.Rev); err != nil {
			b.o.Logger.Debug("a connection could not be kept for longer", "err", err)
		}
	}
}

// Remove forgets a connection, unless another process has it.
func (b *Book) Remove(ctx context.Context, id string) error {
	key := b.key(id)
	b.mine.remove(key)
	v, err := b.values.Get(key)
	if err != nil || !b.Mine(&v.V) {
		return nil
	}
	if err := b.values.RemoveAfter(ctx, key, v.Rev); err != nil {
		return fmt.Errorf("forget a connection: %w", err)
	}
	return nil
}

// changed tells of connections of this process that another has taken.
func (b *Book) changed(key string, now *Record) {
	if now == nil || b.Mine(now) || b.o.Moved == nil {
		return
	}
	if id, ok := b.mine.remove(key); ok {
		b.o.Moved(id)
	}
}
