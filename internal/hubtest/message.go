package hubtest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Message is one JSON-RPC message with its members as they came.
type Message struct {
	Raw    []byte `json:"-"`
	Method string
	ID     json.RawMessage
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// IsResponse reports whether the message answers a request.
func (m Message) IsResponse() bool { return m.Method == "" }

// ParseMessage reads one message, leniently inside and strictly outside.
func ParseMessage(b []byte) (Message, error) {
	m := Message{Raw: bytes.Clone(b)}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("message %.200q: %w", b, err)
	}
	var version struct {
		JSONRPC string `json:"jsonrpc"`
	}
	if err := json.Unmarshal(b, &version); err != nil || version.JSONRPC != "2.0" {
		return m, fmt.Errorf("message %.200q: jsonrpc is %q", b, version.JSONRPC)
	}
	if m.IsResponse() && (m.Result == nil) == (m.Error == nil) {
		return m, fmt.Errorf("message %.200q is neither a request nor a response", b)
	}
	return m, nil
}

// Decode unmarshals a raw member; what is not there or does not fit decodes to
// the zero value, which the test then sees.
func Decode[T any](raw json.RawMessage) T {
	var v T
	_ = json.Unmarshal(raw, &v)
	return v
}

// Fault is an error object of the hub or of a peer.
type Fault struct {
	Code    int
	Message string
	Data    struct {
		Kind, Hint   string
		Retryable    bool
		RetryAfterMs int64
		Supported    []string
		Requested    string
		Candidates   []string
		Close        []string
		Faults       []struct{ Pointer, Message string }
	}
}

// Fault decodes the error of a response.
func (m Message) Fault() Fault { return Decode[Fault](m.Error) }

// Text is the first text of a tool's result.
func (m Message) Text() string {
	r := Decode[struct{ Content []struct{ Text string } }](m.Result)
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// Quote is s as JSON.
func Quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}

// events reads a server-sent event stream, one message per event. Events
// without data are passed over.
type events struct{ r *bufio.Reader }

func (e *events) next() (data []byte, err error) {
	has := false
	for {
		line, err := e.r.ReadBytes('\n')
		if err != nil {
			if err == io.EOF && (len(line) > 0 || has) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if has && len(data) > 0 {
				return data, nil
			}
			has = false
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if has {
			data = append(data, '\n')
		}
		has = true
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
	}
}

// headerValue is s as the value of a modern header.
func headerValue(s string) string {
	safe := strings.TrimSpace(s) == s && !strings.HasPrefix(s, "=?base64?")
	for i := range len(s) {
		safe = safe && s[i] >= 0x20 && s[i] <= 0x7e
	}
	if safe {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}
