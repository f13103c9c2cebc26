package session

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

// PreviewBytes is how much of a value its card shows unless told otherwise.
const PreviewBytes = 2 << 10

// Card stands for a value that is too large to be handed over: it says what
// the value is, shows some of it, and how to get at the rest.
type Card struct {
	Name    string
	Session string // empty means the Session of the reader
	Type    string // as of Describe
	Summary string // as of Describe
	Size    int    // bytes of the value's JSON
	Version uint64 // 0 means that it is not known
	Preview []byte // as of Preview; none for what is not text
	Whole   bool   // Preview is all of it
	Example string // the path of one part, as in a reference; may be empty
}

// NewCard describes raw, the value called name, with a preview of at most
// budget bytes; 0 means PreviewBytes.
func NewCard(name string, version uint64, raw []byte, budget int) Card {
	if budget == 0 {
		budget = PreviewBytes
	}
	c := Card{Name: name, Size: len(raw), Version: version, Example: exampleOf(raw)}
	c.Type, c.Summary = Describe(raw)
	if !strings.Contains(c.Type, "/") {
		c.Preview = Preview(raw, budget)
		c.Whole = len(raw) <= budget
	}
	return c
}

// exampleOf is the path of the first part of raw that a reference can name,
// two steps deep if it can be.
func exampleOf(raw []byte) string {
	var path []Step
	_ = wire.Walk(raw, func(n wire.Node) wire.Next {
		switch {
		case n.Depth == 0:
			return wire.Into
		case n.Name == nil:
			path = append(path, At(n.Index))
		case len(n.Name) > 0 && len(n.Name) < longName && span(string(n.Name), isNameByte) == len(n.Name):
			path = append(path, Member(string(n.Name)))
		default:
			return wire.Over
		}
		if n.Depth == 1 && n.End == 0 {
			return wire.Into
		}
		return wire.Stop
	}, func(wire.Node) wire.Next {
		// What was entered has no part that can be named, but has a name itself.
		if len(path) > 0 {
			return wire.Stop
		}
		return wire.Into
	})
	return FormatPath(path)
}

// reference is how the value is passed on.
func (c Card) reference() string {
	return Reference{Session: c.Session, Name: c.Name}.String()
}

// CardText is the card for a model or a person.
func CardText(c Card) string {
	if c.Whole { // there is no more to say of it than it says itself
		return "Kept as " + string(wire.Quote(c.reference())) + ":\n" + string(c.Preview)
	}
	var b strings.Builder
	b.WriteString("The whole result is kept as " + c.reference())
	if c.Version > 0 {
		b.WriteString(", version " + strconv.FormatUint(c.Version, 10))
	}
	b.WriteString(".\nType: " + c.Type + ", " + sizeText(c.Size) + "\nShape: " + c.Summary + "\n")
	if len(c.Preview) > 0 {
		b.WriteString("Preview:\n")
		b.Write(c.Preview)
		b.WriteByte('\n')
	}
	b.WriteString("To read more, call context_get with " + `{"name":` + string(wire.Quote(c.Name)))
	switch {
	case c.Type == "text":
		b.WriteString(`,"offset":0,"limit":100,"unit":"lines"} for a range, or with "grep":"a regular expression" for the lines that match.`)
	case c.Type == "object" || c.Type == "array":
		if c.Example != "" {
			b.WriteString(`,"path":` + string(wire.Quote(c.Example)))
		}
		b.WriteString(`} for a part, with "offset" and "limit" for a range, or with "grep":"a regular expression" for the texts in it that match.`)
	default:
		b.WriteString("}.")
	}
	b.WriteString("\nTo pass it on, give " + string(wire.Quote(c.reference())))
	if c.Example != "" {
		b.WriteString(" or a part, " + string(wire.Quote(c.reference()+c.Example)) + ",")
	}
	b.WriteString(" as an argument of any tool: the value is put in its place.")
	return b.String()
}

// JSON is the card for a program. The preview of a text is a string, that of
// anything else is JSON of its shape.
func (c Card) JSON() []byte {
	dst := wire.AppendString(append(make([]byte, 0, len(c.Preview)+256), `{"name":`...), c.Name)
	if c.Session != "" {
		dst = wire.AppendString(append(dst, `,"session":`...), c.Session)
	}
	dst = wire.AppendString(append(dst, `,"reference":`...), c.reference())
	dst = wire.AppendString(append(dst, `,"type":`...), c.Type)
	dst = wire.AppendString(append(dst, `,"summary":`...), c.Summary)
	dst = strconv.AppendInt(append(dst, `,"size":`...), int64(c.Size), 10)
	if c.Version > 0 {
		dst = strconv.AppendUint(append(dst, `,"version":`...), c.Version, 10)
	}
	if c.Example != "" {
		dst = wire.AppendString(append(dst, `,"example":`...), c.reference()+c.Example)
	}
	if len(c.Preview) > 0 {
		dst = append(dst, `,"preview":`...)
		if c.Type == "text" {
			dst = wire.AppendString(dst, string(c.Preview))
		} else {
			dst = append(dst, wire.OneLine(bytes.Clone(c.Preview))...)
		}
	}
	return append(dst, '}')
}
