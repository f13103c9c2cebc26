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
// level is trace, debug, info, warn or error; empty means info. format is text, json
// or auto; empty means auto, which is text if w is a terminal and JSON
// elsewhere. Text is coloured on terminals unless NO_COLOR is set.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	least, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	terminal := isTerminal(w)
	switch strings.ToLower(format) {
	case "", "auto":
		if !terminal {
			return slog.New(jsonHandler(w, least)), nil
		}
	case "text":
	case "json":
		return slog.New(jsonHandler(w, least)), nil
	default:
		return nil, fmt.Errorf("log format %q: use auto, text or json", format)
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{
		Level:       least,
		TimeFormat:  "15:04:05.000",
		NoColor:     !terminal || os.Getenv("NO_COLOR") != "",
		ReplaceAttr: markErrors,
	})), nil
}

// LevelTrace is below debug: single steps, of use only to who follows the code.
const LevelTrace = slog.LevelDebug - 4

func parseLevel(level string) (slog.Level, error) {
	switch strings.ToLower(level) {
	case "trace":
		return LevelTrace, nil
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: use trace, debug, info, warn or error", level)
}

func jsonHandler(w io.Writer, least slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: plain})
}

// plain writes durations as people do; the library's way, a number of
// nanoseconds, does not say its unit. Nor does it have a name for LevelTrace.
func plain(groups []string, a slog.Attr) slog.Attr {
	switch {
	case a.Value.Kind() == slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	case isTrace(groups, a):
		a.Value = slog.StringValue("TRACE")
	}
	return a
}

func isTrace(groups []string, a slog.Attr) bool {
	level, ok := a.Value.Any().(slog.Level)
	return ok && level == LevelTrace && a.Key == slog.LevelKey && len(groups) == 0
}

// markErrors lets an error be seen in its own colour.
func markErrors(groups []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok && a.Key == KeyErr {
		return tint.Attr(9, slog.String(KeyErr, err.Error()))
	}
	if isTrace(groups, a) {
		return slog.String(slog.LevelKey, "TRC")
	}
	return plain(groups, a)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
