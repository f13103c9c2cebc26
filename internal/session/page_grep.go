package session

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// The bounds of a search: what a pattern may cost, and an answer.
const (
	maxPattern = 1000
	maxMatches = 50
	matchText  = 300
)

// Search says how to search.
type Search struct {
	Path  []Step // of the part to search; none means all
	Max   int    // matches; 0 means 50
	Whole bool   // long lines are not cut
}

// Match is one line that matches.
type Match struct {
	Path string `json:"path,omitempty"` // of the text, from the root of the value; empty if the value is that text
	Line int    `json:"line,omitempty"` // from 1; 0 if the text has one line and a path
	Text string `json:"text"`           // the line; of a long one what is around the match
}

// Grep returns the lines that match pattern, a regular expression as of RE2,
// in a text or in all texts within a value, and whether there are more than it
// returns. Names of members and numbers are not searched.
func Grep(raw []byte, pattern string, s Search) (matches []Match, more bool, err error) {
	if len(pattern) > maxPattern {
		return nil, false, fault.New(fault.InvalidArguments, "grep", "the pattern has %d bytes; the limit is %d", len(pattern), maxPattern)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, false, (&fault.Error{
			Kind: fault.InvalidArguments, Subject: "grep", Msg: "the pattern cannot be read: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "),
			Hint: `Use RE2: no look-around and no back-references; put a backslash before . * + ? ( ) [ ] { } | ^ $ that are meant as they are.`,
		}).Because(err)
	}
	part, err := Dig(raw, s.Path)
	if err != nil {
		return nil, false, err
	}
	if s.Max == 0 {
		s.Max = maxMatches
	}
	g := grep{re: re, max: s.Max, whole: s.Whole, path: append([]Step(nil), s.Path...)}
	base := len(g.path)
	err = wire.Walk(part, func(n wire.Node) wire.Next {
		if n.Depth > 0 {
			step := At(n.Index)
			if n.Name != nil {
				step = Member(string(n.Name))
			}
			g.path = append(g.path[:base+n.Depth-1], step)
		}
		if n.Kind == '"' {
			text, _ := wire.String(part[n.Start:n.End])
			g.text(text)
		}
		if g.more {
			return wire.Stop
		}
		return wire.Into
	}, nil)
	if err != nil {
		return nil, false, fault.New(fault.Internal, "", "the stored value is not JSON").Because(err)
	}
	return g.matches, g.more, nil
}

type grep struct {
	re      *regexp.Regexp
	max     int
	path    []Step
	matches []Match
	more    bool
	whole   bool
}

// text searches one text, line by line.
func (g *grep) text(s string) {
	single := !strings.Contains(s, "\n")
	for line := 1; s != "" || single; line++ {
		n := lineLength(s)
		text := strings.TrimRight(s[:n], "\r\n")
		if at := g.re.FindStringIndex(text); at != nil {
			if len(g.matches) == g.max {
				g.more = true
				return
			}
			m := Match{Path: FormatPath(g.path), Line: line, Text: text}
			if !g.whole {
				m.Text = around(text, at[0], at[1])
			}
			if single && m.Path != "" {
				m.Line = 0
			}
			g.matches = append(g.matches, m)
		}
		if s = s[n:]; single {
			return
		}
	}
}

// around is the part of a line that has the match from start to end in it.
func around(line string, start, end int) string {
	if len(line) <= matchText {
		return line
	}
	from := max(0, start-max(0, matchText-(end-start))/2)
	to := min(len(line), from+matchText)
	from = min(from, max(0, to-matchText))
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to--
	}
	out := line[from:to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(line) {
		out += "…"
	}
	return out
}
