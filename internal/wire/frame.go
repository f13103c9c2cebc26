package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// AppendRequest appends a request, or a notification if id is nil.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id != nil {
		dst = append(dst, `,"id":`...)
		dst = append(dst, id...)
	}
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends a successful response.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends a failed response. A nil id is written as null.
func AppendError(dst, id, object []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":`...)
	dst = append(dst, object...)
	return append(dst, '}')
}

// ErrTooLong is returned for a frame over the limit. The frame has been
// passed over and the next one can be read.
var ErrTooLong = errors.New("the message is longer than the limit")

// LineReader reads frames that end in a newline.
type LineReader struct {
	r     *bufio.Reader
	limit int
	buf   []byte
}

// NewLineReader reads from r frames of at most limit bytes.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// Next returns the next frame that is not blank, without its line end. The
// slice is valid until the next call. A last line without an end is half a
// frame and gives io.ErrUnexpectedEOF.
func (l *LineReader) Next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimLeft(line, " \t")) > 0 {
			return line, nil
		}
	}
}

func (l *LineReader) line() ([]byte, error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if err == nil && len(l.buf) == 0 && !long && len(part) <= l.limit {
			return part, nil
		}
		if long = long || len(l.buf)+len(part) > l.limit; long {
			l.buf = l.buf[:0]
		} else {
			l.buf = append(l.buf, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(part) == 0 && len(l.buf) == 0 && !long:
			return nil, io.EOF
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case long:
			return nil, ErrTooLong
		default:
			return l.buf, nil
		}
	}
}

// Event is one server-sent event.
type Event struct {
	Name string // empty means "message"
	ID   string
	Data []byte // valid until the next call
}

// EventReader reads a server-sent event stream.
type EventReader struct {
	r     *bufio.Reader
	limit int
	data  []byte
}

// NewEventReader reads from r events whose data is at most limit bytes.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, 4<<10), limit: limit}
}

// Next returns the next event that has data. Comments, retry fields and
// events without data are passed over. io.EOF ends the stream; an event cut
// off by it is dropped, as the format demands.
func (e *EventReader) Next() (Event, error) {
	var ev Event
	if cap(e.data) > 1<<20 {
		e.data = nil
	}
	e.data = e.data[:0]
	has := false
	for {
		kind, err := e.field(&ev, &has)
		if err != nil {
			return Event{}, err
		}
		if kind == blank && has {
			ev.Data = e.data
			return ev, nil
		}
		if kind == blank {
			ev = Event{}
		}
	}
}

type lineKind int

const (
	blank lineKind = iota
	other
)

// field reads one line and adds what it says to ev and e.data.
func (e *EventReader) field(ev *Event, has *bool) (lineKind, error) {
	part, err := e.r.ReadSlice('\n')
	if err != nil && err != bufio.ErrBufferFull {
		return other, err
	}
	isData := bytes.HasPrefix(part, []byte("data:"))
	if isData {
		value := part[len("data:"):]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		if *has {
			e.data = append(e.data, '\n')
		}
		*has = true
		e.data = append(e.data, value...)
	} else if err == nil {
		line := bytes.TrimRight(part, "\r\n")
		if len(line) == 0 {
			return blank, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			ev.Name = string(value)
		case "id":
			ev.ID = string(value)
		case "data":
			*has = true
		}
	}
	total := len(part)
	for err == bufio.ErrBufferFull {
		part, err = e.r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return other, err
		}
		if isData {
			e.data = append(e.data, part...)
		}
		if total += len(part); total > e.limit+1024 || len(e.data) > e.limit+2 {
			return other, fmt.Errorf("event stream: %w of %d bytes", ErrTooLong, e.limit)
		}
	}
	if isData {
		e.data = bytes.TrimRight(e.data, "\r\n")
	}
	if len(e.data) > e.limit {
		return other, fmt.Errorf("event stream: %w of %d bytes", ErrTooLong, e.limit)
	}
	return other, nil
}
