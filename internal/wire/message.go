package wire

// Field is a member of an object: its unescaped name and its raw value.
type Field struct {
	Name  []byte
	Value []byte
}

// Message is one scanned JSON-RPC message. Its parts are subslices of the
// bytes that were scanned. The zero value is ready for Scan and may be reused.
type Message struct {
	ID     []byte  // raw; nil if absent, which an error may be; null only in a response
	Method string  // empty in a response
	Params []byte  // raw; nil if absent
	Result []byte  // raw; nil if absent
	Error  []byte  // raw; nil if absent
	Fields []Field // members of params, if it is an object
	Meta   []Field // members of params._meta, if it is an object

	// Depth is the deepest nesting to allow, at most MaxDepth, which 0 means.
	// It is kept by Scan.
	Depth int

	version   bool
	badMethod bool   // present, but no non-empty string
	last      string // the method before, kept since it is often the same
	s         scanner
}

// Trust says whose bytes are scanned.
type Trust bool

const (
	FromClient   Trust = false // strict at every depth
	FromUpstream Trust = true  // strict envelope, lax inside result and error
)

// Scan reads exactly one message from b and replaces what m held. An error is
// a *SyntaxError when b is not JSON as we demand it, and a *ShapeError when it
// is JSON but no JSON-RPC message; then ID is set where it could be read.
func (m *Message) Scan(b []byte, trust Trust) error {
	depth := MaxDepth
	if m.Depth > 0 {
		depth = min(m.Depth, MaxDepth)
	}
	*m = Message{Fields: kept(m.Fields), Meta: kept(m.Meta), Depth: m.Depth, last: m.last,
		s: scanner{b: b, maxDepth: depth, names: kept(m.s.names)}}
	s := &m.s
	s.space()
	first := s.peek()
	var err error
	if first == '{' {
		err = m.envelope(trust)
	} else {
		err = s.value()
	}
	if err != nil {
		m.dropBadID()
		return err
	}
	switch {
	case !s.end():
		m.dropBadID()
		return s.fail("data after the message")
	case first == '[':
		return &ShapeError{"a batch is not supported in this protocol version; send one message at a time"}
	case first != '{':
		return &ShapeError{"the message is not an object"}
	}
	return m.check()
}

// kept empties s for reuse, unless one huge message has blown it up.
func kept[T any](s []T) []T {
	if cap(s) > 1024 {
		return nil
	}
	return s[:0]
}

func (m *Message) envelope(trust Trust) error {
	s := &m.s
	return s.object(func(name []byte) error {
		start := s.pos
		switch string(name) {
		case "params":
			if err := m.params(); err != nil {
				return err
			}
			m.Params = s.b[start:s.pos]
			return nil
		case "result", "error":
			if trust == FromUpstream {
				s.lax++
			}
			if err := s.value(); err != nil {
				return err
			}
			if trust == FromUpstream {
				s.lax--
			}
			if name[0] == 'r' {
				m.Result = s.b[start:s.pos]
			} else {
				m.Error = s.b[start:s.pos]
			}
			return nil
		}
		if err := s.value(); err != nil {
			return err
		}
		raw := s.b[start:s.pos]
		switch string(name) {
		case "jsonrpc":
			if m.version = string(raw) == `"2.0"`; !m.version {
				version, _ := String(raw)
				m.version = version == "2.0"
			}
		case "id":
			m.ID = raw
		case "method":
			m.method(raw)
		}
		return nil
	})
}

func (m *Message) method(raw []byte) {
	if n := len(raw); n > 2 && m.last == string(raw[1:n-1]) && raw[0] == '"' {
		m.Method = m.last
		return
	}
	m.Method, _ = String(raw)
	m.badMethod = m.Method == ""
	// An escaped method must not be found again by its raw bytes.
	if len(m.Method) == len(raw)-2 && len(m.Method) <= 64 {
		m.last = m.Method
	}
}

func (m *Message) params() error {
	s := &m.s
	if s.peek() != '{' {
		return s.value()
	}
	return s.object(func(name []byte) error {
		start := s.pos
		var err error
		if string(name) == "_meta" && s.peek() == '{' {
			err = s.object(func(name []byte) error {
				start := s.pos
				if err := s.value(); err != nil {
					return err
				}
				m.Meta = append(m.Meta, Field{name, s.b[start:s.pos]})
				return nil
			})
		} else {
			err = s.value()
		}
		if err != nil {
			return err
		}
		m.Fields = append(m.Fields, Field{name, s.b[start:s.pos]})
		return nil
	})
}

// ShapeError says why a JSON value is no JSON-RPC message.
type ShapeError struct{ Msg string }

func (e *ShapeError) Error() string { return e.Msg }

// dropBadID forgets an id that no answer may carry, since what is said of a
// message that could not be read to its end is said before it is checked.
func (m *Message) dropBadID() {
	if len(m.ID) > 0 && m.ID[0] != '"' && m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9') {
		m.ID = nil
	}
}

func (m *Message) check() error {
	if m.ID != nil {
		if c := m.ID[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
			if string(m.ID) != "null" || m.Method != "" || m.badMethod {
				m.ID = nil
				return &ShapeError{"id must be a string or a number"}
			}
		}
	}
	switch {
	case !m.version:
		return &ShapeError{`jsonrpc must be "2.0"`}
	case m.badMethod:
		return &ShapeError{"method must be a non-empty string"}
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return &ShapeError{"the message has neither method, result nor error"}
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return &ShapeError{"the message is both a request and a response"}
	case m.Result != nil && m.Error != nil:
		return &ShapeError{"the response has both result and error"}
	case m.Result != nil && m.ID == nil:
		return &ShapeError{"the response has no id"}
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		return &ShapeError{"params must be an object"}
	case m.Params != nil && m.Params[0] == '[':
		return &ShapeError{"params must be an object, not an array"}
	}
	return nil
}

// IsRequest reports whether an answer is expected.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message is a method without an id.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Param returns the raw value of a member of params, or nil.
func (m *Message) Param(name string) []byte { return lookup(m.Fields, name) }

// MetaValue returns the raw value of a member of params._meta, or nil.
func (m *Message) MetaValue(name string) []byte { return lookup(m.Meta, name) }

func lookup(fields []Field, name string) []byte {
	for i := range fields {
		if string(fields[i].Name) == name {
			return fields[i].Value
		}
	}
	return nil
}
