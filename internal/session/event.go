package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/journal"
)

// What is told in the log of a Session.
const (
	opened   = "opened"   // the first entry: whose it is
	put      = "put"      // a value was stored
	removed  = "removed"  // a value was removed, with its history
	touched  = "touched"  // it was in use, or is held
	switched = "switched" // a module was switched on or off
	ended    = "ended"    // it is over: written by earlier releases, before they removed what it held
)

// event is one entry. An entry is the event's JSON on a line and, after that
// line, the data of the value byte by byte, unless that is a blob. In a blob
// something may follow the data that makes it unlike any other: the Size of the
// value says how much is data.
type event struct {
	Kind string    `json:"k"`
	ID   string    `json:"e"` // tells an entry of which no answer came from another's
	Time time.Time `json:"t"`

	Principal string          `json:"principal,omitempty"` // opened
	Session   string          `json:"session,omitempty"`   // opened: the name
	Client    json.RawMessage `json:"client,omitempty"`    // opened: see Binding.Client
	Value     *Value          `json:"value,omitempty"`     // put
	Author    *actor.Record   `json:"author,omitempty"`    // put: who stored it, unless it was the principal itself
	Own       bool            `json:"own,omitempty"`       // put: it was; earlier releases wrote neither
	Blob      string          `json:"blob,omitempty"`      // put: the hash of data that is too large for an entry
	Name      string          `json:"name,omitempty"`      // removed, switched
	On        bool            `json:"on,omitempty"`        // switched
	Held      int64           `json:"held,omitempty"`      // touched: when something of it was alive, in nanoseconds since 1970
	// Left, of removed, are the entries of the values that are still there. It says
	// of all removals before it what they said, so that these can go from the log:
	// another hub need not have read them. Earlier releases did not write it.
	Left []uint64 `json:"left,omitzero"`
	// Keep, of put, is how many versions of the value there are from then on, as the
	// hub is configured that stored it: what is left must not depend on who reads it.
	// Earlier releases did not write it, and removed what was too much themselves.
	Keep int `json:"keep,omitempty"`
	// Until is when the first hub that may end the Session can do so, if nothing more
	// happens to it: the latest of what the hubs want that have used it, in nanoseconds
	// since 1970. Each entry repeats it, so that those before can go.
	Until int64 `json:"until,omitempty"`

	listed bool // found when it is applied: a name came or went
}

// known reports whether this release knows what an event says.
func (e *event) known() bool {
	switch e.Kind {
	case opened, put, removed, touched, switched, ended:
		return true
	}
	return false
}

func (e *event) encode(data []byte) ([]byte, error) {
	head, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode a session's event: %w", err)
	}
	return append(append(head, '\n'), data...), nil
}

// decode takes an entry apart. data is a part of entry.
func decode(entry []byte) (e *event, data []byte, err error) {
	head, data, _ := bytes.Cut(entry, []byte{'\n'})
	e = &event{}
	// Of an event that is not known it is read what can be.
	if err := json.Unmarshal(head, e); err != nil && (e.Kind == "" || e.known()) {
		return nil, nil, fmt.Errorf("a session's event cannot be read: %w", err)
	}
	if e.Kind == put && e.Value == nil {
		return nil, nil, errors.New("a session's event cannot be read: no value is in it")
	}
	return e, data, nil
}

// Value is what is known of one version of a stored value without its data.
type Value struct {
	Name        string    `json:"name"`
	Version     int       `json:"version"`
	Description string    `json:"description,omitempty"`
	Type        string    `json:"type"`
	Summary     string    `json:"summary,omitempty"`
	Size        int       `json:"size"` // bytes
	Time        time.Time `json:"time"`
	By          string    `json:"by,omitempty"` // who stored it
	Origin      *Origin   `json:"origin,omitempty"`

	seq    uint64
	blob   string
	author *actor.Record // nil if own, or if it is not known
	own    bool
}

// Author returns on whose behalf the version was stored. nil means that it is
// not known, as of those that earlier releases stored.
func (v *Value) Author(principal string) *actor.Record {
	if v.own {
		return actor.OwnRecord(principal)
	}
	return v.author
}

// Origin says where a value came from, if a tool said it.
type Origin struct {
	Tool string `json:"tool"`           // server:tool
	Used []Used `json:"used,omitempty"` // what its arguments referred to
}

// Used is one value that a reference stood for.
type Used struct {
	Session string `json:"session,omitempty"` // if it was another Session's
	Name    string `json:"name"`
	Version int    `json:"version"`
	Entry   uint64 `json:"entry"` // in the log: a name that is removed and used again counts from 1 again
}

