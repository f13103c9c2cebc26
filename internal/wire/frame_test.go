package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// frames reads all lines, with errors that do not end the stream in between.
func frames(l *LineReader) (out []string) {
	for {
		line, err := l.Next()
		if err != nil {
			out = append(out, "!"+err.Error())
			if !errors.Is(err, ErrTooLong) {
				return out
			}
			continue
		}
		out = append(out, string(line))
	}
}

const (
	eof     = "!EOF"
	cutOff  = "!unexpected EOF"
	tooLong = "!the message is longer than the limit"
)

func TestLineReader(t *testing.T) {
	kb := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, in string
		limit    int
		want     []string
	}{
		{"empty", "", 10, []string{eof}},
		{"lines", "a\nb\r\nc\n", 10, []string{"a", "b", "c", eof}},
		{"blank lines", "\n \n\t\r\n\r\na\n\n", 10, []string{"a", eof}},
		{"no end", "a\nb", 10, []string{"a", cutOff}},
		{"space without an end", "a\n \t", 10, []string{"a", eof}},
		{"space is kept", " a \n", 10, []string{" a ", eof}},
		{"CR inside", "a\rb\n", 10, []string{"a\rb", eof}},
		{"at the limit", "abc\nabc\r\n", 3, []string{"abc", "abc", eof}},
		{"over the limit", "a\nabcd\nb\n", 3, []string{"a", tooLong, "b", eof}},
		{"over by its CR only", "abc\r\nabcd\r\nb\n", 3, []string{"abc", tooLong, "b", eof}},
		{"over without an end", "a\nabcdefgh", 3, []string{"a", cutOff}},
		{"over the buffer", strings.Repeat(kb, 50) + "\na\n", 50_000, []string{strings.Repeat(kb, 50), "a", eof}},
		{"over buffer and limit", strings.Repeat(kb, 50) + "\na\n", 49_999, []string{tooLong, "a", eof}},
		{"NUL and bytes over 127", "\x00\xff\n", 10, []string{"\x00\xff", eof}},
	} {
		for name, r := range readers(c.in) {
			if diff := cmp.Diff(c.want, frames(NewLineReader(r, c.limit))); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", c.name, name, diff)
			}
		}
	}
	broken := errors.New("pipe broken")
	l := NewLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 10)
	if got := frames(l); !cmp.Equal(got, []string{"a", "!pipe broken"}) {
		t.Errorf("%q", got)
	}
}

// readers gives the same bytes cut in different ways.
func readers(in string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole":        strings.NewReader(in),
		"byte by byte": iotest.OneByteReader(strings.NewReader(in)),
		"halves":       iotest.HalfReader(strings.NewReader(in)),
		"with the end": iotest.DataErrReader(strings.NewReader(in)),
	}
}

// events reads all events as name|id|data, and the error that ends them.
func events(e *EventReader) (out []string) {
	for {
		ev, err := e.Next()
		if _, ok := errors.AsType[*TooLong](err); ok {
			out = append(out, "!"+err.Error())
			continue
		}
		if err != nil {
			if _, again := e.Next(); again != err {
				return append(out, fmt.Sprintf("%v, then %v", err, again))
			}
			return append(out, "!"+err.Error())
		}
		out = append(out, ev.Name+"|"+ev.ID+"|"+string(ev.Data))
	}
}

