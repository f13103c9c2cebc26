package wire

// Field is a member of an object: its unescaped name and its raw value.
type Field struct {
	Name  []byte
	Value []byte
}

// Message is one scanned JSON-RPC message. Its parts are subslices of the
// bytes that were scanned. The zero value is ready for Scan and may be reused.
type Message struct {
	ID     []byte  // raw; nil if absent
	Method string  // empty in a response
	Params []byte  // raw; nil if absent
	Result []byte  // raw; nil if absent
	Error  []byte  // raw; nil if absent
	Fields []Field // members of params, if it is an object
	Meta   []Field // members of params._meta, if it is an object

	version bool
	s       scanner
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
	*m = Message{Fields: m.Fields[:0], Meta: m.Meta[:0], s: scanner{b: b, maxDepth: MaxDepth, names: m.s.names[:0]}}
	s := &m.s
	s.space()
	if s.peek() != '{' {
		if s.pos < len(b) && s.peek() == '[' {
			if err := s.value(); err != nil {
				return err
			}
			return &ShapeError{"a batch is not supported in this protocol version; send one message at a time"}
		}
		if err := s.value(); err != nil {
			return err
		}
		return &ShapeError{"the message is not an object"}
	}
	if err := m.envelope(trust); err != nil {
		return err
	}
	s.space()
	if s.pos < len(b) {
		return s.fail("data after the message")
	}
	return m.check()
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
			m.version = string(raw) == `"2.0"`
		case "id":
			m.ID = raw
		case "method":
			m.Method, _ = String(raw)
			if m.Method == "" {
				m.Method = invalidMethod
			}
		}
		return nil
	})
}

// invalidMethod stands for a method that is present but no non-empty string.
const invalidMethod = "\x00"

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

func (m *Message) check() error {
	if m.ID != nil {
		if c := m.ID[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
			if string(m.ID) != "null" || m.Method != "" {
				m.ID = nil
				return &ShapeError{"id must be a string or a number"}
			}
		}
	}
	switch {
	case !m.version:
		return &ShapeError{`jsonrpc must be "2.0"`}
	case m.Method == invalidMethod:
		m.Method = ""
		return &ShapeError{"method must be a non-empty string"}
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return &ShapeError{"the message has neither method, result nor error"}
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return &ShapeError{"the message is both a request and a response"}
	case m.Result != nil && m.Error != nil:
		return &ShapeError{"the response has both result and error"}
	case m.Method == "" && m.ID == nil:
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
