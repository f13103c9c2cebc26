package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/wire"
)

// New is what to store.
type New struct {
	Name        string
	Number      bool   // make the name one that nothing has, by a number at its end
	Data        []byte // JSON; the caller may use it afterwards
	Description string
	By          string
	Author      *actor.Record // on whose behalf; nil if that is not known
	Origin      *Origin
	Over        int  // the version that it may take the place of, and no other; 0 means any
	Fresh       bool // only if nothing has the name
}

// Put stores a value. It is durable when Put returns. replaced is the version
// that was current before; 0 if there was none.
func (s *Session) Put(ctx context.Context, n New) (v Value, replaced int, err error) {
	if err := ValidName(n.Name); err != nil {
		return Value{}, 0, err
	}
	if err := wire.Valid(n.Data, wire.FromUpstream); err != nil {
		return Value{}, 0, fault.New(fault.InvalidArguments, n.Name, "the data is not JSON: %v", err)
	}
	if len(n.Description) > maxDescription {
		return Value{}, 0, fault.New(fault.Limit, n.Name, "the description is %d bytes, over the limit of %d", len(n.Description), maxDescription)
	}
	next := Value{Size: len(n.Data), Description: n.Description, By: clip(n.By, maxBy), Origin: n.Origin.bounded()}
	next.Type, next.Summary = Describe(n.Data)
	author, own := n.Author, n.Author != nil && n.Author.Own(s.Principal())
	if own {
		author = nil // which is most of them
	}
	ev, err := s.commit(ctx, func(st *state) (*event, []byte, error) {
		v := next
		v.Name = n.Name
		if n.Number {
			v.Name = st.spareName(n.Name)
		}
		if err := st.room(s.Name(), v.Name, v.Size, s.r.opts.Load()); err != nil {
			return nil, nil, err
		}
		v.Version, replaced = 1, 0
		if old := st.values[v.Name].current(); old != nil {
			v.Version, replaced = old.Version+1, old.Version
		}
		if (n.Over > 0 || n.Fresh) && replaced != n.Over {
			return nil, nil, overtaken(v.Name, n.Over, replaced)
		}
		return &event{Kind: put, Value: &v, Author: author, Own: own}, n.Data, nil
	})
	if err != nil {
		return Value{}, 0, err
	}
	s.r.cache.put(place{s.id, ev.Value.seq}, slices.Clone(n.Data))
	return *ev.Value, replaced, nil
}

// overtaken is the fault for a version that was to take the place of another
// than the current one.
func overtaken(name string, over, current int) error {
	f := fault.New(fault.InvalidArguments, name, "version %d of it is current, not %d: somebody else has stored it", current, over)
	f.Hint = "Read what it is now, and change that."
	switch {
	case over == 0:
		f.Msg = fmt.Sprintf("there is a value of that name already, of which version %d is current", current)
		f.Hint = fmt.Sprintf("Use another name, or say over %d once you know what it is.", current)
	case current == 0:
		f.Msg = "there is no value of that name, or it has been removed meanwhile"
		f.Hint = "Store it without over, or with over 0."
	}
	return f.With("version", current)
}

// What is told of a value stays small beside it, whatever a client or a server
// calls itself: it is in memory and in one entry.
const (
	maxDescription = 4096
	maxBy          = 128
	maxTool        = 256
	maxUsed        = 100
)

func (o *Origin) bounded() *Origin {
	if o == nil {
		return nil
	}
	return &Origin{Tool: clip(o.Tool, maxTool), Used: slices.Clone(o.Used[:min(len(o.Used), maxUsed)])}
}

// room says whether one more version of a value fits in.
func (s *state) room(session, name string, size int, o *Options) error {
	over := func(format string, args ...any) error {
		return &fault.Error{Kind: fault.Limit, Subject: "session " + session, Msg: fmt.Sprintf(format, args...),
			Hint: "Remove values that are not needed with context_remove, or raise the limit in the config."}
	}
	it := s.values[name]
	if it.current() == nil && o.MaxValues > 0 && len(s.values) >= o.MaxValues {
		return over("it holds %d values, which is as many as it may (session.maxValues)", len(s.values))
	}
	goes := 0 // when this one comes
	if it != nil {
		for _, v := range it.versions[:max(0, len(it.versions)+1-max(o.History, 1))] {
			goes += v.Size
		}
	}
	if o.MaxBytes > 0 && s.bytes+size-goes > o.MaxBytes {
		return over("%d bytes more than the %d that it holds are over its limit of %d (session.maxBytes)", size, s.bytes, o.MaxBytes)
	}
	if o.MaxAge > 0 && !s.created.IsZero() && time.Since(s.created) > o.MaxAge {
		return over("it is older than %v and takes nothing more (session.maxAge)", o.MaxAge)
	}
	return nil
}

// Remove removes a value and its history.
func (s *Session) Remove(ctx context.Context, name string) error {
	_, err := s.commit(ctx, func(st *state) (*event, []byte, error) {
		if st.values[name].current() == nil {
			return nil, nil, st.unknown(name)
		}
		return &event{Kind: removed, Name: name, Left: st.left(name)}, nil, nil
	})
	return err
}

// Value returns the current version of a value. The fault names what exists
// and what is close.
func (s *Session) Value(name string) (Value, error) {
	h := s.home()
	h.mu.RLock()
	defer h.mu.RUnlock()
	if v := h.state.values[name].current(); v != nil {
		return *v, nil
	}
	return Value{}, h.state.unknown(name)
}

// Version returns the version of a value that has that number, or that is in
// that entry of the log, if entry is not 0.
func (s *Session) Version(name string, version int, entry uint64) (Value, error) {
	h := s.home()
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.state.version(name, version, entry)
}

