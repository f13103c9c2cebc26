package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// std are the streams of the process.
type std struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// serving is stdin for a command that is a server on its pipes: what ends ctx
// ends the reading too, which nothing else could interrupt. Until stop is
// called, a client that has gone makes writing fail and does not kill us before
// what we started has ended.
func (s std) serving(ctx context.Context) (in io.Reader, stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // with a receiver, the signal does not kill
	read, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, s.in)
		feed.CloseWithError(err)
	}()
	over := context.AfterFunc(ctx, func() { read.CloseWithError(io.ErrClosedPipe) })
	return read, func() {
		read.Close()
		over()
		signal.Stop(broken)
	}
}

// isTerminal reports whether a person looks at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is how many characters fit on a line of w; 0 means any number.
func width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil || n < 20 {
		return 80
	}
	return n
}

// Colours, as the numbers of terminals.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	amber = "33"
)

// paint colours text for w, if that is a terminal that may be coloured.
func (s std) paint(w io.Writer, colour, text string) string {
	if colour == "" || !isTerminal(w) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// note tells a person something that is no part of the output.
func (s std) note(format string, args ...any) {
	fmt.Fprintln(s.err, s.paint(s.err, dim, "stoa: "+printable(fmt.Sprintf(format, args...))))
}

// json prints a value for scripts, indented where a person looks.
func (s std) json(v any) error {
	e := json.NewEncoder(s.out)
	e.SetEscapeHTML(false)
	if isTerminal(s.out) {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// text prints what a server said. Control characters could make a terminal do
// things, so a terminal does not get them.
func (s std) text(text string) error {
	if isTerminal(s.out) {
		text = withoutControls(text, true)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(s.out, text)
	return err
}

// printable makes foreign text fit for one line.
func printable(text string) string {
	return withoutControls(strings.ReplaceAll(strings.TrimSpace(text), "\n", " "), false)
}

func withoutControls(text string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case lines && (r == '\n' || r == '\t'):
			return r
		case r == '\t':
			return ' '
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1 // also those that turn the direction of text around
		}
		return r
	}, text)
}

// cell is one field of a table.
type cell struct {
	text   string
	colour string
}

// table prints rows in aligned columns under a head. On a terminal the last
// column is cut to the width of the line.
func (s std) table(head []string, rows [][]cell) error {
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range rows {
		for i := range row {
			row[i].text = printable(row[i].text)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	heads := make([]cell, len(head))
	for i, h := range head {
		heads[i] = cell{h, bold}
	}
	limit := width(s.out)
	var b strings.Builder
	for _, row := range append([][]cell{heads}, rows...) {
		s.row(&b, row, widths, limit)
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

func (s std) row(b *strings.Builder, row []cell, widths []int, limit int) {
	last := len(row) - 1
	for last > 0 && row[last].text == "" {
		last--
	}
	used := 0
	for i, c := range row[:last+1] {
		if i == len(widths)-1 && limit > 0 {
			c.text = cut(c.text, max(limit-used, 10))
		}
		b.WriteString(s.paint(s.out, c.colour, c.text))
		if i < last {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
		}
		used += widths[i] + 2
	}
	b.WriteByte('\n')
}

// cut shortens text to n characters.
func cut(text string, n int) string {
	if n <= 0 || utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// firstLine is what a list has room for of a description.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
