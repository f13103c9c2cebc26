package obs

import (
	"fmt"
	"log/slog"
	"strings"
)

// LevelTrace is below debug: every step of what is going on.
const LevelTrace = slog.LevelDebug - 4

// ParseLevel reads the name of a level, in any case: trace, debug, info, warn
// (or warning) or error.
func ParseLevel(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "trace":
		return LevelTrace, nil
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: use trace, debug, info, warn or error", name)
}

// LevelName is the name of a level, or of the next one below it.
func LevelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	case l >= slog.LevelDebug:
		return "debug"
	}
	return "trace"
}

// orInfo is the level of that name; no name means info.
func orInfo(name string) (slog.Level, error) {
	if name == "" {
		return slog.LevelInfo, nil
	}
	return ParseLevel(name)
}
