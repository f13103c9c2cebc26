package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// pane is where a conversation is shown: a stream of text that ends within a
// line, with lines of our own between. On a terminal it keeps out of the way
// of the line that is being edited.
type pane struct {
	w      io.Writer
	tty    bool // foreign text is made harmless
	colour bool

	mu     sync.Mutex
	raw    bool      // the terminal starts no line by itself
	editor io.Writer // the line that is being edited, nil if none is; it writes above itself
	held   string    // with an editor: the line that is not yet whole
	middle bool      // the cursor is within a line
	fleet  bool      // what is on the line goes when something else comes
}

func newPane(w io.Writer, colours bool) *pane {
	tty := isTerminal(w)
	return &pane{w: w, tty: tty, colour: tty && colours && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// width is how many characters fit on a line; 0 means any number.
func (p *pane) width() int { return width(p.w) }

func (p *pane) paint(colour, text string) string {
	if !p.colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// stream writes text that goes on.
func (p *pane) stream(text string) {
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if p.editor == nil {
		p.write(text)
		p.middle = !strings.HasSuffix(text, "\n")
		return
	}
	text = p.held + text
	end := strings.LastIndexByte(text, '\n') + 1
	p.held = text[end:]
	if end > 0 {
		p.write(text[:end])
	}
}

// line writes a line of its own.
func (p *pane) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.fresh()
	p.write(text + "\n")
}

// brief shows a line that goes when something else comes; only a terminal
// shows it.
func (p *pane) brief(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.tty || p.editor != nil {
		return
	}
	p.clear()
	p.fresh()
	p.write(p.paint(dim, cut(text, width(p.w)-1)))
	p.fleet = true
}

// wipe takes a brief line away.
func (p *pane) wipe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// startLine ends the line that the cursor is within.
func (p *pane) startLine() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.fresh()
}

func (p *pane) fresh() {
	switch {
	case p.held != "":
		p.write(p.held + "\n")
		p.held = ""
	case p.middle:
		p.write("\n")
	}
	p.middle = false
}

func (p *pane) clear() {
	if p.fleet {
		p.write("\r\x1b[2K")
		p.fleet = false
	}
}

// edit makes room for a line editor, nil for none. Erase takes the one that is
// there off the screen.
func (p *pane) edit(editor io.Writer, erase bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if p.editor, p.middle = nil, p.middle && p.editor == nil; erase {
		p.write("\r\x1b[J")
	}
	p.fresh()
	p.editor = editor
}

// cooked says that the terminal starts lines by itself, for a while.
func (p *pane) cooked(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.raw = !on
}

// write is best effort: who closes the other end of a pipe is told by the
// signal that it brings.
func (p *pane) write(text string) {
	switch {
	case p.editor != nil:
		_, _ = io.WriteString(p.editor, text)
	case p.raw:
		_, _ = p.w.Write(bytes.ReplaceAll([]byte(text), []byte("\n"), []byte("\r\n")))
	default:
		_, _ = io.WriteString(p.w, text)
	}
}

// safe is foreign text as the pane may show it.
func (p *pane) safe(text string) string {
	if p.tty {
		return visible(text)
	}
	return text
}

// maxWrapped is how long a text may be that is shown whole.
const maxWrapped = 4000

// wrapped is foreign text on as many lines as it takes.
func (p *pane) wrapped(text string, used int) string { return wrap(text, p.width(), used) }

// wrap breaks a text into lines of at most n characters; 0 means one line. Those
// after the first begin below the text, which used characters stand before.
func wrap(text string, n, used int) string {
	text = visibleLine(text)
	if all := []rune(text); len(all) > maxWrapped {
		text = fmt.Sprintf("%s… (%d characters more)", string(all[:maxWrapped]), len(all)-maxWrapped)
	}
	if n == 0 {
		return text
	}
	room, lines, line := max(n-used-1, 10), []string{}, ""
	for _, word := range strings.Split(text, " ") {
		for line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		for line += word; utf8.RuneCountInString(line) > room; {
			all := []rune(line)
			lines, line = append(lines, string(all[:room])), string(all[room:])
		}
	}
	return strings.Join(append(lines, line), "\n"+strings.Repeat(" ", used))
}

// fit is foreign text on one line that leaves room for used characters.
func (p *pane) fit(text string, used int) string {
	text = visibleLine(text)
	if n := p.width(); n > 0 {
		return cut(text, max(n-used-1, 10))
	}
	return cut(text, 400)
}
