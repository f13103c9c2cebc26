package agentd

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// A command tells its progress by lines of this form on stdout or stderr; they
// are no part of its output.
//
//	::progress 3/10 what is being done
//	::progress 40%
//	::progress 7
var progressLine = regexp.MustCompile(`^::progress ([0-9]{1,15}(?:\.[0-9]{1,9})?)(?:/([0-9]{1,15}(?:\.[0-9]{1,9})?)|(%))?(?: (.*))?$`)

const (
	progressMark = "::progress "
	longestMark  = 1 << 10 // a longer line is output
)

// step is one report of progress.
type step struct {
	done    float64
	total   float64 // below zero where it is not known
	message string
}

func parseStep(line string) (step, bool) {
	m := progressLine.FindStringSubmatch(strings.TrimSuffix(line, "\r"))
	if m == nil {
		return step{}, false
	}
	s := step{total: -1, message: strings.ToValidUTF8(strings.TrimSpace(m[4]), "\ufffd")}
	s.done, _ = strconv.ParseFloat(m[1], 64) // the form leaves nothing to go wrong
	switch {
	case m[2] != "":
		s.total, _ = strconv.ParseFloat(m[2], 64)
	case m[3] != "":
		s.total = 100
	}
	return s, true
}

// sieve takes the lines of progress out of a stream. Write and end are called
// by one goroutine.
type sieve struct {
	rest func([]byte) // gets everything else, as it is
	told func(step)
	held []byte // the beginning of a line that may be one of progress
	past bool   // the line is known to be none
}

func (s *sieve) write(p []byte) {
	for len(p) > 0 {
		line, whole := p, false
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			line, whole = p[:i+1], true
		}
		p = p[len(line):]
		if s.past {
			s.rest(line)
			s.past = !whole
			continue
		}
		s.held = append(s.held, line...)
		n := min(len(s.held), len(progressMark))
		switch {
		case string(s.held[:n]) != progressMark[:n] || len(s.held) > longestMark:
			s.flush()
			s.past = !whole
		case whole:
			s.end()
		}
	}
}

// end decides on a line that is held.
func (s *sieve) end() {
	if one, ok := parseStep(strings.TrimSuffix(string(s.held), "\n")); ok {
		s.held = s.held[:0]
		s.told(one)
		return
	}
	s.flush()
}

func (s *sieve) flush() {
	if len(s.held) > 0 {
		s.rest(s.held)
		s.held = s.held[:0]
	}
}

// tail keeps the last bytes of stderr.
type tail struct {
	mu  sync.Mutex
	b   []byte
	cut bool
}

const tailBytes = 8 << 10

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b, t.cut = append(t.b[:0], t.b[over:]...), true
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lastOf(t.b, t.cut)
}

// lastOf makes a readable text of the end of an output.
func lastOf(b []byte, cut bool) string {
	if len(b) > tailBytes {
		b, cut = b[len(b)-tailBytes:], true
	}
	if i := bytes.IndexByte(b, '\n'); cut && i >= 0 {
		b = b[i+1:] // what is left of a line
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(b), "\ufffd"), "\r\n\t ")
	if cut {
		return "…\n" + text
	}
	return text
}
