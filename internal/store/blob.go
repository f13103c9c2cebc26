package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// chunkSize is what of a blob goes into one message.
const chunkSize = MaxEntry

// Blobs holds large values, each by its owner and the SHA-256 of its content.
//
// A blob of one chunk is one message. A larger one is its chunks, on a subject
// of whoever writes them, and then, as the last message of the blob's own
// subject, the list of their sequences; so a blob is there if and only if its
// subject ends with such a message, and one whose writer died is not there. Two
// that write the same do not touch each other's chunks: the second to end finds
// the blob there and removes its own.
type Blobs struct {
	l         *Log
	abandoned time.Duration

	mu      sync.Mutex
	writing map[string]chan struct{} // subjects being written by this process; closed when done
}

// Blobs opens a store of blobs, making it if it is not there. Its messages
// have the subjects name.owner.hash.
func (s *Store) Blobs(ctx context.Context, name string) (*Blobs, error) {
	l, err := s.Log(ctx, LogOptions{Name: name, Subjects: []string{name + ".>"}})
	if err != nil {
		return nil, err
	}
	return &Blobs{l: l, abandoned: abandoned, writing: map[string]chan struct{}{}}, nil
}

func (b *Blobs) subject(owner, hash string) (string, error) {
	if err := checkName("owner", owner); err != nil {
		return "", fmt.Errorf("blobs %s: %w", b.l.name, err)
	}
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("blobs %s: %q is no SHA-256 in hexadecimal", b.l.name, hash)
	}
	return b.l.name + "." + owner + "." + hash, nil
}

// Put stores a value for an owner and returns its hash. If the owner has it
// already, nothing is written.
func (b *Blobs) Put(ctx context.Context, owner string, data []byte) (hash string, err error) {
	sum := sha256.Sum256(data)
	hash = hex.EncodeToString(sum[:])
	subject, err := b.subject(owner, hash)
	if err != nil {
		return "", err
	}
	for {
		done, err := b.claim(ctx, subject)
		if err != nil {
			return "", err
		}
		if err = b.write(ctx, subject, data); err == nil {
			done()
			return hash, nil
		}
		done()
		if _, ok := errors.AsType[*Conflict](err); !ok {
			return "", fmt.Errorf("store blob %s of %s: %w", hash, owner, err)
		}
		// Another process writes the same; see how far it came.
		if err := wait(ctx, b.l.s.ctx, 20*time.Millisecond+time.Duration(time.Now().UnixNano()%int64(80*time.Millisecond))); err != nil {
			return "", err
		}
	}
}

// claim waits until nobody else in this process writes the blob.
func (b *Blobs) claim(ctx context.Context, subject string) (done func(), err error) {
	for {
		b.mu.Lock()
		busy := b.writing[subject]
		if busy == nil {
			mine := make(chan struct{})
			b.writing[subject] = mine
			b.mu.Unlock()
			return func() {
				b.mu.Lock()
				delete(b.writing, subject)
				b.mu.Unlock()
				close(mine)
			}, nil
		}
		b.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// headerBlob marks the message that completes a blob, with the blob's size.
// Chunks have it too, saying that they are parts. headerParts says that the
// message lists chunks, and where they are: below the blob's subject, or, in the
// way of old, on it.
const (
	headerBlob  = "Stoa-Blob"
	headerParts = "Stoa-Parts"
	part        = "part"
	partsHere   = "1"
)

func (b *Blobs) write(ctx context.Context, subject string, data []byte) error {
	there, last, err := b.look(ctx, subject)
	if there != nil || err != nil {
		return err
	}
	header := nats.Header{headerBlob: {strconv.Itoa(len(data))}}
	if len(data) <= chunkSize {
		_, err := b.append(ctx, subject, data, last, header)
		return err
	}
	if last, err = b.clear(ctx, subject, last); err != nil {
		return err
	}
	own := strings.ToLower(rand.Text())
	at := subject + "." + own
	seqs, err := b.chunks(ctx, at, data)
	if err != nil {
		b.forget(ctx, at)
		return err
	}
	header.Set(headerParts, own)
	_, err = b.append(ctx, subject, seqs, last, header)
	if _, ok := errors.AsType[*Conflict](err); !ok {
		return err // if it is not known whether it was stored, the chunks may be needed
	}
	switch there, _, again := b.look(ctx, subject); {
	case again != nil:
	case there != nil && there.at == at:
		return nil // it was stored, and only the answer lost
	default:
		b.forget(ctx, at)
	}
	return err
}

// chunks writes the chunks of a blob and returns the list of their sequences.
func (b *Blobs) chunks(ctx context.Context, at string, data []byte) (seqs []byte, err error) {
	var last uint64
	for chunk := range slices.Chunk(data, chunkSize) {
		seq, err := b.append(ctx, at, chunk, last, nats.Header{headerBlob: {part}})
		if err != nil {
			return nil, err
		}
		seqs = binary.AppendUvarint(seqs, seq-last)
		last = seq
	}
	return seqs, nil
}

// abandoned is how old the last chunk is of somebody who does not write any
// more.
const abandoned = time.Minute

// clear removes chunks that writers left who died, so that they do not pile up
// where a blob is tried again and again. One who only slept must not complete a
// blob whose chunks are gone: its place is taken first. It returns what the
// message that completes the blob is to follow.
func (b *Blobs) clear(ctx context.Context, subject string, last uint64) (uint64, error) {
	e, err := b.l.Last(ctx, subject+".*")
	if errors.Is(err, ErrNotFound) || err == nil && time.Since(e.Time) < b.abandoned {
		return last, nil
	}
	if err != nil {
		return 0, err
	}
	if last, err = b.append(ctx, subject, nil, last, nats.Header{headerBlob: {part}}); err != nil {
		return 0, err
	}
	return last, b.l.PurgeBefore(ctx, subject+".*", e.Seq+1)
}

// forget removes chunks that no blob will list. If that fails they go with
// their owner, or are cleared.
func (b *Blobs) forget(ctx context.Context, at string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.l.s.o.Timeout)
	defer cancel()
	_ = b.l.Purge(ctx, at)
}

// append writes the next message of a blob, if it is still ours.
func (b *Blobs) append(ctx context.Context, subject string, data []byte, expect uint64, header nats.Header) (uint64, error) {
	return b.l.expecting(ctx, &nats.Msg{Subject: subject, Data: data, Header: header}, expect)
}

// whole is a blob that is there.
type whole struct {
	size  int64
	data  []byte   // if it has one chunk
	parts []uint64 // the sequences of its chunks, if it has more
	at    string   // the subject of these
}

// look returns the blob of a subject; or nil if there is none, and what the
// message that completes it is to follow.
func (b *Blobs) look(ctx context.Context, subject string) (w *whole, last uint64, err error) {
	e, header, err := b.l.s.get(ctx, b.l.name, "read blob "+subject, getRequest{Last: subject})
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	mark := header.Get(headerBlob)
	if mark == part {
		return nil, e.Seq, nil
	}
	w = &whole{at: subject}
	if w.size, err = strconv.ParseInt(mark, 10, 64); err != nil {
		return nil, 0, fmt.Errorf("read blob %s: %w: its end has no size: %w", subject, ErrLost, err)
	}
	switch own := header.Get(headerParts); own {
	case "":
		w.data = e.Data
		return w, 0, nil
	case partsHere:
	default:
		w.at += "." + own
	}
	for seq, rest := uint64(0), e.Data; len(rest) > 0; {
		d, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, 0, fmt.Errorf("read blob %s: %w: its list of chunks cannot be read", subject, ErrLost)
		}
		seq, rest = seq+d, rest[n:]
		w.parts = append(w.parts, seq)
	}
	return w, 0, nil
}

