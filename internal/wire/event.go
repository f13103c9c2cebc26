package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Event is one server-sent event.
type Event struct {
	Name string // empty means "message"
	ID   string // the stream's last id up to and with this event: where to resume
	Data []byte // valid until the next call
}

// EventReader reads a server-sent event stream. Lines end in LF, CRLF or CR;
// an event is returned as soon as its last line end has begun.
type EventReader struct {
	r     *bufio.Reader
	limit int
	data  []byte // of the event, then the beginning of a line not yet complete
	has   bool   // the event has a data line
	name  string
	id    string
	last  string // the id as of the last event that was whole
	retry time.Duration
	first bool  // no line has been read
	cr    bool  // the last line ended in CR, so LF belongs to it
	long  *skim // of an event whose data is over the limit
	mid   bool  // within a line of it
	err   error

	pooled bool // another may have it after Release
}

const eventBuffer = 4 << 10

// released are those that were released: most streams are of one answer, and
// what it takes to read them is more than the answer.
var released = sync.Pool{New: func() any {
	return &EventReader{r: bufio.NewReaderSize(nil, eventBuffer), pooled: true}
}}

// NewEventReader reads from r events whose data is at most limit bytes.
func NewEventReader(r io.Reader, limit int) *EventReader {
	e := released.Get().(*EventReader)
	e.r.Reset(r)
	*e = EventReader{r: e.r, data: e.data[:0], limit: limit, first: true, retry: -1, pooled: true}
	return e
}

// Release ends the use of a reader and of all that it has returned, so that
// another may have its memory. It need not be called.
func (e *EventReader) Release() {
	if !e.pooled || cap(e.data) > 16*eventBuffer {
		return
	}
	e.pooled = false // a second Release must not give it to two
	e.r.Reset(nil)   // what it read from may go
	Spoil(e.data[:cap(e.data)])
	released.Put(e)
}

// NewEventReaderSize is NewEventReader with a buffer of another size: a small
// one does for small events from a reader that has a buffer itself.
func NewEventReaderSize(r io.Reader, limit, size int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, size), limit: limit, first: true, retry: -1}
}

// Place says where to resume the stream: after the event of that id, which is
// empty if the stream named none, and not before the time that the server
// wants to pass first, which is below 0 if it named none. An event that was cut
// off does not count.
func (e *EventReader) Place() (id string, retry time.Duration) { return e.last, e.retry }

// Next returns the next event that has data, be it empty. Comments and events
// without data are passed over; Place tells what of them matters. io.EOF ends the stream; an
// event cut off by it is dropped, as the format demands. An event whose data is
// over the limit is passed over and told by a *TooLong; every other error is
// final and returned again.
func (e *EventReader) Next() (Event, error) {
	if cap(e.data) > 1<<20 {
		e.data = nil
	}
	e.data, e.has, e.name = e.data[:0], false, ""
	for e.err == nil {
		var done bool
		if done, e.err = e.line(); done && e.long != nil {
			long := e.long
			e.long = nil
			return Event{}, &long.out
		} else if done {
			return Event{Name: e.name, ID: e.id, Data: e.data}, nil
		}
	}
	e.data = nil
	return Event{}, e.err
}

// Ready reports whether another event has arrived whole, so that Next will not
// wait. It may miss one whose lines end in CR.
func (e *EventReader) Ready() bool {
	part, _ := e.r.Peek(e.r.Buffered())
	return bytes.Contains(part, []byte("\n\n")) || bytes.Contains(part, []byte("\r\n\r\n"))
}

// line reads one line and reports whether it completes an event with data.
func (e *EventReader) line() (bool, error) {
	start := len(e.data)
	for {
		if _, err := e.r.Peek(1); err != nil {
			return false, err
		}
		part, _ := e.r.Peek(e.r.Buffered())
		if e.cr {
			e.cr = false
			if part[0] == '\n' {
				e.discard(1)
				continue
			}
		}
		end := lineEnd(part)
		if e.mid {
			e.long.add(part[:end])
			if e.mid = end == len(part); e.mid {
				e.discard(end)
				continue
			}
			e.cr = part[end] == '\r'
			e.discard(end + 1)
			return false, nil
		}
		if end == len(part) {
			err := e.keep(start, part)
			e.discard(end)
			if err != nil {
				return false, err
			}
			continue
		}
		e.cr = part[end] == '\r'
		done := false
		var err error
		if len(e.data) == start {
			done = e.field(start, part[:end])
		} else if err = e.keep(start, part[:end]); err == nil && !e.mid {
			done = e.field(start, e.data[start:])
		}
		e.mid = false
		e.discard(end + 1)
		return done, err
	}
}

// discard passes over bytes that are in the buffer, which cannot fail.
func (e *EventReader) discard(n int) { _, _ = e.r.Discard(n) }

// lineEnd is the index of the first CR or LF, or the length of b.
func lineEnd(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	if i := bytes.IndexByte(b, '\r'); i >= 0 {
		return i
	}
	return len(b)
}

const (
	byteOrderMark = "\ufeff"
	otherLine     = 4 << 10 // what a line that is not data may have on top of the limit
)

// keep adds a part to the incomplete line at start. Of a comment the first
// byte is enough.
func (e *EventReader) keep(start int, part []byte) error {
	if len(e.data) > start && e.data[start] == ':' {
		return nil
	}
	if len(e.data) == start && part[0] == ':' {
		part = part[:1]
	}
	e.data = append(e.data, part...)
	if line := e.data[start:]; bytes.HasPrefix(line, []byte("data:")) {
		if e.long != nil || len(line) > e.limit-start+len("data: ") {
			e.has, e.mid = true, true
			e.skim(e.data[:start])
			e.skim(line[len("data:"):])
			e.data = e.data[:0]
		}
	} else if len(line) > e.limit+otherLine {
		return fmt.Errorf("event stream: %w of %d bytes", ErrTooLong, e.limit)
	}
	return nil
}

// skim takes in data of an event that is too long to be kept.
func (e *EventReader) skim(data []byte) {
	if e.long == nil {
		e.long = &skim{}
	}
	e.long.add(data)
}

// field takes in a line, whether it lies in the reader's buffer or was put
// together behind the data, where the data then continues.
func (e *EventReader) field(start int, line []byte) (done bool) {
	e.data = e.data[:start]
	if e.first {
		e.first = false
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	if len(line) == 0 {
		e.last = e.id
		if !e.has {
			e.name = ""
		}
		return e.has
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		e.addData(value)
	case "event":
		// The usual name is not worth an allocation per event.
		if e.name = "message"; string(value) != e.name {
			e.name = string(value)
		}
	case "id":
		if id := string(value); !strings.Contains(id, "\x00") {
			e.id = id
		}
	case "retry":
		// Digits alone, as the format says; more of them than make a day say nothing.
		if ms, err := strconv.ParseUint(string(value), 10, 64); err == nil && ms <= maxRetry {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	}
	return false
}

// maxRetry is the longest pause, in milliseconds, that a stream can ask for.
const maxRetry = 24 * 60 * 60 * 1000

// addData may get a value that lies behind the data in the same array; it
// only ever moves down.
func (e *EventReader) addData(value []byte) {
	if e.long != nil {
		e.skim(value)
		return
	}
	if e.has {
		e.data = append(e.data, '\n')
	}
	e.has = true
	if e.data = append(e.data, value...); len(e.data) > e.limit {
		e.skim(e.data)
		e.data = e.data[:0]
	}
}
