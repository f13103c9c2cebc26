package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// What is told in the log of a Session.
const (
	opened   = "opened"   // the first entry: whose it is
	put      = "put"      // a value was stored
	removed  = "removed"  // a value was removed, with its history
	touched  = "touched"  // it was in use
	switched = "switched" // a module was switched on or off
)

// event is one entry. An entry is the event's JSON on a line and, after that
// line, the data of the value byte by byte, unless that is a blob.
type event struct {
	Kind string    `json:"k"`
	ID   string    `json:"e"` // tells an entry of which no answer came from another's
	Time time.Time `json:"t"`

	Principal string          `json:"principal,omitempty"` // opened
	Session   string          `json:"session,omitempty"`   // opened: the name
	Client    json.RawMessage `json:"client,omitempty"`    // opened: see Binding.Client
	Value     *Value          `json:"value,omitempty"`     // put
	Blob      string          `json:"blob,omitempty"`      // put: the hash of data that is too large for an entry
	Name      string          `json:"name,omitempty"`      // removed, switched
	On        bool            `json:"on,omitempty"`        // switched
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
	if err := json.Unmarshal(head, e); err != nil {
		return nil, nil, fmt.Errorf("a session's event cannot be read: %w", err)
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

	seq  uint64
	blob string
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

// state is the projection of one Session's log.
type state struct {
	id        string
	principal string
	name      string
	client    json.RawMessage
	seq       uint64 // of the last entry
	created   time.Time
	active    time.Time // of the last entry
	touch     uint64    // the entry that told last that it was in use; 0 if none did
	stored    bool      // a value has been stored, ever
	bytes     int       // of all versions kept
	values    map[string]*item
	modules   map[string]bool
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

// apply makes of an event what it means, and returns the entries that are
// needed no longer. history is how many versions of a value are kept.
func (s *state) apply(e *event, seq uint64, history int) (spare []Value) {
	s.seq, s.active = seq, e.Time
	switch e.Kind {
	case opened:
		s.principal, s.name, s.client, s.created = e.Principal, e.Session, e.Client, e.Time
	case put:
		v := *e.Value
		v.seq, v.blob = seq, e.Blob
		s.stored = true
		if s.values == nil {
			s.values = map[string]*item{}
		}
		it := s.values[v.Name]
		if it == nil {
			it = &item{}
			s.values[v.Name] = it
		}
		it.versions = append(it.versions, v)
		s.bytes += v.Size
		if n := len(it.versions) - max(history, 1); n > 0 {
			spare = append(spare, it.versions[:n]...)
			it.versions = append([]Value(nil), it.versions[n:]...)
		}
	case removed:
		s.stored = true // its entry is gone, this one stays
		if it := s.values[e.Name]; it != nil {
			spare = it.versions
			delete(s.values, e.Name)
		}
	case touched:
		if s.touch > 0 {
			spare = append(spare, Value{seq: s.touch})
		}
		s.touch = seq
	case switched:
		if s.modules == nil {
			s.modules = map[string]bool{}
		}
		s.modules[e.Name] = e.On
	}
	for _, v := range spare {
		s.bytes -= v.Size
	}
	return spare
}

// holds reports whether a version that is kept is in the blob of that hash.
func (s *state) holds(blob string) bool {
	for _, it := range s.values {
		for _, v := range it.versions {
			if v.blob == blob {
				return true
			}
		}
	}
	return false
}
