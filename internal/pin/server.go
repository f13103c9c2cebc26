package pin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/suspect"
	"github.com/stoahub/stoa/internal/wire"
)

// Unlisted is the digest of a definition that the hub has never been given.
const Unlisted = "unlisted"

// ServerOptions say how the definitions of a server are judged.
type ServerOptions struct {
	Name     string
	Identity string // of what is configured by the name: another program is another server
	Mode     Mode   // "" means Announce
	Trust    bool   // the annotations of accepted definitions count
}

// Server judges the definitions of one server.
type Server struct {
	book   *Book
	o      ServerOptions
	prefix string // of the keys of what is kept

	enter  sync.Once   // into the book
	varied atomic.Bool // some viewer was given what the hub was not
	stale  atomic.Bool // more is known than when passed was filled
	holds  atomic.Bool // a template is held

	kept kept

	mu      sync.Mutex
	current map[string]*catalog.Item       // what the hub was given last, by kind and name
	seen    map[string]*view               // what viewers were given last, by viewer, kind and name
	told    map[string]notice              // what was announced
	held    []*catalog.Item                // templates
	passed  map[[32]byte]*catalog.Standing // of definitions as they were given to viewers
	flags   map[string][]suspect.Flag      // by digest: what is suspicious about a definition by itself
}

// view is a definition that a viewer was given.
type view struct {
	viewer   string
	kind     catalog.Kind
	name     string
	standing *catalog.Standing
}

// The bounds of what is in memory.
const (
	maxSeen   = 4096
	maxPassed = 16384
)

func newServer(b *Book, o ServerOptions) *Server {
	if o.Mode == "" {
		o.Mode = Announce
	}
	prefix := prefixOf(o.Name, o.Identity)
	return &Server{book: b, o: o, prefix: prefix, kept: kept{b.values, prefix},
		current: map[string]*catalog.Item{}, seen: map[string]*view{}, told: map[string]notice{}, passed: map[[32]byte]*catalog.Standing{}, flags: map[string][]suspect.Flag{}}
}

// Mode is what becomes of definitions that are not accepted.
func (s *Server) Mode() Mode { return s.o.Mode }

// pinnable reports whether definitions of a kind are pinned.
func pinnable(k catalog.Kind) bool { return k != catalog.Resource }

// Review judges the definitions that the hub itself was given, and returns
// copies that have their standing. The first that a server has of a kind are
// accepted. What is remembered of them is durable when it returns; if that
// cannot be, none is accepted and the error says why.
func (s *Server) Review(k catalog.Kind, items []*catalog.Item) ([]*catalog.Item, error) {
	if !pinnable(k) {
		return items, nil
	}
	s.enter.Do(func() { s.book.enter(s) })
	digests := make([]string, len(items))
	for i, it := range items {
		if it.Standing != nil { // it was reviewed before
			digests[i] = it.Standing.Digest
		} else {
			digests[i] = catalog.Digest(it.Raw)
		}
	}
	names := s.book.names()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	n, err := s.kept.retry(ctx, func(n *known) error { return s.first(ctx, n, k, items, digests) })
	out := make([]*catalog.Item, len(items))
	var news []Change
	next := map[string]*catalog.Item{}
	for i, it := range items {
		st := s.stand(&n, k, it.Name, it.Raw, digests[i], err, names)
		out[i] = it.Reviewed(st, s.o.Trust && st.State == catalog.Accepted)
		key := recordKey(k, it.Name)
		if next[key] == nil { // one that is said twice is offered as the first
			next[key] = out[i]
		}
		if s.announce(key, st) {
			news = append(news, changeOf(out[i].Exposed, s.o.Name, "", k, it.Name, st))
		}
	}
	s.keep(k, next)
	if len(news) > 0 && err == nil {
		s.book.announce(news)
	}
	return out, err
}

// keep makes next what the hub was given last of a kind. Called with mu held.
func (s *Server) keep(k catalog.Kind, next map[string]*catalog.Item) {
	for key, it := range s.current {
		if it.Kind == k {
			delete(s.current, key)
		}
	}
	for key, it := range next {
		s.current[key] = it
	}
	if k == catalog.Template {
		s.held = nil
		for _, it := range next {
			if it.Standing.Held() {
				s.held = append(s.held, it)
			}
		}
		s.holds.Store(len(s.held) > 0)
	}
	clear(s.passed)
}

// first pins what a server has first of a kind. An empty list says nothing: some
// servers fill theirs a moment later. Called with mu held.
func (s *Server) first(ctx context.Context, n *known, k catalog.Kind, items []*catalog.Item, digests []string) error {
	if len(items) == 0 || n.head.Pinned[k.Member()] {
		return nil
	}
	var err error
	if *n, err = s.kept.latest(ctx); err != nil || n.head.Pinned[k.Member()] {
		return err
	}
	now := time.Now().UTC()
	size, texts := sizeOf(slices.Values(items))
	if err := s.kept.size(n, size); err != nil {
		return err
	}
	next := map[string]*record{}
	for i, it := range items {
		key := recordKey(k, it.Name)
		r := next[key]
		if r == nil {
			r = n.record(key)
		}
		if p := r.find(digests[i]); p != nil && p.State != variant {
			continue // another hub was quicker, or it was rejected before anything was pinned of its kind
		}
		p := pinned{Digest: digests[i], State: accepted, At: now}
		if texts {
			p.Text = textOf(it.Raw)
		}
		next[key] = r.with(p)
	}
	if err := s.kept.put(ctx, n, next); err != nil {
		return err
	}
	h := n.head.with(k, "")
	h.Server = s.o.Name
	return s.kept.putHead(ctx, n, h)
}

