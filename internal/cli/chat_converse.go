package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// What is being asked on the line that is edited.
const (
	forWords   = "words"   // what to say next
	forConsent = "consent" // whether a tool may be called
	forArgs    = "args"    // with which arguments instead
	forField   = "field"   // what a server wants to know
)

const (
	ctrlC = 3
	enter = '\r'
)

var errTaken = errors.New("the question is not asked any more")

// desk is a person at a terminal: the line that they edit, and the keys that
// they press while there is none.
type desk struct {
	*talk
	keys    *keyboard
	pane    *pane
	history *lineHistory
	prompt  *question
	early   []byte // keys that were pressed while nothing was asked
	armed   bool   // the last key was Ctrl-C
	single  bool   // one answer is all that is wanted
	leaving error  // set when the conversation is over for us; see errLeft
}

// errLeft means that the person has left.
var errLeft = errors.New("left")

// question is one to the person, and the line that is the answer.
type question struct {
	kind  string
	about *askedApproval
	form  *form
	line  *term.Terminal
	feed  *feed
	lines chan keyedIn
}

type keyedIn struct {
	line string
	err  error
}

// converse talks with a person at a terminal, until they leave; with a text,
// until that is answered.
func (t *talk) converse(ctx context.Context, tty *os.File, text string) error {
	keys, err := openKeyboard(tty)
	if err != nil {
		return failed(exitFailed, "Use another terminal, or the flag --json.", "read keys: %w", err)
	}
	defer keys.give()
	d := &desk{talk: t, keys: keys, history: &lineHistory{}, single: text != ""}
	d.screen()
	t.human, t.sock.can = true, canElicit
	if d.single {
		t.alone = true
		t.say(text)
	} else {
		t.sock.giveUp = 0 // the person can leave
	}
	return t.connected(ctx, d.run)
}

// screen finds out where to show what: all of it on one pane if both streams
// lead to the terminal, and questions where the person sees them.
func (d *desk) screen() {
	answer, status := newPane(d.std.out, !d.cmd.NoColor), newPane(d.std.err, !d.cmd.NoColor)
	answer.raw, status.raw = answer.tty, status.tty
	d.pane = status
	if answer.tty {
		d.pane = answer
		if status.tty {
			status = answer
		}
	}
	d.view = newView(answer, status, !d.single)
}

// run is the one goroutine that decides.
func (d *desk) run(ctx context.Context) error {
	defer d.drop()
	for {
		if d.offer(); d.leaving != nil {
			break
		}
		var lines chan keyedIn
		if d.prompt != nil {
			lines = d.prompt.lines
		}
		select {
		case f, ok := <-d.sock.frames:
			if !ok {
				return d.lost()
			}
			d.frame(f)
		case keys := <-d.keys.keys:
			d.pressed(keys)
		case l := <-lines:
			d.keyedIn(ctx, l)
		case <-ctx.Done():
			if d.single {
				return d.wait(ctx) // which stops it
			}
			return ctx.Err()
		}
	}
	switch {
	case !errors.Is(d.leaving, errLeft):
		return d.leaving
	case d.single:
		return d.result()
	}
	return nil
}

// frame takes what the hub sent, and takes a question back that somebody else
// has answered.
func (d *desk) frame(f frame) {
	greeted := d.greeted
	d.take(f)
	if !greeted && d.greeted && !d.single {
		d.welcome(f)
	}
	if p := d.prompt; p != nil && p.form != nil && !d.inquires(p.form) {
		d.drop()
		d.view.hint("it has been answered elsewhere, or it is too late")
	}
	if p := d.prompt; p != nil && p.about != nil && !d.waits(p.about) {
		d.drop()
		d.view.hint("it has been decided elsewhere, or it is too late")
	}
}

func (d *desk) waits(a *askedApproval) bool {
	for _, b := range d.asked {
		if b.ID == a.ID {
			return true
		}
	}
	return false
}

// welcome says where the person is.
func (d *desk) welcome(f frame) {
	var c connectionState
	f.read(&c)
	d.recall()
	if len(d.past) == 0 {
		d.view.hint(c.Message)
	}
	d.view.hint("session " + d.session + "; /help shows what else can be said, Ctrl-D leaves")
}

// offer asks what is to be asked now.
func (d *desk) offer() {
	switch {
	case d.prompt != nil && d.prompt.kind == forWords && len(d.asked)+len(d.questions) > 0:
		d.drop() // a turn of somebody else asks us
	case d.prompt != nil || !d.greeted:
		return
	}
	switch {
	case len(d.asked) > 0:
		d.view.ask(d.asked[0])
		d.view.hint("  " + choices)
		d.ask(&question{kind: forConsent, about: d.asked[0]}, "allow? > ", "")
	case len(d.questions) > 0:
		d.inquire(d.questions[0])
	case d.single && !d.busy():
		d.leaving = errLeft
	case !d.single && !d.busy() && d.turn == "":
		d.ask(&question{kind: forWords}, d.agent+"> ", string(d.early))
		d.early = nil
	}
}

