package call

import (
	"container/list"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
)

// Bounds of the cache where the config says nothing, and of one result in it.
const (
	cacheEntries = 4096
	cacheBytes   = 64 << 20
	cacheLargest = 8 // the share of the bytes that one result may take, as its denominator
	cacheCost    = 256
)

// cache holds results of calls for as long as they may be reused. What was not
// used for longest makes room for what is new.
type cache struct {
	mu      sync.Mutex
	entries int // bounds
	bytes   int
	held    int        // bytes
	order   *list.List // of *cached, what was used last first
	by      map[cacheKey]*list.Element
}

// cacheKey is a hash of everything that a result may depend on.
type cacheKey [32]byte

// cached is one result.
type cached struct {
	key    cacheKey
	result []byte
	born   time.Time // when the server gave it
	ends   time.Time
}

func (e *cached) cost() int { return len(e.result) + cacheCost }

func newCache() *cache {
	return &cache{entries: cacheEntries, bytes: cacheBytes, order: list.New(), by: map[cacheKey]*list.Element{}}
}

// bound changes the bounds; 0 means those where nothing is said.
func (c *cache) bound(entries, bytes int) {
	if entries == 0 {
		entries = cacheEntries
	}
	if bytes == 0 {
		bytes = cacheBytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries, c.bytes = entries, bytes
	c.shrink()
}

// get returns the result of a key; nil if there is none. It is not to be changed.
func (c *cache) get(k cacheKey, now time.Time) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.by[k]
	if at == nil {
		return nil
	}
	e := at.Value.(*cached)
	if elapsed.Past(e.ends, now) {
		c.drop(at)
		return nil
	}
	c.order.MoveToFront(at)
	return e
}

// put keeps a result, whose bytes are the cache's from now on.
func (c *cache) put(e *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.by[e.key]; old != nil {
		c.drop(old)
	}
	c.by[e.key] = c.order.PushFront(e)
	c.held += e.cost()
	c.shrink()
}

// fits reports whether a result of that size is kept at all.
func (c *cache) fits(size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return size+cacheCost <= c.bytes/cacheLargest
}

// shrink is called with mu held.
func (c *cache) shrink() {
	for c.order.Len() > c.entries || c.held > c.bytes {
		c.drop(c.order.Back())
	}
}

// drop is called with mu held.
func (c *cache) drop(at *list.Element) {
	e := c.order.Remove(at).(*cached)
	delete(c.by, e.key)
	c.held -= e.cost()
}

// figures are how many results there are, and how many bytes they take.
func (c *cache) figures() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len(), c.held
}