func (s *state) version(name string, version int, entry uint64) (Value, error) {
	it := s.values[name]
	if it.current() == nil {
		return Value{}, s.unknown(name)
	}
	for _, v := range it.versions {
		if v.Version == version && (entry == 0 || entry == v.seq) {
			return v, nil
		}
	}
	return Value{}, fault.New(fault.BadReference, name, "version %d is not kept; versions %d to %d are", version, it.versions[0].Version, it.current().Version)
}

const shownNames = 20

// unknown is the fault for a name that no value has. The names that there are
// belong in the sentence itself: people and models read that, not the data.
func (s *state) unknown(name string) error {
	names := slices.Sorted(maps.Keys(s.values))
	f := fault.New(fault.BadReference, "", "the session holds no value %q", name)
	if len(names) > 0 {
		f.Msg += "; it holds " + someNames(names)
	}
	switch near := spell.Near(name, names, 3); {
	case len(names) == 0:
		f.Hint = "The session holds nothing yet: store a value with context_add or saveAs. A text that begins with @ is written @@."
	case len(near) > 0:
		f.Hint = "Did you mean @" + strings.Join(near, " or @") + "? A text that begins with @ is written @@."
		f.With("close", near)
	default:
		f.Hint = "Use the name of a value that it holds. A text that begins with @ is written @@."
	}
	return f.With("allowed", names[:min(len(names), shownNames)]).With("count", len(names))
}

// someNames is "a, b and 3 more".
func someNames(names []string) string {
	text := strings.Join(names[:min(len(names), shownNames)], ", ")
	if more := len(names) - shownNames; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// Values returns the current versions of the values whose names match a glob,
// sorted by name; an empty glob matches all.
func (s *Session) Values(glob string) ([]Value, error) {
	if _, err := path.Match(glob, ""); err != nil {
		return nil, fault.New(fault.InvalidArguments, "filter", "%q is no pattern: use *, ? and [a-z]", glob)
	}
	h := s.home()
	h.mu.RLock()
	out := make([]Value, 0, len(h.state.values))
	for name, it := range h.state.values {
		ok, _ := path.Match(glob, name)
		if ok || glob == "" {
			out = append(out, *it.current())
		}
	}
	h.mu.RUnlock()
	slices.SortFunc(out, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// History returns the versions of a value that are kept, newest first.
func (s *Session) History(name string) ([]Value, error) {
	h := s.home()
	h.mu.RLock()
	defer h.mu.RUnlock()
	it := h.state.values[name]
	if it.current() == nil {
		return nil, h.state.unknown(name)
	}
	out := slices.Clone(it.versions)
	slices.Reverse(out)
	return out, nil
}

// Data returns the data of one version. It is not to be changed.
func (s *Session) Data(ctx context.Context, v Value) ([]byte, error) {
	if b, ok := s.r.cache.get(place{s.id, v.seq}); ok {
		return b, nil
	}
	data, err := s.read(ctx, v)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, fault.New(fault.BadReference, "@"+v.Name, "version %d of it has been removed meanwhile", v.Version).Because(err)
	}
	if err != nil {
		return nil, err
	}
	s.r.cache.put(place{s.id, v.seq}, data)
	return data, nil
}

// read reads the data of one version from the store.
func (s *Session) read(ctx context.Context, v Value) ([]byte, error) {
	x := s.r.book.Get(s.id)
	if x == nil {
		return nil, fmt.Errorf("read @%s: the session has ended: %w", v.Name, journal.ErrNotFound)
	}
	data, err := x.Data(ctx, journal.Place{Seq: v.seq, Blob: v.blob})
	if err == nil && len(data) < v.Size {
		err = fmt.Errorf("read @%s: %w: there are %d bytes of %d", v.Name, store.ErrLost, len(data), v.Size)
	}
	if err != nil {
		return nil, err
	}
	return data[:v.Size], nil
}

// Info is what is known of a Session.
type Info struct {
	Name      string          `json:"name"`
	Principal string          `json:"principal"`
	Created   time.Time       `json:"created"`
	Used      time.Time       `json:"used"`
	Values    int             `json:"values"`
	Bytes     int             `json:"bytes"`
	Held      bool            `json:"held,omitempty"` // something of it is alive
	Modules   map[string]bool `json:"modules,omitempty"`
}

// Info returns what is known of the Session.
func (s *Session) Info() Info {
	h := s.home()
	i := Info{Name: s.Name(), Principal: s.Principal(), Used: h.lastUse(), Held: h.held()}
	h.mu.RLock()
	defer h.mu.RUnlock()
	i.Created, i.Values, i.Bytes = h.state.created, len(h.state.values), h.state.bytes
	if len(h.state.modules) > 0 {
		i.Modules = make(map[string]bool, len(h.state.modules))
		for name, t := range h.state.modules {
			i.Modules[name] = t.on
		}
	}
	return i
}

// Switch switches a module on or off for this Session.
func (s *Session) Switch(ctx context.Context, module string, on bool) error {
	_, err := s.commit(ctx, func(st *state) (*event, []byte, error) {
		if have, said := st.modules[module]; said && have.on == on {
			return nil, nil, nil
		}
		return &event{Kind: switched, Name: module, On: on}, nil, nil
	})
	return err
}

// Switched returns whether a module is on in this Session, if that was said.
func (s *Session) Switched(module string) (on, said bool) {
	h := s.home()
	h.mu.RLock()
	defer h.mu.RUnlock()
	t, said := h.state.modules[module]
	return t.on, said
}
