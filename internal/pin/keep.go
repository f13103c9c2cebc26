package pin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/journal"
)

// What is known of one server is a head and shards of records. The head is
// written last, so that what was begun and not ended is begun again.

// The bounds of what is kept.
const (
	maxText    = 16 << 10 // of one definition
	maxTexts   = 4 << 20  // of all definitions of a server, when they are first seen
	maxShards  = 64
	shardBytes = 128 << 10                 // that a shard is to have at first
	shardLimit = journal.MaxEntry - 16<<10 // that it may have
	maxViewers = 256                       // of one server; beyond them, what a viewer is given is compared with what everybody is
	keepTime   = 10 * time.Second          // for the store to answer
)

// head says how the rest is kept.
type head struct {
	Server  string          `json:"server"`
	Shards  int             `json:"shards"`
	Pinned  map[string]bool `json:"pinned"`  // the kinds that have been seen
	Viewers map[string]bool `json:"viewers"` // kind and viewer, of those that were given a whole list
}

// part is one value: the head, or a shard of the records, by kind and name.
type part struct {
	head    head
	records map[string]*record
}

// decodePart reads a value. A head has shards, and no record has such a name.
func decodePart(data []byte) (p part, err error) {
	err = json.Unmarshal(data, &p.head)
	if err == nil && p.head.Shards == 0 {
		err = json.Unmarshal(data, &p.records)
	}
	return p, err
}

// shard is a part of the records.
type shard struct {
	rev     uint64
	records map[string]*record
}

// known is what is known of one server at a moment, by whichever hub.
type known struct {
	head    head
	headRev uint64
	shards  []shard
}

// kept is where what is known of one server is kept.
type kept struct {
	values *journal.Values[part]
	prefix string // of its keys
}

func recordKey(k catalog.Kind, name string) string { return k.Member() + " " + name }

func prefixOf(server, identity string) string {
	sum := sha256.Sum256([]byte(server))
	id := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:8]) + "." + hex.EncodeToString(id[:8])
}

func (n *known) shardOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % uint32(len(n.shards)))
}

// record returns what is known of a name, or nil.
func (n *known) record(key string) *record {
	if len(n.shards) == 0 {
		return nil
	}
	return n.shards[n.shardOf(key)].records[key]
}

// known is what is known now.
func (k *kept) known() (known, error) {
	p, rev, err := k.part("head")
	n := known{head: p.head, headRev: rev}
	if err == nil {
		n.shards, err = k.read(min(p.head.Shards, maxShards))
	}
	if err != nil {
		return known{}, err
	}
	return n, nil
}

// latest is known with all that was written when it was called. Who is first
// must have it: the head is written last, and may not have been heard of yet.
func (k *kept) latest(ctx context.Context) (known, error) {
	if err := k.values.CatchUp(ctx); err != nil {
		return known{}, err
	}
	return k.known()
}

// part returns one value; one that is not there is empty.
func (k *kept) part(key string) (part, uint64, error) {
	got, err := k.values.Get(k.prefix + "." + key)
	if errors.Is(err, journal.ErrNotFound) {
		return part{}, 0, nil
	}
	if err != nil {
		return part{}, 0, fmt.Errorf("what is kept of its definitions cannot be read: %w", err)
	}
	return got.V, got.Rev, nil
}

// read reads shards.
func (k *kept) read(count int) ([]shard, error) {
	all := make([]shard, count)
	for i := range all {
		p, rev, err := k.part(strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		all[i] = shard{rev, p.records}
	}
	return all, nil
}

// size makes room for records, if there is none yet. What was begun before a
// crash is there already.
func (k *kept) size(n *known, bytes int) (err error) {
	if len(n.shards) == 0 {
		n.shards, err = k.read(min(1+bytes/shardBytes, maxShards))
		n.head.Shards = len(n.shards)
	}
	return err
}

// put makes next the records of their names.
func (k *kept) put(ctx context.Context, n *known, next map[string]*record) error {
	by := map[int]map[string]*record{}
	for key, r := range next {
		i := n.shardOf(key)
		if by[i] == nil {
			by[i] = map[string]*record{}
			maps.Copy(by[i], n.shards[i].records)
		}
		by[i][key] = r
	}
	for _, i := range slices.Sorted(maps.Keys(by)) {
		records := by[i]
		data, err := encodeShard(records)
		if err != nil {
			return err
		}
		rev, err := k.values.PutAfter(ctx, k.prefix+"."+strconv.Itoa(i), data, n.shards[i].rev)
		if err != nil {
			return err
		}
		n.shards[i] = shard{rev: rev, records: records}
	}
	return nil
}

// encodeShard writes records; where they are too long for one entry, without the
// texts that differences are shown by.
func encodeShard(records map[string]*record) ([]byte, error) {
	data, err := json.Marshal(records)
	if err != nil || len(data) <= shardLimit {
		return data, err
	}
	short := make(map[string]*record, len(records))
	for key, r := range records {
		c := *r
		c.Pins = append([]pinned(nil), r.Pins...)
		for i := range c.Pins {
			c.Pins[i].Text = nil
		}
		short[key] = &c
	}
	if data, err = json.Marshal(short); err == nil && len(data) > shardLimit {
		err = fmt.Errorf("more definitions of the server have been seen than can be kept")
	}
	return data, err
}

// putHead writes the head.
func (k *kept) putHead(ctx context.Context, n *known, next head) error {
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	rev, err := k.values.PutAfter(ctx, k.prefix+".head", data, n.headRev)
	if err == nil {
		n.head, n.headRev = next, rev
	}
	return err
}

// with is the head with more in it.
func (h head) with(kind catalog.Kind, viewer string) head {
	next := h
	next.Pinned, next.Viewers = maps.Clone(h.Pinned), maps.Clone(h.Viewers)
	if next.Pinned == nil {
		next.Pinned = map[string]bool{}
	}
	if next.Viewers == nil {
		next.Viewers = map[string]bool{}
	}
	if viewer == "" {
		next.Pinned[kind.Member()] = true
	} else {
		next.Viewers[kind.Member()+" "+viewer] = true
	}
	return next
}

// knows reports whether a viewer was given the whole list before, or counts as
// if it was because there are too many.
func (h *head) knows(kind catalog.Kind, viewer string) bool {
	return viewer == "" || h.Viewers[kind.Member()+" "+viewer] || len(h.Viewers) >= maxViewers*3
}

// tries is how often it is decided again: who pins a server as another hub does
// may come second with each shard.
const tries = 2 * maxShards

// retry does what may meet a change by another hub: then it is decided again, on
// the latest. It returns what is known after it.
func (k *kept) retry(ctx context.Context, f func(n *known) error) (n known, err error) {
	for range tries {
		if n, err = k.known(); err != nil {
			return n, err
		}
		if err = f(&n); err == nil {
			return n, nil
		}
		if _, conflict := errors.AsType[*journal.Conflict](err); !conflict {
			return n, err
		}
		if err := k.values.CatchUp(ctx); err != nil {
			return n, err
		}
	}
	return n, err
}
