package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/journal"
)

// Phase is how a Task stands, in the words of the protocol's extension.
type Phase string

// The states of a Task. The last three are final.
const (
	Working       Phase = "working"
	InputRequired Phase = "input_required"
	Completed     Phase = "completed" // also where the tool says that it failed
	Failed        Phase = "failed"    // there is no result, but an error of the protocol
	Cancelled     Phase = "cancelled"
)

// Final reports whether nothing can follow.
func (s Phase) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// What is told in the log of a Task.
const (
	created  = "created"  // whose it is and what is to be done; data: the params
	taken    = "taken"    // another hub runs it from here on
	started  = "started"  // from now on the upstream may have the request
	asked    = "asked"    // the upstream wants input; data: its demand
	answered = "answered" // the client gave some of it; data: the answers
	ended    = "ended"    // data: the result or the error
)

// Event is one fact about a Task. Its data follows it in the log, byte for
// byte, or is a blob.
type Event struct {
	Kind string    `json:"k"`
	ID   string    `json:"e"` // tells an entry of which no answer came from another's
	Time time.Time `json:"t"`
	Blob string    `json:"blob,omitempty"`

	Work    *Work    `json:"work,omitempty"`    // created
	By      string   `json:"by,omitempty"`      // created, taken: the hub that runs it
	Running bool     `json:"running,omitempty"` // created: the upstream may have the request already
	Keys    []Key    `json:"keys,omitempty"`    // asked
	Given   []string `json:"given,omitempty"`   // answered: the keys as the client knows them
	Status  Phase    `json:"status,omitempty"`  // ended
	Message string   `json:"message,omitempty"` // ended
}

// Work is what a Task is to do, and for whom.
type Work struct {
	Principal string          `json:"principal"`
	Session   string          `json:"session,omitempty"` // the Session that the request named
	Upstream  string          `json:"upstream"`
	Tool      string          `json:"tool"`            // by the upstream's own name
	Shown     string          `json:"shown,omitempty"` // by the name that the client used
	Repeat    bool            `json:"repeat,omitempty"`
	Key       string          `json:"key"` // the same each time the work is tried
	TTL       time.Duration   `json:"ttl"`
	Extra     json.RawMessage `json:"extra,omitempty"` // what the runner needs besides
}

// Key is the name of a demand: the upstream's, and the one that the client is
// told, which is unique in the life of the Task.
type Key struct {
	Own   string `json:"own"`
	Shown string `json:"shown,omitempty"` // empty: the same
}

// Name is what the client is told.
func (k Key) Name() string {
	if k.Shown != "" {
		return k.Shown
	}
	return k.Own
}

// State is the projection of one Task's log.
type State struct {
	ID       string
	Holder   string // the hub that runs it; empty in what older versions wrote
	Work     Work
	Status   Phase
	Message  string // of the end
	Created  time.Time
	Updated  time.Time
	Running  bool  // the upstream may have the request
	Attempts int   // how often it was sent since it was made or last answered
	Open     []Key // what is asked for and not answered yet

	params  journal.Place
	round   []Key           // what was asked for last, answered or not
	demand  journal.Place   // of that; zero if nothing was
	answers []journal.Place // since then
	outcome journal.Place
	used    map[string]bool // every key that a client was told
	blobs   []string        // of all that was said
}

var errFinal = errors.New("the task has ended")

