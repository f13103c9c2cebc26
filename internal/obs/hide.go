package obs

import (
	"log/slog"

	"github.com/stoahub/stoa/internal/secret"
)

// hidden is what a record must not tell: a server may say in an error what it
// was sent.
type hidden struct{ secret.Hider }

// from is f for records that tell nothing of what is hidden.
func (h *hidden) from(f func([]string, slog.Attr) slog.Attr) func([]string, slog.Attr) slog.Attr {
	return func(groups []string, a slog.Attr) slog.Attr {
		switch v := a.Value; {
		case v.Kind() == slog.KindString:
			a.Value = slog.StringValue(h.Hide(v.String()))
		case v.Kind() == slog.KindAny:
			if err, ok := v.Any().(error); ok {
				a.Value = slog.StringValue(h.Hide(err.Error()))
			}
		}
		return f(groups, a)
	}
}
