package session

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// PageBytes is how large a page is at most unless told otherwise.
const PageBytes = 16 << 10

// minPage leaves room for one unit, in part, and its name.
const minPage = 256

// Unit is what a page counts.
type Unit string

// The units. The zero Unit is the one that fits the value; for a text that is
// Characters. A value without parts is one Whole.
const (
	Elements   Unit = "elements"
	Members    Unit = "members"
	Characters Unit = "characters"
	Lines      Unit = "lines"
	Whole      Unit = "value"
)

// Range says which part of a value is wanted.
type Range struct {
	Offset int  // of the first unit
	Limit  int  // units; 0 means as many as fit the page
	Unit   Unit // empty means the one that fits the value
	Bytes  int  // of the page's data, at least minPage; 0 means PageBytes
}

// Page is a part of a value.
type Page struct {
	Data   []byte // an array, an object or a string of what is in the range; else the value
	Total  int    // units of the whole
	Offset int
	Next   int    // where the next page begins; 0 means that this is the last
	Unit   Unit   // what Total, Offset and Next count
	Note   string // says what is shown only in part, and how to read it; usually empty
}

// PageOf returns the page of the value at path that r asks for. It ends before
// the first unit that would make it too large; a unit that is too large by
// itself is shown in part, alone, with a note. Put together, pages without
// notes give the whole.
func PageOf(raw []byte, path []Step, r Range) (Page, error) {
	part, err := Dig(raw, path)
	if err != nil {
		return Page{}, err
	}
	if r.Offset < 0 || r.Limit < 0 {
		return Page{}, fault.New(fault.InvalidArguments, "", "offset and limit cannot be negative")
	}
	if r.Bytes == 0 {
		r.Bytes = PageBytes
	}
	r.Bytes = max(r.Bytes, minPage)
	if len(part) == 0 {
		part = []byte("null")
	}
	if r.Unit, err = unitOf(part[0], r.Unit); err != nil {
		return Page{}, err
	}
	var p Page
	switch r.Unit {
	case Elements, Members:
		p = pageOfContainer(part, path, r)
	case Characters, Lines:
		p = pageOfText(part, r)
	default:
		p = Page{Data: part, Total: 1}
		if len(part) > r.Bytes {
			p.Data = preview(part, r.Bytes, 0)
			p.Note = "the number has " + count(len(part), "digit") + " and is shown in part"
		}
	}
	p.Unit, p.Offset = r.Unit, r.Offset
	if r.Offset > p.Total {
		return Page{}, fault.New(fault.InvalidArguments, "offset", "%d is past the end: the value has %s %s", r.Offset, number(p.Total), r.Unit).With("total", p.Total)
	}
	if p.Next >= p.Total {
		p.Next = 0
	}
	return p, nil
}

// unitOf checks that a value that begins with first has the unit wanted.
func unitOf(first byte, want Unit) (Unit, error) {
	var units []Unit
	switch first {
	case '[':
		units = []Unit{Elements}
	case '{':
		units = []Unit{Members}
	case '"':
		units = []Unit{Characters, Lines}
	default:
		units = []Unit{Whole}
	}
	for _, u := range units {
		if want == "" || want == u {
			return u, nil
		}
	}
	text := string(units[0])
	if len(units) > 1 {
		text += " or " + string(units[1])
	}
	return "", fault.New(fault.InvalidArguments, "unit", "%q cannot be counted in this value: use %s, or leave it out", want, text)
}

// A pager collects the children of a container that are in the range.
type pager struct {
	r     Range
	path  []Step
	raw   []byte
	page  Page
	full  bool
	count int // children in the page
}

func pageOfContainer(raw []byte, path []Step, r Range) Page {
	p := pager{r: r, path: path, raw: raw}
	p.page.Data = append(p.page.Data, raw[0])
	_ = wire.Walk(raw, func(n wire.Node) wire.Next {
		if n.Depth == 0 {
			return wire.Into
		}
		if n.End > 0 {
			p.child(n)
		}
		return wire.Over
	}, func(n wire.Node) wire.Next {
		if n.Depth == 1 {
			p.child(n)
		}
		return wire.Into
	})
	// The closing bracket lies two characters after the opening one in ASCII.
	p.page.Data = append(p.page.Data, raw[0]+2)
	p.page.Next = r.Offset + p.count
	return p.page
}

func (p *pager) child(n wire.Node) {
	p.page.Total++
	if n.Index < p.r.Offset || p.full {
		return
	}
	if p.r.Limit > 0 && p.count == p.r.Limit {
		p.full = true
		return
	}
	room := p.r.Bytes - len(p.page.Data) - 1
	if p.count > 0 {
		room--
	}
	start := n.Start
	if n.Name != nil {
		start = n.NameAt
	}
	text := p.raw[start:n.End]
	switch {
	case len(text) <= room:
	case p.count > 0:
		p.full = true
		return
	default:
		text = p.part(n, room)
		p.full = true
	}
	if p.count > 0 {
		p.page.Data = append(p.page.Data, ',')
	}
	p.page.Data = append(p.page.Data, text...)
	p.count++
}

// part shows a child that is larger than a page.
func (p *pager) part(n wire.Node, room int) []byte {
	step, text := At(n.Index), []byte(nil)
	if n.Name != nil {
		step = Member(string(n.Name))
		name := bytes.TrimRight(p.raw[n.NameAt:n.Start], " \t\r\n:")
		if len(name) > longName {
			name = wire.Quote(clip(string(n.Name), longName/2))
		}
		text = append(append(text, name...), ':')
	}
	value := p.raw[n.Start:n.End]
	shown := preview(value, room-len(text), 0)
	if shown == nil {
		shown = []byte(`"…"`)
	}
	at := FormatPath(append(p.path[:len(p.path):len(p.path)], step))
	p.page.Note = clip(at, 400) + " has " + sizeText(len(value)) + " and is shown in part: read it with that path"
	return append(text, shown...)
}

func pageOfText(raw []byte, r Range) Page {
	s, _ := wire.String(raw)
	if r.Unit == Lines {
		return pageOfLines(s, r)
	}
	p := Page{Total: utf8.RuneCountInString(s)}
	if r.Offset > p.Total {
		return p
	}
	s = s[runes(s, r.Offset):]
	if r.Limit > 0 {
		s = s[:runes(s, r.Limit)]
	}
	n, _ := prefix(s, r.Bytes-2, jsonCost)
	s = s[:n]
	p.Data = wire.Quote(s)
	p.Next = r.Offset + utf8.RuneCountInString(s)
	return p
}

// runes is the length of the first n runes of s, or of s.
func runes(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func pageOfLines(s string, r Range) Page {
	p := Page{Total: linesIn(s)}
	if r.Offset > p.Total {
		return p
	}
	for range r.Offset {
		s = s[lineLength(s):]
	}
	taken, lines, room := 0, 0, r.Bytes-2
	for taken < len(s) && (r.Limit == 0 || lines < r.Limit) {
		n := lineLength(s[taken:])
		line := s[taken : taken+n]
		fit, whole := prefix(line, room, jsonCost)
		if !whole && lines > 0 {
			break
		}
		lines++
		if !whole {
			taken += fit
			p.Note = "line " + strconv.Itoa(r.Offset+lines) + " has " + count(utf8.RuneCountInString(line), "character") + " and is shown in part: read it in characters"
			break
		}
		taken += n
		room -= len(wire.Quote(line)) - 2
	}
	p.Data = wire.Quote(s[:taken])
	p.Next = r.Offset + lines
	return p
}

// lineLength is the length of the first line of s, with its end.
func lineLength(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i + 1
	}
	return len(s)
}
