package wire

import "io"

// TooLong is the error of a message over the limit that was passed over. It is
// an ErrTooLong that knows whose message it was, so that whoever waits for it,
// or has sent it, can be told.
type TooLong struct {
	ID     []byte // as it was written; nil if there is none
	Method bool   // it is a request or a notification
}

func (e *TooLong) Error() string { return ErrTooLong.Error() }

// Is makes errors.Is find ErrTooLong.
func (e *TooLong) Is(target error) bool { return target == ErrTooLong }

// Skim reads the rest of a message whose beginning is head, and tells what it
// was. It reads at most so many bytes of it; if there are more, that is
// ErrTooLong.
func Skim(head []byte, rest io.Reader, most int64) (*TooLong, error) {
	var s skim
	s.add(head)
	buf := make([]byte, 16<<10)
	for {
		n, err := rest.Read(buf)
		s.add(buf[:n])
		most -= int64(n)
		switch {
		case err == io.EOF:
			return &s.out, nil
		case err != nil:
			return nil, err
		case most < 0:
			return nil, ErrTooLong
		}
	}
}

// skim reads a message in pieces and keeps nothing of it but its id, and whether
// it has a method, wherever in the message they are.
type skim struct {
	depth   int
	quoted  bool // within a string
	escaped bool // after a backslash in one
	value   bool // behind the colon of a member of the message
	name    string
	text    []byte // of the name or value that is being read, if it is short
	out     TooLong
}

// maxSkimmed bounds a name or an id that is kept. A longer id is not one that
// we or any client gave.
const maxSkimmed = 256

func (s *skim) add(part []byte) {
	for _, c := range part {
		if s.quoted {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.quoted = false
			}
			s.keep(c)
			continue
		}
		switch c {
		case '"':
			s.quoted = true
		case '{', '[':
			s.depth++
			continue
		case '}', ']':
			if s.depth--; s.depth == 0 {
				s.member()
			}
			continue
		case ':':
			if s.depth == 1 {
				s.name, s.value, s.text = string(s.text), true, s.text[:0]
				continue
			}
		case ',':
			if s.depth == 1 {
				s.member()
				continue
			}
		case ' ', '\t', '\r', '\n':
			continue
		}
		s.keep(c)
	}
}

// keep keeps a byte of a member of the message itself.
func (s *skim) keep(c byte) {
	if s.depth == 1 && len(s.text) <= maxSkimmed {
		s.text = append(s.text, c)
	}
}

// member ends a member of the message.
func (s *skim) member() {
	switch {
	case !s.value:
	case s.name == `"id"` && len(s.text) > 0 && len(s.text) <= maxSkimmed:
		s.out.ID = append([]byte(nil), s.text...)
	case s.name == `"method"`:
		s.out.Method = true
	}
	s.value, s.text = false, s.text[:0]
}