// state is the projection of one Session's log. It is that of the entries
// alone: whose the Session is stands elsewhere.
type state struct {
	open    bool // it has been opened and has not ended
	over    bool // an earlier release ended it and may not have removed all that it held
	stored  bool // a value has been stored, ever
	created time.Time
	active  time.Time // when it was used last, as far as the log tells
	held    int64     // when a hub said last that it holds it, in nanoseconds since 1970
	bytes   int       // of all versions kept
	values  map[string]*item
	modules map[string]toggle
	until   int64    // see event.Until
	foreign []string // blobs of events that this release does not know

	// The entry that told last of a use; 0 if none did. The next one makes it spare.
	touch uint64
	// The entries that told of removals. One that says what is left makes those
	// before it spare.
	removals []uint64
}

// item is the versions of a value that are kept, oldest first.
type item struct {
	versions []Value // never empty
}

func (it *item) current() *Value {
	if it == nil {
		return nil
	}
	return &it.versions[len(it.versions)-1]
}

// toggle is what was said of a module, and by which entry.
type toggle struct {
	on  bool
	seq uint64
}

// apply makes of an event what it means, and returns the entries that are
// needed no longer, in the order in which they have to go: one that says what
// was removed goes after what it is about, or that would be back after a
// restart.
func (s *state) apply(e *event, at journal.Place) (spares []journal.Spare) {
	if !s.open && e.Kind != opened && e.Kind != ended { // the entry that opened it is lost
		s.open, s.created = true, e.Time
	}
	switch e.Kind {
	case opened:
		spares = s.spares()
		*s = state{open: true, created: e.Time}
	case ended:
		e.listed = s.open
		spares = s.spares()
		*s = state{over: true}
	case put:
		spares = s.put(e, at)
	case removed:
		e.listed, spares = s.remove(e)
		s.stored = true // what says so otherwise may be gone
		if e.Left != nil {
			for _, seq := range s.removals {
				spares = append(spares, journal.Spare{Seq: seq})
			}
			s.removals = nil
		}
		s.removals = append(s.removals, at.Seq)
	case touched:
		spares = replaced(spares, s.touch)
		s.touch = at.Seq
		s.held = max(s.held, e.Held)
	case switched:
		if s.modules == nil {
			s.modules = map[string]toggle{}
		}
		spares = replaced(spares, s.modules[e.Name].seq)
		s.modules[e.Name] = toggle{e.On, at.Seq}
	default:
		if at.Blob != "" {
			s.foreign = append(s.foreign, at.Blob)
		}
	}
	if e.Time.After(s.active) {
		s.active = e.Time
	}
	s.until = max(s.until, e.Until)
	return spares
}

func (s *state) put(e *event, at journal.Place) (spares []journal.Spare) {
	e.Value.seq, e.Value.blob, e.Value.author, e.Value.own = at.Seq, at.Blob, e.Author, e.Own
	v := *e.Value
	s.stored = true
	if s.values == nil {
		s.values = map[string]*item{}
	}
	it := s.values[v.Name]
	if it == nil {
		e.listed = true
		it = &item{}
		s.values[v.Name] = it
	}
	if len(it.versions) > 0 && v.Version <= it.current().Version {
		// It was removed in between, and another hub made the entry that told of it
		// spare before it was read here.
		spares, it.versions = s.drop(spares, it.versions), nil
	}
	s.bytes += v.Size
	if n := len(it.versions) + 1 - e.Keep; n > 0 && e.Keep > 0 {
		for i, old := range s.drop(nil, it.versions[:n]) {
			if old.Blob == "" {
				old.MayStay = 1 + it.versions[i].Size // whoever reads it drops it again
			}
			spares = append(spares, old)
		}
		it.versions = append([]Value(nil), it.versions[n:]...)
	}
	it.versions = append(it.versions, v)
	return spares
}

// remove forgets the value that an event says was removed, and those that were
// before it.
func (s *state) remove(e *event) (found bool, spares []journal.Spare) {
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		it := s.values[name]
		if name != e.Name {
			if _, left := slices.BinarySearch(e.Left, it.current().seq); left || e.Left == nil {
				continue
			}
		}
		found, spares = true, s.drop(spares, it.versions)
		delete(s.values, name)
	}
	return found, spares
}

// maxLeft is how many values event.Left may name: more would make it too large.
const maxLeft = 10_000

// left are the entries of the values that are there without one, in order; nil
// if they are too many.
func (s *state) left(without string) []uint64 {
	if len(s.values) > maxLeft {
		return nil
	}
	left := []uint64{}
	for name, it := range s.values {
		if name != without {
			left = append(left, it.current().seq)
		}
	}
	slices.Sort(left)
	return left
}

// drop makes versions of a value spare.
func (s *state) drop(spares []journal.Spare, versions []Value) []journal.Spare {
	for _, v := range versions {
		s.bytes -= v.Size
		spares = append(spares, journal.Spare{Seq: v.seq, Blob: v.blob})
	}
	return spares
}

// spares are the entries of all values.
func (s *state) spares() (spares []journal.Spare) {
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		spares = s.drop(spares, s.values[name].versions)
	}
	return spares
}

func replaced(spares []journal.Spare, seq uint64) []journal.Spare {
	if seq == 0 {
		return spares
	}
	return append(spares, journal.Spare{Seq: seq})
}
