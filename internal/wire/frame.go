package wire

import (
	"bufio"
	"bytes"
	"errors"
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

// ErrTooLong is returned for a frame over the limit. A LineReader has then
// passed over the frame, says by a *TooLong what it was, and can read the next
// one; an EventReader has ended.
var ErrTooLong = errors.New("the message is longer than the limit")

// LineReader reads frames that end in a newline.
type LineReader struct {
	r     *bufio.Reader
	limit int
	buf   []byte
}

// NewLineReader reads from r frames of at most limit bytes, line end not
// counted.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// Next returns the next frame that is not blank, without its line end. The
// slice is valid until the next call. A last line without an end is half a
// frame and gives io.ErrUnexpectedEOF, unless it is blank.
func (l *LineReader) Next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if !isBlank(line) {
			return line, nil
		}
	}
}

func isBlank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) == 0 }

// line returns a line without its end. A line over the limit is read to its
// end in pieces that are thrown away.
func (l *LineReader) line() ([]byte, error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	var long *skim
	for {
		part, err := l.r.ReadSlice('\n')
		whole := err == nil && len(l.buf) == 0 && long == nil
		if !whole {
			// The two bytes over the limit may be a line end.
			if long == nil && len(l.buf)+len(part) > l.limit+2 {
				long = &skim{}
				long.add(l.buf)
			}
			if long != nil {
				long.add(part)
			} else {
				l.buf = append(l.buf, part...)
			}
			part = l.buf
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && long == nil && isBlank(part):
			return nil, io.EOF
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		part = bytes.TrimSuffix(bytes.TrimSuffix(part, []byte("\n")), []byte("\r"))
		if long == nil && len(part) > l.limit {
			long = &skim{}
			long.add(part)
		}
		if long != nil {
			return nil, &long.out
		}
		return part, nil
	}
}
