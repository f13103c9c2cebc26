package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/policy"
)

type approvalsWatchCmd struct {
	reach
	Principal string `help:"Calls of this principal only: the name of a token, or local." placeholder:"NAME"`
}

func (c *approvalsWatchCmd) Help() string {
	return "While it runs, calls that need an approval wait for it instead of being refused. Each is shown with all its arguments; answer " + choices + ". " +
		"\"n\" may be followed by a reason. \"e\" opens $VISUAL or $EDITOR, or takes the arguments as one line. It ends with Ctrl-C or when there is no more input."
}

// quick is how soon after a question a key cannot have been its answer.
const quick = 300 * time.Millisecond

func (c *approvalsWatchCmd) Run(ctx context.Context, s std) error {
	hub, err := c.live(ctx)
	if err != nil {
		return fmt.Errorf("watch approvals: %w", err)
	}
	defer hub.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &watch{s: s, hub: hub, pages: make(chan approvalsPage), lost: make(chan error, 1), in: newPrompter(s.in)}
	if f, ok := s.in.(*os.File); ok && isTerminal(f) {
		w.tty = f
	}
	go w.poll(ctx, c.Principal)
	s.note("waiting for calls that need an approval; Ctrl-C ends it")
	return w.run(ctx)
}

// prompter reads lines when it is told to, so that between them the terminal
// is free for an editor.
type prompter struct {
	want  chan struct{} // of one
	lines chan string   // closed at the end of the input
	asked bool          // a line is on its way
}

