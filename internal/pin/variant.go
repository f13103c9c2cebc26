package pin

import (
	"bytes"
	"context"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/suspect"
)

// Variant judges the definitions that a viewer was given by the server itself,
// and returns a standing for each; nil means that nothing is known yet that they
// could be compared with. whole says that they are the end of a list. The empty
// viewer is one that the server cannot tell from others.
func (s *Server) Variant(viewer string, k catalog.Kind, defs [][]byte, whole bool) []*catalog.Standing {
	out := make([]*catalog.Standing, len(defs))
	if !pinnable(k) {
		return out
	}
	marks := make([][32]byte, len(defs))
	for i, raw := range defs {
		marks[i] = mark(viewer, k, raw)
	}
	s.mu.Lock()
	s.fresh()
	missing := false
	for i := range defs {
		out[i] = s.passed[marks[i]]
		missing = missing || out[i] == nil
	}
	s.mu.Unlock()
	if whole && !missing {
		at, _, err := s.kept.part("head")
		missing = err != nil || !at.head.knows(k, viewer)
	}
	if missing {
		s.review(viewer, k, defs, marks, whole, out)
	}
	return out
}

// fresh judges anew what was judged before more was known. Called with mu held.
func (s *Server) fresh() {
	if !s.stale.Swap(false) {
		return
	}
	clear(s.passed)
	n, err := s.kept.known()
	if err != nil {
		return
	}
	for _, v := range s.seen {
		s.again(&n, v)
	}
}

// review judges what a viewer was given and has not been judged before.
func (s *Server) review(viewer string, k catalog.Kind, defs [][]byte, marks [][32]byte, whole bool, out []*catalog.Standing) {
	names := s.book.names()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	digests, owned := make([]string, len(defs)), make([]string, len(defs))
	for i, raw := range defs {
		digests[i] = catalog.Digest(raw)
		if it, err := catalog.Parse(k, s.o.Name, raw); err == nil {
			owned[i] = it.Name
		}
	}
	n, err := s.kept.retry(ctx, func(n *known) error { return s.firstFor(ctx, n, viewer, k, defs, owned, digests, whole) })
	if err == nil && !n.head.Pinned[k.Member()] {
		return // the hub has not read the list itself: there is nothing to compare with
	}
	if len(s.passed) > maxPassed {
		clear(s.passed)
	}
	var news []Change
	for i, raw := range defs {
		if owned[i] == "" {
			continue
		}
		st := s.standFor(&n, viewer, k, owned[i], raw, digests[i], err, names)
		out[i] = st
		if err != nil {
			continue
		}
		s.passed[marks[i]] = st
		if s.see(viewer, k, owned[i], st) {
			news = append(news, changeOf(exposed(k, s.o.Name, owned[i]), s.o.Name, viewer, k, owned[i], st))
		}
	}
	if len(news) > 0 {
		s.book.announce(news)
	}
}

// firstFor pins what a viewer was given first. Called with mu held.
func (s *Server) firstFor(ctx context.Context, n *known, viewer string, k catalog.Kind, defs [][]byte, names, digests []string, whole bool) error {
	if viewer == "" || !n.head.Pinned[k.Member()] {
		return nil
	}
	if !n.head.knows(k, viewer) {
		var err error
		if *n, err = s.kept.latest(ctx); err != nil {
			return err
		}
	}
	v := viewing{viewer: viewer, known: n.head.knows(k, viewer), strict: s.o.Mode == Quarantine}
	next := map[string]*record{}
	for i := range defs {
		key := recordKey(k, names[i])
		r := next[key]
		if r == nil {
			r = n.record(key)
		}
		if _, first := r.judge(digests[i], v); first && names[i] != "" {
			next[key] = r.firstFor(viewer, digests[i], bytes.Clone(textOf(defs[i])), time.Now().UTC())
		}
	}
	if len(next) > 0 {
		if err := s.kept.put(ctx, n, next); err != nil {
			return err
		}
	}
	if !whole || v.known {
		return nil
	}
	return s.kept.putHead(ctx, n, n.head.with(k, viewer))
}

// standFor is the standing of a definition that a viewer was given. Called with
// mu held.
func (s *Server) standFor(n *known, viewer string, k catalog.Kind, name string, raw []byte, digest string, err error, names *suspect.Names) *catalog.Standing {
	st := &catalog.Standing{Digest: digest, State: catalog.Unchecked, Flags: s.suspect(k, name, raw, digest, names)}
	if err == nil {
		r := n.record(recordKey(k, name))
		v := viewing{viewer: viewer, known: n.head.knows(k, viewer), strict: s.o.Mode == Quarantine}
		st.State, _ = r.judge(digest, v)
		s.fill(st, r)
	}
	st.Hold = s.hold(k, st)
	if st.Open() {
		st.After = bytes.Clone(raw) // it is part of an answer that goes
	}
	return st
}

// see remembers what a viewer was given, and reports whether it is to be
// announced. What everybody is given the hub reads itself. Called with mu held.
func (s *Server) see(viewer string, k catalog.Kind, name string, st *catalog.Standing) bool {
	if viewer == "" {
		return false
	}
	if len(s.seen) >= maxSeen {
		clear(s.seen)
	}
	key := viewKey(viewer, k, name)
	if it := s.current[recordKey(k, name)]; it == nil || it.Standing.Digest != st.Digest {
		s.varied.Store(true)
	}
	s.seen[key] = &view{viewer: viewer, kind: k, name: name, standing: st}
	// A definition that other viewers have too is announced once.
	return s.announce(recordKey(k, name)+"\n"+st.Digest, st)
}

// Seen is the standing of what a client calls by a name: what its viewer was
// given last, else what the hub was. One that was never listed to either has the
// digest Unlisted.
func (s *Server) Seen(viewer string, k catalog.Kind, name string) *catalog.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh()
	if viewer != "" {
		if v := s.seen[viewKey(viewer, k, name)]; v != nil {
			return v.standing
		}
	}
	if it := s.current[recordKey(k, name)]; it != nil {
		return it.Standing
	}
	return s.unlisted(viewer, k, name)
}

// unlisted is the standing of what was not listed since the hub was started: of
// what it was before, if that is known. Called with mu held.
func (s *Server) unlisted(viewer string, k catalog.Kind, name string) *catalog.Standing {
	st := &catalog.Standing{Digest: Unlisted, State: catalog.Added}
	n, _ := s.kept.known() // of what cannot be read nothing is known
	r := n.record(recordKey(k, name))
	if p := r.lastFor(viewer); p != nil {
		st.Digest = p.Digest
		st.State, _ = r.judge(p.Digest, viewing{viewer: viewer, known: true})
		s.fill(st, r)
		st.Hold = s.hold(k, st)
		return st
	}
	switch {
	case r != nil && r.Refuse:
		st.State = catalog.Rejected
		st.Hold = s.hold(k, st)
	case s.o.Mode == Quarantine:
		st.Hold = "the server has not listed it, so that its definition is not known"
	}
	return st
}

// exposed is the name that clients see of a definition.
func exposed(k catalog.Kind, server, name string) string {
	if k == catalog.Template {
		return name
	}
	return catalog.Expose(server, name)
}