func (b *Blobs) complete(ctx context.Context, subject string) (*whole, error) {
	w, last, err := b.look(ctx, subject)
	switch {
	case err != nil:
		return nil, err
	case w != nil:
		return w, nil
	case last != 0:
		return nil, fmt.Errorf("read blob %s: %w: it was never completed", subject, ErrNotFound)
	}
	return nil, fmt.Errorf("read blob %s: %w", subject, ErrNotFound)
}

// Get returns a blob and has checked its hash.
func (b *Blobs) Get(ctx context.Context, owner, hash string) ([]byte, error) {
	subject, err := b.subject(owner, hash)
	if err != nil {
		return nil, err
	}
	w, err := b.complete(ctx, subject)
	if err != nil {
		return nil, err
	}
	data, err := b.read(ctx, subject, w)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("read blob %s: %w: its content has another hash", subject, ErrLost)
	}
	return data, nil
}

func (b *Blobs) read(ctx context.Context, subject string, w *whole) ([]byte, error) {
	if w.parts == nil {
		if int64(len(w.data)) != w.size {
			return nil, fmt.Errorf("read blob %s: %w", subject, ErrLost)
		}
		return w.data, nil
	}
	if want := (w.size + chunkSize - 1) / chunkSize; int64(len(w.parts)) != want {
		return nil, fmt.Errorf("read blob %s: %w: it has %d chunks", subject, ErrLost, len(w.parts))
	}
	out := make([]byte, 0, w.size)
	for i, seq := range w.parts {
		e, err := b.l.Read(ctx, seq)
		if err != nil {
			return nil, fmt.Errorf("read blob %s: chunk %d: %w", subject, i, err)
		}
		if want := min(chunkSize, w.size-int64(len(out))); e.Subject != w.at || int64(len(e.Data)) != want {
			return nil, fmt.Errorf("read blob %s: %w: chunk %d is not its own", subject, ErrLost, i)
		}
		out = append(out, e.Data...)
	}
	return out, nil
}

// Delete removes one blob of an owner, also one that cannot be read any more.
func (b *Blobs) Delete(ctx context.Context, owner, hash string) error {
	subject, err := b.subject(owner, hash)
	if err != nil {
		return err
	}
	w, _, err := b.look(ctx, subject)
	if errors.Is(err, ErrLost) {
		w, err = &whole{at: subject + ".*"}, nil // nobody knows which chunks were its own, and nobody can complete another
	}
	if err != nil {
		return err
	}
	if err := b.l.Purge(ctx, subject); err != nil || w == nil || w.at == subject {
		return err
	}
	return b.l.Purge(ctx, w.at)
}

// Purge removes all blobs of an owner.
func (b *Blobs) Purge(ctx context.Context, owner string) error {
	if err := checkName("owner", owner); err != nil {
		return fmt.Errorf("blobs %s: %w", b.l.name, err)
	}
	return b.l.Purge(ctx, b.l.name+"."+owner+".>")
}

// Usage asks how much all blobs take.
func (b *Blobs) Usage(ctx context.Context) (Usage, error) { return b.l.Usage(ctx) }
