package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// view shows a conversation to a person: answers on one pane, and what is done
// for them on another, which may be the same.
type view struct {
	answer  *pane
	status  *pane
	reasons bool // what a model thinks is shown, too

	calls   map[string]string // names, by id
	part    string            // the type of what was streamed last
	pending string            // the beginning of a character
}

func newView(answer, status *pane, reasons bool) *view {
	return &view{answer: answer, status: status, reasons: reasons, calls: map[string]string{}}
}

// say streams a part of an answer.
func (v *view) say(kind, text string) {
	if kind == "reasoning" && !v.reasons || text == "" {
		return
	}
	if v.part != kind {
		v.close()
		v.part = kind
	}
	text, v.pending = whole(v.pending + text)
	v.put(kind, text)
}

func (v *view) put(kind, text string) {
	v.status.wipe() // it may be on the same screen
	text = v.answer.safe(text)
	if kind == "reasoning" {
		text = v.answer.paint(dim, text)
	}
	v.answer.stream(text)
}

// close ends what is being streamed, so that the next thing begins a line.
func (v *view) close() {
	if v.part == "" {
		return
	}
	v.put(v.part, v.pending)
	v.part, v.pending = "", ""
	v.answer.startLine()
}

// tell shows a line about what is going on.
func (v *view) tell(mark, colour, text string) {
	v.interrupt()
	lead := mark
	if mark != "" {
		lead += " "
	}
	shown := v.status.fit(text, utf8.RuneCountInString(lead))
	if mark == "✗" || mark == "!" {
		shown = v.status.wrapped(text, utf8.RuneCountInString(lead)) // the end may be what matters
	}
	v.status.line(v.status.paint(colour, mark) + strings.TrimPrefix(lead, mark) + shown)
}

// interrupt leaves the line of the answer where a person would see both on it.
func (v *view) interrupt() {
	if v.answer == v.status || v.answer.tty && v.status.tty {
		v.close()
	}
}

// hint shows a line that nobody has to read.
func (v *view) hint(text string) {
	v.interrupt()
	v.status.line(v.status.paint(dim, v.status.fit(text, 0)))
}

// show shows what happened. What has no words for a person passes by.
func (v *view) show(kind string, f frame, h happening) {
	switch kind {
	case "text", "reasoning":
		var said saidText
		f.read(&said)
		switch {
		case !said.Notice:
			v.say(kind, said.Content)
		case f.Seq == 0: // else the end of the turn says it
			v.tell("!", amber, said.Content)
		}
	case "call.started":
		if h.Call != nil {
			v.started(h.Call.ID, h.Call.Name, h.Call.Args)
		}
	case "call.progress":
		if h.Progress != nil {
			v.progress(h.Progress)
		}
	case "call.done":
		if h.Result != nil {
			v.done(h.Result)
		}
	case "answer":
		v.close()
	case "retry":
		if h.Retry != nil {
			v.retry(h.Retry)
		}
	case "note":
		if h.Note != nil {
			v.tell("!", amber, h.Note.Text)
		}
	case "compacted":
		if h.Compaction != nil {
			v.tell("·", dim, fmt.Sprintf("older messages were shortened for the model (%s): %d tokens became %d", h.Compaction.Kind, h.Compaction.Before, h.Compaction.After))
		}
	}
}

func (v *view) started(id, name string, args json.RawMessage) {
	v.calls[id] = name
	v.tell("▸", bold, name+" "+oneLine(args))
}

// oneLine is JSON on one line.
func oneLine(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func (v *view) progress(p *callProgress) {
	text := fmt.Sprintf("%g", p.Progress)
	if p.Total > 0 {
		text = fmt.Sprintf("%.0f%%", min(100*p.Progress/p.Total, 100))
	}
	v.brief(v.calls[p.Call] + " " + text + " " + p.Message)
}

// brief shows a line that goes when something else comes.
func (v *view) brief(text string) {
	v.interrupt()
	v.status.brief(visibleLine(text))
}

func (v *view) done(r *callResult) {
	name := r.Tool
	if name == "" {
		name = v.calls[r.Call]
	}
	text := name + " " + took(r.TookMS)
	if !r.IsError {
		if r.Bytes > 0 {
			text += ", " + size(r.Bytes)
		}
		if r.Saved != "" {
			text += ", kept as @" + r.Saved
		}
		v.tell("✓", green, text)
		return
	}
	text += ": "
	if r.Status != "" && r.Status != "failed" {
		text += r.Status + ": "
	}
	v.tell("✗", red, text+r.content())
}

func (v *view) retry(r *modelRetry) {
	text := fmt.Sprintf("the model is asked again in %s: %s", took(r.WaitMS), r.Reason)
	if r.Discard && v.part != "" {
		text += " (what it has just said is void)"
	}
	v.tell("·", dim, text)
}

// ended shows how a turn ended, where there is something to say.
func (v *view) ended(e *turnEnd) {
	v.close()
	switch e.Reason {
	case "done":
	case "aborted":
		v.tell("✗", red, "stopped")
	default:
		text := e.Text
		if text == "" {
			text = "the turn ended: " + e.Reason
		}
		if e.Error != "" && !strings.Contains(text, strings.TrimRight(e.Error, ". \n")) {
			text += " (" + e.Error + ")"
		}
		v.tell("✗", red, text)
	}
}

// past shows a message that was said before.
func (v *view) past(m saidMessage) {
	v.close()
	line := func(mark, colour, text string) {
		v.answer.line(v.answer.paint(colour, mark) + " " + v.answer.fit(text, 2))
	}
	switch {
	case m.Kind == "start":
		var sent struct {
			Args json.RawMessage `json:"arguments"`
		}
		_ = json.Unmarshal(m.Data, &sent) // a call may have none
		line("▸", bold, m.Tool+" "+oneLine(sent.Args))
	case m.Role == "tool":
		text := m.Content
		if text == "" {
			text = oneLine(m.Data)
		}
		line("·", dim, m.Tool+": "+text)
	case m.Role == "user":
		v.answer.line(v.answer.paint(bold, "> "+v.answer.safe(m.Content)))
	case m.Role == "system":
		line("✗", red, m.Content)
	default:
		v.say("text", m.Content)
		v.close()
	}
}
