package obs

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// Logger returns a logger that writes to w, one line per record.
//
// level is trace, debug, info, warn or error; empty means info. format is text,
// json or auto; empty means auto, which is text if w is a terminal and JSON
// elsewhere. Text is coloured on terminals unless NO_COLOR is set.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	h, err := console(w, level, format, &hidden{})
	if err != nil {
		return nil, err
	}
	return slog.New(h), nil
}

func console(w io.Writer, level, format string, hide *hidden) (slog.Handler, error) {
	least, err := orInfo(level)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(format) {
	case "", "auto":
		if !isTerminal(w) {
			return jsonHandler(w, least, hide), nil
		}
	case "text":
	case "json":
		return jsonHandler(w, least, hide), nil
	default:
		return nil, fmt.Errorf("log format %q: use auto, text or json", format)
	}
	return textHandler(w, least, "15:04:05.000", hide), nil
}

// Component is l for one part of the hub, named on each of its lines.
func Component(l *slog.Logger, name string) *slog.Logger { return l.With(KeyComponent, name) }

func textHandler(w io.Writer, least slog.Level, times string, hide *hidden) slog.Handler {
	return tint.NewTextHandler(w, &tint.Options{
		Level:       least,
		TimeFormat:  times,
		NoColor:     !isTerminal(w) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb",
		ReplaceAttr: hide.from(forPeople),
	})
}

func jsonHandler(w io.Writer, least slog.Level, hide *hidden) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: hide.from(plain)})
}

// maxText bounds one text of a record: what foreign servers say gets into
// errors, and a log is no place to keep all of it.
const maxText = 16 << 10

// plain writes durations as people do, since a number of nanoseconds does not
// say its unit; names trace; and cuts what is too long.
func plain(groups []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	case slog.KindString:
		text := shortened(a.Value.String())
		if a.Key == KeySession {
			text = Short(text)
		}
		a.Value = slog.StringValue(text)
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(shortened(v.Error()))
		case slog.Level:
			if len(groups) == 0 && a.Key == slog.LevelKey && v <= LevelTrace {
				a.Value = slog.StringValue("TRACE")
			}
		}
	}
	return a
}

func shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// forPeople lets an error be seen in its own colour. What foreign servers say
// gets no colours: the text handler lets escape sequences through to a terminal.
func forPeople(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.LevelKey && len(groups) == 0 {
		if l, ok := a.Value.Any().(slog.Level); ok && l <= LevelTrace {
			return tint.Attr(13, slog.String(a.Key, "TRC"))
		}
		return a
	}
	a = plain(groups, a)
	if a.Value.Kind() == slog.KindString {
		a.Value = slog.StringValue(strings.ReplaceAll(strings.ToValidUTF8(a.Value.String(), "\ufffd"), "\x1b", ""))
	}
	if a.Key == KeyErr && a.Value.Kind() == slog.KindString {
		return tint.Attr(9, a)
	}
	return a
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