// ask opens the line. What was keyedIn before the question never answers it,
// save that words may wait for their turn.
func (d *desk) ask(p *question, lead, already string) {
	d.view.close()
	p.feed = newFeed()
	p.feed.press([]byte(already))
	p.lines = make(chan keyedIn, 1)
	line := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{p.feed, d.pane.w}, lead)
	p.line = line
	if w, h, err := term.GetSize(int(d.keys.tty.Fd())); err == nil && w > 0 && h > 0 {
		_ = line.SetSize(w, h) // of a line that is empty
	}
	line.History = &lineHistory{}
	if p.kind == forWords {
		line.History = d.history
		line.AutoCompleteCallback = completeSlash
	}
	line.SetBracketedPasteMode(true)
	d.pane.edit(line, false)
	d.prompt = p
	go func() { p.lines <- readLine(line) }()
}

// readLine reads what belongs together: lines that were pasted at once, and
// those after a backslash.
func readLine(line *term.Terminal) keyedIn {
	var all []string
	for {
		text, err := line.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		if err != nil && !pasted {
			return keyedIn{err: err}
		}
		more := strings.HasSuffix(text, `\`)
		all = append(all, strings.TrimSuffix(text, `\`))
		if !pasted && !more {
			return keyedIn{line: strings.Join(all, "\n")}
		}
		line.SetPrompt("… ")
	}
}

// drop takes the question back.
func (d *desk) drop() {
	if d.prompt == nil {
		return
	}
	d.prompt.feed.end(errTaken)
	<-d.prompt.lines
	d.close(true)
}

// close ends the line; erase takes it off the screen.
func (d *desk) close(erase bool) {
	d.prompt.line.SetBracketedPasteMode(false)
	d.pane.edit(nil, erase)
	if d.prompt.kind == forWords { // keys for another question are for no other
		d.early = append(d.early, d.prompt.feed.rest()...)
	}
	d.prompt = nil
}

// pressed takes keys: Ctrl-C is for us, and all others for the line.
func (d *desk) pressed(keys []byte) {
	if keys == nil {
		d.leaving = errLeft // the terminal has gone
		return
	}
	for i, part := range bytes.Split(keys, []byte{ctrlC}) {
		if i > 0 {
			d.interrupt()
		}
		if len(part) > 0 {
			d.armed = false
			d.keyed(part)
		}
	}
}

// keyed takes keys that are part of a line, if not of this one, then of the
// next. Only /abort and /skip cannot wait that long.
func (d *desk) keyed(keys []byte) {
	if d.prompt != nil {
		d.prompt.feed.press(keys)
		return
	}
	d.early = append(d.early, keys...)
	lines := bytes.SplitAfter(d.early, []byte{enter})
	for i, line := range lines {
		text, whole := bytes.CutSuffix(line, []byte{enter})
		switch command := string(bytes.TrimSpace(text)); {
		case !whole || command != "/abort" && command != "/skip":
			continue
		case command == "/skip" && d.skip():
			d.view.brief("stopping the call…")
		case command == "/skip":
			d.view.hint("no call is running")
		default:
			d.stop()
		}
		d.early = bytes.Join(slices.Delete(lines, i, i+1), nil)
		return
	}
}

// interrupt is what Ctrl-C does.
func (d *desk) interrupt() {
	again := d.armed
	d.armed = true
	d.early = nil
	switch {
	case again:
		d.leaving = &failure{err: errSilent, code: exitInterrupted}
	case d.busy() || d.turn != "":
		d.stop()
	default:
		d.drop()
		d.early = nil
		d.view.hint("Ctrl-C again leaves, and so do Ctrl-D and /quit")
	}
}

// stop aborts the turn; a question about it is not asked any more.
func (d *desk) stop() {
	d.drop()
	d.asked, d.questions = nil, nil
	d.abort()
	d.view.brief("stopping…")
}

// keyedIn takes a line.
func (d *desk) keyedIn(ctx context.Context, l keyedIn) {
	p := d.prompt
	d.close(false)
	switch {
	case l.err != nil && p.kind == forWords:
		d.leaving = errLeft // Ctrl-D
	case l.err != nil && p.kind == forField:
		d.reply(p.form.ID, "cancel", nil)
	case l.err != nil:
		d.settle(p.about, approvePayload{Decision: "deny"})
	case p.kind == forWords:
		d.words(ctx, l.line)
	case p.kind == forConsent:
		d.consent(ctx, p.about, l.line)
	case p.kind == forArgs:
		d.args(p.about, l.line)
	case p.kind == forField:
		d.field(p.form, l.line)
	}
}

func (d *desk) words(ctx context.Context, line string) {
	switch {
	case strings.TrimSpace(line) == "":
	case strings.HasPrefix(line, "/"):
		left, err := d.aside(ctx, func() (bool, error) { return d.slash(ctx, line) })
		switch {
		case ctx.Err() != nil:
		case err != nil:
			d.view.tell("✗", red, err.Error())
			if hint := describe(err).hint; hint != "" {
				d.view.hint(hint)
			}
		case left:
			d.leaving = errLeft
		}
	default:
		d.say(line)
	}
}

// aside does something that has the terminal for itself.
func (d *desk) aside(ctx context.Context, do func() (bool, error)) (bool, error) {
	d.keys.give()
	d.pane.cooked(true)
	left, err := do()
	d.pane.cooked(false)
	if taken := d.keys.take(); taken != nil {
		d.leaving = taken
	}
	return left, err
}
