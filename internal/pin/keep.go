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
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/store"
)

// What is known of one server is a head and shards of records. The head is
// written last, so that what was begun and not ended is begun again.

// The bounds of what is kept.
const (
	maxText    = 16 << 10 // of one definition
	maxTexts   = 4 << 20  // of all definitions of a server, when they are first seen
	maxShards  = 64
	shardBytes = 128 << 10               // that a shard is to have at first
	shardLimit = store.MaxEntry - 16<<10 // that it may have
	maxViewers = 256                     // of one server; beyond them, what a viewer is given is compared with what everybody is
	keepTime   = 10 * time.Second        // for the store to answer
)

// head says how the rest is kept.
type head struct {
	Server  string          `json:"server"`
	Shards  int             `json:"shards"`
	Pinned  map[string]bool `json:"pinned"`  // the kinds that have been seen
	Viewers map[string]bool `json:"viewers"` // kind and viewer, of those that were given a whole list
}

// shard is a part of the records, by kind and name.
type shard struct {
	rev     uint64
	records map[string]*record
}

// kept is what is known of one server.
type kept struct {
	bucket *store.Bucket // nil: in memory only
	prefix string        // of its keys

	loaded  bool
	head    head
	headRev uint64
	shards  []shard
}

func recordKey(k catalog.Kind, name string) string { return k.Member() + " " + name }

func prefixOf(server, identity string) string {
	sum := sha256.Sum256([]byte(server))
	id := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:8]) + "." + hex.EncodeToString(id[:8])
}

func (k *kept) shardOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % uint32(len(k.shards)))
}

// record returns what is known of a name, or nil.
func (k *kept) record(key string) *record {
	if len(k.shards) == 0 {
		return nil
	}
	return k.shards[k.shardOf(key)].records[key]
}

// load reads what is known, unless it is in memory.
func (k *kept) load(ctx context.Context) error {
	if k.loaded {
		return nil
	}
	next := kept{bucket: k.bucket, prefix: k.prefix, loaded: true}
	if k.bucket != nil {
		rev, err := k.read(ctx, "head", &next.head)
		if err != nil {
			return err
		}
		next.headRev = rev
		next.shards = make([]shard, min(next.head.Shards, maxShards))
		for i := range next.shards {
			if next.shards[i], err = k.readShard(ctx, i); err != nil {
				return err
			}
		}
	}
	*k = next
	return nil
}

func (k *kept) readShard(ctx context.Context, i int) (shard, error) {
	s := shard{records: map[string]*record{}}
	rev, err := k.read(ctx, strconv.Itoa(i), &s.records)
	s.rev = rev
	return s, err
}

// read reads one value; one that is not there leaves v as it is.
func (k *kept) read(ctx context.Context, key string, v any) (rev uint64, err error) {
	got, err := k.bucket.Get(ctx, k.prefix+"."+key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(got.Data, v); err != nil {
		return 0, fmt.Errorf("what is kept of its definitions cannot be read: %w", err)
	}
	return got.Rev, nil
}

// write writes one value, if it is as it was read.
func (k *kept) write(ctx context.Context, key string, data []byte, rev uint64) (uint64, error) {
	if rev == 0 {
		return k.bucket.Create(ctx, k.prefix+"."+key, data, 0)
	}
	return k.bucket.Update(ctx, k.prefix+"."+key, data, rev, 0)
}

// size makes room for records, if there is none yet. What was begun before a
// crash is there already.
func (k *kept) size(ctx context.Context, bytes int) error {
	if len(k.shards) > 0 {
		return nil
	}
	shards := make([]shard, min(1+bytes/shardBytes, maxShards))
	for i := range shards {
		shards[i].records = map[string]*record{}
		if k.bucket != nil {
			var err error
			if shards[i], err = k.readShard(ctx, i); err != nil {
				return err
			}
		}
	}
	k.shards, k.head.Shards = shards, len(shards)
	return nil
}

// put makes next the records of their names: durable first, then in memory.
func (k *kept) put(ctx context.Context, next map[string]*record) error {
	by := map[int]map[string]*record{}
	for key, r := range next {
		i := k.shardOf(key)
		if by[i] == nil {
			by[i] = maps.Clone(k.shards[i].records)
		}
		by[i][key] = r
	}
	for i, records := range by {
		data, err := encodeShard(records)
		if err != nil {
			return err
		}
		rev := uint64(0)
		if k.bucket != nil {
			if rev, err = k.write(ctx, strconv.Itoa(i), data, k.shards[i].rev); err != nil {
				return err
			}
		}
		k.shards[i] = shard{rev: rev, records: records}
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
func (k *kept) putHead(ctx context.Context, next head) error {
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if k.bucket != nil {
		rev, err := k.write(ctx, "head", data, k.headRev)
		if err != nil {
			return err
		}
		k.headRev = rev
	}
	k.head = next
	return nil
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

// retry does what may meet a change by another hub: then everything is read
// again and decided again.
func (k *kept) retry(ctx context.Context, f func() error) error {
	var err error
	for range 10 {
		if err = k.load(ctx); err != nil {
			return err
		}
		if err = f(); err == nil {
			return nil
		}
		k.loaded = k.bucket == nil // who knows what of it is in the store
		if _, conflict := errors.AsType[*store.Conflict](err); !conflict {
			return err
		}
	}
	return err
}

// rev is the revision of a part of what is in memory.
func (k *kept) rev(key string) uint64 {
	if key == "head" {
		return k.headRev
	}
	if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(k.shards) {
		return k.shards[i].rev
	}
	return 0
}
