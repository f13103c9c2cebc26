package session

import (
	"container/list"
	"sync"
)

// cache keeps the data that was used last, up to max bytes.
type cache struct {
	max int

	mu   sync.Mutex
	size int
	m    map[uint64]*list.Element // by the sequence of the entry
	used list.List                // of *cached, the last used first
}

type cached struct {
	seq  uint64
	data []byte
}

func (c *cache) get(seq uint64) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.m[seq]
	if e == nil {
		return nil, false
	}
	c.used.MoveToFront(e)
	return e.Value.(*cached).data, true
}

func (c *cache) put(seq uint64, data []byte) {
	if len(data) > c.max/4 {
		return // it would drive out all that is worth keeping
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[uint64]*list.Element{}
	}
	if c.m[seq] != nil {
		return
	}
	c.m[seq] = c.used.PushFront(&cached{seq, data})
	for c.size += len(data); c.size > c.max; {
		c.drop(c.used.Back())
	}
}

func (c *cache) forget(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[seq]; e != nil {
		c.drop(e)
	}
}

// drop is called with mu held.
func (c *cache) drop(e *list.Element) {
	v := c.used.Remove(e).(*cached)
	c.size -= len(v.data)
	delete(c.m, v.seq)
}