func newPrompter(r io.Reader) *prompter {
	p := &prompter{want: make(chan struct{}, 1), lines: make(chan string)}
	go func() { // it ends with the process: nothing ends the reading of a terminal
		defer close(p.lines)
		in := bufio.NewReader(r)
		for range p.want {
			line, err := in.ReadString('\n')
			if line != "" {
				p.lines <- strings.TrimRight(line, "\r\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *prompter) next() {
	if !p.asked {
		p.asked = true
		p.want <- struct{}{}
	}
}

// watch shows questions one after the other.
type watch struct {
	s     std
	hub   *client
	tty   *os.File // nil: answers come from elsewhere
	pages chan approvalsPage
	lost  chan error
	in    *prompter

	queue []policy.Approval
	now   *policy.Approval // what is being asked
	since time.Time
	edit  *choice // the next line are its arguments
	ahead *string // a line that came before its question; not from a terminal
	over  bool    // the input has ended
}

// poll asks the hub what waits, and by that is there to be asked.
func (w *watch) poll(ctx context.Context, principal string) {
	q := url.Values{"wait": {"25s"}}
	if principal != "" {
		q.Set("principal", principal)
	}
	for {
		page, _, err := w.hub.approvals(ctx, q)
		if err != nil {
			w.lost <- err
			return
		}
		q.Set("after", strconv.FormatUint(page.Next, 10))
		select {
		case w.pages <- page:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) run(ctx context.Context) error {
	for {
		if w.ahead == nil {
			w.in.next()
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.lost:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch approvals: %w", err)
		case page := <-w.pages:
			w.update(page)
		case line, ok := <-w.in.lines:
			if !ok {
				w.over, w.in.lines = true, nil
				break
			}
			w.in.asked = false
			w.heard(ctx, line)
		}
		for w.now != nil && w.ahead != nil {
			line := *w.ahead
			w.ahead = nil
			w.heard(ctx, line)
		}
		if w.over && w.ahead == nil {
			return nil
		}
	}
}

// update takes in what waits now.
func (w *watch) update(page approvalsPage) {
	w.queue = page.Approvals
	if w.now != nil && !slices.ContainsFunc(w.queue, func(a policy.Approval) bool { return a.ID == w.now.ID }) {
		fmt.Fprintln(w.s.out, "\n"+w.s.paint(w.s.out, dim, "it is over: somebody else decided, its time ended, or the call did"))
		w.now, w.edit = nil, nil
	}
	w.ask(page.Now)
}

// ask shows the next question, if none is being asked.
func (w *watch) ask(now time.Time) {
	if w.now != nil || len(w.queue) == 0 {
		return
	}
	a := w.queue[0]
	w.now, w.since = &a, time.Now()
	var whose []string
	for _, part := range [][2]string{{"for ", a.Principal}, {"session ", a.Session}, {"agent ", a.Agent}, {"client ", a.Client}} {
		if part[1] != "" {
			whose = append(whose, part[0]+exactLine(part[1]))
		}
	}
	out := w.s.out
	fmt.Fprintf(out, "%s %s (%s)%s\n", w.s.paint(out, amber, "?"), w.s.paint(out, bold, exactLine(named(&a))), strings.Join(whose, ", "), because(a.Reason))
	for _, line := range changed(a.Change, a.Flags) {
		fmt.Fprintln(out, "  "+line)
	}
	w.show(string(a.Args))
	if a.Sent != nil {
		fmt.Fprintln(out, "  which stands for")
		w.show(string(a.Sent))
	}
	fmt.Fprintln(out, w.s.paint(out, dim, "  "+a.ID+", denied in "+left(&a, now)+" without an answer"))
	w.prompt(choices)
}

// prompt asks for a line. What is not typed leaves no line end.
func (w *watch) prompt(text string) {
	fmt.Fprint(w.s.out, text+": ")
	if w.tty == nil {
		fmt.Fprintln(w.s.out)
	}
}

// show prints arguments, all of them, with nothing hidden.
func (w *watch) show(args string) {
	for line := range strings.Lines(exact(indented([]byte(args)))) {
		fmt.Fprintln(w.s.out, "  "+strings.TrimSuffix(line, "\n"))
	}
}

// heard takes a line for an answer.
func (w *watch) heard(ctx context.Context, line string) {
	switch {
	case w.now == nil && w.tty == nil:
		w.ahead = &line
		return
	case w.now == nil:
		return // nothing was asked
	case w.tty != nil && time.Since(w.since) < quick:
		w.prompt("that was too quick to be an answer to this; " + choices)
		return
	case w.edit != nil:
		c := *w.edit
		w.edit = nil
		w.send(ctx, c, line, "")
		return
	}
	c, reason := parseChoice(line), ""
	if c.decision == "" {
		if word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); parseChoice(word).decision == "deny" {
			c, reason = choice{"deny", "once"}, strings.TrimSpace(rest)
		}
	}
	switch c.decision {
	case "":
		w.prompt(choices)
	case "edit":
		w.editing(ctx, c)
	default:
		w.send(ctx, c, "", reason)
	}
}

// editing lets the person change the arguments.
func (w *watch) editing(ctx context.Context, c choice) {
	if program := editor(); w.tty != nil && program != nil {
		text, err := editFile(ctx, program, w.tty, indented(w.now.Args))
		if err != nil {
			w.again(err)
			return
		}
		w.send(ctx, c, text, "")
		return
	}
	w.edit = &c
	w.prompt("arguments, as one line")
}

// again says what was wrong with an answer, and asks for another.
func (w *watch) again(err error) {
	fmt.Fprintln(w.s.out, w.s.paint(w.s.out, red, printable(err.Error())))
	w.prompt(choices)
}

// send tells the hub. If it does not take it, the question stands: should it
// be over, the next page tells.
func (w *watch) send(ctx context.Context, c choice, args, reason string) {
	d := decision{Decision: c.decision, Remember: c.remember, Reason: reason}
	if c.decision == "edit" {
		raw, err := parseArgs(args)
		if err != nil {
			w.again(err)
			return
		}
		d.Args = raw
	}
	id := w.now.ID
	if err := w.hub.decide(ctx, id, d); err != nil {
		w.again(err)
		return
	}
	said := map[string]string{"approve": "approved", "edit": "approved as edited", "deny": "denied"}[c.decision]
	if c.remember != "once" {
		said += ", for the " + c.remember
	}
	fmt.Fprintln(w.s.out, w.s.paint(w.s.out, dim, said))
	w.queue = slices.DeleteFunc(w.queue, func(a policy.Approval) bool { return a.ID == id })
	w.now = nil
	if len(w.queue) > 0 {
		w.ask(time.Now())
	}
}
