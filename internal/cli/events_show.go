package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
)

// told is a record with its data as they came.
type told struct {
	event.Record
	Data json.RawMessage `json:"data"`
}

// ended reports whether a record is the last of its call, so that its exchange
// is whole.
func (r *told) ended() bool {
	switch r.Type {
	case event.CallDone, event.CallOwn, event.CallHeard, event.CallAnswered, event.CallSaid:
		return r.Call != ""
	}
	return false // what else names a call, such as a question to a person, is not its end
}

// show prints one record, and what passed if that is wanted.
func (w *eventWatch) show(ctx context.Context, raw []byte) error {
	var r told
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("a record of the hub: %w", err)
	}
	var passed []byte
	var why error
	if w.cmd.Raw && r.ended() {
		passed, why = w.exchange(ctx, r.Call)
	}
	if w.cmd.JSON {
		if passed != nil {
			raw = append(bytes.TrimSuffix(bytes.TrimSpace(raw), []byte("}")), `,"exchange":`...)
			raw = append(append(raw, passed...), '}')
		}
		return w.line(raw)
	}
	text := w.told(&r)
	switch {
	case why != nil:
		text += "      " + w.s.paint(w.s.out, dim, printable(why.Error())) + "\n"
	case passed != nil:
		text += w.passed(passed)
	}
	return w.print(text)
}

func (w *eventWatch) line(raw []byte) error {
	return w.print(string(bytes.TrimSpace(raw)) + "\n")
}

func (w *eventWatch) print(text string) error {
	if _, err := io.WriteString(w.s.out, text); err != nil {
		return outputError{err}
	}
	return nil
}

// exchange is what passed for a call, or why that is not known.
func (w *eventWatch) exchange(ctx context.Context, call string) ([]byte, error) {
	raw, err := w.hub.ask(ctx, http.MethodGet, "/api/v1/exchanges/"+url.PathEscape(call), nil, nil)
	if err != nil {
		return nil, err
	}
	var answer struct{ Exchange json.RawMessage }
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Exchange == nil {
		return nil, errors.New("the hub's answer has no exchange")
	}
	return answer.Exchange, nil
}

// The widths of columns that most of what is in them fits into.
const (
	typeWidth  = 16
	whereWidth = 30
	tookWidth  = 8
)

// told is a record as a line.
func (w *eventWatch) told(r *told) string {
	out := w.s.out
	where := r.Upstream
	if r.Tool != "" {
		where = strings.TrimPrefix(where+":"+r.Tool, ":")
	}
	spent := ""
	if r.TookUS > 0 {
		spent = briefly(r.TookUS)
	}
	left := strings.Join([]string{padded(visibleLine(r.Type), typeWidth), padded(visibleLine(where), whereWidth), fmt.Sprintf("%*s", tookWidth, spent)}, "  ")
	clock := r.Time.Local().Format("15:04:05.000")
	rest := visibleLine(strings.Join(r.about(), "  "))
	if n := width(out); n > 0 {
		left = cut(left, max(n-len(clock)-2, 10))
		rest = cut(rest, max(n-len(clock)-4-utf8.RuneCountInString(left), 0))
	}
	line := w.s.paint(out, dim, clock) + "  " + w.s.paint(out, r.colour(), left)
	if rest != "" {
		line += "  " + rest
	} else {
		line = strings.TrimRight(line, " ")
	}
	return line + "\n"
}

func (r *told) colour() string {
	switch r.Level {
	case event.Error:
		return red
	case event.Warning:
		return amber
	case event.Debug:
		return dim
	}
	return ""
}

// about is what a record says besides.
func (r *told) about() (out []string) {
	for _, part := range [][2]string{{"", r.Kind}, {"in ", r.Session}, {"", r.Run}, {"step ", r.Step}, {"task ", r.Task}, {"agent ", r.Agent}, {"trace ", r.Trace}} {
		if part[1] != "" {
			out = append(out, part[0]+part[1])
		}
	}
	if text := r.data(); text != "" {
		out = append(out, text)
	}
	return out
}

// data are what there is in a record of this type, in the words of a person
// where there are some.
func (r *told) data() string {
	if len(r.Data) == 0 {
		return ""
	}
	var d struct {
		State, Before   string
		Progress, Total *float64
		Message         string
		Error           json.RawMessage
	}
	_ = json.Unmarshal(r.Data, &d) // what does not fit is shown as it is
	var why string
	if json.Unmarshal(d.Error, &why) != nil {
		var e struct{ Message string }
		_ = json.Unmarshal(d.Error, &e) // as above
		why = e.Message
	}
	switch {
	case r.Type == event.UpstreamState && d.State != "":
		return strings.TrimSuffix(strings.TrimPrefix(d.Before+" → "+d.State, " → ")+": "+why, ": ")
	case r.Type == event.Fault && why != "":
		return why
	case r.Type == event.CallProgress && d.Progress != nil && d.Total != nil:
		return fmt.Sprintf("%v of %v", *d.Progress, *d.Total)
	}
	return string(r.Data)
}

// passed is an exchange, one message below the other, as the bytes were and
// with nothing in them that a terminal would obey.
func (w *eventWatch) passed(raw []byte) string {
	var x exchange.Exchange
	if err := json.Unmarshal(raw, &x); err != nil {
		return "      " + printable(err.Error()) + "\n"
	}
	var b strings.Builder
	for _, m := range x.Messages {
		arrow := "←"
		if m.What == exchange.Request || m.What == exchange.Asked || m.What == exchange.Answer {
			arrow = "→"
		}
		head := fmt.Sprintf("    %s %s %s (%d bytes, +%s)", arrow, m.What, m.Method, m.Bytes, briefly(m.AtUS))
		b.WriteString(w.s.paint(w.s.out, bold, visibleLine(strings.ReplaceAll(head, "  (", " ("))) + "\n")
		for line := range strings.SplitSeq(visible(m.Text), "\n") {
			b.WriteString("      " + line + "\n")
		}
		if m.Cut {
			fmt.Fprintf(&b, "      … cut after %d of %d bytes\n", len(m.Text), m.Bytes)
		}
	}
	if x.More > 0 {
		fmt.Fprintf(&b, "    and %s that are not kept\n", plural(x.More, "message"))
	}
	return b.String()
}

func padded(text string, n int) string {
	return text + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(text)))
}

// briefly is a time of microseconds in three digits or so.
func briefly(us int64) string {
	switch d := time.Duration(us) * time.Microsecond; {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", us)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(us)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}
