package obs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Record is one line of a log.
type Record struct {
	Time  time.Time
	Level slog.Level
	Msg   string
	Attrs []Attr // in the order of the line
	Line  []byte // the JSON as it was written, without a newline
}

// Attr is one fact of a record.
type Attr struct {
	Key   string
	Value json.RawMessage
}

// Text is the value as people write it: a string without its quotes, anything
// else as JSON.
func (a Attr) Text() string {
	var s string
	if len(a.Value) > 0 && a.Value[0] == '"' && json.Unmarshal(a.Value, &s) == nil {
		return s
	}
	return string(a.Value)
}

// Get returns the text of an attribute, or "".
func (r *Record) Get(key string) string {
	for _, a := range r.Attrs {
		if a.Key == key {
			return a.Text()
		}
	}
	return ""
}

// parseRecord reads a line. It keeps the line.
func parseRecord(line []byte) (Record, error) {
	r := Record{Line: line}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return r, fmt.Errorf("a log line is no object: %.80q", line)
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return r, err
		}
		a := Attr{Key: key.(string)} // the decoder gives nothing else here
		if err := d.Decode(&a.Value); err != nil {
			return r, err
		}
		head := a.Key
		if seen[head] {
			head = "" // the first is the logger's own
		}
		seen[a.Key] = true
		switch head {
		case slog.TimeKey:
			r.Time, err = time.Parse(time.RFC3339Nano, a.Text())
		case slog.LevelKey:
			r.Level, err = lineLevel(a.Text())
		case slog.MessageKey:
			r.Msg = a.Text()
		default:
			r.Attrs = append(r.Attrs, a)
		}
		if err != nil {
			return r, err
		}
	}
	if _, err := d.Token(); err != nil {
		return r, err
	}
	if r.Time.IsZero() {
		return r, fmt.Errorf("a log line has no time: %.80q", line)
	}
	return r, nil
}

// lineLevel also reads the levels between the named ones, such as WARN+1.
func lineLevel(text string) (l slog.Level, err error) {
	if l, err = ParseLevel(text); err != nil {
		err = l.UnmarshalText([]byte(text))
	}
	return l, err
}

// Query says which records are wanted. The zero value wants the last 100.
type Query struct {
	Level     slog.Leveler // the least important level; nil means all
	Search    string       // text that is in the message or in an attribute (key=value), in any case
	Since     time.Time    // not before; zero means from the beginning
	Before    time.Time    // earlier than this; zero means up to now
	Principal string       // whose records are wanted: theirs, and those that are nobody's; empty means everybody's
	Limit     int          // at most so many, the newest; 0 means 100; MaxLimit is the most
}

// MaxLimit is how many records are read at once at most.
const MaxLimit = 10_000

const defaultLimit = 100

func (q *Query) limit() int {
	if q.Limit <= 0 {
		return defaultLimit
	}
	return min(q.Limit, MaxLimit)
}

func (q *Query) wants(r *Record) bool {
	if q.Level != nil && r.Level < q.Level.Level() ||
		!q.Since.IsZero() && r.Time.Before(q.Since) ||
		!q.Before.IsZero() && !r.Time.Before(q.Before) {
		return false
	}
	if q.Principal != "" && !r.mayBeSeenBy(q.Principal) {
		return false
	}
	if q.Search == "" {
		return true
	}
	needle := strings.ToLower(q.Search)
	if strings.Contains(strings.ToLower(r.Msg), needle) {
		return true
	}
	for _, a := range r.Attrs {
		if strings.Contains(strings.ToLower(a.Key+"="+a.Text()), needle) {
			return true
		}
	}
	return false
}

// mayBeSeenBy says whether a record is for the eyes of a principal: it names no
// other, and it names this one where it is about something that somebody has.
// So a line that forgets to say whose it is shows too little, not too much.
func (r *Record) mayBeSeenBy(principal string) bool {
	theirs, somebodys := false, false
	for _, a := range r.Attrs {
		switch a.Key {
		case KeyPrincipal, KeyBy:
			switch a.Text() {
			case principal:
				theirs = true
			case "": // nobody
			default:
				return false
			}
		case KeySession, KeySocket, KeyRemote, KeyRequest, KeyParent, KeyCorrelation, KeyTurn, KeyCall, KeyRun, KeyTask:
			somebodys = true
		}
	}
	return theirs || !somebodys
}
