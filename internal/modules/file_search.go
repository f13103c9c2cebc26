package modules

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
)

const (
	searchLine    = 64 << 10  // bytes of a line that are searched
	searchShown   = 400       // bytes of a line that are shown
	searchAnswer  = 256 << 10 // bytes of all lines that are shown
	searchTotal   = 512 << 20 // bytes of all files that are read
	searchStates  = 2000      // size of a pattern's automaton
	binarySniffed = 8 << 10   // bytes that are looked at for a NUL
)

var searchTool = Tool{
	Name: "file_search", Title: "Search in files", ReadOnly: true,
	Description: "Searches a file, or the files of a folder and of those in it, for lines with a text or, with regexp, an RE2 regular expression. " +
		"Binary and very large files are left out and counted, symbolic links are not followed, names that begin with a dot only with hidden.",
	Input: `{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{
		"pattern":{"type":"string","minLength":1,"maxLength":1000},
		"regexp":{"type":"boolean","description":"The pattern is a regular expression (RE2), matched line by line."},
		"ignoreCase":{"type":"boolean"},
		"path":{"type":"string","description":"The folder or file; left out, all roots."},
		"glob":{"type":"string","maxLength":1000,"description":"Only files that fit: *.go by name, src/**/*.go by the path below the folder."},
		"hidden":{"type":"boolean"},
		"context":{"type":"integer","minimum":0,"maximum":10,"description":"Lines to show before and after each. Default 0."},
		"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"How many lines at most. Default 100."}}}`,
}