func TestEventReader(t *testing.T) {
	kb := strings.Repeat("x", 1000)
	long := func(limit int) string { return fmt.Sprintf("!event stream: %v of %d bytes", ErrTooLong, limit) }
	for _, c := range []struct {
		name, in string
		limit    int
		want     []string
	}{
		{"empty", "", 10, []string{eof}},
		{"one", "event: message\nid: 7\ndata: {}\n\n", 10, []string{"message|7|{}", eof}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", 10, []string{"x||a", "||b", eof}},
		{"CR", "event: x\rdata: a\r\rdata: b\r\r", 10, []string{"x||a", "||b", eof}},
		{"mixed ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r", 10, []string{"||a\nb\nc", "||d", eof}},
		{"no space", "data:a\n\ndata:  b\n\n", 10, []string{"||a", "|| b", eof}},
		{"lines", "data: a\ndata: b\n\n", 10, []string{"||a\nb", eof}},
		{"empty lines", "data: a\ndata:\ndata\ndata: b\n\n", 10, []string{"||a\n\n\nb", eof}},
		{"empty line last", "data: a\ndata:\n\n", 10, []string{"||a\n", eof}},
		{"empty data", "id: 1\ndata:\n\nid: 2\ndata\n\n", 10, []string{"|1|", "|2|", eof}},
		{"comments", ": ping\n\n:\n\ndata: a\n: b\ndata: c\n\n", 10, []string{"||a\nc", eof}},
		{"retry and unknown", "retry: 5\nfoo: bar\nfoo\ndata: a\n\n", 10, []string{"||a", eof}},
		{"names are case-sensitive", "DATA: x\ndatabase: y\n data: z\ndata: a\n\n", 10, []string{"||a", eof}},
		{"colons in values", "data: a:b: c\n\n", 10, []string{"||a:b: c", eof}},
		{"mark at the start", "\ufeffdata: a\n\n\ufeffdata: b\n\n", 10, []string{"||a", eof}},
		{"mark and comment", "\ufeff: x\ndata: a\n\n", 10, []string{"||a", eof}},
		{"two marks", "\ufeff\ufeffdata: a\n\ndata: b\n\n", 10, []string{"||b", eof}},
		{"no data", "event: x\n\nid: 1\n\ndata: a\n\n", 10, []string{"|1|a", eof}},
		{"last name counts", "event: x\nevent: y\nid: 1\nid: 2\ndata: a\n\n", 10, []string{"y|2|a", eof}},
		{"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", 10, []string{"|1|a", "|1|b", "||c", eof}},
		{"id with NUL", "id: 1\nid: 2\x00\ndata: a\n\n", 10, []string{"|1|a", eof}},
		{"cut after data", "data: a\n\ndata: b\n", 10, []string{"||a", eof}},
		{"cut inside data", "data: a\n\ndata: b", 10, []string{"||a", eof}},
		{"at the limit", "data: abc\n\ndata:abc\n\ndata: a\ndata: b\n\n", 3, []string{"||abc", "||abc", "||a\nb", eof}},
		{"over the limit", "data: abc\n\ndata: abcd\n\ndata: a\n\n", 3, []string{"||abc", tooLong, "||a", eof}},
		{"over by lines", "data: a\ndata: bc\n\ndata: a\n\n", 3, []string{tooLong, "||a", eof}},
		{"over by empty lines", "data\ndata\ndata\ndata\ndata\n\n", 3, []string{tooLong, eof}},
		{"over the buffer", "data: " + strings.Repeat(kb, 50) + "\nid: 1\n\ndata: a\n\n", 50_000, []string{"|1|" + strings.Repeat(kb, 50), "|1|a", eof}},
		{"two over the buffer", "data: " + strings.Repeat(kb, 9) + "\ndata:" + strings.Repeat(kb, 9) + "\n\n", 18_001, []string{"||" + strings.Repeat(kb, 9) + "\n" + strings.Repeat(kb, 9), eof}},
		{"over buffer and limit", "data: " + strings.Repeat(kb, 50) + "\n\ndata: a\n\n", 49_999, []string{tooLong, "||a", eof}},
		{"over, then more of it", "data: " + strings.Repeat(kb, 50) + "\ndata: b\r\nid: 7\n\ndata: a\n\n", 100, []string{tooLong, "|7|a", eof}},
		{"over after another line", "data: b\ndata: " + strings.Repeat(kb, 50) + "\n\ndata: a\n\n", 100, []string{tooLong, "||a", eof}},
		{"over and cut off", "data: " + strings.Repeat(kb, 50), 100, []string{eof}},
		{"long id", "id: " + strings.Repeat(kb, 5) + "\ndata: a\n\n", 1000, []string{"|" + strings.Repeat(kb, 5) + "|a", eof}},
		{"longer id", "id: " + strings.Repeat(kb, 6) + "\ndata: a\n\n", 1000, []string{long(1000)}},
		{"long comment", ":" + strings.Repeat(kb, 50) + "\ndata: a\n:" + strings.Repeat(kb, 50) + "\n\n", 10, []string{"||a", eof}},
	} {
		for name, r := range readers(c.in) {
			if diff := cmp.Diff(c.want, events(NewEventReader(r, c.limit))); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", c.name, name, diff)
			}
		}
	}
	_, err := NewEventReader(strings.NewReader("data: abcd\n\n"), 3).Next()
	if !errors.Is(err, ErrTooLong) {
		t.Errorf("%v does not wrap ErrTooLong", err)
	}
}