// sizeOf is about how many bytes the records of definitions take, and whether
// that is with their texts.
func sizeOf(items iter.Seq[*catalog.Item]) (size int, texts bool) {
	count, text := 0, 0
	for it := range items {
		count++
		text += min(len(it.Raw), maxText)
	}
	if texts = text <= maxTexts; texts {
		size = text
	}
	return size + count*200, texts
}

// textOf is a definition as it is kept, unless it is too long or of no use for
// showing how it changed.
func textOf(raw []byte) []byte {
	if len(raw) > maxText || wire.Valid(raw, wire.FromClient) != nil {
		return nil
	}
	return raw
}

// stand is the standing of a definition that the hub was given. Called with mu
// held.
func (s *Server) stand(n *known, k catalog.Kind, name string, raw []byte, digest string, err error, names *suspect.Names) *catalog.Standing {
	st := &catalog.Standing{Digest: digest, State: catalog.Unchecked, Flags: s.suspect(k, name, raw, digest, names)}
	if err == nil {
		r := n.record(recordKey(k, name))
		st.State, _ = r.judge(digest, viewing{known: true})
		s.fill(st, r)
	}
	st.Hold = s.hold(k, st)
	if st.Before != nil || st.Open() {
		st.After = raw
	}
	return st
}

// fill says since when a definition is accepted, or what was before it.
func (s *Server) fill(st *catalog.Standing, r *record) {
	if st.State == catalog.Accepted {
		if p := r.find(st.Digest); p != nil {
			st.Since, st.By = p.At, p.By
		}
	}
	st.Before = r.before(st.Digest)
}

// hold says why a definition cannot be called; "" if it can.
func (s *Server) hold(k catalog.Kind, st *catalog.Standing) string {
	switch {
	case st.State == catalog.Rejected:
		return "its definition was rejected by the hub's owner, and no other has been accepted since"
	case s.o.Mode != Quarantine:
		return ""
	case st.State == catalog.Changed:
		return "its definition has changed, and nobody has accepted the new one yet"
	case st.State == catalog.Added:
		return fmt.Sprintf("the server offers this %s since after it was configured, and nobody has accepted it yet", k)
	case st.State == catalog.Unchecked:
		return "whether its definition is the one that was accepted cannot be found out now"
	case st.Open():
		return "its definition is suspicious, and nobody has accepted it yet" // why it is would repeat the text to a model
	}
	return ""
}

// suspect says what is suspicious about a definition. Called with mu held.
func (s *Server) suspect(k catalog.Kind, name string, raw []byte, digest string, names *suspect.Names) []suspect.Flag {
	texts := textsOf(raw)
	own, ok := s.flags[digest]
	if !ok {
		own = suspect.Texts(name, texts)
		if len(s.flags) > maxPassed {
			clear(s.flags)
		}
		s.flags[digest] = own
	}
	if k != catalog.Tool {
		name = ""
	}
	return append(own[:len(own):len(own)], names.Against(s.o.Name, name, texts)...)
}

// notice is when a definition of some name was announced last.
type notice struct {
	mark string // of the definition
	n    int    // how often
	at   time.Time
}

// A server that changes a definition all the time is announced a few times, and
// then once in a while.
const (
	fewNotices  = 5
	noticeEvery = time.Minute
)

// announce reports whether a definition is to be announced: it is open, and was
// not announced before. Called with mu held.
func (s *Server) announce(key string, st *catalog.Standing) bool {
	if !st.Open() {
		if last, ok := s.told[key]; ok {
			last.mark = ""
			s.told[key] = last
		}
		return false
	}
	last, now := s.told[key], notice{mark: st.Digest + string(st.State), at: time.Now()}
	if last.mark == now.mark || last.n >= fewNotices && now.at.Sub(last.at) < noticeEvery {
		return false
	}
	now.n = last.n + 1
	s.told[key] = now
	return true
}

// Varied reports whether some viewer was given what the hub was not, so that it
// is worth looking whether a client was.
func (s *Server) Varied() bool { return s.varied.Load() }

// Current is the digest of what the hub was given last by a name; "" if it is
// not offered now.
func (s *Server) Current(k catalog.Kind, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.current[recordKey(k, name)]; it != nil {
		return it.Standing.Digest
	}
	return ""
}

// Reading is the standing of the template by which a URI would be read, if it is
// held; else nil.
func (s *Server) Reading(uri string) *catalog.Standing {
	if !s.holds.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.held {
		if it.Matches(uri) {
			return it.Standing
		}
	}
	return nil
}

// mark names a definition as a viewer was given it.
func mark(viewer string, k catalog.Kind, raw []byte) [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", k, viewer)
	h.Write(raw)
	return [32]byte(h.Sum(nil))
}

func viewKey(viewer string, k catalog.Kind, name string) string {
	return strings.Join([]string{viewer, recordKey(k, name)}, "\n")
}
