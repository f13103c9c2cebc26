package session

import (
	"container/list"
	"sync"
)

// cache keeps the data that was used last, up to max bytes.
//
// A key names the Session too: sequences begin anew if somebody wipes an engine
// elsewhere, and then one alone could be that of another Session's data.
type cache struct {
	max int

	mu   sync.Mutex
	size int
	m    map[place]*list.Element
	used list.List // of *cached, the last used first
}

// place is an entry of the log: the Session's id and the sequence.
type place struct {
	session string
	seq     uint64
}

type cached struct {
	at   place
	data []byte
}

// overhead is about what an entry of the cache takes besides its data.
const overhead = 256

func (c *cache) get(at place) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.m[at]
	if e == nil {
		return nil, false
	}
	c.used.MoveToFront(e)
	return e.Value.(*cached).data, true
}

func (c *cache) put(at place, data []byte) {
	if len(data) > c.max/4 {
		return // it would drive out all that is worth keeping
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[place]*list.Element{}
	}
	if e := c.m[at]; e != nil {
		c.drop(e)
	}
	c.m[at] = c.used.PushFront(&cached{at, data})
	for c.size += len(data) + overhead; c.size > c.max; {
		c.drop(c.used.Back())
	}
}

func (c *cache) forget(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[at]; e != nil {
		c.drop(e)
	}
}

// drop is called with mu held.
func (c *cache) drop(e *list.Element) {
	v := c.used.Remove(e).(*cached)
	c.size -= len(v.data) + overhead
	delete(c.m, v.at)
}
