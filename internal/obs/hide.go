package obs

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
)

// hidden is what a record must not tell: a server may say in an error what it
// was sent.
type hidden struct {
	words atomic.Pointer[strings.Replacer]
}

// tellable is the shortest text that is taken out: shorter ones are found in
// many a word, and hide nothing.
const tellable = 8

// dots is what is written in their place.
const dots = "•••"

func (h *hidden) set(values []string) {
	var all []string
	for _, v := range values {
		// "Bearer x" is also told without its scheme.
		for _, v := range append([]string{v}, strings.Fields(v)...) {
			if len(v) >= tellable {
				all = append(all, v)
			}
		}
	}
	// Of two that begin alike the longer is to be found.
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, v := range slices.Compact(all) {
		pairs = append(pairs, v, dots)
	}
	if len(pairs) == 0 {
		h.words.Store(nil)
		return
	}
	h.words.Store(strings.NewReplacer(pairs...))
}

// from is f for records that tell nothing of what is hidden.
func (h *hidden) from(f func([]string, slog.Attr) slog.Attr) func([]string, slog.Attr) slog.Attr {
	return func(groups []string, a slog.Attr) slog.Attr {
		words := h.words.Load()
		if words == nil {
			return f(groups, a)
		}
		switch v := a.Value; {
		case v.Kind() == slog.KindString:
			a.Value = slog.StringValue(words.Replace(v.String()))
		case v.Kind() == slog.KindAny:
			if err, ok := v.Any().(error); ok {
				a.Value = slog.StringValue(words.Replace(err.Error()))
			}
		}
		return f(groups, a)
	}
}
