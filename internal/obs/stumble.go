package obs

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Stumbled tells of a panic, with its stack, and makes an error of it. Whoever
// recovered from it calls it, at a boundary where it is clear what is lost: one
// request, one message, one connection. log may be nil.
func Stumbled(log *slog.Logger, p any, msg string, facts ...any) error {
	err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	if log != nil {
		log.Error(msg, append(facts, KeyErr, err)...)
	}
	return err
}
