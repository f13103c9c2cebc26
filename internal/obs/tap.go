package obs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Trouble is a record of the log that says that something went wrong.
type Trouble struct {
	Time  time.Time
	Level slog.Level
	Msg   string
	Stack string            // of a panic; "" for none
	Facts map[string]string // the attributes, as text
}

// Tap makes f be called with each record of the level warn and above, whatever
// level is logged, on the goroutine that logs and with what is hidden taken
// out. f must not block and must not log. nil ends it.
func (l *Logs) Tap(f func(Trouble)) {
	if f == nil {
		l.tap.Store(nil)
		return
	}
	l.tap.Store(&f)
}

// Hidden is the text of an error as it may be shown: without what is hidden in
// everything that is logged, and without what looks like a credential.
func (l *Logs) Hidden(text string) string { return l.hide.Hide(text) }

// Known is a text without what is hidden in everything that is logged, for texts
// that are to stay what they are but for that.
func (l *Logs) Known(text string) string { return l.hide.Known(text) }

// tapped gives a record to who taps the log.
func (t tee) tapped(_ context.Context, r slog.Record) {
	f := t.logs.tap.Load()
	if f == nil || r.Level < slog.LevelWarn {
		return
	}
	out := Trouble{Time: r.Time, Level: r.Level, Msg: r.Message, Facts: make(map[string]string, len(t.attrs)+r.NumAttrs())}
	add := func(a slog.Attr) bool {
		out.Facts[a.Key] = t.logs.Hidden(shortened(textOf(a.Value)))
		return true
	}
	for _, a := range t.attrs {
		add(a)
	}
	r.Attrs(add)
	out.Stack = out.Facts["stack"]
	delete(out.Facts, "stack")
	// A panic that was made an error of has its stack below it.
	if text, stack, ok := strings.Cut(out.Facts[KeyErr], "\ngoroutine "); ok && out.Stack == "" {
		out.Facts[KeyErr], out.Stack = text, "goroutine "+stack
	}
	(*f)(out)
}

func textOf(v slog.Value) string {
	v = v.Resolve()
	if v.Kind() == slog.KindAny {
		if err, ok := v.Any().(error); ok {
			return err.Error()
		}
		return fmt.Sprint(v.Any())
	}
	return v.String()
}

func (t tee) with(attrs []slog.Attr) []slog.Attr { return append(slices.Clip(t.attrs), attrs...) }
