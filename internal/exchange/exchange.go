// Package exchange owns the last raw exchanges with upstreams, and with clients
// where no upstream had to do with it: what was sent, what was said meanwhile and
// what came back, as the bytes that passed.
//
// A Ring is bounded in bytes, in exchanges and in what it keeps of one message,
// whatever passes and however many look at it: the oldest go first, also those
// that are under way, and a message that is too long is cut and tells its true
// size. Bytes are copied and never read; what nobody is to see is taken out when
// they are looked at, also where it would be cut in two.
//
// It does not decide when it is worth keeping anything, nor who may see it; and
// it keeps nothing across restarts.
package exchange

import (
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// The bounds of a Ring.
const (
	MaxBytes   = 8 << 20  // of all exchanges
	MaxCount   = 4096     // exchanges
	MaxMessage = 64 << 10 // of one message
	slack      = 1 << 10  // kept beyond that, so that what is to be hidden is whole
	maxNotes   = 64 << 10 // of all notifications of one exchange
	maxNote    = 8 << 10  // of one
	maxParts   = 64       // messages of one exchange
	overhead   = 512      // what an exchange takes besides what was said
	each       = 96       // what a message takes besides its text
	maxGone    = 4096     // names of those that are not kept any more
)

// What a message is.
const (
	Asked        = "asked"        // by the client, as it came; only of what did not reach the upstream
	Request      = "request"      // params, as they were sent
	Notification = "notification" // of the upstream, about the request; or to a client
	Question     = "question"     // of the upstream, to the client
	Answer       = "answer"       // to a question
	Result       = "result"       // as it came, or as the hub answered by itself
	Error        = "error"        // of the upstream, as it came
	Fault        = "fault"        // of the hub: why there is no answer
)

// Message is one part of an exchange.
type Message struct {
	What   string `json:"what"`
	Method string `json:"method,omitempty"`
	AtUS   int64  `json:"at_us"` // since the exchange began
	Bytes  int    `json:"bytes"` // all of it
	Cut    bool   `json:"cut,omitempty"`
	Text   string `json:"text"` // the bytes, or the first of them

	most int // of Text, once nothing in it is to be hidden any more
}

// Head is what an exchange is about.
type Head struct {
	Call      string    `json:"call"`
	Method    string    `json:"method"`
	Upstream  string    `json:"upstream"`
	Tool      string    `json:"tool,omitempty"`
	Session   string    `json:"session,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Time      time.Time `json:"time"`
}

// Exchange is one request and what came of it.
type Exchange struct {
	Head
	Done     bool      `json:"done"`
	TookUS   int64     `json:"took_us,omitempty"`
	Kind     string    `json:"kind,omitempty"` // why it failed
	Messages []Message `json:"messages"`
	More     int       `json:"more,omitempty"` // messages that are left out
}

// Ring keeps the last exchanges.
type Ring struct {
	off  atomic.Bool
	hide func(string) string

	mu    sync.Mutex
	by    map[string]*Recording // by call; nil for one that is not kept any more
	kept  []*Recording          // oldest first
	gone  []string              // oldest first
	bytes int
}

// New returns an empty Ring. hide takes out of a text what nobody is to see;
// nil means that all may be seen.
func New(hide func(string) string) *Ring {
	if hide == nil {
		hide = func(s string) string { return s }
	}
	return &Ring{hide: hide, by: map[string]*Recording{}}
}

// Switch says whether anything is kept. What there is goes when it is switched
// off.
func (r *Ring) Switch(on bool) {
	if r.off.Store(!on); on {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.kept {
		c.dropped = true
	}
	r.by, r.kept, r.gone, r.bytes = map[string]*Recording{}, nil, nil, 0
}

// On reports whether anything is kept.
func (r *Ring) On() bool { return !r.off.Load() }

// Recording is an exchange that goes on. A nil one keeps nothing.
type Recording struct {
	ring     *Ring
	x        Exchange
	bytes    int
	notes    int
	answered bool
	dropped  bool
}

// Begin makes room for an exchange; nil if nothing is kept. Time is set if it
// is not.
func (r *Ring) Begin(h Head) *Recording {
	if r == nil || r.off.Load() {
		return nil
	}
	if h.Time.IsZero() {
		h.Time = time.Now()
	}
	c := &Recording{ring: r, x: Exchange{Head: h}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.by[h.Call]; old != nil || r.off.Load() {
		return nil // a name is that of one exchange
	}
	r.by[h.Call] = c
	r.kept = append(r.kept, c)
	r.grow(c, overhead)
	return c
}

// grow counts what c takes more, and lets the oldest go. Called with mu held.
func (r *Ring) grow(c *Recording, n int) {
	c.bytes += n
	r.bytes += n
	for (r.bytes > MaxBytes || len(r.kept) > MaxCount) && len(r.kept) > 1 {
		old := r.kept[0]
		r.kept[0] = nil
		r.kept = r.kept[1:]
		r.bytes -= old.bytes
		old.dropped, old.x.Messages = true, nil
		r.by[old.x.Call] = nil
		r.gone = append(r.gone, old.x.Call)
	}
	for len(r.gone) > maxGone {
		if r.by[r.gone[0]] == nil {
			delete(r.by, r.gone[0])
		}
		r.gone = r.gone[1:]
	}
}

// Add keeps a copy of what was said.
func (c *Recording) Add(what, method string, body []byte) {
	if c == nil {
		return
	}
	r := c.ring
	end := what == Result || what == Error || what == Fault
	r.mu.Lock()
	defer r.mu.Unlock()
	c.answered = c.answered || end
	if c.dropped {
		return
	}
	most := MaxMessage
	if what == Notification {
		most = min(maxNote, maxNotes-c.notes)
	}
	// The last one is what people look for.
	if parts := len(c.x.Messages); parts >= maxParts || parts >= maxParts-1 && !end || what == Notification && most <= 0 {
		c.x.More++
		return
	}
	m := Message{What: what, Method: method, AtUS: time.Since(c.x.Time).Microseconds(), Bytes: len(body), Cut: len(body) > most, most: most}
	m.Text = string(body[:min(len(body), most+slack)])
	if what == Notification {
		c.notes += len(m.Text)
	}
	c.x.Messages = append(c.x.Messages, m)
	r.grow(c, len(m.Text)+each)
}

// whole returns at most n bytes of s, no character in parts.
func whole(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := 0; i < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); i++ {
		n--
	}
	return s[:n]
}

// Answered reports whether it is known what came back.
func (c *Recording) Answered() bool {
	if c == nil {
		return true
	}
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	return c.answered
}

// End says that the exchange is over. What still comes of it is kept too.
func (c *Recording) End(kind string, took time.Duration) {
	if c == nil {
		return
	}
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	c.x.Done, c.x.Kind, c.x.TookUS = true, kind, took.Microseconds()
}

// Found says what is known of an exchange.
type Found int

const (
	Unknown Found = iota // it was not kept
	Gone                 // it is not kept any more
	Kept
)

// Find returns the exchange of a call, as it is now and may be seen.
func (r *Ring) Find(call string) (Exchange, Found) {
	x, found := r.copied(call)
	for i := range x.Messages {
		m := &x.Messages[i]
		m.Text = r.hide(m.Text)
		if m.Cut {
			m.Text = whole(m.Text, m.most)
		}
	}
	return x, found
}

func (r *Ring) copied(call string) (Exchange, Found) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, known := r.by[call]
	switch {
	case c != nil:
		x := c.x
		x.Messages = append([]Message{}, x.Messages...)
		return x, Kept
	case known:
		return Exchange{}, Gone
	}
	return Exchange{}, Unknown
}

// Calls are the names of all that are kept, oldest first.
func (r *Ring) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, len(r.kept))
	for i, c := range r.kept {
		out[i] = c.x.Call
	}
	return out
}

// Bytes is what all of them take.
func (r *Ring) Bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}
