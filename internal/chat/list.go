package chat

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/session"
)

// Brief is a conversation in a list.
type Brief struct {
	Session string    `json:"sessionId"`
	Title   string    `json:"title"` // how the first message begins
	Updated time.Time `json:"updated"`
	Seq     uint64    `json:"seq"`
	Turn    string    `json:"turn,omitempty"` // that runs
	Queued  int       `json:"queued,omitempty"`
}

const titleRunes = 80

// List returns the conversations of a principal in which something was said,
// the last used first, at most max; more says that there are others. To be
// listed does not keep a conversation from being forgotten.
func (e *Engine) List(principal string, max int) (list []Brief, more bool) {
	all := e.all()
	slices.SortFunc(all, func(a, b *Conversation) int {
		return cmp.Or(cmp.Compare(b.used.Load(), a.used.Load()), strings.Compare(a.id, b.id))
	})
	for _, c := range all {
		if who, _ := c.owner(); who != nil && who.Name != principal {
			continue
		}
		st, err := c.Peek()
		if err != nil || st.Seq == 0 || st.Principal != principal {
			continue // it is over, empty, or another's; one that cannot be read is told of by whoever opens it
		}
		if len(list) == max {
			return list, true
		}
		list = append(list, st.Brief())
	}
	return list, false
}

// Key is what the Session of a conversation is found by.
type Key struct{ Principal, Session string }

// Keys returns whose the conversations are in which something was said.
func (e *Engine) Keys(pass func(principal string) bool) (keys []Key) {
	for _, c := range e.all() {
		if k := c.key(); k.Principal != "" && pass(k.Principal) {
			keys = append(keys, k)
		}
	}
	return keys
}

// Find returns the conversation of a Session if something was said in it, or
// nil. To be found does not keep it from being forgotten.
func (e *Engine) Find(principal, name string) *Conversation {
	id := session.ID(principal, name)
	if e.journal.Get(id) == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.convs[id]
}

// key is the zero value if nothing was said, or what was cannot be read.
func (c *Conversation) key() Key {
	s := c.known()
	if s.seq == 0 || s.principal != "" {
		return Key{s.principal, s.session}
	}
	c.e.mu.Lock()
	k := c.whose
	c.e.mu.Unlock()
	if k != (Key{}) {
		return k
	}
	st, err := c.Peek() // its first input is a blob
	if err != nil {
		return Key{}
	}
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.whose = Key{st.Principal, st.Session}
	if c.name == "" {
		c.name = st.Session
	}
	return c.whose
}

// Began and Used are when the first thing was said in the conversation, and
// when it was used last.
func (c *Conversation) Began() time.Time { return c.known().began }

func (c *Conversation) Used() time.Time { return time.Unix(0, c.used.Load()).UTC() }

// Peek returns what is known here of what the conversation has come to, which is
// no use of it.
func (c *Conversation) Peek() (State, error) {
	used := c.used.Load()
	st, err := c.state()
	if touched := c.used.Load(); touched > used && c.unused() {
		c.used.CompareAndSwap(touched, used)
	}
	return st, err
}

// Brief is how the conversation is listed.
func (s *State) Brief() Brief {
	b := Brief{Session: s.Session, Updated: s.Updated, Seq: s.Seq, Queued: len(s.Queue)}
	first := ""
	switch i := slices.IndexFunc(s.Messages, func(m Message) bool { return m.Role == llm.User }); {
	case i >= 0:
		first = s.Messages[i].Text()
	case s.Turn != nil:
		first = s.Turn.Input.Text
	case len(s.Queue) > 0:
		first = s.Queue[0].Text
	}
	if s.Turn != nil {
		b.Turn = s.Turn.ID
	}
	words := []rune(strings.Join(strings.Fields(first), " "))
	if len(words) > titleRunes {
		words = append(words[:titleRunes-1], '…')
	}
	b.Title = string(words)
	return b
}
