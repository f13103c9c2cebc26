package llm

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Fence finds tool calls in the text of a model that has no function calling:
// a block that begins with ```tool at the start of a line and holds
// {"tool": name, "arguments": {…}} up to ```. Text goes through as soon as it
// cannot be part of a block any more. However the text is cut into pieces, the
// same comes out. The zero value is ready; one is used for one answer.
type Fence struct {
	held   []byte // not yet decided on
	midway bool   // text before held on the same line is other than space
	inside bool   // held begins after an opening fence
	seen   int    // how much of held, inside, has been looked at
	block  block
	tail   bool // the rest of a closing fence's line is to be passed over
}

// Piece is text, or a call.
type Piece struct {
	Text string
	Call *ToolCall // without an id
}

const (
	ticks    = "```"
	opening  = ticks + "tool"
	maxFence = 1 << 20
)

// Write takes in the next part of the text and returns what is decided.
func (f *Fence) Write(part string) []Piece {
	f.held = append(f.held, part...)
	return f.advance(false)
}

// Close returns what is left. A block that was not closed is a malformed call.
func (f *Fence) Close() []Piece {
	out := f.advance(true)
	if f.inside {
		out = append(out, Piece{Call: &ToolCall{Args: json.RawMessage("{}"), Malformed: string(f.held)}})
	} else if len(f.held) > 0 {
		out = append(out, Piece{Text: string(f.held)})
	}
	*f = Fence{}
	return out
}

func (f *Fence) advance(end bool) []Piece {
	var out []Piece
	for {
		if f.inside {
			call := f.body()
			if call == nil {
				return out
			}
			out = append(out, Piece{Call: call})
			continue
		}
		f.pass()
		n, found := f.text(end)
		if n > 0 {
			out = append(out, Piece{Text: string(f.held[:n])})
			f.midway = midLine(f.held[:n], f.midway)
			f.held = f.held[n:]
		}
		if !found {
			return out
		}
		f.held, f.inside, f.seen, f.block = f.held[len(opening):], true, 0, block{}
	}
}

// text returns how much of held is text for certain, and whether an opening
// fence follows it.
func (f *Fence) text(end bool) (n int, found bool) {
	for at := 0; ; {
		i := bytes.IndexByte(f.held[at:], '`')
		if i < 0 {
			return wholeRunes(f.held, end), false
		}
		at += i
		rest := f.held[at:]
		switch {
		case midLine(f.held[:at], f.midway):
		case len(rest) > len(opening) && string(rest[:len(opening)]) == opening && opens(rest[len(opening)]):
			return at, true
		case len(rest) <= len(opening) && strings.HasPrefix(opening, string(rest)) && !end:
			return at, false
		}
		at++
	}
}

// pass drops the space that ends the line of a closing fence, which nobody
// meant to say.
func (f *Fence) pass() {
	for f.tail && len(f.held) > 0 {
		switch f.held[0] {
		case '\n':
			f.tail, f.midway = false, false
		case ' ', '\t', '\r':
		default:
			f.tail = false
			return
		}
		f.held = f.held[1:]
	}
}

// opens reports whether a fence may be followed by c; ```toolbox is another
// language.
func opens(c byte) bool { return c == '\n' || c == '\r' || c == ' ' || c == '\t' || c == '{' }

// midLine reports whether the line that b ends in has other than space in it;
// before says so for what came before b.
func midLine(b []byte, before bool) bool {
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		b, before = b[i+1:], false
	}
	return before || len(bytes.Trim(b, " \t\r")) > 0
}

// wholeRunes is how much of b can go without cutting a character in two.
func wholeRunes(b []byte, end bool) int {
	if !end {
		for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
			if utf8.RuneStart(b[i]) {
				if !utf8.FullRune(b[i:]) {
					return i
				}
				break
			}
		}
	}
	return len(b)
}

// body returns the call that held begins with, once it is whole. A fence ends
// it at the start of a line, where no JSON string can have one, and elsewhere
// if the object before it is whole. Each byte is looked at once.
func (f *Fence) body() *ToolCall {
	for ; f.seen < len(f.held); f.seen++ {
		c := f.held[f.seen]
		if c != '`' {
			f.block.fresh = f.block.fresh && f.block.run == 0
			f.block.run = 0
			f.block.next(c)
			continue
		}
		if f.block.run++; f.block.run == len(ticks) && (f.block.fresh || f.block.whole()) {
			return f.closed(f.seen+1-len(ticks), f.seen+1)
		}
	}
	if len(f.held) > maxFence {
		return f.closed(len(f.held), len(f.held))
	}
	return nil
}

// block is where in the text of a block we are.
type block struct {
	fresh   bool // the line has only space so far, and is not the one of the opening fence
	depth   int
	began   bool
	str     bool
	escaped bool
	run     int // of backticks
}

func (b *block) next(c byte) {
	switch c {
	case '\n':
		b.fresh = true
	case ' ', '\t', '\r':
	default:
		b.fresh = false
	}
	switch {
	case b.escaped:
		b.escaped = false
	case b.str:
		b.escaped, b.str = c == '\\', c != '"'
	case c == '"':
		b.str = true
	case c == '{' || c == '[':
		b.depth, b.began = b.depth+1, true
	case c == '}' || c == ']':
		b.depth--
	}
}

func (b *block) whole() bool { return b.began && b.depth == 0 && !b.str }

func (f *Fence) closed(end, next int) *ToolCall {
	call := parseFenced(f.held[:end])
	f.held, f.inside, f.midway, f.tail = f.held[next:], false, true, true
	return &call
}

func parseFenced(body []byte) ToolCall {
	var said struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	err := json.Unmarshal(body, &said)
	call := NewCall("", said.Tool, string(said.Arguments))
	if err != nil || call.Name == "" || call.Malformed != "" {
		call.Args, call.Malformed = json.RawMessage("{}"), string(body)
	}
	return call
}

// NewCall makes a call of what a model wrote. No arguments at all mean {}.
func NewCall(id, name, args string) ToolCall {
	call := ToolCall{ID: id, Name: name, Args: json.RawMessage("{}")}
	trimmed := strings.TrimSpace(args)
	switch {
	case name == "":
		call.Malformed = "a call without a name: " + args
	case trimmed == "" || trimmed == "null":
	case trimmed[0] != '{' || !json.Valid([]byte(trimmed)):
		call.Malformed = args
	default:
		call.Args = json.RawMessage(trimmed)
	}
	return call
}