type searchArgs struct {
	Pattern    string `json:"pattern"`
	Regexp     bool   `json:"regexp"`
	IgnoreCase bool   `json:"ignoreCase"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	Hidden     bool   `json:"hidden"`
	Context    int    `json:"context"`
	Limit      int    `json:"limit"`
}

type match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Column int      `json:"column"` // in bytes, from 1
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

type found struct {
	Matches   []match `json:"matches"`
	Files     int     `json:"filesSearched"`
	Truncated string  `json:"truncated,omitempty"`
	Skipped   skipped `json:"skipped,omitzero"`
}

// skipped counts what was not searched.
type skipped struct {
	Binary     int `json:"binary,omitempty"`
	Large      int `json:"large,omitempty"`
	Unreadable int `json:"unreadable,omitempty"`
	LongLines  int `json:"longLines,omitempty"` // searched at their beginning only
}

// searching is one search under way.
type searching struct {
	f       *files
	args    searchArgs
	re      *regexp.Regexp
	literal []byte // what a file must have to be worth a look; nil if not known
	glob    *glob
	limit   int
	whole   bool  // the answer is kept: nothing is left out of it
	room    int   // bytes of lines
	read    int64 // bytes of files
	shown   int   // bytes of lines
	out     found
}

func (f *files) search(ctx context.Context, a searchArgs, whole bool) (Answer, error) {
	s := &searching{f: f, args: a, limit: orElse(a.Limit, 100), room: f.page(searchAnswer), whole: whole, out: found{Matches: []match{}}}
	if whole {
		s.limit, s.room = orElse(a.Limit, math.MaxInt), f.opts.MessageBytes
	}
	if err := s.compile(); err != nil {
		return Answer{}, err
	}
	where := []string{a.Path}
	if r, _, err := f.locate(a.Path); err == nil && r == nil {
		where = nil
		for _, r := range f.roots {
			where = append(where, r.label)
		}
	}
	for _, given := range where {
		p, err := f.find(given, true)
		if err != nil {
			return Answer{}, err
		}
		err = s.place(ctx, p)
		if s.out.Truncated, err = f.ended(ctx, err); err != nil {
			return Answer{}, f.fail("search", p, err)
		}
		if s.out.Truncated != "" {
			break
		}
	}
	text := ""
	if why := s.out.Truncated; why != "" {
		if whole && why != string(overLimit) {
			return Answer{}, partly("file_search", why)
		}
		text = "These are not all: " + why + ". Say with limit how many, or look in a smaller folder."
	}
	return Answer{Data: s.out, Message: text}, nil
}

func (s *searching) compile() (err error) {
	if s.glob, err = newGlob(s.args.Glob); err != nil {
		return err
	}
	expr := s.args.Pattern
	if !s.args.Regexp {
		if strings.Contains(expr, "\n") {
			e := fault.New(fault.InvalidArguments, "pattern", "files are searched line by line, and the text has several lines")
			e.Hint = "Search for one of its lines."
			return e
		}
		if !s.args.IgnoreCase {
			s.literal = []byte(expr)
		}
		expr = regexp.QuoteMeta(expr)
	}
	if s.args.IgnoreCase {
		expr = "(?i)" + expr
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		e := fault.New(fault.InvalidArguments, "pattern", "it is no regular expression: %v", err)
		e.Hint = "Use RE2 syntax, without look-around and back references, or leave regexp out."
		return e
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(prog.Inst) > searchStates {
		e := fault.New(fault.Limit, "pattern", "the regular expression is too large")
		e.Hint = "Use fewer or smaller counted repetitions."
		return e
	}
	s.re, err = regexp.Compile(expr)
	return err
}

// place searches a file or a folder.
func (s *searching) place(ctx context.Context, p place) error {
	info, err := p.fs.Stat(p.name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if err := notRegular(p, info.Mode()); err != nil {
			return err
		}
		return s.file(ctx, p)
	}
	w := walk{p: p, depth: maxDepth}
	if !s.args.Hidden {
		w.skip = func(name string) bool { return strings.HasPrefix(name, ".") }
	}
	err = w.run(ctx, func(p place, below string, info fs.FileInfo) error {
		if !info.Mode().IsRegular() || !s.glob.match(below) {
			return nil
		}
		if !utf8.ValidString(below) { // a match could not be told
			s.out.Skipped.Unreadable++
			return nil
		}
		return s.file(ctx, p)
	})
	s.out.Skipped.Unreadable += w.unreadable
	return err
}

// file searches one file. What cannot be read is counted.
func (s *searching) file(ctx context.Context, p place) error {
	b, _, err := s.f.whole(ctx, p)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.Is(err, fault.Limit):
		s.out.Skipped.Large++
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		s.out.Skipped.Unreadable++
		return nil
	}
	if s.read += int64(len(b)); s.read > searchTotal {
		return stop("the files are too many to search them all")
	}
	if bytes.IndexByte(b[:min(len(b), binarySniffed)], 0) >= 0 {
		s.out.Skipped.Binary++
		return nil
	}
	s.out.Files++
	if s.literal != nil && !bytes.Contains(b, s.literal) {
		return nil
	}
	return s.lines(ctx, p, splitLines(b))
}

func (s *searching) lines(ctx context.Context, p place, lines [][]byte) error {
	for i, line := range lines {
		if i%256 == 0 || len(line) > 1<<10 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > searchLine {
			line = line[:searchLine]
			s.out.Skipped.LongLines++
		}
		at := s.re.FindIndex(line)
		if at == nil {
			continue
		}
		if len(s.out.Matches) == s.limit {
			return overLimit
		}
		m := match{Path: p.short, Line: i + 1, Column: at[0] + 1, Text: s.excerpt(line, at[0])}
		for j := max(0, i-s.args.Context); j < i; j++ {
			m.Before = append(m.Before, s.excerpt(lines[j], 0))
		}
		for j := i + 1; j <= i+s.args.Context && j < len(lines); j++ {
			m.After = append(m.After, s.excerpt(lines[j], 0))
		}
		for _, text := range append(append(m.Before, m.After...), m.Text, m.Path) {
			s.shown += len(text)
		}
		if s.shown > s.room {
			return stop("the lines are too long to show them all")
		}
		s.out.Matches = append(s.out.Matches, m)
	}
	return nil
}

// excerpt is a line as it is shown: a window of it around at, if it is long. Where
// the answer is kept it is the line.
func (s *searching) excerpt(line []byte, at int) string {
	line = bytes.TrimRight(line, "\r\n")
	if s.whole || len(line) <= searchShown {
		return string(bytes.ToValidUTF8(line, []byte("�")))
	}
	from := max(0, min(at-searchShown/4, len(line)-searchShown))
	text := string(bytes.ToValidUTF8(line[from:from+searchShown], nil))
	if from > 0 {
		text = "…" + text
	}
	if from+searchShown < len(line) {
		text += "…"
	}
	return text
}
