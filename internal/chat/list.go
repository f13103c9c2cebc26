package chat

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/llm"
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
		st, err := c.peek()
		if err != nil || st.Seq == 0 || st.Principal != principal {
			continue // it is over, empty, or another's; one that cannot be read is told of by whoever opens it
		}
		if len(list) == max {
			return list, true
		}
		list = append(list, st.brief())
	}
	return list, false
}

// peek returns the state and leaves open since when nobody has used it.
func (c *Conversation) peek() (State, error) {
	used := c.used.Load()
	st, err := c.State()
	if touched := c.used.Load(); touched > used && c.unused() {
		c.used.CompareAndSwap(touched, used)
	}
	return st, err
}

func (s *State) brief() Brief {
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