// Apply returns what the Task is after an event whose data is there. It changes
// nothing, and refuses what cannot follow. An event that is not known is a
// *journal.Unknown, and can follow anything.
func (s State) Apply(e *Event, at journal.Place) (State, error) {
	if !e.known() {
		return s.holding(at), &journal.Unknown{Type: e.Kind}
	}
	if (s.Status == "") != (e.Kind == created) {
		return s, fmt.Errorf("task %s: %s cannot follow %q", s.ID, e.Kind, s.Status)
	}
	if s.Status.Final() {
		return s, errFinal
	}
	switch e.Kind {
	case created:
		if e.Work == nil {
			return s, fmt.Errorf("task %s: it says nothing of what is to be done", s.ID)
		}
		s.Work, s.Status, s.Created, s.params, s.Holder = *e.Work, Working, e.Time, at, e.By
		if s.Running = e.Running; s.Running {
			s.Attempts = 1
		}
	case taken:
		s.Holder = e.By
		return s.holding(at), nil // nothing that a client could see
	case started:
		if s.Status != Working {
			return s, fmt.Errorf("task %s: it waits for input", s.ID)
		}
		s.Running = true
		s.Attempts++
	case asked:
		if s.Status != Working || len(e.Keys) == 0 {
			return s, fmt.Errorf("task %s: nothing can be asked while it is %s", s.ID, s.Status)
		}
		used, err := s.asking(e.Keys)
		if err != nil {
			return s, err
		}
		s.Status, s.Running, s.Attempts = InputRequired, false, 0
		s.Open, s.round, s.demand, s.answers, s.used = e.Keys, e.Keys, at, nil, used
	case answered:
		if s.Status != InputRequired || len(e.Given) == 0 {
			return s, fmt.Errorf("task %s: nothing was asked", s.ID)
		}
		open, err := s.without(e.Given)
		if err != nil {
			return s, err
		}
		s.Open = open
		s.answers = slices.Concat(s.answers, []journal.Place{at})
		if len(open) == 0 {
			s.Status = Working
		}
	case ended:
		if !e.Status.Final() {
			return s, fmt.Errorf("task %s: %q is no end", s.ID, e.Status)
		}
		s.Status, s.Message, s.outcome = e.Status, e.Message, at
		s.Running, s.Open = false, nil
	}
	s.Updated = e.Time
	return s.holding(at), nil
}

// holding is the state with the data of one entry more.
func (s State) holding(at journal.Place) State {
	if at.Blob != "" {
		s.blobs = slices.Concat(s.blobs, []string{at.Blob})
	}
	return s
}

// known reports whether this release knows what an event says.
func (e *Event) known() bool {
	switch e.Kind {
	case created, taken, started, asked, answered, ended:
		return true
	}
	return false
}

// asking are the names that were asked for once keys are; none may be twice.
func (s *State) asking(keys []Key) (map[string]bool, error) {
	used := maps.Clone(s.used)
	if used == nil {
		used = map[string]bool{}
	}
	for _, k := range keys {
		if used[k.Name()] {
			return nil, fmt.Errorf("task %s: %q was asked before", s.ID, k.Name())
		}
		used[k.Name()] = true
	}
	return used, nil
}

// without is what is still open once the names are given.
func (s *State) without(given []string) ([]Key, error) {
	open := s.Open
	for _, name := range given {
		i := slices.IndexFunc(open, func(k Key) bool { return k.Name() == name })
		if i < 0 {
			return nil, fmt.Errorf("task %s: %q is not asked for", s.ID, name)
		}
		open = slices.Concat(open[:i], open[i+1:])
	}
	return open, nil
}

// Expires is when the Task may be forgotten.
func (s *State) Expires() time.Time { return s.Created.Add(s.Work.TTL) }

// keys names demands so that no name comes twice in the life of the Task.
func (s *State) keys(own []string) []Key {
	out := make([]Key, len(own))
	taken := map[string]bool{}
	for i, name := range own {
		k := Key{Own: name}
		for n := 2; s.used[k.Name()] || taken[k.Name()]; n++ {
			k.Shown = fmt.Sprintf("%s-%d", name, n)
		}
		taken[k.Name()] = true
		out[i] = k
	}
	return out
}

func encode(e *Event, data []byte, blob string) ([]byte, error) {
	e.Blob = blob
	head, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode a task's event: %w", err)
	}
	return append(append(head, '\n'), data...), nil
}

// decode takes an entry apart. data is a part of entry.
func decode(entry []byte) (e *Event, data []byte, blob string, err error) {
	head, data, _ := bytes.Cut(entry, []byte{'\n'})
	e = &Event{}
	// Of an event that is not known it is read what can be.
	if err := json.Unmarshal(head, e); err != nil && (e.Kind == "" || e.known()) {
		return nil, nil, "", fmt.Errorf("a task's event cannot be read: %w", err)
	}
	return e, data, e.Blob, nil
}