// Where a stream is resumed is after the last event that came whole.
func TestEventReaderPlace(t *testing.T) {
	for in, want := range map[string]string{
		"":                                      " -1ns",
		"id: 1\nretry: 500\ndata: \n\n":         "1 500ms",
		"id: 1\ndata: a\n\nid: 2\ndata: b\n":    "1 -1ns",
		"id: 1\ndata: a\n\nid: 2\n\n":           "2 -1ns",
		"id: 1\ndata: a\n\ndata: b\n\n":         "1 -1ns",
		"id: 1\ndata: a\n\nid\ndata: b\n\n":     " -1ns",
		"retry: 7\n\nretry: 8\n":                " 8ms",
		"retry: 7\nretry: soon\nretry: -1\n\n":  " 7ms",
		"retry: 7\nretry: 99999999999\nretry\n": " 7ms",
	} {
		e := NewEventReader(strings.NewReader(in), 100)
		events(e)
		if id, retry := e.Place(); fmt.Sprint(id, " ", retry) != want {
			t.Errorf("%q: %q %v, want %q", in, id, retry, want)
		}
	}
}

// An event is there as soon as its blank line has begun: a peer that ends
// lines in CR and then waits must not be waited for.
func TestEventReaderDoesNotReadAhead(t *testing.T) {
	for _, in := range []string{"data: a\n\n", "data: a\r\n\r", "data: a\r\r"} {
		blocked := errors.New("read past the event")
		e := NewEventReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(blocked)), 10)
		if ev, err := e.Next(); err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: %q, %v", in, ev.Data, err)
		}
		if _, err := e.Next(); err != blocked {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// repeat reads the same bytes n times.
func repeat(s string, n int) io.Reader {
	return &repeater{s: []byte(s), n: n * len(s)}
}

type repeater struct {
	s     []byte
	at, n int
}

func (r *repeater) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && r.at < r.n {
		c := copy(p[n:min(len(p), n+r.n-r.at)], r.s[r.at%len(r.s):])
		n += c
		r.at += c
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// What a peer sends without end costs no memory beyond the limit.
func TestReadersAreBounded(t *testing.T) {
	const limit, sent = 32 << 10, 1 << 20
	drain := func(next func() error) func() {
		return func() {
			for err := error(nil); err == nil; {
				err = next()
				if _, passedOver := err.(*TooLong); passedOver {
					err = nil
				}
			}
		}
	}
	for _, c := range []struct {
		name, piece string
		head        string
	}{
		{"line without end", "x", ""},
		{"long lines", strings.Repeat("x", 1<<20) + "\n", ""},
		{"short lines", "abc\n", ""},
		{"blank lines", "\n", ""},
		{"comment without end", "x", ":"},
		{"data without end", "x", "data: "},
		{"data lines", "data: x\n", ""},
		{"empty data lines", "data\r", ""},
		{"id without end", "x", "id:"},
		{"events", "event: message\rdata: x\r\r", ""},
	} {
		in := func() io.Reader {
			return io.MultiReader(strings.NewReader(c.head), repeat(c.piece, sent/len(c.piece)))
		}
		lines, events := NewLineReader(in(), limit), NewEventReader(in(), limit)
		// A slice grows by less than half of itself per step: its steps add up to a few limits.
		if got := allocated(drain(func() error { _, err := lines.Next(); return err })); got > 8*limit {
			t.Errorf("%s: the line reader allocated %d bytes", c.name, got)
		}
		if got := allocated(drain(func() error { _, err := events.Next(); return err })); got > 8*limit {
			t.Errorf("%s: the event reader allocated %d bytes", c.name, got)
		}
	}
}

func TestReadersGiveBackBigBuffers(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 4<<20)
	l := NewLineReader(io.MultiReader(bytes.NewReader(big), strings.NewReader("\na\n")), 8<<20)
	e := NewEventReader(io.MultiReader(strings.NewReader("data: "), bytes.NewReader(big), strings.NewReader("\n\ndata: a\n\n")), 8<<20)
	for range 2 {
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(l.buf) > 1<<20 || cap(e.data) > 1<<20 {
		t.Errorf("kept %d and %d bytes", cap(l.buf), cap(e.data))
	}
}
