package obs

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"unicode"
)

// Printer writes records for people, one a line, coloured on terminals unless
// NO_COLOR is set.
type Printer struct{ h slog.Handler }

// NewPrinter returns a Printer that writes to w.
func NewPrinter(w io.Writer) *Printer {
	return &Printer{textHandler(w, LevelTrace-100, "2006-01-02 15:04:05.000", &hidden{})}
}

// Print writes one record.
func (p *Printer) Print(r Record) error {
	out := slog.NewRecord(r.Time.Local(), r.Level, harmless(r.Msg), 0)
	for _, a := range r.Attrs {
		out.AddAttrs(slog.String(a.Key, a.Text()))
	}
	return p.h.Handle(context.Background(), out)
}

// harmless takes out what could make a terminal do things; attributes are
// quoted where they need it, messages are not.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}
