package pin

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/suspect"
)

// Change is a definition that somebody should look at.
type Change struct {
	Name       string          `json:"name"` // as clients see it
	Server     string          `json:"server"`
	Kind       string          `json:"kind"`       // tool, prompt or resource template
	Definition string          `json:"definition"` // as the server names it
	State      catalog.State   `json:"state"`
	Digest     string          `json:"digest"`
	Hold       string          `json:"hold,omitempty"`   // why it cannot be called; left out if it can
	Flags      []suspect.Flag  `json:"flags,omitempty"`  // what is suspicious about it
	Viewer     string          `json:"viewer,omitempty"` // the clients that it was given to; left out if it is everybody
	Before     json.RawMessage `json:"before,omitempty"` // what was accepted before
	After      json.RawMessage `json:"after,omitempty"`  // what it is now
	Diff       string          `json:"diff,omitempty"`
}

func changeOf(exposed, server, viewer string, k catalog.Kind, name string, st *catalog.Standing) Change {
	return Change{Name: exposed, Server: server, Kind: k.String(), Definition: name, State: st.State, Digest: st.Digest, Hold: st.Hold, Flags: st.Flags, Viewer: viewer,
		Before: textOf(st.Before), After: textOf(st.After)}
}

// Changes are the definitions that somebody should look at, of one server or, if
// it is "", of all, with how each differs from what was accepted before.
func (b *Book) Changes(server string) []Change {
	out := []Change{}
	for _, s := range b.all() {
		if server == "" || s.o.Name == server {
			out = append(out, s.changes()...)
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Definition, b.Definition), strings.Compare(a.Viewer, b.Viewer))
	})
	for i := range out {
		out[i].Diff = Diff(out[i].Before, out[i].After)
	}
	return out
}

func (s *Server) changes() (out []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh()
	told := map[string]bool{}
	for key, it := range s.current {
		if it.Standing.Open() {
			out = append(out, changeOf(it.Exposed, s.o.Name, "", it.Kind, it.Name, it.Standing))
			told[key+"\n"+it.Standing.Digest] = true
		}
	}
	for _, v := range s.seen {
		key := recordKey(v.kind, v.name) + "\n" + v.standing.Digest
		if v.standing.Open() && !told[key] {
			told[key] = true
			out = append(out, changeOf(exposed(v.kind, s.o.Name, v.name), s.o.Name, v.viewer, v.kind, v.name, v.standing))
		}
	}
	return out
}

// Selection names definitions to accept or reject.
type Selection struct {
	Name   string `json:"name"`             // as clients see it, or server:name
	Digest string `json:"digest,omitempty"` // the one that was looked at; "" means the one that there is now
}

// Decide accepts or rejects definitions. It is durable when it returns. Those
// that are named have to be there; of a digest that is given, with that digest.
func (b *Book) Decide(ctx context.Context, which []Selection, accept bool, by string) ([]Change, error) {
	var done []Change
	for _, sel := range which {
		found, err := b.choose(sel)
		if err != nil {
			return done, err
		}
		for _, c := range found {
			if err := c.server.decide(ctx, c.kind, c.name, c.raw, c.digest, accept, by); err != nil {
				return done, fault.New(fault.Storage, sel.Name, "what was said of the definition could not be written, so nothing has changed").Because(err)
			}
			done = append(done, Change{Name: c.exposed, Server: c.server.o.Name, Kind: c.kind.String(), Definition: c.name, State: stateAfter(accept), Digest: c.digest})
		}
	}
	return done, nil
}

func stateAfter(accept bool) catalog.State {
	if accept {
		return catalog.Accepted
	}
	return catalog.Rejected
}

// chosen is a definition that is to be decided about.
type chosen struct {
	server        *Server
	kind          catalog.Kind
	name, exposed string
	raw           []byte
	digest        string
}

// choose finds what a selection names.
func (b *Book) choose(sel Selection) ([]chosen, error) {
	var found []chosen
	for _, s := range b.all() {
		found = append(found, s.choose(sel.Name)...)
	}
	if len(found) == 0 {
		return nil, &fault.Error{Kind: fault.UnknownTool, Subject: sel.Name, Msg: "no server offers a tool, prompt or resource template of this name now", Hint: "List the definitions that changed and use a name from there."}
	}
	if sel.Digest == "" {
		return found, nil
	}
	same := slices.DeleteFunc(slices.Clone(found), func(c chosen) bool { return !strings.HasPrefix(c.digest, sel.Digest) })
	if len(same) == 0 {
		return nil, &fault.Error{Kind: fault.InvalidParams, Subject: sel.Name, Msg: "its definition has changed again since you looked at it", Hint: "Look at the definition as it is now, and decide about that one."}
	}
	return same, nil
}

func (s *Server) choose(name string) (found []chosen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := map[string]bool{}
	take := func(k catalog.Kind, own, exposed string, raw []byte, st *catalog.Standing) {
		key := recordKey(k, own) + "\n" + st.Digest
		if name != exposed && name != s.o.Name+":"+own || raw == nil || took[key] {
			return
		}
		took[key] = true
		found = append(found, chosen{s, k, own, exposed, raw, st.Digest})
	}
	for _, it := range s.current {
		take(it.Kind, it.Name, it.Exposed, it.Raw, it.Standing)
	}
	for _, v := range s.seen {
		take(v.kind, v.name, exposed(v.kind, s.o.Name, v.name), v.standing.After, v.standing)
	}
	return found
}

// decide writes what somebody said of a definition.
func (s *Server) decide(ctx context.Context, k catalog.Kind, name string, raw []byte, digest string, accept bool, by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	key := recordKey(k, name)
	_, err := s.kept.retry(ctx, func(n *known) error {
		if n.headRev == 0 {
			var err error
			if *n, err = s.kept.latest(ctx); err != nil {
				return err
			}
		}
		size, _ := sizeOf(maps.Values(s.current))
		if err := s.kept.size(n, size); err != nil {
			return err
		}
		next := n.record(key).decided(digest, bytesOf(raw), accept, by, time.Now().UTC())
		if err := s.kept.put(ctx, n, map[string]*record{key: next}); err != nil || n.headRev != 0 {
			return err
		}
		h := n.head // nothing has been pinned yet; without a head nobody would find this
		h.Server = s.o.Name
		return s.kept.putHead(ctx, n, h)
	})
	s.fresh()
	return err
}

// again judges what a viewer was given once more. Called with mu held.
func (s *Server) again(n *known, v *view) {
	st := *v.standing
	r := n.record(recordKey(v.kind, v.name))
	st.State, _ = r.judge(st.Digest, viewing{viewer: v.viewer, known: true, strict: s.o.Mode == Quarantine})
	st.Since, st.By, st.Before = time.Time{}, "", nil
	s.fill(&st, r)
	st.Hold = s.hold(v.kind, &st)
	v.standing = &st
}

func bytesOf(raw []byte) []byte { return append([]byte(nil), textOf(raw)...) }
